//! Schedules: the cost is correct, schedules keep what they must, the paper's method finds the best on
//! its grid, improvers improve, and copies are served until they are refreshed.

#[path = "../../../../core/tests/core/any_policy.rs"]
mod any_policy;
mod baselines;
mod caching;
mod cost;
mod improve;
mod optimal;
mod reference;
mod world;
