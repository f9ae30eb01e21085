//! What an allocator makes of what its probes found, when nobody tells it the rates.
//!
//! Exists because an allocator is only as good as the rates it believes in, and the paper's way to
//! learn them is one of several. Knows counts and how long they took to come about. Must not know the
//! rates as they are.

use rand::SeedableRng;
use rand_distr::{Distribution, Poisson};
use rand_pcg::Pcg64Mcg;

use tidewatch_core::engine::params::Allocator;
use tidewatch_core::model::estimate::{ChangePointRate, CountedRate, RatePrior};
use tidewatch_core::rng::Stream;

/// How often a source's rate is thought to change for good, per step.
const CHANGES: f64 = 1.0 / 20_000.0;

/// How rates are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// As Algorithm 1 prints it.
    Counted,
    /// With change points.
    Forgetting,
}

impl Estimate {
    /// What this allocator learns by, unless somebody says otherwise: Adaptive is held to its paper.
    pub fn usual(allocator: Allocator) -> Self {
        match allocator {
            Allocator::Adaptive => Self::Counted,
            _ => Self::Forgetting,
        }
    }
}

/// What is believed of all sources.
#[derive(Debug, Clone)]
pub struct Minds {
    beliefs: Beliefs,
    /// Of all sources together: what was found, and over how many steps of one source.
    found: f64,
    watched: f64,
}

#[derive(Debug, Clone)]
enum Beliefs {
    Counted(Vec<(CountedRate, f64)>),
    Forgetting(Vec<ChangePointRate>),
}

/// π̃ before the first look, as in Algorithm 1.
const UNSEEN: f64 = 1.0;

impl Minds {
    /// Nothing is known of so many sources.
    pub fn new(estimate: Estimate, sources: usize) -> Self {
        let beliefs = match estimate {
            Estimate::Counted => Beliefs::Counted(vec![(CountedRate::default(), UNSEEN); sources]),
            Estimate::Forgetting => Beliefs::Forgetting(vec![ChangePointRate::default(); sources]),
        };
        // As if half an update had been seen in half a step of everybody, so that the mean is never
        // nothing; soon forgotten.
        Self { beliefs, found: 0.5, watched: 0.5 * sources as f64 }
    }

    /// A probe in step `t` found what came about over the last `span` steps. Returns π̃.
    pub fn learn(&mut self, place: u32, found: u64, span: f64, t: f64) -> f64 {
        self.found += found as f64;
        self.watched += span;
        let prior = self.prior();
        match &mut self.beliefs {
            Beliefs::Counted(list) => {
                let (counted, rate) = &mut list[place as usize];
                *rate = counted.learn(found, t);
                *rate
            }
            Beliefs::Forgetting(list) => {
                let belief = &mut list[place as usize];
                belief.learn(found, span, prior);
                belief.rate(prior)
            }
        }
    }

    /// π̃ as it is believed now.
    pub fn rate(&self, place: u32) -> f64 {
        match &self.beliefs {
            Beliefs::Counted(list) => list[place as usize].1,
            Beliefs::Forgetting(list) => match &list[place as usize] {
                belief if *belief == ChangePointRate::default() => UNSEEN,
                belief => belief.rate(self.prior()),
            },
        }
    }

    fn prior(&self) -> RatePrior {
        RatePrior { rate: self.found / self.watched, changes: CHANGES }
    }
}

/// Draws how many updates came, where some were to be expected.
#[derive(Debug, Clone)]
pub struct Counts(Pcg64Mcg);

impl Counts {
    /// Always the same for a seed.
    pub fn new(seed: u64) -> Self {
        let mut stream = Stream::new(seed, "counts");
        Self(Pcg64Mcg::seed_from_u64((stream.unit() * 2_f64.powi(53)) as u64))
    }

    /// A Poisson count.
    pub fn draw(&mut self, mean: f64) -> u64 {
        // No distribution has a mean of zero, and what is that unlikely does not come.
        Poisson::new(mean).map_or(0, |poisson| poisson.sample(&mut self.0) as u64)
    }
}
