//! A rate as it is stored.

use tidewatch_core::model::aggregate::RateOrigin;
use tidewatch_core::model::cyclic::Rate;

/// A source's rate, and how well founded it is.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRate {
    /// λ(t).
    pub rate: Rate,
    /// Whose history it is from.
    pub origin: RateOrigin,
    /// Updates of its own in evidence.
    pub updates: u32,
}
