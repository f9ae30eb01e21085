//! Sources with a weekly rhythm and one bursty day, and what each policy makes of them.

use std::sync::Arc;

use tidewatch::fleet::making::{PlanParams, Rhythm, ahead};
use tidewatch::fleet::params::{BurstTerms, HostGroup, Response, SourceId, Terms};
use tidewatch::fleet::source::Memory;
use tidewatch::fleet::{Fleet, FleetParams, Known, PlanOrder};
use tidewatch::rate::aggregate::Origin;
use tidewatch::rate::importance::WeekWindow;
use tidewatch::rate::steps::Steps;
use tidewatch::rng::Stream;
use tidewatch::schedule::budget::Budget;
use tidewatch::schedule::plan::Plan;
use tidewatch::schedule::policy::Policy;
use tidewatch::sim::driver;
use tidewatch::sim::feed::{Feed, Watching};
use tidewatch::time::{Span, Timestamp};

const ONE: SourceId = SourceId(1);
const MIN: Span = Span::from_mins(1);

pub fn start() -> Timestamp {
    Timestamp::parse_iso("2026-01-05T00:00:00Z").unwrap()
}

/// Weeks that are learned from, and weeks that count.
pub const TRAIN: i64 = 4;
pub const WEEKS: i64 = 10;

/// A source: so many an hour by day and a tenth of that by night, and once a week a burst of so many an
/// hour more.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub by_day: f64,
    pub burst: f64,
    pub hours: i64,
}

pub struct Source {
    pub items: Vec<Timestamp>,
    pub bursts: Vec<(Timestamp, Timestamp)>,
    pub kind: Kind,
}

fn rhythm(by_day: f64) -> Steps {
    let day = WeekWindow { days: 0b111_1111, from_minute: 8 * 60, until_minute: 20 * 60 };
    Steps::windows(jiff::tz::TimeZone::UTC, by_day / 10.0, &[(day, by_day)]).unwrap()
}

pub fn source(kind: Kind, number: u64) -> Source {
    let mut chance = Stream::new(number, "responses");
    let mut bursts = Vec::new();
    for week in 0..WEEKS {
        let day = (chance.unit() * 7.0) as i64;
        let hour = 8 + (chance.unit() * 8.0) as i64;
        let begins = start() + Span::from_days(7 * week + day) + Span::from_hours(hour);
        if kind.burst > 0.0 {
            bursts.push((begins, begins + Span::from_hours(kind.hours)));
        }
    }
    let (mut items, mut from) = (Vec::new(), start());
    let rate = rhythm(kind.by_day).over(start(), start() + Span::from_days(7 * WEEKS));
    for (until, per_hour) in rate {
        while from < start() + Span::from_millis(until) {
            let on = bursts.iter().any(|&(begins, ends)| (begins..ends).contains(&from));
            let per_minute = (per_hour + if on { kind.burst } else { 0.0 }) / 60.0;
            let mut at = -(1.0 - chance.unit()).ln() / per_minute;
            while at < 1.0 {
                items.push(from + MIN.scaled(at));
                at += -(1.0 - chance.unit()).ln() / per_minute;
            }
            from += MIN;
        }
    }
    Source { items, bursts, kind }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Who {
    Auto(Response),
    Plan,
    Ttl,
    Told,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Score {
    pub probes: f64,
    pub delay_mins: f64,
    pub calm_mins: f64,
    pub burst_mins: f64,
    pub by_ttl: f64,
    pub false_mins: f64,
}

pub fn run(source: &Source, who: Who, budget: Budget, terms: BurstTerms) -> Score {
    let policy = match who {
        Who::Auto(_) => Policy::Auto,
        Who::Plan | Who::Told => Policy::Plan,
        Who::Ttl => Policy::Ttl,
    };
    let terms = match who {
        Who::Auto(response) => BurstTerms { response, ..terms },
        _ => terms,
    };
    let mut fleet = Fleet::new(FleetParams { burst: terms, ..FleetParams::default() }, 7, start());
    let host = HostGroup { key: Arc::from("a.example"), public: true };
    let known = Known {
        id: ONE,
        terms: Terms { budget, own_budget: true, policy, host },
        memory: Memory::default(),
        probes: Vec::new(),
        answered_by: None,
    };
    fleet.load(vec![known], start());
    let feed = std::cell::RefCell::new(Feed::new(source.items.clone(), Watching::default(), start()));
    let params =
        PlanParams { importance: Steps::constant(1.0).unwrap(), freshness_threshold: 1.0, switches: false };
    let truth = rhythm(source.kind.by_day);
    let planner = |order: &PlanOrder| {
        let made = match who {
            Who::Told => told(source, &truth, order, &params),
            _ => ahead(order, &feed.borrow().rhythm()?, &params),
        }?;
        Some(Plan::new(order.made_from, &made))
    };
    let mut sent = Vec::new();
    let (mut now, end) = (start(), start() + Span::from_days(7 * WEEKS));
    while now < end {
        let until = now + Span::from_hours(6);
        let world = |_: &_, at| (Span::ZERO, Ok(feed.borrow_mut().look(at)));
        sent.extend(driver::run_planned(&mut fleet, world, planner, now, until - Span::from_millis(1)));
        feed.borrow_mut().refit(until);
        fleet.refitted(&[ONE]);
        now = until;
    }
    if std::env::var("TRACE").is_ok() {
        let (b, e) = source.bursts[5];
        eprintln!("{who:?} burst {b} .. {e}");
        for sent in sent.iter().filter(|s| s.at > b - Span::from_hours(3) && s.at < e + Span::from_hours(6)) {
            let n = sent.order;
            let items = source.items.iter().filter(|&&i| i <= sent.at && i > sent.at - Span::from_mins(30)).count();
            eprintln!("  {} {:?} {:?} {}", sent.at, n.policy, n.reason, items);
        }
    }
    score(source, &sent)
}

/// A plan by somebody who knows the rhythm and when bursts begin and end.
fn told(
    source: &Source,
    truth: &Steps,
    order: &PlanOrder,
    params: &PlanParams,
) -> Option<tidewatch::schedule::rolling::Ahead> {
    let _ = params;
    tidewatch::schedule::rolling::plan_under(
        &order.standing,
        |from, until| {
            let burst = source.bursts.iter().filter(|b| b.1 > from && b.0 < until);
            let mut extra = Vec::new();
            for &(begins, ends) in burst {
                if begins > from {
                    extra.push(((begins - from).as_millis(), 0.0));
                }
                extra.push(((ends.min(until) - from).as_millis(), source.kind.burst));
            }
            extra.push(((until - from).as_millis(), 0.0));
            tidewatch::rate::steps::cut_together(&truth.over(from, until), &extra)
                .into_iter()
                .map(|(end, a, b)| (end, a + b))
                .collect()
        },
        &params.importance,
    )
}

fn score(source: &Source, sent: &[driver::Sent]) -> Score {
    let counts = start() + Span::from_days(7 * TRAIN);
    let probes: Vec<Timestamp> = sent.iter().map(|sent| sent.at).collect();
    let (mut all, mut calm, mut burst) = (Vec::new(), Vec::new(), Vec::new());
    for &item in source.items.iter().filter(|&&at| at >= counts) {
        let Some(&found) = probes.get(probes.partition_point(|&at| at < item)) else { continue };
        let wait = (found - item).as_secs_f64() / 60.0;
        all.push(wait);
        let on = source.bursts.iter().any(|&(begins, ends)| (begins..ends).contains(&item));
        if on { burst.push(wait) } else { calm.push(wait) }
    }
    let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len().max(1) as f64;
    let counted: Vec<_> = sent.iter().filter(|sent| sent.at >= counts).collect();
    let by_ttl = counted.iter().filter(|sent| sent.order.policy == Policy::Ttl).count();
    Score {
        probes: counted.len() as f64 / (7 * (WEEKS - TRAIN)) as f64,
        delay_mins: mean(&all),
        calm_mins: mean(&calm),
        burst_mins: mean(&burst),
        by_ttl: by_ttl as f64 / (7 * (WEEKS - TRAIN)) as f64,
        false_mins: 0.0,
    }
}

pub fn mean(scores: &[Score]) -> Score {
    let of = |pick: fn(&Score) -> f64| scores.iter().map(pick).sum::<f64>() / scores.len() as f64;
    Score {
        probes: of(|s| s.probes),
        delay_mins: of(|s| s.delay_mins),
        calm_mins: of(|s| s.calm_mins),
        burst_mins: of(|s| s.burst_mins),
        by_ttl: of(|s| s.by_ttl),
        false_mins: 0.0,
    }
}

#[allow(dead_code)]
pub fn main() {
    let _ = (Rhythm { rate: rhythm(1.0), origin: Origin::Individual, updates: 1 },);
    let sources: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(6);
    if std::env::var("TRACE").is_ok() {
        let budget = Budget { probes: 48, per: Span::from_days(1), min_spacing: Span::from_mins(5) };
        let s = source(Kind { by_day: 1.0, burst: 10.0, hours: 6 }, 1);
        run(&s, Who::Auto(Response::Ttl), budget, BurstTerms::default());
        run(&s, Who::Auto(Response::Replan), budget, BurstTerms::default());
        return;
    }
    for n in [24_u32, 48, 96] {
        let budget = Budget { probes: n, per: Span::from_days(1), min_spacing: Span::from_mins(5) };
        for kind in [
            Kind { by_day: 1.0, burst: 0.0, hours: 0 },
            Kind { by_day: 1.0, burst: 10.0, hours: 6 },
            Kind { by_day: 1.0, burst: 30.0, hours: 3 },
            Kind { by_day: 0.3, burst: 10.0, hours: 6 },
        ] {
            let list: Vec<Source> = (0..sources).map(|number| source(kind, number)).collect();
            let all = |who, budget, terms| {
                let scores: Vec<Score> = list.iter().map(|s| run(s, who, budget, terms)).collect();
                mean(&scores)
            };
            println!("n = {n}, {kind:?}");
            let terms = BurstTerms::default();
            for who in
                [Who::Auto(Response::Ttl), Who::Auto(Response::Replan), Who::Plan, Who::Ttl, Who::Told]
            {
                let s = all(who, budget, terms);
                println!(
                    "  {:<14} {:>6.1} probes/d ({:>4.1} ttl) delay {:>6.2} calm {:>6.2} burst {:>6.2}",
                    format!("{who:?}").replace("Auto(", "auto ").replace(')', ""),
                    s.probes,
                    s.by_ttl,
                    s.delay_mins,
                    s.calm_mins,
                    s.burst_mins
                );
            }
        }
    }
}
