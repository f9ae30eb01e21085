//! The daemon over real sockets, files and signals.

mod deliver;
#[path = "../desk/mod.rs"]
mod desk;
mod fetch;
mod politeness;
mod process;
mod relearning;
mod same_actions;
mod scheduler_ends;
mod store;
mod tls;
mod web;
