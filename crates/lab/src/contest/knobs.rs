//! The knob of each of our policies, and the search for the setting with a wanted number of probes.
//!
//! The knob of a policy with a budget is the budget: the same probes in a shorter or longer time. The knob of
//! a policy with a threshold is the threshold, and its budget does not bind. For `auto` it is the price of a
//! probe. Must not know what the probes found.

use tidewatch_core::planning::policy::Policy;

/// The quantity that a knob changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnobQuantity {
    /// The budget's T is divided by the knob.
    Budget,
    /// θ is the knob.
    Freshness,
    /// α is the knob.
    Ttl,
    /// The price of a probe is divided by the knob's square, so the number of probes is about proportional to
    /// it.
    Price,
}

/// The quantity that the knob of one of our policies changes.
pub fn of(policy: Policy) -> KnobQuantity {
    match policy {
        Policy::IndHist | Policy::AggHist | Policy::IndHistTtl | Policy::IndHistAggHist => {
            KnobQuantity::Freshness
        }
        Policy::Ttl => KnobQuantity::Ttl,
        Policy::Auto => KnobQuantity::Price,
        Policy::Plan
        | Policy::Adaptive
        | Policy::Uniform
        | Policy::Threshold
        | Policy::FirstArrival
        | Policy::Profile => KnobQuantity::Budget,
    }
}

impl KnobQuantity {
    /// The default setting.
    pub fn usual(self) -> f64 {
        match self {
            Self::Budget | Self::Freshness | Self::Price => 1.0,
            Self::Ttl => 0.2,
        }
    }

    /// The settings for the fewest and the most probes.
    pub fn ends(self) -> (f64, f64) {
        match self {
            Self::Budget => (0.2, 5.0),
            Self::Freshness => (300.0, 1e-3),
            Self::Ttl => (20.0, 1e-4),
            Self::Price => (0.01, 100.0),
        }
    }
}

/// A number of probes counts as reached if it is off by at most this share …
const CLOSE: f64 = 0.015;
/// … or this many probes.
const CLOSE_PROBES: f64 = 1.0;
/// Maximum number of tries.
const TRIES: usize = 16;

/// Searches between the settings for the fewest and the most probes for one with about `wanted` probes. It
/// starts at the default and returns the closest.
///
/// ```
/// # use tidewatch_lab::contest::knobs::tune;
/// let (knob, spent) = tune(56.0, (0.1, 1000.0), 1.0, |knob| ((7.0 * knob) as usize, knob));
/// assert!((spent - 8.0).abs() < 0.3 && knob == spent);
/// ```
pub fn tune<T>(
    wanted: f64,
    (fewest, most): (f64, f64),
    usual: f64,
    mut spend: impl FnMut(f64) -> (usize, T),
) -> (f64, T) {
    let upwards = most > fewest;
    let (mut low, mut high) = (fewest.ln(), most.ln());
    let mut knob = usual.ln();
    let mut best: Option<(f64, f64, T)> = None;
    for attempt in 0..TRIES {
        let (spent, outcome) = spend(knob.exp());
        let off = (spent as f64 - wanted).abs();
        if best.as_ref().is_none_or(|(least, ..)| off < *least) {
            best = Some((off, knob.exp(), outcome));
        }
        if off <= CLOSE_PROBES.max(CLOSE * wanted) {
            break;
        }
        if spent as f64 > wanted {
            high = knob
        } else {
            low = knob
        }
        // The first steps assume proportionality, which holds for budgets; the others bisect.
        let guess = (wanted / (spent as f64).max(0.5)).ln();
        let guess = knob + if upwards { guess } else { -guess };
        let (left, right) = (low.min(high), low.max(high));
        let inside = guess > left && guess < right;
        knob = if attempt < 3 && inside { guess } else { f64::midpoint(low, high) };
    }
    match best {
        Some((_, knob, outcome)) => (knob, outcome),
        None => {
            let (_, outcome) = spend(usual);
            (usual, outcome)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rising_and_falling_knobs_reach_the_wanted_number() {
        for wanted in [2.0, 14.0, 168.0, 3000.0] {
            let grows = tune(wanted, (1e-3, 1e4), 1.0, |knob| ((10.0 * knob) as usize, ()));
            assert!((10.0 * grows.0 - wanted).abs() <= 2.0 + 0.02 * wanted, "{grows:?}");
            let falls = tune(wanted, (1e4, 1e-3), 1.0, |knob| ((10.0 / knob) as usize, ()));
            assert!((10.0 / falls.0 - wanted).abs() <= 2.0 + 0.02 * wanted, "{falls:?}");
            let steep = tune(wanted, (1e4, 1e-3), 1.0, |knob| ((10.0 / knob / knob) as usize, ()));
            assert!((10.0 / steep.0 / steep.0 - wanted).abs() <= 2.0 + 0.02 * wanted, "{steep:?}");
        }
    }

    #[test]
    fn closest_setting_is_returned_if_the_number_is_out_of_reach() {
        let (knob, spent) = tune(100.0, (0.1, 10.0), 1.0, |knob| ((knob * 2.0) as usize, knob));
        assert!(knob > 9.0 && spent == knob);
        let mut calls = 0;
        tune(10.0, (0.1, 10.0), 1.0, |_| {
            calls += 1;
            (10, ())
        });
        assert_eq!(calls, 1);
    }
}
