//! Every X-th update: their expected number, and the time of the next.
//!
//! If X − k updates have arrived since the last X-th one, the next needs k more. With m updates expected,
//! the time of the j-th update is Γ-distributed. The density of the X-th ones is the sum Γ(k) + Γ(k + X) +
//! Γ(k + 2X) + … Takes counts. May not know times. The integral of the density is the expected number by m,
//!
//! M(m) = Σ_j P(N ≥ k + jX) = E⌊(N + X − k)/X⌋, with N Poisson of mean m,
//!
//! and by the discrete Fourier transform of N mod X, with θ_w = 2πw/X,
//!
//! M(m) = (m + (X + 1)/2 − k)/X +
//! (1/X) Σ_{w=1}^{X−1} e^{m(cos θ_w − 1)} sin(m sin θ_w − (k − ½)θ_w)/(2 sin(θ_w/2)).
//!
//! Its derivative is P(N ≡ k − 1 mod X). The first form is used for small m. The second has few terms for
//! large m. The tests compare both with each other and with the densities.

use std::f64::consts::TAU;

use crate::model::poisson::at_least;

/// Terms below e^−37 are ignored.
const NEGLIGIBLE: f64 = 37.0;

/// Selects every X-th update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nth {
    /// X.
    every: u32,
    /// k, from 1 to X.
    missing: u32,
}

impl Nth {
    /// Every `every`-th update, with `counted` since the last one.
    pub fn new(every: u32, counted: u32) -> Self {
        let every = every.max(1);
        Self { every, missing: every - counted % every }
    }

    /// X.
    pub fn every(self) -> u32 {
        self.every
    }

    /// k.
    pub fn missing(self) -> u32 {
        self.missing
    }

    /// M(m): the expected number of X-th updates within `updates` expected updates.
    pub fn expected(self, updates: f64) -> f64 {
        match self.every {
            1 => updates,
            every if updates <= f64::from(every) => self.by_tails(updates),
            _ => self.by_waves(updates),
        }
    }

    fn by_tails(self, updates: f64) -> f64 {
        let tails = (self.missing..).step_by(self.every as usize).map(|count| at_least(updates, count));
        tails.take_while(|&tail| tail > 1e-17).sum()
    }

    fn by_waves(self, updates: f64) -> f64 {
        let (every, missing) = (f64::from(self.every), f64::from(self.missing));
        let mut sum = 0.0;
        for wave in 1..=self.every / 2 {
            let angle = TAU * f64::from(wave) / every;
            let fade = updates * (1.0 - angle.cos());
            if fade > NEGLIGIBLE {
                break;
            }
            let term = (-fade).exp() * (updates * angle.sin() - (missing - 0.5) * angle).sin();
            // w and X − w have the same term.
            let times = if 2 * wave == self.every { 1.0 } else { 2.0 };
            sum += times * term / (2.0 * (angle / 2.0).sin());
        }
        (updates + (every + 1.0) / 2.0 - missing + sum) / every
    }

    /// The probability that the next one has arrived within `updates` expected updates.
    pub fn has_come(self, updates: f64) -> f64 {
        at_least(updates, self.missing)
    }

    /// The time by which it has arrived with this probability, below 1: the quantile of Γ(k), in expected
    /// updates.
    pub fn comes_by(self, chance: f64) -> f64 {
        let (mut low, mut high) = (0.0, f64::from(self.missing));
        while self.has_come(high) < chance {
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if self.has_come(middle) < chance { low = middle } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The density of the time of the j-th update, by recursion.
    fn density(count: u32, at: f64) -> f64 {
        (1..count).fold((-at).exp(), |density, k| density * at / f64::from(k))
    }

    #[test]
    fn both_forms_agree() {
        for every in [2, 3, 5, 10, 37] {
            for counted in 0..every {
                let nth = Nth::new(every, counted);
                for updates in [0.5, 2.0, 7.0, 30.0, 90.0] {
                    let (tails, waves) = (nth.by_tails(updates), nth.by_waves(updates));
                    assert!((tails - waves).abs() < 1e-10, "{nth:?} {updates}: {tails} {waves}");
                }
            }
        }
    }

    #[test]
    fn the_expected_number_is_the_integral_of_gamma_densities() {
        for (every, counted) in [(1, 0), (2, 1), (5, 0), (5, 3), (10, 4)] {
            let nth = Nth::new(every, counted);
            let of = |at: f64| -> f64 {
                (every - counted..80).step_by(every as usize).map(|count| density(count, at)).sum()
            };
            let (step, mut sum) = (0.005, 0.0);
            for number in 0..5000 {
                let middle = (f64::from(number) + 0.5) * step;
                sum += of(middle) * step;
                let updates = f64::from(number + 1) * step;
                assert!((nth.expected(updates) - sum).abs() < 1e-4, "{nth:?} at {updates}");
            }
        }
    }

    #[test]
    fn the_derivative_is_the_chance_of_a_count_modulo_x() {
        // (1/X) Σ_w e^{m(cos θ − 1)} cos(m sin θ − rθ), r = k − 1: the textbook form.
        for (every, counted) in [(3_u32, 1), (10, 0), (10, 9)] {
            for updates in [0.3, 4.0, 25.0, 200.0] {
                let wave = |wave: u32| {
                    let angle = TAU * f64::from(wave) / f64::from(every);
                    let phase = updates * angle.sin() - f64::from(every - counted - 1) * angle;
                    (updates * (angle.cos() - 1.0)).exp() * phase.cos()
                };
                let chance = (0..every).map(wave).sum::<f64>() / f64::from(every);
                let (nth, by) = (Nth::new(every, counted), 1e-5);
                let slope = (nth.expected(updates + by) - nth.expected(updates - by)) / (2.0 * by);
                assert!((slope - chance).abs() < 1e-7, "{nth:?} {updates}: {slope} {chance}");
            }
        }
    }

    #[test]
    fn comes_by_inverts_has_come() {
        // Γ(1): the median of an exponential time.
        assert!((Nth::new(1, 0).comes_by(0.5) - std::f64::consts::LN_2).abs() < 1e-9);
        for (every, counted, chance) in [(5, 0, 0.1), (5, 4, 0.001), (1000, 10, 0.9)] {
            let nth = Nth::new(every, counted);
            assert!((nth.has_come(nth.comes_by(chance)) - chance).abs() < 1e-8);
        }
    }
}
