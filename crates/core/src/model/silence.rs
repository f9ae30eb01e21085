//! Probes that find no update: when they need not be learned, and how their time is learned later.
//!
//! Such a probe only shows that time passed without an update. The model accounts for all of the time since its
//! last change as one interval, whatever the number of probes in it. So it need not be changed by each of them:
//! the time of the last answered probe is the end of the interval. A probe is reviewed only when the silence
//! may have a consequence by then: the source is overdue, a rhythm has changed, or a burst has ended. The result
//! is the same, to the bit, as if each probe were reviewed. May not know the store or when probes come.

use crate::model::burst::Test;
use crate::model::burst::detector::BurstDetector;
use crate::model::history::History;
use crate::model::learn::ProbedUpdates;
use crate::model::rhythm_change::RhythmTest;
use crate::model::source_model::{
    ExpectedRate, ModelUpdate, PriorKnowledge, SourceModel, learn_from_probe,
};
use crate::time::{Span, Timestamp};

/// A longer silence is learned, so that the next interval is short again.
const LONGEST: Span = Span::from_days(7);

/// The time at which a source becomes overdue is found to this precision.
const PRECISION: Span = Span::from_secs(1);

/// A silence is taken for improbable at this multiple of the stated probability, so that rounding never makes a
/// review late.
const SLIGHTLY_MORE: f64 = 1.0 + 1e-9;

/// How far a model has learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnedUntil {
    /// Everything up to this time is learned. Since then there was no update.
    pub at: Timestamp,
    /// Until this time a probe without updates has no consequence.
    pub review_at: Timestamp,
}

impl LearnedUntil {
    /// The same, with a review at the next probe: because the rate, the predictors or the settings changed.
    pub fn reviewed_next(self) -> Self {
        Self { review_at: Timestamp::MIN, ..self }
    }

    /// The silence that is not learned yet, if the `last` answered probe was then.
    pub fn pending(&self, last: Timestamp) -> Option<(Timestamp, Timestamp)> {
        (self.at < last).then_some((self.at, last))
    }

    /// The result of a probe without updates, if nothing need be learned from it. Otherwise [`learn`] is to be
    /// used. `newest` is the latest update known before it, `modified` the server's time of the last change.
    pub fn skip(
        &self,
        (last, now): (Timestamp, Timestamp),
        newest: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Option<ModelUpdate> {
        // After a correction of the clock the times may be in any order.
        let in_order = self.at <= last && last <= now && now < self.review_at;
        let nothing_new = newest.is_some() || modified.is_none_or(|at| at > now);
        (in_order && nothing_new).then(|| ModelUpdate { newest, ..ModelUpdate::default() })
    }
}

/// The evidence with the silence up to the `last` answered probe, as fits use it.
pub fn with_pending(history: History, learned: Option<LearnedUntil>, last: Option<Timestamp>) -> History {
    let pending = learned.zip(last).and_then(|(learned, last)| learned.pending(last));
    match pending {
        Some((from, until)) => history.with_silence(from, until),
        None => history,
    }
}

/// A probe that was learned or reviewed.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedProbe {
    /// Its result.
    pub update: ModelUpdate,
    /// How far the model has learned now.
    pub learned: LearnedUntil,
    /// Whether the model changed. If not, only `learned` did.
    pub changed: bool,
}

/// Learns a probe, and before it the silence since the model `learned` last. A probe without updates, and without
/// consequences, leaves the model as it is. `modified` is as in [`learn_from_probe`].
pub fn learn(
    model: &mut SourceModel,
    learned: Option<LearnedUntil>,
    probe: &ProbedUpdates<'_>,
    prior: &PriorKnowledge<'_>,
    modified: Option<Timestamp>,
) -> LearnedProbe {
    let pending = learned.zip(probe.last).and_then(|(learned, last)| learned.pending(last));
    // After a correction of the clock the model may have learned later times, which it drops.
    let in_order = learned.is_none_or(|learned| learned.at <= probe.now);
    let from = pending.map(|(from, _)| from).or(probe.last).filter(|&from| in_order && from <= probe.now);
    let (update, at, changed) = match from.filter(|_| probe.is_silent()) {
        Some(from) if !model.watch.is_on() && probe.last <= Some(probe.now) => {
            match changes_in(model, (from, probe.now), prior) {
                true => {
                    let silence = ProbedUpdates::silence((from, probe.now));
                    (learn_from_probe(model, &silence, prior, modified), probe.now, true)
                }
                false => (unchanged(model, probe.now, prior, modified), from, false),
            }
        }
        _ => (learn_both(model, pending, probe, prior, modified), probe.now, true),
    };
    let newest = update.newest;
    let relearned = update.became_the_rhythm.is_some() || update.rhythm.is_some();
    // With a changed rhythm the rate counts no more, which the next probe has to learn.
    let review_at = match model.watch.is_on() || relearned {
        true => probe.now,
        false => next_review(model, at, probe.now, &PriorKnowledge { newest, ..*prior }),
    };
    LearnedProbe { update, learned: LearnedUntil { at, review_at }, changed }
}

/// Learns the silence up to the `last` answered probe with the knowledge that the probes in it had, before a rate
/// is fitted again. A silence with a consequence is left to the next probe, which can report it; it has none unless
/// the settings or the rate changed in it.
pub fn learn_pending(
    model: &mut SourceModel,
    learned: LearnedUntil,
    last: Timestamp,
    prior: &PriorKnowledge<'_>,
) -> LearnedUntil {
    let Some(silence) = learned.pending(last) else { return learned };
    let mut silent = model.clone();
    let update = learn_from_probe(&mut silent, &ProbedUpdates::silence(silence), prior, None);
    if update.burst.is_some() || update.became_the_rhythm.is_some() || update.rhythm.is_some() {
        return learned.reviewed_next();
    }
    *model = silent;
    LearnedUntil { at: last, ..learned.reviewed_next() }
}

/// The next review with this knowledge, after a rate was fitted again or predictors were weighed again.
/// `is_quiet` is whether it has been reported that the source is overdue.
pub fn after_refit(
    model: &SourceModel,
    learned: LearnedUntil,
    now: Timestamp,
    prior: &PriorKnowledge<'_>,
    is_quiet: bool,
) -> LearnedUntil {
    let reports = model.watch.is_on()
        || now < learned.at
        || changes_in(model, (learned.at, now), prior)
        || !is_quiet && overdue(model, now, prior).is_some();
    match reports {
        true => learned.reviewed_next(),
        false => LearnedUntil { review_at: next_review(model, learned.at, now, prior), ..learned },
    }
}

/// Learns the silence before a probe, and the probe.
fn learn_both(
    model: &mut SourceModel,
    pending: Option<(Timestamp, Timestamp)>,
    probe: &ProbedUpdates<'_>,
    prior: &PriorKnowledge<'_>,
    modified: Option<Timestamp>,
) -> ModelUpdate {
    let silence =
        pending.map(|silence| learn_from_probe(model, &ProbedUpdates::silence(silence), prior, None));
    let update = learn_from_probe(model, probe, prior, modified);
    // The silence has a consequence only now if the rate changed meanwhile.
    let silence = silence.unwrap_or_default();
    ModelUpdate {
        burst: update.burst.or(silence.burst),
        became_the_rhythm: update.became_the_rhythm.or(silence.became_the_rhythm),
        rhythm: update.rhythm.or(silence.rhythm),
        ..update
    }
}

/// Whether a silence changes the model, other than by its length.
fn changes_in(
    model: &SourceModel,
    (from, now): (Timestamp, Timestamp),
    prior: &PriorKnowledge<'_>,
) -> bool {
    if now >= longest(model, from) {
        return true;
    }
    let Some(known_rate) = prior.known_rate() else {
        // Without a rate no burst and no change of rhythm is known.
        let (watch, rhythm_test) = (BurstDetector::default(), RhythmTest::default());
        return model.post_burst.is_some() || model.watch != watch || model.rhythm_test != rhythm_test;
    };
    post_burst_until(model, from, &known_rate).is_some_and(|until| now >= until)
        || prior.bursts.test == Test::Ratio && ratio_may_fire(model, now, prior)
        || model.changes_rhythm_in((from, now), &known_rate)
}

/// The result of a probe without updates, and without consequences for the model.
fn unchanged(
    model: &SourceModel,
    now: Timestamp,
    prior: &PriorKnowledge<'_>,
    modified: Option<Timestamp>,
) -> ModelUpdate {
    ModelUpdate {
        overdue: overdue(model, now, prior),
        above_ratio: model.above_ratio(now, prior),
        newest: prior.newest.or(modified.filter(|&at| at <= now)),
        ..ModelUpdate::default()
    }
}

/// Updates expected since the newest one, if the source is overdue.
fn overdue(model: &SourceModel, now: Timestamp, prior: &PriorKnowledge<'_>) -> Option<f64> {
    let known_rate = prior.known_rate()?;
    known_rate.usual(&model.update_times).overdue(prior.newest?, now, known_rate.params.false_alarms)
}

/// The end of a silence that began when the model last learned, and that is learned for its length alone.
fn longest(model: &SourceModel, learned: Timestamp) -> Timestamp {
    learned + LONGEST.min(model.history.longest_interval())
}

/// When the evidence since a burst is complete.
fn post_burst_until(
    model: &SourceModel,
    learned: Timestamp,
    known_rate: &ExpectedRate<'_>,
) -> Option<Timestamp> {
    model.post_burst.as_ref().map(|evidence| evidence.since().unwrap_or(learned) + known_rate.cycle)
}

/// Whether the ratio test may find a burst in a window without updates at its end.
fn ratio_may_fire(model: &SourceModel, now: Timestamp, prior: &PriorKnowledge<'_>) -> bool {
    prior.bursts.threshold <= 0.0 || model.watch.has_updates_in(now, prior.bursts.window)
}

/// Until when a probe without updates has no consequence.
fn next_review(
    model: &SourceModel,
    learned: Timestamp,
    now: Timestamp,
    prior: &PriorKnowledge<'_>,
) -> Timestamp {
    let uses_ratio = prior.bursts.with_ratio || prior.bursts.test == Test::Ratio;
    if uses_ratio && ratio_may_fire(model, now, prior) {
        return now;
    }
    let end = longest(model, learned);
    let Some(known_rate) = prior.known_rate() else { return end };
    let end = post_burst_until(model, learned, &known_rate).map_or(end, |until| until.min(end));
    let end = overdue_from(model, (now, end), prior.newest, &known_rate).unwrap_or(end);
    model.next_rhythm_change((learned, end), now, &known_rate).unwrap_or(end)
}

/// The time in the interval before which the source is not overdue. `None` if it is overdue already, which has
/// been reported, or not overdue at the end.
fn overdue_from(
    model: &SourceModel,
    (now, end): (Timestamp, Timestamp),
    newest: Option<Timestamp>,
    known_rate: &ExpectedRate<'_>,
) -> Option<Timestamp> {
    let (newest, usual) = (newest?, known_rate.usual(&model.update_times));
    let false_alarms = known_rate.params.false_alarms;
    let is_overdue = |at, false_alarms| usual.overdue(newest, at, false_alarms).is_some();
    let (mut low, mut high, early) = (now, end, SLIGHTLY_MORE * false_alarms);
    if is_overdue(now, false_alarms) || !is_overdue(end, early) {
        return None;
    }
    // The probability of a silence falls with its length.
    while high - low > PRECISION {
        let middle = low + Span::from_millis((high - low).as_millis() / 2);
        if is_overdue(middle, early) { high = middle } else { low = middle }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::model::burst::BurstParams;
    use crate::model::cyclic::Rate;

    fn hour(n: i64) -> Timestamp {
        Timestamp::from_secs(1_700_000_000 + 3_600 * n)
    }

    fn prior<'r>(rate: Option<&'r Rate>, newest: Option<Timestamp>) -> PriorKnowledge<'r> {
        let rate = rate.map(|rate| (rate, 1000));
        PriorKnowledge { rate, habits: None, bursts: BurstParams::default(), cycle: LONGEST, newest }
    }

    fn model() -> SourceModel {
        SourceModel::new(History::new(TimeZone::UTC, Span::from_days(56), hour(0)))
    }

    #[test]
    fn probes_are_skipped_until_the_source_is_overdue() {
        let (rate, mut model) = (Rate::constant(0.5), model());
        let prior = prior(Some(&rate), Some(hour(0)));
        let first = learn(&mut model, None, &ProbedUpdates::silence((hour(0), hour(1))), &prior, None);
        let LearnedUntil { at, review_at } = first.learned;
        assert!(!first.changed && at == hour(0) && first.update.overdue.is_none());
        // ln 1000 = 6.9 updates, and a little for an uncertain rate.
        assert!((13..15).contains(&((review_at - hour(0)).as_millis() / 3_600_000)), "{review_at}");
        let skip = |last, now| first.learned.skip((last, now), prior.newest, None);
        assert_eq!(skip(hour(1), hour(3)).map(|update| update.newest), Some(Some(hour(0))));
        assert_eq!(
            (skip(hour(3), hour(15)), first.learned.pending(hour(3))),
            (None, Some((hour(0), hour(3))))
        );
        let late = ProbedUpdates::silence((hour(3), hour(15)));
        let late = learn(&mut model, Some(first.learned), &late, &prior, None);
        assert!(!late.changed && late.update.overdue.is_some_and(|expected| expected == 7.5));
        // It is reported once.
        assert_eq!(late.learned, LearnedUntil { at, review_at: hour(0) + LONGEST });
        let again = after_refit(&model, late.learned, hour(16), &prior, true);
        assert_eq!(again, late.learned);
        assert_eq!(after_refit(&model, late.learned, hour(16), &prior, false).review_at, Timestamp::MIN);
        // A long silence is learned.
        let week = ProbedUpdates::silence((hour(15), hour(170)));
        let week = learn(&mut model, Some(late.learned), &week, &prior, None);
        assert!(week.changed && week.learned.at == hour(170));
        assert_eq!(model.history.span(), Some((hour(0), hour(170))));
    }

    #[test]
    fn nothing_is_skipped_if_times_are_out_of_order_or_the_first_update_is_dated() {
        let learned = LearnedUntil { at: hour(5), review_at: hour(50) };
        let skips = |last, now| learned.skip((hour(last), hour(now)), None, None).is_some();
        assert!(skips(5, 6) && skips(7, 49));
        assert!(!skips(4, 6) && !skips(9, 8) && !skips(8, 50));
        let modified = |at| learned.skip((hour(6), hour(7)), None, Some(hour(at))).is_some();
        assert!(!modified(3) && modified(8), "a date in the future is ignored");
        assert!(learned.skip((hour(6), hour(7)), Some(hour(1)), Some(hour(3))).is_some());
        assert_eq!(learned.reviewed_next().skip((hour(6), hour(7)), None, None), None);
    }

    #[test]
    fn the_clock_may_be_set_back() {
        let (rate, mut model) = (Rate::constant(0.1), model());
        let prior = prior(Some(&rate), Some(hour(0)));
        let learned = LearnedUntil { at: hour(100), review_at: hour(200) };
        // Learned up to an hour that has not come yet, and then up to the probe.
        let back = ProbedUpdates::silence((hour(110), hour(20)));
        let back = learn(&mut model, Some(learned), &back, &prior, None);
        assert!(back.changed && back.learned.at == hour(20));
        assert_eq!(model.history.span(), Some((hour(100), hour(110))));
        let next = learn(
            &mut model,
            Some(back.learned),
            &ProbedUpdates::silence((hour(20), hour(21))),
            &prior,
            None,
        );
        assert_eq!((next.changed, next.learned.at), (false, hour(20)));
    }

    #[test]
    fn the_evidence_for_a_fit_includes_the_silence() {
        let learned = LearnedUntil { at: hour(0), review_at: hour(90) };
        let hours =
            |last| with_pending(model().history, Some(learned), last).evidence(hour(9)).total_hours();
        assert_eq!((hours(None), hours(Some(hour(0)))), (0.0, 0.0));
        assert!((hours(Some(hour(9))) - 9.0).abs() < 0.05);
        let (mut silent, prior) = (model(), prior(None, None));
        let now = learn_pending(&mut silent, learned, hour(9), &prior);
        assert_eq!((now.at, now.review_at), (hour(9), Timestamp::MIN));
        assert_eq!(silent.history, with_pending(model().history, Some(learned), Some(hour(9))));
        // Without a rate nothing can be reported.
        assert_eq!(after_refit(&silent, now, hour(9), &prior, false).review_at, hour(9) + LONGEST);
    }
}
