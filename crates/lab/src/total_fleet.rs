//! Fleets under a stated total of probes, across changes of their sources and rates, and restarts.
//!
//! Sources publish at a rate with busy working hours. The engine learns from its probes; plans know the rate.
//! Must not know how the engine finds the price.

use std::collections::{BTreeMap, VecDeque};
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

use crate::driver::{Pending, SimulatedWorld};

const HOUR: Span = Span::from_hours(1);

/// The beginning of every run: a Monday.
pub fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

/// A change of a fleet.
#[derive(Debug, Clone, Copy)]
pub enum FleetStep {
    /// This many sources, in percent of those at first.
    Sources(i64),
    /// Rates times this.
    Rates(f64),
    /// The engine is loaded again from what was stored.
    Restart,
}

/// ±50 % of the sources and of their rates, and restarts, each on a day of fifty.
pub const STEPS: [(i64, FleetStep); 6] = [
    (10, FleetStep::Sources(150)),
    (15, FleetStep::Restart),
    (20, FleetStep::Rates(1.5)),
    (30, FleetStep::Sources(75)),
    (40, FleetStep::Rates(0.5)),
    (45, FleetStep::Restart),
];

/// A fleet under a total of `per_day` probes for each source that it has at first. One source of ten is probed
/// evenly, six times a day.
#[derive(Debug, Clone, Copy)]
pub struct TotalFleet {
    /// The policy of the other sources.
    pub policy: Policy,
    /// The sources at first.
    pub sources: i64,
    /// Probes a day for each of them, in the mean.
    pub per_day: f64,
    /// The longest allowed gap of one source of ten.
    pub max_gap: Option<Span>,
}

/// The record of a simulated fleet.
#[derive(Debug, Clone)]
pub struct TotalRun {
    /// The times of all probes, ascending.
    pub sent: Vec<Timestamp>,
    /// The price, hour by hour.
    pub prices: Vec<FleetPrice>,
    /// The longest time between two probes of a source, with and without a `max_gap`.
    pub longest: [Span; 2],
}

/// The sources, and the record of their probes.
struct Publishers {
    rates: f64,
    chance: Stream,
    seen: BTreeMap<SourceId, Timestamp>,
    memories: BTreeMap<SourceId, SourceMemory>,
    /// The ends of the probes that budgets count.
    ended: BTreeMap<SourceId, VecDeque<Timestamp>>,
    sent: Vec<Timestamp>,
    prices: Vec<FleetPrice>,
    longest: [Span; 2],
    params: PlanParams,
}

/// Whether the source is one of those with a `max_gap`.
fn has_max_gap(id: SourceId) -> bool {
    id.0 % 10 == 1
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
            longest: [Span::ZERO; 2],
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
        let ended = self.ended.entry(source).or_default();
        if let Some(&last) = ended.back() {
            let longest = &mut self.longest[usize::from(!has_max_gap(source))];
            *longest = (*longest).max(now - last);
        }
        ended.push_back(finished);
        if ended.len() > Budget::default().probes as usize {
            ended.pop_front();
        }
        let answer = ProbeAnswer { updates: self.updates(source, now), ..ProbeAnswer::default() };
        ProbeReport {
            source,
            started: now,
            finished,
            answered_by: None,
            crawl_delays: Vec::new(),
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

impl TotalFleet {
    fn known(&self, id: SourceId, memory: SourceMemory, probes: Vec<Timestamp>) -> KnownSource {
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
                max_gap: self.max_gap.filter(|_| has_max_gap(id)),
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
        let probes = self.total_per_day().round() as u64;
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
            let ended = world.ended.get(&id).into_iter().flatten().copied();
            self.known(id, memory, ended.collect())
        };
        loader.sources(ids.map(known).collect());
        loader.finish()
    }

    fn total_per_day(&self) -> f64 {
        self.sources as f64 * self.per_day
    }

    /// Runs until the last day, with these steps at the beginnings of their days.
    pub fn run(&self, steps: &[(i64, FleetStep)], days: i64) -> TotalRun {
        let mut world = Publishers::new();
        let mut present = self.sources;
        let mut engine = self.engine(1..=present, &world, start());
        let (mut pending, mut now) = (Pending::default(), start());
        pending.deliver(&mut engine, &mut world, now, EngineEvent::Tick);
        for &(day, step) in steps.iter().chain(&[(days, FleetStep::Rates(1.0))]) {
            let at = start() + Span::from_days(day);
            pending.run(&mut engine, &mut world, now, at);
            now = at;
            match step {
                FleetStep::Rates(times) => world.rates *= times,
                FleetStep::Restart => {
                    pending.drain(&mut engine, &mut world, now);
                    engine = self.engine(1..=present, &world, now);
                    pending = Pending::default();
                    pending.deliver(&mut engine, &mut world, now, EngineEvent::Tick);
                    continue;
                }
                FleetStep::Sources(percent) => {
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
        TotalRun { sent: world.sent, prices: world.prices, longest: world.longest }
    }

    /// The largest deviation from the total in any week that begins at least a day after a step, as a share,
    /// and the hour at which that week begins.
    pub fn worst_week(&self, run: &TotalRun, steps: &[(i64, FleetStep)], days: i64) -> (f64, i64) {
        let total = 7.0 * self.total_per_day();
        let is_step = |step: &FleetStep| !matches!(step, FleetStep::Restart);
        let mut begins = vec![0];
        begins.extend(steps.iter().filter(|(_, step)| is_step(step)).map(|&(day, _)| day));
        begins.push(days);
        let mut worst = (0.0_f64, 0);
        for span in begins.windows(2) {
            for hour in (span[0] + 1) * 24..=(span[1] - 7) * 24 {
                let from = start() + HOUR.scaled(hour as f64);
                let count = |at: Timestamp| run.sent.partition_point(|&sent| sent < at) as f64;
                let off = (count(from + Span::from_days(7)) - count(from)) / total - 1.0;
                if off.abs() > worst.0.abs() {
                    worst = (off, hour);
                }
            }
        }
        worst
    }
}
