//! How other pollers would have watched a feed, by the rules that their projects document.
//!
//! Exists so that our schedules can be held against what people run today, with equally many probes.
//! A peer sees what a probe shows it and nothing else. Each has one knob that makes it probe more or
//! less; at its usual setting the rule is the documented one with the documented defaults. Limits that
//! would keep a number of probes out of reach move with the knob, which each rule says of itself.
//!
//! Left out for all alike: what servers ask for (`ttl`, `Cache-Control`, `Retry-After`), failures, and
//! queues that make a probe late. So a peer is shown at its best.
//!
//! Knows peers and one feed. Must not know our own policies, nor how a schedule is judged.

mod commafeed;
mod miniflux;
mod nutch;
pub mod peer;
mod rule;
pub mod watch;
