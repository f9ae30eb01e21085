//! Gardens tried out: who waters what in time, and what that takes, for one capacity after the other.
//!
//! Exists so that a capacity can be chosen by what it costs and what it buys: less work is later work, and which of
//! the two counts more is for people to say. Knows plants, the beds they are counted in, and who may water them
//! ([`engine::garden`](tidewatch_core::engine::garden)). Must not know where plants come from.
//!
//! MEDD is the engine's. [`edd`] waters whatever is due next as long as there is capacity, [`printed`] is MEDD as the
//! paper has it, and [`power`] is a fixed schedule that keeps every window. A [`cube`] keeps the measures of all days.

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

/// A policy that says what is watered on each day.
pub trait Gardener {
    /// What is watered today, by its place in the list, and the day is over. The first day is 1; everything was
    /// watered on day 0.
    fn day(&mut self) -> Vec<usize>;
}

impl Gardener for Medd {
    fn day(&mut self) -> Vec<usize> {
        Medd::day(self)
    }
}
