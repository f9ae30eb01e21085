//! A sequential test for a change of rhythm: fewer updates than before, or updates at other hours.
//!
//! Two sums of log-likelihood ratios (CUSUM, Page 1954) compare each probe with the fitted rate. The *level*
//! sum compares it with half of the rate. The *hours* sum compares it with a daily profile that is learned
//! from the last updates, at the same level. A sum that would fall below zero starts again there, so its
//! start is the estimated time of the change. If the rate is right, one start in exp(h) reaches the limit h.
//!
//! Updates cluster. The level sum is divided by the dispersion of the counts. The hours sum counts the first
//! update of three hours, and one of a burst. More updates than before are left to the burst detector, and
//! silence to the test for overdue sources. May not know how rates are fitted or what follows from a change.

use serde::{Deserialize, Serialize};

use crate::model::burst::{ProbeWindow, WindowUpdates};
use crate::model::cusum::{Cusum, PassingCusum};
use crate::model::cyclic::Rate;
use crate::model::daily_profile::{BLOCK_MS, BLOCKS, DailyProfile, RateStretch, RateStretches};
use crate::model::fitted_rate::{FittedRate, SilencePart};
use crate::time::{Span, Timestamp};

/// After a counted update the hours sum counts none for this time …
const ALONE: Span = Span::from_hours(3);
/// … or for this time in a burst.
const ALONE_IN_BURST: Span = Span::from_hours(12);

/// Lower bound on the fitted rate as a share of its mean: an hour without updates in a few weeks may have
/// one.
const LEAST_SHARE: f64 = 0.02;

/// The alternative level, as a share of the fitted rate.
const HALF: f64 = 0.5;

/// A lower level shows in at least this many independent updates. With fewer, the source is silent.
const FEWEST: f64 = 3.0;

/// Updates at the old level that the estimate of the new one includes. On recorded sources, rates were 3.2 % too
/// low with 1.
const LEVEL_PRIOR: f64 = 10.0;

/// An alarm is predicted at this share of the limit: stored sums are rounded.
const CLOSE: f64 = 1.0 - 1e-5;

/// The first byte of the stored form.
const VERSION: u8 = 1;

/// The change that was found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RhythmChange {
    /// Its kind.
    pub kind: RhythmChangeKind,
    /// The estimated time of the change.
    pub since: Timestamp,
    /// Updates since then. Of other hours only the counted ones.
    pub found: f64,
    /// Updates that the fitted rate expects since then, counted alike.
    pub expected: f64,
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RhythmChangeKind {
    /// The level fell.
    Level,
    /// The updates come at other hours.
    Hours,
}

impl RhythmChange {
    fn new(kind: RhythmChangeKind, sum: &Cusum) -> Self {
        let (found, expected) = (f64::from(sum.found), f64::from(sum.expected));
        Self { kind, since: sum.since, found, expected }
    }

    /// The new level as a share of the old one. The sum starts at its lowest point, so the counts since then
    /// are below the new level on average; the prior makes up for it.
    pub fn factor(&self) -> f64 {
        ((self.found + LEVEL_PRIOR) / (self.expected + LEVEL_PRIOR)).clamp(0.02, 1.0)
    }
}

impl std::fmt::Display for RhythmChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, since, found, expected } = *self;
        match kind {
            RhythmChangeKind::Level => {
                write!(f, "fewer updates since {since}: {found:.0}, {expected:.1} expected")
            }
            RhythmChangeKind::Hours => write!(f, "updates come at other hours since {since}"),
        }
    }
}

/// The state of the test between probes.
#[derive(Debug, Clone, PartialEq)]
pub struct RhythmTest {
    level: Cusum,
    hours: Cusum,
    /// The hours sum ignores time and updates up to here.
    counts_from: Timestamp,
    profile: DailyProfile,
}

impl Default for RhythmTest {
    fn default() -> Self {
        let none = Cusum::default();
        Self { level: none, hours: none, counts_from: Timestamp::MIN, profile: DailyProfile::default() }
    }
}

impl RhythmTest {
    /// Processes one probe. `burst` is whether some of its time belongs to a burst. Returns the change if
    /// one is found; the sums then start again.
    ///
    /// ```
    /// # use tidewatch_core::model::burst::{ProbeWindow, WindowUpdates};
    /// # use tidewatch_core::model::cyclic::Rate;
    /// # use tidewatch_core::model::fitted_rate::FittedRate;
    /// # use tidewatch_core::model::rhythm_change::{RhythmChangeKind, RhythmTest};
    /// # use tidewatch_core::time::{Span, Timestamp};
    /// let rate = Rate::constant(1.0);
    /// let fitted = FittedRate { rate: &rate, calm_share: 1.0, dispersion: 1.0, updates: 1e6 };
    /// let (mut test, start) = (RhythmTest::default(), Timestamp::from_secs(0));
    /// // An update every three hours, where one an hour is expected.
    /// let found = (0..100).find_map(|n| {
    ///     let (from, until) = (start + Span::from_hours(3 * n), start + Span::from_hours(3 * n + 3));
    ///     test.add_probe(&ProbeWindow { from, until, seen: WindowUpdates::Counted(1) }, &fitted, false)
    /// });
    /// assert_eq!(found.map(|change| change.kind), Some(RhythmChangeKind::Level));
    /// ```
    pub fn add_probe(
        &mut self,
        probe: &ProbeWindow<'_>,
        fitted: &FittedRate<'_>,
        burst: bool,
    ) -> Option<RhythmChange> {
        if probe.until <= probe.from || fitted.mean_per_hour() <= 0.0 {
            return None;
        }
        self.not_after(probe.until);
        match probe.seen {
            WindowUpdates::Dated([]) | WindowUpdates::Counted(0) => {
                self.pass((probe.from, probe.until), fitted, burst);
            }
            WindowUpdates::Dated(times) => {
                self.add_to_level(probe, fitted, burst);
                self.add_dated(probe, times, fitted, burst);
            }
            WindowUpdates::Counted(_) | WindowUpdates::Changed => {
                self.add_to_level(probe, fitted, burst);
                self.add_undated(probe, fitted, burst);
            }
        }
        self.take_change(probe.until, fitted)
    }

    /// The change, if one is found at the end of a probe; the sums then start again.
    fn take_change(&mut self, at: Timestamp, fitted: &FittedRate<'_>) -> Option<RhythmChange> {
        let limit = fitted.limit() as f32;
        let found = f64::from(self.level.found) / fitted.dispersion;
        let change = if self.hours.score >= limit {
            Some(RhythmChange::new(RhythmChangeKind::Hours, &self.hours))
        } else if self.level.score >= limit && found >= FEWEST {
            Some(RhythmChange::new(RhythmChangeKind::Level, &self.level))
        } else {
            None
        };
        if change.is_some() {
            let start = Cusum { since: at, ..Cusum::default() };
            (self.level, self.hours) = (start, start);
        }
        change
    }

    /// Compares the number of updates with the fitted level and half of it.
    fn add_to_level(&mut self, probe: &ProbeWindow<'_>, fitted: &FittedRate<'_>, burst: bool) {
        if burst {
            return;
        }
        let expected = fitted.rate.expected(probe.from, probe.until) * fitted.calm_share;
        let (usual, lower) = (usual_share(fitted) * expected, HALF * expected);
        let (found, score) = match probe.seen {
            // At least one: its probability is 1 − exp(−Λ).
            WindowUpdates::Changed if usual > 0.0 => (1.0, ((-lower).exp_m1() / (-usual).exp_m1()).ln()),
            WindowUpdates::Changed => (1.0, 0.0),
            WindowUpdates::Counted(found) => counted(f64::from(found), usual, lower),
            WindowUpdates::Dated(times) => counted(times.len() as f64, usual, lower),
        };
        self.level.add((probe.from, probe.until), score / fitted.dispersion, found, expected);
    }

    fn add_dated(
        &mut self,
        probe: &ProbeWindow<'_>,
        times: &[Timestamp],
        fitted: &FittedRate<'_>,
        burst: bool,
    ) {
        let mut times: Vec<Timestamp> = times.iter().map(|&at| at.clamp(probe.from, probe.until)).collect();
        times.sort_unstable();
        let mut from = probe.from;
        for at in times.into_iter().filter(|&at| at > probe.from) {
            if at < self.counts_from {
                continue;
            }
            self.pass((from, at), fitted, true);
            from = at;
            let block = DailyProfile::block(fitted.rate.zone(), at);
            let least = LEAST_SHARE * fitted.mean_per_hour();
            let ratio =
                self.profile.shares()[block] * fitted.mean_per_hour() / fitted.rate.at(at).max(least);
            self.hours.add((at, at), ratio.ln(), 1.0, 0.0);
            self.count(at, block, burst);
        }
        self.pass((from, probe.until), fitted, true);
    }

    /// Updates somewhere in the interval.
    fn add_undated(&mut self, probe: &ProbeWindow<'_>, fitted: &FittedRate<'_>, burst: bool) {
        let from = probe.from.max(self.counts_from);
        let stretches = self.profile.stretches(fitted.rate, from, probe.until);
        let sum = stretches.map(|stretch| clusters(&stretch, fitted));
        let (usual, other) = sum.fold((0.0, 0.0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
        if usual <= 0.0 {
            return;
        }
        let score = ((-other).exp_m1() / (-usual).exp_m1()).ln();
        self.hours.add((from, probe.until), score, 1.0, usual);
        let middle = from + Span::from_millis((probe.until - from).as_millis() / 2);
        // An interval of several blocks says little about the hour.
        if (probe.until - from).as_millis() <= BLOCK_MS {
            self.count(probe.until, DailyProfile::block(fitted.rate.zone(), middle), burst);
        }
    }

    /// Passes a silence, as a probe at its end that found no update. Returns the change if one is found. `burst` is
    /// as for [`RhythmTest::add_probe`].
    pub fn add_silence<'r>(
        &mut self,
        (from, until): (Timestamp, Timestamp),
        parts: impl Iterator<Item = SilencePart<'r>>,
        burst: bool,
    ) -> Option<RhythmChange> {
        self.not_after(until);
        let mut passage = None;
        let mut last = None;
        for part in parts.filter(|part| part.fitted.mean_per_hour() > 0.0) {
            let passage =
                passage.get_or_insert_with(|| SilencePassage::new(self, part.fitted.rate, (from, until)));
            passage.pass(&part, |_, _, _| None::<()>);
            last = Some(part.fitted);
        }
        let sums = passage.map(|passage| passage.sums)?;
        self.take_sums(sums, burst);
        self.take_change(until, &last?)
    }

    /// Passes an interval without updates. `hours_only` is whether it does not count for the level: in a burst, and
    /// between the updates of a probe, whose level is compared as a whole.
    fn pass(&mut self, (from, until): (Timestamp, Timestamp), fitted: &FittedRate<'_>, hours_only: bool) {
        let mut passage = SilencePassage::new(self, fitted.rate, (from, until));
        passage.pass(&SilencePart { from, until, fitted: *fitted }, |_, _, _| None::<()>);
        let sums = passage.sums;
        self.take_sums(sums, hours_only);
    }

    fn take_sums(&mut self, sums: PassingSums, hours_only: bool) {
        self.hours = sums.hours.into();
        if !hours_only {
            self.level = sums.level.into();
        }
    }

    /// The first time after `after` at which a probe would find a change, if the silence goes on. May be a little
    /// too early. A probe at `after` finds none.
    ///
    /// The level sum only rises in a silence. The hours sum also falls, so a probe after that time need not find a
    /// change either.
    pub fn next_alarm<'r>(
        &self,
        silence: (Timestamp, Timestamp),
        after: Timestamp,
        mut parts: impl Iterator<Item = SilencePart<'r>>,
    ) -> Option<Timestamp> {
        let mut passage = None;
        parts.find_map(|part| {
            let fitted = part.fitted;
            if fitted.mean_per_hour() <= 0.0 {
                return None;
            }
            let passage = passage.get_or_insert_with(|| SilencePassage::new(self, fitted.rate, silence));
            let limit = CLOSE * f64::from(fitted.limit() as f32);
            let level_counts = f64::from(self.level.found) / fitted.dispersion >= FEWEST;
            passage.pass(&part, |stretch, before, sums| {
                if stretch.until <= after {
                    return None;
                }
                let from = stretch.from.max(after);
                let passed =
                    (from - stretch.from).as_secs_f64() / (stretch.until - stretch.from).as_secs_f64();
                // The share of the rest of the stretch until the sum is at the limit.
                let reaches = |begin: PassingCusum, end: PassingCusum| {
                    let end = end.score();
                    // At most this: a sum that reaches zero falls faster.
                    let begin = begin.score() + passed * (end - begin.score());
                    let rises = (limit - begin) / (end - begin);
                    (begin.max(end) >= limit).then_some(if begin >= limit { 0.0 } else { rises })
                };
                let level = reaches(before.level, sums.level).filter(|_| level_counts);
                let share =
                    [level, reaches(before.hours, sums.hours)].into_iter().flatten().reduce(f64::min)?;
                Some(from + Span::from_millis(((stretch.until - from).as_millis() as f64 * share) as i64))
            })
        })
    }

    fn count(&mut self, at: Timestamp, block: usize, burst: bool) {
        self.profile.count(block);
        self.counts_from = at + if burst { ALONE_IN_BURST } else { ALONE };
    }

    /// Moves every time by this span, after the clock was set.
    pub fn shift(&mut self, by: Span) {
        for sum in [&mut self.level, &mut self.hours] {
            // At the epoch or before it, the sum has not begun.
            if sum.since > Timestamp::default() {
                sum.since += by;
            }
        }
        if self.counts_from > Timestamp::MIN {
            self.counts_from += by;
        }
    }

    /// Moves times later than `now` back to it, after a correction of the clock.
    fn not_after(&mut self, now: Timestamp) {
        for sum in [&mut self.level, &mut self.hours] {
            sum.since = sum.since.min(now);
        }
        self.counts_from = self.counts_from.min(now + ALONE_IN_BURST);
    }

    /// The stored form, 81 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.counts_from.as_millis().to_le_bytes());
        for sum in [self.level, self.hours] {
            bytes.extend(sum.since.as_millis().to_le_bytes());
            bytes.extend([sum.score, sum.found, sum.expected].into_iter().flat_map(f32::to_le_bytes));
        }
        bytes.extend(self.profile.counts().into_iter().flat_map(f32::to_le_bytes));
        bytes
    }

    /// Decodes [`RhythmTest::to_bytes`]; `None` if the bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION], mut rest) = bytes.split_first_chunk()? else { return None };
        let counts_from = instant(&mut rest)?;
        let mut sum = || {
            let since = instant(&mut rest)?;
            let [score, found, expected] = [number(&mut rest)?, number(&mut rest)?, number(&mut rest)?];
            Some(Cusum { score, since, found, expected })
        };
        let (level, hours) = (sum()?, sum()?);
        let mut counts = [0.0; BLOCKS];
        for count in &mut counts {
            *count = number(&mut rest)?;
        }
        let profile = DailyProfile::new(counts);
        rest.is_empty().then_some(Self { level, hours, counts_from, profile })
    }
}

fn instant(rest: &mut &[u8]) -> Option<Timestamp> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(Timestamp::from_millis(i64::from_le_bytes(*head)))
}

/// A number of the stored form: all are 0 or more.
fn number(rest: &mut &[u8]) -> Option<f32> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(f32::from_le_bytes(*head)).filter(|number| number.is_finite() && *number >= 0.0)
}

/// The number found, and its log-likelihood ratio: `lower` against `usual` expected updates.
fn counted(found: f64, usual: f64, lower: f64) -> (f64, f64) {
    let per_update = if lower > 0.0 { (lower / usual).ln() } else { 0.0 };
    (found, found * per_update + usual - lower)
}

/// The rate that is tested, as a share of the fitted one: a standard deviation below the estimate, because a
/// rate from few updates is uncertain.
fn usual_share(fitted: &FittedRate<'_>) -> f64 {
    (1.0 + fitted.independent_updates().sqrt().recip()).recip()
}

/// Expected clusters of updates by the fitted rate, and by the learned profile.
fn clusters(stretch: &RateStretch, fitted: &FittedRate<'_>) -> (f64, f64) {
    let scale = fitted.scale();
    (stretch.expected * scale, fitted.mean_per_hour() * stretch.share_hours * scale)
}

/// Both sums while time without updates passes.
#[derive(Debug, Clone, Copy)]
struct PassingSums {
    level: PassingCusum,
    hours: PassingCusum,
}

/// A test that passes a silence. Within a stretch of it the sums rise or fall evenly, and stay at zero.
struct SilencePassage<'r> {
    stretches: RateStretches<'r>,
    counts_from: Timestamp,
    sums: PassingSums,
}

impl<'r> SilencePassage<'r> {
    fn new(test: &RhythmTest, rate: &'r Rate, (from, until): (Timestamp, Timestamp)) -> Self {
        let sums = PassingSums { level: test.level.into(), hours: test.hours.into() };
        let stretches = test.profile.stretches(rate, from, until);
        Self { stretches, counts_from: test.counts_from, sums }
    }

    /// Passes a part, until `visit` returns something. That gets each stretch with the sums before and after it.
    fn pass<T>(
        &mut self,
        part: &SilencePart<'_>,
        mut visit: impl FnMut(&RateStretch, PassingSums, PassingSums) -> Option<T>,
    ) -> Option<T> {
        let fitted = &part.fitted;
        let level_per_update = (usual_share(fitted) - HALF) * fitted.scale();
        // What is not counted ends there.
        for limit in [self.counts_from.min(part.until), part.until] {
            while let Some(stretch) = self.stretches.next_until(limit) {
                let before = self.sums;
                let interval = (stretch.from, stretch.until);
                let (usual, other) = match stretch.from < self.counts_from {
                    true => (0.0, 0.0),
                    false => clusters(&stretch, fitted),
                };
                let expected = stretch.expected * fitted.calm_share;
                self.sums.level.pass(interval, stretch.expected * level_per_update, expected);
                self.sums.hours.pass(interval, usual - other, usual);
                if let Some(found) = visit(&stretch, before, self.sums) {
                    return Some(found);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::rng::Stream;

    fn start() -> Timestamp {
        Timestamp::parse_iso("2026-01-05T00:00:00Z").unwrap()
    }

    /// Six updates a day on average, most of them in the ten hours from `opens`.
    fn office(opens: usize) -> Rate {
        let hour = |hour: usize| {
            let open = (opens..opens + 10).any(|at| at % 24 == hour);
            ((hour as u32 + 1) * 3600, if open { 0.55 } else { 0.5 / 14.0 })
        };
        Rate::of_days(TimeZone::UTC, [0; 7], (0..24).map(hour)).unwrap()
    }

    /// Updates drawn from `factor` times the rate over some days. Each brings others within the hour, as many
    /// as give the counts this dispersion.
    fn drawn(rate: &Rate, factor: f64, dispersion: f64, days: i64, chance: &mut Stream) -> Vec<Timestamp> {
        // Clusters of a geometric size with mean m have the dispersion 2m − 1.
        let mean = (dispersion + 1.0) / 2.0;
        let mut times = Vec::new();
        let (mut at, until) = (start(), start() + Span::from_days(days));
        let busiest = 0.55;
        while at < until {
            at += Span::from_hours(1).scaled(-(1.0 - chance.unit()).ln() * mean / (busiest * factor));
            if chance.unit() * busiest < rate.at(at) {
                times.push(at);
                while chance.unit() > mean.recip() {
                    times.push(at + Span::from_hours(1).scaled(chance.unit()));
                }
            }
        }
        times.sort_unstable();
        times
    }

    /// Probes every two hours; returns the changes found, up to `most`.
    fn changes(times: &[Timestamp], fitted: &FittedRate<'_>, most: usize) -> Vec<(f64, RhythmChange)> {
        let (mut test, mut found, mut from, mut next) = (RhythmTest::default(), Vec::new(), start(), 0);
        let gap = Span::from_hours(2);
        while times.last().is_some_and(|&last| from < last) && found.len() < most {
            let until = from + gap;
            let end = next + times[next..].partition_point(|&at| at <= until);
            let seen = WindowUpdates::Dated(&times[next..end]);
            let change = test.add_probe(&ProbeWindow { from, until, seen }, fitted, false);
            found.extend(change.map(|change| ((until - start()).as_secs_f64() / 86_400.0, change)));
            (from, next) = (until, end);
        }
        found
    }

    fn fitted(rate: &Rate, dispersion: f64) -> FittedRate<'_> {
        FittedRate { rate, calm_share: 1.0, dispersion, updates: 1e6 }
    }

    /// The mean of the days until each of forty sources is found to have changed.
    fn days_until_found(
        rate: &Rate,
        (truth, factor): (&Rate, f64),
        dispersion: f64,
        kind: RhythmChangeKind,
    ) -> f64 {
        let days = (0..40).map(|seed| {
            let times = drawn(truth, factor, dispersion, 400, &mut Stream::new(seed, "changed"));
            let found = changes(&times, &fitted(rate, dispersion), 1);
            let &(days, change) = found.first().unwrap();
            assert_eq!(change.kind, kind, "{seed} {change:?}");
            days
        });
        days.sum::<f64>() / 40.0
    }

    /// The days in which an ideal test, which knows the change, reaches the limit.
    fn ideal_days(rate: &Rate, (truth, factor): (&Rate, f64), dispersion: f64) -> f64 {
        let hour = |n: i64| start() + Span::from_hours(n);
        let information = (0..24).map(|n| {
            let (before, after) = (rate.at(hour(n)), factor * truth.at(hour(n)));
            after * (after / before).ln() + before - after
        });
        fitted(rate, dispersion).limit() * dispersion / information.sum::<f64>()
    }

    #[test]
    fn an_unchanged_rhythm_raises_at_most_one_alarm_in_two_years() {
        let rate = office(8);
        for dispersion in [1.0, 3.0] {
            let alarms = (0..40).map(|seed| {
                let times = drawn(&rate, 1.0, dispersion, 730, &mut Stream::new(seed, "unchanged"));
                changes(&times, &fitted(&rate, dispersion), 100).len()
            });
            let alarms = alarms.sum::<usize>();
            assert!(alarms <= 20, "{dispersion}: {alarms} in 80 years");
        }
    }

    #[test]
    fn half_of_the_updates_are_noticed_soon() {
        let rate = office(8);
        for (dispersion, factor) in [(1.0, 0.5), (3.0, 0.5), (1.0, 0.3)] {
            let days = days_until_found(&rate, (&rate, factor), dispersion, RhythmChangeKind::Level);
            let ideal = ideal_days(&rate, (&rate, factor), dispersion);
            assert!(days < 1.3 * ideal, "{factor} of the rate, dispersion {dispersion}: {days} of {ideal}");
        }
    }

    #[test]
    fn other_hours_are_noticed_soon() {
        let (rate, later) = (office(8), office(14));
        for dispersion in [1.0, 3.0] {
            let days = days_until_found(&rate, (&later, 1.0), dispersion, RhythmChangeKind::Hours);
            let ideal = ideal_days(&rate, (&later, 1.0), dispersion);
            assert!(days < 3.5 * ideal, "dispersion {dispersion}: {days} of {ideal}");
        }
    }

    #[test]
    fn the_change_is_dated_and_measured() {
        let rate = office(8);
        let chance = &mut Stream::new(7, "dated");
        let mut times = drawn(&rate, 1.0, 1.0, 100, chance);
        let after = drawn(&rate, 0.4, 1.0, 100, chance);
        times.extend(after.iter().map(|&at| at + Span::from_days(100)));
        let found = changes(&times, &fitted(&rate, 1.0), 1);
        let (_, change) = found[0];
        let day = (change.since - start()).as_secs_f64() / 86_400.0;
        assert!((90.0..110.0).contains(&day), "{day}");
        assert!((0.3..0.6).contains(&change.factor()), "{change:?}");
        assert!(change.to_string().starts_with("fewer updates since 2026-"), "{change}");
    }

    fn parts<'r>(
        fitted: FittedRate<'r>,
        from: Timestamp,
        until: Timestamp,
    ) -> impl Iterator<Item = SilencePart<'r>> {
        let hours = (0..).map(move |n| from + Span::from_hours(n)).take_while(move |&at| at < until);
        hours.map(move |at| SilencePart { from: at, until: (at + Span::from_hours(1)).min(until), fitted })
    }

    /// A test that has seen updates of some days.
    fn tested(fitted: &FittedRate<'_>, factor: f64, seed: u64) -> (RhythmTest, Timestamp) {
        let days = 20;
        let times = drawn(fitted.rate, factor, 1.0, days, &mut Stream::new(seed, "tested"));
        let (mut test, until) = (RhythmTest::default(), start() + Span::from_days(days));
        let window = ProbeWindow { from: start(), until, seen: WindowUpdates::Dated(&times) };
        test.add_probe(&window, fitted, false);
        (test, until)
    }

    #[test]
    fn a_silence_may_be_divided_anywhere() {
        let rate = office(8);
        let fitted = fitted(&rate, 3.0);
        for seed in 0..20 {
            let (test, from) = tested(&fitted, 1.0, seed);
            let cut = from + Span::from_mins(1 + 97 * seed as i64);
            let until = from + Span::from_days(3) + Span::from_mins(11 * seed as i64);
            let (mut whole, mut divided) = (test.clone(), test);
            assert_eq!(whole.add_silence((from, until), parts(fitted, from, until), false), None);
            assert_eq!(divided.add_silence((from, cut), parts(fitted, from, cut), false), None);
            assert_eq!(divided.add_silence((cut, until), parts(fitted, cut, until), false), None);
            let close = |a: f32, b: f32| (a - b).abs() <= 1e-5 * a.abs().max(1.0);
            for (a, b) in [(whole.level, divided.level), (whole.hours, divided.hours)] {
                assert_eq!(a.since, b.since, "{seed}");
                assert!(close(a.score, b.score) && close(a.expected, b.expected), "{seed}: {a:?} {b:?}");
            }
        }
    }

    #[test]
    fn the_next_alarm_is_not_later_than_the_first_probe_that_finds_a_change() {
        let rate = office(8);
        let fitted = FittedRate { updates: 100.0, ..fitted(&rate, 1.0) };
        let mut found = 0;
        for seed in 0..20 {
            let (test, from) = tested(&fitted, 0.7, seed);
            let end = from + Span::from_days(7);
            let predicted = test.next_alarm((from, end), from, parts(fitted, from, end));
            let minutes = (1..7 * 1440).map(|n| from + Span::from_mins(n));
            let first = minutes
                .into_iter()
                .find(|&at| test.clone().add_silence((from, at), parts(fitted, from, at), false).is_some());
            if let Some(first) = first {
                let predicted = predicted.unwrap();
                assert!(
                    predicted <= first && first - predicted < Span::from_mins(2),
                    "{predicted} {first}"
                );
                found += 1;
            }
        }
        assert!(found > 5, "{found}");
    }

    #[test]
    fn silence_and_bursts_are_no_change_of_rhythm() {
        let rate = office(8);
        let fitted = fitted(&rate, 1.0);
        let hour = |n: i64| start() + Span::from_hours(n);
        let mut test = RhythmTest::default();
        let probe = |test: &mut RhythmTest, from: i64, times: &[Timestamp], burst| {
            let window =
                ProbeWindow { from: hour(from), until: hour(from + 1), seen: WindowUpdates::Dated(times) };
            test.add_probe(&window, &fitted, burst)
        };
        assert!((0..24 * 60).all(|n| probe(&mut test, n, &[], false).is_none()), "sixty days of silence");
        let mut test = RhythmTest::default();
        // Ten updates in each hour of a night.
        let night = 24..30;
        let times = |n: i64| (0..10).map(|k| hour(n) + Span::from_mins(5 * k + 1)).collect::<Vec<_>>();
        assert!(night.into_iter().all(|n| probe(&mut test, n, &times(n), true).is_none()), "one burst");
    }

    #[test]
    fn pages_are_tested_by_whether_they_changed() {
        let rate = Rate::constant(0.25);
        let fitted = fitted(&rate, 1.0);
        let found = |per_hour: f64| {
            let mut chance = Stream::new(3, "page");
            let mut test = RhythmTest::default();
            (0..2_000).find_map(|n| {
                let from = start() + Span::from_hours(2 * n);
                let changed = chance.unit() < 1.0 - (-2.0 * per_hour).exp();
                let seen = if changed { WindowUpdates::Changed } else { WindowUpdates::Counted(0) };
                test.add_probe(
                    &ProbeWindow { from, until: from + Span::from_hours(2), seen },
                    &fitted,
                    false,
                )
                .map(|change| (n, change.kind))
            })
        };
        assert_eq!(found(0.25), None);
        let (probes, kind) = found(0.1).unwrap();
        assert!(kind == RhythmChangeKind::Level && probes < 200, "{probes} {kind:?}");
    }

    #[test]
    fn the_stored_form_round_trips_and_invalid_bytes_are_rejected() {
        let rate = office(8);
        let times = drawn(&rate, 0.7, 1.0, 20, &mut Stream::new(1, "stored"));
        let mut test = RhythmTest::default();
        let (from, until) = (start(), start() + Span::from_days(20));
        let seen = WindowUpdates::Dated(&times);
        test.add_probe(&ProbeWindow { from, until, seen }, &fitted(&rate, 1.0), false);
        assert_ne!(test, RhythmTest::default());
        let bytes = test.to_bytes();
        assert_eq!((bytes.len(), RhythmTest::from_bytes(&bytes)), (81, Some(test)));
        for invalid in [&bytes[..80], &[&bytes[..], &[0]].concat(), &[], &[9; 81], &[VERSION, 0]] {
            assert_eq!(RhythmTest::from_bytes(invalid), None);
        }
        let mut negative = bytes.clone();
        negative[20] = 0xff;
        assert_eq!(RhythmTest::from_bytes(&negative), None);
    }
}
