//! The daemon and the simulator run the same fleet: given the same answers, they send the same
//! probes, to the millisecond. The daemon's pilot runs here as it is, under paused time; only the
//! far ends of its channels, network and store, are played by the test.

mod pilot;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

use pilot::{Ends, lines};
use tidewatch::clock::Clock;
use tidewatch::config::Config;
use tidewatch::daemon::startup::{Muster, Mustered};
use tidewatch::daemon::messages::{Control, Launch};
use tidewatch::daemon::scheduler::{Pilot, Settings};
use tidewatch::daemon::planner::Made;
use tidewatch::daemon::probe::Finished;
use tidewatch::store::load::{Remembered, Standing};
use tidewatch::store::record::Outcome;
use tidewatch_core::engine::event::{Answered, Failure};
use tidewatch_core::engine::memory::Memory;
use tidewatch_core::engine::params::Response;
use tidewatch_core::model::aggregate::Origin;
use tidewatch_core::model::beliefs::Heard;
use tidewatch_core::model::burst::excess::Excess;
use tidewatch_core::model::burst::{Change, Evidence};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::habits::diary::Diary;
use tidewatch_core::model::habits::{Foresight, Habits};
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::build::{self, PlanParams, Rhythm};
use tidewatch_core::planning::plan::Plan;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver;

const SOURCES: i64 = 40;
const DAYS: i64 = 2;

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

/// Forty sources, every third on one of two shared domains, with different budgets.
fn config(response: Response) -> Config {
    let mut text = format!("[fleet]\nprobes_per_step = 4\n[burst]\nresponse = '{}'\n", response.name());
    for id in 0..SOURCES {
        let host = match id % 3 {
            0 => format!("s{id}.shared{}.example", id % 2),
            _ => format!("host{id}.example"),
        };
        text.push_str(&format!("[[source]]\nname = \"s{id}\"\nurl = \"https://{host}/feed\"\n"));
        // Every policy, and `auto` more often than the others.
        let policy = Policy::ALL.get(id as usize % 12).map_or("auto", |policy| policy.name());
        text.push_str(&format!("policy = \"{policy}\"\n"));
        if id % 4 == 0 {
            text.push_str("budget = { probes = 120, per = \"1d\", min_spacing = \"5m\" }\n");
        }
    }
    tidewatch::config::valid::parse(&[(PathBuf::from("t.toml"), text)]).unwrap()
}

fn remembered(id: i64) -> Remembered {
    let (name, memory) = (format!("s{id}"), Memory::default());
    Remembered { id: SourceId(id), name, memory, answered_at: None, probes: Vec::new() }
}

fn mustered(config: &Config) -> Mustered {
    let mut muster = Muster::new(config, Standing { seed: 11, ..Standing::default() }, start());
    (0..SOURCES).for_each(|id| muster.take(remembered(id)));
    muster.done()
}

/// The recorded observations: what the n-th probe of a source is answered, and how fast.
fn recorded(source: SourceId, nth: u32) -> (Span, Result<Answered, Failure>) {
    let mut chance = Stream::new(5, format!("{}/{nth}", source.0));
    let took = Span::from_millis(1 + (chance.unit() * 30_000.0) as i64);
    let draw = chance.unit();
    let result = match () {
        () if draw < 0.05 => Err(Failure::Unreachable),
        () if draw < 0.08 => Err(Failure::Refused),
        () if draw < 0.10 => Err(Failure::Throttled { retry_after: Some(Span::from_mins(50)) }),
        () if draw < 0.11 => Err(Failure::Throttled { retry_after: None }),
        () if draw < 0.112 => Err(Failure::Gone),
        () => Ok(Answered {
            updates: (chance.unit() * 3.0) as u32,
            gap: chance.unit() < 0.05,
            fresh_for: (chance.unit() < 0.2).then(|| Span::from_mins(40)),
            hints: Some(FeedHints {
                skip_hours: if source.0 % 7 == 0 { 0b1111 } else { 0 },
                ttl: (source.0 % 5 == 0).then(|| Span::from_mins(45)),
                ..FeedHints::default()
            }),
            heard: heard(source, nth),
            ..Answered::default()
        }),
    };
    (took, result)
}

/// Of every sixteen looks, four are in a burst.
fn heard(source: SourceId, nth: u32) -> Heard {
    let at = |look: u32| start() + Span::from_mins(40 * i64::from(look));
    let (burst, now) = (at(nth - nth % 16 + 8), at(nth));
    let evidence = Evidence { since: burst, at: now, observed: 9, expected: 0.5 };
    let on = (8..12).contains(&(nth % 16)).then_some(evidence);
    let lasted = now - burst;
    Heard {
        burst: match nth % 16 {
            8 => Some(Change::Began(evidence)),
            12 => Some(Change::Ended(evidence)),
            _ => None,
        },
        on,
        excess: on.map(|_| Excess { at: now, probability: 0.9, per_hour: 6.0, lasted }),
        overdue: (nth % 16 == 5).then_some(7.0 + source.0 as f64),
        newest: Some(now - Span::from_mins(10)),
        ..Heard::default()
    }
}

/// What is foretold of every third source: some update by the clock, some in pairs.
fn foresight(source: SourceId) -> Option<Arc<Foresight>> {
    static ALL: LazyLock<Vec<Option<Arc<Foresight>>>> = LazyLock::new(|| {
        let utc = jiff::tz::TimeZone::UTC;
        let foreseen = |id: i64| {
            let mut diary = Diary::default();
            diary.watched_since(start() - Span::from_days(10));
            let mut chance = Stream::new(7, format!("habits of {id}"));
            for hours in (1..120).rev() {
                let minute = if id % 2 == 0 { id } else { (chance.unit() * 60.0) as i64 };
                let at = start() - Span::from_hours(2 * hours) + Span::from_mins(minute);
                diary.note(at, Some(0.5));
                if id % 2 == 1 {
                    diary.note(at + Span::from_mins(3), Some(0.5));
                }
            }
            let rhythm = Steps::from(&Rate::constant(0.5));
            let habits = Habits::weigh(&diary, &rhythm, start(), true);
            Arc::new(Foresight::new(diary, habits, &utc, start()))
        };
        (0..SOURCES).map(|id| (id % 3 == 1).then(|| foreseen(id))).collect()
    });
    ALL[source.0 as usize].clone()
}

/// What is planned: sources of four rhythms, two of them by the hour of the day.
fn make(order: &PlanOrder, foresight: Foreseeing) -> Option<Made> {
    let office = WeekWindow { days: 0b111_1111, from_minute: 8 * 60, until_minute: 18 * 60 };
    let rate = match order.source.0 % 4 {
        0 => Steps::from(&Rate::constant(0.5)),
        1 => Steps::from(&Rate::constant(4.0)),
        n => Steps::windows(jiff::tz::TimeZone::UTC, 0.1, &[(office, n as f64)]).unwrap(),
    };
    let origin = if order.source.0 % 3 == 0 { Origin::Blend } else { Origin::Individual };
    let rhythm = Rhythm { rate, origin, updates: 20, foresight: foresight(order.source) };
    let params =
        PlanParams { importance: Steps::constant(1.0).unwrap(), freshness_threshold: 1.0, switches: false };
    let ahead = build::ahead(order, &rhythm, &params)?;
    Some(Made { source: order.source, made_from: order.made_from, at: order.standing.now, ahead })
}

type Foreseeing = fn(SourceId) -> Option<Arc<Foresight>>;

type Sent = (Timestamp, SourceId, Timestamp, &'static str, &'static str);

fn simulate(response: Response, until: Timestamp, foresight: Foreseeing) -> Vec<Sent> {
    let Mustered { mut fleet, .. } = mustered(&config(response));
    let mut counts: HashMap<SourceId, u32> = HashMap::new();
    let answer = |order: &tidewatch_core::engine::action::Attempt, _| {
        let nth = counts.entry(order.source).or_default();
        *nth += 1;
        recorded(order.source, *nth)
    };
    let planner =
        |order: &PlanOrder| make(order, foresight).map(|made| Plan::new(made.made_from, &made.ahead));
    driver::run_planned(&mut fleet, answer, planner, start(), until)
        .into_iter()
        .map(|sent| {
            let order = sent.order;
            (sent.at, order.source, order.due, order.policy.name(), order.reason.name())
        })
        .collect()
}

async fn fly(response: Response, until: Timestamp) -> Vec<Sent> {
    let clock = Clock::accelerated(start(), 1.0);
    let config = config(response);
    let Mustered { fleet, roster, .. } = mustered(&config);
    let (lines, Ends { control, finished, launched: mut to_launch, mut to_plan, .. }) = lines();
    let pilot = Pilot::new(fleet, roster, clock.clone(), None, Settings::from(&config), lines);

    // The planner: every plan is made at once.
    let planned = control.clone();
    tokio::spawn(async move {
        while let Some(order) = to_plan.recv().await {
            let plans = make(&order, foresight).into_iter().collect();
            let _ = planned.send(Control::Planned(plans));
        }
    });
    // The network: the recorded answers.
    let log = Arc::new(Mutex::new(Vec::new()));
    let network = (clock.clone(), Arc::clone(&log));
    tokio::spawn(async move {
        let (clock, log) = network;
        let mut counts: HashMap<SourceId, u32> = HashMap::new();
        while let Some(Launch { flight, .. }) = to_launch.recv().await {
            let nth = counts.entry(flight.source).or_default();
            *nth += 1;
            let (took, result) = recorded(flight.source, *nth);
            let sent = (clock.now(), flight.source, flight.due, flight.policy.name(), flight.reason.name());
            log.lock().unwrap().push(sent);
            let (clock, finished) = (clock.clone(), finished.clone());
            tokio::spawn(async move {
                let at = clock.now() + took;
                clock.sleep_until(at).await;
                let said = String::new();
                let told = Finished::failed(flight, clock.now(), Failure::Interrupted, said);
                let (outcome, error) = (Outcome::Unchanged, None);
                let _ = finished.send(Finished { result, outcome, error, ..told });
            });
        }
    });
    let flying = tokio::spawn(pilot.fly());
    clock.sleep_until(until).await;
    control.send(Control::Stop).unwrap();
    flying.await.unwrap();
    let log = log.lock().unwrap();
    log.clone()
}

/// What both send, if it is the same.
async fn sent_by_both(response: Response, until: Timestamp) -> Vec<Sent> {
    let mut simulated = simulate(response, until - Span::from_millis(1), foresight);
    let mut flown = fly(response, until).await;
    flown.retain(|sent| sent.0 < until);
    simulated.sort();
    flown.sort();
    assert!(simulated.len() > 1_500, "{}", simulated.len());
    for (nth, (simulated, flown)) in simulated.iter().zip(&flown).enumerate() {
        assert_eq!(simulated, flown, "probe {nth}");
    }
    assert_eq!(simulated.len(), flown.len());
    simulated
}

#[tokio::test(start_paused = true)]
async fn the_daemon_sends_the_probes_that_the_simulator_sends_whatever_bursts_are_answered_with() {
    let until = start() + Span::from_days(DAYS);
    let planned = sent_by_both(Response::Replan, until).await;
    assert!(!planned.iter().any(|sent| sent.4 == "burst"), "nobody is chased");
}

#[tokio::test(start_paused = true)]
async fn the_daemon_sends_the_probes_that_the_simulator_sends() {
    let until = start() + Span::from_days(DAYS);
    let simulated = sent_by_both(Response::Ttl, until).await;
    // Nobody is dull: `auto` follows others, `adaptive` is spread evenly so far, and no rule asks.
    let silent = [Policy::Auto, Policy::Adaptive, Policy::Profile];
    for policy in Policy::ALL.into_iter().filter(|policy| !silent.contains(policy)) {
        let by = simulated.iter().filter(|sent| sent.3 == policy.name()).count();
        assert!(by > 10, "{by} by {}", policy.name());
    }
    assert!(simulated.iter().any(|sent| sent.4 == "burst"));
    // Habits count.
    let mut blind = simulate(Response::Ttl, until - Span::from_millis(1), |_| None);
    blind.sort();
    let sources = config(Response::Ttl).sources;
    let mut follow = 0;
    for (id, source) in sources.iter().enumerate() {
        let of = |all: &[Sent]| -> Vec<Timestamp> {
            all.iter().filter(|sent| sent.1.0 == id as i64 && sent.3 == "plan").map(|sent| sent.0).collect()
        };
        let foresees = source.policy == Policy::Auto && foresight(SourceId(id as i64)).is_some();
        follow += u32::from(foresees && of(&blind) != of(&simulated));
    }
    assert!(follow >= 3, "{follow} are probed otherwise by their habits");
}
