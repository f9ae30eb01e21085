//! Planning: that the cost is what it says, that schedules keep what they must, that the paper's
//! method finds the best on its grid, and that improvers improve.

mod baselines;
mod cost;
mod execution;
mod improve;
mod optimal;
mod reference;
mod rolling;
mod world;
