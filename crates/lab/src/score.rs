//! Scores a schedule of probes on a span of known history.
//!
//! All policies are scored by one measure with the same edges. Updates and probes count if they are in (from,
//! to], so consecutive spans share none. A probe at `to` is added if there is none, and counts as a probe. So
//! every update of the span is found in it, and the delay of the last updates ends at the same time for all
//! policies. Updates up to `from` do not count, found or not. Must not know which policy sent the probes.

use tidewatch_core::model::obsolescence::Obsolescence;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::time::{Span, Timestamp};

/// The input of a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredProbes<'t> {
    /// Update times, ascending; those outside the span are allowed.
    pub events: &'t [Timestamp],
    /// Probe times, ascending; those outside the span are allowed.
    pub probes: &'t [Timestamp],
    /// The span's beginning, exclusive.
    pub from: Timestamp,
    /// The span's end, inclusive.
    pub to: Timestamp,
    /// a: the weight of an hour of delay, over time.
    pub importance: &'t Steps,
    /// The number of items that the source shows.
    pub holds: usize,
}

/// The score of a schedule on one or several sources.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Score {
    /// Number of updates.
    pub updates: usize,
    /// Number of probes, including one added at the end.
    pub probes: usize,
    /// From each update to the first probe at or after it, in seconds, ascending.
    pub delays: Vec<f64>,
    /// The sum over updates of ∫a from the update to that probe, in update·hours times importance.
    pub obsolescence: f64,
    /// Number of probes that found at least one of the updates.
    pub useful: usize,
    /// The time during which at least one of the updates was not yet found.
    pub waited: Span,
    /// The integral over time of H(k) = 1 + 1/2 + … + 1/k, in hours, with k undiscovered updates.
    pub harmonic_hours: f64,
    /// The length of the scored span.
    pub span: Span,
    /// Number of updates that the source no longer showed at the first probe after them. They still have a
    /// delay: that probe shows that something was missed.
    pub gaps: usize,
}

impl Score {
    /// The score of one trial. An empty span has no updates and no probes.
    pub fn of(trial: &ScoredProbes<'_>) -> Self {
        let ScoredProbes { events, probes, from, to, importance, holds } = *trial;
        if to <= from {
            return Self::default();
        }
        let within = |times: &[Timestamp]| {
            times.partition_point(|&at| at <= from)..times.partition_point(|&at| at <= to)
        };
        let (updates, probes) = (within(events), &probes[within(probes)]);
        let added = probes.last() != Some(&to);
        let weight = Weight::new(importance, from, to);
        let mut score = Self {
            updates: updates.len(),
            probes: probes.len() + usize::from(added),
            delays: Vec::with_capacity(updates.len()),
            span: to - from,
            ..Self::default()
        };
        let mut next = updates.start;
        for &probe in probes.iter().chain(added.then_some(&to)) {
            let first = next;
            next += events[first..updates.end].partition_point(|&at| at <= probe);
            let Some(&earliest) = events[first..next].first() else { continue };
            score.useful += 1;
            score.waited = score.waited + (probe - earliest);
            score.gaps += next.saturating_sub(holds).saturating_sub(first);
            let found = weight.by(probe);
            for (k, &event) in (1_u32..).zip(&events[first..next]) {
                let delay = (probe - event).as_secs_f64();
                score.delays.push(delay);
                score.obsolescence += found - weight.by(event);
                // The k-th undiscovered update raises H by 1/k until the probe.
                score.harmonic_hours += delay / 3600.0 / f64::from(k);
            }
        }
        score.delays.sort_unstable_by(f64::total_cmp);
        score
    }

    /// The scores of several sources as one. Means and quantiles are over all updates, so sources are
    /// weighted by their number of updates.
    pub fn pooled<'s>(scores: impl IntoIterator<Item = &'s Self>) -> Self {
        let mut all = Self::default();
        for score in scores {
            all.updates += score.updates;
            all.probes += score.probes;
            all.delays.extend_from_slice(&score.delays);
            all.obsolescence += score.obsolescence;
            all.useful += score.useful;
            all.waited = all.waited + score.waited;
            all.harmonic_hours += score.harmonic_hours;
            all.span = all.span + score.span;
            all.gaps += score.gaps;
        }
        all.delays.sort_unstable_by(f64::total_cmp);
        all
    }

    /// The sum of all delays, in seconds.
    pub fn total_delay(&self) -> f64 {
        self.delays.iter().sum()
    }

    /// The mean delay in seconds, if there were updates.
    pub fn mean_delay(&self) -> Option<f64> {
        (!self.delays.is_empty()).then(|| self.total_delay() / self.delays.len() as f64)
    }

    /// The delay in seconds that this share of the updates did not exceed, by nearest rank. It is the
    /// smallest delay such that at least this share of the delays is no longer. So 0 gives the shortest, 1
    /// the longest, and 0.5 of two the shorter.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (share.clamp(0.0, 1.0) * self.delays.len() as f64).ceil() as usize;
        self.delays.get(rank.saturating_sub(1)).copied()
    }

    /// The longest delay in seconds.
    pub fn worst(&self) -> Option<f64> {
        self.delays.last().copied()
    }

    /// The share of the time during which at least one update was not yet found: the probability that a
    /// reader at a random time misses something. Over several sources, for a reader of a random one.
    pub fn missed(&self) -> f64 {
        match self.span.as_millis() {
            0 => 0.0,
            span => self.waited.as_millis() as f64 / span as f64,
        }
    }

    /// The binary freshness: the share of the time without an undiscovered update.
    pub fn fresh_share(&self) -> f64 {
        1.0 - self.missed()
    }

    /// The harmonic cost of Kolobov et al. (2019): the mean over time of H(k), with k undiscovered updates.
    pub fn harmonic(&self) -> f64 {
        match self.span.as_millis() {
            0 => 0.0,
            span => self.harmonic_hours * 3_600_000.0 / span as f64,
        }
    }
}

/// ∫a from a span's beginning.
#[derive(Debug, Clone)]
pub(super) struct Weight {
    from: Timestamp,
    sums: Obsolescence,
}

impl Weight {
    pub(super) fn new(importance: &Steps, from: Timestamp, to: Timestamp) -> Self {
        let sums = Obsolescence::of_pieces(&[((to - from).as_millis(), 0.0)], &importance.over(from, to));
        Self { from, sums }
    }

    /// The integral up to this time of the span, in hours times importance.
    pub(super) fn by(&self, at: Timestamp) -> f64 {
        self.sums.sums(at - self.from).importance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use proptest::prelude::*;
    use tidewatch_core::model::importance::WeekWindow;

    fn at(secs: i64) -> Timestamp {
        // A Monday.
        Timestamp::from_secs(1_794_787_200 + secs)
    }

    fn times(secs: &[i64]) -> Vec<Timestamp> {
        secs.iter().map(|&secs| at(secs)).collect()
    }

    fn score(events: &[i64], probes: &[i64], (from, to): (i64, i64), holds: usize) -> Score {
        let importance = Steps::constant(2.0).unwrap();
        let (events, probes) = (times(events), times(probes));
        let (from, to) = (at(from), at(to));
        Score::of(&ScoredProbes {
            events: &events,
            probes: &probes,
            from,
            to,
            importance: &importance,
            holds,
        })
    }

    #[test]
    fn score_matches_hand_computation() {
        let score = score(&[0, 100, 700, 3600, 5000, 9000], &[-50, 50, 900, 1000, 4000], (0, 7200), 2);
        // The update at 0 is outside the span, as is the last one. A probe at the end is added.
        assert_eq!((score.updates, score.probes, score.useful, score.gaps), (4, 5, 3, 0));
        assert_eq!(score.delays, [200.0, 400.0, 800.0, 2200.0]);
        assert_eq!((score.mean_delay(), score.worst()), (Some(900.0), Some(2200.0)));
        assert!((score.obsolescence - 2.0).abs() < 1e-9, "{}", score.obsolescence);
        assert_eq!(score.waited, Span::from_secs(800 + 400 + 2200));
        assert!((score.missed() - 3400.0 / 7200.0).abs() < 1e-12);
        assert!((score.fresh_share() - 3800.0 / 7200.0).abs() < 1e-12);
        // 800 s for the update at 100 and half of 200 s for that at 700; then 400 s and 2200 s alone.
        assert!((score.harmonic() - 3500.0 / 7200.0).abs() < 1e-12);
    }

    #[test]
    fn span_is_open_at_start_and_closed_at_end() {
        // An update at the beginning is outside; one at the end is found at once. A probe at the end is not
        // doubled.
        let ends = score(&[0, 100], &[0, 100], (0, 100), 9);
        assert_eq!((ends.updates, ends.probes, ends.useful), (1, 1, 1));
        assert_eq!(ends.delays, [0.0]);
        let nothing = score(&[], &[], (0, 100), 9);
        assert_eq!((nothing.updates, nothing.probes, nothing.useful), (0, 1, 0));
        assert_eq!((nothing.mean_delay(), nothing.quantile(0.5), nothing.missed()), (None, None, 0.0));
        assert_eq!((nothing.fresh_share(), nothing.harmonic()), (1.0, 0.0));
        assert_eq!(score(&[5], &[6], (10, 10), 9), Score::default());
        // Updates before the span do not count, even if they were not found.
        assert_eq!(score(&[-5], &[50], (0, 100), 9).useful, 0);
    }

    #[test]
    fn items_gone_before_a_probe_count_as_gaps() {
        let events = [-30, 10, 20, 30, 40, 60];
        // At 50 the newest three are 20, 30 and 40.
        assert_eq!(score(&events, &[0, 50], (0, 100), 3).gaps, 1);
        assert_eq!(score(&events, &[0, 15, 50], (0, 100), 3).gaps, 0);
        // An item that is gone at the end may have been found before.
        assert_eq!(score(&events, &[0, 35], (0, 100), 2).gaps, 1);
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let ranked = Score { delays: vec![1.0, 2.0, 3.0, 4.0], ..Score::default() };
        let quantiles = [0.0, 0.25, 0.26, 0.5, 0.75, 0.9, 1.0].map(|share| ranked.quantile(share).unwrap());
        assert_eq!(quantiles, [1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0]);
    }

    #[test]
    fn pooled_is_over_all_updates() {
        let one = score(&[10, 20], &[20], (0, 100), 9);
        let other = score(&[40], &[], (0, 200), 9);
        let all = Score::pooled([&one, &other]);
        assert_eq!(all.delays, [0.0, 10.0, 160.0]);
        assert_eq!((all.updates, all.probes, all.useful), (3, 3, 2));
        assert_eq!((all.mean_delay(), all.quantile(0.5)), (Some(170.0 / 3.0), Some(10.0)));
        assert!((all.missed() - 170.0 / 300.0).abs() < 1e-12);
        assert!((all.harmonic() - 170.0 / 300.0).abs() < 1e-12);
        assert_eq!(Score::pooled([]), Score::default());
    }

    fn sorted(most: i64, count: usize) -> impl Strategy<Value = Vec<i64>> {
        prop::collection::vec(-1000..most, 0..count).prop_map(|mut list| {
            list.sort_unstable();
            list
        })
    }

    proptest! {
        /// Checks against every pair of update and probe, and every second.
        #[test]
        fn score_matches_direct_counting(
            events in sorted(9000, 30),
            probes in sorted(9000, 30),
            to in 1_i64..8000,
            holds in 0_usize..6,
        ) {
            let window = WeekWindow { days: 1, from_minute: 30, until_minute: 90 };
            let importance = Steps::windows(TimeZone::UTC, 1.0, &[(window, 5.0)]).unwrap();
            let (all, sent) = (times(&events), times(&probes));
            let (from, until) = (at(0), at(to));
            let trial =
                ScoredProbes { events: &all, probes: &sent, from, to: until, importance: &importance, holds };
            let score = Score::of(&trial);

            let mut sent: Vec<i64> = probes.iter().copied().filter(|&p| p > 0 && p <= to).collect();
            if !sent.contains(&to) {
                sent.push(to);
            }
            let updates: Vec<i64> = events.iter().copied().filter(|&e| e > 0 && e <= to).collect();
            let found = |event: i64| sent.iter().copied().filter(|&p| p >= event).min().unwrap();
            let mut delays: Vec<f64> = updates.iter().map(|&e| (found(e) - e) as f64).collect();
            delays.sort_unstable_by(f64::total_cmp);
            let weight = |second: i64| if (1800..5400).contains(&second) { 5.0 } else { 1.0 };
            let each = |e: i64| (e..found(e)).map(weight).sum::<f64>() / 3600.0;
            let obsolescence: f64 = updates.iter().map(|&e| each(e)).sum();
            let mut useful: Vec<i64> = updates.iter().map(|&e| found(e)).collect();
            useful.dedup();
            let lies = |second: &i64| updates.iter().any(|&e| e <= *second && *second < found(e));
            let waited = (0..to).filter(lies).count();
            let undiscovered =
                |second: i64| updates.iter().filter(|&&e| e <= second && second < found(e)).count();
            let harmonic_number = |k: usize| (1..=k).map(|n| 1.0 / n as f64).sum::<f64>();
            let harmonic: f64 = (0..to).map(|second| harmonic_number(undiscovered(second))).sum();
            let gone = |index: usize| {
                let at = found(events[index]);
                events.iter().enumerate().filter(|&(other, &e)| other > index && e <= at).count() >= holds
            };
            let counts = |&index: &usize| events[index] > 0 && events[index] <= to;
            let gaps = (0..events.len()).filter(counts).filter(|&index| gone(index)).count();

            prop_assert_eq!(score.updates, updates.len());
            prop_assert_eq!(score.probes, sent.len());
            prop_assert_eq!(&score.delays, &delays);
            prop_assert!((score.obsolescence - obsolescence).abs() < 1e-6);
            prop_assert_eq!(score.useful, useful.len());
            prop_assert_eq!(score.waited, Span::from_secs(waited as i64));
            prop_assert_eq!(score.gaps, gaps);
            prop_assert!((score.fresh_share() - (to - waited as i64) as f64 / to as f64).abs() < 1e-9);
            prop_assert!((score.harmonic() - harmonic / to as f64).abs() < 1e-9);
            prop_assert!(score.missed() <= 1.0);
        }
    }
}
