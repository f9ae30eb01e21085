//! The rules of polite polling, each against a server that records its requests.
//!
//! The whole daemon runs on a clock that is hundreds or thousands of times as fast, so that hours pass
//! in seconds. No assertion depends on the machine's speed: limits are lower bounds. The daemon counts
//! them from the end of a request, and the server sees its beginning earlier.

mod bounds;
mod changes;
mod clock;
mod deadlines;
mod hosts;
mod proof;
mod redirects;
mod replaced_stores;
mod requests;
mod rules;
mod silences;
mod timing;
mod unchanged_bodies;
mod validators;
pub mod world;
mod wrong_clock;
mod year;
