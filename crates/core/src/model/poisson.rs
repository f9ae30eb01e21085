//! The tail of the Poisson distribution to full relative precision.
//!
//! May not know the counted quantity.

/// P(N ≥ least) of a Poisson number N with this mean.
///
/// ```
/// # use tidewatch_core::model::poisson::at_least;
/// // 1 − e⁻¹
/// assert!((at_least(1.0, 1) - 0.632_120_558_828_557_7).abs() < 1e-12);
/// ```
pub fn at_least(mean: f64, least: u32) -> f64 {
    if least == 0 {
        return 1.0;
    }
    if mean <= 0.0 {
        return 0.0;
    }
    let first = f64::from(least);
    if first <= mean {
        // The tail is large: sum downwards from P(N = least − 1) and subtract from 1.
        let mut k = first - 1.0;
        let mut term = (k * mean.ln() - mean - log_factorial(least - 1)).exp();
        let mut sum = 0.0;
        while k >= 0.0 && term > sum * 1e-17 {
            sum += term;
            term *= k / mean;
            k -= 1.0;
        }
        return (1.0 - sum).max(0.0);
    }
    // Sum upwards from P(N = least): the terms decrease from the start.
    let mut k = first;
    let mut term = (k * mean.ln() - mean - log_factorial(least)).exp();
    let mut sum = 0.0;
    while term > sum * 1e-17 && term > f64::MIN_POSITIVE {
        sum += term;
        k += 1.0;
        term *= mean / k;
    }
    sum.min(1.0)
}

/// ln n!. Stirling's series where it is accurate to twelve digits.
fn log_factorial(n: u32) -> f64 {
    if n < 32 {
        return (2..=n).map(|k| f64::from(k).ln()).sum();
    }
    let x = f64::from(n);
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_add_up_to_one() {
        for mean in [0.01, 0.5, 3.0, 20.0, 300.0] {
            let mut below = 0.0;
            let mut term = f64::exp(-mean);
            for least in 0..60_u32 {
                let tail = at_least(mean, least);
                assert!((tail + below - 1.0).abs() < 1e-11, "{mean} {least}: {tail} {below}");
                below += term;
                term *= mean / f64::from(least + 1);
            }
        }
        // Far in the tail, where 1 − sum would lose all digits: 0.001⁵/5! and a little.
        assert!((at_least(0.001, 5) - 8.326_393_e-18).abs() < 1e-22);
        assert!((at_least(2000.0, 2001) - 0.494_05).abs() < 1e-3);
    }
}
