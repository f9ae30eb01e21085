//! Families of rates for tests of allocators.
//!
//! They are the families that Mahmoody et al. and later papers use: from all equal to a few sources with
//! nearly all updates. Must not know how the rates are used.

use std::fmt;
use std::str::FromStr;

use tidewatch_core::rng::Stream;

/// The largest rate, in updates per step. Larger counts would no longer be exact integers.
pub const LARGEST: f64 = 1e9;

/// The distribution of rates over sources.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FleetShape {
    /// 2⁻ⁱ: a bad case for greedy (§4.1).
    Powers,
    /// All equal, with a total of one update per step.
    Equal,
    /// Uniform in (0, 1).
    Uniform,
    /// i⁻ˢ.
    Zipf(f64),
    /// Pareto with the tail x^−α, from 1 on.
    Pareto(f64),
}

impl FleetShape {
    /// The rates of `sources` sources.
    pub fn rates(self, sources: usize, seed: u64) -> Vec<f64> {
        let mut stream = Stream::new(seed, "shape");
        let rate = |place: usize| match self {
            Self::Powers => (-(place as f64 + 1.0)).exp2(),
            Self::Equal => (sources as f64).recip(),
            // A rate of zero would be a source without updates.
            Self::Uniform => stream.unit().max(f64::EPSILON),
            Self::Zipf(exponent) => (place as f64 + 1.0).powf(-exponent),
            Self::Pareto(tail) => (1.0 - stream.unit()).powf(-tail.recip()).min(LARGEST),
        };
        (0..sources).map(rate).collect()
    }
}

impl fmt::Display for FleetShape {
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

/// The text is not a shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no shape; there are powers, equal, uniform, zipf:1 and pareto:1.2, with any number above zero"
)]
pub struct NoShape(String);

impl FromStr for FleetShape {
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
    fn names_parse_back() {
        for name in ["powers", "equal", "uniform", "zipf:1", "zipf:0.8", "pareto:1.2"] {
            assert_eq!(name.parse::<FleetShape>().unwrap().to_string(), name);
        }
        for name in ["", "zipf", "zipf:", "zipf:0", "zipf:-1", "pareto:inf", "pareto:x", "equal:1", "Equal"]
        {
            assert!(name.parse::<FleetShape>().is_err(), "{name}");
        }
    }

    #[test]
    fn rates_follow_their_distribution() {
        assert_eq!(FleetShape::Powers.rates(3, 1), [0.5, 0.25, 0.125]);
        assert_eq!(FleetShape::Equal.rates(4, 1), [0.25; 4]);
        assert_eq!(FleetShape::Zipf(1.0).rates(4, 1), [1.0, 0.5, 1.0 / 3.0, 0.25]);
        assert!(
            FleetShape::Uniform.rates(1000, 1).iter().all(|rate| (0.0..1.0).contains(rate) && *rate > 0.0)
        );
        // Half of them are below the median, 2^(1/α).
        let pareto = FleetShape::Pareto(1.2).rates(10_000, 1);
        let below = pareto.iter().filter(|&&rate| rate < 2_f64.powf(1.0 / 1.2)).count();
        assert!(pareto.iter().all(|&rate| (1.0..=LARGEST).contains(&rate)));
        assert!((4_850..=5_150).contains(&below), "{below}");
        assert_eq!(pareto, FleetShape::Pareto(1.2).rates(10_000, 1));
        assert_ne!(pareto, FleetShape::Pareto(1.2).rates(10_000, 2));
    }
}
