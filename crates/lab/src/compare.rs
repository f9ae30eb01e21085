//! Compares two policies over many sources, with confidence intervals.
//!
//! A mean over all updates mainly reflects the busiest sources; a geometric mean of ratios weights all
//! sources equally. Both need their spread. Sources are resampled with all their updates (a cluster
//! bootstrap), because the updates of one source are not independent. Equal inputs give equal intervals. Must
//! not know which policies are compared.

use tidewatch_core::rng::Stream;

use super::score::Score;

/// A shorter mean delay counts as one second, because a geometric mean cannot contain 0. Two policies that
/// both find updates almost at once count as equal.
pub const FLOOR_SECS: f64 = 1.0;

/// Number of bootstrap resamples.
const RESAMPLES: usize = 1000;

/// The share of resamples outside an interval on either side.
const TAIL: f64 = 0.025;

/// The results of two policies on one source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Number of updates, the same for both.
    pub updates: usize,
    /// The first policy's mean delay in seconds.
    pub a: f64,
    /// The second policy's mean delay in seconds.
    pub b: f64,
}

impl Pair {
    /// From two scores of one source on one span; `None` if there were no updates.
    pub fn of(a: &Score, b: &Score) -> Option<Self> {
        Some(Self { updates: a.updates, a: a.mean_delay()?, b: b.mean_delay()? })
    }
}

/// A number with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidenceInterval {
    /// On the sources themselves.
    pub value: f64,
    /// 2.5 % of the resamples lie below.
    pub low: f64,
    /// 2.5 % of the resamples lie above.
    pub high: f64,
}

/// The comparison of policy a with policy b.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Number of sources.
    pub sources: usize,
    /// The geometric mean over sources of a's mean delay over b's. Below 1, a is better.
    pub geometric: ConfidenceInterval,
    /// The mean delay over all updates, a's divided by b's.
    pub ratio: ConfidenceInterval,
    /// The mean delay over all updates, a's minus b's, in seconds.
    pub difference: ConfidenceInterval,
}

/// The geometric mean of a's mean delay over b's, each at least [`FLOOR_SECS`]; `None` for an empty list.
///
/// ```
/// # use tidewatch_lab::compare::geometric_mean_ratio;
/// let ratio = geometric_mean_ratio(&[(10.0, 40.0), (90.0, 90.0)]);
/// assert!((ratio.unwrap() - 0.5).abs() < 1e-12);
/// ```
pub fn geometric_mean_ratio(means: &[(f64, f64)]) -> Option<f64> {
    let logs: f64 = means.iter().map(|&(a, b)| log_ratio(a, b)).sum();
    (!means.is_empty()).then(|| (logs / means.len() as f64).exp())
}

fn log_ratio(a: f64, b: f64) -> f64 {
    (a.max(FLOOR_SECS) / b.max(FLOOR_SECS)).ln()
}

/// Compares two policies over sources; `None` without sources or updates.
pub fn compare(pairs: &[Pair], seed: u64) -> Option<Comparison> {
    let value = PairSums::of(pairs.iter())?;
    let mut chance = Stream::new(seed, "compare");
    let mut drawn = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let any = |_| &pairs[((chance.unit() * pairs.len() as f64) as usize).min(pairs.len() - 1)];
        // A draw without updates is skipped. It only occurs if some sources have none.
        drawn.extend(PairSums::of((0..pairs.len()).map(any)));
    }
    let interval = |measure: fn(&PairSums) -> f64| {
        let mut list: Vec<f64> = drawn.iter().map(measure).collect();
        list.sort_unstable_by(f64::total_cmp);
        let value = measure(&value);
        let below = (TAIL * list.len() as f64).ceil() as usize;
        let at = |index: usize| list.get(index).copied().unwrap_or(value);
        ConfidenceInterval { value, low: at(below.saturating_sub(1)), high: at(list.len() - below) }
    };
    Some(Comparison {
        sources: pairs.len(),
        geometric: interval(PairSums::geometric),
        ratio: interval(PairSums::ratio),
        difference: interval(PairSums::difference),
    })
}

/// Sums over some sources.
#[derive(Debug, Clone, Copy, Default)]
struct PairSums {
    sources: f64,
    logs: f64,
    updates: f64,
    a: f64,
    b: f64,
}

impl PairSums {
    fn of<'p>(pairs: impl Iterator<Item = &'p Pair>) -> Option<Self> {
        let mut sums = Self::default();
        for pair in pairs {
            let updates = pair.updates as f64;
            sums.sources += 1.0;
            sums.logs += log_ratio(pair.a, pair.b);
            sums.updates += updates;
            sums.a += updates * pair.a;
            sums.b += updates * pair.b;
        }
        (sums.updates > 0.0).then_some(sums)
    }

    fn geometric(&self) -> f64 {
        (self.logs / self.sources).exp()
    }

    fn ratio(&self) -> f64 {
        log_ratio(self.a / self.updates, self.b / self.updates).exp()
    }

    fn difference(&self) -> f64 {
        (self.a - self.b) / self.updates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(updates: usize, a: f64, b: f64) -> Pair {
        Pair { updates, a, b }
    }

    #[test]
    fn means_and_intervals_match_hand_computation() {
        let pairs = [pair(1, 10.0, 40.0), pair(3, 90.0, 90.0)];
        let found = compare(&pairs, 1).unwrap();
        assert_eq!(found.sources, 2);
        assert!((found.geometric.value - 0.5).abs() < 1e-12);
        assert!((found.ratio.value - 280.0 / 310.0).abs() < 1e-12);
        assert!((found.difference.value + 7.5).abs() < 1e-12);
        // With two sources, drawing one of them twice is frequent.
        assert!((found.geometric.low - 0.25).abs() < 1e-12 && (found.geometric.high - 1.0).abs() < 1e-12);
        assert!((found.difference.low + 30.0).abs() < 1e-12 && found.difference.high.abs() < 1e-12);
    }

    #[test]
    fn delays_below_a_second_count_as_one_second() {
        assert_eq!(geometric_mean_ratio(&[(0.0, 0.0), (0.2, 1.0)]), Some(1.0));
        assert_eq!(geometric_mean_ratio(&[]), None);
        let found = compare(&[pair(2, 0.0, 0.0)], 1).unwrap();
        assert_eq!((found.geometric.value, found.ratio.value, found.difference.value), (1.0, 1.0, 0.0));
    }

    #[test]
    fn comparison_without_updates_is_none() {
        assert_eq!(compare(&[], 1), None);
        assert_eq!(compare(&[pair(0, 0.0, 0.0)], 1), None);
        let nothing = Score { updates: 0, ..Score::default() };
        assert_eq!(Pair::of(&nothing, &nothing), None);
        let some = Score { updates: 2, delays: vec![1.0, 3.0], ..Score::default() };
        assert_eq!(Pair::of(&some, &some), Some(pair(2, 2.0, 2.0)));
        // A source without updates may be the only one drawn.
        assert!(compare(&[pair(0, 5.0, 5.0), pair(1, 2.0, 4.0)], 1).unwrap().ratio.value.is_finite());
    }

    #[test]
    fn interval_width_matches_the_standard_error_of_the_log_mean() {
        // Logs of ±ln 2 in equal parts: their mean over 400 sources has a deviation of ln 2 / 20.
        let pairs: Vec<Pair> =
            (0..400).map(|index| pair(5, if index % 2 == 0 { 200.0 } else { 50.0 }, 100.0)).collect();
        let found = compare(&pairs, 3).unwrap().geometric;
        let half = 1.96 * 2.0_f64.ln() / 20.0;
        assert!((found.value - 1.0).abs() < 1e-12);
        for end in [-found.low.ln(), found.high.ln()] {
            assert!((end / half - 1.0).abs() < 0.15, "{found:?}");
        }
    }

    proptest! {
        #[test]
        fn equal_inputs_give_equal_intervals_around_the_value(
            list in prop::collection::vec((1_usize..50, 0.0..5000.0, 0.0..5000.0), 1..12),
            seed in any::<u64>(),
        ) {
            let pairs: Vec<Pair> = list.iter().map(|&(updates, a, b)| pair(updates, a, b)).collect();
            let found = compare(&pairs, seed).unwrap();
            prop_assert_eq!(found, compare(&pairs, seed).unwrap());
            let means: Vec<(f64, f64)> = list.iter().map(|&(_, a, b)| (a, b)).collect();
            let plain = geometric_mean_ratio(&means).unwrap();
            prop_assert!((found.geometric.value / plain - 1.0).abs() < 1e-9);
            for (interval, each) in [
                (found.geometric, pairs.iter().map(|p| log_ratio(p.a, p.b).exp()).collect::<Vec<_>>()),
                (found.difference, pairs.iter().map(|p| p.a - p.b).collect()),
            ] {
                prop_assert!(interval.low <= interval.high);
                // No draw lies outside the range of the single sources.
                let least = each.iter().copied().fold(f64::INFINITY, f64::min);
                let most = each.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                prop_assert!(interval.low >= least - 1e-6 && interval.high <= most + 1e-6);
            }
        }
    }
}
