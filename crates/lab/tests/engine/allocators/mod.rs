//! The allocators: each keeps the bound of its paper, the index is near the lower bound of all schedules,
//! rates are learned, and only open sources are chosen.

mod choices;
mod factors;
mod learning;
mod model;
mod optimum;
mod theorems;
mod worlds;
