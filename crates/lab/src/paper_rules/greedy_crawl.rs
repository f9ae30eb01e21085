//! The greedy rule: the source with the largest value is probed.
//!
//! The value of a probe τ after the last is (μ/Δ)·(1 − (1 + Δτ)·e^(−Δτ)), for binary freshness: it is what
//! evenly spaced probes τ apart gain by one more. R. Busa-Fekete et al., "A scalable crawling algorithm
//! utilizing noisy change-indicating signals" (2025), choose the source where it is largest. With a price ν a
//! source is probed when its value reaches ν. The value stays below μ/Δ, so a source with Δ ≥ μ/ν is given
//! up.

use tidewatch_core::time::Timestamp;

use super::schedule::{PaperInput, PaperSchedule, hours};

/// Probes at the value of the price.
pub(super) struct GreedyCrawl {
    pub price: f64,
}

impl PaperSchedule for GreedyCrawl {
    fn next(&mut self, known: &PaperInput<'_>) -> Option<Timestamp> {
        let gap = interval(known.change_rate(), self.price)?;
        Some(known.last + hours(gap).max(known.least_gap))
    }
}

/// The value of a probe `gap` hours after the last, in hours.
fn value(change_rate: f64, gap: f64) -> f64 {
    let expected = change_rate * gap;
    // 1 − e^(−x) without cancellation, then − x·e^(−x).
    (-(-expected).exp_m1() - expected * (-expected).exp()) / change_rate
}

/// The time in hours at which the value reaches the price; `None` if it never does.
fn interval(change_rate: f64, price: f64) -> Option<f64> {
    if change_rate <= 0.0 || price * change_rate >= 1.0 {
        return None;
    }
    let mut high = 1.0 / change_rate;
    // The value tends to 1/Δ; beyond this Δτ it equals it within rounding.
    while value(change_rate, high) < price && high * change_rate < 64.0 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if value(change_rate, middle) < price { low = middle } else { high = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewatch_core::model::cyclic::Rate;
    use tidewatch_core::time::Span;

    #[test]
    fn value_matches_hand_values_and_its_limits() {
        // (1/2)·(1 − 2/e) at Δτ = 1.
        assert!((value(2.0, 0.5) - 0.5 * (1.0 - 2.0 / std::f64::consts::E)).abs() < 1e-12);
        // Δτ²/2 while few updates are expected, and 1/Δ at last.
        assert!((value(1e-4, 1.0) / 0.5e-4 - 1.0).abs() < 1e-3);
        assert!((value(4.0, 100.0) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn value_is_the_gain_of_one_more_even_probe() {
        // The fresh share of evenly spaced probes is (1 − e^(−Δτ))/(Δτ); its derivative by 1/τ is the value.
        let change_rate = 0.7_f64;
        let fresh = |rate: f64| -(-change_rate / rate).exp_m1() * rate / change_rate;
        for rate in [0.1, 0.5, 3.0] {
            let step = rate * 1e-4;
            let gain = (fresh(rate + step) - fresh(rate - step)) / (2.0 * step);
            assert!((gain / value(change_rate, 1.0 / rate) - 1.0).abs() < 1e-6, "{rate}: {gain}");
        }
    }

    #[test]
    fn interval_is_where_the_value_reaches_the_price() {
        for (change_rate, price) in [(0.01, 0.5), (0.3, 0.02), (2.0, 0.1), (5.0, 0.19)] {
            let gap = interval(change_rate, price).unwrap();
            assert!((value(change_rate, gap) / price - 1.0).abs() < 1e-9, "{change_rate}: {gap}");
        }
        assert_eq!((interval(0.0, 0.5), interval(2.0, 0.5), interval(9.0, 0.5)), (None, None, None));
    }

    #[test]
    fn constant_rate_gives_periodic_probes() {
        let (rate, fitted, least_gap) = (Rate::constant(0.5), Timestamp::from_secs(0), Span::ZERO);
        let mut rule = GreedyCrawl { price: 0.1 };
        let after = |&last: &Timestamp| rule.next(&PaperInput { last, rate: &rate, fitted, least_gap });
        let probes: Vec<Timestamp> = std::iter::successors(Some(fitted), after).take(5).collect();
        let gaps: Vec<Span> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let expected = hours(interval(0.5, 0.1).unwrap());
        assert_eq!(gaps, [expected; 4]);
    }
}
