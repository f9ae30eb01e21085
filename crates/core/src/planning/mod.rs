//! When *one* source wants a probe.
//!
//! Pure functions of what is known, the last probe and now. Must not know other sources, hosts or
//! how a probe is sent.
//!
//! A [`horizon`] says what is asked of a schedule. [`optimal`] finds the best one on a grid by passes
//! over its slots (`pass`), counting probes out where earlier spending is in the way (`layers`).
//! [`rolling`] puts the question for a running source, with [`complete`] to see that its feed loses
//! nothing, and its answer becomes the [`plan`] that the engine follows.
//!
//! Other policies go from probe to probe: by what is [`expected`] of a source, by its [`ttl`], by a
//! [`level`] of what piles up (`pile`), or [`spread`] evenly. [`ask`] has an answer of each of them, and a
//! [`chain`] of answers is followed like a plan.
//! Where updates are wanted within a time rather than as soon as can be, [`execution`] has the fewest probes that do, and [`prediction`]
//! the times at which they are likely: the fewest cells (`cover`) of a `row` of slots that hold every X-th update
//! (`nth`) with the confidence that is asked for, looked at again and again (`pursuit`).

pub mod active;
pub mod ask;
pub mod budget;
pub mod build;
pub mod chain;
pub mod complete;
mod cover;
pub mod execution;
pub mod expected;
pub mod horizon;
mod layers;
pub mod level;
mod nth;
pub mod optimal;
mod pass;
mod pile;
pub mod plan;
pub mod policy;
pub mod prediction;
mod pursuit;
pub mod rolling;
mod row;
pub mod rule;
pub mod spread;
pub mod ttl;
