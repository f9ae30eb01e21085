//! The burst detector of one source: its state between probes, and the update by a probe.
//!
//! A burst spans several probes, so state is required. Decides at each update and at the end of each probe
//! interval; the result does not depend on how updates are divided into probes. Uses the tests. May not know
//! its callers.

use crate::model::cyclic::Rate;
use crate::model::obsolescence::hours;
use crate::time::{Span, Timestamp};

use super::filter::{Belief, Chain};
use super::recent::Recent;
use super::{
    BurstChange, BurstEvidence, BurstParams, ProbeWindow, Test, UsualRate, WindowUpdates, ratio, tail,
};

/// Maximum number of times for a count without dates.
const SPREAD: u32 = 64;
/// Lower bound on the rate, as a share of the mean rate: an hour without updates in a few weeks may still
/// have one.
const LEAST_SHARE: f64 = 0.05;
/// Lower bound on the mean rate: one update in 30 days.
const LEAST_PER_HOUR: f64 = 1.0 / 720.0;
/// The first byte of the stored form.
const VERSION: u8 = 1;

/// The state of a source between probes. The filter takes 63 bytes when stored; the other tests also store
/// the times of the updates in their windows.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstDetector {
    /// A burst is on.
    on: bool,
    /// The window of the tail test that raised the alarm.
    window: u8,
    /// The end of the last probe interval.
    seen_until: Option<Timestamp>,
    /// The first update that raised the probability of a burst, and the number of updates since.
    run_from: Timestamp,
    run_updates: u32,
    /// Updates per hour above the rate, if a burst is on.
    excess_per_hour: f64,
    belief: Belief,
    recent: Recent,
}

impl Default for BurstDetector {
    fn default() -> Self {
        Self {
            on: false,
            window: 0,
            seen_until: None,
            run_from: Timestamp::default(),
            run_updates: 0,
            excess_per_hour: 0.0,
            belief: Belief::default(),
            recent: Recent::default(),
        }
    }
}

/// Updates at one time, and the rate there in updates per hour.
struct Moment {
    at: Timestamp,
    count: u32,
    per_hour: f64,
}

/// The reference rate with its lower bounds.
struct ExpectedCounts<'r> {
    usual: UsualRate<'r>,
    mean_per_hour: f64,
}

impl<'r> ExpectedCounts<'r> {
    fn new(usual: UsualRate<'r>) -> Self {
        Self { usual, mean_per_hour: (usual.weekly.per_week() / 168.0).max(LEAST_PER_HOUR) }
    }

    fn gaps(&self, from: Timestamp, until: Timestamp) -> f64 {
        hours(until - from).max(0.0) * self.mean_per_hour
    }

    /// The rate just before these updates.
    fn before(&self, moment: &Moment) -> f64 {
        self.usual.before(moment.at, moment.per_hour).max(LEAST_SHARE * self.mean_per_hour)
    }

    fn expected(&self, from: Timestamp, until: Timestamp) -> f64 {
        self.usual.weekly.expected(from, until).max(LEAST_SHARE * self.gaps(from, until))
    }
}

impl BurstDetector {
    /// Processes one probe under the rate from before it.
    ///
    /// ```
    /// # use tidewatch_core::model::burst::detector::BurstDetector;
    /// # use tidewatch_core::model::burst::{BurstChange, BurstParams, ProbeWindow, WindowUpdates};
    /// # use tidewatch_core::model::cyclic::Rate;
    /// # use tidewatch_core::time::{Span, Timestamp};
    /// let (rate, params) = (Rate::constant(0.1), BurstParams::default());
    /// let (mut detector, start) = (BurstDetector::default(), Timestamp::from_secs(0));
    /// let window = |from, until, seen| ProbeWindow { from: start + from, until: start + until, seen };
    /// let (day, later) = (Span::from_days(1), Span::from_hours(25));
    /// let quiet = window(Span::ZERO, day, WindowUpdates::Counted(2));
    /// assert_eq!(detector.add_probe(&quiet, &rate, &params), None);
    /// // Six updates in an hour with an expectation of 0.1.
    /// let busy = window(day, later, WindowUpdates::Counted(6));
    /// let change = detector.add_probe(&busy, &rate, &params);
    /// assert!(matches!(change, Some(BurstChange::Began(_))) && detector.is_on());
    /// ```
    pub fn add_probe<'r>(
        &mut self,
        probe: &ProbeWindow<'_>,
        usual: impl Into<UsualRate<'r>>,
        params: &BurstParams,
    ) -> Option<BurstChange> {
        let usual = usual.into();
        let from = self.seen_until.map_or(probe.from, |seen| seen.max(probe.from));
        if probe.until <= from {
            return None;
        }
        let (was_on, mut ever_on) = (self.on, self.on);
        let probe = ProbeWindow { from, ..*probe };
        let evidence = match params.test {
            Test::Filter => self.filter(&probe, usual, params, &mut ever_on),
            Test::Tail => self.tail(&probe, usual.weekly, params, &mut ever_on),
            Test::Ratio => self.ratio(&probe, usual.weekly, params),
        };
        self.seen_until = Some(probe.until);
        if ever_on && !self.on {
            // An alarm soon after is another burst.
            (self.run_from, self.run_updates) = (probe.until, 0);
        }
        match (was_on, self.on) {
            (false, true) => Some(BurstChange::Began(evidence)),
            (true, false) => Some(BurstChange::Ended(evidence)),
            (false, false) if ever_on => Some(BurstChange::Passed(evidence)),
            _ => None,
        }
    }

    fn filter(
        &mut self,
        probe: &ProbeWindow<'_>,
        usual: UsualRate<'_>,
        params: &BurstParams,
        ever_on: &mut bool,
    ) -> BurstEvidence {
        let rate = usual.weekly;
        match params.with_ratio {
            true => drop(self.keep_recent(probe, rate, params.window)),
            false => self.recent.clear(),
        }
        let (rhythm, chain) = (ExpectedCounts::new(usual), Chain::new(params.false_alarms));
        if let Some(seen) = self.seen_until {
            chain.pass_unseen(&mut self.belief, rhythm.gaps(seen, probe.from));
        }
        let (mut at, mut over) = (probe.from, None);
        if probe.seen == WindowUpdates::Changed {
            let gaps = rhythm.gaps(probe.from, probe.until);
            self.begin_run(probe.from, &chain);
            chain.change(&mut self.belief, gaps, rhythm.expected(probe.from, probe.until));
            self.add_to_run(1, &chain);
            at = probe.until;
        }
        // A changed page is already processed.
        let known = if at < probe.until { moments(probe, rate) } else { Vec::new() };
        for moment in known {
            chain.pass(&mut self.belief, rhythm.gaps(at, moment.at));
            at = moment.at;
            over = self.end_run(at, rate).or(over);
            self.begin_run(at, &chain);
            self.belief.update(moment.count, rhythm.before(&moment) / rhythm.mean_per_hour);
            self.add_to_run(moment.count, &chain);
            *ever_on |= self.on;
        }
        *ever_on |= self.on;
        chain.pass(&mut self.belief, rhythm.gaps(at, probe.until));
        over = self.end_run(probe.until, rate).or(over);
        self.excess_per_hour = self.belief.excess() * rhythm.mean_per_hour;
        over.filter(|_| !self.on).unwrap_or_else(|| self.run(probe.until, rate))
    }

    /// Starts a new run of updates if the state does not indicate a burst.
    fn begin_run(&mut self, at: Timestamp, chain: &Chain) {
        if !self.on && chain.is_low(&self.belief) {
            (self.run_from, self.run_updates) = (at, 0);
        }
    }

    fn add_to_run(&mut self, count: u32, chain: &Chain) {
        self.run_updates = self.run_updates.saturating_add(count);
        self.on |= chain.is_alarming(&self.belief);
    }

    /// Ends the burst if its probability is low; returns its evidence then.
    fn end_run(&mut self, at: Timestamp, rate: &Rate) -> Option<BurstEvidence> {
        let over = self.on && self.belief.is_calm();
        self.on &= !over;
        over.then(|| self.run(at, rate))
    }

    fn run(&self, at: Timestamp, rate: &Rate) -> BurstEvidence {
        let (since, observed) = (self.run_from, self.run_updates);
        BurstEvidence { since, at, observed, expected: rate.expected(since, at) }
    }

    fn tail(
        &mut self,
        probe: &ProbeWindow<'_>,
        rate: &Rate,
        params: &BurstParams,
        ever_on: &mut bool,
    ) -> BurstEvidence {
        let rhythm = ExpectedCounts::new(rate.into());
        let windows = tail::WINDOWS.map(|factor| params.window.scaled(factor));
        let longest = windows[windows.len() - 1];
        for moment in moments(probe, rate) {
            // Evaluated just before the update, so a burst can end between two probes.
            self.end_tail(moment.at - Span::from_millis(1), &windows, &rhythm);
            self.recent.push(moment.at, moment.count, longest);
            let alarm = windows.iter().position(|&window| {
                let from = moment.at - window;
                let observed = self.recent.count(from, moment.at);
                tail::is_alarming(observed, rhythm.expected(from, moment.at), params.false_alarms)
            });
            self.run_updates = self.run_updates.saturating_add(moment.count);
            if let Some(window) = alarm {
                if !self.on {
                    let from = moment.at - windows[window];
                    (self.run_from, self.run_updates) = (from, self.recent.count(from, moment.at));
                }
                // The index is below four.
                (self.on, self.window) = (true, window as u8);
                *ever_on = true;
            }
        }
        self.end_tail(probe.until, &windows, &rhythm);
        self.measure(probe.until, windows[usize::from(self.window) % windows.len()], rate);
        self.run(probe.until, rate)
    }

    fn end_tail(&mut self, at: Timestamp, windows: &[Span], rhythm: &ExpectedCounts<'_>) {
        if self.on {
            let from = at - windows[usize::from(self.window) % windows.len()];
            self.on = !tail::is_ordinary(self.recent.count(from, at), rhythm.expected(from, at));
        }
    }

    fn ratio(&mut self, probe: &ProbeWindow<'_>, rate: &Rate, params: &BurstParams) -> BurstEvidence {
        let found = self.keep_recent(probe, rate, params.window);
        self.run_updates = self.run_updates.saturating_add(found);
        self.measure(probe.until, params.window, rate);
        let alarm = self.above_ratio(probe.until, rate, params);
        if let Some(alarm) = alarm.filter(|_| !self.on) {
            (self.run_from, self.run_updates) = (alarm.since, alarm.observed);
        }
        self.on = alarm.is_some();
        self.run(probe.until, rate)
    }

    /// Adds the updates of a probe to the recent ones. Returns their number.
    fn keep_recent(&mut self, probe: &ProbeWindow<'_>, rate: &Rate, keep: Span) -> u32 {
        moments(probe, rate).into_iter().fold(0, |sum: u32, moment| {
            self.recent.push(moment.at, moment.count, keep);
            sum.saturating_add(moment.count)
        })
    }

    /// The window that ends at `at`, if the ratio test finds a burst in it. For another test than that one,
    /// the updates of the window are kept only with [`BurstParams::with_ratio`].
    pub fn above_ratio(&self, at: Timestamp, rate: &Rate, params: &BurstParams) -> Option<BurstEvidence> {
        let window = self.in_window(at, params.window, rate);
        ratio::is_burst(window.observed, window.expected, params.threshold).then_some(window)
    }

    /// Whether a window that ends at `at` has updates, of those that the ratio test needs.
    pub fn has_updates_in(&self, at: Timestamp, length: Span) -> bool {
        self.recent.count(at - length, at) > 0
    }

    /// Observed and expected updates in a window that ends at `at`.
    fn in_window(&self, at: Timestamp, length: Span, rate: &Rate) -> BurstEvidence {
        let since = at - length;
        let (observed, expected) = (self.recent.count(since, at), rate.expected(since, at));
        BurstEvidence { since, at, observed, expected }
    }

    /// Stores the excess per hour of a window that ends at `at`.
    fn measure(&mut self, at: Timestamp, length: Span, rate: &Rate) {
        let BurstEvidence { observed, expected, .. } = self.in_window(at, length, rate);
        self.excess_per_hour = (f64::from(observed) - expected).max(0.0) / hours(length);
    }

    /// The current burst up to the last probe.
    pub fn so_far(&self, rate: &Rate) -> Option<BurstEvidence> {
        self.seen_until.filter(|_| self.on).map(|seen| self.run(seen, rate))
    }

    /// Shifts times later than `now` back to it, after a correction of the clock.
    pub fn not_after(&mut self, now: Timestamp) {
        if let Some(seen) = self.seen_until.filter(|&seen| seen > now) {
            self.shift(now - seen);
        }
    }

    /// Whether a burst is on.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// P(burst) at the last probe. For the other tests, 1 if a burst is on and 0 otherwise.
    pub fn probability(&self, test: Test) -> f64 {
        match test {
            Test::Filter => self.belief.probability(),
            Test::Tail | Test::Ratio => f64::from(u8::from(self.on)),
        }
    }

    /// β: updates per hour above the rate, if a burst is on. The current expectation is λ(t) + P(burst)·β.
    pub fn excess_rate(&self) -> f64 {
        self.excess_per_hour
    }

    /// Shifts every time after a correction of the clock.
    pub fn shift(&mut self, by: Span) {
        if let Some(seen) = &mut self.seen_until {
            *seen += by;
        }
        self.run_from += by;
        self.recent.shift(by);
    }

    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let seen = self.seen_until.unwrap_or(Timestamp::MIN);
        let mut bytes = vec![VERSION, u8::from(self.on), self.window];
        bytes.extend(seen.as_millis().to_le_bytes());
        bytes.extend(self.run_from.as_millis().to_le_bytes());
        bytes.extend(self.run_updates.to_le_bytes());
        for number in [self.excess_per_hour].into_iter().chain(self.belief.states()) {
            bytes.extend(number.to_le_bytes());
        }
        for (at, count) in self.recent.updates() {
            bytes.extend(at.as_millis().to_le_bytes());
            bytes.extend(count.to_le_bytes());
        }
        bytes
    }

    /// Decodes the stored form; `None` if it is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION, on @ 0..=1, window], mut rest) = bytes.split_first_chunk()? else { return None };
        let mut time = || take(&mut rest).map(|bytes| Timestamp::from_millis(i64::from_le_bytes(bytes)));
        let (seen, run_from) = (time()?, time()?);
        let run_updates = u32::from_le_bytes(take(&mut rest)?);
        let mut number = || take(&mut rest).map(f64::from_le_bytes);
        let excess_per_hour = number()?;
        let belief = Belief::new([number()?, number()?, number()?, number()?])?;
        let mut recent = Vec::new();
        while !rest.is_empty() {
            let at = Timestamp::from_millis(i64::from_le_bytes(take(&mut rest)?));
            recent.push((at, u32::from_le_bytes(take(&mut rest)?)));
        }
        let good = usize::from(window) < tail::WINDOWS.len()
            && excess_per_hour.is_finite()
            && excess_per_hour >= 0.0
            && recent.is_sorted_by_key(|&(at, _)| at);
        good.then(|| Self {
            on: on == 1,
            window,
            seen_until: (seen != Timestamp::MIN).then_some(seen),
            run_from,
            run_updates,
            excess_per_hour,
            belief,
            recent: Recent::new(recent),
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}

/// The updates of a probe in order. Undated ones are spread evenly, each at the middle of its share of the
/// interval.
fn moments(probe: &ProbeWindow<'_>, rate: &Rate) -> Vec<Moment> {
    match probe.seen {
        WindowUpdates::Dated(times) => {
            let inside = probe.from + Span::from_millis(1);
            let mut times: Vec<_> = times.iter().map(|&at| at.clamp(inside, probe.until)).collect();
            times.sort_unstable();
            times.into_iter().map(|at| Moment { at, count: 1, per_hour: rate.at(at) }).collect()
        }
        WindowUpdates::Counted(0) => Vec::new(),
        WindowUpdates::Counted(_) | WindowUpdates::Changed => {
            let count = if let WindowUpdates::Counted(count) = probe.seen { count } else { 1 };
            let length = probe.until - probe.from;
            let per_hour = rate.expected(probe.from, probe.until) / hours(length);
            let parts = count.min(SPREAD);
            let place = |part: u32| {
                let share = (f64::from(part) + 0.5) / f64::from(parts);
                // The first parts receive the remainder.
                let count = count / parts + u32::from(part < count % parts);
                Moment { at: probe.from + length.scaled(share), count, per_hour }
            };
            (0..parts).map(place).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Beside another test, the ratio test has the result that it has alone, also after a restart; and the
        /// other test has its own.
        #[test]
        fn the_ratio_test_beside_another_is_the_same_as_alone(
            gaps in prop::collection::vec((1_i64..300, 0_usize..6), 1..20),
            per_hour in 0.05..2.0_f64, threshold in 0.0..5.0_f64, dated in any::<bool>(),
        ) {
            let (rate, mut from) = (Rate::constant(per_hour), Timestamp::from_secs(1_000_000));
            let params = |test, with_ratio| BurstParams { test, threshold, with_ratio, ..BurstParams::default() };
            let mut alone = BurstDetector::default();
            let mut others = [Test::Filter, Test::Tail].map(|test| {
                (test, BurstDetector::default(), BurstDetector::default())
            });
            for (minutes, count) in gaps {
                let until = from + Span::from_mins(minutes);
                let share = |n: usize| (n as f64 + 1.0) / (count as f64 + 1.0);
                let times: Vec<_> = (0..count).map(|n| from + (until - from).scaled(share(n))).collect();
                let seen = match dated {
                    true => WindowUpdates::Dated(&times),
                    false => WindowUpdates::Counted(u32::try_from(count).unwrap()),
                };
                let probe = ProbeWindow { from, until, seen };
                alone.add_probe(&probe, &rate, &params(Test::Ratio, false));
                for (test, plain, beside) in &mut others {
                    let change = plain.add_probe(&probe, &rate, &params(*test, false));
                    prop_assert_eq!(beside.add_probe(&probe, &rate, &params(*test, true)), change);
                    *beside = BurstDetector::from_bytes(&beside.to_bytes()).unwrap();
                    let window = beside.above_ratio(until, &rate, &params(*test, true));
                    prop_assert_eq!(window.is_some(), alone.is_on());
                }
                from = until;
            }
        }
    }
}
