//! A stated total: the price at which all sources together spend it, across steps and restarts.
//!
//! Sources publish at an hourly rate with busy working hours. The engine learns from its probes; plans know the
//! rate. These tests simulate weeks of a whole fleet and take some seconds each.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tidewatch_core::engine::action::{Action, Attempt, Persist};
use tidewatch_core::engine::event::{
    Configuration, EngineEvent, KnownSource, MadePlan, Moved, PlansReady, ProbeAnswer, ProbeReport,
    SourceProfile,
};
use tidewatch_core::engine::fleet_price::FleetPrice;
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::params::{FleetParams, HostGroup, Pricing, SourcePrice, Terms};
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::engine::state::Engine;
use tidewatch_core::model::aggregate::RateOrigin;
use tidewatch_core::model::hourly_profile::HourlyProfile;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::{KnownRhythm, PlanOrder, PlanParams, build_plan};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver::{Pending, SimulatedWorld};

const HOUR: Span = Span::from_hours(1);

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

/// What happens to a fleet.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// This many sources, in percent of those at first.
    Sources(i64),
    /// Rates times this.
    Rates(f64),
    Restart,
}

/// A fleet under a total of `per_day` probes for each source that it has at first.
struct Fleet {
    policy: Policy,
    sources: i64,
    per_day: u64,
    max_gap: Option<Span>,
}

/// The sources, and the record of their probes.
struct Publishers {
    rates: f64,
    chance: Stream,
    seen: BTreeMap<SourceId, Timestamp>,
    memories: BTreeMap<SourceId, SourceMemory>,
    ended: BTreeMap<SourceId, Vec<Timestamp>>,
    sent: Vec<Timestamp>,
    prices: Vec<FleetPrice>,
    params: PlanParams,
}

/// Updates per day of a source: from one in three days to thirty a day.
fn per_day(id: SourceId) -> f64 {
    0.3 * 100_f64.powf(Stream::new(3, format!("rate/{}", id.0)).unit())
}

/// Five times as many updates in working hours as at other times.
fn rate(id: SourceId, times: f64) -> Steps {
    let busy = WeekWindow { days: 0b001_1111, from_minute: 9 * 60, until_minute: 17 * 60 };
    let base = times * per_day(id) / 24.0 / (1.0 + 4.0 * 40.0 / 168.0);
    Steps::windows(TimeZone::UTC, base, &[(busy, 5.0 * base)]).unwrap()
}

impl Publishers {
    fn new() -> Self {
        let importance = Steps::constant(1.0).unwrap();
        Self {
            rates: 1.0,
            chance: Stream::new(11, "updates"),
            seen: BTreeMap::new(),
            memories: BTreeMap::new(),
            ended: BTreeMap::new(),
            sent: Vec::new(),
            prices: Vec::new(),
            params: PlanParams { importance, freshness_threshold: 1.0, switches: false },
        }
    }

    /// A Poisson number with the mean of the rate over the time since the last probe.
    fn updates(&mut self, id: SourceId, now: Timestamp) -> u32 {
        let Some(last) = self.seen.insert(id, now).filter(|&last| last < now) else { return 0 };
        let (mut mean, mut before) = (0.0, 0);
        for (until, per_hour) in rate(id, self.rates).over(last, now) {
            mean += per_hour * (until - std::mem::replace(&mut before, until)) as f64 / 3.6e6;
        }
        let (mut passed, mut found) = (0.0, 0);
        loop {
            passed -= (1.0 - self.chance.unit()).ln();
            if passed > mean {
                return found;
            }
            found += 1;
        }
    }
}

impl SimulatedWorld for Publishers {
    fn probe(&mut self, attempt: &Attempt, now: Timestamp) -> ProbeReport {
        self.sent.push(now);
        let (source, finished) = (attempt.source, now + Span::from_millis(300));
        self.ended.entry(source).or_default().push(finished);
        let answer = ProbeAnswer { updates: self.updates(source, now), ..ProbeAnswer::default() };
        ProbeReport {
            source,
            started: now,
            finished,
            answered_by: None,
            crawl_delay: None,
            result: Ok(answer),
        }
    }

    fn plan(&mut self, order: &PlanOrder, now: Timestamp) -> (Span, PlansReady) {
        let (source, made_from) = (order.source, order.made_from);
        let rate = rate(source, self.rates);
        let profile = HourlyProfile::of(&rate, now).map(|(profile, per_hour)| SourceProfile {
            source,
            profile,
            per_hour,
            updates: 50,
            dispersion: 1.0,
        });
        let origin = RateOrigin::Individual;
        let known = KnownRhythm { rate, origin, updates: 50, dispersion: 1.0, foresight: None };
        let ahead = build_plan(order, &known, &self.params);
        let plan = ahead.map(|ahead| MadePlan { source, made_from, at: order.input.now, ahead });
        let (profiles, plans) = (profile.into_iter().collect(), plan.into_iter().collect());
        (Span::from_millis(5), PlansReady { requests: 1, profiles, plans, intervals: Vec::new() })
    }

    fn watch(&mut self, action: &Action, _: Timestamp) {
        match action {
            Action::Persist(Persist::Ended(result)) => {
                self.memories.insert(result.source, result.memory.clone());
            }
            Action::Persist(Persist::Price(price)) => self.prices.push(*price),
            _ => {}
        }
    }
}

impl Fleet {
    fn known(&self, id: SourceId, memory: SourceMemory, probes: Vec<Timestamp>) -> KnownSource {
        // One source of ten is probed evenly.
        let policy = if id.0 % 10 == 0 { Policy::Uniform } else { self.policy };
        let budget = match policy {
            Policy::Uniform => Budget { probes: 6, ..Budget::default() },
            _ => Budget::default(),
        };
        KnownSource {
            id,
            terms: Terms {
                budget,
                policy,
                weight: 1.0,
                price: SourcePrice::Fleet,
                max_gap: self.max_gap.filter(|_| id.0 % 10 == 1),
                cost: None,
                host: HostGroup { key: Arc::from(format!("s{}.example", id.0)), public: true },
            },
            memory,
            probes,
            answered_by: None,
            moved: Moved::Same,
        }
    }

    fn params(&self) -> FleetParams {
        let probes = self.sources.unsigned_abs() * self.per_day;
        FleetParams {
            probes_per_step: 100_000,
            pricing: Pricing::Total { probes, per: Span::from_days(1) },
            ..FleetParams::default()
        }
    }

    fn engine(&self, ids: impl Iterator<Item = i64>, world: &Publishers, now: Timestamp) -> Engine {
        let mut loader = Loader::new(self.params(), 7, now);
        if let Some(price) = world.prices.last() {
            loader.price(*price);
        }
        let known = |id: i64| {
            let id = SourceId(id);
            let memory = world.memories.get(&id).cloned().unwrap_or_default();
            self.known(id, memory, world.ended.get(&id).cloned().unwrap_or_default())
        };
        loader.sources(ids.map(known).collect());
        loader.finish()
    }

    /// Runs until the last day. Returns the times of probes and the prices.
    fn run(&self, steps: &[(i64, Step)], days: i64) -> Publishers {
        let mut world = Publishers::new();
        let mut present = self.sources;
        let mut engine = self.engine(1..=present, &world, start());
        let (mut pending, mut now) = (Pending::default(), start());
        pending.deliver(&mut engine, &mut world, now, EngineEvent::Tick);
        for &(day, step) in steps.iter().chain(&[(days, Step::Rates(1.0))]) {
            let at = start() + Span::from_days(day);
            pending.run(&mut engine, &mut world, now, at);
            now = at;
            match step {
                Step::Rates(times) => world.rates *= times,
                Step::Restart => {
                    pending.drain(&mut engine, &mut world, now);
                    engine = self.engine(1..=present, &world, now);
                    pending = Pending::default();
                    pending.deliver(&mut engine, &mut world, now, EngineEvent::Tick);
                    continue;
                }
                Step::Sources(percent) => {
                    let after = self.sources * percent / 100;
                    let added = (present + 1..=after)
                        .map(|id| self.known(SourceId(id), SourceMemory::default(), Vec::new()));
                    let configuration = Configuration {
                        params: self.params(),
                        added: added.collect(),
                        changed: Vec::new(),
                        removed: (after + 1..=present).map(SourceId).collect(),
                        rules: None,
                        replan: false,
                    };
                    present = after;
                    let event = EngineEvent::Configured(Box::new(configuration));
                    pending.deliver(&mut engine, &mut world, now, event);
                }
            }
        }
        world
    }

    /// The largest deviation from the total in any week that begins a day after a step, and when.
    fn worst_week(&self, world: &Publishers, steps: &[(i64, Step)], days: i64) -> (f64, i64) {
        let total = 7.0 * (self.sources.unsigned_abs() * self.per_day) as f64;
        let is_step = |step: &Step| !matches!(step, Step::Restart);
        let mut begins = vec![0];
        begins.extend(steps.iter().filter(|(_, step)| is_step(step)).map(|&(day, _)| day));
        begins.push(days);
        let mut worst = (0.0_f64, 0);
        for span in begins.windows(2) {
            for hour in (span[0] + 1) * 24..=(span[1] - 7) * 24 {
                let from = start() + HOUR.scaled(hour as f64);
                let count = |at: Timestamp| world.sent.partition_point(|&sent| sent < at) as f64;
                let off = (count(from + Span::from_days(7)) - count(from)) / total - 1.0;
                if off.abs() > worst.0.abs() {
                    worst = (off, hour);
                }
            }
        }
        worst
    }
}

/// ±50 % of the sources and of their rates, and restarts.
const STEPS: [(i64, Step); 6] = [
    (10, Step::Sources(150)),
    (15, Step::Restart),
    (20, Step::Rates(1.5)),
    (30, Step::Sources(75)),
    (40, Step::Rates(0.5)),
    (45, Step::Restart),
];

fn holds(fleet: &Fleet, steps: &[(i64, Step)], days: i64) -> Publishers {
    let world = fleet.run(steps, days);
    let (off, hour) = fleet.worst_week(&world, steps, days);
    let Fleet { policy, sources, .. } = fleet;
    println!("{sources} sources, {policy:?}: at most {:.2} % off, from hour {hour}", 100.0 * off);
    for price in world.prices.iter().step_by(24) {
        println!(
            "  day {:.1}: {:.4} h",
            (price.at - start()).as_secs_f64() / 86_400.0,
            price.in_force.hours
        );
    }
    assert!(off.abs() <= 0.02, "{sources} sources, {policy:?}: {off} from hour {hour}");
    world
}

#[test]
fn a_total_is_spent_within_two_percent_after_every_step() {
    holds(&Fleet { policy: Policy::Auto, sources: 100, per_day: 8, max_gap: None }, &STEPS, 50);
    holds(&Fleet { policy: Policy::Adaptive, sources: 1000, per_day: 8, max_gap: None }, &STEPS, 50);
}
