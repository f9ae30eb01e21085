//! The cost of a day in the garden: `cargo bench --bench garden`.
//!
//! Microseconds a day of MEDD, ours and as printed, both incremental, for a thousand plants up to a
//! hundred thousand over ten thousand days. The same run measures Algorithm 1 line by line, which sorts
//! all plants twice a day. The capacity is the same for every size, and windows grow with the size, so
//! that the work of a day is constant.

use std::cmp::Reverse;
use std::hint::black_box;
use std::io::Write;

use tidewatch::clock::Stopwatch;
use tidewatch_core::engine::garden::medd::Medd;
use tidewatch_core::engine::garden::{Task, UNIT, Work, omega};
use tidewatch_core::rng::Stream;
use tidewatch_lab::garden::Gardener;
use tidewatch_lab::garden::printed::Printed;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const DAYS: u32 = 10_000;
/// Timed days where all plants are sorted: each takes milliseconds.
const SORTED_DAYS: u32 = 40;
/// In units; and the share of it that is needed.
const CAPACITY: u64 = 20;
const LOAD: f64 = 0.9;
/// Permitted growth from the smallest garden to the largest, and required speed over sorting.
const MOST_GROWTH: f64 = 12.0;
const LEAST_SPEED: f64 = 50.0;

/// Windows spread over a factor of a hundred, costs from a half to two.
fn plants(count: usize) -> Vec<Task> {
    let mut chance = Stream::new(1, "garden");
    let drawn: Vec<(f64, f64)> =
        (0..count).map(|_| (0.5 + 1.5 * chance.unit(), 100.0_f64.powf(chance.unit()))).collect();
    let need: f64 = drawn.iter().map(|(cost, window)| cost / window).sum();
    let scale = need / (LOAD * CAPACITY as f64);
    drawn.into_iter().map(|(cost, window)| Task::new(cost, (window * scale).ceil() as u32)).collect()
}

/// Microseconds a day.
fn time(days: u32, gardener: &mut dyn Gardener) -> f64 {
    let stopwatch = Stopwatch::start();
    for _ in 0..days {
        black_box(gardener.day());
    }
    stopwatch.elapsed().as_secs_f64() * 1e6 / f64::from(days)
}

/// Algorithm 1 line by line.
struct Sorted {
    plants: Vec<Task>,
    due: Vec<i64>,
    order: Vec<usize>,
    today: i64,
}

impl Gardener for Sorted {
    fn day(&mut self) -> Vec<usize> {
        self.today += 1;
        let Self { plants, due, order, today } = self;
        let today = *today;
        let mut left: Work = CAPACITY * UNIT;
        let mut chosen = Vec::new();
        order.sort_unstable_by_key(|&i| (due[i], plants[i].cost, Reverse(plants[i].window), i));
        for &i in order.iter().take_while(|&&i| due[i] <= today) {
            if plants[i].cost > left {
                break;
            }
            left -= plants[i].cost;
            chosen.push(i);
        }
        let longest = plants.iter().map(|plant| i64::from(plant.window)).max().unwrap_or(1);
        let ahead: u64 = (0..plants.len())
            .map(|i| {
                let from = due[i].max(today);
                let last = today + longest - 1;
                let times = if from > last { 0 } else { (last - from) / i64::from(plants[i].window) + 1 };
                plants[i].cost * times.unsigned_abs()
            })
            .sum();
        let overload = ahead.saturating_sub(CAPACITY * UNIT * longest.unsigned_abs());
        let wasteness = |i: usize| {
            let Task { cost, window } = plants[i];
            (due[i] - today) as f64 / f64::from(window) * cost as f64
        };
        order.sort_unstable_by(|&i, &j| wasteness(i).total_cmp(&wasteness(j)));
        let mut spare = left.min(overload);
        for &i in order.iter().filter(|&&i| due[i] > today) {
            if plants[i].cost > spare {
                break;
            }
            spare -= plants[i].cost;
            chosen.push(i);
        }
        for &i in &chosen {
            due[i] = today + i64::from(plants[i].window);
        }
        chosen
    }
}

fn main() -> std::io::Result<()> {
    let out = &mut std::io::stdout().lock();
    let gardens = SIZES.map(plants);
    let capacity = CAPACITY * UNIT;
    writeln!(
        out,
        "µs a day over {DAYS} days, capacity {CAPACITY}, Ω {:.1} to {:.1}",
        omega(&gardens[2]),
        omega(&gardens[0])
    )?;
    writeln!(out, "gardener        10³      10⁴      10⁵   growth   sorted at 10⁵   faster by")?;
    let plain = {
        let plants = gardens[2].clone();
        let due = plants.iter().map(|plant| i64::from(plant.window)).collect();
        let order = (0..plants.len()).collect();
        time(SORTED_DAYS, &mut Sorted { plants, due, order, today: 0 })
    };
    let ours = gardens.each_ref().map(|plants| time(DAYS, &mut Medd::of(plants, capacity)));
    let printed = gardens.each_ref().map(|plants| time(DAYS, &mut Printed::new(plants, capacity)));
    for (name, [small, middle, large]) in [("medd", ours), ("medd_printed", printed)] {
        let (growth, faster) = (large / small, plain / large);
        let fine = growth <= MOST_GROWTH && faster >= LEAST_SPEED;
        let verdict = if fine { "" } else { "TOO SLOW" };
        writeln!(
            out,
            "{name:<12} {small:6.1}   {middle:6.1}   {large:6.1}   {growth:5.1}x   {plain:11.0}     {faster:7.0}x  {verdict}"
        )?;
    }
    writeln!(out, "growth is to be at most {MOST_GROWTH}x, and at least {LEAST_SPEED}x faster than sorting")
}
