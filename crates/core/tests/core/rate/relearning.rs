//! A log that is learned again with other settings gives the evidence that the probes themselves would have
//! given with them.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tidewatch_core::model::burst::{BurstChange, BurstParams};
use tidewatch_core::model::fit::{WeeklyPrior, fit, level};
use tidewatch_core::model::history::{History, WeeklyEvidence};
use tidewatch_core::model::learn::ProbedUpdates;
use tidewatch_core::model::probe_log::ProbeLog;
use tidewatch_core::model::source_model::{ExpectedRate, SourceModel};
use tidewatch_core::observe::{Observation, SourceKind};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::history::alike;
use super::shows::*;
use super::truth::{exponential, monday, office, poisson, rate_of, steady};

/// Settings that a history is learned with.
#[derive(Debug, Clone)]
struct Settings {
    zone: TimeZone,
    half_life: Span,
}

impl Settings {
    fn new(zone: &str, days: i64) -> Self {
        Self { zone: TimeZone::get(zone).unwrap(), half_life: Span::from_days(days) }
    }
}

/// Adds an observation to the log, as the store keeps it.
fn log_probe(
    log: &mut ProbeLog,
    shows: Shows,
    last: Option<Timestamp>,
    now: Timestamp,
    seen: &Observation,
) {
    if shows.kind == SourceKind::Page && now >= shows.logged_since {
        log.probe(now);
    }
    seen.updates.iter().for_each(|update| log.update(now, update.occurred));
    let first_seen = seen.present.iter().filter_map(|item| item.dated);
    first_seen.filter(|&at| last.is_none_or(|last| at > last)).for_each(|at| log.item(now, at));
    if seen.gap {
        log.gap(now, last);
    }
}

/// A source's models with several settings, and its log. With `bursts`, the true rate is known.
fn watch(
    shows: Shows,
    published: &[Timestamp],
    bursts: bool,
    settings: &[&Settings],
    seed: u64,
) -> (Vec<SourceModel>, ProbeLog, Timestamp) {
    let start = monday() + Span::from_days(14);
    let end = monday() + Span::from_days(7 * 12);
    let rate = rate_of(&steady(12.0));
    let known = ExpectedRate {
        rate: &rate,
        updates: None,
        habits: None,
        params: BurstParams::default(),
        cycle: Span::from_days(7),
    };
    let empty = |by: &&Settings| SourceModel::new(History::new(by.zone.clone(), by.half_life, start));
    let mut models: Vec<SourceModel> = settings.iter().map(empty).collect();
    let mut log = ProbeLog::new(shows.kind, start);
    let (mut stream, mut last, mut now) = (Stream::new(seed, "probes"), None, start);
    let (mut open, mut spans) = (None, Vec::new());
    while now < end {
        let seen = observe(shows, published, last, now);
        log_probe(&mut log, shows, last, now, &seen);
        let probe = ProbedUpdates { kind: shows.kind, last, now, seen: Some(&seen), except: None };
        let mut change = None;
        for model in &mut models {
            change = model.add_probe(&probe, Some(&known).filter(|_| bursts), None).burst;
        }
        match change {
            Some(BurstChange::Began(evidence)) => open = Some(evidence.since),
            Some(BurstChange::Passed(evidence)) => spans.push((evidence.since, Some(evidence.at))),
            Some(BurstChange::Ended(evidence)) => {
                spans.extend(open.take().map(|began| (began, Some(evidence.at))))
            }
            None => {}
        }
        last = Some(now);
        now += Span::from_hours(2).scaled(exponential(&mut stream).clamp(0.2, 4.0));
    }
    spans.extend(open.map(|began| (began, None)));
    spans.into_iter().for_each(|(began, ended)| log.burst(began, ended));
    (models, log, end)
}

fn per_week(evidence: &WeeklyEvidence, zone: &TimeZone) -> f64 {
    fit(evidence, &WeeklyPrior::flat(level(evidence)), zone).rate.per_week()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_learned_again_equals_learning_with_the_new_settings(
        seed in any::<u64>(),
        shows in prop_oneof![Just(FEED), Just(SHORT_FEED), Just(UNDATED_FEED), Just(PAGE), Just(DATED_PAGE)],
        zone in prop_oneof![Just("UTC"), Just("Asia/Tokyo"), Just("America/New_York"), Just("Asia/Kolkata")],
        days in prop_oneof![Just(7_i64), Just(56_i64), Just(400_i64)],
    ) {
        let (old, new) = (Settings::new("UTC", 56), Settings::new(zone, days));
        let published = poisson(&office(9.0), 12, &mut Stream::new(seed, "updates"));
        let (models, log, now) = watch(shows, &published, false, &[&old, &new], seed);
        let again = log.history(&models[0].history, &new.zone, new.half_life, now);
        let (again_is, wanted) = (again.evidence(now), models[1].history.evidence(now));
        prop_assert!(alike(&again_is.hours, &wanted.hours), "{:?} {:?}", again_is.hours, wanted.hours);
        prop_assert!(alike(&again_is.updates, &wanted.updates), "{:?} {:?}", again_is.updates, wanted.updates);
        prop_assert!((again_is.clumping / wanted.clumping - 1.0).abs() < 0.01);
        prop_assert_eq!(again.seen(), models[1].history.seen());
        prop_assert!(again.is_learned_with(&new.zone, new.half_life));
        let (again_is, wanted) = (per_week(&again_is, &new.zone), per_week(&wanted, &new.zone));
        prop_assert!((again_is / wanted - 1.0).abs() < 0.01, "{again_is} {wanted}");
    }
}

/// Bursts stay excluded. A burst is noticed some updates after it began; the log excludes it from its
/// beginning, so hours differ a little.
#[test]
fn bursts_of_the_log_stay_excluded() {
    let (old, new) = (Settings::new("UTC", 56), Settings::new("Asia/Tokyo", 14));
    for (shows, seed) in [(FEED, 1), (FEED, 2), (UNDATED_FEED, 3)] {
        let mut published = poisson(&steady(12.0), 12, &mut Stream::new(seed, "updates"));
        for day in [20, 41, 75] {
            let began = monday() + Span::from_days(day);
            published.extend((0..60).map(|n| began + Span::from_mins(4 * n)));
        }
        published.sort_unstable();
        let (models, log, now) = watch(shows, &published, true, &[&old, &new], seed);
        let again = log.history(&models[0].history, &new.zone, new.half_life, now).evidence(now);
        let wanted = models[1].history.evidence(now);
        assert!(wanted.bursts.0 > 30.0, "{:?}", wanted.bursts);
        assert!(
            (again.bursts.0 / wanted.bursts.0 - 1.0).abs() < 0.02,
            "{:?} {:?}",
            again.bursts,
            wanted.bursts
        );
        let (level_again, level_wanted) = (per_week(&again, &new.zone), per_week(&wanted, &new.zone));
        assert!((level_again / level_wanted - 1.0).abs() < 0.01, "{shows:?}: {level_again} {level_wanted}");
        let all =
            log.without_bursts().history(&models[0].history, &new.zone, new.half_life, now).evidence(now);
        assert!(all.total_updates() > again.total_updates() + 30.0);
    }
}

#[test]
fn evidence_begins_where_the_old_one_began() {
    let settings = Settings::new("UTC", 56);
    let published = poisson(&steady(12.0), 12, &mut Stream::new(7, "updates"));
    let (models, log, now) = watch(FEED, &published, false, &[&settings], 7);
    // The rate was learned again from a later time on.
    let since = monday() + Span::from_days(50);
    let mut later = models[0].history.afresh(now);
    later.exposed(since, now);
    published.iter().filter(|&&at| since <= at && at <= now).for_each(|&at| later.update(at));
    let again = log.history(&later, &settings.zone, settings.half_life, now);
    assert_eq!(again.span(), later.span());
    assert!(alike(&again.evidence(now).updates, &later.evidence(now).updates));
    assert!(alike(&again.evidence(now).hours, &later.evidence(now).hours));
    // No evidence stays none.
    let none = models[0].history.afresh(now);
    assert_eq!(log.history(&none, &settings.zone, settings.half_life, now).seen(), 0);
}

/// Old probes are deleted, updates are not.
#[test]
fn deleted_probes_change_little() {
    let settings = Settings::new("UTC", 56);
    let published = poisson(&steady(4.0), 12, &mut Stream::new(9, "updates"));
    let (models, log, now) = watch(DATED_PAGE, &published, false, &[&settings], 9);
    let wanted = models[0].history.evidence(now);
    let whole = log.history(&models[0].history, &settings.zone, settings.half_life, now).evidence(now);
    assert!((whole.total_hours() / wanted.total_hours() - 1.0).abs() < 0.001);
    let pruned = Shows { logged_since: monday() + Span::from_days(7 * 6), ..DATED_PAGE };
    let (models, recent, now) = watch(pruned, &published, false, &[&settings], 9);
    let recent = recent.history(&models[0].history, &settings.zone, settings.half_life, now).evidence(now);
    assert!((recent.total_updates() / wanted.total_updates() - 1.0).abs() < 0.001);
    let ratio = recent.total_hours() / wanted.total_hours();
    assert!((ratio - 1.0).abs() < 0.04, "{ratio}");
}

#[test]
fn evidence_from_before_a_change_of_rhythm_is_not_learned_again() {
    let settings = Settings::new("UTC", 56);
    let published: Vec<Timestamp> =
        (0..7 * 12 * 24).map(|hour| monday() + Span::from_hours(hour)).collect();
    let (models, mut log, now) = watch(FEED, &published, false, &[&settings], 3);
    let (since, until) = models[0].history.span().unwrap();
    let changed = monday() + Span::from_days(70);
    log.rhythm_since(changed);
    let again = log.history(&models[0].history, &settings.zone, settings.half_life, now);
    assert_eq!(again.span(), Some((changed, until)));
    assert!(since < changed && again.seen() < models[0].history.seen() / 3, "{}", again.seen());
    // One update an hour, as before.
    assert!((per_week(&again.evidence(now), &settings.zone) / 168.0 - 1.0).abs() < 0.02);
}
