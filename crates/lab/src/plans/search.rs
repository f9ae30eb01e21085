//! Searches for a schedule and compares it with others.
//!
//! [`find`] is the search itself, which may be timed; [`FoundSchedule::compared`] adds bounds, prices and other
//! methods. Must not know the origin of the problem, nor how the result is shown.

use std::time::Duration;

use tidewatch_core::planning::horizon::{Grid, Horizon, Impossible, Schedule};
use tidewatch_core::planning::optimal;
use tidewatch_core::time::Span;

use super::problem::Problem;
use super::{baselines, bound, exact_descent, moves, reference};

/// The method that finds a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The best on the grid, by the fast algorithm.
    Optimal,
    /// The same by the published Algorithms 1, 2 and 4, as corrected.
    Paper,
    /// Evenly spaced in time.
    Uniform,
    /// At equal steps of obsolescence.
    Threshold,
    /// At equal probability of an update.
    FirstArrival,
}

impl Method {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Optimal => "optimal",
            Self::Paper => "paper",
            Self::Uniform => "uniform",
            Self::Threshold => "threshold",
            Self::FirstArrival => "first_arrival",
        }
    }

    /// Whether its times are on a grid.
    pub fn has_grid(self) -> bool {
        matches!(self, Self::Optimal | Self::Paper)
    }
}

/// The method that improves a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Improver {
    /// Descent to the nearest optimum in continuous time.
    Exact,
    /// The published Algorithm 10.
    Moves,
}

/// The reason why there is no schedule.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// No schedule satisfies the horizon's constraints.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// Costs are not finite.
    #[error("the rate and the importance are too large to add up")]
    TooLarge,
}

/// Above this number of probes, methods without a grid are too slow to run for five numbers of probes.
const MOST_COMPARED: u32 = 20_000;

/// The result.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOutcome {
    /// The method of the search.
    pub method: Method,
    /// The method of the improvement.
    pub improver: Option<Improver>,
    /// Probe times, ascending.
    pub times: Vec<Span>,
    /// C̄ of these times.
    pub expected_cost: f64,
    /// No schedule costs less: none on the grid, or none at all if the times are off it.
    pub lower_bound: Option<f64>,
    /// Number of moves of the improver.
    pub moves: u64,
    /// Duration of the search.
    pub elapsed: Duration,
    /// The saving by one more probe.
    pub price: Option<f64>,
    /// The cost of evenly spaced probes.
    pub uniform: Option<f64>,
    /// Costs of more and fewer probes.
    pub trade_off: Vec<Trade>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The cost of a number of probes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trade {
    /// The number.
    pub probes: u32,
    /// C̄.
    pub expected_cost: f64,
    /// The saving by one more.
    pub price: Option<f64>,
}

impl SearchOutcome {
    /// The cost above the bound, as a share of the bound.
    pub fn gap(&self) -> Option<f64> {
        let bound = self.lower_bound?;
        match bound > 0.0 {
            true => Some((self.expected_cost / bound - 1.0).max(0.0)),
            false => (self.expected_cost <= 0.0).then_some(0.0),
        }
    }

    /// Whether the bound is for all schedules, not only for those on the grid.
    pub fn is_off_grid(&self) -> bool {
        self.improver.is_some() || !self.method.has_grid()
    }
}

/// A schedule before it is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundSchedule {
    method: Method,
    improver: Option<Improver>,
    /// The schedule found on the grid, if there is one.
    schedule: Option<Schedule>,
    times: Vec<Span>,
    moves: u64,
}

/// Searches for a schedule and improves it.
pub fn find(
    problem: &Problem,
    method: Method,
    improver: Option<Improver>,
) -> Result<FoundSchedule, Impossible> {
    let horizon = &problem.horizon;
    horizon.check()?;
    if problem.step <= Span::ZERO {
        return Err(Impossible::BadGrid);
    }
    let (schedule, mut times) = match method {
        Method::Optimal => on_grid(optimal::solve(horizon, problem.grid())),
        Method::Paper => on_grid(reference::solve(horizon, problem.grid())),
        _ => baseline(method, horizon).map(|times| (None, times)),
    }?;
    let mut moves = 0;
    if let Some(improver) = improver {
        let improved = match improver {
            Improver::Exact => exact_descent::descend(horizon, times),
            Improver::Moves => moves::improve(horizon, times, &moves::Moves::default()),
        };
        (times, moves) = (improved.times, improved.moves);
    }
    Ok(FoundSchedule { method, improver, schedule, times, moves })
}

impl FoundSchedule {
    /// The result with its comparisons. `elapsed` is the duration of the search.
    pub fn compared(self, problem: &Problem, elapsed: Duration) -> Result<SearchOutcome, SearchError> {
        let Self { method, improver, schedule, times, moves } = self;
        let horizon = &problem.horizon;
        let expected_cost = horizon.cost.cost_of(&times);
        if !expected_cost.is_finite() {
            return Err(SearchError::TooLarge);
        }
        let trade_off = trade_off(problem, method);
        let here = trade_off.iter().find(|trade| trade.probes == horizon.probes);
        let mut outcome = SearchOutcome {
            method,
            improver,
            expected_cost,
            lower_bound: schedule.as_ref().map(|schedule| schedule.lower_bound),
            moves,
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

/// A bound for every schedule in continuous time, if there is one, from the saving by one more probe.
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

/// The costs of half and twice as many probes, and of ten fewer and ten more.
fn trade_off(problem: &Problem, method: Method) -> Vec<Trade> {
    let horizon = &problem.horizon;
    let n = horizon.probes;
    let mut counts = vec![n / 2, n.saturating_sub(10), n, n.saturating_add(10), n.saturating_mul(2)];
    counts.sort_unstable();
    counts.dedup();
    let with_probes = |probes: u32| Horizon { probes, ..horizon.clone() };
    counts.retain(|&count| count > 0 && with_probes(count).check().is_ok());
    if !method.has_grid() {
        if n > MOST_COMPARED {
            return Vec::new();
        }
        let rows = counts.iter().filter_map(|&probes| {
            let times = baseline(method, &with_probes(probes)).ok()?;
            Some(Trade { probes, expected_cost: horizon.cost.cost_of(&times), price: None })
        });
        return rows.collect();
    }
    // Each number with its successor; the difference in cost is the price.
    let pairs: Vec<u32> = counts.iter().flat_map(|&count| [count, count + 1]).collect();
    let found = optimal::trade_off(horizon, problem.grid(), &pairs).unwrap_or_default();
    let rows = counts.iter().zip(found.chunks_exact(2)).map(|(&probes, pair)| Trade {
        probes,
        expected_cost: pair[0].expected_cost,
        price: Some((pair[0].expected_cost - pair[1].expected_cost).max(0.0)),
    });
    rows.collect()
}

fn remark(problem: &Problem, outcome: &mut SearchOutcome) {
    let (planned, requested) = (outcome.times.len(), problem.horizon.probes as usize);
    if planned < requested {
        let text = format!(
            "only {planned} of {requested} probes are planned: more do not fit between spacing, closed times \
             and grid"
        );
        outcome.notes.push(text);
    }
    if outcome.lower_bound.is_none() {
        let text = "no lower bound could be had with this --grid; try another".to_owned();
        outcome.notes.push(text);
    }
}
