//! The papers' algorithms for the schedule of one source, to compare with and to explain.
//!
//! [`reference`](mod@reference) is the published algorithm for the best schedule on a grid; [`baselines`] are
//! the policies that it is compared with. [`moves`] and [`exact_descent`] improve a schedule in continuous
//! time, for which [`bound`] has a lower bound. [`caching`] decides whether a copy may still be served.
//! [`search`] solves a [`problem`] by any of them; [`text`], [`document`] and [`picture`] show the result.
//! Must not know sources, files or clocks.

pub mod axis;
pub mod baselines;
pub mod bound;
pub mod caching;
pub mod days;
pub mod document;
pub mod exact_descent;
pub mod moves;
pub mod picture;
mod probe_sequence;
pub mod problem;
pub mod reference;
pub mod search;
pub mod text;
