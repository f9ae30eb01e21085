//! Simulations of gardens: tardiness and work of policies, for one capacity after the other.
//!
//! They show the cost and the benefit of each capacity, so that a user can choose one: less work means more
//! tardiness. Policies water plants, which are counted in beds
//! ([`engine::garden`](tidewatch_core::engine::garden)). Must not know the origin of plants.
//!
//! MEDD is the engine's. [`edd`] waters plants by due day while there is capacity. [`printed`] is MEDD as the
//! paper prints it. [`power`] is a fixed schedule that meets every window. A [`cube`] stores the measures of
//! all days.

use tidewatch_core::engine::garden::medd::Medd;

pub mod answer;
pub mod cube;
pub mod document;
pub mod edd;
pub mod front;
pub mod instance;
pub mod made_up;
pub mod outcome;
pub mod picture;
pub mod policy;
pub mod power;
pub mod printed;
pub mod scatter;
pub mod sweep;
pub mod text;
pub mod trials;
pub mod walk;

/// A policy that selects the plants to water on each day.
pub trait Gardener {
    /// Waters the plants of today and ends the day. Returns their indices. The first day is 1; all plants
    /// were watered on day 0.
    fn day(&mut self) -> Vec<usize>;
}

impl Gardener for Medd {
    fn day(&mut self) -> Vec<usize> {
        Medd::day(self)
    }
}
