//! What we believe of one source.
//!
//! Today that is only how much the user cares when: the importance a(t). Must not know how
//! probes are sent, planned or stored.

pub mod importance;
