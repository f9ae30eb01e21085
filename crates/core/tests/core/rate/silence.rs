//! Probes without updates that are skipped give the model, and the reports, that they give if each is reviewed.
//! Both are close to those of a model that learns each probe by itself.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tidewatch_core::model::burst::{BurstParams, Test};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::fit::{WeeklyPrior, fit, level};
use tidewatch_core::model::habits::mixture::PredictorMix;
use tidewatch_core::model::history::History;
use tidewatch_core::model::learn::ProbedUpdates;
use tidewatch_core::model::silence::{self, LearnedProbe, LearnedUntil};
use tidewatch_core::model::source_model::{ModelUpdate, PriorKnowledge, SourceModel, learn_from_probe};
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::Observation;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::history::alike;
use super::shows::*;
use super::truth::{Cells, exponential, monday, office, poisson, steady};

/// What becomes of probes without updates.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Silences {
    /// They are skipped until a review is due.
    Skipped,
    /// Each is reviewed.
    Reviewed,
    /// Each is learned by itself.
    Learned,
}

/// The settings of one source.
#[derive(Debug, Clone)]
struct Source {
    shows: Shows,
    zone: TimeZone,
    half_life: Span,
    bursts: BurstParams,
    refit_every: Span,
    /// Whether a silence is learned before a fit.
    learns_before_fit: bool,
    habits: bool,
}

impl Source {
    fn new(shows: Shows) -> Self {
        Self {
            shows,
            zone: TimeZone::UTC,
            half_life: Span::from_days(56),
            bursts: BurstParams::default(),
            refit_every: Span::from_days(1),
            learns_before_fit: true,
            habits: false,
        }
    }
}

/// A model of a source, as the daemon keeps it.
#[derive(Debug, Clone)]
struct Learner {
    silences: Silences,
    source: Source,
    model: SourceModel,
    learned: Option<LearnedUntil>,
    rate: Option<(Rate, u32)>,
    habits: Option<PredictorMix>,
    last: Option<Timestamp>,
    newest: Option<Timestamp>,
    /// Whether the engine knows that the source is overdue.
    is_quiet: bool,
    /// Time and kind of every report.
    reports: Vec<(Timestamp, &'static str)>,
    silent_probes: usize,
    /// Probes without updates for which the model was read, and those after which it was written.
    reviews: usize,
    changes: usize,
}

impl Learner {
    fn new(silences: Silences, source: &Source, now: Timestamp) -> Self {
        Self {
            silences,
            source: source.clone(),
            model: SourceModel::new(History::new(source.zone.clone(), source.half_life, now)),
            learned: None,
            rate: None,
            habits: None,
            last: None,
            newest: None,
            is_quiet: false,
            reports: Vec::new(),
            silent_probes: 0,
            reviews: 0,
            changes: 0,
        }
    }

    /// Processes a probe. Returns its result, and whether it was skipped.
    fn probe(&mut self, now: Timestamp, seen: Option<&Observation>) -> (ModelUpdate, bool) {
        let probe =
            ProbedUpdates { kind: self.source.shows.kind, last: self.last, now, seen, except: None };
        let skipped = match (self.silences, self.learned, self.last) {
            (Silences::Skipped, Some(learned), Some(last)) if probe.is_silent() => {
                learned.skip((last, now), self.newest, None)
            }
            _ => None,
        };
        let is_skipped = skipped.is_some();
        let update = skipped.unwrap_or_else(|| self.learn(&probe));
        self.silent_probes += usize::from(probe.is_silent());
        self.report(now, &update);
        (self.last, self.newest) = (Some(now), update.newest.or(self.newest));
        (update, is_skipped)
    }

    fn learn(&mut self, probe: &ProbedUpdates<'_>) -> ModelUpdate {
        let (rate, habits) = (self.rate.clone(), self.habits.clone());
        let prior = self.prior(&rate, &habits);
        if self.silences == Silences::Learned {
            return learn_from_probe(&mut self.model, probe, &prior, None);
        }
        let before = self.model.clone();
        let LearnedProbe { update, learned, changed } =
            silence::learn(&mut self.model, self.learned, probe, &prior, None);
        assert!(changed || before == self.model);
        if probe.is_silent() {
            self.reviews += 1;
            self.changes += usize::from(changed);
        }
        self.learned = Some(learned);
        update
    }

    fn prior<'r>(
        &self,
        rate: &'r Option<(Rate, u32)>,
        habits: &'r Option<PredictorMix>,
    ) -> PriorKnowledge<'r> {
        PriorKnowledge {
            rate: rate.as_ref().map(|(rate, updates)| (rate, *updates)),
            habits: habits.as_ref(),
            bursts: self.source.bursts,
            cycle: Span::from_days(7),
            newest: self.newest,
        }
    }

    /// Reacts as the engine does.
    fn report(&mut self, now: Timestamp, update: &ModelUpdate) {
        let news = update.newest > self.newest;
        match (self.is_quiet, update.overdue) {
            (false, Some(_)) => {
                self.is_quiet = true;
                self.reports.push((now, "quiet"));
            }
            (true, None) if news || update.on.is_some() => self.is_quiet = false,
            _ => {}
        }
        let kinds = [
            (update.burst.is_some(), "burst"),
            (update.became_the_rhythm.is_some(), "became the rhythm"),
            (update.rhythm.is_some(), "rhythm"),
        ];
        self.reports.extend(kinds.into_iter().filter(|kind| kind.0).map(|kind| (now, kind.1)));
        if update.became_the_rhythm.is_some() || update.rhythm.is_some() {
            // Until it is fitted again.
            self.rate = None;
        }
    }

    fn evidence(&self) -> History {
        silence::with_pending(self.model.history.clone(), self.learned, self.last)
    }

    fn refit(&mut self, now: Timestamp) {
        if let (Some(learned), Some(last), true) = (self.learned, self.last, self.source.learns_before_fit)
        {
            let (rate, habits) = (self.rate.clone(), self.habits.clone());
            let prior = self.prior(&rate, &habits);
            let before = self.evidence();
            self.learned = Some(silence::learn_pending(&mut self.model, learned, last, &prior));
            assert_eq!(before, self.evidence());
        }
        let history = self.evidence();
        let evidence = history.evidence(now);
        let rate = fit(&evidence, &WeeklyPrior::flat(level(&evidence)), history.zone()).rate;
        if self.source.habits && self.model.update_times.entries().len() > 1 {
            let times = &self.model.update_times;
            self.habits = Some(PredictorMix::fit_weights(times, &Steps::from(&rate), now, true));
        }
        self.rate = Some((rate, history.seen()));
        let prior = self.prior(&self.rate, &self.habits);
        let learned = |learned| silence::after_refit(&self.model, learned, now, &prior, self.is_quiet);
        self.learned = self.learned.map(learned);
    }
}

/// Updates of a source whose rate changes: hours at first, others later, with bursts and a silence.
fn updates(cells: [&Cells; 3], weeks: i64, bursts: usize, chance: &mut Stream) -> Vec<Timestamp> {
    let third = Span::from_days(7 * weeks / 3);
    let mut times = Vec::new();
    for (part, cells) in cells.into_iter().enumerate() {
        let (from, until) =
            (monday() + third.scaled(part as f64), monday() + third.scaled(part as f64 + 1.0));
        let drawn = poisson(cells, weeks, chance);
        times.extend(drawn.into_iter().filter(|at| (from..until).contains(at)));
    }
    for _ in 0..bursts {
        let begins = monday() + Span::from_days(7 * weeks).scaled(chance.unit());
        let length = Span::from_hours(1).scaled(1.0 + 20.0 * chance.unit());
        times.extend((0..40).map(|_| begins + length.scaled(chance.unit())));
    }
    let from = monday() + Span::from_days(7 * weeks).scaled(0.3 + 0.5 * chance.unit());
    times.retain(|at| !(from..from + Span::from_days(10)).contains(at));
    times.sort_unstable();
    times
}

/// The probes of a source, `gap` apart on average, by each of these learners.
fn watch(
    source: &Source,
    published: &[Timestamp],
    gap: Span,
    weeks: i64,
    silences: &[Silences],
    mut check: impl FnMut(&[Learner], &[(ModelUpdate, bool)]),
    seed: u64,
) -> Vec<Learner> {
    let (mut now, end) = (monday() + Span::from_days(7), monday() + Span::from_days(7 * weeks));
    let mut learners: Vec<Learner> =
        silences.iter().map(|&silences| Learner::new(silences, source, now)).collect();
    let mut chance = Stream::new(seed, "probes");
    let (mut last, mut fitted) = (None, now);
    while now < end {
        let seen = observe(source.shows, published, last, now);
        let silent = seen.updates.is_empty() && !seen.first_contact;
        let seen = Some(&seen).filter(|_| !silent || chance.unit() < 0.5);
        let results: Vec<_> = learners.iter_mut().map(|learner| learner.probe(now, seen)).collect();
        check(&learners, &results);
        last = Some(now);
        now += gap.scaled(exponential(&mut chance).clamp(0.05, 5.0));
        // A rate that is missing is fitted soon.
        let missing = learners.iter().any(|learner| learner.rate.is_none()) && chance.unit() < 0.3;
        if missing || now - fitted >= source.refit_every {
            fitted = now;
            learners.iter_mut().for_each(|learner| learner.refit(now));
        }
    }
    learners
}

/// Skipping reports the same as reviewing, with the same model.
fn check_exact(learners: &[Learner], results: &[(ModelUpdate, bool)]) {
    let ([skipping, reviewing], [(skipped, is_skipped), (reviewed, _)]) = (learners, results) else {
        panic!("two learners")
    };
    assert_eq!(skipping.model, reviewing.model);
    assert_eq!(skipping.reports, reviewing.reports);
    assert_eq!(skipping.is_quiet, reviewing.is_quiet);
    match is_skipped {
        // That it is overdue has been reported.
        true => assert_eq!(skipped, &ModelUpdate { overdue: None, ..reviewed.clone() }),
        false => assert_eq!(skipped, reviewed),
    }
    assert!(reviewed.overdue.is_none() || reviewing.is_quiet);
}

const BOTH: [Silences; 2] = [Silences::Skipped, Silences::Reviewed];

fn shift(cells: &Cells, hours: usize) -> Cells {
    (0..cells.len()).map(|hour| cells[(hour + hours) % cells.len()]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn skipped_probes_change_nothing(
        seed in any::<u64>(),
        shows in prop_oneof![Just(FEED), Just(SHORT_FEED), Just(UNDATED_FEED), Just(PAGE), Just(DATED_PAGE)],
        test in prop_oneof![4 => Just(Test::Filter), 1 => Just(Test::Tail), 1 => Just(Test::Ratio)],
        (with_ratio, habits, learns_before_fit) in (any::<bool>(), any::<bool>(), any::<bool>()),
        false_alarms in prop_oneof![Just(0.001), Just(0.02), Just(1e-6)],
        (zone, days) in (prop_oneof![Just("UTC"), Just("Europe/Berlin")], prop_oneof![Just(1_i64), Just(56)]),
        (per_day, later) in (0.3_f64..30.0, 0.1_f64..1.2),
        probes_per_update in 0.5_f64..10.0,
        refit_hours in 6_i64..200,
    ) {
        let bursts = BurstParams { test, with_ratio, false_alarms, ..BurstParams::default() };
        let (zone, half_life) = (TimeZone::get(zone).unwrap(), Span::from_days(days));
        let source = Source {
            shows, zone, half_life, bursts, habits, learns_before_fit, refit_every: Span::from_hours(refit_hours),
        };
        let mut chance = Stream::new(seed, "updates");
        let cells = [office(per_day), shift(&office(later * per_day), 7), steady(0.5 * later * per_day)];
        // Rarely updated sources are watched longer.
        let weeks = if per_day < 3.0 { 30 } else { 9 };
        let published = updates(cells.each_ref(), weeks, 2, &mut chance);
        let gap = Span::from_days(1).scaled(1.0 / (per_day * probes_per_update));
        watch(&source, &published, gap.max(Span::from_mins(5)), weeks, &BOTH, check_exact, seed);
    }
}

/// A source with these updates a day, whose hours and level change, with a burst and a silence.
fn changing(per_day: f64, in_offices: bool, weeks: i64, seed: u64) -> Vec<Timestamp> {
    let cells = match in_offices {
        true => [office(per_day), shift(&office(per_day), 7), office(0.5 * per_day)],
        false => [steady(per_day), steady(0.5 * per_day), steady(0.4 * per_day)],
    };
    updates(cells.each_ref(), weeks, 1, &mut Stream::new(seed, "updates"))
}

/// Rates are fitted daily. The precision of a rate changes in a silence by small steps, not with each probe, so a few
/// reports come a probe earlier or later.
#[test]
fn few_probes_are_reviewed_and_the_model_is_as_if_each_was_learned() {
    let (mut reports, mut same) = (0, 0);
    for (per_day, probes_per_update) in [(0.2, 10.0), (1.0, 2.0), (1.0, 10.0), (5.0, 2.0), (25.0, 2.0)] {
        let (mut silent, mut reviews) = (0, 0);
        for (in_offices, seed) in [(true, 1), (false, 2), (true, 3)] {
            let published = changing(per_day, in_offices, 20, seed);
            let gap = Span::from_days(1).scaled(1.0 / (per_day * probes_per_update));
            let all = [Silences::Skipped, Silences::Learned];
            let learners = watch(&Source::new(FEED), &published, gap, 20, &all, |_, _| {}, seed);
            let [skipping, learning] = &learners[..] else { panic!("two learners") };
            (silent, reviews) = (silent + skipping.silent_probes, reviews + skipping.reviews);
            (reports, same) = (reports + learning.reports.len(), same + same_reports(&learners));
            if skipping.reports != learning.reports {
                continue;
            }
            let now = skipping.last.unwrap();
            let (skipped, learned) = (skipping.evidence().evidence(now), learning.evidence().evidence(now));
            assert!(alike(&skipped.hours, &learned.hours) && alike(&skipped.updates, &learned.updates));
            let hours = skipped.total_hours() / learned.total_hours();
            assert!((hours - 1.0).abs() < 1e-4 && (skipped.clumping / learned.clumping - 1.0).abs() < 1e-4);
            let per_week = |learner: &Learner| learner.rate.as_ref().unwrap().0.per_week();
            assert!((per_week(skipping) / per_week(learning) - 1.0).abs() < 1e-3, "{per_day} {seed}");
        }
        assert!(reviews * 20 < silent, "{per_day} a day: {reviews} of {silent} are reviewed");
    }
    assert!(reports > 50 && same * 100 >= reports * 95, "{same} of {reports} reports are the same");
}

/// The reports of the first learner that the second makes with the same probe.
fn same_reports(learners: &[Learner]) -> usize {
    learners[0].reports.iter().filter(|report| learners[1].reports.contains(report)).count()
}
