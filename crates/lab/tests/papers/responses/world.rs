//! Sources with a rhythm and one burst a week, and the delay of each policy on them. They are watched as by
//! the daemon: only the results of probes are known, and models, rates and plans come from them.

use std::cell::RefCell;
use std::sync::Arc;

use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::event::{KnownSource, MadePlan, Moved};
use tidewatch_core::engine::params::{BurstTerms, FleetParams};
use tidewatch_core::engine::params::{HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::{Steps, cut_together};
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::build::{PlanParams, build_plan};
use tidewatch_core::planning::plan_input::{PlanInput, PlannedTimes, plan_under};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver;
use tidewatch_lab::learned_feed::{LearnedFeed, Watching};
use tidewatch_lab::stepper::ByHand;

const ONE: SourceId = SourceId(1);
const MIN: Span = Span::from_mins(1);

/// Weeks of training, which are not scored.
pub const TRAIN: i64 = 4;
/// All weeks.
pub const WEEKS: i64 = 10;

pub fn start() -> Timestamp {
    Timestamp::parse_iso("2026-01-05T00:00:00Z").unwrap()
}

fn end() -> Timestamp {
    start() + Span::from_days(7 * WEEKS)
}

/// `by_day` updates an hour from eight to eight and a tenth of that by night. On one day of the week there
/// are `burst` more an hour, for some hours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind {
    pub by_day: f64,
    pub burst: f64,
    pub hours: i64,
}

/// A source and its bursts.
#[derive(Debug, Clone)]
pub struct Source {
    kind: Kind,
    pub items: Vec<Timestamp>,
    pub bursts: Vec<(Timestamp, Timestamp)>,
}

impl Source {
    /// The n-th of its kind, drawn minute by minute.
    pub fn new(kind: Kind, number: u64) -> Self {
        let mut chance = Stream::new(number, "bursty over cyclic");
        let mut bursts = Vec::new();
        for week in 0..WEEKS {
            let (day, hour) = ((chance.unit() * 7.0) as i64, 8 + (chance.unit() * 8.0) as i64);
            let begins = start() + Span::from_days(7 * week + day) + Span::from_hours(hour);
            bursts.extend((kind.burst > 0.0).then(|| (begins, begins + Span::from_hours(kind.hours))));
        }
        let mut source = Self { kind, items: Vec::new(), bursts };
        let mut from = start();
        for (until, per_hour) in source.rates(&source.rhythm(), start(), end()) {
            while from < start() + Span::from_millis(until) {
                let per_minute = per_hour / 60.0;
                let mut at = -(1.0 - chance.unit()).ln() / per_minute;
                while at < 1.0 {
                    source.items.push(from + MIN.scaled(at));
                    at += -(1.0 - chance.unit()).ln() / per_minute;
                }
                from += MIN;
            }
        }
        source
    }

    fn rhythm(&self) -> Steps {
        let day = WeekWindow { days: 0b111_1111, from_minute: 8 * 60, until_minute: 20 * 60 };
        Steps::windows(jiff::tz::TimeZone::UTC, self.kind.by_day / 10.0, &[(day, self.kind.by_day)])
            .unwrap()
    }

    /// Its rate over a span: this rhythm, and the bursts.
    fn rates(&self, rhythm: &Steps, from: Timestamp, until: Timestamp) -> Vec<(i64, f64)> {
        let mut extra = Vec::new();
        for &(begins, ends) in self.bursts.iter().filter(|&&(begins, ends)| ends > from && begins < until) {
            if begins > from {
                extra.push(((begins - from).as_millis(), 0.0));
            }
            extra.push(((ends.min(until) - from).as_millis(), self.kind.burst));
        }
        extra.push(((until - from).as_millis(), 0.0));
        let both = cut_together(&rhythm.over(from, until), &extra);
        both.into_iter().map(|(end, rate, more)| (end, rate + more)).collect()
    }

    fn burst_at(&self, at: Timestamp) -> Option<(Timestamp, Timestamp)> {
        self.bursts.iter().copied().find(|&(begins, ends)| (begins..ends).contains(&at))
    }
}

/// The policy and its knowledge of bursts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TestedPolicy {
    /// `auto`.
    Auto,
    /// `plan`.
    Plan,
    /// `ttl`, with this α.
    Ttl(f64),
    /// `plan` with knowledge of all bursts beforehand.
    KnowsAllBursts,
}

impl TestedPolicy {
    fn terms(self) -> (Policy, BurstTerms) {
        let usual = BurstTerms::default();
        match self {
            Self::Auto => (Policy::Auto, usual),
            Self::Plan | Self::KnowsAllBursts => (Policy::Plan, usual),
            Self::Ttl(ttl_factor) => (Policy::Ttl, BurstTerms { ttl_factor, ..usual }),
        }
    }
}

/// The result: probes a day, and the delay of updates in minutes, by the time of the update.
#[derive(Debug, Clone, Copy, Default)]
pub struct Score {
    pub probes: f64,
    pub by_ttl: f64,
    pub delay: f64,
    pub calm_delay: f64,
    pub burst_delay: f64,
}

/// The mean result of probing each of these sources with that budget.
pub fn run(sources: &[Source], tested: TestedPolicy, budget: Budget) -> Score {
    let scores: Vec<Score> = sources.iter().map(|source| watch(source, tested, budget)).collect();
    let mean = |pick: fn(&Score) -> f64| scores.iter().map(pick).sum::<f64>() / scores.len() as f64;
    Score {
        probes: mean(|score| score.probes),
        by_ttl: mean(|score| score.by_ttl),
        delay: mean(|score| score.delay),
        calm_delay: mean(|score| score.calm_delay),
        burst_delay: mean(|score| score.burst_delay),
    }
}

fn watch(source: &Source, tested: TestedPolicy, budget: Budget) -> Score {
    score(source, &sent(source, tested, budget))
}

/// Every probe of a source.
pub fn sent(source: &Source, tested: TestedPolicy, budget: Budget) -> Vec<Attempt> {
    let (policy, terms) = tested.terms();
    let params = FleetParams { burst: terms, ..FleetParams::default() };
    let host = HostGroup { key: Arc::from("a.example"), public: true };
    let known = KnownSource {
        id: ONE,
        terms: Terms {
            budget,
            policy,
            weight: 1.0,
            price: SourcePrice::Own(0.0),
            max_gap: None,
            cost: None,
            host,
        },
        memory: SourceMemory::default(),
        probes: Vec::new(),
        answered_by: None,
        moved: Moved::Same,
    };
    let mut fleet = ByHand::new(params, 7, start(), vec![known]);
    // By their rhythm alone, like pages and undated feeds. Predictors that follow flurries would hide the
    // gain of a response to bursts.
    let watching = Watching { habits: false, ..Watching::default() };
    let feed = RefCell::new(LearnedFeed::new(source.items.clone(), watching, start()));
    let probe = |at| (Span::ZERO, Ok(feed.borrow_mut().probe(at)));
    let params =
        PlanParams { importance: Steps::constant(1.0).unwrap(), freshness_threshold: 1.0, switches: false };
    let make = |order: &PlanOrder| -> Option<PlannedTimes> {
        let rhythm = feed.borrow().rhythm()?;
        if tested != TestedPolicy::KnowsAllBursts {
            return build_plan(order, &rhythm, &params);
        }
        let rates = |from, until| source.rates(&rhythm.rate, from, until);
        // Like a plan of `auto` that follows a rhythm.
        plan_under(&PlanInput { closely: false, ..order.input.clone() }, rates, &params.importance)
    };
    // Rates are fitted every six hours.
    let stops = (1..=28 * WEEKS).map(|n| start() + Span::from_hours(6 * n));
    let (mut sent, mut now, mut fitted) = (Vec::new(), start(), Vec::new());
    for stop in stops {
        let planner = |order: &PlanOrder| {
            let PlanOrder { source, made_from, .. } = *order;
            Some(MadePlan { source, made_from, at: order.input.now, ahead: make(order)? })
        };
        let last = stop - Span::from_millis(1);
        let answer = |_: &Attempt, at| probe(at);
        sent.extend(driver::run_planned(fleet.engine_mut(), answer, planner, &fitted, now, last));
        feed.borrow_mut().refit(stop, None);
        fitted = vec![ONE];
        now = stop;
    }
    sent
}

fn score(source: &Source, sent: &[Attempt]) -> Score {
    let counts = start() + Span::from_days(7 * TRAIN);
    let days = (7 * (WEEKS - TRAIN)) as f64;
    let probes: Vec<Timestamp> = sent.iter().map(|sent| sent.started).collect();
    let (mut calm, mut burst) = (Vec::new(), Vec::new());
    // The last updates are found by the probe after the end, which is not sent.
    let last = probes.last().copied().unwrap_or(start());
    for &item in source.items.iter().filter(|&&at| at >= counts && at <= last) {
        let wait = (probes[probes.partition_point(|&at| at < item)] - item).as_secs_f64() / 60.0;
        if source.burst_at(item).is_some() { burst.push(wait) } else { calm.push(wait) }
    }
    let sum = |waits: &[f64]| waits.iter().sum::<f64>();
    let counted = || sent.iter().filter(|sent| sent.started >= counts);
    Score {
        probes: counted().count() as f64 / days,
        by_ttl: counted().filter(|sent| sent.policy == Policy::Ttl).count() as f64 / days,
        delay: (sum(&calm) + sum(&burst)) / (calm.len() + burst.len()) as f64,
        calm_delay: sum(&calm) / calm.len().max(1) as f64,
        burst_delay: sum(&burst) / burst.len().max(1) as f64,
    }
}

/// The result with that many probes, interpolated between two whole budgets: 1/delay grows with the probes.
pub fn at_equal_probes(sources: &[Source], tested: TestedPolicy, budget: Budget, probes: f64) -> Score {
    let with = |n: f64| run(sources, tested, Budget { probes: n as u32, ..budget });
    let (low, high) = (with(probes.floor()), with(probes.ceil() + 1.0));
    let share = ((probes - low.probes) / (high.probes - low.probes)).clamp(-1.0, 2.0);
    let between = |pick: fn(&Score) -> f64| 1.0 / ((1.0 - share) / pick(&low) + share / pick(&high));
    Score {
        probes,
        by_ttl: low.by_ttl,
        delay: between(|score| score.delay),
        calm_delay: between(|score| score.calm_delay),
        burst_delay: between(|score| score.burst_delay),
    }
}

/// Time to live with the α that gives this number of probes, within a budget that does not bind it.
pub fn ttl_at(sources: &[Source], budget: Budget, probes: f64) -> Score {
    let free = Budget { probes: 10 * budget.probes, ..budget };
    let (mut low, mut high) = (0.005_f64, 1.0_f64);
    for _ in 0..7 {
        let middle = (low * high).sqrt();
        if run(sources, TestedPolicy::Ttl(middle), free).probes > probes {
            low = middle
        } else {
            high = middle
        }
    }
    run(sources, TestedPolicy::Ttl((low * high).sqrt()), free)
}

/// A rhythm that is kept; one that is broken for long and for a while; and a slow one that is.
pub const KINDS: [Kind; 4] = [
    Kind { by_day: 1.0, burst: 0.0, hours: 0 },
    Kind { by_day: 1.0, burst: 10.0, hours: 6 },
    Kind { by_day: 1.0, burst: 30.0, hours: 3 },
    Kind { by_day: 0.3, burst: 10.0, hours: 6 },
];
