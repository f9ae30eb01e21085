//! The probe times of *one* source.
//!
//! Pure functions of the source's state, its last probe and the current time. May not know other sources,
//! hosts or how a probe is sent.
//!
//! A [`horizon`] defines a planning problem. [`optimal`] finds the best schedule on a grid by dynamic
//! programming over its slots (`grid_dp`), and counts probes where earlier spending limits them (`layers`).
//! [`plan_input`] poses the problem for a running source, with [`feed_overflow`] to prevent lost feed items.
//! The result becomes the [`plan`] that the engine follows.
//!
//! Other policies compute one probe at a time: from the [`expected`] updates, from a [`ttl`], from a
//! [`level`] of accumulated cost (`cost_accumulator`), or [`spread`] evenly. [`next_probe`] computes the
//! next probe of each of them, and a [`chain`] of such probes is followed like a plan.
//!
//! For updates that are due within a time window, [`execution`] finds the fewest probes, and [`prediction`]
//! the times of likely updates: the fewest cells (`cover`) of a `slot_grid` that contain every X-th update
//! (`nth`) with the given confidence, under repeated probes (`feedback_model`).

pub mod active;
pub mod budget;
pub mod build;
pub mod chain;
mod cost_accumulator;
mod cover;
pub mod execution;
pub mod expected;
pub mod feed_overflow;
mod feedback_model;
mod grid_dp;
pub mod horizon;
mod layers;
pub mod level;
pub mod next_probe;
mod nth;
pub mod optimal;
pub mod plan;
pub mod plan_input;
pub mod policy;
pub mod prediction;
pub mod rule;
mod slot_grid;
pub mod spread;
pub mod ttl;
