//! The best n probes for a source whose updates are known in advance: a lower bound for every policy.
//!
//! It shows how much of a delay could still be saved. Must not be used by any policy, because it has all
//! events.
//!
//! The sum of delays, weighted by importance, is least with probes at the times of updates. A later probe can
//! be moved back to the last update before it at no loss. Let P be the number of updates so far, A = ∫a, and
//! B the sum of A over the updates so far. A gap from slot i to slot j then costs
//!
//! A_j (P_j − P_i) − (B_j − B_i).
//!
//! That is the planner's cost with points instead of a rate, and it is Monge too. So the least cost f(k) of k
//! probes is convex. A price per probe finds each vertex of f in one pass over an envelope of lines. If
//! nothing lies below the chord of two vertices, the two schedules are spliced, as in `planning::optimal`.
//! The planner's own pass uses a grid, but updates here are at any millisecond, so this one is separate. It
//! computes H = E + B, where E is the least cost up to a slot, prices included; B cancels:
//!
//! H(j) = A_j P_j + z + min over i of { H(i) − A_j P_i }.
//!
//! A minimum spacing is not enforced. The result is therefore a bound, and the optimum if no two updates are
//! closer than the spacing.

use tidewatch_core::model::steps::Steps;
use tidewatch_core::time::Timestamp;

use super::score::Weight;

/// A chord counts as an edge of f if nothing lies below it by more than this share of the cost.
const ROUNDING: f64 = 1e-12;

/// The best probes of a span.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClairvoyantTimes {
    /// Probe times, ascending; the last is the end of the span.
    pub times: Vec<Timestamp>,
    /// The sum over updates of ∫a from the update to the probe that finds it, in update·hours times
    /// importance: the obsolescence of [`Score`](super::score::Score).
    pub cost: f64,
}

/// The best schedule of at most `probes` probes in (from, to], for a source with these update times,
/// ascending. The last probe is always at `to`, so there is at least one.
///
/// ```
/// # use tidewatch_core::model::steps::Steps;
/// # use tidewatch_lab::clairvoyant::best;
/// # use tidewatch_core::time::{Span, Timestamp};
/// let from = Timestamp::from_millis(0);
/// let at = |hour| from + Span::from_hours(hour);
/// let found = best(&[at(1), at(2), at(9)], &Steps::constant(1.0).unwrap(), from, at(10), 2);
/// assert_eq!(found.times, [at(2), at(10)]);
/// assert_eq!(found.cost, 2.0);
/// ```
pub fn best(
    events: &[Timestamp],
    importance: &Steps,
    from: Timestamp,
    to: Timestamp,
    probes: usize,
) -> ClairvoyantTimes {
    if to <= from {
        return ClairvoyantTimes::default();
    }
    let within = events.partition_point(|&at| at <= from)..events.partition_point(|&at| at <= to);
    let slots = Slots::new(&events[within], &Weight::new(importance, from, to), to);
    let path = slots.best(probes.max(1));
    ClairvoyantTimes {
        times: path.iter().map(|&slot| slots.times[slot]).collect(),
        cost: slots.cost(&path),
    }
}

/// The possible probe times.
#[derive(Debug, Clone)]
struct Slots {
    /// The distinct times of updates and the end, after a first entry for the beginning.
    times: Vec<Timestamp>,
    /// P up to and including each.
    updates: Vec<f64>,
    /// A at each.
    importance: Vec<f64>,
}

/// A possible previous slot, as a line in A.
#[derive(Debug, Clone, Copy)]
struct ClairvoyantLine {
    slot: usize,
    updates: f64,
    height: f64,
}

impl ClairvoyantLine {
    fn at(&self, importance: f64) -> f64 {
        self.height - importance * self.updates
    }
}

impl Slots {
    fn new(events: &[Timestamp], weight: &Weight, to: Timestamp) -> Self {
        let mut slots = Self { times: vec![Timestamp::MIN], updates: vec![0.0], importance: vec![0.0] };
        let mut updates = 0.0;
        for same in events.chunk_by(|one, other| one == other) {
            updates += same.len() as f64;
            slots.push(same[0], updates, weight);
        }
        if events.last() != Some(&to) {
            slots.push(to, updates, weight);
        }
        slots
    }

    fn push(&mut self, time: Timestamp, updates: f64, weight: &Weight) {
        self.times.push(time);
        self.updates.push(updates);
        self.importance.push(weight.by(time));
    }

    /// The best path of at most `probes` slots to the end.
    fn best(&self, probes: usize) -> Vec<usize> {
        let end = self.times.len() - 1;
        let mut more: Vec<usize> = (1..=end).collect();
        if probes >= end {
            return more;
        }
        let mut fewer = vec![end];
        let (mut lower, mut upper) = (self.cost(&more), self.cost(&fewer));
        // `lower` and `upper` are their costs. The number wanted is at least `fewer`'s and below `more`'s.
        while fewer.len() < probes {
            let price = (upper - lower) / (more.len() - fewer.len()) as f64;
            let path = self.at_price(price);
            let cost = self.cost(&path);
            let chord = upper - price * (path.len() as f64 - fewer.len() as f64);
            let between = fewer.len() < path.len() && path.len() < more.len();
            if !between || chord - cost <= ROUNDING * upper {
                return splice(&fewer, &more, probes);
            }
            match path.len() <= probes {
                true => (fewer, upper) = (path, cost),
                false => (more, lower) = (path, cost),
            }
        }
        fewer
    }

    /// The cheapest path to the end at this price per slot.
    fn at_price(&self, price: f64) -> Vec<usize> {
        let end = self.times.len() - 1;
        let mut from = vec![0];
        let mut lines = vec![ClairvoyantLine { slot: 0, updates: 0.0, height: 0.0 }];
        // Lines before this one are never the lowest again, because A only grows.
        let mut lowest = 0;
        let slots = self.updates.iter().copied().zip(self.importance.iter().copied()).enumerate();
        for (slot, (updates, importance)) in slots.skip(1) {
            let mut least = lines[lowest].at(importance);
            while let Some(value) = lines.get(lowest + 1).map(|next| next.at(importance)) {
                if value > least {
                    break;
                }
                least = value;
                lowest += 1;
            }
            from.push(lines[lowest].slot);
            let height = least + importance * updates + price;
            let new = ClairvoyantLine { slot, updates, height };
            while let [.., before, last] = lines[lowest..] {
                let hidden = (new.height - before.height) * (last.updates - before.updates)
                    <= (last.height - before.height) * (new.updates - before.updates);
                if !hidden {
                    break;
                }
                lines.pop();
            }
            lines.push(new);
        }
        let before = |&slot: &usize| Some(from[slot]).filter(|&slot| slot > 0);
        let mut path: Vec<usize> = std::iter::successors(Some(end), before).collect();
        path.reverse();
        path
    }

    /// The cost of a path.
    fn cost(&self, path: &[usize]) -> f64 {
        let mut before = 0;
        let mut total = 0.0;
        for &slot in path {
            // Summed slot by slot, to avoid differences of large numbers.
            for each in before + 1..slot {
                let updates = self.updates[each] - self.updates[each - 1];
                total += updates * (self.importance[slot] - self.importance[each]);
            }
            before = slot;
        }
        total
    }
}

/// Joins two paths on one edge of f, one with fewer and one with more slots, to a path of `probes` slots. It
/// follows the longer path until a step of the shorter encloses the longer's next step, then the shorter one.
fn splice(fewer: &[usize], more: &[usize], probes: usize) -> Vec<usize> {
    let extra = probes.saturating_sub(fewer.len());
    let meets = |&at: &usize| more.get(at + extra).is_some_and(|&slot| slot <= fewer[at]);
    let Some(at) = (0..fewer.len()).find(meets) else { return fewer.to_vec() };
    more[..at + extra].iter().chain(&fewer[at..]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::super::score::{Score, ScoredProbes};
    use super::*;
    use jiff::tz::TimeZone;
    use proptest::prelude::*;
    use tidewatch_core::model::importance::WeekWindow;
    use tidewatch_core::rng::Stream;

    fn at(secs: i64) -> Timestamp {
        // A Monday.
        Timestamp::from_secs(1_794_787_200 + secs)
    }

    fn windows(inside: f64) -> Steps {
        let window = WeekWindow { days: 0b111_1111, from_minute: 30, until_minute: 90 };
        Steps::windows(TimeZone::UTC, 1.0, &[(window, inside)]).unwrap()
    }

    fn obsolescence(events: &[Timestamp], probes: &[Timestamp], importance: &Steps, to: Timestamp) -> f64 {
        Score::of(&ScoredProbes { events, probes, from: at(0), to, importance, holds: 9 }).obsolescence
    }

    /// The least cost of at most `probes` probes, by trying every predecessor of every slot, probe by probe.
    fn plainly(slots: &Slots, probes: usize) -> f64 {
        let end = slots.times.len() - 1;
        let gap = |from: usize, to: usize| {
            let each = |slot: usize| {
                let updates = slots.updates[slot] - slots.updates[slot - 1];
                updates * (slots.importance[to] - slots.importance[slot])
            };
            (from + 1..to).map(each).sum::<f64>()
        };
        let mut reached = vec![f64::INFINITY; end + 1];
        reached[0] = 0.0;
        let mut least = f64::INFINITY;
        for _ in 0..probes.min(end) {
            let step =
                |to: usize| (0..to).map(|from| reached[from] + gap(from, to)).fold(f64::INFINITY, f64::min);
            reached = (0..=end).map(step).collect();
            least = least.min(reached[end]);
        }
        least
    }

    fn instance() -> impl Strategy<Value = (Vec<Timestamp>, Timestamp)> {
        // Close together, so that many times coincide and many gaps are equal.
        let few = prop::collection::vec(-5_i64..60, 0..25).prop_map(|list| (list, 120));
        let many = prop::collection::vec(-500_i64..9000, 0..40).prop_map(|list| (list, 1));
        (prop_oneof![few, many], 1_i64..9000).prop_map(|((mut list, step), to)| {
            list.sort_unstable();
            (list.into_iter().map(|secs| at(secs * step)).collect(), at(to))
        })
    }

    proptest! {
        #[test]
        fn cost_equals_exhaustive_search(
            (events, to) in instance(),
            inside in prop_oneof![Just(0.0), Just(1.0), Just(7.5)],
            probes in 1_usize..30,
        ) {
            let importance = windows(inside);
            let found = best(&events, &importance, at(0), to, probes);
            prop_assert!(found.times.len() <= probes);
            prop_assert!(found.times.is_sorted_by(|one, other| one < other));
            prop_assert_eq!(found.times.last(), Some(&to));
            let scored = obsolescence(&events, &found.times, &importance, to);
            prop_assert!((found.cost - scored).abs() < 1e-9);
            let within = events.partition_point(|&e| e <= at(0))..events.partition_point(|&e| e <= to);
            let slots = Slots::new(&events[within], &Weight::new(&importance, at(0), to), to);
            let least = plainly(&slots, probes);
            prop_assert!((found.cost - least).abs() < 1e-9, "{} against {least}", found.cost);
        }

        #[test]
        fn no_other_schedule_costs_less(
            (events, to) in instance(),
            mut others in prop::collection::vec(1_i64..9000, 1..20),
        ) {
            others.sort_unstable();
            let others: Vec<Timestamp> = others.into_iter().map(at).filter(|&probe| probe < to).collect();
            let importance = windows(3.0);
            let found = best(&events, &importance, at(0), to, others.len() + 1);
            prop_assert!(found.cost <= obsolescence(&events, &others, &importance, to) + 1e-9);
        }
    }

    #[test]
    fn last_probe_is_always_at_the_end() {
        let importance = Steps::constant(1.0).unwrap();
        let none = best(&[], &importance, at(0), at(60), 0);
        assert_eq!((none.times, none.cost), (vec![at(60)], 0.0));
        let one = best(&[at(60)], &importance, at(0), at(60), 5);
        assert_eq!((one.times, one.cost), (vec![at(60)], 0.0));
        assert_eq!(best(&[at(5)], &importance, at(9), at(9), 5), ClairvoyantTimes::default());
    }

    /// Ten thousand updates in eight weeks: at random, evenly, and in bursts.
    #[test]
    fn large_histories_are_solved_and_cost_falls_with_probes() {
        let importance = windows(4.0);
        let span = 56 * 86_400;
        let mut chance = Stream::new(5, "large");
        let mut random: Vec<i64> = (0..10_000).map(|_| (chance.unit() * f64::from(span)) as i64).collect();
        random.sort_unstable();
        let even: Vec<i64> = (1..=10_000).map(|k| k * i64::from(span) / 10_000).collect();
        let flurries: Vec<i64> = (0_i64..10_000).map(|k| k / 100 * 48_384 + (k % 100).pow(2)).collect();
        for list in [random, even, flurries] {
            let events: Vec<Timestamp> = list.into_iter().map(at).collect();
            let mut before = f64::INFINITY;
            for probes in [1, 10, 300, 1000, 5000, 9000] {
                let found = best(&events, &importance, at(0), at(i64::from(span)), probes);
                assert!(found.times.len() <= probes && found.cost <= before);
                before = found.cost;
            }
        }
    }
}
