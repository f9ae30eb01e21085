//! The capacities to try: evenly spaced from clearly too little up to the largest.
//!
//! They are round numbers, so that a capacity that is written down can be reproduced. Must not know the
//! results.

use tidewatch_core::engine::garden::{UNIT, Work};

use super::instance::{Instance, units};

/// The default for the largest capacity, as a multiple of Ω.
const ROOM: f64 = 1.25;

/// The smallest capacity tried, as a share of Ω.
const LEAST: f64 = 0.5;

/// The default for the largest capacity: a quarter more than Ω, and enough for the most expensive plant.
pub fn usual(instance: &Instance) -> Work {
    let wanted = (ROOM * instance.omega()).max(units(instance.dearest()));
    work(up(wanted, digits(wanted / 30.0)))
}

/// Converts units to work.
pub fn work(units: f64) -> Work {
    (units.max(0.0) * UNIT as f64).round() as Work
}

/// `count` capacities up to the largest, ascending, each enough for the most expensive plant; fewer if some
/// would be equal.
pub fn capacities(instance: &Instance, most: Work, count: usize) -> Vec<Work> {
    let (k, half) = (units(most), LEAST * instance.omega());
    let least = if half < k { half } else { LEAST * k };
    let least = least.max(units(instance.dearest())).min(k);
    let step = (k - least) / count.saturating_sub(1).max(1) as f64;
    let digits = digits(step);
    let one = |index: usize| match index + 1 == count {
        true => most,
        false => work(up(least + index as f64 * step, digits)).min(most),
    };
    let mut all: Vec<Work> = (0..count).map(one).collect();
    all.dedup();
    all
}

/// Number of decimals that distinguishes numbers this far apart, and one more.
fn digits(step: f64) -> i32 {
    if step > 0.0 { (1.0 - step.log10().floor()).clamp(1.0, 6.0) as i32 } else { 6 }
}

/// The next larger number with this many decimals.
fn up(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    // A number that is already round, up to rounding errors, stays.
    (value * scale - 1e-6).ceil() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garden::made_up;
    use tidewatch_core::engine::garden::Task;

    #[test]
    fn capacities_are_round_and_span_the_range() {
        let garden = made_up::instance(500, 1);
        let most = usual(&garden);
        assert!(units(most) >= 1.25 * garden.omega() && units(most) < 1.26 * garden.omega());
        let all = capacities(&garden, most, 24);
        assert_eq!((all.len(), all[23]), (24, most));
        assert!(all.is_sorted() && units(all[0]) >= 0.5 * garden.omega());
        assert!(all.iter().all(|work| work % (UNIT / 100) == 0), "{all:?}");
        assert_eq!(capacities(&garden, most, 1), [most]);
    }

    #[test]
    fn every_capacity_is_enough_for_the_most_expensive_plant() {
        // Ω is small, and one plant is expensive.
        let garden =
            Instance::new(vec![(Task::new(3.0, 100), String::new()), (Task::new(0.1, 50), String::new())]);
        assert_eq!(capacities(&garden, usual(&garden), 24), [3 * UNIT]);
        let all = capacities(&garden, 4 * UNIT, 5);
        assert_eq!(all, [3_000_000, 3_250_000, 3_500_000, 3_750_000, 4_000_000]);
        // Less than half of Ω: starts at half of the capacity given.
        let garden = made_up::instance(500, 1);
        let all = capacities(&garden, 20 * UNIT, 3);
        assert_eq!(all, [10 * UNIT, 15 * UNIT, 20 * UNIT]);
    }
}
