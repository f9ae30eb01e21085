//! A stored rate.

use tidewatch_core::model::aggregate::RateOrigin;
use tidewatch_core::model::cyclic::Rate;

/// A source's rate, and the amount of evidence for it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRate {
    /// λ(t).
    pub rate: Rate,
    /// Whether it was fitted from the source's history, its group's, or both.
    pub origin: RateOrigin,
    /// Updates of the source in the evidence.
    pub updates: u32,
    /// Variance over mean of its counts, at least 1.
    pub dispersion: f64,
}
