//! One policy against another over many sources, and how sure that is.
//!
//! Exists because a mean over all updates is the busiest sources' and says nothing of the others, a mean
//! of ratios is everybody's, and neither is worth much without its spread. Sources are drawn anew with
//! all their updates (a cluster bootstrap), as the updates of one source are not independent of each
//! other. Equal inputs give equal intervals.
//!
//! Knows pairs of mean delays. Must not know whose they are.

use tidewatch_core::rng::Stream;

use super::score::Score;

/// A shorter mean delay counts as one second, as a geometric mean has no place for 0: two policies that
/// find something at once, or nearly, are alike.
pub const FLOOR_SECS: f64 = 1.0;

/// How often the sources are drawn anew.
const RESAMPLES: usize = 1000;

/// What lies outside an interval on either side.
const TAIL: f64 = 0.025;

/// How two policies did on one source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// How many updates there were for both.
    pub updates: usize,
    /// The one's mean delay in seconds.
    pub a: f64,
    /// The other's.
    pub b: f64,
}

impl Pair {
    /// From two scores of one source on one span; none where nothing was published.
    pub fn of(a: &Score, b: &Score) -> Option<Self> {
        Some(Self { updates: a.updates, a: a.mean_delay()?, b: b.mean_delay()? })
    }
}

/// A number with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// On the sources as they are.
    pub value: f64,
    /// Of the resamples, 2.5 % lie below.
    pub low: f64,
    /// Of the resamples, 2.5 % lie above.
    pub high: f64,
}

/// One policy against another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// On how many sources.
    pub sources: usize,
    /// The geometric mean over sources of a's mean delay over b's. Below 1, a is the better one.
    pub geometric: Interval,
    /// The mean delay over all updates, a's over b's.
    pub ratio: Interval,
    /// The same, a's less b's, in seconds.
    pub difference: Interval,
}

/// The geometric mean of a's mean delay over b's, each at least [`FLOOR_SECS`]; none of nothing.
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

/// Compares two policies over sources; none where there are none, or no updates.
pub fn compare(pairs: &[Pair], seed: u64) -> Option<Comparison> {
    let value = Sums::of(pairs.iter())?;
    let mut chance = Stream::new(seed, "compare");
    let mut drawn = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let any = |_| &pairs[((chance.unit() * pairs.len() as f64) as usize).min(pairs.len() - 1)];
        // A draw without updates says nothing, and is only there where sources have none.
        drawn.extend(Sums::of((0..pairs.len()).map(any)));
    }
    let interval = |measure: fn(&Sums) -> f64| {
        let mut list: Vec<f64> = drawn.iter().map(measure).collect();
        list.sort_unstable_by(f64::total_cmp);
        let value = measure(&value);
        let below = (TAIL * list.len() as f64).ceil() as usize;
        let at = |index: usize| list.get(index).copied().unwrap_or(value);
        Interval { value, low: at(below.saturating_sub(1)), high: at(list.len() - below) }
    };
    Some(Comparison {
        sources: pairs.len(),
        geometric: interval(Sums::geometric),
        ratio: interval(Sums::ratio),
        difference: interval(Sums::difference),
    })
}

/// Sums over some sources.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    sources: f64,
    logs: f64,
    updates: f64,
    a: f64,
    b: f64,
}

impl Sums {
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
    fn by_hand() {
        let pairs = [pair(1, 10.0, 40.0), pair(3, 90.0, 90.0)];
        let found = compare(&pairs, 1).unwrap();
        assert_eq!(found.sources, 2);
        assert!((found.geometric.value - 0.5).abs() < 1e-12);
        assert!((found.ratio.value - 280.0 / 310.0).abs() < 1e-12);
        assert!((found.difference.value + 7.5).abs() < 1e-12);
        // Either source twice is not rare.
        assert!((found.geometric.low - 0.25).abs() < 1e-12 && (found.geometric.high - 1.0).abs() < 1e-12);
        assert!((found.difference.low + 30.0).abs() < 1e-12 && found.difference.high.abs() < 1e-12);
    }

    #[test]
    fn no_delay_is_a_second() {
        assert_eq!(geometric_mean_ratio(&[(0.0, 0.0), (0.2, 1.0)]), Some(1.0));
        assert_eq!(geometric_mean_ratio(&[]), None);
        let found = compare(&[pair(2, 0.0, 0.0)], 1).unwrap();
        assert_eq!((found.geometric.value, found.ratio.value, found.difference.value), (1.0, 1.0, 0.0));
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(compare(&[], 1), None);
        assert_eq!(compare(&[pair(0, 0.0, 0.0)], 1), None);
        let nothing = Score { updates: 0, ..Score::default() };
        assert_eq!(Pair::of(&nothing, &nothing), None);
        let some = Score { updates: 2, delays: vec![1.0, 3.0], ..Score::default() };
        assert_eq!(Pair::of(&some, &some), Some(pair(2, 2.0, 2.0)));
        // A source without updates may be drawn alone.
        assert!(compare(&[pair(0, 5.0, 5.0), pair(1, 2.0, 4.0)], 1).unwrap().ratio.value.is_finite());
    }

    #[test]
    fn the_interval_is_as_wide_as_the_mean_of_logs_is_uncertain() {
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
                // No draw lies outside of what the single sources say.
                let least = each.iter().copied().fold(f64::INFINITY, f64::min);
                let most = each.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                prop_assert!(interval.low >= least - 1e-6 && interval.high <= most + 1e-6);
            }
        }
    }
}
