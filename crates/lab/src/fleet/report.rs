//! The costs of allocators as figures, a JSON document and a table.
//!
//! It also has the ratios that the paper proves. Must not simulate.

use std::io;
use std::time::Duration;

use serde::Serialize;

use tidewatch_core::engine::params::Allocator;

use crate::tables::{Emphasis, ResultTable, TableEntry, entry};
use crate::words::{number, plural};

use super::FleetWorld;
use super::estimators::Estimate;

/// The input of the simulation.
#[derive(Debug)]
pub struct FleetQuestion {
    /// The name of the file or the shape.
    pub title: String,
    /// The sources.
    pub world: FleetWorld,
    /// Number of steps.
    pub steps: u64,
    /// Number of first steps that are not scored.
    pub warm_up: u64,
    /// The seed.
    pub seed: u64,
    /// True if the rates are hidden from the allocators.
    pub unknown: bool,
    /// The bound of Theorem 1.
    pub lower_bound: f64,
    /// The tighter bound.
    pub tight_bound: f64,
    /// The cost of the index allocator with known rates, if they are hidden.
    pub oracle: Option<f64>,
}

/// The result of one allocator.
#[derive(Debug)]
pub struct FleetOutcome {
    /// The allocator.
    pub allocator: Allocator,
    /// Its estimator of rates, if it has one.
    pub learned: Option<Estimate>,
    /// Its cost.
    pub cost: f64,
    /// Number of probes in all steps.
    pub probes: u64,
    /// Total run time.
    pub elapsed: Duration,
}

/// The keys up to `elapsed_ms` are stable, in this order.
#[derive(Serialize)]
struct FleetDocument {
    allocator: &'static str,
    cost: f64,
    lower_bound: f64,
    tight_lower_bound: f64,
    probes: u64,
    elapsed_ms: f64,
    ns_per_probe: Option<f64>,
    ratio: Option<f64>,
    tight_ratio: Option<f64>,
    proven_ratio: Option<f64>,
    learned: Option<&'static str>,
    oracle_cost: Option<f64>,
    regret: Option<f64>,
    sources: usize,
    probes_per_step: usize,
    steps: u64,
    scored_steps: u64,
    change_at: Option<u64>,
    change_share: Option<f64>,
    seed: u64,
}

#[derive(Serialize)]
struct Documents {
    allocators: Vec<FleetDocument>,
}

/// The ratio to Theorem 1's bound that the paper proves as an upper limit in the long run: D by Corollary 3,
/// R by Corollary 5, Adaptive by Theorem 4.
fn proven(allocator: Allocator, per_step: usize) -> Option<f64> {
    let grouped = (per_step as f64 - 1.0) / per_step as f64;
    match allocator {
        Allocator::Cyclic => Some(3.0 + grouped),
        Allocator::Memoryless | Allocator::Adaptive => Some(2.0 + grouped),
        Allocator::Index | Allocator::RoundRobin | Allocator::Greedy => None,
    }
}

/// The ratio to a bound; `None` if the bound is 0.
fn times(cost: f64, bound: f64) -> Option<f64> {
    (bound > 0.0).then(|| cost / bound)
}

fn document(question: &FleetQuestion, outcome: &FleetOutcome) -> FleetDocument {
    let change = question.world.change;
    FleetDocument {
        allocator: outcome.allocator.name(),
        cost: outcome.cost,
        lower_bound: question.lower_bound,
        tight_lower_bound: question.tight_bound,
        probes: outcome.probes,
        elapsed_ms: outcome.elapsed.as_micros() as f64 / 1000.0,
        ns_per_probe: times(outcome.elapsed.as_nanos() as f64, outcome.probes as f64).map(f64::round),
        ratio: times(outcome.cost, question.lower_bound),
        tight_ratio: times(outcome.cost, question.tight_bound),
        proven_ratio: proven(outcome.allocator, question.world.per_step),
        learned: outcome.learned.map(|estimate| match estimate {
            Estimate::Counted => "counted",
            Estimate::Forgetting => "forgetting",
        }),
        oracle_cost: question.oracle,
        regret: question.oracle.and_then(|oracle| times(outcome.cost, oracle)).map(|ratio| ratio - 1.0),
        sources: question.world.rates.len(),
        probes_per_step: question.world.per_step,
        steps: question.steps,
        scored_steps: question.steps - question.warm_up,
        change_at: change.map(|change| change.at),
        change_share: change.map(|change| change.share),
        seed: question.seed,
    }
}

/// The document of one allocator.
pub fn one_as_json(question: &FleetQuestion, outcome: &FleetOutcome) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(&document(question, outcome))?)
}

/// The documents of several allocators.
pub fn all_as_json(question: &FleetQuestion, outcomes: &[FleetOutcome]) -> io::Result<String> {
    let allocators = outcomes.iter().map(|outcome| document(question, outcome)).collect();
    Ok(serde_json::to_string_pretty(&Documents { allocators })?)
}

/// The table with a row per allocator.
pub fn table(question: &FleetQuestion, outcomes: &[FleetOutcome]) -> ResultTable {
    let mut heads = vec!["allocator", "cost", "× bound", "proven", "× tight bound"];
    if question.oracle.is_some() {
        heads.push("regret");
    }
    heads.push("ns/probe");
    let best = outcomes.iter().map(|outcome| outcome.cost).fold(f64::INFINITY, f64::min);
    let row = |outcome: &FleetOutcome| {
        let text = document(question, outcome);
        let ratio =
            |ratio: Option<f64>, digits| ratio.map_or("–".to_owned(), |x| format!("{x:.digits$}"));
        let is_best = outcome.cost == best && outcomes.len() > 1;
        let emphasis = if is_best { Emphasis::Good } else { Emphasis::Plain };
        let mut row: Vec<TableEntry> = vec![
            entry(text.allocator),
            entry(number(text.cost)),
            entry(ratio(text.ratio, 3)),
            entry(ratio(text.proven_ratio, 1)).marked(Emphasis::Faint),
            entry(ratio(text.tight_ratio, 3)).marked(emphasis),
        ];
        if question.oracle.is_some() {
            let regret = text.regret.map_or("–".to_owned(), |regret| format!("{:.1} %", regret * 100.0));
            row.push(entry(regret));
        }
        row.push(entry(ratio(text.ns_per_probe, 0)).marked(Emphasis::Faint));
        row
    };
    ResultTable::new(heads, outcomes.iter().map(row).collect())
}

/// A description of the simulation and its lower bounds, line by line.
pub fn head(question: &FleetQuestion) -> Vec<String> {
    let counted = |count: u64, what: &str| {
        format!("{count} {what}{}", plural(usize::try_from(count).unwrap_or(usize::MAX)))
    };
    let scored = match question.warm_up {
        0 => String::new(),
        warm_up => format!(", the first {warm_up} not counted"),
    };
    let known =
        if question.unknown { "hidden from all but an oracle" } else { "known to all but adaptive" };
    let change = match question.world.change {
        None => String::new(),
        Some(change) if change.share >= 1.0 => format!(", all permuted at step {}", change.at),
        Some(change) => format!(", {:.0} % of them permuted at step {}", change.share * 100.0, change.at),
    };
    let mut lines = vec![
        format!(
            "{}  {}, {} a step, {}{scored}; seed {}",
            question.title,
            counted(question.world.rates.len() as u64, "source"),
            counted(question.world.per_step as u64, "probe"),
            counted(question.steps, "step"),
            question.seed
        ),
        format!("rates           {known}{change}"),
        format!(
            "no schedule is  below {} undiscovered updates (Theorem 1), nor below {} (tight bound)",
            number(question.lower_bound),
            number(question.tight_bound)
        ),
    ];
    if let Some(oracle) = question.oracle {
        lines.push(format!("the oracle      index, given the rates: {}", number(oracle)));
    }
    lines
}
