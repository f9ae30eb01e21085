//! Deliveries from the outbox on: real programs, real sockets on loopback, real files and a real
//! store; in order, at least once, and without a word too many.

mod command;
mod exec;
mod feeds;
mod lanes;
mod office;
mod rows;
mod webhooks;
