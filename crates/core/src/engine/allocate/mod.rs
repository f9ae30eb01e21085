//! Chooses which of the open sources are probed in a step.
//!
//! The allocators of Mahmoody, Kornaropoulos and Upfal, and two more, as one closed set behind one type. A
//! source is an index into a dense list. It is *open* while it may be chosen, and closed once it is chosen.
//! So a step chooses no source twice, and the gate is checked before a slot is used. Time is counted in
//! steps. Opening and choosing cost O(log n) per probe. Equal seeds give equal choices. Knows rates and
//! ages; must not know where rates come from, nor what a source is.

mod allocators;
mod candidate;
mod cyclic;
mod index_wheel;
mod round_robin;
mod timer_wheel;
mod weighted_sampler;

pub use allocators::Allocation;
pub use candidate::OpenSource;
pub use index_wheel::Claim;
