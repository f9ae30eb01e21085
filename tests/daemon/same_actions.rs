//! The daemon and the simulator drive one engine: with the same answers, both record the same events and
//! actions, element by element. A replay of either recording gives the same actions. The daemon's
//! scheduler is the real one, under paused time; the test replaces network, store and planner.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::scheduler_ends::{Ends, channels};
use tidewatch::clock::{Clock, real_pause};
use tidewatch::config::configuration::Config;
use tidewatch::daemon::messages::{Control, Launch, ProbeRequest, Reconfiguration};
use tidewatch::daemon::probe::Finished;
use tidewatch::daemon::record::RecordTo;
use tidewatch::daemon::scheduler::Scheduler;
use tidewatch::daemon::startup::{Loaded, Roster, Spec, Startup, rule_set, spec, terms};
use tidewatch::store::load::{Remembered, StoredState};
use tidewatch::store::record::ProbeOutcome;
use tidewatch_core::engine::action::{Action, Attempt, Persist};
use tidewatch_core::engine::event::{
    Changed, Configuration, EngineEvent, Failure, KnownSource, MadePlan, Moved, PlansReady,
    PredictedIntervals, ProbeAnswer, ProbeReport, RuleReading,
};
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::recording::{Exchange, exchanges, replay};
use tidewatch_core::engine::rule_counts::RuleMatches;
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::model::aggregate::RateOrigin;
use tidewatch_core::model::burst::excess::Excess;
use tidewatch_core::model::burst::{BurstChange, BurstEvidence};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::habits::mixture::PredictorMix;
use tidewatch_core::model::habits::predict::UpdateForecast;
use tidewatch_core::model::habits::update_times::UpdateTimes;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::source_model::ModelUpdate;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::build::{self, KnownRhythm, PlanOrder, PlanParams};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver::{Pending, SimulatedWorld};
use tokio::sync::oneshot;

const SOURCES: i64 = 40;
const DAYS: i64 = 2;

// Odd, so that two events rarely happen in one millisecond.
const COMMIT_START: Span = Span::from_millis(3);
const COMMIT_END: Span = Span::from_millis(8);
const PLAN: Span = Span::from_millis(137);

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

/// Which sources are probed at a price.
#[derive(Debug, Clone, Copy)]
enum Prices {
    OfNone,
    OfAll,
}

/// Forty sources with different budgets, every third on one of two shared domains, some with deadlines.
/// Rules are triggered by their own sources or by others. The second configuration has other limits,
/// another budget, another address, one source less and one more, and a rule less.
fn config(prices: Prices, second: bool) -> Config {
    let (step, slots) = if second { ("20s", 6) } else { ("10s", 4) };
    let price = match prices {
        Prices::OfNone => "0s",
        Prices::OfAll => "2m",
    };
    let mut text = format!(
        "[fleet]\nstep = '{step}'\nprobes_per_step = {slots}\n[budget]\nprice = '{price}'\n\
         [deliver.out]\nexec = ['/bin/true']\n"
    );
    text.push_str(
        "[[profile]]\nname = 'p'\nsources = ['s1', 's2', 's4']\n\
         [[profile.rule]]\nname = 'own'\nlife = { window = '30m' }\ntrigger = { every = 2 }\n\
         deliver = ['exec:out']\n",
    );
    if !second {
        text.push_str(
            "[[profile.rule]]\nname = 'others'\nlife = { window = '40m' }\ndeliver = ['exec:out']\n\
             trigger = { of = ['s7', 's10'], every = 3 }\n",
        );
    }
    for id in 0..SOURCES + 1 {
        if (id == SOURCES) != second && (id == SOURCES || id == 11) {
            continue;
        }
        let host = match id % 3 {
            _ if second && id == 8 => "elsewhere.example".to_owned(),
            0 => format!("s{id}.shared{}.example", id % 2),
            _ => format!("host{id}.example"),
        };
        text.push_str(&format!("[[source]]\nname = \"s{id}\"\nurl = \"https://{host}/feed\"\n"));
        // Every policy, and `auto` more often than the others.
        let policy = Policy::ALL.get(id as usize % 12).map_or("auto", |policy| policy.name());
        text.push_str(&format!("policy = \"{policy}\"\n"));
        if id % 4 == 0 {
            let probes = if second && id == 16 { 60 } else { 120 };
            text.push_str(&format!(
                "budget = {{ probes = {probes}, per = \"1d\", min_spacing = \"5m\" }}\n"
            ));
        }
        if id % 5 == 2 {
            text.push_str("max_gap = \"50m\"\n");
        }
    }
    tidewatch::config::valid::parse(&[(PathBuf::from("t.toml"), text)])
        .unwrap_or_else(|faults| panic!("{faults}"))
}

fn number(name: &str) -> SourceId {
    SourceId(name[1..].parse().unwrap())
}

fn loaded(config: &Config) -> Loaded {
    let mut startup = Startup::new(config, StoredState { seed: 11, ..StoredState::default() }, start());
    for source in &config.sources {
        startup.take(Remembered {
            id: number(&source.name),
            name: source.name.to_string(),
            memory: SourceMemory::default(),
            answered_at: None,
            probes: Vec::new(),
        });
    }
    startup.done(&config.rules, &[])
}

/// Events besides answers; `script` gives their real time since the start.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Request(i64),
    Reload,
    ClockSet(Span),
    Fitted,
}

fn script() -> Vec<(Span, Happening)> {
    let hours = |hours: i64, millis: i64| Span::from_hours(hours) + Span::from_millis(millis);
    let mut script = vec![
        (hours(9, 321), Happening::Reload),
        (hours(15, 571), Happening::ClockSet(Span::from_mins(20))),
        (hours(27, 777), Happening::ClockSet(-Span::from_mins(35))),
    ];
    for nth in 0..12 {
        script.push((hours(3 * nth + 1, 211 + nth), Happening::Request(nth * 3)));
        script.push((hours(4 * nth + 2, 431 + nth), Happening::Fitted));
    }
    script.sort_by_key(|&(at, _)| at);
    script
}

/// No source can be reached between these, in real time.
const OUTAGE: (Span, Span) = (Span::from_hours(20), Span::from_hours(22));

/// The answer to the n-th probe of a source, and its duration. `since` is real time since the start.
fn answer(source: SourceId, nth: u32, since: Span, now: Timestamp) -> (Span, Result<ProbeAnswer, Failure>) {
    let mut chance = Stream::new(6, format!("{}/{nth}", source.0));
    let took = Span::from_millis(11 + (chance.unit() * 30_000.0) as i64);
    let draw = chance.unit();
    let result = match () {
        () if OUTAGE.0 <= since && since < OUTAGE.1 => Err(Failure::Unreachable),
        () if draw < 0.05 => Err(Failure::Unreachable),
        () if draw < 0.08 => Err(Failure::Refused),
        () if draw < 0.10 => Err(Failure::Throttled { retry_after: Some(Span::from_mins(50)) }),
        () if draw < 0.11 => Err(Failure::Throttled { retry_after: None }),
        () if draw < 0.112 => Err(Failure::Gone),
        () => Ok(ProbeAnswer {
            updates: (chance.unit() * 3.0) as u32,
            gap: chance.unit() < 0.05,
            fresh_for: (chance.unit() < 0.2).then(|| Span::from_mins(40)),
            hints: Some(FeedHints {
                skip_hours: if source.0 % 7 == 0 { 0b1111 } else { 0 },
                ttl: (source.0 % 5 == 0).then(|| Span::from_mins(45)),
                ..FeedHints::default()
            }),
            model: model_update(source, nth),
            rules: rule_reading(source, chance.unit() < 0.5, now),
            bytes: (chance.unit() * 90_000.0) as u64,
            ..ProbeAnswer::default()
        }),
    };
    (took, result)
}

/// The matches of a probe's updates with the rules.
fn rule_reading(source: SourceId, news: bool, now: Timestamp) -> Option<Box<RuleReading>> {
    let counts = if news { vec![now] } else { Vec::new() };
    let of_rule = |rule: &str, asks: bool, counts: Vec<Timestamp>| RuleMatches {
        rule: rule.into(),
        items: if asks && news { vec![0] } else { Vec::new() },
        counts,
    };
    let matches = match source.0 {
        1 | 2 | 4 => vec![of_rule("p/own", true, counts), of_rule("p/others", true, Vec::new())],
        7 | 10 => vec![of_rule("p/others", false, counts)],
        _ => return None,
    };
    Some(Box::new(RuleReading { matches, found: u32::from(news), expected: Some(0.4) }))
}

/// Of every sixteen probes, four are in a burst.
fn model_update(source: SourceId, nth: u32) -> ModelUpdate {
    let at = |probe: u32| start() + Span::from_mins(40 * i64::from(probe));
    let (burst, now) = (at(nth - nth % 16 + 8), at(nth));
    let evidence = BurstEvidence { since: burst, at: now, observed: 9, expected: 0.5 };
    let on = (8..12).contains(&(nth % 16)).then_some(evidence);
    let lasted = now - burst;
    ModelUpdate {
        burst: match nth % 16 {
            8 => Some(BurstChange::Began(evidence)),
            12 => Some(BurstChange::Ended(evidence)),
            _ => None,
        },
        on,
        excess: on.map(|_| Excess { at: now, probability: 0.9, per_hour: 6.0, lasted }),
        overdue: (nth % 16 == 5).then_some(7.0 + source.0 as f64),
        newest: Some(now - Span::from_mins(10)),
        ..ModelUpdate::default()
    }
}

/// Predictions for every third source: some update by the clock, some in pairs.
fn forecast(source: SourceId) -> Option<Arc<UpdateForecast>> {
    static ALL: LazyLock<BTreeMap<i64, Arc<UpdateForecast>>> = LazyLock::new(|| {
        let utc = jiff::tz::TimeZone::UTC;
        let forecast_of = |id: i64| {
            let mut update_times = UpdateTimes::default();
            update_times.watched_since(start() - Span::from_days(10));
            let mut chance = Stream::new(7, format!("habits of {id}"));
            for hours in (1..120).rev() {
                let minute = if id % 2 == 0 { id } else { (chance.unit() * 60.0) as i64 };
                let at = start() - Span::from_hours(2 * hours) + Span::from_mins(minute);
                update_times.note(at, Some(0.5));
                if id % 2 == 1 {
                    update_times.note(at + Span::from_mins(3), Some(0.5));
                }
            }
            let rhythm = Steps::from(&Rate::constant(0.5));
            let habits = PredictorMix::fit_weights(&update_times, &rhythm, start(), true);
            Arc::new(UpdateForecast::new(update_times, habits, &utc, start()))
        };
        (0..SOURCES).filter(|id| id % 3 == 1).map(|id| (id, forecast_of(id))).collect()
    });
    ALL.get(&source.0).cloned()
}

/// Plans sources of four rhythms, two of them by the hour of the day.
fn plan(order: &PlanOrder) -> PlansReady {
    let office = WeekWindow { days: 0b111_1111, from_minute: 8 * 60, until_minute: 18 * 60 };
    let rate = match order.source.0 % 4 {
        0 => Steps::from(&Rate::constant(0.5)),
        1 => Steps::from(&Rate::constant(4.0)),
        n => Steps::windows(jiff::tz::TimeZone::UTC, 0.1, &[(office, n as f64)]).unwrap(),
    };
    let (source, made_from, now) = (order.source, order.made_from, order.input.now);
    let intervals = order.predictions.as_ref().map(|wants| PredictedIntervals {
        source,
        made_from,
        intervals: Some(build::predicted_intervals(wants, &rate, now)),
    });
    let origin = if order.source.0 % 3 == 0 { RateOrigin::Blend } else { RateOrigin::Individual };
    let rhythm = KnownRhythm { rate, origin, updates: 20, dispersion: 1.0, foresight: forecast(source) };
    let params =
        PlanParams { importance: Steps::constant(1.0).unwrap(), freshness_threshold: 1.0, switches: false };
    let plans = build::build_plan(order, &rhythm, &params);
    PlansReady {
        requests: 1,
        profiles: Vec::new(),
        plans: plans.map(|ahead| MadePlan { source, made_from, at: now, ahead }).into_iter().collect(),
        intervals: intervals.into_iter().collect(),
    }
}

/// The changes of the second configuration.
struct Reload {
    new: Config,
    added: Vec<(KnownSource, Spec)>,
    changed: Vec<(Changed, Spec)>,
    removed: Vec<SourceId>,
}

fn reload(prices: Prices) -> Reload {
    let new = config(prices, true);
    let of = |id: i64| new.sources.iter().find(|source| number(&source.name).0 == id).unwrap();
    let specified = |id: i64| {
        let spec = spec(&new, of(id), None);
        (terms(of(id), &spec.url()), spec)
    };
    let (terms, spec) = specified(SOURCES);
    let (id, memory, moved) = (SourceId(SOURCES), SourceMemory::default(), Moved::Same);
    let added =
        vec![(KnownSource { id, terms, memory, probes: Vec::new(), answered_by: None, moved }, spec)];
    let changed = [(8, Moved::Elsewhere), (16, Moved::Same)].map(|(id, moved)| {
        let (terms, spec) = specified(id);
        (Changed { id: SourceId(id), terms, moved, probes: Vec::new() }, spec)
    });
    Reload { added, changed: changed.into(), removed: vec![SourceId(11)], new }
}

/// The simulator's world.
struct Simulated {
    counts: HashMap<SourceId, u32>,
    /// How far the clock is ahead of real time.
    ahead: Span,
}

impl SimulatedWorld for Simulated {
    fn probe(&mut self, attempt: &Attempt, now: Timestamp) -> ProbeReport {
        let nth = self.counts.entry(attempt.source).or_default();
        *nth += 1;
        let (took, result) = answer(attempt.source, *nth, now - self.ahead - start(), now);
        let (source, finished) = (attempt.source, now + took);
        ProbeReport { source, started: now, finished, answered_by: None, crawl_delays: Vec::new(), result }
    }

    fn plan(&mut self, request: &PlanOrder, _: Timestamp) -> (Span, PlansReady) {
        (PLAN, plan(request))
    }

    fn commit(&mut self, persist: &Persist) -> Span {
        match persist {
            Persist::Started(_) => COMMIT_START,
            Persist::Ended(_) => COMMIT_END,
            _ => Span::ZERO,
        }
    }
}

fn simulate(prices: Prices, days: i64) -> Vec<u8> {
    let first = config(prices, false);
    let Loaded { mut engine, roster, .. } = loaded(&first);
    let mut roster: Roster = roster;
    let mut world = Simulated { counts: HashMap::new(), ahead: Span::ZERO };
    let mut pending = Pending::default();
    pending.record(&engine);
    pending.deliver(&mut engine, &mut world, start(), EngineEvent::Tick);
    let mut now = start();
    for (after, happening) in script() {
        let clock = start() + after + world.ahead;
        pending.run(&mut engine, &mut world, now, clock - Span::from_millis(1));
        now = clock;
        match happening {
            Happening::Request(id) => {
                let event = EngineEvent::ProbeRequested { source: SourceId(id), request: id };
                pending.deliver(&mut engine, &mut world, now, event);
            }
            Happening::Fitted => {
                let all = (0..SOURCES).map(SourceId).collect();
                pending.deliver(&mut engine, &mut world, now, EngineEvent::RatesFitted(all));
            }
            Happening::ClockSet(by) => {
                (world.ahead, now) = (world.ahead + by, now + by);
                pending.shift(by, now);
                pending.deliver(&mut engine, &mut world, now, EngineEvent::ClockSet { by });
                pending.deliver(&mut engine, &mut world, now, EngineEvent::RatesFitted(Vec::new()));
            }
            Happening::Reload => {
                let Reload { new, added, changed, removed } = reload(prices);
                let specs = added.iter().map(|(known, spec)| (known.id, spec));
                let specs = specs.chain(changed.iter().map(|(change, spec)| (change.id, spec)));
                specs.for_each(|(id, spec)| drop(roster.insert(id, spec.clone())));
                let new = Configuration {
                    params: new.fleet.clone(),
                    added: added.into_iter().map(|(known, _)| known).collect(),
                    changed: changed.into_iter().map(|(change, _)| change).collect(),
                    removed,
                    rules: Some(rule_set(&new.rules, &roster)),
                    replan: true,
                };
                pending.deliver(&mut engine, &mut world, now, EngineEvent::Configured(Box::new(new)));
            }
        }
    }
    let until = start() + Span::from_days(days) + world.ahead;
    pending.run(&mut engine, &mut world, now, until - Span::from_millis(1));
    pending.deliver(&mut engine, &mut world, until, EngineEvent::Stopping);
    pending.drain(&mut engine, &mut world, until);
    pending.recorded().to_vec()
}

fn real(span: Span) -> Duration {
    span.to_duration()
}

async fn run_daemon(prices: Prices, days: i64) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let clock = Clock::accelerated(start(), 1.0);
    let first = config(prices, false);
    let loaded = loaded(&first);
    let (channels, ends) = channels(real(COMMIT_START), real(COMMIT_END));
    let Ends { control, finished, launched: mut to_launch, mut to_plan, .. } = ends;
    let rules = Arc::clone(&first.rules);
    let mut scheduler = Scheduler::new(loaded, clock.clone(), None, rules, channels);
    let written = scheduler.begin_recording(&RecordTo { path: path.clone(), limit: u64::MAX }).unwrap();

    // The planner needs `PLAN` for every plan.
    let planned = control.clone();
    tokio::spawn(async move {
        while let Some(order) = to_plan.recv().await {
            let planned = planned.clone();
            tokio::spawn(async move {
                real_pause(real(PLAN)).await;
                let _ = planned.send(Control::Event(EngineEvent::PlansReady(plan(&order))));
            });
        }
    });
    // The network: the same answers.
    let began = tokio::time::Instant::now();
    tokio::spawn(async move {
        let mut counts: HashMap<SourceId, u32> = HashMap::new();
        while let Some(Launch { attempt, clock: network, corrected, .. }) = to_launch.recv().await {
            let nth = counts.entry(attempt.source).or_default();
            *nth += 1;
            let (since, now) = (Span::from_duration(began.elapsed()), network.now());
            let (took, result) = answer(attempt.source, *nth, since, now);
            let finished = finished.clone();
            tokio::spawn(async move {
                real_pause(real(took)).await;
                let at = network.now();
                let base = Finished::failed(attempt, at, Failure::Interrupted, String::new());
                let attempt = Attempt { started: at - took, ..attempt };
                let (outcome, error) = (ProbeOutcome::Unchanged, None);
                let _ = finished.send(Box::new(Finished {
                    attempt,
                    corrected,
                    result,
                    outcome,
                    error,
                    ..base
                }));
            });
        }
    });
    let running = tokio::spawn(scheduler.run());
    for (after, happening) in script() {
        real_pause(real(after) - began.elapsed()).await;
        let order = match happening {
            Happening::Request(id) => {
                Control::Request(ProbeRequest { number: id, source: SourceId(id), answer: None })
            }
            Happening::Fitted => {
                Control::Event(EngineEvent::RatesFitted((0..SOURCES).map(SourceId).collect()))
            }
            Happening::ClockSet(by) => {
                clock.set(by);
                // Wakes the scheduler.
                Control::Event(EngineEvent::RatesFitted(Vec::new()))
            }
            Happening::Reload => {
                let Reload { new, added, changed, removed } = reload(prices);
                let (applied, _) = oneshot::channel();
                Control::Apply(Box::new(Reconfiguration {
                    params: new.fleet.clone(),
                    fetcher: None,
                    added,
                    changed,
                    removed,
                    learning: None,
                    rules: Some(Arc::clone(&new.rules)),
                    replan: true,
                    summary: String::new(),
                    corrected: Span::ZERO,
                    applied,
                }))
            }
        };
        control.send(order).unwrap();
    }
    real_pause(real(Span::from_days(days)) - began.elapsed()).await;
    control.send(Control::Stop).unwrap();
    running.await.unwrap();
    written.await.unwrap();
    std::fs::read(path).unwrap()
}

/// The events and actions of both, which must be the same.
async fn both(prices: Prices) -> Vec<Exchange> {
    let simulated = simulate(prices, DAYS);
    let from_daemon = run_daemon(prices, DAYS).await;
    for recording in [&simulated, &from_daemon] {
        assert_eq!(replay(recording).unwrap().difference, None);
    }
    let (simulated, from_daemon) = (exchanges(&simulated).unwrap(), exchanges(&from_daemon).unwrap());
    for (nth, (simulated, from_daemon)) in simulated.iter().zip(&from_daemon).enumerate() {
        assert_eq!(simulated, from_daemon, "exchange {nth}");
    }
    assert_eq!(simulated.len(), from_daemon.len());
    simulated
}

fn sent(exchanges: &[Exchange]) -> Vec<Attempt> {
    let actions = exchanges.iter().flat_map(|exchange| &exchange.actions);
    let sent = actions.filter_map(|action| match action {
        Action::Send(attempt) => Some(*attempt),
        _ => None,
    });
    sent.collect()
}

#[tokio::test(start_paused = true)]
async fn daemon_simulator_and_replay_give_the_same_actions_at_a_price() {
    let all = both(Prices::OfAll).await;
    assert!(!sent(&all).iter().any(|attempt| attempt.reason.name() == "burst"), "no burst is followed");
}

#[tokio::test(start_paused = true)]
async fn daemon_simulator_and_replay_give_the_same_actions() {
    let all = both(Prices::OfNone).await;
    let sent = sent(&all);
    assert!(sent.len() > 1_500, "{}", sent.len());
    // `auto` and the adaptive policies follow others, and `adaptive` is spread evenly so far.
    let silent = [Policy::Auto, Policy::Adaptive, Policy::IndHistTtl, Policy::IndHistAggHist];
    for policy in Policy::ALL.into_iter().filter(|policy| !silent.contains(policy)) {
        let by = sent.iter().filter(|attempt| attempt.policy == policy).count();
        assert!(by > 5, "{by} by {}", policy.name());
    }
    for reason in ["burst", "rule", "max gap", "manual", "gap", "first contact", "retry-after", "backoff"] {
        assert!(sent.iter().any(|attempt| attempt.reason.name() == reason), "none because of {reason}");
    }
    let notes: Vec<&Note> = all
        .iter()
        .flat_map(|exchange| &exchange.actions)
        .filter_map(|action| match action {
            Action::Log { note, .. } => Some(note),
            _ => None,
        })
        .collect();
    let noted = |what: fn(&Note) -> bool| notes.iter().filter(|note| what(note)).count();
    assert!(noted(|note| matches!(note, Note::OutageBegan { .. })) > 0);
    assert!(noted(|note| matches!(note, Note::OutageEnded { .. })) > 0);
    assert!(noted(|note| matches!(note, Note::Burst(_))) > 20);
    assert!(noted(|note| matches!(note, Note::PolicySwitched { .. })) > 20);
    assert!(noted(|note| matches!(note, Note::Tardy { .. })) > 0);
    let counted =
        |what: fn(&EngineEvent) -> bool| all.iter().filter(|exchange| what(&exchange.event)).count();
    assert_eq!(counted(|event| matches!(event, EngineEvent::ClockSet { .. })), 2);
    assert_eq!(counted(|event| matches!(event, EngineEvent::Configured(_))), 1);
    assert_eq!(counted(|event| matches!(event, EngineEvent::ProbeRequested { .. })), 12);
    assert!(counted(|event| matches!(event, EngineEvent::PlansReady(_))) > 500);
}
