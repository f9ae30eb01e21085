//! Deliveries from the outbox on, with real programs, sockets on loopback, files and a store.
//! They arrive in order and at least once, and no secret is logged.

mod command;
mod exec;
mod feeds;
mod fixture;
mod rows;
mod target_workers;
mod webhooks;
