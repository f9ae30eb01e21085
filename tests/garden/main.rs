//! The garden: bounds that hold for every schedule, MEDD as it is printed, and the constructive schedule.

mod printed;
mod walk;

use proptest::prelude::*;
use tidewatch::fleet::garden::edd::Edd;
use tidewatch::fleet::garden::medd::Medd;
use tidewatch::fleet::garden::power::PowerOfTwo;
use tidewatch::fleet::garden::{Gardener, Plant, UNIT, omega};
use tidewatch::rng::Stream;

use printed::Printed;
use walk::{Walked, walk};

fn plants(most: usize, longest: u32) -> impl Strategy<Value = Vec<Plant>> {
    let plant =
        (1_u32..8, 1..=longest).prop_map(|(halves, window)| Plant::new(f64::from(halves) / 2.0, window));
    prop::collection::vec(plant, 1..most)
}

/// The paper's example: two plants that may wait a year, and a gardener who can do both in a day.
#[test]
fn who_works_by_due_day_works_every_day_and_who_waits_once_a_year() {
    let plants = [Plant::new(1.0, 365); 2];
    let busy = |gardener: &mut dyn Gardener| (0..3 * 365).filter(|_| !gardener.day().is_empty()).count();
    assert_eq!(busy(&mut Edd::new(&plants, 2 * UNIT)), 3 * 365);
    let mut medd = Medd::new(&plants, 2 * UNIT);
    assert_eq!(busy(&mut medd), 3);
    let mut medd = Medd::new(&plants, 2 * UNIT);
    assert_eq!(walk(&mut medd, &plants, 3 * 365).tardiness, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Kept up from day to day, it is Algorithm 1.
    #[test]
    fn medd_is_what_is_printed(plants in plants(12, 20), capacity in 1_u32..12) {
        let capacity = u64::from(capacity) * UNIT / 2;
        let (mut ours, mut printed) = (Medd::new(&plants, capacity), Printed::new(&plants, capacity));
        for day in 1..200 {
            let (mut one, mut other) = (ours.day(), printed.day());
            one.sort_unstable();
            other.sort_unstable();
            prop_assert_eq!(one, other, "day {}", day);
        }
    }

    /// Property 1: who is always in time works no less than Ω.
    #[test]
    fn nobody_in_time_works_less_than_omega(plants in plants(12, 20), capacity in 1_u32..40) {
        let capacity = u64::from(capacity) * UNIT;
        let gardeners: [Box<dyn Gardener>; 3] = [
            Box::new(Edd::new(&plants, capacity)),
            Box::new(Medd::new(&plants, capacity)),
            Box::new(PowerOfTwo::new(&plants)),
        ];
        for mut gardener in gardeners {
            let days = 2000;
            let walked = walk(&mut *gardener, &plants, days);
            if walked.tardiness == 0 {
                // Up to what was watered before the beginning.
                let before: f64 = plants.iter().map(|plant| plant.cost as f64 / UNIT as f64).sum();
                prop_assert!(walked.mean_work(days) >= omega(&plants) - before / f64::from(days) - 1e-9);
            }
        }
    }

    /// Theorem 3.3.
    #[test]
    fn by_powers_of_two_every_window_is_kept_and_no_day_is_too_long(plants in plants(60, 300)) {
        let mut schedule = PowerOfTwo::new(&plants);
        let walked = walk(&mut schedule, &plants, 700);
        prop_assert_eq!(walked.tardiness, 0);
        prop_assert!(walked.most_work as f64 / UNIT as f64 <= PowerOfTwo::most(&plants) + 1e-9);
        for (plant, &(period, day)) in plants.iter().zip(schedule.turns()) {
            prop_assert!(period <= plant.window && day < period && period.is_power_of_two());
        }
    }
}

/// Drawn with windows from 2 to 200 days, loaded to this share of the capacity.
fn drawn(seed: u64, load: f64, sources: usize) -> (Vec<Plant>, u64) {
    let mut chance = Stream::new(seed, "garden");
    let plants: Vec<Plant> = (0..sources)
        .map(|_| {
            let window = 2.0 * 100.0_f64.powf(chance.unit());
            Plant::new(0.5 + 1.5 * chance.unit(), window as u32)
        })
        .collect();
    let capacity = (omega(&plants) / load * UNIT as f64) as u64;
    (plants, capacity)
}

/// MEDD works less than EDD, about Ω. It is not always as punctual: it foresees what the next w_max days lack in
/// all, not that due days meet, as they do when everything was watered on the same day.
#[test]
fn medd_works_less_than_edd() {
    for (seed, load) in [(1, 0.5), (2, 0.7), (3, 0.9), (4, 1.0)] {
        let (plants, capacity) = drawn(seed, load, 1000);
        let days = 1500;
        let edd = walk(&mut Edd::new(&plants, capacity), &plants, days);
        let medd = walk(&mut Medd::new(&plants, capacity), &plants, days);
        assert!(medd.work <= edd.work, "load {load}");
        let omegas = |walked: &Walked| walked.mean_work(days) / omega(&plants);
        assert!(omegas(&medd) < 1.1, "load {load}: {}", omegas(&medd));
        assert!(omegas(&edd) > 0.95 / load, "load {load}: {}", omegas(&edd));
    }
}
