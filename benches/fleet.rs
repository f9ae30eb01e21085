//! The cost of a choice: `cargo bench --bench fleet`.
//!
//! Nanoseconds per probe, choosing and learning together, for a thousand sources up to a million with a
//! hundred probes a step. The same run measures the plain way, which visits every source in every step:
//! for the index it selects the largest of all claims, for sampling it builds running sums. Both ways
//! learn alike. Each figure is the best of several stretches, since other load can only add to it. The
//! state of one source is one cache line.

use std::hint::black_box;
use std::io::Write;

use tidewatch::clock::Stopwatch;
use tidewatch_core::engine::allocate::{Allocation, OpenSource};
use tidewatch_core::engine::params::Allocator;
use tidewatch_core::model::change_point_rate::{ChangePointRate, CountedRate, RatePrior};
use tidewatch_core::rng::Stream;
use tidewatch_lab::fleet::shapes::FleetShape;

const PER_STEP: usize = 100;
const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];
/// Steps of a timed stretch, and the number of stretches.
const STRETCH: usize = 400;
const STRETCHES: usize = 12;
/// Timed steps of the plain way: each takes milliseconds.
const PLAIN_STEPS: u32 = 12;
/// Permitted growth from the smallest size to the largest, and required speed over the plain way.
const MOST_GROWTH: f64 = 15.0;
const LEAST_SPEED: f64 = 50.0;

/// The timed allocators, and whether each learns as the paper does.
const TIMED: [(Allocator, bool); 4] = [
    (Allocator::Index, false),
    (Allocator::Adaptive, true),
    (Allocator::Memoryless, false),
    (Allocator::Cyclic, false),
];

/// The learned state of a source, and its true rate.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct SourceState {
    change_point: ChangePointRate,
    counted: CountedRate,
    last: u32,
    rate: f32,
}

/// Sources, and the parameters of learning.
struct World {
    states: Vec<SourceState>,
    prior: RatePrior,
    counts: bool,
    chance: u64,
}

/// The first step.
const START: u32 = 1 << 24;

impl World {
    /// Pareto rates, a fifth as many updates as probes. Rates are learned already, and ages are those of the
    /// long run, so that the start is not measured.
    fn new(sources: usize, counts: bool) -> Self {
        let mut rates = FleetShape::Pareto(1.2).rates(sources, 1);
        let scale = 0.2 * PER_STEP as f64 / rates.iter().sum::<f64>();
        rates.iter_mut().for_each(|rate| *rate *= scale);
        let roots: f64 = rates.iter().map(|rate| rate.sqrt()).sum();
        let mut stream = Stream::new(1, "ages");
        let state = |&rate: &f64| {
            let gap = roots / (PER_STEP as f64 * rate.sqrt());
            let mut counted = CountedRate::default();
            counted.learn((rate * f64::from(START)) as u64, f64::from(START));
            SourceState {
                change_point: ChangePointRate::seeded(rate, 10.0 / rate),
                counted,
                last: START - (stream.unit() * gap) as u32,
                rate: rate as f32,
            }
        };
        let states = rates.iter().map(state).collect();
        // A rate holds for about a hundred probes. With a fixed number of steps a million sources would have
        // nothing left to learn.
        let per_step = PER_STEP as f64 / sources as f64;
        let prior = RatePrior { rate: 0.2 * per_step, changes: 0.01 * per_step };
        Self { states, prior, counts, chance: 1 }
    }

    /// The inputs of the allocator at the start.
    fn inputs(&self) -> impl Iterator<Item = OpenSource> {
        self.states.iter().map(|state| OpenSource { root: state.rate.sqrt(), last: f64::from(state.last) })
    }

    /// Reads the states of all sources of a step at once, so that the cache misses overlap.
    fn fetch(&self, chosen: &[u32]) {
        black_box(chosen.iter().fold(0, |all, &place| all ^ self.states[place as usize].last));
    }

    /// Learns from a probe's answer.
    fn learn(&mut self, place: u32, now: u32) -> OpenSource {
        let state = &mut self.states[place as usize];
        let span = now - state.last;
        // The expected count, rounded at random: right in the mean, and cheap to draw.
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let unit = (self.chance >> 40) as f32 / (1 << 24) as f32;
        let found = (state.rate * span as f32 + unit) as u64;
        state.last = now;
        let rate = if self.counts {
            state.counted.learn(found, f64::from(now))
        } else {
            state.change_point.learn(found, f64::from(span), self.prior);
            state.change_point.rate(self.prior)
        };
        OpenSource { root: rate.sqrt() as f32, last: f64::from(now) }
    }
}

/// Nanoseconds per probe by the allocator.
fn allocated(allocator: Allocator, counts: bool, sources: usize) -> f64 {
    let mut world = World::new(sources, counts);
    let mut allocation = Allocation::new(allocator, 1);
    (0..).zip(world.inputs()).for_each(|(place, input)| allocation.open(place, input));
    let mut chosen = Vec::with_capacity(PER_STEP);
    let mut now = START;
    let mut stretch = |steps: usize| {
        let mut probes = 0;
        let stopwatch = Stopwatch::start();
        for _ in 0..steps {
            now += 1;
            chosen.clear();
            allocation.choose(f64::from(now), PER_STEP, &mut chosen);
            probes += chosen.len();
            world.fetch(&chosen);
            for &place in &chosen {
                allocation.open(place, world.learn(place, now));
            }
        }
        stopwatch.elapsed().as_nanos() as f64 / probes.max(1) as f64
    };
    // Warm-up: every source is probed several times, and rates settle.
    stretch(5 * sources / PER_STEP);
    (0..STRETCHES).map(|_| stretch(STRETCH)).fold(f64::INFINITY, f64::min)
}

/// Nanoseconds per probe by a pass over all sources.
fn plain(sampled: bool, counts: bool, sources: usize) -> f64 {
    let mut world = World::new(sources, counts);
    let mut stream = Stream::new(1, "plain");
    let mut claims: Vec<(f32, u32)> = vec![(0.0, 0); sources];
    let mut sums: Vec<f32> = vec![0.0; sources];
    let mut roots: Vec<f32> = world.inputs().map(|input| input.root).collect();
    let mut lasts: Vec<f32> = world.inputs().map(|input| input.last as f32).collect();
    let mut chosen: Vec<u32> = Vec::with_capacity(PER_STEP);
    let mut step = |now: u32| {
        let stopwatch = Stopwatch::start();
        chosen.clear();
        if sampled {
            let mut sum = 0.0;
            for (to, root) in sums.iter_mut().zip(&roots) {
                sum += root;
                *to = sum;
            }
            let draws = (0..PER_STEP).map(|_| stream.unit() as f32 * sum);
            chosen.extend(draws.map(|at| sums.partition_point(|&sum| sum <= at).min(sources - 1) as u32));
        } else {
            let each = claims.iter_mut().zip(&roots).zip(&lasts).zip(0..);
            for (((claim, root), last), place) in each {
                let age = now as f32 - last;
                *claim = (root * root * age * (age + 1.0), place);
            }
            claims.select_nth_unstable_by(PER_STEP - 1, |a, b| b.0.total_cmp(&a.0));
            chosen.extend(claims[..PER_STEP].iter().map(|claim| claim.1));
        }
        world.fetch(&chosen);
        for &place in &chosen {
            let input = world.learn(place, now);
            roots[place as usize] = input.root;
            lasts[place as usize] = now as f32;
        }
        stopwatch.elapsed().as_nanos() as f64 / PER_STEP as f64
    };
    (1..=PLAIN_STEPS).map(|late| step(START + late)).map(black_box).fold(f64::INFINITY, f64::min)
}

fn main() -> std::io::Result<()> {
    let out = &mut std::io::stdout().lock();
    writeln!(out, "ns per probe, {PER_STEP} probes a step, choosing and learning")?;
    writeln!(out, "allocator      10³     10⁵     10⁶   growth   plain at 10⁶   faster by")?;
    for (allocator, counts) in TIMED {
        let [small, middle, large] = SIZES.map(|sources| allocated(allocator, counts, sources));
        // Cyclic has no plain form: it is compared with sampling, the cheaper of the two.
        let plain = plain(allocator != Allocator::Index, counts, SIZES[2]);
        let (growth, faster) = (large / small, plain / large);
        let fine = growth <= MOST_GROWTH && (faster >= LEAST_SPEED || allocator != Allocator::Index);
        writeln!(
            out,
            "{:<11} {small:6.0}  {middle:6.0}  {large:6.0}   {growth:5.1}x   {plain:10.0}     {faster:7.0}x  {}",
            allocator.name(),
            if fine { "" } else { "TOO SLOW" }
        )?;
    }
    writeln!(
        out,
        "growth is to be at most {MOST_GROWTH}x, and the index at least {LEAST_SPEED}x faster than a scan"
    )
}
