//! A lower bound on the cost of schedules that are not on the grid.
//!
//! Take the best schedule in continuous time and round its probes to a grid of step γ that contains all
//! breakpoints of λ and a. Round at random and without bias: up with the probability that keeps the mean.
//! Within the cells the cost is quadratic, with second derivatives 2aλ for a single probe and
//! −λ(p_i)·a(p_{i+1}) for neighbours. So rounding adds Σ a_i λ_i Var_i − Σ λ_i a_{i+1} Cov_{i,i+1} on
//! average, and some rounding adds no more.
//! - δ = 0: with one draw per grid cell, the order is kept, covariances are not negative, and variances are
//!   at most γ²/4. So rounding adds at most n/4·max(aλ)·γ², at most half of Proposition 8's first term.
//! - δ = kγ: one draw for all probes keeps every spacing of k steps; |Cov| ≤ γ²/4. So rounding adds at most
//!   n/2·ā·λ̄·γ², which is Proposition 8's first term without its second, Tγ.
//!
//! A δ between two multiples of γ is replaced by the smaller one. Closed times are opened as far as rounding
//! may lead into them, up to a step on either side. The allowance is ignored. Each of these only lowers the
//! bound. If breakpoints are off the grid, Proposition 8 itself is used (Eckstein, Gal, Reiner):
//! āλ̄(n/2·γ² + Tγ).

use tidewatch_core::time::Span;

use tidewatch_core::planning::horizon::{Grid, Horizon, HorizonEnd, Impossible, Schedule};
use tidewatch_core::planning::optimal;

/// A lower bound on the cost of every feasible schedule, on the grid or not, from the price found on the
/// grid.
pub fn continuous(horizon: &Horizon, grid: Grid, found: &Schedule) -> Result<f64, Impossible> {
    let step = grid.step.as_millis();
    if step <= 0 {
        return Err(Impossible::BadGrid);
    }
    let on_grid = |at: Span| (at - grid.first).as_millis().rem_euclid(step) == 0;
    let cells = horizon.cost.cells();
    let aligned = cells.iter().all(|cell| on_grid(cell.from) && on_grid(cell.until));
    let relaxed = Horizon {
        min_spacing: Span::from_millis(horizon.min_spacing.as_millis() / step * step),
        closed: horizon.closed.iter().filter_map(|&closed| narrowed(closed, grid)).collect(),
        allowance: Vec::new(),
        ..horizon.clone()
    };
    let steps = f64::from(horizon.probes) + if horizon.end == HorizonEnd::Open { 1.0 } else { 0.0 };
    let dual = optimal::priced_cost(&relaxed, grid, found.price)? - found.price * steps;

    let gamma = grid.step.as_secs_f64() / 3600.0;
    let most = |value: fn(f64, f64) -> f64| {
        cells.iter().map(|cell| value(cell.rate, cell.weight)).fold(0.0, f64::max)
    };
    let both = most(|rate, _| rate) * most(|_, weight| weight);
    let n = f64::from(horizon.probes);
    let rounding = if !aligned {
        both * (n / 2.0 * gamma * gamma + horizon.length().as_secs_f64() / 3600.0 * gamma)
    } else if relaxed.min_spacing == Span::ZERO {
        most(|rate, weight| rate * weight) * n / 4.0 * gamma * gamma
    } else {
        both * n / 2.0 * gamma * gamma
    };
    Ok((dual - rounding).max(0.0))
}

/// The rest of a closed time after the grid times are opened to which a probe beside it may be rounded.
fn narrowed((from, until): (Span, Span), grid: Grid) -> Option<(Span, Span)> {
    let (step, first) = (grid.step.as_millis(), grid.first.as_millis());
    let down = |at: i64| (at - first).div_euclid(step) * step + first;
    let from = down(from.as_millis() + step - 1) + 1;
    let until = down(until.as_millis());
    (from < until).then(|| (Span::from_millis(from), Span::from_millis(until)))
}
