//! The additional rate of a burst in the hours ahead.
//!
//! A plan uses λ(t) + P(burst)·β, with an exponential decay of the second term. The remaining length of a
//! burst is unknown; it is estimated as the time it has lasted plus the time of [`AT_FIRST`] updates. (The
//! filter's mean length is four times as long and did worse in simulations, for bursts of three and of
//! six hours.) Holds one estimate at one time. May not know how it was computed.

use serde::{Deserialize, Serialize};

use crate::model::obsolescence::hours;
use crate::model::steps::cut_together;
use crate::time::{Span, Timestamp};

/// Expected updates beyond the rate, as of one probe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Excess {
    /// The time of the probe.
    pub at: Timestamp,
    /// P(burst).
    pub probability: f64,
    /// β, updates per hour.
    pub per_hour: f64,
    /// How long the burst has lasted.
    pub lasted: Span,
}

/// A new burst is expected to last for at least this many of its updates.
pub const AT_FIRST: f64 = 5.0;

/// The decay is divided into pieces of this share of its mean …
const PIECE: f64 = 0.5;
/// … and this many of them; the rest is negligible.
const PIECES: u32 = 8;

impl Excess {
    /// The expected remaining duration, between a minute and a week.
    pub fn lasts(&self) -> Span {
        let (least, most) = (Span::from_mins(1), Span::from_days(7));
        let at_first = if self.per_hour > 0.0 { AT_FIRST / self.per_hour } else { 0.0 };
        (Span::from_hours(1).scaled(at_first.min(168.0)) + self.lasted).clamp(least, most)
    }

    /// The pieces of a rate over [from, until), as returned by
    /// [`Steps::over`](crate::model::steps::Steps::over), plus P·β·e^(−t/D). That term is averaged over each
    /// piece, so its integral is preserved.
    pub fn added_to(&self, rates: &[(i64, f64)], from: Timestamp, until: Timestamp) -> Vec<(i64, f64)> {
        let lasts = self.lasts();
        let mut extra = Vec::new();
        if self.at > from {
            // Before the probe the full excess applies.
            extra.push(((self.at.min(until) - from).as_millis(), self.probability * self.per_hour));
        }
        for piece in 0..PIECES {
            let (begin, end) = (f64::from(piece) * PIECE, f64::from(piece + 1) * PIECE);
            let mean = ((-begin).exp() - (-end).exp()) / PIECE;
            let ends = (self.at + lasts.scaled(end)).min(until);
            if ends > from && extra.last().is_none_or(|&(last, _)| last < (ends - from).as_millis()) {
                extra.push(((ends - from).as_millis(), self.probability * self.per_hour * mean));
            }
        }
        extra.push(((until - from).as_millis(), 0.0));
        cut_together(rates, &extra).into_iter().map(|(end, rate, more)| (end, rate + more)).collect()
    }

    /// Expected additional updates from now on.
    pub fn expected(&self) -> f64 {
        self.probability * self.per_hour * hours(self.lasts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excess_decays_and_its_integral_is_preserved() {
        let at = Timestamp::from_secs(1_000_000);
        let excess = Excess { at, probability: 0.5, per_hour: 2.5, lasted: Span::ZERO };
        assert_eq!(excess.lasts(), Span::from_hours(2));
        let older = Excess { lasted: Span::from_hours(3), ..excess };
        assert_eq!(older.lasts(), Span::from_hours(5));
        let (from, until) = (at, at + Span::from_days(1));
        let day = Span::from_days(1).as_millis();
        let pieces = excess.added_to(&[(day, 1.0)], from, until);
        assert!(pieces.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1), "{pieces:?}");
        assert_eq!(pieces.last(), Some(&(day, 1.0)));
        let mut before = 0;
        let total: f64 = pieces
            .iter()
            .map(|&(end, rate)| {
                let length = Span::from_millis(end - before);
                before = end;
                hours(length) * rate
            })
            .sum();
        // A share e^(−4) lies beyond the last piece.
        assert!((total - 24.0 - excess.expected() * (1.0 - (-4.0_f64).exp())).abs() < 1e-6, "{total}");
    }

    #[test]
    fn a_plan_may_begin_before_or_long_after_the_probe() {
        let at = Timestamp::from_secs(1_000_000);
        let excess = Excess { at, probability: 1.0, per_hour: 5.0, lasted: Span::ZERO };
        let hour = Span::from_hours(1);
        let of = |from: Timestamp, until: Timestamp| {
            excess.added_to(&[((until - from).as_millis(), 2.0)], from, until)
        };
        assert_eq!(of(at - hour, at), [(hour.as_millis(), 7.0)]);
        let late = of(at + hour.scaled(5.0), at + hour.scaled(6.0));
        assert_eq!(late, [(hour.as_millis(), 2.0)]);
        let none = Excess { per_hour: 0.0, ..excess };
        let flat = none.added_to(&[(hour.as_millis(), 2.0)], at, at + hour);
        assert!(flat.iter().all(|piece| piece.1 == 2.0) && none.expected() == 0.0);
    }
}
