//! The best schedule on a grid, exactly, with a proof of how good it is.
//!
//! The least cost f(k) of a schedule of k steps is convex in k, because C̄ is Monge (see
//! [`pass`](super::pass)). So a price z per probe finds it: each pass yields L(z) = min over k of
//! f(k) + z·k and a schedule that attains it, a vertex of f. Prices are guessed from f(k) ~ 1/k until
//! two vertices enclose the wanted n, and then taken from the slope between them: either a vertex
//! below that chord turns up, or the chord is an edge of f. In the latter case the two schedules are
//! spliced: somewhere a step x_m → x_{m+1} of the smaller encloses a step y_{m+d} → y_{m+d+1} of the
//! larger, d = n − n_lo, and the Monge property lets them be exchanged there at no cost:
//! y_0 … y_{m+d}, x_{m+1} …, with n steps, lies on the edge too.
//!
//! L(z) − z·n is a lower bound on f(n) whatever z is, so every schedule comes with its gap: zero but
//! for rounding, some 1e−12 of the cost. All of that holds with a spacing, closed times, or a most
//! of updates expected between two probes. When spending is bound before the end (`allowance`) and
//! the schedule would overspend, [`layers`](super::layers) counts probes one by one instead.
//!
//! Tested against the paper's own algorithm and brute force (`tests/plan`).

use std::collections::BTreeMap;

use crate::time::Span;

use super::horizon::{End, Grid, Horizon, Impossible, Schedule};
use super::layers;
use super::pass::{Reached, Track};

/// The best schedule of at most n probes on this grid.
///
/// ```
/// # use tidewatch::rate::obsolescence::Obsolescence;
/// # use tidewatch::schedule::{horizon::{End, Grid, Horizon}, optimal};
/// # use tidewatch::time::Span;
/// // Busy in the first of two days; three probes, the last at the end.
/// let day = Span::from_days(1);
/// let cost = Obsolescence::of_cells([(day, 4.0, 1.0), (day + day, 0.25, 1.0)]);
/// let horizon = Horizon {
///     cost, probes: 3, min_spacing: Span::ZERO, closed: vec![], allowance: vec![], end: End::Probed,
/// };
/// let best = optimal::solve(&horizon, Grid::every(Span::from_hours(1))).unwrap();
/// let hours: Vec<i64> = best.times.iter().map(|at| at.as_millis() / 3_600_000).collect();
/// assert_eq!(hours, [12, 24, 48]);
/// assert!(best.expected_cost - best.lower_bound < 1e-9);
/// ```
pub fn solve(horizon: &Horizon, grid: Grid) -> Result<Schedule, Impossible> {
    solve_nearly(horizon, grid, 0.0)
}

/// A schedule that costs at most this share more than the best: where earlier spending is in the way
/// by moments only, it need not be counted out.
pub fn solve_nearly(horizon: &Horizon, grid: Grid, share: f64) -> Result<Schedule, Impossible> {
    Search { share, ..Search::new(horizon, Track::new(horizon, grid)?) }.best(horizon.probes)
}

/// The best schedules of these many probes: what more of them would buy, and fewer cost.
pub fn trade_off(horizon: &Horizon, grid: Grid, counts: &[u32]) -> Result<Vec<Schedule>, Impossible> {
    let mut search = Search::new(horizon, Track::new(horizon, grid)?);
    counts.iter().map(|&count| search.best(count)).collect()
}

/// The best schedule with at most `longest` updates expected between two probes, but for the first
/// step, which may have as many as `longest_first`. `None` if there is none.
pub(super) fn solve_within(
    horizon: &Horizon,
    grid: Grid,
    longest: f64,
    longest_first: f64,
) -> Result<Option<Schedule>, Impossible> {
    let track = Track::new(horizon, grid)?.with_longest(longest, longest_first);
    let mut search = Search::new(horizon, track);
    let fewest = search.pass(search.dearest());
    let fits = fewest.is_some_and(|steps| steps <= search.steps(horizon.probes));
    Ok(fits.then(|| search.best(horizon.probes)).transpose()?.filter(|best| best.expected_cost.is_finite()))
}

/// A schedule that is the best of its number of steps.
#[derive(Debug, Clone)]
struct Vertex {
    cost: f64,
    path: Vec<u32>,
}

struct Search<'h> {
    horizon: &'h Horizon,
    track: Track,
    /// By number of steps.
    vertices: BTreeMap<usize, Vertex>,
    reached: Reached,
    /// How much worse than the best is good enough, where it would have to be counted out.
    share: f64,
}

/// Guesses of the price before the chord is tried.
const GUESSES: usize = 4;
/// A chord is an edge when nothing lies below it by more than this share: rounding.
const ROUNDING: f64 = 1e-12;

impl<'h> Search<'h> {
    fn new(horizon: &'h Horizon, track: Track) -> Self {
        Self { horizon, track, vertices: BTreeMap::new(), reached: Reached::default(), share: 0.0 }
    }

    /// A step to the unprobed end is no probe.
    fn steps(&self, probes: u32) -> usize {
        probes as usize + usize::from(self.horizon.end == End::Open)
    }

    /// A price at which nobody would buy a probe that need not be.
    fn dearest(&self) -> f64 {
        2.0 * self.horizon.cost.cost_of(&[]) + 1.0
    }

    /// Finds the best schedule at a price; returns its number of steps, if there is any schedule.
    fn pass(&mut self, price: f64) -> Option<usize> {
        self.track.at_price(price, &mut self.reached);
        if *self.reached.cost.last()? == f64::INFINITY {
            return None;
        }
        let path = self.track.path(&self.reached);
        let steps = path.len();
        let cost = self.horizon.cost.cost_of(&self.times(&path));
        let better = self.vertices.get(&steps).is_none_or(|known| cost < known.cost);
        if better {
            self.vertices.insert(steps, Vertex { cost, path });
        }
        Some(steps)
    }

    fn times(&self, path: &[u32]) -> Vec<Span> {
        let probed = path.iter().map(|&slot| slot as usize).filter(|&slot| !self.track.is_free(slot));
        probed.map(|slot| self.track.time(slot)).collect()
    }

    /// The best schedule of at most so many probes.
    fn best(&mut self, probes: u32) -> Result<Schedule, Impossible> {
        let wanted = self.steps(probes);
        let unreachable = || match self.horizon.end {
            End::Probed => Impossible::EndTooEarly,
            End::Open => Impossible::AllClosed,
        };
        if self.vertices.is_empty() {
            self.pass(self.dearest()).ok_or_else(unreachable)?;
            self.pass(0.0).ok_or_else(unreachable)?;
        }
        let (&most, free) = self.vertices.last_key_value().ok_or_else(unreachable)?;
        let found = if most <= wanted {
            // Nothing is gained by more.
            let times = self.times(&free.path);
            Schedule { times, expected_cost: free.cost, lower_bound: free.cost, price: 0.0 }
        } else {
            self.between(wanted).ok_or_else(unreachable)?
        };
        if !self.overspends(&found.times) {
            return Ok(found);
        }
        let pushed = layers::pushed(self.horizon, found.clone());
        if pushed.expected_cost <= pushed.lower_bound * (1.0 + self.share) {
            return Ok(pushed);
        }
        Ok(layers::count(self.horizon, &self.track, probes, found))
    }

    fn overspends(&self, times: &[Span]) -> bool {
        times.iter().enumerate().any(|(number, &at)| number >= self.horizon.may_be_sent(at) as usize)
    }

    /// The best schedule of exactly so many steps, when there are vertices on both sides.
    fn between(&mut self, wanted: usize) -> Option<Schedule> {
        let dearest = self.vertices.first_key_value()?.1.cost;
        let mut price = dearest / (wanted * wanted) as f64;
        for _ in 0..GUESSES {
            if self.vertices.contains_key(&wanted) {
                break;
            }
            let steps = self.pass(price)?;
            price *= (steps as f64 / wanted as f64).powi(2);
            if steps.abs_diff(wanted) * 16 < wanted {
                break;
            }
        }
        loop {
            let (&fewer, low) = self.vertices.range(..=wanted).next_back()?;
            let (&more, high) = self.vertices.range(wanted..).next()?;
            if fewer == wanted {
                let price = self.price_around(wanted);
                let times = self.times(&low.path);
                return Some(Schedule { times, expected_cost: low.cost, lower_bound: low.cost, price });
            }
            let price = (low.cost - high.cost) / (more - fewer) as f64;
            let (low, high) = (low.clone(), high.clone());
            let chord = low.cost + price * fewer as f64;
            let steps = self.pass(price)?;
            let below = self.vertices.get(&steps)?.cost + price * steps as f64;
            let inside = fewer < steps && steps < more;
            if !inside || below >= chord * (1.0 - ROUNDING) {
                let times = self.times(&splice(&low.path, &high.path, wanted - fewer));
                let expected_cost = self.horizon.cost.cost_of(&times);
                let lower_bound = (below.min(chord) - price * wanted as f64).min(expected_cost);
                return Some(Schedule { times, expected_cost, lower_bound, price });
            }
        }
    }

    /// What a step more would save and one less cost, in the middle, by the vertices around.
    fn price_around(&self, steps: usize) -> f64 {
        let Some(here) = self.vertices.get(&steps) else { return 0.0 };
        let slope = |(other, vertex): (&usize, &Vertex)| {
            (vertex.cost - here.cost).abs() / other.abs_diff(steps) as f64
        };
        let fewer = self.vertices.range(..steps).next_back().map(slope);
        let more = self.vertices.range(steps + 1..).next().map(slope);
        match (fewer, more) {
            (Some(fewer), Some(more)) => (fewer * more).sqrt(),
            (either, other) => either.or(other).unwrap_or(0.0),
        }
    }
}

/// The larger of two schedules up to where a step of the smaller encloses one of its own, then the
/// smaller: `more` steps more than the smaller.
fn splice(smaller: &[u32], larger: &[u32], more: usize) -> Vec<u32> {
    // Slot m + 1 of the text is index m here, because the beginning is left out.
    let cut = (0..smaller.len())
        .find(|&index| larger.get(index + more).is_none_or(|&slot| smaller[index] >= slot))
        .unwrap_or(smaller.len());
    larger[..cut + more].iter().chain(&smaller[cut..]).copied().collect()
}
