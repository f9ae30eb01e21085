//! The forecast that the engine makes at the start of each probe, against what the probe finds.
//!
//! Sources publish at a weekly rate, singly or in clusters. Forecasts go by a stated rate, which is the true one or
//! a wrong one.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tidewatch_core::engine::action::{Action, Attempt, Persist};
use tidewatch_core::engine::event::{
    EngineEvent, KnownSource, Moved, PlansReady, ProbeAnswer, ProbeReport, SourceProfile,
};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::params::{FleetParams, HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::model::count_check::{CountCheck, at_most};
use tidewatch_core::model::hourly_profile::HourlyProfile;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver::{Pending, SimulatedWorld};

const SOURCES: i64 = 20;

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

/// Four times as many updates in working hours as at other times; more with the source's number.
fn rate(id: SourceId, times: f64) -> Steps {
    let busy = WeekWindow { days: 0b001_1111, from_minute: 9 * 60, until_minute: 17 * 60 };
    let base = times * 0.03 * id.0 as f64;
    Steps::windows(TimeZone::UTC, base, &[(busy, 4.0 * base)]).unwrap()
}

/// Sources whose stated rate is `stated` times the true one, and whose updates come in clusters.
struct Stated {
    stated: f64,
    cluster: u32,
    /// The number of items that the feeds show.
    holds: u32,
    chance: Stream,
    last: BTreeMap<SourceId, Timestamp>,
    started: BTreeMap<SourceId, Attempt>,
    checks: BTreeMap<SourceId, CountCheck>,
    overflow: (f64, u64),
}

impl Stated {
    fn updates(&mut self, id: SourceId, now: Timestamp) -> u32 {
        let Some(last) = self.last.insert(id, now) else { return 0 };
        let (mut mean, mut before) = (0.0, 0);
        for (until, per_hour) in rate(id, 1.0).over(last, now) {
            mean += per_hour * (until - std::mem::replace(&mut before, until)) as f64 / 3.6e6;
        }
        let (mut passed, mut found) = (0.0, 0);
        loop {
            passed -= (1.0 - self.chance.unit()).ln();
            if passed > mean / f64::from(self.cluster) {
                return found;
            }
            found += self.cluster;
        }
    }

    /// Runs four weeks.
    fn run(stated: f64, cluster: u32, holds: u32, budget: Budget) -> Self {
        let mut world = Self {
            stated,
            cluster,
            holds,
            chance: Stream::new(5, "clusters"),
            last: BTreeMap::new(),
            started: BTreeMap::new(),
            checks: BTreeMap::new(),
            overflow: (0.0, 0),
        };
        let known = |id: i64| KnownSource {
            id: SourceId(id),
            terms: Terms {
                budget,
                policy: Policy::Adaptive,
                weight: 1.0,
                price: SourcePrice::Own(0.0),
                max_gap: None,
                cost: None,
                host: HostGroup { key: Arc::from(format!("s{id}.example")), public: true },
            },
            memory: SourceMemory::default(),
            probes: Vec::new(),
            answered_by: None,
            moved: Moved::Same,
        };
        let mut loader = Loader::new(FleetParams::default(), 7, start());
        loader.sources((1..=SOURCES).map(known).collect());
        let (mut engine, mut pending) = (loader.finish(), Pending::default());
        pending.deliver(&mut engine, &mut world, start(), EngineEvent::Tick);
        let fitted = EngineEvent::RatesFitted((1..=SOURCES).map(SourceId).collect());
        pending.deliver(&mut engine, &mut world, start(), fitted);
        pending.run(&mut engine, &mut world, start(), start() + Span::from_days(28));
        world
    }

    /// All sources together, and how many of them fit.
    fn verdict(&self) -> (CountCheck, usize) {
        let all = self.checks.values().fold(CountCheck::default(), |sum, one| CountCheck {
            expected: sum.expected + one.expected,
            variance: sum.variance + one.variance,
            found: sum.found + one.found,
        });
        (all, self.checks.values().filter(|check| check.fits()).count())
    }
}

impl SimulatedWorld for Stated {
    fn probe(&mut self, attempt: &Attempt, now: Timestamp) -> ProbeReport {
        let source = attempt.source;
        assert_eq!(self.started.remove(&source), Some(*attempt), "the forecast is stored with the start");
        let published = self.updates(source, now);
        let updates = published.min(self.holds);
        if let Some(forecast) = attempt.forecast {
            let check = self.checks.entry(source).or_default();
            check.expected += f64::from(forecast.updates);
            check.variance += f64::from(forecast.updates * forecast.dispersion);
            check.found += u64::from(updates);
            self.overflow.0 += f64::from(forecast.overflow.unwrap());
            self.overflow.1 += u64::from(published >= self.holds);
        }
        let answer = ProbeAnswer { updates, holds: Some(self.holds), ..ProbeAnswer::default() };
        ProbeReport {
            source,
            started: now,
            finished: now + Span::from_millis(300),
            answered_by: None,
            crawl_delays: Vec::new(),
            result: Ok(answer),
        }
    }

    fn plan(&mut self, order: &PlanOrder, now: Timestamp) -> (Span, PlansReady) {
        let source = order.source;
        let (rate, dispersion) = (rate(source, self.stated), f64::from(self.cluster));
        let (profile, per_hour) = HourlyProfile::of(&rate, now).unwrap();
        let profile = SourceProfile { source, profile, per_hour, updates: 50, dispersion };
        let profiles = vec![profile];
        (Span::from_millis(5), PlansReady { requests: 1, profiles, ..PlansReady::default() })
    }

    fn watch(&mut self, action: &Action, _: Timestamp) {
        if let Action::Persist(Persist::Started(attempts)) = action {
            self.started.extend(attempts.iter().map(|attempt| (attempt.source, *attempt)));
        }
    }
}

/// Twelve probes a day.
const SOME: Budget = Budget { probes: 12, per: Span::from_days(1), min_spacing: Span::from_mins(15) };

#[test]
fn the_right_rate_fits_and_one_that_is_off_by_two_does_not() {
    for cluster in [1, 4] {
        let (all, fitting) = Stated::run(1.0, cluster, 50, SOME).verdict();
        assert!(all.found > 5_000 && all.fits() && fitting >= 19, "{cluster}: {all:?}, {fitting}");
        for stated in [2.0, 0.5] {
            let (all, fitting) = Stated::run(stated, cluster, 50, SOME).verdict();
            assert!(!all.fits() && fitting <= 3, "{cluster} {stated}: {all:?}, {fitting}");
        }
    }
}

#[test]
fn overflows_are_as_rare_as_stated_and_the_forecast_allows_for_lost_items() {
    let twice = Budget { probes: 2, ..SOME };
    let right = Stated::run(1.0, 1, 10, twice);
    let (stated, found) = right.overflow;
    assert!(stated > 50.0 && at_most(stated, found), "{stated} {found}");
    assert!(CountCheck { expected: stated, variance: stated, found }.fits(), "{stated} {found}");
    let (all, fitting) = right.verdict();
    assert!(all.fits() && fitting >= 19, "{all:?}, {fitting}");
    // Half of the true rate is stated: more overflows than that.
    let (stated, found) = Stated::run(0.5, 1, 10, twice).overflow;
    assert!(!at_most(stated, found), "{stated} {found}");
}
