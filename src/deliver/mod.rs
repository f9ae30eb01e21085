//! Delivers matches to programs, webhooks and feed files.
//!
//! Each match is delivered at least once, and those of a source in order, across failures and restarts. None
//! delays a probe.
//! Makes one attempt at a time for each target. Settles a row of the outbox only when the result of its
//! attempt is known. Must not know sources, rules or updates: it sees only rows of the outbox.

mod atom;
mod attempt;
mod delivery_outcome;
pub mod dispatcher;
mod exec;
mod shipment;
mod target_worker;
mod webhook;
