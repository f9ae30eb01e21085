//! Draws at random in proportion to weights, in O(log n).
//!
//! A tree of sums with sixteen children per node: a node is one cache line, and a million weights need five
//! levels. A node is summed again whenever one of its children changes, so no rounding error accumulates.
//! Knows numbers only.

use serde::{Deserialize, Serialize};

/// Children per node.
const WIDTH: usize = 16;

/// Weights, and their sums over ever larger blocks.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WeightedSampler {
    /// From the weights up to a level of one node.
    levels: Vec<Vec<[f32; WIDTH]>>,
}

impl WeightedSampler {
    /// Sets the weight at an index, which is created if missing.
    pub fn set(&mut self, place: u32, weight: f32) {
        self.reach(place as usize);
        let (mut at, mut value) = (place as usize, weight);
        for level in &mut self.levels {
            let node = &mut level[at / WIDTH];
            node[at % WIDTH] = value;
            value = sum(node);
            at /= WIDTH;
        }
    }

    /// The sum of all weights.
    pub fn total(&self) -> f32 {
        self.levels.last().and_then(|top| top.first()).map_or(0.0, sum)
    }

    /// The index that a number in [0, 1) falls on; `None` when all weights are zero.
    pub fn draw(&self, unit: f64) -> Option<u32> {
        let total = self.total();
        if total <= 0.0 {
            return None;
        }
        let mut left = (unit * f64::from(total)) as f32;
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let node = level.get(at)?;
            let mut within = None;
            for (child, &weight) in node.iter().enumerate() {
                if weight > 0.0 {
                    // The last child with a weight takes the rounding error.
                    within = Some(child);
                    if left < weight {
                        break;
                    }
                    left -= weight;
                }
            }
            at = at * WIDTH + within?;
        }
        u32::try_from(at).ok()
    }

    /// Adds levels and nodes for an index.
    fn reach(&mut self, place: usize) {
        let mut nodes = place / WIDTH + 1;
        let mut depth = 0;
        loop {
            if self.levels.len() == depth {
                // A new top level: the old top is its first child.
                let below: f32 = self.total();
                let mut node = [0.0; WIDTH];
                node[0] = below;
                self.levels.push(vec![node]);
            }
            let level = &mut self.levels[depth];
            if level.len() < nodes {
                level.resize(nodes, [0.0; WIDTH]);
            }
            if level.len() == 1 && depth + 1 == self.levels.len() {
                return;
            }
            nodes = self.levels[depth].len().div_ceil(WIDTH);
            depth += 1;
        }
    }
}

/// The sum of a node in four lanes; a single chain of additions would take four times as long.
fn sum(node: &[f32; WIDTH]) -> f32 {
    let mut lanes = [0.0; 4];
    for four in node.chunks_exact(4) {
        for (lane, weight) in lanes.iter_mut().zip(four) {
            *lane += weight;
        }
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// After any sequence of `set`, a draw equals a linear scan.
        #[test]
        fn a_draw_equals_a_linear_scan(
            sets in prop::collection::vec((0_u32..5_000, 0_u32..4), 1..300),
            unit in 0.0..1.0,
        ) {
            let mut sums = WeightedSampler::default();
            let mut plain = vec![0.0_f32; 5_000];
            for (place, weight) in sets {
                sums.set(place, weight as f32);
                plain[place as usize] = weight as f32;
            }
            let total: f32 = plain.iter().sum();
            prop_assert_eq!(sums.total(), total);
            let mut left = (unit * f64::from(total)) as f32;
            // Sums of small whole numbers are exact in any order.
            let expected = plain.iter().position(|&weight| {
                let here = weight > 0.0 && left < weight;
                if !here { left -= weight; }
                here
            });
            prop_assert_eq!(sums.draw(unit), expected.map(|place| place as u32));
        }
    }

    #[test]
    fn an_empty_sampler_draws_none() {
        let mut sums = WeightedSampler::default();
        assert_eq!(sums.draw(0.5), None);
        sums.set(40_000, 2.0);
        assert_eq!(sums.draw(0.999_999_999), Some(40_000));
        sums.set(40_000, 0.0);
        assert_eq!(sums.draw(0.0), None);
    }
}
