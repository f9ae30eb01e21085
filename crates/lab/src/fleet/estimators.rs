//! Rate estimates of an allocator from its own probes, if it does not get the rates.
//!
//! The quality of an allocator depends on its rate estimates, and the paper's estimator is one of several. It
//! uses counts and the time over which they accumulated. Must not know the true rates.

use rand::SeedableRng;
use rand_distr::{Distribution, Poisson};
use rand_pcg::Pcg64Mcg;

use tidewatch_core::engine::params::Allocator;
use tidewatch_core::model::change_point_rate::{ChangePointRate, CountedRate, RatePrior};
use tidewatch_core::rng::Stream;

/// The assumed frequency of permanent changes of a source's rate, per step.
const CHANGES: f64 = 1.0 / 20_000.0;

/// The estimator of rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// As printed in Algorithm 1.
    Counted,
    /// With change points.
    Forgetting,
}

impl Estimate {
    /// The default estimator of this allocator. Adaptive uses its paper's.
    pub fn usual(allocator: Allocator) -> Self {
        match allocator {
            Allocator::Adaptive => Self::Counted,
            _ => Self::Forgetting,
        }
    }
}

/// The rate estimates of all sources.
#[derive(Debug, Clone)]
pub struct Estimators {
    beliefs: RateEstimates,
    /// Over all sources: the number of updates found, and the number of steps they accumulated in.
    found: f64,
    watched: f64,
}

#[derive(Debug, Clone)]
enum RateEstimates {
    Counted(Vec<(CountedRate, f64)>),
    Forgetting(Vec<ChangePointRate>),
}

/// π̃ before the first probe, as in Algorithm 1.
const UNSEEN: f64 = 1.0;

impl Estimators {
    /// The initial estimates of `sources` sources.
    pub fn new(estimate: Estimate, sources: usize) -> Self {
        let beliefs = match estimate {
            Estimate::Counted => RateEstimates::Counted(vec![(CountedRate::default(), UNSEEN); sources]),
            Estimate::Forgetting => RateEstimates::Forgetting(vec![ChangePointRate::default(); sources]),
        };
        // Starts with half an update in half a step of every source, so that the mean is never 0. Its weight
        // soon vanishes.
        Self { beliefs, found: 0.5, watched: 0.5 * sources as f64 }
    }

    /// Updates the estimate after a probe in step `t` that covers the last `span` steps. Returns π̃.
    pub fn learn(&mut self, place: u32, found: u64, span: f64, t: f64) -> f64 {
        self.found += found as f64;
        self.watched += span;
        let prior = self.prior();
        match &mut self.beliefs {
            RateEstimates::Counted(list) => {
                let (counted, rate) = &mut list[place as usize];
                *rate = counted.learn(found, t);
                *rate
            }
            RateEstimates::Forgetting(list) => {
                let belief = &mut list[place as usize];
                belief.learn(found, span, prior);
                belief.rate(prior)
            }
        }
    }

    /// The current π̃.
    pub fn rate(&self, place: u32) -> f64 {
        match &self.beliefs {
            RateEstimates::Counted(list) => list[place as usize].1,
            RateEstimates::Forgetting(list) => match &list[place as usize] {
                belief if *belief == ChangePointRate::default() => UNSEEN,
                belief => belief.rate(self.prior()),
            },
        }
    }

    fn prior(&self) -> RatePrior {
        RatePrior { rate: self.found / self.watched, changes: CHANGES }
    }
}

/// Draws numbers of updates for expected values.
#[derive(Debug, Clone)]
pub struct Counts(Pcg64Mcg);

impl Counts {
    /// A generator that is deterministic for a seed.
    pub fn new(seed: u64) -> Self {
        let mut stream = Stream::new(seed, "counts");
        Self(Pcg64Mcg::seed_from_u64((stream.unit() * 2_f64.powi(53)) as u64))
    }

    /// A Poisson count.
    pub fn draw(&mut self, mean: f64) -> u64 {
        // The distribution does not allow a mean of 0; the count is then 0.
        Poisson::new(mean).map_or(0, |poisson| poisson.sample(&mut self.0) as u64)
    }
}
