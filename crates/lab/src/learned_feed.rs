//! A simulated source with known update times, and the model that its probes give.
//!
//! A simulated source is processed like a real one. A probe of a feed returns the newest items with their
//! dates; a probe of a page returns only whether it changed. Models, bursts, rates and predictors are
//! computed from that by the daemon's own code, which leaves most probes without updates alone. Must not know
//! when probes come, and must not expose future updates.

use std::sync::Arc;

use jiff::tz::TimeZone;

use tidewatch_core::engine::event::{ProbeAnswer, RuleReading};
use tidewatch_core::model::aggregate::{Aggregate, Borrow, RateOrigin, estimate};
use tidewatch_core::model::burst::{BurstChange, BurstParams};
use tidewatch_core::model::censored;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::habits::mixture::PredictorMix;
use tidewatch_core::model::habits::predict::UpdateForecast;
use tidewatch_core::model::habits::weights::{FEW, WEIGHED_FOR};
use tidewatch_core::model::history::{History, WeeklyEvidence};
use tidewatch_core::model::learn::ProbedUpdates;
use tidewatch_core::model::residuals::dispersion;
use tidewatch_core::model::silence::{self, LearnedUntil};
use tidewatch_core::model::source_model::{ModelUpdate, PriorKnowledge, SourceModel, WELL_FOUNDED};
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::{ItemChange, Observation, Occurred, Present, SourceKind, Update, UpdateKind};
use tidewatch_core::planning::build::KnownRhythm;
use tidewatch_core::planning::expected::since_last_probe;
use tidewatch_core::planning::rule::RulePart;
use tidewatch_core::time::{Span, Timestamp};

use crate::calibration::{Calibration, Compared};
use crate::simulated_rules::SimulatedRules;

/// The settings for observing a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Watching {
    /// Its kind: a page shows neither dates nor the number of updates.
    pub kind: SourceKind,
    /// The time zone of its weekly rhythm.
    pub zone: TimeZone,
    /// Half-life of old evidence.
    pub half_life: Span,
    /// The period of its rhythm.
    pub cycle: Span,
    /// Parameters of burst detection.
    pub bursts: BurstParams,
    /// M: the number of items that a feed shows.
    pub holds: usize,
    /// How it borrows from its group's rate.
    pub borrow: Borrow,
    /// Whether predictors are used for its plans.
    pub habits: bool,
    /// Whether the self-exciting predictor is used.
    pub echoes: bool,
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            kind: SourceKind::Feed,
            zone: TimeZone::UTC,
            half_life: Span::from_days(56),
            cycle: Span::from_days(7),
            bursts: BurstParams::default(),
            holds: 50,
            borrow: Borrow::default(),
            habits: true,
            echoes: true,
        }
    }
}

/// A source and its model.
#[derive(Debug, Clone)]
pub struct LearnedFeed {
    watching: Watching,
    /// Update times, ascending.
    items: Vec<Timestamp>,
    beliefs: SourceModel,
    learned: Option<LearnedUntil>,
    rate: FittedFeedRate,
    /// Variance over mean of its counts, as of the last fit.
    dispersion: f64,
    habits: WeightedMix,
    forecast: Option<Arc<UpdateForecast>>,
    /// For a page: the interval between two probes, and whether the page changed in it.
    gaps: Vec<(Timestamp, Timestamp, bool)>,
    found: usize,
    last: Option<Timestamp>,
    newest: Option<Timestamp>,
    /// What its model stated, and what came of it.
    calibration: Calibration,
    is_quiet: bool,
    /// The rules that concern it, and its part in each.
    rules: Option<(Arc<SimulatedRules>, Box<[RulePart]>)>,
}

impl LearnedFeed {
    /// A source with these update times, ascending, that has not been probed yet.
    pub fn new(items: Vec<Timestamp>, watching: Watching, now: Timestamp) -> Self {
        let history = History::new(watching.zone.clone(), watching.half_life, now);
        Self {
            watching,
            items,
            beliefs: SourceModel::new(history),
            learned: None,
            rate: None,
            dispersion: 1.0,
            habits: None,
            forecast: None,
            gaps: Vec::new(),
            found: 0,
            last: None,
            newest: None,
            calibration: Calibration::default(),
            is_quiet: false,
            rules: None,
        }
    }

    /// The same, with rules that request or count its updates.
    pub fn with_rules(self, rules: &Arc<SimulatedRules>, parts: &[RulePart]) -> Self {
        let rules = (!parts.is_empty()).then(|| (Arc::clone(rules), parts.into()));
        Self { rules, ..self }
    }

    /// Probes the source at `now` and updates its model.
    pub fn probe(&mut self, now: Timestamp) -> ProbeAnswer {
        let there = self.items.partition_point(|&at| at <= now);
        let last = self.last;
        let (seen, found) = match self.watching.kind {
            SourceKind::Feed => self.feed(there, last),
            SourceKind::Page => self.page(there, last, now),
        };
        self.found += found;
        let probed = ProbedUpdates { kind: self.watching.kind, last, now, seen: Some(&seen), except: None };
        let learned_before = self.beliefs.history.seen();
        let model_update = self.learn(&probed);
        let rate = self.rate.as_ref().map(|(rate, _, updates)| (rate, *updates));
        let expected = rate.filter(|&(_, updates)| updates >= WELL_FOUNDED);
        let expected = expected.zip(last).map(|((rate, _), last)| rate.expected(last, now));
        let learned = i64::from(self.beliefs.history.seen()) - i64::from(learned_before);
        let shown = u32::try_from(seen.present.len()).unwrap_or(u32::MAX);
        let updates = u32::try_from(found).unwrap_or(u32::MAX);
        let reading = self.rules.as_ref().map(|(rules, parts)| {
            let expected = rate.and_then(|rate| since_last_probe(rate, last, now));
            let matches = rules.matches(parts, &seen.updates);
            Box::new(RuleReading { matches, found: updates, expected })
        });
        let answered = ProbeAnswer {
            updates,
            history: if last.is_none() { shown } else { 0 },
            gap: seen.gap,
            holds: Some(shown).filter(|&items| items > 0),
            model: model_update,
            rules: reading,
            ..ProbeAnswer::default()
        };
        if let (Some(expected), Some(last), SourceKind::Feed) = (expected, last, self.watching.kind) {
            let published = there - self.items.partition_point(|&at| at <= last);
            let replaced = answered.model.became_the_rhythm.is_some() || answered.model.rhythm.is_some();
            let kept_out = match replaced {
                true => 0,
                false => (found as i64 - learned).max(0) as usize + self.moved_out(&answered, last),
            };
            let holds = u32::try_from(self.watching.holds).ok().map(|holds| (holds, self.dispersion));
            let compared = Compared { answer: &answered, expected, published, kept_out, holds };
            self.is_quiet = self.calibration.count(&compared, self.is_quiet);
        }
        (self.last, self.newest) = (Some(now), answered.model.newest);
        if let Some(change) = answered.model.rhythm {
            self.gaps.retain(|&(from, ..)| from >= change.since);
        }
        if answered.model.became_the_rhythm.is_some() || answered.model.rhythm.is_some() {
            self.refit(now, None);
        } else if found > 0 {
            self.update_forecast(now);
        }
        answered
    }

    /// Learns a probe, or skips it if nothing need be learned from it.
    fn learn(&mut self, probe: &ProbedUpdates<'_>) -> ModelUpdate {
        let silence = self.learned.zip(probe.last).filter(|_| probe.is_silent());
        if let Some(update) =
            silence.and_then(|(learned, last)| learned.skip((last, probe.now), self.newest, None))
        {
            return update;
        }
        let prior = prior(&self.watching, &self.rate, &self.habits, self.newest);
        let probe = silence::learn(&mut self.beliefs, self.learned, probe, &prior, None);
        self.learned = Some(probe.learned);
        probe.update
    }

    /// The updates up to the last probe that left the history because a burst was noticed now.
    fn moved_out(&self, answered: &ProbeAnswer, last: Timestamp) -> usize {
        let Some(BurstChange::Began(burst)) = answered.model.burst else { return 0 };
        let entries = self.beliefs.update_times.entries();
        entries.filter(|entry| (burst.since..=last).contains(&entry.at)).count()
    }

    /// The newest items. Those after the last probe are updates.
    fn feed(&self, there: usize, last: Option<Timestamp>) -> (Observation, usize) {
        let shown = &self.items[there.saturating_sub(self.watching.holds)..there];
        let news = last.map_or(&[][..], |last| &shown[shown.partition_point(|&at| at <= last)..]);
        let seen = Observation {
            updates: news.iter().map(|&at| update(UpdateKind::New, Occurred::At(at))).collect(),
            present: shown.iter().map(|&at| present(at)).collect(),
            gap: last.is_some() && news.len() == shown.len() && shown.len() == self.watching.holds,
            first_contact: last.is_none(),
            ..Observation::default()
        };
        (seen, news.len())
    }

    /// Whether the page changed since the last probe.
    fn page(&mut self, there: usize, last: Option<Timestamp>, now: Timestamp) -> (Observation, usize) {
        let changed = last.filter(|&last| self.items[..there].last().is_some_and(|&newest| newest > last));
        self.gaps.extend(last.map(|last| (last, now, changed.is_some())));
        let change = changed.map(|last| update(UpdateKind::Changed, Occurred::Between(last, now)));
        let updates: Vec<Update> = change.into_iter().collect();
        let found = updates.len();
        (Observation { updates, first_contact: last.is_none(), ..Observation::default() }, found)
    }

    /// What its model stated so far, and what came of it.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// The evidence for its weekly rhythm.
    pub fn evidence(&self, now: Timestamp) -> WeeklyEvidence {
        let Watching { zone, half_life, .. } = &self.watching;
        match self.gaps.is_empty() {
            true => {
                let history = self.beliefs.history.clone();
                silence::with_pending(history, self.learned, self.last).evidence(now)
            }
            false => censored::from_probes(&self.gaps, zone, *half_life, now).evidence(now),
        }
    }

    /// Fits its rate again, from its own evidence and its group's aggregate.
    pub fn refit(&mut self, now: Timestamp, group: Option<&Aggregate>) {
        // The silence so far is learned with the rate that was known in it.
        if let Some((learned, last)) = self.learned.zip(self.last) {
            let prior = prior(&self.watching, &self.rate, &self.habits, self.newest);
            self.learned = Some(silence::learn_pending(&mut self.beliefs, learned, last, &prior));
        }
        let Watching { zone, borrow, .. } = &self.watching;
        let evidence = self.evidence(now);
        let (fitted, origin) = estimate(&evidence, group, *borrow, zone);
        self.dispersion = dispersion(&evidence, &fitted.rate).unwrap_or(1.0).max(1.0);
        self.rate = Some((fitted.rate.clone(), origin, self.beliefs.history.seen()));
        let stale = |(_, at, found): &(PredictorMix, Timestamp, usize)| {
            *found != self.found || now - *at >= WEIGHED_FOR
        };
        let enough = self.beliefs.update_times.entries().len() >= FEW;
        if self.watching.habits && enough && self.habits.as_ref().is_none_or(stale) {
            let rhythm = Steps::from(&fitted.rate);
            let habits =
                PredictorMix::fit_weights(&self.beliefs.update_times, &rhythm, now, self.watching.echoes);
            self.habits = Some((habits, now, self.found));
        }
        let prior = prior(&self.watching, &self.rate, &self.habits, self.newest);
        let learned = |learned| silence::after_refit(&self.beliefs, learned, now, &prior, self.is_quiet);
        self.learned = self.learned.map(learned);
        self.update_forecast(now);
    }

    fn update_forecast(&mut self, now: Timestamp) {
        let update_times = || self.beliefs.update_times.clone();
        let habits = self.habits.as_ref().map(|(habits, ..)| habits.clone());
        self.forecast = habits
            .map(|habits| Arc::new(UpdateForecast::new(update_times(), habits, &self.watching.zone, now)));
    }

    /// Its weekly rate as last fitted.
    pub fn rate(&self) -> Option<&Rate> {
        self.rate.as_ref().map(|(rate, ..)| rate)
    }

    /// Its rhythm as last fitted.
    pub fn rhythm(&self) -> Option<KnownRhythm> {
        let (rate, origin, updates) = self.rate.as_ref()?;
        let (foresight, dispersion) = (self.forecast.clone(), self.dispersion);
        Some(KnownRhythm {
            rate: Steps::from(rate),
            origin: *origin,
            updates: *updates,
            dispersion,
            foresight,
        })
    }
}

/// The rate of a source as last fitted.
type FittedFeedRate = Option<(Rate, RateOrigin, u32)>;

/// The mix of predictors, the time it was weighted, and the number of updates found by then.
type WeightedMix = Option<(PredictorMix, Timestamp, usize)>;

/// What the next probe of a source is compared with.
fn prior<'r>(
    watching: &Watching,
    rate: &'r FittedFeedRate,
    habits: &'r WeightedMix,
    newest: Option<Timestamp>,
) -> PriorKnowledge<'r> {
    let rate = rate.as_ref().map(|(rate, _, updates)| (rate, *updates));
    let habits = habits.as_ref().map(|(habits, ..)| habits);
    PriorKnowledge { rate, habits, bursts: watching.bursts, cycle: watching.cycle, newest }
}

fn update(kind: UpdateKind, occurred: Occurred) -> Update {
    let (Occurred::At(at) | Occurred::Between(_, at)) = occurred;
    Update::bare(kind, occurred, at.as_millis().to_string())
}

fn present(at: Timestamp) -> Present {
    let key_hash = at.as_millis().unsigned_abs();
    Present { key_hash, fingerprint: 0, change: ItemChange::New, dated: Some(at) }
}
