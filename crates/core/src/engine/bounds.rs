//! How few undiscovered updates any schedule can have with c probes per step.
//!
//! The cost of Mahmoody et al. (Definition 4): the long-run expected number of undiscovered
//! updates, where a gap of ℓ steps costs π·ℓ(ℓ+1)/2 (proof of Theorem 1). Two bounds that hold for
//! *every* schedule: theirs, and a tighter one. The tighter one puts a price W on a probe. A source
//! that pays it is best off with equal gaps of the best whole length, at
//! min_ℓ π(ℓ+1)/2 + W/ℓ per step; all sources together cannot do better than the sum of that less
//! c·W, for any W, so the largest such value is a bound (Lagrangian duality). It is concave in W,
//! and its slope is how many probes per step the price would sell, less c. Knows rates only.

/// What is known of a source by whoever asks for a bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SourceDemand {
    /// π: updates per step, times the source's weight.
    pub rate: f64,
    /// Its budget: no less than so many steps between probes, in the mean. One if it has none.
    pub least_gap: f64,
}

impl SourceDemand {
    /// A source without a budget of its own.
    pub fn of(rate: f64) -> Self {
        Self { rate, least_gap: 1.0 }
    }

    /// The best gap in whole steps at a price per probe.
    fn gap(&self, price: f64) -> f64 {
        let least = self.least_gap.floor().max(1.0);
        // π(ℓ+1)/2 + W/ℓ is least at √(2W/π); its whole neighbours differ by whether
        // ℓ(ℓ+1)·π/2 has reached W.
        let gap = (0.25 + 2.0 * price / self.rate).sqrt() - 0.5;
        gap.ceil().max(least)
    }

    /// The least cost per step at a price per probe, the price paid included.
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
    /// By how much it would fall for one more probe per step.
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

/// The tighter bound: whole gaps, no shorter than budgets allow, at the price that sells
/// `per_step` probes.
pub fn tight(demands: &[SourceDemand], per_step: f64) -> Bound {
    let demands = || demands.iter().filter(|demand| demand.rate > 0.0);
    let sold = |price: f64| demands().map(|demand| demand.gap(price).recip()).sum::<f64>();
    let value = |price: f64| demands().map(|demand| demand.cost(price)).sum::<f64>() - per_step * price;
    let most = value(0.0);
    if sold(0.0) <= per_step {
        return Bound { cost: most, price: 0.0 };
    }
    // (Σ√π)²/2c² is the price without whole steps and budgets: within a few doublings of it.
    let roots: f64 = demands().map(|demand| demand.rate.sqrt()).sum();
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
