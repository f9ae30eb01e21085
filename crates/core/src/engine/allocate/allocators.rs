//! All allocators as one closed set behind one type.

use serde::{Deserialize, Serialize};

use crate::engine::params::Allocator;
use crate::rng::Stream;

use super::candidate::OpenSource;
use super::cyclic::CyclicOrder;
use super::index_wheel::{Claim, IndexWheel};
use super::round_robin::RoundRobin;
use super::weighted_sampler::WeightedSampler;

/// The open sources, and the rule that chooses among them.
///
/// ```
/// use tidewatch_core::engine::params::Allocator;
/// use tidewatch_core::engine::allocate::{Allocation, OpenSource};
///
/// let mut allocation = Allocation::new(Allocator::Index, 1);
/// for (place, rate) in [0.5_f32, 0.1, 0.3].into_iter().enumerate() {
///     allocation.open(place as u32, OpenSource { root: rate.sqrt(), last: 0.0 });
/// }
/// let mut chosen = Vec::new();
/// allocation.choose(1.0, 2, &mut chosen);
/// assert_eq!(chosen, [0, 2]);
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Allocation(AllocatorState);

#[derive(Debug, Clone, Serialize, Deserialize)]
enum AllocatorState {
    /// In proportion to √π: R (Theorem 3) with known rates, Algorithm 1 with learned rates.
    Sampled { weights: WeightedSampler, stream: Stream },
    /// D.
    Cyclic(CyclicOrder),
    /// The largest claim.
    IndexWheel(IndexWheel),
    /// Round robin.
    RoundRobin(RoundRobin),
}

impl Allocation {
    /// No source is open yet.
    pub fn new(allocator: Allocator, seed: u64) -> Self {
        Self(match allocator {
            Allocator::Adaptive | Allocator::Memoryless => AllocatorState::Sampled {
                weights: WeightedSampler::default(),
                stream: Stream::new(seed, "allocation"),
            },
            Allocator::Cyclic => AllocatorState::Cyclic(CyclicOrder::default()),
            Allocator::Index => AllocatorState::IndexWheel(IndexWheel::new(Claim::Index)),
            Allocator::Greedy => AllocatorState::IndexWheel(IndexWheel::new(Claim::Gain)),
            Allocator::RoundRobin => AllocatorState::RoundRobin(RoundRobin::default()),
        })
    }

    /// Opens a source: it may be chosen.
    pub fn open(&mut self, place: u32, source: OpenSource) {
        match &mut self.0 {
            AllocatorState::Sampled { weights, .. } => weights.set(place, source.root),
            AllocatorState::Cyclic(cyclic) => cyclic.open(place, source),
            AllocatorState::IndexWheel(wheel) => wheel.open(place, source),
            AllocatorState::RoundRobin(round_robin) => round_robin.open(place),
        }
    }

    /// Closes a source: it may no longer be chosen.
    pub fn close(&mut self, place: u32) {
        match &mut self.0 {
            AllocatorState::Sampled { weights, .. } => weights.set(place, 0.0),
            AllocatorState::Cyclic(cyclic) => cyclic.close(place),
            AllocatorState::IndexWheel(wheel) => wheel.close(place),
            AllocatorState::RoundRobin(round_robin) => round_robin.close(place),
        }
    }

    /// Removes a source. Its index may be given to another.
    pub fn forget(&mut self, place: u32) {
        match &mut self.0 {
            AllocatorState::Cyclic(cyclic) => cyclic.forget(place),
            _ => self.close(place),
        }
    }

    /// Appends at most `most` sources to probe now and closes them.
    pub fn choose(&mut self, now: f64, most: usize, chosen: &mut Vec<u32>) {
        match &mut self.0 {
            AllocatorState::Sampled { weights, stream } => {
                for _ in 0..most {
                    let Some(place) = weights.draw(stream.unit()) else { break };
                    weights.set(place, 0.0);
                    chosen.push(place);
                }
            }
            AllocatorState::Cyclic(cyclic) => cyclic.choose(now, most, chosen),
            AllocatorState::IndexWheel(wheel) => wheel.choose(now, most, chosen),
            AllocatorState::RoundRobin(round_robin) => round_robin.choose(most, chosen),
        }
    }
}
