//! Lower bounds on undiscovered updates for any schedule with c probes per step.
//!
//! The cost is that of Mahmoody et al. (Definition 4): the long-run expected number of undiscovered
//! updates, where a gap of ℓ steps costs π·ℓ(ℓ+1)/2 (proof of Theorem 1). Two bounds hold for *every*
//! schedule: theirs, and a tighter one. Knows rates only.
//!
//! The tighter bound puts a price W on a probe. At that price the best schedule of one source has equal
//! gaps of the best whole length and costs min_ℓ π(ℓ+1)/2 + W/ℓ per step. No schedule of all sources costs
//! less than the sum of these minus c·W, for any W; the largest such value is the bound (Lagrangian
//! duality). It is concave in W. Its slope is the number of probes per step at that price, minus c.

/// The update rate of one source, and the limit of its budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SourceRate {
    /// π: updates per step, times the source's weight.
    pub rate: f64,
    /// The least mean number of steps between probes by its budget; 1 without a budget.
    pub least_gap: f64,
}

impl SourceRate {
    /// A source without a budget.
    pub fn of(rate: f64) -> Self {
        Self { rate, least_gap: 1.0 }
    }

    /// The best gap in whole steps at a price per probe.
    fn gap(&self, price: f64) -> f64 {
        let least = self.least_gap.floor().max(1.0);
        // π(ℓ+1)/2 + W/ℓ is least at √(2W/π). The best whole ℓ is the first with ℓ(ℓ+1)·π/2 ≥ W.
        let gap = (0.25 + 2.0 * price / self.rate).sqrt() - 0.5;
        gap.ceil().max(least)
    }

    /// The least cost per step at a price per probe, including the price.
    fn cost(&self, price: f64) -> f64 {
        let gap = self.gap(price);
        self.rate * (gap + 1.0) / 2.0 + price / gap
    }
}

/// A bound, and the price at which it is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// No schedule has fewer undiscovered updates in the long run.
    pub cost: f64,
    /// The decrease of the bound per additional probe per step.
    pub price: f64,
}

/// Theorem 1: max{Σπ, (Σ√π)²/2c}.
pub fn theorem_1(rates: impl Iterator<Item = f64>, per_step: f64) -> f64 {
    let (mut sum, mut roots) = (0.0, 0.0);
    for rate in rates {
        sum += rate;
        roots += rate.sqrt();
    }
    sum.max(roots * roots / (2.0 * per_step))
}

/// The tighter bound: whole gaps, no shorter than budgets allow, at the price where `per_step` probes are
/// used.
pub fn tight(rates: &[SourceRate], per_step: f64) -> Bound {
    let rates = || rates.iter().filter(|source| source.rate > 0.0);
    let sold = |price: f64| rates().map(|source| source.gap(price).recip()).sum::<f64>();
    let value = |price: f64| rates().map(|source| source.cost(price)).sum::<f64>() - per_step * price;
    let most = value(0.0);
    if sold(0.0) <= per_step {
        return Bound { cost: most, price: 0.0 };
    }
    // (Σ√π)²/2c² is the price without whole steps and budgets; the true one is within a few doublings.
    let roots: f64 = rates().map(|source| source.rate.sqrt()).sum();
    let mut high = (roots / per_step).powi(2).max(f64::MIN_POSITIVE);
    while sold(high) > per_step && high < f64::MAX / 4.0 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..60 {
        let price = f64::midpoint(low, high);
        if sold(price) > per_step {
            low = price
        } else {
            high = price
        }
        if high - low <= 1e-9 * high {
            break;
        }
    }
    let cost = value(low).max(value(high)).max(most);
    Bound { cost, price: high }
}
