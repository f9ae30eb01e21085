//! The engine: decides which source is probed when, and processes the results.
//!
//! [`state::Engine`] is a pure state machine with one entry point: it takes an [event](event::EngineEvent)
//! and appends the [actions](action::Action) to execute. The daemon, the simulator and the tests drive the
//! same function. No probe is sent before its start is committed, and no state builds on a result before
//! that is committed. The politeness [gate](mod@gate) decides last on every probe. Must not know the
//! network, the store or the current time: `now` is passed in.

pub mod action;
pub mod allocate;
pub mod burst_state;
pub mod constraint;
pub mod deadline_index;
pub mod event;
pub mod garden;
pub mod gate;
pub mod loading;
pub mod memory;
pub mod note;
pub mod params;
pub mod reason;
pub mod recording;
pub mod rule_registry;
pub mod slot_stats;
pub mod state;
pub mod undiscovered_bounds;
pub mod views;

mod condition;
mod configure;
mod deadline;
mod deadline_checks;
mod end_probe;
mod fleet_mean;
mod hand_out_slots;
mod handle;
mod hosts;
mod outage;
mod plan_state;
mod plans;
mod profile_rules;
mod redact;
mod reservations;
mod rule_intervals;
mod rule_pending;
mod slot_queue;
mod source;
mod urgency;
mod waiting;
