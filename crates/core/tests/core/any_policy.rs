//! Random rates, times and budgets, and the successive probe times of a policy.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tidewatch_core::model::cyclic::{Rate, WEEK_S};
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::next_probe::{Knowledge, NextProbe, next};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::{Span, Timestamp};

pub const DAILY: u8 = 0b111_1111;

pub fn window(days: u8, from: u16, until: u16) -> WeekWindow {
    WeekWindow { days, from_minute: from * 60, until_minute: until * 60 }
}

pub fn monday() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

/// With quiet stretches, in zones that change their clocks, one of them by half an hour.
pub fn any_rate() -> impl Strategy<Value = Rate> {
    let zone =
        prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]);
    let value = prop_oneof![2 => Just(0.0), 3 => 0.001_f64..30.0];
    let minutes = prop::collection::btree_set(1_u32..WEEK_S / 60, 0..12);
    (zone, minutes, prop::collection::vec(value, 13)).prop_map(|(zone, minutes, values)| {
        let ends = minutes.into_iter().map(|minute| minute * 60).chain([WEEK_S]);
        Rate::new(TimeZone::get(zone).unwrap(), ends.zip(values)).unwrap()
    })
}

/// Within two years, so that every clock change occurs.
pub fn any_time() -> impl Strategy<Value = Timestamp> {
    (0_i64..2 * 365 * 86_400_000).prop_map(|millis| monday() + Span::from_millis(millis))
}

pub fn any_budget() -> impl Strategy<Value = Budget> {
    (1_u32..60, prop::sample::select(vec![1_i64, 6, 24, 168]), 0_i64..120).prop_map(
        |(probes, hours, minutes)| Budget {
            probes,
            per: Span::from_hours(hours),
            min_spacing: Span::from_mins(minutes),
        },
    )
}

pub fn time(policy: Policy, known: &Knowledge<'_>, last: Timestamp) -> Timestamp {
    match next(policy, known, last, last) {
        NextProbe::At { at, .. } => at,
        NextProbe::Sampled { .. } => panic!("{policy:?} gives no time"),
    }
}

/// The probe times of a policy up to `until`.
pub fn followed(
    policy: Policy,
    known: &Knowledge<'_>,
    from: Timestamp,
    until: Timestamp,
) -> Vec<Timestamp> {
    let mut last = from;
    let mut times = Vec::new();
    while last < until {
        let at = time(policy, known, last);
        assert!(at > last, "{policy:?} repeats {at}");
        times.push(at);
        last = at;
        assert!(times.len() < 100_000);
    }
    times.pop();
    times
}
