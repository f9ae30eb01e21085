//! Has the schedule searched, and what it can be compared with.
//!
//! Knows which method gives what. Must not know where the problem came from, nor how its answer is
//! shown.

use std::time::Duration;

use crate::cli::CliError;
use crate::clock::Stopwatch;
use tidewatch_core::planning::horizon::{Grid, Horizon, Impossible, Schedule};
use tidewatch_core::planning::optimal;
use tidewatch_core::time::Span;
use tidewatch_lab::plans::{baselines, bound, finish, moves, reference};

use super::refusal::refusal;
use super::{Improver, Method, Problem};

/// With more probes than this the rules without a grid take too long to be asked five times.
const MOST_COMPARED: u32 = 20_000;

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it was found.
    pub method: Method,
    /// How it was improved.
    pub improver: Option<Improver>,
    /// When to probe, the horizon's end last.
    pub times: Vec<Span>,
    /// C̄ of them.
    pub expected_cost: f64,
    /// No schedule costs less: none on the grid, or none at all where times are off it.
    pub lower_bound: Option<f64>,
    /// What the improver did.
    pub moves: u64,
    /// How long the search took.
    pub elapsed: Duration,
    /// What one more probe would save.
    pub price: Option<f64>,
    /// What probes evenly in time would cost.
    pub uniform: Option<f64>,
    /// More and fewer probes.
    pub trade_off: Vec<Trade>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// What a number of probes costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trade {
    /// How many.
    pub probes: u32,
    /// C̄.
    pub expected_cost: f64,
    /// What one more would save.
    pub price: Option<f64>,
}

impl Outcome {
    /// How much more than the bound it costs, as a share of the bound.
    pub fn gap(&self) -> Option<f64> {
        let bound = self.lower_bound?;
        match bound > 0.0 {
            true => Some((self.expected_cost / bound - 1.0).max(0.0)),
            false => (self.expected_cost <= 0.0).then_some(0.0),
        }
    }

    /// The bound is for all schedules, not only for those on the grid.
    pub fn is_off_grid(&self) -> bool {
        self.improver.is_some() || !self.method.has_grid()
    }
}

/// Searches.
pub fn search(problem: &Problem, method: Method, improver: Option<Improver>) -> Result<Outcome, CliError> {
    let refuse = |why: Impossible| refusal(problem, &why);
    let horizon = &problem.horizon;
    horizon.check().map_err(refuse)?;
    if problem.step <= Span::ZERO {
        return Err(refuse(Impossible::BadGrid));
    }
    let watch = Stopwatch::start();
    let (schedule, mut times) = match method {
        Method::Optimal => on_grid(optimal::solve(horizon, problem.grid())),
        Method::Paper => on_grid(reference::solve(horizon, problem.grid())),
        _ => baseline(method, horizon).map(|times| (None, times)),
    }
    .map_err(refuse)?;
    let mut steps = 0;
    if let Some(improver) = improver {
        let improved = match improver {
            Improver::Exact => finish::descend(horizon, times),
            Improver::Moves => moves::improve(horizon, times, &moves::Moves::default()),
        };
        (times, steps) = (improved.times, improved.moves);
    }
    let elapsed = watch.elapsed();
    let expected_cost = horizon.cost.cost_of(&times);
    if !expected_cost.is_finite() {
        return Err(CliError::Refused("the rate and the importance are too large to add up".to_owned()));
    }
    let trade_off = trade_off(problem, method);
    let here = trade_off.iter().find(|trade| trade.probes == horizon.probes);
    let mut outcome = Outcome {
        method,
        improver,
        expected_cost,
        lower_bound: schedule.as_ref().map(|schedule| schedule.lower_bound),
        moves: steps,
        elapsed,
        price: here.and_then(|trade| trade.price),
        uniform: baselines::uniform(horizon).ok().map(|times| horizon.cost.cost_of(&times)),
        trade_off,
        notes: problem.notes.clone(),
        times,
    };
    if outcome.is_off_grid() {
        outcome.lower_bound = continuous_bound(problem, schedule, outcome.price);
    }
    remark(problem, &mut outcome);
    Ok(outcome)
}

fn on_grid(found: Result<Schedule, Impossible>) -> Result<(Option<Schedule>, Vec<Span>), Impossible> {
    found.map(|schedule| (Some(schedule.clone()), schedule.times))
}

fn baseline(method: Method, horizon: &Horizon) -> Result<Vec<Span>, Impossible> {
    match method {
        Method::Threshold => baselines::threshold(horizon),
        Method::FirstArrival => baselines::first_arrival(horizon),
        _ => baselines::uniform(horizon),
    }
}

/// A bound for every schedule in continuous time, where one is to be had: by the price of one more.
fn continuous_bound(problem: &Problem, schedule: Option<Schedule>, price: Option<f64>) -> Option<f64> {
    let horizon = &problem.horizon;
    let grid = Grid::every(problem.step.min(horizon.length()));
    let (schedule, price) = match (schedule, price) {
        (Some(schedule), Some(price)) => (schedule, price),
        _ => {
            let mut found =
                optimal::trade_off(horizon, grid, &[horizon.probes, horizon.probes + 1]).ok()?;
            let price = found[0].expected_cost - found[1].expected_cost;
            (found.swap_remove(0), price)
        }
    };
    bound::continuous(horizon, grid, &Schedule { price: price.max(0.0), ..schedule }).ok()
}

/// What half and twice as many would cost, and ten fewer and more.
fn trade_off(problem: &Problem, method: Method) -> Vec<Trade> {
    let horizon = &problem.horizon;
    let n = horizon.probes;
    let mut counts = vec![n / 2, n.saturating_sub(10), n, n.saturating_add(10), n.saturating_mul(2)];
    counts.sort_unstable();
    counts.dedup();
    let asked = |probes: u32| Horizon { probes, ..horizon.clone() };
    counts.retain(|&count| count > 0 && asked(count).check().is_ok());
    if !method.has_grid() {
        if n > MOST_COMPARED {
            return Vec::new();
        }
        let rows = counts.iter().filter_map(|&probes| {
            let times = baseline(method, &asked(probes)).ok()?;
            Some(Trade { probes, expected_cost: horizon.cost.cost_of(&times), price: None })
        });
        return rows.collect();
    }
    // Each with one more, whose cost tells the price.
    let pairs: Vec<u32> = counts.iter().flat_map(|&count| [count, count + 1]).collect();
    let found = optimal::trade_off(horizon, problem.grid(), &pairs).unwrap_or_default();
    let rows = counts.iter().zip(found.chunks_exact(2)).map(|(&probes, pair)| Trade {
        probes,
        expected_cost: pair[0].expected_cost,
        price: Some((pair[0].expected_cost - pair[1].expected_cost).max(0.0)),
    });
    rows.collect()
}

fn remark(problem: &Problem, outcome: &mut Outcome) {
    let (planned, asked) = (outcome.times.len(), problem.horizon.probes as usize);
    if planned < asked {
        let said = format!(
            "only {planned} of {asked} probes are planned: more do not fit between spacing, closed times and grid"
        );
        outcome.notes.push(said);
    }
    if outcome.lower_bound.is_none() {
        let said = "no lower bound could be had with this --grid; try another".to_owned();
        outcome.notes.push(said);
    }
}
