//! The model of one source between probes, and its update by a probe.
//!
//! Holds the evidence for the rate, the burst detector and, during a burst, the evidence since its start. A
//! burst is excluded from the shape of the rate. A burst that does not end within a cycle is a change, and the
//! evidence since its start replaces the older one. A lower level or other hours are found by a sequential
//! test, and the evidence follows them. A silence is tested against the evidence from before it, so its probes
//! may be learned as one. May not know the time of the next probe or how rates are fitted.

use serde::{Deserialize, Serialize};

use crate::model::burst::detector::BurstDetector;
use crate::model::burst::excess::Excess;
use crate::model::burst::{
    BurstChange, BurstEvidence, BurstParams, ProbeWindow, Test, UsualRate, WindowUpdates,
};
use crate::model::cyclic::Rate;
use crate::model::fitted_rate::{FittedRate, SilencePart};
use crate::model::habits::mixture::PredictorMix;
use crate::model::habits::update_times::UpdateTimes;
use crate::model::history::History;
use crate::model::post_burst::PostBurstEvidence;
use crate::model::rhythm_change::{RhythmChange, RhythmChangeKind, RhythmTest};
use crate::model::week::WEEK_MS;
use crate::observe::{Observation, Occurred, SourceKind, Update, UpdateKind};
use crate::time::{Span, Timestamp};

use super::learn::{ProbedUpdates, count_burst, learn};

/// The model of a source between probes.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceModel {
    /// The evidence for the rate.
    pub history: History,
    /// The burst detector.
    pub watch: BurstDetector,
    /// The evidence since the last burst began; it replaces `history` if the burst does not end.
    pub post_burst: Option<PostBurstEvidence>,
    /// The last updates with known times.
    pub update_times: UpdateTimes,
    /// The test for a lower level or other hours.
    pub rhythm_test: RhythmTest,
}

/// Minimum number of updates behind a rate. A rate with fewer is not used for plans, unless a group
/// supplements it, nor for burst detection.
pub const WELL_FOUNDED: u32 = 10;

/// The knowledge on a source before a probe.
#[derive(Debug, Clone, Copy)]
pub struct PriorKnowledge<'r> {
    /// λ(t) and the number of updates behind it.
    pub rate: Option<(&'r Rate, u32)>,
    /// The predictors of its updates.
    pub habits: Option<&'r PredictorMix>,
    /// The parameters of the burst test.
    pub bursts: BurstParams,
    /// The cycle of the rate.
    pub cycle: Span,
    /// The latest known update.
    pub newest: Option<Timestamp>,
}

impl<'r> PriorKnowledge<'r> {
    /// The rate, if it is founded.
    pub fn known_rate(&self) -> Option<ExpectedRate<'r>> {
        let Self { rate, habits, bursts: params, cycle, .. } = *self;
        let founded = rate.filter(|&(_, updates)| updates >= WELL_FOUNDED);
        founded.map(|(rate, updates)| ExpectedRate { rate, updates: Some(updates), habits, params, cycle })
    }
}

/// Updates the model with one probe. `modified` is the server's time of the last change: the age of a
/// document without dates.
pub fn learn_from_probe(
    beliefs: &mut SourceModel,
    probe: &ProbedUpdates<'_>,
    prior: &PriorKnowledge<'_>,
    modified: Option<Timestamp>,
) -> ModelUpdate {
    let mut learned = beliefs.add_probe(probe, prior.known_rate().as_ref(), prior.newest);
    learned.above_ratio = beliefs.above_ratio(probe.now, prior);
    learned.newest = learned.newest.or(modified.filter(|&at| at <= probe.now));
    learned
}

/// The rate from before a probe, to which the probe is compared.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedRate<'r> {
    /// λ(t).
    pub rate: &'r Rate,
    /// The number of updates behind it; `None` if it is certain.
    pub updates: Option<u32>,
    /// The predictors of its updates.
    pub habits: Option<&'r PredictorMix>,
    /// The parameters of the burst test.
    pub params: BurstParams,
    /// The cycle of the rate.
    pub cycle: Span,
}

impl<'r> ExpectedRate<'r> {
    /// The rate with the updates that earlier ones of these trigger.
    pub(super) fn usual(&self, update_times: &'r UpdateTimes) -> UsualRate<'r> {
        let habits = self.habits.map(|habits| (habits, update_times));
        UsualRate { weekly: self.rate, habits, evidence: self.updates }
    }
}

/// The result of one probe for the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelUpdate {
    /// The burst that began or ended with this probe.
    pub burst: Option<BurstChange>,
    /// The current burst.
    pub on: Option<BurstEvidence>,
    /// The additional rate of the current burst.
    pub excess: Option<Excess>,
    /// The start of a burst that outlasted a cycle and is now the rate.
    pub became_the_rhythm: Option<Timestamp>,
    /// The level fell or the hours changed, and the rate is learned again.
    #[serde(default)]
    pub rhythm: Option<RhythmChange>,
    /// The last window of the ratio test, if that finds a burst in it; only with
    /// [`BurstParams::with_ratio`].
    pub above_ratio: Option<BurstEvidence>,
    /// Set if the source is overdue: the updates expected since the last one.
    pub overdue: Option<f64>,
    /// The latest known update.
    pub newest: Option<Timestamp>,
}

impl ModelUpdate {
    /// Moves the times that the clock gave, after it was set by `by` to `now`.
    pub fn shift(&mut self, by: Span, now: Timestamp) {
        self.newest = self.newest.map(|at| published_after(at, by, now));
        if let Some(excess) = &mut self.excess {
            excess.at += by;
        }
    }
}

/// The change of a clock that was plainly wrong.
pub const WRONG_CLOCK: Span = Span::from_days(365);

/// The time of an update after the clock was set by `by` to `now`. A publisher's date stays. A time that the clock
/// gave while it was plainly wrong moves; so does one that would be in the future.
pub fn published_after(at: Timestamp, by: Span, now: Timestamp) -> Timestamp {
    let moved = at + by;
    match at > now || (by > WRONG_CLOCK && moved <= now) {
        true => moved.min(now),
        false => at,
    }
}

/// Smaller corrections of the clock do not move a model: its weights change little in that time, and most of its times
/// are publishers' dates.
const MOVES_MODEL: Span = Span::from_days(1);

/// By how much a model moves after the clock was set by `by`.
pub fn model_shift(by: Span) -> Span {
    if by < MOVES_MODEL && by > -MOVES_MODEL { Span::ZERO } else { by }
}

impl SourceModel {
    /// Moves the evidence with the clock, after that was set by `by`. So no time passes for it, and the weight of what
    /// was learned is as before. The times of updates are publishers' dates, and stay.
    pub fn shift(&mut self, by: Span) {
        let by = model_shift(by);
        if by == Span::ZERO {
            return;
        }
        self.history.shift(by);
        self.watch.shift(by);
        if let Some(post_burst) = &mut self.post_burst {
            post_burst.shift(by);
        }
        self.rhythm_test.shift(by);
    }

    /// A model with this evidence only.
    pub fn new(history: History) -> Self {
        Self {
            history,
            watch: BurstDetector::default(),
            post_burst: None,
            update_times: UpdateTimes::default(),
            rhythm_test: RhythmTest::default(),
        }
    }

    /// Processes a probe. `newest` is the latest update known before it. Without an expected rate, only the
    /// evidence is updated.
    pub fn add_probe(
        &mut self,
        probe: &ProbedUpdates<'_>,
        known_rate: Option<&ExpectedRate<'_>>,
        newest: Option<Timestamp>,
    ) -> ModelUpdate {
        let newest = latest(probe).max(newest);
        let first_contact = probe.last.is_none() || probe.seen.is_some_and(|seen| seen.first_contact);
        self.update_times.not_after(probe.now);
        self.record_updates(probe, first_contact, known_rate.map(|known_rate| known_rate.rate));
        let Some(known_rate) = known_rate.filter(|_| !first_contact) else {
            // First contact or no reference rate: the burst state is invalid.
            (self.watch, self.post_burst) = (BurstDetector::default(), None);
            self.rhythm_test = RhythmTest::default();
            learn(&mut self.history, probe);
            return ModelUpdate { newest, ..ModelUpdate::default() };
        };
        // A silence is tested by the evidence from before it.
        let silence = probe.last.filter(|_| probe.is_silent()).map(|from| (from, probe.now));
        let before_silence = silence.map(|_| self.history.clone());
        let mut change = self.detect_bursts(probe, known_rate);
        let on = self.watch.so_far(known_rate.rate);
        let mut learned = ModelUpdate {
            on,
            newest,
            excess: self.excess(probe.now, on, &known_rate.params),
            ..ModelUpdate::default()
        };
        let burst = match change {
            // Without an end: updates published during the transfer may be in the response.
            Some(BurstChange::Began(evidence)) => Some((evidence.since, Timestamp::MAX)),
            Some(BurstChange::Passed(evidence)) => Some((evidence.since, evidence.at)),
            Some(BurstChange::Ended(evidence)) => Some((Timestamp::MIN, evidence.at)),
            None => on.map(|_| (Timestamp::MIN, Timestamp::MAX)),
        };
        learn(&mut self.history, &ProbedUpdates { except: burst, ..*probe });
        // The windows of the other tests may reach into an earlier burst.
        let began = matches!(change, Some(BurstChange::Began(_))) && known_rate.params.test == Test::Filter;
        self.count_burst(probe, burst, began);
        learned.became_the_rhythm = self.update_post_burst(probe, burst, on.is_some(), known_rate);
        if let Some(since) = learned.became_the_rhythm {
            self.update_times.forget_before(since);
            self.rhythm_test = RhythmTest::default();
        } else {
            learned.rhythm = match silence.zip(before_silence) {
                Some((silence, history)) => {
                    let parts = silence_parts(&history, silence, known_rate.rate);
                    self.rhythm_test.add_silence(silence, parts, burst.is_some())
                }
                None => self.test_rhythm(probe, known_rate, burst.is_some()),
            };
            if let Some(change) = learned.rhythm {
                self.follow(&change, probe.now);
            }
        }
        let relearned = learned.became_the_rhythm.is_some() || learned.rhythm.is_some();
        if relearned {
            (learned.on, learned.excess) = (None, None);
            change = match change {
                // The burst began with this probe and was not reported yet.
                Some(BurstChange::Began(evidence)) => Some(BurstChange::Passed(evidence)),
                change => on.map(BurstChange::Ended).or(change),
            };
        }
        learned.burst = change;
        learned.overdue = newest.filter(|_| learned.on.is_none() && !relearned).and_then(|newest| {
            known_rate.usual(&self.update_times).overdue(newest, probe.now, known_rate.params.false_alarms)
        });
        learned
    }

    /// Records the times of updates of a feed.
    fn record_updates(&mut self, probe: &ProbedUpdates<'_>, first_contact: bool, rate: Option<&Rate>) {
        let Some(seen) = probe.seen.filter(|_| probe.kind == SourceKind::Feed) else { return };
        if first_contact {
            self.update_times = UpdateTimes::default();
            let mut dates: Vec<Timestamp> =
                seen.present.iter().filter_map(|item| item.dated).filter(|&at| at <= probe.now).collect();
            dates.sort_unstable();
            if let Some((&oldest, later)) = dates.split_first() {
                // The oldest only marks the time since which the feed is complete.
                self.update_times.watched_since(oldest);
                later.iter().for_each(|&at| self.update_times.note(at, None));
            }
            return;
        }
        if seen.gap {
            // Updates before the oldest present item are missing, so the record before it is incomplete.
            let oldest = seen.present.iter().filter_map(|item| item.dated).min().unwrap_or(probe.now);
            self.update_times.forget_before(oldest);
        }
        for update in seen.updates.iter().filter(|update| update.kind != UpdateKind::Edited) {
            match update.occurred {
                Occurred::At(at) => self.update_times.note(at, rate.map(|rate| rate.at(at) as f32)),
                // The exact time is unknown. A recorded probe time would make the predictors repeat the
                // probe times.
                Occurred::Between(..) => {}
            }
        }
    }

    /// Counts the updates and the time of a burst for the mean rate. Those before this probe were already
    /// learned if the burst `began` with it; they leave the shape of the rate.
    fn count_burst(
        &mut self,
        probe: &ProbedUpdates<'_>,
        burst: Option<(Timestamp, Timestamp)>,
        began: bool,
    ) {
        count_burst(&mut self.history, &ProbedUpdates { except: burst, ..*probe });
        let (Some((from, until)), Some(last), true) = (burst, probe.last, began) else { return };
        let earlier = self.update_times.entries().map(|entry| entry.at);
        for at in earlier.filter(|&at| from <= at && at <= until && at <= last).collect::<Vec<_>>() {
            self.history.move_to_burst(at);
        }
    }

    /// Updates the evidence since the burst began. Returns its start if the burst became the rate.
    fn update_post_burst(
        &mut self,
        probe: &ProbedUpdates<'_>,
        burst: Option<(Timestamp, Timestamp)>,
        on: bool,
        known_rate: &ExpectedRate<'_>,
    ) -> Option<Timestamp> {
        let mut except = None;
        let mut post_burst = match self.post_burst.take() {
            Some(post_burst) => post_burst,
            None if !on => return None,
            None => {
                except = burst.map(|(from, _)| (Timestamp::MIN, from - Span::from_millis(1)));
                PostBurstEvidence::begin(&self.history, probe.now)
            }
        };
        post_burst.add(&ProbedUpdates { except, ..*probe }, known_rate.rate, known_rate.cycle);
        let since = post_burst.since().unwrap_or(probe.now);
        if probe.now < since + known_rate.cycle {
            self.post_burst = Some(post_burst);
            return None;
        }
        post_burst.is_permanent().then(|| {
            (self.history, self.watch) = (post_burst.into_history(), BurstDetector::default());
            since
        })
    }

    fn detect_bursts(
        &mut self,
        probe: &ProbedUpdates<'_>,
        known_rate: &ExpectedRate<'_>,
    ) -> Option<BurstChange> {
        let times = update_times(probe);
        self.watch.not_after(probe.now);
        let usual = known_rate.usual(&self.update_times);
        self.watch.add_probe(&window(probe, &times)?, usual, &known_rate.params)
    }

    /// Whether a silence shows another rhythm at its end.
    pub(super) fn changes_rhythm_in(
        &self,
        silence: (Timestamp, Timestamp),
        known_rate: &ExpectedRate<'_>,
    ) -> bool {
        let parts = silence_parts(&self.history, silence, known_rate.rate);
        self.rhythm_test.clone().add_silence(silence, parts, false).is_some()
    }

    /// The first time after `after` at which a silence shows another rhythm, or a little earlier.
    pub(super) fn next_rhythm_change(
        &self,
        silence: (Timestamp, Timestamp),
        after: Timestamp,
        known_rate: &ExpectedRate<'_>,
    ) -> Option<Timestamp> {
        let parts = silence_parts(&self.history, silence, known_rate.rate);
        self.rhythm_test.next_alarm(silence, after, parts)
    }

    /// The last window of the ratio test, if that is used and finds a burst in it.
    pub(super) fn above_ratio(&self, at: Timestamp, prior: &PriorKnowledge<'_>) -> Option<BurstEvidence> {
        if !prior.bursts.with_ratio {
            return None;
        }
        // Without a rate the detector keeps no updates: none are observed, none expected.
        let unknown = Rate::constant(0.0);
        let known_rate = prior.known_rate();
        let rate = known_rate.as_ref().map_or(&unknown, |known_rate| known_rate.rate);
        self.watch.above_ratio(at, rate, &prior.bursts)
    }

    /// Tests for a lower level or other hours.
    fn test_rhythm(
        &mut self,
        probe: &ProbedUpdates<'_>,
        known_rate: &ExpectedRate<'_>,
        burst: bool,
    ) -> Option<RhythmChange> {
        let times = update_times(probe);
        let fitted = FittedRate::new(known_rate.rate, &self.history.totals(probe.now));
        self.rhythm_test.add_probe(&window(probe, &times)?, &fitted, burst)
    }

    /// The evidence follows a change of rhythm.
    fn follow(&mut self, change: &RhythmChange, now: Timestamp) {
        match change.kind {
            RhythmChangeKind::Level => self.history.lower_level(change.factor()),
            RhythmChangeKind::Hours => {
                let updates = self.update_times.entries().map(|entry| entry.at);
                self.history.relearn_hours(change.since, now, updates);
            }
        }
        (self.watch, self.post_burst) = (BurstDetector::default(), None);
    }

    fn excess(&self, at: Timestamp, on: Option<BurstEvidence>, params: &BurstParams) -> Option<Excess> {
        // Only while a burst is on: a source that follows its rate has some burst probability after every
        // few updates, and planning for it cost 2 %.
        let lasted = (at - on?.since).max(Span::ZERO);
        let (probability, per_hour) = (self.watch.probability(params.test), self.watch.excess_rate());
        (per_hour > 0.0).then_some(Excess { at, probability, per_hour, lasted })
    }
}

/// The parts of a silence, each with the precision that the evidence at its start gives the rate. It changes by small
/// steps, whatever the number of probes.
fn silence_parts<'h, 'r: 'h>(
    history: &'h History,
    silence: (Timestamp, Timestamp),
    rate: &'r Rate,
) -> impl Iterator<Item = SilencePart<'r>> + use<'h, 'r> {
    let (due_ms, from) = (WEEK_MS as f64 / rate.per_week(), silence.0);
    let part = move |at: Timestamp| {
        let passed_ms = (at - from).as_millis() as f64;
        let longest_ms = (PART_OF_DUE * due_ms).max(PART_OF_PASSED * passed_ms);
        let short = |part: &&Span| part.as_millis() as f64 <= longest_ms;
        *PARTS.iter().find(short).unwrap_or(&PARTS[PARTS.len() - 1])
    };
    history.through_silence(silence, part).map(move |((from, until), evidence)| {
        let fitted = FittedRate::new(rate, &evidence);
        SilencePart { from, until, fitted }
    })
}

/// The lengths of the parts in which a silence is tested. They divide an hour.
const PARTS: [Span; 6] = [
    Span::from_hours(1),
    Span::from_mins(30),
    Span::from_mins(15),
    Span::from_mins(6),
    Span::from_mins(3),
    Span::from_mins(1),
];
/// A part is at most this share of the mean time between updates, …
const PART_OF_DUE: f64 = 0.125;
/// … or of the silence before it.
const PART_OF_PASSED: f64 = 0.0625;

/// The known times of a probe's updates.
fn update_times(probe: &ProbedUpdates<'_>) -> Vec<Timestamp> {
    let at = |update: &Update| match update.occurred {
        Occurred::At(at) => Some(at),
        Occurred::Between(..) => None,
    };
    probe.updates().filter_map(at).collect()
}

/// A probe as the tests see it, with the `times` of its updates; `None` at first contact.
fn window<'t>(probe: &ProbedUpdates<'_>, times: &'t [Timestamp]) -> Option<ProbeWindow<'t>> {
    let mut from = probe.last?;
    if let Some(seen) = probe.seen.filter(|seen| seen.gap) {
        let oldest = seen.present.iter().filter_map(|item| item.dated).min();
        from = oldest.unwrap_or(probe.now).max(from);
    }
    let count = probe.updates().count();
    let seen = match probe.kind {
        // Only the last change is visible.
        SourceKind::Page if count > 0 => WindowUpdates::Changed,
        _ if times.len() == count => WindowUpdates::Dated(times),
        _ => WindowUpdates::Counted(u32::try_from(count).unwrap_or(u32::MAX)),
    };
    // Updates published during the transfer may be in the response.
    let until = times.iter().copied().fold(probe.now, Timestamp::max);
    Some(ProbeWindow { from, until, seen })
}

/// The latest update of a probe; at first contact, the latest item present.
fn latest(probe: &ProbedUpdates<'_>) -> Option<Timestamp> {
    let seen: &Observation = probe.seen?;
    let occurred = probe.updates().map(|update| match update.occurred {
        Occurred::At(at) | Occurred::Between(_, at) => at,
    });
    let there = seen.present.iter().filter(|_| seen.first_contact).filter_map(|item| item.dated);
    // An undated update is at most as late as the end of the probe, which is after `now`.
    occurred.chain(there).map(|at| at.min(probe.now)).max()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::observe::Update;

    fn hour(n: i64) -> Timestamp {
        Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap() + Span::from_hours(n)
    }

    fn beliefs() -> SourceModel {
        SourceModel::new(History::new(TimeZone::UTC, Span::from_days(56), hour(0)))
    }

    fn certain(rate: &Rate) -> ExpectedRate<'_> {
        let (params, cycle) = (BurstParams::default(), Span::from_days(7));
        ExpectedRate { rate, updates: None, habits: None, params, cycle }
    }

    fn update(occurred: Occurred) -> Update {
        Update::bare(UpdateKind::New, occurred, "k")
    }

    fn probe<'s>(from: i64, now: i64, seen: &'s Observation) -> ProbedUpdates<'s> {
        ProbedUpdates {
            kind: SourceKind::Feed,
            last: Some(hour(from)),
            now: hour(now),
            seen: Some(seen),
            except: None,
        }
    }

    fn seen(updates: Vec<Update>) -> Observation {
        Observation { updates, ..Observation::default() }
    }

    /// Undated updates are dated to the end of the response, which is after the probe's time.
    #[test]
    fn an_undated_update_counts_as_of_the_probe() {
        let (mut beliefs, rate) = (beliefs(), Rate::constant(1.0));
        let known_rate = certain(&rate);
        let mut newest = Some(hour(0));
        for n in 0..30 {
            let late = hour(n + 1) + Span::from_secs(3);
            let undated = seen(vec![update(Occurred::Between(hour(n), late))]);
            let learned = beliefs.add_probe(&probe(n, n + 1, &undated), Some(&known_rate), newest);
            assert_eq!((learned.newest, learned.overdue), (Some(hour(n + 1)), None));
            newest = learned.newest;
        }
        let nothing = seen(Vec::new());
        assert_eq!(beliefs.add_probe(&probe(30, 36, &nothing), Some(&known_rate), newest).overdue, None);
        let silent = beliefs.add_probe(&probe(36, 38, &nothing), Some(&known_rate), newest).overdue;
        assert!(silent.is_some_and(|expected| expected > 7.0), "{silent:?}");
    }

    /// A clock that is years ahead for an hour neither lets evidence decay nor puts silence into it.
    #[test]
    fn evidence_moves_with_the_clock() {
        for years in [1, 3, 9, -40] {
            let by = Span::from_days(365 * years + 2);
            let (mut right, mut wrong) = (beliefs(), beliefs());
            let rate = Rate::constant(1.0 / 3.0);
            for n in 0..1_440 {
                if n == 1_400 {
                    wrong.shift(by);
                }
                if n == 1_401 {
                    wrong.shift(-by);
                }
                let ahead = if n == 1_400 { by } else { Span::ZERO };
                let dated =
                    |at: Timestamp| seen(if n % 3 == 0 { vec![update(Occurred::At(at))] } else { vec![] });
                for (model, ahead) in [(&mut right, Span::ZERO), (&mut wrong, ahead)] {
                    let found = dated(hour(n) + Span::from_mins(20) + ahead);
                    let probe = ProbedUpdates {
                        last: Some(hour(n) + ahead),
                        now: hour(n + 1) + ahead,
                        ..probe(n, n + 1, &found)
                    };
                    model.add_probe(&probe, Some(&certain(&rate)), None);
                }
            }
            let of = |model: &SourceModel| {
                let evidence = model.history.evidence(hour(1_440));
                [evidence.total_updates(), evidence.total_hours(), evidence.clumping]
            };
            let ratios: Vec<f64> =
                of(&wrong).iter().zip(of(&right)).map(|(wrong, right)| wrong / right).collect();
            assert!(ratios.iter().all(|ratio| (0.99..1.01).contains(ratio)), "{years} years: {ratios:?}");
            assert_eq!(wrong.history.span(), right.history.span());
        }
        // A time zone or a late correction by hours is no such clock.
        let mut beliefs = beliefs();
        let before = beliefs.clone();
        beliefs.shift(Span::from_hours(-5));
        assert_eq!(beliefs, before);
    }

    #[test]
    fn a_thin_rate_detects_no_burst_and_last_modified_dates_a_document() {
        let rate = Rate::constant(0.1);
        let at = |n: i64| update(Occurred::At(hour(1) + Span::from_mins(5 * n)));
        let many = seen((1..12).map(at).collect());
        let learned = |updates: u32, probe: &ProbedUpdates<'_>, modified| {
            let (bursts, cycle) = (BurstParams::default(), Span::from_days(7));
            let prior =
                PriorKnowledge { rate: Some((&rate, updates)), habits: None, bursts, cycle, newest: None };
            learn_from_probe(&mut beliefs(), probe, &prior, modified)
        };
        assert!(learned(WELL_FOUNDED, &probe(1, 2, &many), None).burst.is_some());
        assert_eq!(learned(WELL_FOUNDED - 1, &probe(1, 2, &many), None).burst, None);
        let nothing = seen(Vec::new());
        let newest = |modified: i64| learned(0, &probe(1, 4, &nothing), Some(hour(modified))).newest;
        assert_eq!((newest(3), newest(5)), (Some(hour(3)), None), "a date in the future is ignored");
    }

    #[test]
    fn edits_leave_the_model_as_it_is() {
        let rate = Rate::constant(0.5);
        let known_rate = certain(&rate);
        let (mut with, mut without) = (beliefs(), beliefs());
        for n in 0..40 {
            let at = hour(n) + Span::from_mins(20);
            let news: Vec<Update> = (n % 3 == 0).then(|| update(Occurred::At(at))).into_iter().collect();
            let dated = Update { kind: UpdateKind::Edited, ..update(Occurred::At(at)) };
            let undated = Update { occurred: Occurred::Between(hour(n), hour(n + 1)), ..dated.clone() };
            let edits = (0..9).flat_map(|_| [dated.clone(), undated.clone()]);
            let edited = seen(news.iter().cloned().chain(edits).collect());
            let known_rate = Some(&known_rate).filter(|_| n > 10);
            let learned = with.add_probe(&probe(n, n + 1, &edited), known_rate, None);
            assert_eq!(learned, without.add_probe(&probe(n, n + 1, &seen(news)), known_rate, None));
        }
        assert_eq!(with, without);
        assert_eq!(with.history.seen(), 14);
    }

    #[test]
    fn a_burst_ends_when_there_is_no_rate() {
        let (mut beliefs, rate) = (beliefs(), Rate::constant(0.1));
        let known_rate = certain(&rate);
        let at = |n: i64| update(Occurred::At(hour(1) + Span::from_mins(5 * n)));
        let many = seen((1..12).map(at).collect());
        let learned = beliefs.add_probe(&probe(1, 2, &many), Some(&known_rate), None);
        assert!(matches!(learned.burst, Some(BurstChange::Began(_))) && learned.on.is_some());
        assert!(learned.excess.is_some_and(|excess| excess.per_hour > 1.0 && excess.probability > 0.8));
        // Each update is in exactly one of the two. The first one precedes the burst.
        assert_eq!(
            (beliefs.history.seen(), beliefs.post_burst.as_ref().unwrap().history().seen()),
            (1, 10)
        );
        let stored = beliefs.post_burst.as_ref().unwrap().to_bytes();
        assert_eq!(PostBurstEvidence::from_bytes(&stored, &beliefs.history), beliefs.post_burst);
        assert_eq!(PostBurstEvidence::from_bytes(&[], &beliefs.history), None);
        let learned = beliefs.add_probe(&probe(2, 3, &seen(Vec::new())), None, None);
        assert_eq!((learned.on, learned.burst), (None, None));
        assert_eq!((beliefs.post_burst, beliefs.watch), (None, BurstDetector::default()));
    }
}
