//! The garden: bounds that hold for every schedule, MEDD as it is printed, and the constructive schedule.

mod brute;
mod line_by_line;
mod walk;

use proptest::prelude::*;
use tidewatch_core::engine::garden::medd::Medd;
use tidewatch_core::engine::garden::{Task, UNIT, omega};
use tidewatch_core::rng::Stream;
use tidewatch_lab::garden::Gardener;
use tidewatch_lab::garden::edd::Edd;
use tidewatch_lab::garden::power::PowerOfTwo;
use tidewatch_lab::garden::printed::Printed;

use line_by_line::LineByLine;
use walk::walk;

fn plants(most: usize, longest: u32) -> impl Strategy<Value = Vec<Task>> {
    let plant =
        (1_u32..8, 1..=longest).prop_map(|(halves, window)| Task::new(f64::from(halves) / 2.0, window));
    prop::collection::vec(plant, 1..most)
}

/// The paper's example: two plants with windows of a year, and a capacity for both in a day.
#[test]
fn edd_works_every_day_and_medd_once_a_year() {
    let plants = [Task::new(1.0, 365); 2];
    let busy = |gardener: &mut dyn Gardener| (0..3 * 365).filter(|_| !gardener.day().is_empty()).count();
    assert_eq!(busy(&mut Edd::new(&plants, 2 * UNIT)), 3 * 365);
    let mut medd = Medd::of(&plants, 2 * UNIT);
    assert_eq!(busy(&mut medd), 3);
    let mut medd = Medd::of(&plants, 2 * UNIT);
    assert_eq!(walk(&mut medd, &plants, 3 * 365).tardiness, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The incremental form equals Algorithm 1.
    #[test]
    fn medd_equals_the_printed_algorithm(plants in plants(12, 20), capacity in 1_u32..12) {
        let capacity = u64::from(capacity) * UNIT / 2;
        let (mut ours, mut printed) = (Printed::new(&plants, capacity), LineByLine::new(&plants, capacity));
        for day in 1..200 {
            let (mut one, mut other) = (ours.day(), printed.day());
            one.sort_unstable();
            other.sort_unstable();
            prop_assert_eq!(one, other, "day {}", day);
        }
    }

    /// Property 1: a policy that is always in time has at least Ω of work.
    #[test]
    fn a_policy_in_time_has_at_least_omega_of_work(plants in plants(12, 20), capacity in 1_u32..40) {
        let capacity = u64::from(capacity) * UNIT;
        let gardeners: [Box<dyn Gardener>; 3] = [
            Box::new(Edd::new(&plants, capacity)),
            Box::new(Medd::of(&plants, capacity)),
            Box::new(PowerOfTwo::new(&plants)),
        ];
        for mut gardener in gardeners {
            let days = 2000;
            let walked = walk(&mut *gardener, &plants, days);
            if walked.tardiness == 0 {
                // Less the waterings before the beginning.
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
        for (plant, &(period, day)) in plants.iter().zip(schedule.periods()) {
            prop_assert!(period <= plant.window && day < period && period.is_power_of_two());
        }
    }
}

/// Drawn with windows from 2 to 200 days, loaded to this share of the capacity.
fn drawn(seed: u64, load: f64, sources: usize) -> (Vec<Task>, u64) {
    let mut chance = Stream::new(seed, "garden");
    let plants: Vec<Task> = (0..sources)
        .map(|_| {
            let window = 2.0 * 100.0_f64.powf(chance.unit());
            Task::new(0.5 + 1.5 * chance.unit(), window as u32)
        })
        .collect();
    let capacity = (omega(&plants) / load * UNIT as f64) as u64;
    (plants, capacity)
}

/// The results of three policies with the same plants.
fn contest(seed: u64, load: f64, days: u32) -> [(f64, u64); 3] {
    let (plants, capacity) = drawn(seed, load, 1000);
    let gardeners: [Box<dyn Gardener>; 3] = [
        Box::new(Edd::new(&plants, capacity)),
        Box::new(Medd::of(&plants, capacity)),
        Box::new(Printed::new(&plants, capacity)),
    ];
    gardeners.map(|mut gardener| {
        let walked = walk(&mut *gardener, &plants, days);
        (walked.mean_work(days) / omega(&plants), walked.tardiness)
    })
}

/// With 1,000 plants that were all watered on the same day, MEDD has no more work and tardiness than EDD, as
/// long as Ω ≤ k. The printed MEDD is late where EDD is not: it sums the overload of w_max days, and ignores
/// that due days coincide. `--nocapture` shows the table: work in Ω, and days late.
#[test]
fn medd_works_less_than_edd_and_is_not_late_for_it() {
    for (seed, load) in [(1, 0.5), (2, 0.6), (3, 0.7), (4, 0.8), (5, 0.9), (6, 1.0), (1, 1.1), (2, 1.2)] {
        let [edd, medd, printed] = contest(seed, load, 1500);
        println!(
            "load {load}: EDD {:.3} {:5}  MEDD {:.3} {:5}  as printed {:.3} {:5}",
            edd.0, edd.1, medd.0, medd.1, printed.0, printed.1
        );
        if load <= 1.0 {
            assert!(medd.0 <= edd.0 && medd.1 <= edd.1, "load {load}: {medd:?}, EDD {edd:?}");
            assert!(medd.0 < 1.01, "load {load}: {medd:?}");
        }
        if load <= 0.8 {
            assert_eq!(medd.1, 0, "load {load}");
            assert!(printed.1 > 0, "load {load}: the printed algorithm is late");
        }
    }
}

/// On gardens small enough to try every schedule, MEDD has the least tardiness in most, and little more in
/// the others.
#[test]
fn in_small_gardens_medd_has_nearly_the_least_tardiness() {
    let mut chance = Stream::new(9, "small gardens");
    let (mut best, mut ours, mut same, gardens) = (0, 0, 0, 200);
    for _ in 0..gardens {
        let mut whole = |least: f64, most: f64| (least + chance.unit() * (most - least + 1.0)).floor();
        let count = whole(2.0, 3.0) as usize;
        let plants: Vec<Task> =
            (0..count).map(|_| Task::new(whole(1.0, 2.0), whole(1.0, 5.0) as u32)).collect();
        let capacity = whole(2.0, 3.0) as u64 * UNIT;
        let late = walk(&mut Medd::of(&plants, capacity), &plants, 15).tardiness;
        let least = brute::least_tardiness(&plants, capacity, 15);
        assert!(late >= least, "{plants:?}");
        (best, ours, same) = (best + least, ours + late, same + u32::from(late == least));
    }
    println!("{same} of {gardens} as punctual as can be; late {ours} days in all, at best {best}");
    assert!(
        same * 10 >= gardens * 8 && ours * 100 <= best * 130,
        "{same} of {gardens}, {ours} against {best}"
    );
}

/// Plants are added and removed, windows change, days are skipped. The state equals that of a new garden.
#[test]
fn a_changed_garden_equals_a_new_one() {
    let mut chance = Stream::new(4, "changes");
    let mut medd = Medd::new(5 * UNIT, 1);
    let mut beds: Vec<Option<(Task, i64)>> = vec![None; 40];
    let mut today = 1;
    for _ in 0..2000 {
        let place = (chance.unit() * 40.0) as usize;
        match (chance.unit() * 4.0) as u32 {
            0 => {
                medd.remove(place);
                beds[place] = None;
            }
            1 => {
                let window = 1 + (chance.unit() * 60.0) as u32;
                let plant = Task::new(1.0 + (chance.unit() * 4.0).floor(), window);
                let due = today + (chance.unit() * 70.0) as i64 - 5;
                medd.task(place, plant, due);
                beds[place] = Some((plant, due));
            }
            2 => {
                medd.mark_served(place);
                if let Some((plant, due)) = &mut beds[place] {
                    *due = today + i64::from(plant.window);
                }
            }
            _ => {
                today += 1 + (chance.unit() * chance.unit() * 9.0) as i64;
                medd.advance_to(today);
            }
        }
        let mut anew = Medd::new(5 * UNIT, today);
        for (place, bed) in beds.iter().enumerate() {
            if let &Some((plant, due)) = bed {
                anew.task(place, plant, due);
            }
        }
        assert!((medd.omega() - anew.omega()).abs() < 1e-9);
        assert_eq!(medd.due_now().collect::<Vec<_>>(), anew.due_now().collect::<Vec<_>>());
        medd.set_capacity(5 * UNIT);
        anew.set_capacity(5 * UNIT);
        assert_eq!(medd.early(3 * UNIT, |_| true), anew.early(3 * UNIT, |_| true), "on day {today}");
    }
}
