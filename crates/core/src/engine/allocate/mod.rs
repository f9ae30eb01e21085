//! Who of those that may be probed is probed in this step.
//!
//! The allocators of Mahmoody, Kornaropoulos and Upfal, and two of ours, as one closed set behind
//! one type. Sources are known by a place in a dense list; whoever may be probed is *open*, and
//! whoever is chosen is open no longer until somebody says so again: so one step never chooses a
//! source twice, and politeness is settled before a slot is spent. Time is counted in steps. Choosing
//! and opening cost O(log n) a probe whatever the number of sources, and equal seeds give equal
//! choices. Knows rates and ages; must not know where rates come from, nor what a source is.

mod allocation;
mod cyclic;
mod ripening;
mod rota;
mod sums;
mod turn;
mod wheel;

pub use allocation::Allocation;
pub use ripening::Claim;
pub use turn::Turn;
