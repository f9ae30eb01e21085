//! The rates of LambdaCrawl: the harmonic cost at a price.
//!
//! A. Kolobov, Y. Peres, C. Lu and E. Horvitz, "Staying up to date with online content changes using
//! reinforcement learning for scheduling" (2019). The cost of k undiscovered updates is μ·H(k), with H(k) the
//! k-th harmonic number. Under memoryless probes at the rate ρ it is μ·ln(1 + Δ/ρ) on average. Another probe
//! saves μ·Δ/(ρ·(ρ + Δ)) of it; at the optimum that equals the price ν.

/// ρ = (−Δ + √(Δ² + 4Δ/ν))/2, per hour.
pub(super) fn probe_rate(change_rate: f64, price: f64) -> f64 {
    if change_rate <= 0.0 {
        return 0.0;
    }
    // The same without the difference of two close numbers.
    let ratio = change_rate / price;
    2.0 * ratio / (change_rate + (change_rate * change_rate + 4.0 * ratio).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_match_hand_values() {
        // (−1 + √(1 + 8))/2, and (−3 + √(9 + 16))/2.
        assert!((probe_rate(1.0, 0.5) - 1.0).abs() < 1e-12);
        assert!((probe_rate(3.0, 0.75) - 1.0).abs() < 1e-12);
        assert_eq!(probe_rate(0.0, 0.5), 0.0);
        // A fast source is not given up: ρ approaches 1/ν.
        assert!((probe_rate(1e9, 0.5) - 2.0).abs() < 1e-6);
    }

    #[test]
    fn saved_harmonic_cost_equals_the_price() {
        for (change_rate, price) in [(0.01_f64, 0.5), (0.3, 0.02), (2.0, 0.1), (50.0, 0.19)] {
            let cost = |rate: f64| (change_rate / rate).ln_1p();
            let rate = probe_rate(change_rate, price);
            let step = rate * 1e-4;
            let saved = (cost(rate - step) - cost(rate + step)) / (2.0 * step);
            assert!((saved / price - 1.0).abs() < 1e-6, "Δ {change_rate}: {saved} at {price}");
        }
    }
}
