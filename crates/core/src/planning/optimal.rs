//! The best schedule on a grid, exactly, with a lower bound on the cost.
//!
//! The least cost f(k) of a schedule of k steps is convex in k, because C̄ is Monge (`grid_dp`). So a price
//! z per probe finds it: each pass yields L(z) = min over k of f(k) + z·k and a schedule that attains it, a
//! vertex of f. Initial prices follow from f(k) ~ (∫√(aλ))²/2k until two vertices enclose the wanted n. The
//! next price is the slope between them: either a vertex below that chord is found, or the chord is an edge
//! of f.
//!
//! On an edge the two schedules are spliced. At some m a step x_m → x_{m+1} of the smaller encloses a step
//! y_{m+d} → y_{m+d+1} of the larger, d = n − n_lo. The Monge property permits the exchange there at no
//! cost: y_0 … y_{m+d}, x_{m+1} …, with n steps, lies on the edge too.
//!
//! L(z) − z·n is a lower bound on f(n) for every z, so every schedule has a known gap: zero except for
//! rounding, some 1e−12 of the cost. This also holds with a spacing, closed times, or a maximum of expected
//! updates between two probes (a longer first step is then common to every schedule). If spending is limited
//! before the end (`allowance`) and the schedule overspends, `layers` counts probes one by one instead.
//!
//! Tested against the paper's own algorithm and brute force (`crates/lab/tests/papers/plans`).

use std::collections::BTreeMap;

use crate::model::obsolescence::{CostCell, Obsolescence, hours};
use crate::time::Span;

use super::grid_dp::{Reached, Track};
use super::horizon::{Grid, Horizon, HorizonEnd, Impossible, Schedule};
use super::layers;

/// The best schedule of at most n probes on this grid.
///
/// ```
/// # use tidewatch_core::model::obsolescence::Obsolescence;
/// # use tidewatch_core::planning::{horizon::{Grid, Horizon, HorizonEnd}, optimal};
/// # use tidewatch_core::time::Span;
/// // Busy in the first of two days; three probes, the last at the end.
/// let day = Span::from_days(1);
/// let cost = Obsolescence::of_cells([(day, 4.0, 1.0), (day + day, 0.25, 1.0)]);
/// let horizon = Horizon {
///     cost, probes: 3, min_spacing: Span::ZERO, closed: vec![], allowance: vec![], longest_gap: None,
///     end: HorizonEnd::Probed,
/// };
/// let best = optimal::solve(&horizon, Grid::every(Span::from_hours(1))).unwrap();
/// let hours: Vec<i64> = best.times.iter().map(|at| at.as_millis() / 3_600_000).collect();
/// assert_eq!(hours, [12, 24, 48]);
/// assert!(best.expected_cost - best.lower_bound < 1e-9);
/// ```
pub fn solve(horizon: &Horizon, grid: Grid) -> Result<Schedule, Impossible> {
    let track = Track::new(horizon, grid)?;
    let found = without_limits(horizon, &track)?;
    match overspends(horizon, &found) {
        false => Ok(found),
        true => layers::count(horizon, &track, &found).ok_or(unreachable(horizon)),
    }
}

/// The same, much faster where earlier spending limits the schedule. The result is then not proven optimal,
/// and its bound is that of the best schedule without limits.
pub fn solve_fast(horizon: &Horizon, grid: Grid) -> Result<Schedule, Impossible> {
    fast_on(horizon, &Track::new(horizon, grid)?)
}

/// The same if a share `left_over` of the probes may remain unused. Returns the first schedule that
/// satisfies this.
pub(super) fn solve_about(horizon: &Horizon, grid: Grid, left_over: f64) -> Result<Schedule, Impossible> {
    let track = Track::new(horizon, grid)?;
    let slack = (f64::from(horizon.probes) * left_over) as usize;
    let best = Search { slack, ..Search::new(&horizon.cost, &track) }.best(horizon.probes);
    let found = best.map(|best| best.schedule(horizon, &track)).ok_or(unreachable(horizon))?;
    if !overspends(horizon, &found) {
        return Ok(found);
    }
    Ok(put_off(horizon, &spread_early(horizon, &track, found)))
}

/// Raises the price of probes up to the time of the largest overspending, so that the schedule meets that
/// limit approximately. With several limits, the prices of the best schedule decrease from one to the next;
/// the first one determines the next probes.
fn spread_early(horizon: &Horizon, track: &Track, found: Schedule) -> Schedule {
    let mut best = found;
    let mut dearer = 1.0;
    let mut reached = Reached::default();
    for _ in 0..2 {
        let asks = |(number, &at): (usize, &Span)| {
            let allowed = f64::from(horizon.may_be_sent(at)).max(0.5);
            ((number + 1) as f64 / allowed, at)
        };
        let most = best.times.iter().enumerate().map(asks).max_by(|one, other| one.0.total_cmp(&other.0));
        let Some((over, until)) = most.filter(|&(over, _)| over > 1.0 && best.price > 0.0) else { break };
        dearer *= over * over;
        let early = track.slots_until(until);
        track.at_prices((early, best.price * dearer), best.price, &mut reached);
        best.times = track.times(&track.path(&reached)).collect();
    }
    best
}

/// The schedule at this price per probe, for any number of probes, with at most `longest` updates expected
/// between two.
pub(super) fn at_price(
    horizon: &Horizon,
    grid: Grid,
    price: f64,
    longest: Option<f64>,
) -> Result<Schedule, Impossible> {
    let mut track = Track::new(horizon, grid)?;
    if let Some(longest) = longest {
        // Updates expected before the first slot cannot be avoided.
        let first = horizon.cost.expected_updates(Span::ZERO, track.time(1.min(track.len() - 1)));
        track = track.with_longest(longest, first);
    }
    let mut search = Search::new(&horizon.cost, &track);
    let vertex = search.pass(price).and_then(|steps| search.vertices.remove(&steps));
    let Vertex { cost, path, price } = vertex.ok_or(unreachable(horizon))?;
    Ok(Schedule { times: track.times(&path).collect(), expected_cost: cost, lower_bound: cost, price })
}

/// The least cost of a schedule on the grid at this price per step, prices included.
pub fn priced_cost(horizon: &Horizon, grid: Grid, price: f64) -> Result<f64, Impossible> {
    let mut reached = Reached::default();
    Track::new(horizon, grid)?.at_price(price, &mut reached);
    Ok(reached.cost.last().copied().unwrap_or(0.0))
}

/// The same schedule with each probe delayed until spending allows it.
fn put_off(horizon: &Horizon, found: &Schedule) -> Schedule {
    let (mut times, mut last) = (Vec::with_capacity(found.times.len()), Span::ZERO);
    for (number, &at) in found.times.iter().enumerate() {
        let soonest = at.max(horizon.earliest(number)).max(last + horizon.min_spacing);
        last = horizon.open_from(soonest);
        if last >= horizon.length() {
            break;
        }
        if times.last() != Some(&last) {
            times.push(last);
        }
    }
    Schedule { expected_cost: horizon.cost.cost_of(&times), times, ..*found }
}

/// The best schedule with at most `longest` updates expected between two probes, except for the first step,
/// which may have `longest_first`.
pub(super) fn solve_within(
    horizon: &Horizon,
    grid: Grid,
    longest: f64,
    longest_first: f64,
) -> Result<Schedule, Impossible> {
    fast_on(horizon, &Track::new(horizon, grid)?.with_longest(longest, longest_first))
}

fn fast_on(horizon: &Horizon, track: &Track) -> Result<Schedule, Impossible> {
    within_allowance(horizon, track, without_limits(horizon, track)?)
}

fn within_allowance(horizon: &Horizon, track: &Track, found: Schedule) -> Result<Schedule, Impossible> {
    match overspends(horizon, &found) {
        false => Ok(found),
        true => layers::count_nearby(horizon, track, &found).ok_or(unreachable(horizon)),
    }
}

fn without_limits(horizon: &Horizon, track: &Track) -> Result<Schedule, Impossible> {
    let best = Search::new(&horizon.cost, track).best(horizon.probes);
    best.map(|best| best.schedule(horizon, track)).ok_or(unreachable(horizon))
}

fn overspends(horizon: &Horizon, found: &Schedule) -> bool {
    let overspent = |(number, &at): (usize, &Span)| number >= horizon.may_be_sent(at) as usize;
    found.times.iter().enumerate().any(overspent)
}

/// The best schedules for these numbers of probes. Ignores earlier spending.
pub fn trade_off(horizon: &Horizon, grid: Grid, counts: &[u32]) -> Result<Vec<Schedule>, Impossible> {
    let track = Track::new(horizon, grid)?;
    let mut search = Search::new(&horizon.cost, &track);
    let best = |&count: &u32| Some(search.best(count)?.schedule(horizon, &track));
    counts.iter().map(best).collect::<Option<_>>().ok_or(unreachable(horizon))
}

fn unreachable(horizon: &Horizon) -> Impossible {
    match horizon.end {
        HorizonEnd::Probed => Impossible::EndTooEarly,
        HorizonEnd::Open => Impossible::AllClosed,
    }
}

/// The best path along a track.
#[derive(Debug, Clone)]
struct BestTimes {
    /// The slots, including the end.
    path: Vec<u32>,
    lower_bound: f64,
    /// Approximate saving of one more step.
    price: f64,
}

impl BestTimes {
    fn schedule(self, horizon: &Horizon, track: &Track) -> Schedule {
        let times: Vec<Span> = track.times(&self.path).collect();
        let expected_cost = horizon.cost.cost_of(&times);
        let lower_bound = self.lower_bound.min(expected_cost);
        Schedule { times, expected_cost, lower_bound, price: self.price }
    }
}

/// The best schedule of its number of steps, and a price at which it is the best of all.
#[derive(Debug, Clone)]
struct Vertex {
    cost: f64,
    price: f64,
    path: Vec<u32>,
}

/// Search for the best schedules on a track.
struct Search<'t> {
    cost: &'t Obsolescence,
    track: &'t Track,
    /// By number of steps.
    vertices: BTreeMap<usize, Vertex>,
    reached: Reached,
    /// This many steps fewer than wanted are accepted.
    slack: usize,
}

/// Maximum number of estimated prices before the slopes between vertices determine the price.
const GUESSES: usize = 12;
/// A chord is an edge if no vertex lies below it by more than this share: rounding.
const ROUNDING: f64 = 1e-12;

impl<'t> Search<'t> {
    /// An empty search.
    fn new(cost: &'t Obsolescence, track: &'t Track) -> Self {
        Self { cost, track, vertices: BTreeMap::new(), reached: Reached::default(), slack: 0 }
    }

    /// Finds the best schedule at a price. Returns its number of steps; `None` if there is no schedule.
    fn pass(&mut self, price: f64) -> Option<usize> {
        self.track.at_price(price, &mut self.reached);
        if *self.reached.cost.last()? == f64::INFINITY {
            return None;
        }
        let path = self.track.path(&self.reached);
        let steps = path.len();
        let cost = self.cost_of(&path);
        let better = self.vertices.get(&steps).is_none_or(|known| cost < known.cost);
        if better {
            self.vertices.insert(steps, Vertex { cost, price, path });
        }
        Some(steps)
    }

    fn cost_of(&self, path: &[u32]) -> f64 {
        let (from, until) = (self.track.time(0), self.track.time(self.track.len() - 1));
        self.cost.cost_between(from, until, self.track.times(path))
    }

    /// The best schedule of at most `probes` probes.
    fn best(&mut self, probes: u32) -> Option<BestTimes> {
        // A step to an end without a probe does not count.
        let wanted = probes as usize + usize::from(self.track.is_free(self.track.len() - 1));
        self.enclose(wanted)?;
        let (&fewest, _) = self.vertices.first_key_value()?;
        if fewest > wanted {
            return None;
        }
        loop {
            let (&fewer, low) = self.vertices.range(..=wanted).next_back()?;
            if fewer < wanted && fewer + self.slack >= wanted {
                // Accepted. Each further probe saves at most the price.
                let Vertex { cost, path, price } = low.clone();
                let lower_bound = (cost - price * (wanted - fewer) as f64).max(0.0);
                return Some(BestTimes { path, lower_bound, price });
            }
            let Some((&more, high)) = self.vertices.range(wanted..).next() else {
                // More steps do not reduce the cost.
                let Vertex { cost, path, .. } = low.clone();
                return Some(BestTimes { path, lower_bound: cost, price: 0.0 });
            };
            if fewer == wanted {
                let Vertex { cost, path, price } = low.clone();
                return Some(BestTimes { path, lower_bound: cost, price });
            }
            if low.cost - high.cost <= ROUNDING * low.cost {
                // Nor do steps between these two; probes without gain are not spent.
                let Vertex { cost, path, .. } = low.clone();
                return Some(BestTimes { path, lower_bound: high.cost.min(cost), price: 0.0 });
            }
            let price = (low.cost - high.cost) / (more - fewer) as f64;
            let (low, high) = (low.clone(), high.clone());
            let chord = low.cost + price * fewer as f64;
            let steps = self.pass(price)?;
            let below = self.vertices.get(&steps)?.cost + price * steps as f64;
            let inside = fewer < steps && steps < more;
            if !inside || below >= chord * (1.0 - ROUNDING) {
                let path = splice(&low.path, &high.path, wanted - fewer);
                let lower_bound = below.min(chord) - price * wanted as f64;
                return Some(BestTimes { path, lower_bound, price });
            }
        }
    }

    /// Finds vertices close to `wanted` steps on both sides, by f(k) ~ 1/k at first, then by the prices of
    /// known vertices.
    fn enclose(&mut self, wanted: usize) -> Option<()> {
        if self.vertices.is_empty() {
            // A probe saves at most the total cost.
            let all = self.cost_of(&[]);
            match self.track.in_one_step() {
                Some(path) => drop(self.vertices.insert(1, Vertex { cost: all, price: all, path })),
                // At this price only mandatory probes remain.
                None => drop(self.pass(2.0 * all + 1.0)?),
            }
        }
        // For many probes the best density is proportional to √(aλ), at a cost of (∫√(aλ))²/2k.
        let density = |cell: &CostCell| (cell.rate * cell.weight).sqrt() * hours(cell.until - cell.from);
        let mut guess = (self.cost.cells().iter().map(density).sum::<f64>() / wanted as f64).powi(2) / 2.0;
        for _ in 0..GUESSES {
            let fewer = self.vertices.range(..=wanted).next_back();
            let more = self.vertices.range(wanted..).next();
            match (fewer, more) {
                (Some((&fewer, _)), _) if fewer + self.slack >= wanted => return Some(()),
                (Some((&fewer, low)), Some((&more, high))) if fewer > 1 && high.price > 0.0 => {
                    if (more - fewer) * 8 <= wanted {
                        return Some(());
                    }
                    let place = (wanted as f64 / fewer as f64).ln() / (more as f64 / fewer as f64).ln();
                    guess = low.price * (high.price / low.price).powf(place);
                    let steps = self.pass(guess)?;
                    if steps == fewer || steps == more {
                        return Some(());
                    }
                    continue;
                }
                _ => {}
            }
            if guess == 0.0 {
                break;
            }
            let known = self.vertices.len();
            let steps = self.pass(guess)?;
            // Slightly beyond the estimate, so that the other side is found too.
            let further = if self.vertices.len() == known { 1.3 } else { 1.03 };
            let off = steps as f64 / wanted as f64;
            guess *= off * off * if off < 1.0 { 1.0 / further } else { further };
        }
        if self.vertices.range(wanted..).next().is_none() {
            self.pass(0.0)?;
        }
        Some(())
    }
}

/// The larger of two schedules up to the point where a step of the smaller encloses one of its own, then the
/// smaller: `more` steps more than the smaller.
fn splice(smaller: &[u32], larger: &[u32], more: usize) -> Vec<u32> {
    // Slot m + 1 of the text has index m here, because the start is omitted.
    let cut = (0..smaller.len())
        .find(|&index| larger.get(index + more).is_none_or(|&slot| smaller[index] >= slot))
        .unwrap_or(smaller.len());
    larger[..cut + more].iter().chain(&smaller[cut..]).copied().collect()
}
