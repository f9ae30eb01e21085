//! The model of Mahmoody, Kornaropoulos and Upfal in discrete steps, for tests of allocators.
//!
//! n sources publish at Poisson rates. In every step c of them are probed, and a probe finds all updates
//! since the last one. The cost is the expected number of updates not yet found, computed and not drawn. It
//! is counted as in the proof of Theorem 1: a step increases every age by one, then Σπτ is added, then probes
//! reset ages to zero. So a gap of ℓ steps costs π·ℓ(ℓ+1)/2. Counts are drawn only if rates must be learned.
//! The allocators are the daemon's. A step's cost does not grow with the number of sources. Must not know
//! budgets, hosts, calendars, or the origin of rates.

pub mod estimators;
pub mod report;
pub mod shapes;
mod sum;

use tidewatch_core::engine::allocate::{Allocation, OpenSource};
use tidewatch_core::engine::params::Allocator;
use tidewatch_core::rng::Stream;

use estimators::{Counts, Estimate, Estimators};
use sum::Sum;

/// The time of the first step, in steps. Initial ages are at most this long.
const START: f64 = (1_u64 << 28) as f64;

/// Maximum number of steps.
pub const MOST_STEPS: u64 = 500_000_000;

/// The model parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetWorld {
    /// π: updates per step, finite and not negative.
    pub rates: Vec<f64>,
    /// c: probes per step.
    pub per_step: usize,
    /// A change of the rates, if any.
    pub change: Option<RateChange>,
}

/// An exchange of rates among some sources.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateChange {
    /// The first step with the new rates.
    pub at: u64,
    /// The share of sources.
    pub share: f64,
}

/// The parameters of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AllocatorTrial {
    /// The allocator.
    pub allocator: Allocator,
    /// The estimator of rates; `None` if it gets the rates and their changes.
    pub learns: Option<Estimate>,
    /// Steps before the cost is counted.
    pub warm_up: u64,
    /// Seed of all random draws.
    pub seed: u64,
}

/// A running simulation.
///
/// ```
/// use tidewatch_core::engine::params::Allocator;
/// use tidewatch_lab::fleet::{AllocatorTrial, FleetWorld, Sim};
///
/// let world = FleetWorld { rates: vec![0.5, 0.5], per_step: 1, change: None };
/// let trial = AllocatorTrial { allocator: Allocator::Index, learns: None, warm_up: 4, seed: 1 };
/// let mut sim = Sim::new(&world, trial);
/// sim.advance(8);
/// // They alternate: just before a probe, one has an age of one step and the other of two.
/// assert_eq!(sim.cost(), 1.5);
/// ```
#[derive(Debug, Clone)]
pub struct Sim {
    allocator: Allocator,
    allocation: Allocation,
    estimators: Option<Estimators>,
    counts: Counts,
    sources: Vec<SimulatedSource>,
    per_step: usize,
    change: Option<RateChange>,
    seed: u64,
    warm_up: u64,
    /// Steps so far.
    steps: u64,
    probes: u64,
    chosen: Vec<u32>,
    /// Σπ, and the expected number of updates not yet found.
    rate: f64,
    waiting: Sum,
    /// The sum of the latter over the scored steps.
    cost: Sum,
}

#[derive(Debug, Clone, Copy)]
struct SimulatedSource {
    rate: f64,
    /// Time of the last probe.
    last: f64,
    /// Start of the time at the present rate …
    since: f64,
    /// … and the updates not yet found from before that time, in this run and from before it.
    earlier: f64,
    backlog: f64,
}

impl SimulatedSource {
    /// Expected number of updates of this run that are not yet found.
    fn news(&self, now: f64) -> f64 {
        self.earlier + self.rate * (now - self.since)
    }
}

/// The fractional parts of its multiples spread evenly over [0, 1), for any number of them.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl Sim {
    /// A new run. Initial ages are spread over the gaps of frequencies in proportion to √π, the optimum
    /// without whole steps. So the cost starts near its long-run value, and is not below the bounds merely
    /// because all sources were just probed.
    pub fn new(world: &FleetWorld, trial: AllocatorTrial) -> Self {
        let roots: f64 = world.rates.iter().map(|rate| rate.sqrt()).sum();
        let source = |(place, &rate): (usize, &f64)| {
            let gap = if rate > 0.0 { roots / (world.per_step as f64 * rate.sqrt()) } else { 1.0 };
            let phase = (place as f64 * GOLDEN).fract();
            let age = (phase * gap.max(1.0)).floor().min(START);
            SimulatedSource { rate, last: START - age, since: START, earlier: 0.0, backlog: rate * age }
        };
        let sources: Vec<SimulatedSource> = world.rates.iter().enumerate().map(source).collect();
        let mut sim = Self {
            allocator: trial.allocator,
            allocation: Allocation::new(trial.allocator, trial.seed),
            estimators: trial.learns.map(|estimate| Estimators::new(estimate, sources.len())),
            counts: Counts::new(trial.seed),
            per_step: world.per_step,
            change: world.change,
            seed: trial.seed,
            warm_up: trial.warm_up,
            steps: 0,
            probes: 0,
            chosen: Vec::with_capacity(world.per_step),
            rate: world.rates.iter().sum(),
            waiting: sources.iter().map(|source| source.backlog).collect(),
            cost: Sum::default(),
            sources,
        };
        if sim.estimators.is_some() {
            // Without known rates, the initial ages that follow from them are unknown too.
            sim.sources.iter_mut().for_each(|source| source.last = START);
        }
        (0..sim.sources.len() as u32).for_each(|place| sim.open(place));
        sim
    }

    /// Runs further steps.
    pub fn advance(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// Runs one step. Returns the sources probed in it.
    pub fn step(&mut self) -> &[u32] {
        if self.change.is_some_and(|change| change.at == self.steps + 1) {
            self.exchange();
        }
        self.steps += 1;
        let now = START + self.steps as f64;
        self.waiting.add(self.rate);
        if self.steps > self.warm_up {
            self.cost.add(self.waiting.value());
        }
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.clear();
        self.allocation.choose(now, self.per_step, &mut chosen);
        for &place in &chosen {
            self.probe(place, now);
        }
        self.probes += chosen.len() as u64;
        self.chosen = chosen;
        &self.chosen
    }

    fn probe(&mut self, place: u32, now: f64) {
        let source = &mut self.sources[place as usize];
        let news = source.news(now);
        self.waiting.add(-(news + source.backlog));
        let span = now - source.last;
        *source = SimulatedSource { last: now, since: now, earlier: 0.0, backlog: 0.0, ..*source };
        let rate = match &mut self.estimators {
            Some(estimators) => estimators.learn(place, self.counts.draw(news), span, now - START),
            None => source.rate,
        };
        self.allocation.open(place, OpenSource { root: rate.sqrt() as f32, last: now });
    }

    /// Exchanges the rates of some sources. The updates not yet found stay the same.
    fn exchange(&mut self) {
        let Some(change) = self.change else { return };
        let mut order: Vec<u32> = (0..self.sources.len() as u32).collect();
        let mut stream = Stream::new(self.seed, "change");
        for left in (1..order.len()).rev() {
            order.swap(left, (stream.unit() * (left + 1) as f64) as usize);
        }
        order.truncate((order.len() as f64 * change.share).round() as usize);
        // Each gets the rate of the next in a random order.
        let rates: Vec<f64> = order.iter().map(|&place| self.sources[place as usize].rate).collect();
        let now = START + self.steps as f64;
        for (&place, &rate) in order.iter().zip(rates.iter().cycle().skip(1)) {
            let source = &mut self.sources[place as usize];
            *source = SimulatedSource { rate, earlier: source.news(now), since: now, ..*source };
        }
        // Summed again, so that rounding errors do not carry over.
        self.rate = self.sources.iter().map(|source| source.rate).sum();
        self.waiting = self.sources.iter().map(|source| source.news(now) + source.backlog).collect();
        if self.estimators.is_none() {
            order.into_iter().for_each(|place| self.open(place));
        }
    }

    fn open(&mut self, place: u32) {
        let (rate, last) = (self.estimated_rate(place), self.sources[place as usize].last);
        // A source with a rate of zero is not probed, except by round robin.
        if rate > 0.0 || self.allocator == Allocator::RoundRobin {
            self.allocation.open(place, OpenSource { root: rate.sqrt() as f32, last });
        } else {
            self.allocation.close(place);
        }
    }

    /// The allocator's estimate of a source's rate.
    pub fn estimated_rate(&self, place: u32) -> f64 {
        match &self.estimators {
            Some(estimators) => estimators.rate(place),
            None => self.sources[place as usize].rate,
        }
    }

    /// The mean over the scored steps of the expected number of updates not yet found, or 0 before them.
    pub fn cost(&self) -> f64 {
        self.cost.value() / self.scored().max(1) as f64
    }

    /// Number of scored steps.
    pub fn scored(&self) -> u64 {
        self.steps.saturating_sub(self.warm_up)
    }

    /// Number of steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Number of probes so far.
    pub fn probes(&self) -> u64 {
        self.probes
    }
}

#[cfg(test)]
mod tests {
    use super::shapes::FleetShape;
    use super::*;

    /// The incremental sums equal the sums over all sources, and a change of rates keeps the updates not yet
    /// found.
    #[test]
    fn incremental_cost_equals_the_sum_over_sources() {
        let change = Some(RateChange { at: 301, share: 0.5 });
        let world = FleetWorld { rates: FleetShape::Pareto(1.2).rates(50, 3), per_step: 3, change };
        for allocator in Allocator::ALL {
            for learns in [None, Some(Estimate::usual(allocator))] {
                let mut sim = Sim::new(&world, AllocatorTrial { allocator, learns, warm_up: 0, seed: 5 });
                let mut waiting: Vec<f64> = sim.sources.iter().map(|source| source.backlog).collect();
                let mut cost = 0.0;
                for step in 1..=600 {
                    let rates: Vec<f64> = sim.sources.iter().map(|source| source.rate).collect();
                    sim.step();
                    // The new rates apply in the step of the change.
                    let changed = sim.sources.iter().zip(&rates).any(|(source, rate)| source.rate != *rate);
                    assert_eq!(changed, step == 301, "{allocator:?} at {step}");
                    waiting.iter_mut().zip(&sim.sources).for_each(|(all, source)| *all += source.rate);
                    cost += waiting.iter().sum::<f64>();
                    sim.chosen.iter().for_each(|&place| waiting[place as usize] = 0.0);
                }
                assert!((sim.waiting.value() / waiting.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                assert!((sim.cost() / (cost / 600.0) - 1.0).abs() < 1e-9, "{allocator:?}");
            }
        }
    }

    #[test]
    fn a_gap_costs_as_in_the_proof_of_theorem_1() {
        // Three in turn: gaps of three steps cost π(1 + 2 + 3).
        let world = FleetWorld { rates: vec![0.25; 3], per_step: 1, change: None };
        let trial = AllocatorTrial { allocator: Allocator::RoundRobin, learns: None, warm_up: 9, seed: 1 };
        let mut sim = Sim::new(&world, trial);
        sim.advance(9 + 300);
        assert_eq!((sim.probes(), sim.scored()), (309, 300));
        assert_eq!(sim.cost(), 3.0 * 0.25 * (1.0 + 2.0 + 3.0) / 3.0);
    }
}
