//! The long-running process and its tokio tasks.
//!
//! One task owns the engine and carries out its actions ([`scheduler`]). Others fetch ([`prober`]), write
//! (the store's writer), fit rates ([`refit`]), build plans ([`planner`]) and reload the configuration
//! ([`reload`]). Tasks exchange messages and share no state. A task that ends without a stop command is a
//! crash and ends the process with an error.

pub mod activity;
mod descriptors;
pub mod document_readers;
mod match_records;
pub mod messages;
mod notes;
pub mod notify;
pub mod once;
mod open_store;
pub mod pardon;
pub mod planner;
pub mod probe;
pub mod probe_context;
pub mod probe_record;
pub mod prober;
pub mod record;
mod redirects;
pub mod refit;
mod relearn;
pub mod reload;
mod retention;
mod robots_check;
mod rule_checks;
pub mod run;
pub mod scheduler;
pub mod signals;
pub mod startup;
mod stopped_probe;
mod stored_model;
mod supervised_tasks;
pub mod watchdog;
