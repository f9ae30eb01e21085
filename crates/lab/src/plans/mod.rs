//! The papers' algorithms for the schedule of one source, to compare with and to explain.
//!
//! [`reference`](mod@reference) is the published way to the best schedule on a grid, [`baselines`] are the policies
//! that it is compared with. [`moves`] and [`finish`] improve a schedule in continuous time, for which [`bound`] has
//! a lower bound. [`caching`] answers the caching problem: whether a copy is still good.
//!
//! Must not know sources, files or clocks.

pub mod baselines;
pub mod bound;
pub mod caching;
pub mod finish;
mod line;
pub mod moves;
pub mod reference;
