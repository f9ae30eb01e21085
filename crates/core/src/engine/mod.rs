//! *All* sources under one limit: who is probed in this step, and what follows from what it found.
//!
//! [`Fleet`] is a pure state machine. The daemon and the simulator own one each and drive it the
//! same way: [`Fleet::step`] says what to probe, [`Fleet::absorb`] takes what came of it and says
//! what to remember, [`Fleet::landed`] hears that it was remembered, [`Fleet::plan_orders`] says for
//! whom plans are to be made, [`Fleet::adopt`] takes them, [`Fleet::reconfigure`] a changed source list,
//! [`Fleet::fell_late`] says who has gone unseen for too long. The politeness gate has the last word on every
//! probe. [`garden`] has how everybody is looked at every so often with the least work, [`tardiness`] what that
//! means for sources. Must not know the
//! network, the store or what time it is: `now` is passed in.

mod absorb;
pub mod allocate;
pub mod book;
pub mod bounds;
mod calendar;
pub mod frontier;
pub mod garden;
pub mod gate;
pub mod life;
pub mod load;
pub mod outage;
pub mod params;
mod planning;
mod rules;
pub mod serving;
pub mod source;
mod spacing;
mod state;
mod step;
pub mod tardiness;
mod turns;

pub use absorb::{Absorbed, Answered, Asked, Failure, HostAsks, Note, Report};
pub use params::{Allocator, BurstTerms, CostBy, FleetParams, Response};
pub use state::{Changed, Explanation, Fleet, Known, Moved, Order, Refusal, Stale};
