//! Horizons to plan for: the paper's two, and any.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::obsolescence::Obsolescence;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::horizon::{Horizon, HorizonEnd};
use tidewatch_core::time::{Span, Timestamp};

const WEEKDAYS: u8 = 0b1_1111;
const SATURDAY: u8 = 0b10_0000;
const SUNDAY: u8 = 0b100_0000;

/// Days, from hour, until hour, updates per day.
type Row = (u8, u16, u16, f64);

fn window(days: u8, from: u16, until: u16) -> WeekWindow {
    WeekWindow { days, from_minute: from * 60, until_minute: until * 60 }
}

fn four_weeks(rows: &[Row], office_until: u16, ratio: f64, probes: u32) -> Horizon {
    let rows: Vec<_> = rows
        .iter()
        .map(|&(days, from, until, per_day)| (window(days, from, until), per_day / 24.0))
        .collect();
    let rate = Steps::windows(TimeZone::UTC, 0.0, &rows).unwrap();
    let office = window(WEEKDAYS, 9, office_until);
    let importance = Steps::windows(TimeZone::UTC, 1.0, &[(office, ratio)]).unwrap();
    let monday = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
    Horizon {
        cost: Obsolescence::new(&rate, &importance, monday, monday + Span::from_days(28)),
        probes,
        min_spacing: Span::ZERO,
        closed: Vec::new(),
        allowance: Vec::new(),
        longest_gap: None,
        end: HorizonEnd::Probed,
    }
}

/// Table 2, office hours 9 to 18.
pub fn dbworld(ratio: f64, probes: u32) -> Horizon {
    let rows = [
        (WEEKDAYS, 0, 3, 2.40),
        (WEEKDAYS, 3, 6, 5.96),
        (WEEKDAYS, 6, 9, 6.04),
        (WEEKDAYS, 9, 18, 7.50),
        (WEEKDAYS, 18, 21, 3.03),
        (WEEKDAYS, 21, 24, 2.41),
        (SATURDAY, 0, 24, 1.50),
        (SUNDAY, 0, 24, 1.15),
    ];
    four_weeks(&rows, 18, ratio, probes)
}

/// Table 3, office hours 9 to 19.
pub fn micronet(ratio: f64, probes: u32) -> Horizon {
    let rows = [
        (WEEKDAYS, 0, 9, 0.25),
        (WEEKDAYS, 9, 19, 2.60),
        (WEEKDAYS, 19, 24, 0.14),
        (SATURDAY | SUNDAY, 0, 24, 0.08),
    ];
    four_weeks(&rows, 19, ratio, probes)
}

/// The paper's two traces at ratios 1 and 3 with 28 probes.
pub fn papers() -> [(&'static str, Horizon); 4] {
    [
        ("DBWorld 1", dbworld(1.0, 28)),
        ("DBWorld 3", dbworld(3.0, 28)),
        ("MicroNet 1", micronet(1.0, 28)),
        ("MicroNet 3", micronet(3.0, 28)),
    ]
}

/// C̄ of a schedule that is allowed, in update·days.
#[track_caller]
pub fn cost_in_days(horizon: &Horizon, times: &[Span]) -> f64 {
    assert_eq!(horizon.verify(times), Ok(()));
    horizon.cost.cost_of(times) / 24.0
}

fn level() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 4 => 0.05_f64..4.0]
}

/// Cells of up to some hours, not on full minutes.
pub fn cost() -> impl Strategy<Value = Obsolescence> {
    prop::collection::vec((1_i64..20_000_000, level(), level()), 1..7).prop_map(|cells| {
        let mut until = 0;
        Obsolescence::of_cells(cells.into_iter().map(|(length, rate, weight)| {
            until += length;
            (Span::from_millis(until), rate, weight)
        }))
    })
}

/// Any horizon in which something can be planned, with up to this many probes.
pub fn horizon(most: u32) -> impl Strategy<Value = Horizon> {
    let part = 0.0_f64..1.0;
    let closed = prop::collection::vec((part.clone(), part.clone()), 0..4);
    let allowance = prop::collection::vec((part.clone(), 0_u32..3), 0..4);
    let spacing = prop_oneof![Just(0.0), part.clone(), Just(0.9)];
    (cost(), 1..=most, spacing, closed, allowance, any::<bool>())
        .prop_map(|(cost, probes, tightness, closed, allowance, open)| {
            let length = cost.length();
            Horizon {
                min_spacing: length.scaled(tightness * 0.999 / f64::from(probes)),
                closed: apart(length, &closed),
                allowance: staircase(length, &allowance),
                longest_gap: None,
                end: if open { HorizonEnd::Open } else { HorizonEnd::Probed },
                cost,
                probes,
            }
        })
        .prop_filter("something can be planned", |horizon| horizon.check().is_ok())
}

/// Closed times from shares: of the time left, the first share is open and the second closed.
fn apart(length: Span, shares: &[(f64, f64)]) -> Vec<(Span, Span)> {
    let (mut at, mut closed) = (Span::ZERO, Vec::new());
    for &(open, shut) in shares {
        let from = if open < 0.1 && closed.is_empty() { at } else { at + (length - at).scaled(open * 0.7) };
        let until = from + (length - from).scaled(shut * 0.5);
        if until > from && closed.last().is_none_or(|&(_, before)| from > before) {
            closed.push((from, until));
            at = until;
        }
    }
    closed
}

fn staircase(length: Span, shares: &[(f64, u32)]) -> Vec<(Span, u32)> {
    let (mut at, mut most, mut steps) = (Span::ZERO, 0, Vec::new());
    for &(share, more) in shares {
        at = at + (length - at).scaled(share * 0.6) + Span::from_millis(1);
        most += more;
        steps.push((at, most));
    }
    steps
}
