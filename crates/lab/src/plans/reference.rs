//! The published algorithm for the best schedule on a grid: Algorithms 1, 2 and 4 of Eckstein, Gal and
//! Reiner, in O(nN²) time and O(N²) memory.
//!
//! It is a reference for faster algorithms: short, close to the text, and exhaustive. Where the printed
//! algorithms are wrong, it does what they mean. A′ is still 0 at i = j − 1 in Algorithm 4 (as printed, all
//! of K but the diagonal is too large). j(1, i) is the value that Algorithm 1 sets first and Algorithm 2
//! reads last. Must not use shortcuts.

use tidewatch_core::model::obsolescence::{Obsolescence, PrefixSums};
use tidewatch_core::time::Span;

use tidewatch_core::planning::horizon::{Grid, Horizon, HorizonEnd, Impossible, Schedule};

/// With this many grid points, half of K takes 400 MB.
const MOST_POINTS: usize = 10_000;

/// The best schedule of at most n probes with times on the grid.
///
/// Its bound is for schedules on the grid and equals the cost. The price is the saving by the last of the n
/// probes. If there is no schedule with one fewer, it is the saving by one more. It is 0 if n exceeds the
/// number of slots.
pub fn solve(horizon: &Horizon, grid: Grid) -> Result<Schedule, Impossible> {
    let slots = horizon.slots(grid)?;
    let free = slots.len();
    let end = (horizon.end == HorizonEnd::Open).then_some(horizon.length());
    let points: Vec<Span> = [Span::ZERO].into_iter().chain(slots).chain(end).collect();
    if points.len() > MOST_POINTS {
        let count = |points: usize| i64::try_from(points).unwrap_or(i64::MAX);
        return Err(Impossible::GridTooFine(count(points.len()), count(MOST_POINTS)));
    }
    let costs = cost_matrix(&horizon.cost, &points);
    let probes = (horizon.probes as usize).min(free);
    let plan = backwards(horizon, &points, &costs, probes);
    let cost = plan.cost(probes);
    if !cost.is_finite() {
        return Err(Impossible::EndTooEarly);
    }
    let cost_with = |probes| backwards(horizon, &points, &costs, probes).cost(probes);
    let fewer = match probes.checked_sub(1) {
        None => f64::INFINITY,
        // Algorithm 1 has computed it. With an allowance, D(n−1, 0) differs: it is the best cost after one
        // probe has already been sent.
        Some(fewer) if horizon.allowance.is_empty() => plan.cost(fewer),
        Some(fewer) => cost_with(fewer),
    };
    let price = match fewer.is_finite() {
        _ if horizon.probes as usize > free => 0.0,
        true => fewer - cost,
        false => cost - cost_with(probes + 1),
    };
    let times = plan.times(horizon, &points, probes);
    let expected_cost = horizon.cost.cost_of(&times);
    Ok(Schedule { times, expected_cost, lower_bound: expected_cost, price: price.max(0.0) })
}

/// Algorithm 4: K[i][j − i − 1] = C̄(tᵢ, tⱼ) for i < j, from neighbours by Lemma 3 (eq. 14). Rows are
/// computed from the last to the first, which follows the memory order of the same numbers.
fn cost_matrix(cost: &Obsolescence, points: &[Span]) -> Vec<Vec<f64>> {
    let sums: Vec<PrefixSums> = cost.sums_at(points.iter().copied()).collect();
    let importance: Vec<f64> =
        sums.windows(2).map(|pair| pair[1].importance - pair[0].importance).collect();
    let updates: Vec<f64> = sums.windows(2).map(|pair| pair[1].updates - pair[0].updates).collect();
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(points.len());
    for i in (0..points.len() - 1).rev() {
        let step = cost.cost(points[i], points[i + 1]);
        let mut row = Vec::with_capacity(points.len() - 1 - i);
        row.push(step);
        let mut between = 0.0;
        for (next, importance) in rows.last().into_iter().flatten().zip(&importance[i + 1..]) {
            between += importance;
            row.push(step + updates[i] * between + next);
        }
        rows.push(row);
    }
    rows.reverse();
    rows
}

/// The result of Algorithm 1.
struct ReferencePlan {
    /// D(m, 0) for m = 0, 1, …
    costs: Vec<f64>,
    /// j(m, i) for m = 1, 2, …
    next: Vec<Vec<u32>>,
}

/// Algorithm 1: D(m, i), the least cost from tᵢ on with at most m more probes after one at tᵢ, for m = 0 to
/// `probes`.
///
/// With m left of n, the next probe has number n − m, even if not all are used; that suffices to respect the
/// allowance. An open end can be reached from every point at its cost, and takes no probe.
fn backwards(horizon: &Horizon, points: &[Span], costs: &[Vec<f64>], probes: usize) -> ReferencePlan {
    let last = points.len() - 1;
    let open = horizon.end == HorizonEnd::Open;
    let to_end = |i: usize| if open { costs[i][last - i - 1] } else { f64::INFINITY };
    let spaced: Vec<usize> = points
        .iter()
        .enumerate()
        .map(|(i, &at)| points.partition_point(|&other| other < at + horizon.min_spacing).max(i + 1))
        .collect();
    let mut best: Vec<f64> = (0..last).map(to_end).chain([0.0]).collect();
    let mut plan = ReferencePlan { costs: vec![best[0]], next: Vec::with_capacity(probes) };
    for left in 1..=probes {
        let earliest = horizon.earliest(probes - left);
        let allowed = points.partition_point(|&at| at < earliest);
        let mut next = Vec::with_capacity(last);
        // D(m − 1, ·) is overwritten from the left and read only to the right.
        for i in 0..last {
            let (mut least, mut choice) = (to_end(i), last);
            for j in spaced[i].max(allowed)..last + usize::from(!open) {
                let cost = costs[i][j - i - 1] + best[j];
                if cost < least {
                    (least, choice) = (cost, j);
                }
            }
            best[i] = least;
            next.push(u32::try_from(choice).unwrap_or(u32::MAX));
        }
        plan.costs.push(best[0]);
        plan.next.push(next);
    }
    plan
}

impl ReferencePlan {
    /// D(m, 0).
    fn cost(&self, probes: usize) -> f64 {
        self.costs[probes]
    }

    /// Algorithm 2: follows j(m, i) from the beginning. It may end with probes left.
    fn times(&self, horizon: &Horizon, points: &[Span], probes: usize) -> Vec<Span> {
        let last = points.len() - 1;
        let (mut times, mut at) = (Vec::with_capacity(probes), 0);
        for next in self.next[..probes].iter().rev() {
            at = next[at] as usize;
            if at < last || horizon.end == HorizonEnd::Probed {
                times.push(points[at]);
            }
            if at == last {
                break;
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_matrix_matches_direct_costs() {
        let hour = Span::from_hours;
        let cost = Obsolescence::of_cells([(hour(3), 2.0, 1.0), (hour(5), 0.0, 4.0), (hour(9), 0.7, 0.2)]);
        let points: Vec<Span> = (0..=18).map(|half| Span::from_mins(30 * half)).collect();
        for (i, row) in cost_matrix(&cost, &points).iter().enumerate() {
            for (offset, &value) in row.iter().enumerate() {
                let direct = cost.cost(points[i], points[i + 1 + offset]);
                assert!((value - direct).abs() < 1e-12, "K[{i}, {}]: {value}, {direct}", i + 1 + offset);
            }
        }
    }

    #[test]
    fn too_fine_a_grid_is_refused() {
        let horizon = Horizon {
            cost: Obsolescence::of_cells([(Span::from_days(28), 1.0, 1.0)]),
            probes: 28,
            min_spacing: Span::ZERO,
            closed: Vec::new(),
            allowance: Vec::new(),
            longest_gap: None,
            end: HorizonEnd::Probed,
        };
        let minutes = solve(&horizon, Grid::every(Span::from_mins(1)));
        assert_eq!(minutes, Err(Impossible::GridTooFine(28 * 1440 + 1, 10_000)));
    }
}
