//! The scan: whether so many updates are too improbable under the rhythm, in any of a few windows.
//!
//! At each update the counts of the windows that end with it are held against their Poisson tails.
//! That update itself is no evidence, since it is why we ask: at an update of a Poisson source the
//! *others* of the window are Poisson with mean Λ (Slivnyak), so the tail is P(N ≥ observed − 1 | Λ).
//! It must be at most ε over the number of windows (Bonferroni): then each update raises a false
//! alarm with probability at most ε, for every rhythm, with no simulation to trust. The price is that
//! there are fewer than ε: counts are whole numbers, the windows overlap, and alarms come in clumps
//! of which only the first counts.
//!
//! An alarm ends when its window's count is one that a quiet source shows once in ten windows.
//!
//! A window that reaches back before the watch began counts nothing there, so it is blind at first
//! rather than wrong.
//!
//! Knows tails. Must not know of looks or where rates come from.

/// The windows, as multiples of W.
pub const WINDOWS: [f64; 4] = [0.25, 1.0, 4.0, 24.0];
/// An alarm is over when its count is no rarer than this.
const ORDINARY: f64 = 0.1;

/// Whether an update that makes it `observed` in a window raises an alarm.
pub fn is_alarming(observed: u32, expected: f64, false_alarms: f64) -> bool {
    let others = observed.saturating_sub(1);
    // Less than expected is never rare; and 0 is the probability of much where nothing is expected.
    f64::from(others) > expected
        && false_alarms > 0.0
        && at_least(expected, others) <= false_alarms / WINDOWS.len() as f64
}

/// Whether an alarm that a window raised is over.
pub fn is_ordinary(observed: u32, expected: f64) -> bool {
    f64::from(observed) <= expected || at_least(expected, observed) > ORDINARY
}

/// P(N ≥ least) of a Poisson N of this mean.
///
/// ```
/// # use tidewatch::rate::burst::tail::at_least;
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
        // What is left of 1 is large: down from P(N = least − 1).
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
    // Up from P(N = least): terms fall at once.
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

/// ln n!, by Stirling's series where that has twelve digits.
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
        // Far out, where 1 − sum would be all rounding: 0.001⁵/5! and a little.
        assert!((at_least(0.001, 5) - 8.326_393_e-18).abs() < 1e-22);
        assert!((at_least(2000.0, 2001) - 0.494_05).abs() < 1e-3);
    }

    #[test]
    fn the_update_itself_is_no_evidence() {
        assert!(!is_alarming(1, 0.0, 0.001) && !is_alarming(1, 1e-12, 0.001));
        // 1 − e^(−Λ) ≤ 0.001/4
        assert!(is_alarming(2, 0.000_25, 0.001) && !is_alarming(2, 0.000_26, 0.001));
        assert!(!is_alarming(100, 0.1, 0.0));
    }

    #[test]
    fn an_alarm_ends_well_below_where_it_begins() {
        for expected in [0.001, 0.1, 1.0, 10.0, 300.0] {
            let begins = (1..).find(|&count| is_alarming(count, expected, 0.001)).unwrap();
            let ends = (0..begins).rev().find(|&count| is_ordinary(count, expected)).unwrap();
            assert!(ends + 2 <= begins, "{expected}: {begins} {ends}");
        }
    }
}
