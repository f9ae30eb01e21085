//! Telling those who asked.
//!
//! Exists so that whoever is to be told is told at least once and in order, whatever happens to
//! them or to us meanwhile, and so that no probe ever waits for it. Takes up rows of the outbox,
//! makes one attempt at a time for each target, and settles a row only when it is known how the
//! attempt ended. Knows how programs, webhooks and feed files are told. Must not know what is worth
//! telling: a row of the outbox is all that it sees of sources, rules and updates.

mod atom;
mod attempt;
pub mod courier;
mod exec;
mod lane;
mod parcel;
mod verdict;
mod webhook;
