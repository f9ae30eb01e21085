//! A sum of log-likelihood ratios that starts again at zero (CUSUM, Page 1954).
//!
//! An observation adds to it at once. Time without observations passes in stretches, at whose ends the sum is
//! compared with zero. Within a stretch the sum rises or falls evenly, so a stretch may be divided anywhere.
//! May not know what is observed.

use crate::time::Timestamp;

/// A sum since it was last zero, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cusum {
    /// The sum.
    pub score: f32,
    /// The time of the last zero, the estimated time of a change; not after the epoch if there was none.
    pub since: Timestamp,
    /// Observations since then.
    pub found: f32,
    /// Observations that were expected since then.
    pub expected: f32,
}

impl Cusum {
    /// Adds the observations of an interval.
    pub fn add(&mut self, (from, until): (Timestamp, Timestamp), score: f64, found: f64, expected: f64) {
        if self.since <= Timestamp::default() {
            self.since = from;
        }
        self.score += score as f32;
        self.found += found as f32;
        self.expected += expected as f32;
        if self.score <= 0.0 {
            *self = Self { since: until, ..Self::default() };
        }
    }
}

/// A falling sum is zero here: over a day a sum may rise and fall by the same amount, and rounding must not decide
/// whether it starts again.
const NEARLY_ZERO: f64 = 1e-5;

/// A sum while time without observations passes. In double precision, so that many short stretches lose
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PassingCusum {
    score: f64,
    since: Timestamp,
    found: f64,
    expected: f64,
}

impl From<Cusum> for PassingCusum {
    fn from(sum: Cusum) -> Self {
        let Cusum { score, since, found, expected } = sum;
        Self { score: score.into(), since, found: found.into(), expected: expected.into() }
    }
}

impl From<PassingCusum> for Cusum {
    fn from(sum: PassingCusum) -> Self {
        let PassingCusum { score, since, found, expected } = sum;
        Self { score: score as f32, since, found: found as f32, expected: expected as f32 }
    }
}

impl PassingCusum {
    /// Passes a stretch in which the sum changes by `score`, and this many observations were expected.
    pub fn pass(&mut self, (from, until): (Timestamp, Timestamp), score: f64, expected: f64) {
        if self.since <= Timestamp::default() {
            self.since = from;
        }
        self.score += score;
        self.expected += expected;
        if self.score <= 0.0 || score < 0.0 && self.score <= NEARLY_ZERO {
            *self = Self { score: 0.0, since: until, found: 0.0, expected: 0.0 };
        }
    }

    /// The sum so far.
    pub fn score(&self) -> f64 {
        self.score
    }
}
