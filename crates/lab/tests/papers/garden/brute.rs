//! Every schedule of a small garden.

use std::collections::HashMap;

use tidewatch_core::engine::garden::Task;

/// The least tardiness of any schedule over these days. Plants that are late at the end count as watered
/// then.
pub fn least_tardiness(plants: &[Task], capacity: u64, days: i64) -> u64 {
    let start: Vec<i64> = plants.iter().map(|plant| i64::from(plant.window)).collect();
    let mut states: HashMap<Vec<i64>, u64> = HashMap::from([(start, 0)]);
    for today in 1..=days {
        let mut next = HashMap::new();
        for (due, late) in states {
            for chosen in 0..1_u32 << plants.len() {
                let of = |place: &usize| chosen >> place & 1 == 1;
                let work: u64 = (0..plants.len()).filter(of).map(|place| plants[place].cost).sum();
                if work > capacity {
                    continue;
                }
                let (mut due, mut late) = (due.clone(), late);
                for place in (0..plants.len()).filter(of) {
                    late += (today - due[place]).max(0).unsigned_abs();
                    due[place] = today + i64::from(plants[place].window);
                }
                let least = next.entry(due).or_insert(u64::MAX);
                *least = late.min(*least);
            }
        }
        states = next;
    }
    let rest = |due: &[i64]| due.iter().map(|&due| (days - due).max(0).unsigned_abs()).sum::<u64>();
    states.into_iter().map(|(due, late)| late + rest(&due)).min().unwrap_or(0)
}
