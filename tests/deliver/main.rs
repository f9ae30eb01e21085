//! Deliveries from the outbox on: real programs, real sockets on loopback, real files and a real
//! store; in order, at least once, and without a word too many.

mod command;
#[path = "../desk/mod.rs"]
mod desk;
mod exec;
mod feeds;
mod lanes;
mod office;
mod rows;
#[path = "../web/mod.rs"]
mod web;
mod webhooks;
