//! The best schedule under limits on the number of probes by given times.
//!
//! A price per probe cannot express "three before noon, and ten by the evening". So the cheapest paths of
//! one, two, … n probes are computed layer by layer, each by one pass of [`grid_dp`](super::grid_dp) over
//! the previous one. A slot is excluded from the layers for which it is too early. Exact, in O(nN) time and
//! memory. Takes slots and limits. May not know earlier spending.
//!
//! Few of these paths matter: at any time the best schedule has about as many probes as the best one without
//! limits, or as many as are allowed. So the fast variant follows only counts within a band around that, and
//! widens the band while the schedule touches its edge. The result is not proven optimal, but the best
//! schedule without limits provides a lower bound.

use crate::time::Span;

use super::grid_dp::{Reached, Track};
use super::horizon::{Horizon, Schedule};

/// Maximum number of cells (120 MB); budgets planned by the minute stay far below.
const MOST_CELLS: usize = 10_000_000;

/// Initial distance of counts from the expected ones.
const FIRST_BAND: usize = 4;

/// The best schedule that never overspends; `without` is the best without limits. `None` if there is none,
/// or if it takes too many cells.
pub(super) fn count(horizon: &Horizon, track: &Track, without: &Schedule) -> Option<Schedule> {
    let times = Layers::new(horizon, track, without).within(usize::MAX)?.times;
    let expected_cost = horizon.cost.cost_of(&times);
    Some(Schedule { times, expected_cost, lower_bound: expected_cost, price: without.price })
}

/// The same within a band, many times faster, with the bound of the best without limits.
pub(super) fn count_nearby(horizon: &Horizon, track: &Track, without: &Schedule) -> Option<Schedule> {
    let layers = Layers::new(horizon, track, without);
    let mut band = FIRST_BAND;
    let mut best = None;
    let times = loop {
        let found = layers.within(band);
        let done = found.as_ref().is_some_and(|counted| !counted.at_edge) || band >= layers.most;
        // A wider band may exceed the maximum number of cells.
        best = found.map(|counted| counted.times).or(best);
        if done {
            break best?;
        }
        band = (band * 3).min(layers.most);
    };
    let expected_cost = horizon.cost.cost_of(&times);
    Some(Schedule {
        times,
        expected_cost,
        lower_bound: without.lower_bound.min(expected_cost),
        price: without.price,
    })
}

struct Layers<'h> {
    track: &'h Track,
    /// Upper bound on the probes up to each slot.
    allowed: Vec<u32>,
    /// Probes up to each slot in the schedule without limits, at most those allowed.
    expected: Vec<u32>,
    /// n, or the number of slots.
    most: usize,
}

/// The result of counting.
struct CountedTimes {
    times: Vec<Span>,
    /// Whether a wider band could yield a better schedule.
    at_edge: bool,
}

/// One layer: the cheapest paths of a given number of probes to a range of slots.
struct Layer {
    first: usize,
    cost: Vec<f64>,
    from: Vec<u32>,
}

impl<'h> Layers<'h> {
    fn new(horizon: &Horizon, track: &'h Track, without: &Schedule) -> Self {
        let slots = 0..track.len();
        let probes = horizon.probes;
        let allowed: Vec<u32> =
            slots.clone().map(|slot| horizon.may_be_sent(track.time(slot)).min(probes)).collect();
        let sent = |slot| without.times.partition_point(|&at| at <= track.time(slot));
        let expected = slots.map(|slot| (sent(slot) as u32).min(allowed[slot])).collect();
        let most = (probes as usize).min(track.len() - 1);
        Self { track, allowed, expected, most }
    }

    /// The slots for the probe of this number, from 1, within a band.
    fn stretch(&self, number: usize, band: usize) -> std::ops::Range<usize> {
        let end = self.track.len() - usize::from(self.track.is_free(self.track.len() - 1));
        let near = |count: u32, by: usize| (count as usize).saturating_add(by);
        let first = self.expected.partition_point(|&count| near(count, band) < number);
        let last = self.expected.partition_point(|&count| count as usize <= number.saturating_add(band));
        let allowed = self.allowed.partition_point(|&most| (most as usize) < number);
        first.max(allowed).max(1)..last.min(end)
    }

    fn within(&self, band: usize) -> Option<CountedTimes> {
        let end = self.track.len() - 1;
        let mut layers = vec![Layer { first: 0, cost: vec![0.0], from: vec![0] }];
        let mut reached = Reached::default();
        let mut best = (f64::INFINITY, 0);
        let mut cells = 0_usize;
        for number in 1..=self.most + 1 {
            let before = layers.last()?;
            let at_end = self.expected[end] as usize;
            if self.track.is_free(end) && number.saturating_add(band) > at_end {
                // No further probe until the end.
                self.track.one_more((before.first, &before.cost), end..end + 1, &mut reached);
                if reached.cost[0] < best.0 {
                    best = (reached.cost[0], number);
                }
            }
            if number > self.most {
                break;
            }
            let stretch = self.stretch(number, band);
            cells = cells.saturating_add(stretch.len());
            if cells > MOST_CELLS {
                return None;
            }
            if stretch.is_empty() {
                break;
            }
            self.track.one_more((before.first, &before.cost), stretch.clone(), &mut reached);
            if let Some(&cost) = reached.cost.last().filter(|_| stretch.end == end + 1)
                && cost < best.0
            {
                best = (cost, number);
            }
            layers.push(Layer {
                first: stretch.start,
                cost: std::mem::take(&mut reached.cost),
                from: std::mem::take(&mut reached.from),
            });
        }
        (best.0 < f64::INFINITY).then(|| self.trace(&layers, best.1, band))
    }

    /// Traces the path back from the end, which the step of this number reached.
    fn trace(&self, layers: &[Layer], last: usize, band: usize) -> CountedTimes {
        let end = self.track.len() - 1;
        let mut slot = end;
        let mut number = last;
        if self.track.is_free(end) {
            number = last - 1;
            let mut reached = Reached::default();
            self.track.one_more((layers[number].first, &layers[number].cost), end..end + 1, &mut reached);
            slot = reached.from[0] as usize;
        }
        let mut counted = CountedTimes { times: Vec::with_capacity(number), at_edge: false };
        while number > 0 {
            let layer = &layers[number];
            counted.times.push(self.track.time(slot));
            let off = number.abs_diff(self.expected[slot] as usize);
            counted.at_edge |= off >= band;
            slot = layer.from[slot - layer.first] as usize;
            number -= 1;
        }
        counted.times.reverse();
        counted
    }
}
