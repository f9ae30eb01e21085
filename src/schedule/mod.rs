//! When *one* source wants a probe.
//!
//! Pure functions of what is known, the last probe and now. Must not know other sources, hosts or
//! how a probe is sent.

pub mod budget;
pub mod horizon;
pub mod plan;
pub mod policy;
pub mod rolling;
pub mod spread;
