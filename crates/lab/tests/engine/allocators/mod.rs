//! The allocators: that each keeps what its paper promises, that the index comes near what no schedule
//! can undercut, that rates are learned, and that nobody is chosen who may not be.

mod choices;
mod factors;
mod learning;
mod model;
mod optimum;
mod theorems;
mod worlds;
