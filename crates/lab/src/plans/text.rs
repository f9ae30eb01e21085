//! A plan as text: the method, its cost, and the costs of other numbers of probes.

use tidewatch_core::time::Span;

use crate::tables::{Emphasis, ResultTable, TableEntry, entry};
use crate::words::{exact, number, plural};

use super::problem::Problem;
use super::search::{Improver, Method, SearchOutcome};

/// The method and the improver, as text.
pub fn manner(problem: &Problem, outcome: &SearchOutcome) -> String {
    let found = match outcome.method {
        Method::Optimal => format!("the best on a grid of {}", exact(problem.step)),
        Method::Paper => {
            format!("the best on a grid of {}, by the paper's algorithms", exact(problem.step))
        }
        Method::Uniform => "evenly in time".to_owned(),
        Method::Threshold => "by equal obsolescence".to_owned(),
        Method::FirstArrival => "by equal chance of an update".to_owned(),
    };
    let (moves, plural) = (outcome.moves, plural(usize::try_from(outcome.moves).unwrap_or(usize::MAX)));
    match outcome.improver {
        None => found,
        Some(Improver::Exact) => format!("{found}, then exact descent ({moves} move{plural})"),
        Some(Improver::Moves) => format!("{found}, then Algorithm 10 ({moves} move{plural})"),
    }
}

/// The unit of costs.
pub fn unit(problem: &Problem) -> &'static str {
    if problem.is_unweighted() { "update·hours" } else { "update·hours × importance" }
}

/// The method and the costs, line by line: a label and a text.
pub fn costs(problem: &Problem, outcome: &SearchOutcome) -> Vec<(&'static str, String)> {
    let cost = outcome.expected_cost;
    let mut lines = vec![
        ("found", format!("{} in {}", manner(problem, outcome), took(outcome))),
        ("expected cost", format!("{} {}", digits(cost), unit(problem))),
    ];
    if problem.is_unweighted() && problem.updates() > 0.0 {
        let mean = Span::from_hours(1).scaled(cost / problem.updates());
        lines.push(("mean delay", format!("an update is found after {mean} on average")));
    }
    if let (Some(bound), Some(gap)) = (outcome.lower_bound, outcome.gap()) {
        let scope = if outcome.is_off_grid() { "at any times" } else { "on this grid" };
        let message = format!("{} for every schedule {scope}; this one is {}", digits(bound), above(gap));
        lines.push(("lower bound", message));
    }
    if let Some(uniform) = outcome.uniform.filter(|_| outcome.method != Method::Uniform && cost > 0.0) {
        let share = (uniform / cost - 1.0) * 100.0;
        let way = if share < 0.0 { "less" } else { "more" };
        let message = format!("would cost {}, {:.1} % {way}", digits(uniform), share.abs());
        lines.push(("evenly spread", message));
    }
    lines
}

fn took(outcome: &SearchOutcome) -> String {
    match outcome.elapsed.as_micros() {
        micros @ 0..1000 => format!("{micros} µs"),
        micros @ 1000..10_000_000 => format!("{} ms", micros / 1000),
        micros => format!("{} s", micros / 1_000_000),
    }
}

fn above(gap: f64) -> String {
    match gap * 100.0 {
        share if share < 1e-6 => "as good as that".to_owned(),
        share if share < 0.01 => "less than 0.01 % above".to_owned(),
        share => format!("{share:.2} % above"),
    }
}

/// A cost with enough digits to distinguish plans.
pub fn digits(cost: f64) -> String {
    match cost {
        c if c <= 0.0 => "0".to_owned(),
        c if c < 0.01 => number(c),
        c if c < 1.0 => format!("{c:.4}"),
        c if c < 1000.0 => format!("{c:.2}"),
        c if c < 100_000.0 => format!("{c:.1}"),
        c => format!("{c:.0}"),
    }
}

/// The costs of more and fewer probes.
pub fn trade_off(problem: &Problem, outcome: &SearchOutcome) -> ResultTable {
    let here = outcome.trade_off.iter().find(|trade| trade.probes == problem.horizon.probes);
    let priced = outcome.trade_off.iter().any(|trade| trade.price.is_some());
    let rows: Vec<Vec<TableEntry>> = outcome
        .trade_off
        .iter()
        .map(|trade| {
            let is_here = trade.probes == problem.horizon.probes;
            let emphasis = if is_here { Emphasis::Strong } else { Emphasis::Plain };
            let change = match here {
                _ if is_here => "this plan".to_owned(),
                Some(here) if here.expected_cost > 0.0 => {
                    format!("{:+.1} %", (trade.expected_cost / here.expected_cost - 1.0) * 100.0)
                }
                _ => String::new(),
            };
            let mut row = vec![trade.probes.to_string(), digits(trade.expected_cost), change];
            if priced {
                row.push(trade.price.map_or_else(String::new, digits));
            }
            row.into_iter().map(|text| entry(text).marked(emphasis)).collect()
        })
        .collect();
    let heads = ["probes", "cost", "", "one more saves"];
    ResultTable::new(heads.into_iter().take(if priced { 4 } else { 3 }), rows)
}
