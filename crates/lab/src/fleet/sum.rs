//! A running sum with millions of additions and subtractions.
//!
//! A plain sum would drift, and a cost must not fall below its bound by rounding. This one keeps the rounding
//! errors (Neumaier's form of Kahan summation).

/// A sum and its accumulated rounding error.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    /// Adds a term.
    pub fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        self.lost +=
            if self.sum.abs() >= term.abs() { (self.sum - sum) + term } else { (term - sum) + self.sum };
        self.sum = sum;
    }

    /// The value.
    pub fn value(&self) -> f64 {
        self.sum + self.lost
    }
}

impl FromIterator<f64> for Sum {
    fn from_iter<T: IntoIterator<Item = f64>>(terms: T) -> Self {
        let mut sum = Self::default();
        terms.into_iter().for_each(|term| sum.add(term));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_errors_do_not_accumulate_over_a_million_steps() {
        let mut sum = Sum::default();
        for _ in 0..1_000_000 {
            sum.add(0.1);
            sum.add(1e6);
            sum.add(-1e6);
        }
        assert!((sum.value() - 1e5).abs() < 1e-8, "{}", sum.value());
    }
}
