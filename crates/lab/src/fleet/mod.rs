//! The world of Mahmoody, Kornaropoulos and Upfal in discrete steps, for judging allocators.
//!
//! n sources publish at Poisson rates; in every step c of them are probed, and a probe finds whatever
//! came since the last. The cost is the expected number of updates that nobody has found yet, reckoned
//! and not drawn, and counted as in the proof of Theorem 1: a step makes every source a step older, then
//! Σπτ is added up, then probes bring ages to zero, so that a gap of ℓ steps costs π·ℓ(ℓ+1)/2. Only where
//! rates have to be learned are counts drawn. The allocators are those of the daemon. A step costs no
//! more for more sources. Knows no budgets, hosts or calendars; must not know where rates come from.

pub mod minds;
pub mod report;
pub mod shapes;
mod sum;

use tidewatch_core::engine::allocate::{Allocation, Turn};
use tidewatch_core::engine::params::Allocator;
use tidewatch_core::rng::Stream;

use minds::{Counts, Estimate, Minds};
use sum::Sum;

/// When the first step begins, in steps: ages from before it are shorter than this.
const START: f64 = (1_u64 << 28) as f64;

/// The most steps that can be counted.
pub const MOST_STEPS: u64 = 500_000_000;

/// What allocators are tried on.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    /// π: updates per step, finite and not negative.
    pub rates: Vec<f64>,
    /// c.
    pub per_step: usize,
    /// Whether the rates stay as they are.
    pub change: Option<Change>,
}

/// Some sources exchange their rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// In the first step that has the new rates.
    pub at: u64,
    /// So many of all sources.
    pub share: f64,
}

/// Who is tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// The rule.
    pub allocator: Allocator,
    /// How it learns the rates; `None` if it is told them, and told when they change.
    pub learns: Option<Estimate>,
    /// Steps before the cost is counted.
    pub warm_up: u64,
    /// Of all that is left to chance.
    pub seed: u64,
}

/// A run under way.
///
/// ```
/// use tidewatch_core::engine::params::Allocator;
/// use tidewatch_lab::fleet::{Sim, Trial, World};
///
/// let world = World { rates: vec![0.5, 0.5], per_step: 1, change: None };
/// let mut sim = Sim::new(&world, Trial { allocator: Allocator::Index, learns: None, warm_up: 4, seed: 1 });
/// sim.advance(8);
/// // Turn and turn about: one is a step old and the other two, just before a probe.
/// assert_eq!(sim.cost(), 1.5);
/// ```
#[derive(Debug, Clone)]
pub struct Sim {
    allocator: Allocator,
    allocation: Allocation,
    minds: Option<Minds>,
    counts: Counts,
    sources: Vec<Source>,
    per_step: usize,
    change: Option<Change>,
    seed: u64,
    warm_up: u64,
    /// Steps so far.
    steps: u64,
    probes: u64,
    chosen: Vec<u32>,
    /// Σπ, and the expected number of updates that wait.
    rate: f64,
    waiting: Sum,
    /// Its sum over the steps that count.
    cost: Sum,
}

#[derive(Debug, Clone, Copy)]
struct Source {
    rate: f64,
    /// When it was last probed.
    last: f64,
    /// Since when what waits came at the present rate …
    since: f64,
    /// … and what waits from before that, since the run began and from before it.
    earlier: f64,
    backlog: f64,
}

impl Source {
    /// Updates expected to wait that came in this run.
    fn news(&self, now: f64) -> f64 {
        self.earlier + self.rate * (now - self.since)
    }
}

/// Consecutive multiples of this spread evenly over [0, 1), however many they are.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl Sim {
    /// A run from the start. Sources begin at ages spread over the gaps that frequencies in proportion
    /// to √π leave (the optimum without whole steps): the cost is then near where it stays, and
    /// never below the bounds merely because everything was seen just now.
    pub fn new(world: &World, trial: Trial) -> Self {
        let roots: f64 = world.rates.iter().map(|rate| rate.sqrt()).sum();
        let source = |(place, &rate): (usize, &f64)| {
            let gap = if rate > 0.0 { roots / (world.per_step as f64 * rate.sqrt()) } else { 1.0 };
            let phase = (place as f64 * GOLDEN).fract();
            let age = (phase * gap.max(1.0)).floor().min(START);
            Source { rate, last: START - age, since: START, earlier: 0.0, backlog: rate * age }
        };
        let sources: Vec<Source> = world.rates.iter().enumerate().map(source).collect();
        let mut sim = Self {
            allocator: trial.allocator,
            allocation: Allocation::new(trial.allocator, trial.seed),
            minds: trial.learns.map(|estimate| Minds::new(estimate, sources.len())),
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
        if sim.minds.is_some() {
            // Who does not know the rates does not know the ages that follow from them either.
            sim.sources.iter_mut().for_each(|source| source.last = START);
        }
        (0..sim.sources.len() as u32).for_each(|place| sim.open(place));
        sim
    }

    /// So many steps more.
    pub fn advance(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// One step. Returns who was probed in it.
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
        *source = Source { last: now, since: now, earlier: 0.0, backlog: 0.0, ..*source };
        let rate = match &mut self.minds {
            Some(minds) => minds.learn(place, self.counts.draw(news), span, now - START),
            None => source.rate,
        };
        self.allocation.open(place, Turn { root: rate.sqrt() as f32, last: now });
    }

    /// Some sources get each other's rates. What came before stays as many as it was.
    fn exchange(&mut self) {
        let Some(change) = self.change else { return };
        let mut order: Vec<u32> = (0..self.sources.len() as u32).collect();
        let mut stream = Stream::new(self.seed, "change");
        for left in (1..order.len()).rev() {
            order.swap(left, (stream.unit() * (left + 1) as f64) as usize);
        }
        order.truncate((order.len() as f64 * change.share).round() as usize);
        // Each gets the rate of the next: in a random order, so nobody keeps its own.
        let rates: Vec<f64> = order.iter().map(|&place| self.sources[place as usize].rate).collect();
        let now = START + self.steps as f64;
        for (&place, &rate) in order.iter().zip(rates.iter().cycle().skip(1)) {
            let source = &mut self.sources[place as usize];
            *source = Source { rate, earlier: source.news(now), since: now, ..*source };
        }
        // Added up afresh: it costs the same, and nothing is carried on.
        self.rate = self.sources.iter().map(|source| source.rate).sum();
        self.waiting = self.sources.iter().map(|source| source.news(now) + source.backlog).collect();
        if self.minds.is_none() {
            order.into_iter().for_each(|place| self.open(place));
        }
    }

    fn open(&mut self, place: u32) {
        let (rate, last) = (self.believed(place), self.sources[place as usize].last);
        // Of what is known to be silent nobody asks, but for who asks everybody in turn.
        if rate > 0.0 || self.allocator == Allocator::RoundRobin {
            self.allocation.open(place, Turn { root: rate.sqrt() as f32, last });
        } else {
            self.allocation.close(place);
        }
    }

    /// What the allocator believes a source's rate to be.
    pub fn believed(&self, place: u32) -> f64 {
        match &self.minds {
            Some(minds) => minds.rate(place),
            None => self.sources[place as usize].rate,
        }
    }

    /// The mean over the scored steps of the expected number of updates that wait, or zero before them.
    pub fn cost(&self) -> f64 {
        self.cost.value() / self.scored().max(1) as f64
    }

    /// Steps whose cost was counted.
    pub fn scored(&self) -> u64 {
        self.steps.saturating_sub(self.warm_up)
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Probes so far.
    pub fn probes(&self) -> u64 {
        self.probes
    }
}

#[cfg(test)]
mod tests {
    use super::shapes::Shape;
    use super::*;

    /// What is kept up step by step is what adding up all sources says, and a change of rates leaves what
    /// came before it as it was.
    #[test]
    fn what_waits_is_what_all_sources_say() {
        let change = Some(Change { at: 301, share: 0.5 });
        let world = World { rates: Shape::Pareto(1.2).rates(50, 3), per_step: 3, change };
        for allocator in Allocator::ALL {
            for learns in [None, Some(Estimate::usual(allocator))] {
                let mut sim = Sim::new(&world, Trial { allocator, learns, warm_up: 0, seed: 5 });
                let mut waiting: Vec<f64> = sim.sources.iter().map(|source| source.backlog).collect();
                let mut cost = 0.0;
                for step in 1..=600 {
                    let rates: Vec<f64> = sim.sources.iter().map(|source| source.rate).collect();
                    sim.step();
                    // In the step of the change the new rates are the ones that count.
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
        let world = World { rates: vec![0.25; 3], per_step: 1, change: None };
        let trial = Trial { allocator: Allocator::RoundRobin, learns: None, warm_up: 9, seed: 1 };
        let mut sim = Sim::new(&world, trial);
        sim.advance(9 + 300);
        assert_eq!((sim.probes(), sim.scored()), (309, 300));
        assert_eq!(sim.cost(), 3.0 * 0.25 * (1.0 + 2.0 + 3.0) / 3.0);
    }
}
