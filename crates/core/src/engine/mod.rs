//! The engine: decides which source is probed when, and processes the results.
//!
//! [`state::Engine`] is a pure state machine with one entry point: it takes an [event](event::EngineEvent)
//! and appends the [actions](action::Action) to execute. The daemon, the simulator and the tests drive the
//! same function. No probe is sent before its start is committed, and no state builds on a result before
//! that is committed. The politeness [gate](mod@gate) decides last on every probe. Must not know the
//! network, the store or the current time: `now` is passed in.

pub mod action;
pub mod allocate;
pub mod constraint;
pub mod deadline_index;
pub mod event;
pub mod fleet_price;
pub mod garden;
pub mod gate;
pub mod loading;
pub mod note;
pub mod params;
pub mod reason;
pub mod recording;
pub mod rule_counts;
pub mod slot_stats;
pub mod source_memory;
pub mod source_phase;
pub mod state;
pub mod undiscovered_lower_bounds;
pub mod views;

mod after_crash;
mod configure;
mod crash_suspects;
mod deadline;
mod deadline_updates;
mod demand_curve;
mod end_probe;
mod fleet_mean;
mod hand_out_slots;
mod handle;
mod hosts;
mod new_source_probes;
mod outage;
mod pardon;
mod plan_requests;
mod plan_state;
mod recording_redaction;
mod redirects;
mod rule_schedule;
mod shared_limits;
mod slot_queue;
mod slot_reservations;
mod source;
mod source_demand;
mod source_rule_intervals;
mod source_rule_probes;
mod unused_hosts;
mod urgent_cause;
mod wait_state;
mod wait_transitions;
