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
pub mod fleet_price;
pub mod garden;
pub mod gate;
pub mod loading;
pub mod note;
pub mod params;
pub mod profile_rule_registry;
pub mod reason;
pub mod recording;
pub mod slot_stats;
pub mod source_memory;
pub mod state;
pub mod undiscovered_lower_bounds;
pub mod views;

mod configure;
mod deadline;
mod deadline_updates;
mod demand_curve;
mod early_probes;
mod end_probe;
mod fleet_mean;
mod hand_out_slots;
mod handle;
mod hosts;
mod outage;
mod plan_state;
mod plans;
mod profile_rule_intervals;
mod profile_rule_pending;
mod profile_rule_schedule;
mod recording_redaction;
mod slot_queue;
mod slot_reservations;
mod source;
mod source_demand;
mod urgency;
mod wait_state;
mod wait_transitions;
