//! Random gardens, for use without own data.
//!
//! Windows are from 2 to 200 days, log-uniform: as many between 2 and 20 as between 20 and 200. Costs are
//! from half a unit to two units. There are four groups. Must not know how gardens are used.

use tidewatch_core::engine::garden::Task;
use tidewatch_core::rng::Stream;

use super::instance::Instance;

const GROUPS: [&str; 4] = ["east", "north", "south", "west"];
const SHORTEST: f64 = 2.0;
const LONGEST: f64 = 200.0;
const CHEAPEST: f64 = 0.5;
const DEAREST: f64 = 2.0;

/// A garden of `plants` plants; equal seeds give equal gardens.
pub fn instance(plants: usize, seed: u64) -> Instance {
    let mut chance = Stream::new(seed, "garden");
    let plant = |index: usize| {
        let window = SHORTEST * (LONGEST / SHORTEST).powf(chance.unit());
        // To two decimals.
        let cost = ((CHEAPEST + (DEAREST - CHEAPEST) * chance.unit()) * 100.0).round() / 100.0;
        (Task::new(cost, window.round() as u32), GROUPS[index % GROUPS.len()].to_owned())
    };
    Instance::new((0..plants).map(plant).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewatch_core::engine::garden::UNIT;

    #[test]
    fn windows_and_costs_have_the_documented_range() {
        let garden = instance(4000, 7);
        assert_eq!(garden, instance(4000, 7));
        assert_ne!(garden, instance(4000, 8));
        let plants = garden.plants();
        assert!(plants.iter().all(|plant| (2..=200).contains(&plant.window)));
        assert!(plants.iter().all(|plant| (UNIT / 2..=2 * UNIT).contains(&plant.cost)));
        let short = plants.iter().filter(|plant| plant.window < 20).count();
        assert!((1850..2150).contains(&short), "{short}");
    }
}
