//! The best schedule on a grid, exactly, with a proof of how good it is.
//!
//! The least cost f(k) of a schedule of k steps is convex in k, because C̄ is Monge (see
//! `pass`). So a price z per probe finds it: each pass yields L(z) = min over k of
//! f(k) + z·k and a schedule that attains it, a vertex of f. Prices are guessed from f(k) ~ (∫√(aλ))²/2k
//! until two vertices enclose the wanted n, and then taken from the slope between them: either a vertex
//! below that chord turns up, or the chord is an edge of f. In the latter case the two schedules are
//! spliced: somewhere a step x_m → x_{m+1} of the smaller encloses a step y_{m+d} → y_{m+d+1} of the
//! larger, d = n − n_lo, and the Monge property lets them be exchanged there at no cost:
//! y_0 … y_{m+d}, x_{m+1} …, with n steps, lies on the edge too.
//!
//! L(z) − z·n is a lower bound on f(n) whatever z is, so every schedule comes with its gap: zero but
//! for rounding, some 1e−12 of the cost. All of that holds with a spacing, closed times, or a most
//! of updates expected between two probes (where the first step may be longer than others, every
//! schedule is made to share it). When spending is bound before the end (`allowance`) and the schedule
//! would overspend, `layers` counts probes one by one instead.
//!
//! Tested against the paper's own algorithm and brute force (`crates/lab/tests/plans`).

use std::collections::BTreeMap;

use crate::model::obsolescence::{CostCell, Obsolescence, hours};
use crate::time::Span;

use super::horizon::{End, Grid, Horizon, Impossible, Schedule};
use super::layers;
use super::pass::{Reached, Track};

/// The best schedule of at most n probes on this grid.
///
/// ```
/// # use tidewatch_core::model::obsolescence::Obsolescence;
/// # use tidewatch_core::planning::{horizon::{End, Grid, Horizon}, optimal};
/// # use tidewatch_core::time::Span;
/// // Busy in the first of two days; three probes, the last at the end.
/// let day = Span::from_days(1);
/// let cost = Obsolescence::of_cells([(day, 4.0, 1.0), (day + day, 0.25, 1.0)]);
/// let horizon = Horizon {
///     cost, probes: 3, min_spacing: Span::ZERO, closed: vec![], allowance: vec![], longest_gap: None, end: End::Probed,
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

/// The same in a fraction of the time where earlier spending is in the way: then what is found is
/// not proven to be the best, and its bound is that of the best that might overspend.
pub fn solve_fast(horizon: &Horizon, grid: Grid) -> Result<Schedule, Impossible> {
    fast_on(horizon, &Track::new(horizon, grid)?)
}

/// The same where it does not matter whether a few probes of the horizon are left over, a share of
/// them: the first good schedule that turns up is taken.
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

/// The same with dearer probes up to where the schedule asks for most beside what may be spent by then,
/// so that it asks for about that. Where spending is bound at several times, the prices of the best
/// schedule fall from one to the next; the first of them decides what comes next.
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

/// The schedule whose every probe is worth this price, however many they are, with at most so many
/// updates expected between two of them.
pub(super) fn at_price(
    horizon: &Horizon,
    grid: Grid,
    price: f64,
    longest: Option<f64>,
) -> Result<Schedule, Impossible> {
    let mut track = Track::new(horizon, grid)?;
    if let Some(longest) = longest {
        // What has come in before the first slot cannot be helped.
        let first = horizon.cost.expected_updates(Span::ZERO, track.time(1.min(track.len() - 1)));
        track = track.with_longest(longest, first);
    }
    let mut search = Search::new(&horizon.cost, &track);
    let vertex = search.pass(price).and_then(|steps| search.vertices.remove(&steps));
    let Vertex { cost, path, price } = vertex.ok_or(unreachable(horizon))?;
    Ok(Schedule { times: track.times(&path).collect(), expected_cost: cost, lower_bound: cost, price })
}

/// The least cost of a schedule on the grid where every step costs this price more, prices included.
pub fn priced_cost(horizon: &Horizon, grid: Grid, price: f64) -> Result<f64, Impossible> {
    let mut reached = Reached::default();
    Track::new(horizon, grid)?.at_price(price, &mut reached);
    Ok(reached.cost.last().copied().unwrap_or(0.0))
}

/// The same schedule, each probe as soon after its time as spending allows.
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

/// The same with at most `longest` updates expected between two probes, but for the first step,
/// which may have as many as `longest_first`.
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

/// The best schedules of these many probes: what more of them would buy, and fewer cost. Earlier
/// spending is not counted.
pub fn trade_off(horizon: &Horizon, grid: Grid, counts: &[u32]) -> Result<Vec<Schedule>, Impossible> {
    let track = Track::new(horizon, grid)?;
    let mut search = Search::new(&horizon.cost, &track);
    let best = |&count: &u32| Some(search.best(count)?.schedule(horizon, &track));
    counts.iter().map(best).collect::<Option<_>>().ok_or(unreachable(horizon))
}

fn unreachable(horizon: &Horizon) -> Impossible {
    match horizon.end {
        End::Probed => Impossible::EndTooEarly,
        End::Open => Impossible::AllClosed,
    }
}

/// The best way along a track.
#[derive(Debug, Clone)]
struct Best {
    /// The slots, the end included.
    path: Vec<u32>,
    lower_bound: f64,
    /// About what a step more would save.
    price: f64,
}

impl Best {
    fn schedule(self, horizon: &Horizon, track: &Track) -> Schedule {
        let times: Vec<Span> = track.times(&self.path).collect();
        let expected_cost = horizon.cost.cost_of(&times);
        let lower_bound = self.lower_bound.min(expected_cost);
        Schedule { times, expected_cost, lower_bound, price: self.price }
    }
}

/// A schedule that is the best of its number of steps, and a price at which it is the best of all.
#[derive(Debug, Clone)]
struct Vertex {
    cost: f64,
    price: f64,
    path: Vec<u32>,
}

/// Looks for the best schedules on a track.
struct Search<'t> {
    cost: &'t Obsolescence,
    track: &'t Track,
    /// By number of steps.
    vertices: BTreeMap<usize, Vertex>,
    reached: Reached,
    /// So many steps fewer than wanted are as good.
    slack: usize,
}

/// Guesses of the price before the slopes between vertices decide.
const GUESSES: usize = 12;
/// A chord is an edge when nothing lies below it by more than this share: rounding.
const ROUNDING: f64 = 1e-12;

impl<'t> Search<'t> {
    /// A search that has found nothing yet.
    fn new(cost: &'t Obsolescence, track: &'t Track) -> Self {
        Self { cost, track, vertices: BTreeMap::new(), reached: Reached::default(), slack: 0 }
    }

    /// Finds the best schedule at a price; returns its number of steps, if there is any schedule.
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

    /// The best schedule of at most so many probes.
    fn best(&mut self, probes: u32) -> Option<Best> {
        // A step to an unprobed end is no probe.
        let wanted = probes as usize + usize::from(self.track.is_free(self.track.len() - 1));
        self.enclose(wanted)?;
        let (&fewest, _) = self.vertices.first_key_value()?;
        if fewest > wanted {
            return None;
        }
        loop {
            let (&fewer, low) = self.vertices.range(..=wanted).next_back()?;
            if fewer < wanted && fewer + self.slack >= wanted {
                // Good enough. What the rest would save is at most their price each.
                let Vertex { cost, path, price } = low.clone();
                let lower_bound = (cost - price * (wanted - fewer) as f64).max(0.0);
                return Some(Best { path, lower_bound, price });
            }
            let Some((&more, high)) = self.vertices.range(wanted..).next() else {
                // Nothing is gained by more.
                let Vertex { cost, path, .. } = low.clone();
                return Some(Best { path, lower_bound: cost, price: 0.0 });
            };
            if fewer == wanted {
                let Vertex { cost, path, price } = low.clone();
                return Some(Best { path, lower_bound: cost, price });
            }
            if low.cost - high.cost <= ROUNDING * low.cost {
                // Nor between these: what gains nothing is not spent.
                let Vertex { cost, path, .. } = low.clone();
                return Some(Best { path, lower_bound: high.cost.min(cost), price: 0.0 });
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
                return Some(Best { path, lower_bound, price });
            }
        }
    }

    /// Looks for vertices close to so many steps on both sides, by f(k) ~ 1/k at first and then by the
    /// prices of those found.
    fn enclose(&mut self, wanted: usize) -> Option<()> {
        if self.vertices.is_empty() {
            // No probe saves more than everything.
            let all = self.cost_of(&[]);
            match self.track.in_one_step() {
                Some(path) => drop(self.vertices.insert(1, Vertex { cost: all, price: all, path })),
                // Nobody would buy a probe at this price that need not be.
                None => drop(self.pass(2.0 * all + 1.0)?),
            }
        }
        // Many probes are best sent at a rate that goes like √(aλ), at a cost of (∫√(aλ))²/2k.
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
            // Somewhat further than expected, so that the other side is met, too.
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

/// The larger of two schedules up to where a step of the smaller encloses one of its own, then the
/// smaller: `more` steps more than the smaller.
fn splice(smaller: &[u32], larger: &[u32], more: usize) -> Vec<u32> {
    // Slot m + 1 of the text is index m here, because the beginning is left out.
    let cut = (0..smaller.len())
        .find(|&index| larger.get(index + more).is_none_or(|&slot| smaller[index] >= slot))
        .unwrap_or(smaller.len());
    larger[..cut + more].iter().chain(&smaller[cut..]).copied().collect()
}
