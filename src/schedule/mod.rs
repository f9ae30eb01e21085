//! When *one* source wants a probe.
//!
//! Pure functions of what is known, the last probe and now. Must not know other sources, hosts or
//! how a probe is sent.

pub mod baselines;
pub mod bound;
pub mod budget;
pub mod complete;
pub mod finish;
pub mod horizon;
mod layers;
mod line;
pub mod moves;
pub mod optimal;
mod pass;
pub mod plan;
pub mod policy;
pub mod reference;
pub mod rolling;
pub mod spread;
