//! A running sum to which things are added and from which they are taken for millions of steps.
//!
//! Exists because a plain sum would drift, and a cost may not end up below its bound by rounding. Keeps
//! what rounding takes away (Neumaier's form of Kahan summation). Knows numbers only.

/// A sum, and what it lost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    /// One more.
    pub fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        self.lost +=
            if self.sum.abs() >= term.abs() { (self.sum - sum) + term } else { (term - sum) + self.sum };
        self.sum = sum;
    }

    /// What it comes to.
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
    fn nothing_is_lost_in_a_million_steps() {
        let mut sum = Sum::default();
        for _ in 0..1_000_000 {
            sum.add(0.1);
            sum.add(1e6);
            sum.add(-1e6);
        }
        assert!((sum.value() - 1e5).abs() < 1e-8, "{}", sum.value());
    }
}
