//! Rates to try allocators on, when nobody has brought any.
//!
//! The families that Mahmoody et al. and their readers argue with: from all alike to a few that
//! publish nearly everything. Knows how to make them and what they are called; must not know what they
//! are used for.

use std::fmt;
use std::str::FromStr;

use tidewatch_core::rng::Stream;

/// No rate is larger, in updates per step: beyond it counts would no longer be whole numbers.
pub const LARGEST: f64 = 1e9;

/// How rates are spread over sources.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// 2⁻ⁱ: what greedy is bad at (§4.1).
    Powers,
    /// All alike, one update per step between them.
    Equal,
    /// Drawn evenly from (0, 1).
    Uniform,
    /// i⁻ˢ.
    Zipf(f64),
    /// Drawn with the tail x^−α, from 1 on.
    Pareto(f64),
}

impl Shape {
    /// The rates of so many sources.
    pub fn rates(self, sources: usize, seed: u64) -> Vec<f64> {
        let mut stream = Stream::new(seed, "shape");
        let rate = |place: usize| match self {
            Self::Powers => (-(place as f64 + 1.0)).exp2(),
            Self::Equal => (sources as f64).recip(),
            // Zero would be a source that is never heard of.
            Self::Uniform => stream.unit().max(f64::EPSILON),
            Self::Zipf(exponent) => (place as f64 + 1.0).powf(-exponent),
            Self::Pareto(tail) => (1.0 - stream.unit()).powf(-tail.recip()).min(LARGEST),
        };
        (0..sources).map(rate).collect()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Powers => f.write_str("powers"),
            Self::Equal => f.write_str("equal"),
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Self::Pareto(tail) => write!(f, "pareto:{tail}"),
        }
    }
}

/// There is no such shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no shape; there are powers, equal, uniform, zipf:1 and pareto:1.2, with any number above zero"
)]
pub struct NoShape(String);

impl FromStr for Shape {
    type Err = NoShape;

    fn from_str(text: &str) -> Result<Self, NoShape> {
        let (name, number) = text.split_once(':').unzip();
        let number = || match number.map(str::parse) {
            Some(Ok(number)) if number > 0.0 && f64::is_finite(number) => Ok(number),
            _ => Err(NoShape(text.to_owned())),
        };
        match name.unwrap_or(text) {
            "zipf" => number().map(Self::Zipf),
            "pareto" => number().map(Self::Pareto),
            _ => match text {
                "powers" => Ok(Self::Powers),
                "equal" => Ok(Self::Equal),
                "uniform" => Ok(Self::Uniform),
                _ => Err(NoShape(text.to_owned())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["powers", "equal", "uniform", "zipf:1", "zipf:0.8", "pareto:1.2"] {
            assert_eq!(name.parse::<Shape>().unwrap().to_string(), name);
        }
        for name in ["", "zipf", "zipf:", "zipf:0", "zipf:-1", "pareto:inf", "pareto:x", "equal:1", "Equal"]
        {
            assert!(name.parse::<Shape>().is_err(), "{name}");
        }
    }

    #[test]
    fn rates_are_what_they_are_called() {
        assert_eq!(Shape::Powers.rates(3, 1), [0.5, 0.25, 0.125]);
        assert_eq!(Shape::Equal.rates(4, 1), [0.25; 4]);
        assert_eq!(Shape::Zipf(1.0).rates(4, 1), [1.0, 0.5, 1.0 / 3.0, 0.25]);
        assert!(Shape::Uniform.rates(1000, 1).iter().all(|rate| (0.0..1.0).contains(rate) && *rate > 0.0));
        // Half of them are below the median, 2^(1/α).
        let pareto = Shape::Pareto(1.2).rates(10_000, 1);
        let below = pareto.iter().filter(|&&rate| rate < 2_f64.powf(1.0 / 1.2)).count();
        assert!(pareto.iter().all(|&rate| (1.0..=LARGEST).contains(&rate)));
        assert!((4_850..=5_150).contains(&below), "{below}");
        assert_eq!(pareto, Shape::Pareto(1.2).rates(10_000, 1));
        assert_ne!(pareto, Shape::Pareto(1.2).rates(10_000, 2));
    }
}
