//! Polite and optimal polling of many sources.
//!
//! Everything here is pure: no clock, no I/O, no async, no global. The time is always passed in and
//! chance comes from seeded streams, so equal inputs give equal outputs on any machine.
//!
//! | module | subject |
//! |---|---|
//! | [`time`], [`rng`], [`source_id`] | instants and spans in milliseconds; seeded random streams; the number of a source |
//! | [`model`] | what is believed of one source |
//! | [`observe`] | bytes in, values out: feeds, pages, items, updates |
//! | [`planning`] | when one source wants a probe |
//! | [`engine`] | all sources under one limit, and the politeness gate |
//! | [`rule_matching`] | which updates the rules of profiles match |

#![deny(clippy::iter_over_hash_type)]

pub mod engine;
pub mod model;
pub mod observe;
pub mod planning;
pub mod rng;
pub mod rule_matching;
pub mod source_id;
pub mod step;
pub mod time;
