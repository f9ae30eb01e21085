//! Sources without a plan at a price: early probes, and the √π̃ sampler.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::event::{KnownSource, Moved, ProbeAnswer};
use tidewatch_core::engine::params::{FleetParams, HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::reason::Reason;
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::planning::budget::{Budget, PRICE};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver::{self, SimulatedReply};
use tidewatch_lab::stepper::ByHand;

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

fn source(id: i64, policy: Policy, budget: Budget, price: Span) -> KnownSource {
    KnownSource {
        id: SourceId(id),
        terms: Terms {
            budget,
            policy,
            weight: 1.0,
            price: SourcePrice::Own((price.as_secs_f64() / 3600.0) as f32),
            max_gap: None,
            cost: None,
            host: HostGroup { key: Arc::from(format!("s{id}.example")), public: true },
        },
        memory: SourceMemory::default(),
        probes: Vec::new(),
        answered_by: None,
        moved: Moved::Same,
    }
}

/// Answers with the number of updates since the last probe, at these rates per hour.
fn publishing(rates: &[(i64, f64)], days: i64) -> impl FnMut(&Attempt, Timestamp) -> SimulatedReply {
    let end = 24.0 * days as f64;
    let mut events: BTreeMap<SourceId, Vec<Timestamp>> = BTreeMap::new();
    for &(id, rate) in rates {
        let (mut chance, mut at) = (Stream::new(5, format!("updates/{id}")), 0.0);
        while at < end {
            at -= (1.0 - chance.unit()).ln() / rate;
            events.entry(SourceId(id)).or_default().push(start() + Span::from_hours(1).scaled(at));
        }
    }
    let mut seen: BTreeMap<SourceId, usize> = BTreeMap::new();
    move |attempt, now| {
        let there = events.get(&attempt.source).map_or(0, |events| events.partition_point(|&at| at <= now));
        let before = seen.insert(attempt.source, there);
        let updates = u32::try_from(there - before.unwrap_or(there)).unwrap();
        (Span::from_millis(200), Ok(ProbeAnswer { updates, ..ProbeAnswer::default() }))
    }
}

fn times_of(sent: &[Attempt], id: i64) -> Vec<Timestamp> {
    sent.iter().filter(|probe| probe.source == SourceId(id)).map(|probe| probe.started).collect()
}

#[test]
fn a_new_source_gets_early_probes_and_then_what_the_price_allows() {
    let budget = Budget::default();
    for policy in [Policy::Auto, Policy::Adaptive, Policy::Plan] {
        let mut fleet =
            ByHand::new(FleetParams::default(), 7, start(), vec![source(1, policy, budget, PRICE)]);
        let until = start() + Span::from_days(40);
        let sent = driver::run(fleet.engine_mut(), publishing(&[(1, 1e-9)], 40), start(), until);
        let times = times_of(&sent, 1);
        let gaps: Vec<Span> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (gap, spacings) in gaps.iter().zip([1, 2]) {
            let wanted = Span::from_mins(15 * spacings);
            assert!(*gap >= wanted && *gap <= wanted + Span::from_secs(11), "{policy:?}: {gap}");
        }
        // The third is no later than four times the spacing; the price may want it sooner.
        assert!(gaps[2] <= Span::from_mins(61), "{policy:?}: {}", gaps[2]);
        assert!(sent[1..3].iter().all(|probe| probe.reason == Reason::Early), "{policy:?}");
        assert!(sent[4..].iter().all(|probe| probe.reason != Reason::Early), "{policy:?}");
        // A source without updates is probed ever more rarely, and at least daily.
        let (early, late) = (gaps[4], gaps[gaps.len() - 1]);
        assert!(early < Span::from_hours(3) && late > early + early, "{policy:?}: {early}, {late}");
        assert!(gaps.iter().all(|&gap| gap <= Span::from_hours(27)), "{policy:?}");
    }
    // A policy that the user chose for its pace has no early probes.
    let mut fleet =
        ByHand::new(FleetParams::default(), 7, start(), vec![source(1, Policy::Uniform, budget, PRICE)]);
    let until = start() + Span::from_days(1);
    let sent = driver::run(fleet.engine_mut(), publishing(&[(1, 1.0)], 1), start(), until);
    assert!((47..=49).contains(&sent.len()), "{}", sent.len());
}

/// π = 100 : 1 gives 10 : 1, with slots to spare and without.
#[test]
fn probes_are_in_proportion_to_the_root_of_the_rate() {
    let budget = Budget { probes: 1000, per: Span::from_days(1), min_spacing: Span::from_secs(1) };
    for (slots, price) in [(1000, Span::from_mins(2)), (1, Span::from_secs(1))] {
        let rates: Vec<(i64, f64)> = (1..=20).map(|id| (id, if id <= 10 { 10.0 } else { 0.1 })).collect();
        let known = rates.iter().map(|&(id, _)| source(id, Policy::Adaptive, budget, price)).collect();
        let step = Span::from_mins(1);
        let params = FleetParams { probes_per_step: slots, step, ..FleetParams::default() };
        let mut fleet = ByHand::new(params, 7, start(), known);
        let days = 30;
        let until = start() + Span::from_days(days);
        let sent = driver::run(fleet.engine_mut(), publishing(&rates, days), start(), until);
        // The first days are for learning.
        let counted = start() + Span::from_days(10);
        let count = |busy: bool| {
            let of = |probe: &&Attempt| (probe.source.0 <= 10) == busy && probe.started > counted;
            sent.iter().filter(of).count() as f64
        };
        let ratio = count(true) / count(false);
        assert!((9.0..11.0).contains(&ratio), "{slots} slots: {ratio}");
    }
}

/// Theorem 4 of Mahmoody, Kornaropoulos and Upfal, with the real engine: at first all sources are alike, and with
/// time the shares of the probes converge to √π.
#[test]
fn the_shares_of_the_probes_converge_to_the_root_of_the_rates() {
    let budget = Budget { probes: 1000, per: Span::from_days(1), min_spacing: Span::from_secs(1) };
    let rates: Vec<(i64, f64)> = (1..=40).map(|id| (id, 20.0 / (id * id) as f64)).collect();
    let roots: f64 = rates.iter().map(|&(_, rate)| rate.sqrt()).sum();
    let known =
        rates.iter().map(|&(id, _)| source(id, Policy::Adaptive, budget, Span::from_secs(1))).collect();
    let params = FleetParams { probes_per_step: 1, step: Span::from_mins(1), ..FleetParams::default() };
    let mut fleet = ByHand::new(params, 7, start(), known);
    let days = 64;
    let until = start() + Span::from_days(days);
    let sent = driver::run(fleet.engine_mut(), publishing(&rates, days), start(), until);
    // Half the sum of the differences between the shares of the probes of [t/2, t) and √π.
    let distance = |hours: i64| {
        let within = start() + Span::from_mins(30 * hours)..start() + Span::from_hours(hours);
        let part: Vec<&Attempt> = sent.iter().filter(|probe| within.contains(&probe.started)).collect();
        let off = rates.iter().map(|&(id, rate)| {
            let share = part.iter().filter(|probe| probe.source.0 == id).count() as f64 / part.len() as f64;
            (share - rate.sqrt() / roots).abs()
        });
        off.sum::<f64>() / 2.0
    };
    let distances = [1, 24, 24 * days].map(distance);
    assert!(distances[0] > 0.35 && distances[1] < 0.2 && distances[2] < 0.05, "{distances:?}");
}
