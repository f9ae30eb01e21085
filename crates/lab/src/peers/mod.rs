//! The polling rules of other projects, as documented by them.
//!
//! Our schedules are compared with them at equal numbers of probes. A peer gets the result of each probe and
//! nothing else. Each has one knob for its number of probes; at its default the rule is the documented one.
//! Limits that would exclude a number of probes scale with the knob, as each rule documents. Must not know
//! our own policies, nor how a schedule is scored.
//!
//! Not modelled for any peer: server hints (`ttl`, `Cache-Control`, `Retry-After`), failures, and queues that
//! delay a probe. So the results are the peers' best case.

mod commafeed;
mod miniflux;
mod nutch;
pub mod peer;
pub mod peer_feed;
mod rule;
