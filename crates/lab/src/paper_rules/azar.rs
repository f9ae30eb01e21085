//! The rates of Azar et al.: binary freshness at a price.
//!
//! Y. Azar, E. Horvitz, E. Lubetzky, Y. Peres and D. Shahaf, "Tractable near-optimal policies for crawling"
//! (2018). With probes at the rate ρ a source that changes at the rate Δ is fresh for the share ρ/(ρ + Δ) of
//! the time. More probes gain w·Δ/(ρ + Δ)² of it each; the price ν equals that gain, or ρ is 0. A source with
//! Δ ≥ w/ν is given up: it is hardly ever fresh at that price.

/// ρ = max(0, √(Δ/ν) − Δ), per hour.
pub(super) fn probe_rate(change_rate: f64, price: f64) -> f64 {
    ((change_rate / price).sqrt() - change_rate).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_match_hand_values() {
        // √(1/0.25) − 1, and √(0.25/0.25) − 0.25.
        assert!((probe_rate(1.0, 0.25) - 1.0).abs() < 1e-12);
        assert!((probe_rate(0.25, 0.25) - 0.75).abs() < 1e-12);
        // Given up from 1/ν on.
        assert_eq!([4.0, 5.0, 1e6].map(|change_rate| probe_rate(change_rate, 0.25)), [0.0; 3]);
        assert_eq!(probe_rate(0.0, 0.25), 0.0);
    }

    #[test]
    fn gain_of_freshness_equals_the_price() {
        for (change_rate, price) in [(0.01, 0.5), (0.3, 0.02), (2.0, 0.1), (5.0, 0.19)] {
            let fresh = |rate: f64| rate / (rate + change_rate);
            let rate = probe_rate(change_rate, price);
            let step = rate * 1e-4;
            let gain = (fresh(rate + step) - fresh(rate - step)) / (2.0 * step);
            assert!((gain / price - 1.0).abs() < 1e-6, "Δ {change_rate}: {gain} at {price}");
        }
    }
}
