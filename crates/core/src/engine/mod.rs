//! All sources under one limit: which is probed when, and what follows from what a probe found.
//!
//! [`state::Engine`] is a pure state machine with one entry point: it is told of an
//! [event](event::Event) and appends the [actions](action::Action) to be taken. The daemon, the simulator
//! and the tests drive that same function. Nothing is sent before its start is committed, and nothing is
//! built on a result before that is committed. The politeness [gate](mod@gate) has the last word on every
//! probe. Must not know the network, the store or what time it is: `now` is passed in.

pub mod action;
pub mod allocate;
pub mod book;
pub mod bounds;
pub mod constraint;
pub mod deadline_index;
pub mod event;
pub mod garden;
pub mod gate;
pub mod life;
pub mod load;
pub mod loading;
pub mod memory;
pub mod note;
pub mod params;
pub mod reason;
pub mod recording;
pub mod state;
pub mod views;

mod absorb;
mod calendar;
mod condition;
mod configure;
mod deadline;
mod handle;
mod hosts;
mod keep_deadlines;
mod mean;
mod outage;
mod plan_state;
mod plans;
mod redact;
mod rule_wish;
mod rules;
mod serving;
mod source;
mod step;
mod turns;
mod urgency;
mod waiting;
