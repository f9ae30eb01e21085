//! The tail of the negative binomial distribution: counts that cluster.
//!
//! A Poisson number has a variance equal to its mean. The count of clustered updates has a larger one; the ratio
//! is its dispersion. May not know the counted quantity.

use super::change_point_rate::ln_rising;
use super::poisson;

/// P(N ≥ least) of a number N with this mean and dispersion. Up to a dispersion of 1 it is a Poisson number.
///
/// ```
/// # use tidewatch_core::model::negative_binomial::at_least;
/// // With dispersion 2 and mean 1, N is geometric: P(N ≥ k) = 2⁻ᵏ.
/// assert!((at_least(1.0, 2.0, 5) - 1.0 / 32.0).abs() < 1e-9);
/// ```
pub fn at_least(mean: f64, dispersion: f64, least: u32) -> f64 {
    if dispersion <= 1.0 + 1e-6 || mean <= 0.0 || least == 0 {
        return poisson::at_least(mean, least);
    }
    let shape = mean / (dispersion - 1.0);
    let success = 1.0 - dispersion.recip();
    // ln P(N = k) = ln Γ(k + r)/(Γ(r) k!) + r·ln(1/φ) + k·ln(1 − 1/φ)
    let ln_chance =
        |k: f64| ln_rising(shape, k) - ln_rising(1.0, k) - shape * dispersion.ln() + k * success.ln();
    let first = f64::from(least);
    if first <= mean {
        let (mut k, mut sum) = (first - 1.0, 0.0);
        let mut term = ln_chance(k).exp();
        while k >= 0.0 && term > sum * 1e-17 {
            sum += term;
            term *= k / ((k - 1.0 + shape) * success);
            k -= 1.0;
        }
        return (1.0 - sum).clamp(0.0, 1.0);
    }
    let (mut k, mut sum) = (first, 0.0);
    let mut term = ln_chance(k).exp();
    while term > sum * 1e-12 && term > f64::MIN_POSITIVE {
        sum += term;
        term *= (k + shape) / (k + 1.0) * success;
        k += 1.0;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_have_the_mean_and_the_variance() {
        for (mean, dispersion) in [(0.3, 1.5), (4.0, 3.0), (30.0, 8.0), (200.0, 2.0)] {
            let tails: Vec<f64> = (0..4000).map(|least| at_least(mean, dispersion, least)).collect();
            assert!(tails.is_sorted_by(|a, b| a >= &(b - 1e-9)), "{mean} {dispersion}");
            let chances = tails.windows(2).map(|pair| pair[0] - pair[1]);
            let (mut sum, mut squares) = (0.0, 0.0);
            for (k, chance) in chances.enumerate() {
                sum += k as f64 * chance;
                squares += (k as f64).powi(2) * chance;
            }
            assert!((sum - mean).abs() < 1e-4 * mean, "{mean} {dispersion}: {sum}");
            let variance = squares - sum * sum;
            assert!((variance / mean - dispersion).abs() < 1e-3 * dispersion, "{variance}");
        }
        assert_eq!(at_least(3.0, 1.0, 5), poisson::at_least(3.0, 5));
        assert!((at_least(3.0, 1.001, 5) - poisson::at_least(3.0, 5)).abs() < 1e-3);
        assert_eq!((at_least(0.0, 2.0, 1), at_least(5.0, 2.0, 0)), (0.0, 1.0));
    }
}
