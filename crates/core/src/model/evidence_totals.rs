//! Totals of the evidence on one source, and how they change while time without updates passes.
//!
//! Weights decay, but all alike: so sums are kept relative to a reference time. May not know local time or how
//! evidence is stored.

/// Totals of the evidence as of one instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EvidenceTotals {
    /// Number of updates, with decay.
    pub updates: f64,
    /// Hours of exposure, with decay.
    pub hours: f64,
    /// Variance over mean of the daily counts, at least 1. This many updates count as one independent event.
    pub clumping: f64,
    /// Updates and hours of bursts, with decay.
    pub bursts: (f64, f64),
}

/// Sums of the evidence, with weights relative to a reference time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EvidenceSums {
    /// Updates and hours of exposure by day of the local week.
    pub of_day: [(f64, f64); 7],
    /// Days, counts of days and squared counts of days.
    pub days: [f64; 3],
    /// Updates and hours of bursts.
    pub bursts: (f64, f64),
}

impl EvidenceSums {
    /// Adds exposure without updates on a day of the week.
    pub fn expose(&mut self, day: usize, weight: f64, hours: f64) {
        self.of_day[day].1 += weight * hours;
        self.days[0] += weight * hours / 24.0;
    }

    /// Means over days of the count and of its square.
    pub fn daily(&self) -> (f64, f64) {
        let [days, counts, squares] = self.days;
        if days > 0.0 { (counts / days, squares / days) } else { (0.0, 0.0) }
    }

    /// The totals at a time at which weights are divided by this one.
    pub fn totals(&self, weight: f64) -> EvidenceTotals {
        let fade = weight.recip();
        let (updates, hours) =
            self.of_day.iter().fold((0.0, 0.0), |sum, day| (sum.0 + day.0, sum.1 + day.1));
        EvidenceTotals {
            updates: updates * fade,
            hours: hours * fade,
            clumping: self.clumping(fade),
            bursts: (self.bursts.0 * fade, self.bursts.1 * fade),
        }
    }

    /// Variance over mean of the daily counts, without the variance between the days of the week: that belongs
    /// to the cyclic rate. That variance is reduced first by its expected value under chance.
    fn clumping(&self, fade: f64) -> f64 {
        let (mean, square) = self.daily();
        if mean <= 0.0 {
            return 1.0;
        }
        let of_day = |&(updates, hours): &(f64, f64)| {
            if hours > 0.0 { (24.0 * updates / hours - mean).powi(2) / 7.0 } else { 0.0 }
        };
        let between: f64 = self.of_day.iter().map(of_day).sum();
        let by_chance = mean * 7.0 / (self.days[0] * fade).max(7.0);
        let flurries = square - mean * mean - (between - by_chance).max(0.0);
        (flurries / mean).max(1.0)
    }
}
