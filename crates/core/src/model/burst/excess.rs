//! What a burst adds to the rhythm in the hours ahead.
//!
//! Exists so that a plan can follow λ(t) + P(burst)·β, which is what is to be expected now, and what
//! is expected less and less as time goes by. How long a burst goes on nobody knows; here as long as it
//! has lasted, and [`AT_FIRST`] updates at least. (That the filter's own mean length is four times as
//! long served worse in simulations, whether bursts lasted three hours or six: what is left of a budget
//! is better spent soon.) Knows one belief at one time; must not know how it was come by.

use serde::{Deserialize, Serialize};

use crate::model::obsolescence::hours;
use crate::model::steps::cut_together;
use crate::time::{Span, Timestamp};

/// Updates to be expected beyond the rhythm, as of one look.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Excess {
    /// The look.
    pub at: Timestamp,
    /// P(burst).
    pub probability: f64,
    /// β, updates per hour.
    pub per_hour: f64,
    /// How long the burst has lasted.
    pub lasted: Span,
}

/// A burst goes on for the time of this many of its updates, however new it is.
pub const AT_FIRST: f64 = 5.0;

/// The decay is cut into pieces of this share of its mean …
const PIECE: f64 = 0.5;
/// … of which there are so many; then nothing is left worth a word.
const PIECES: u32 = 8;

impl Excess {
    /// How long it will go on, on average. Between a minute and a week, whatever β is.
    pub fn lasts(&self) -> Span {
        let (least, most) = (Span::from_mins(1), Span::from_days(7));
        let at_first = if self.per_hour > 0.0 { AT_FIRST / self.per_hour } else { 0.0 };
        (Span::from_hours(1).scaled(at_first.min(168.0)) + self.lasted).clamp(least, most)
    }

    /// The pieces of a rate over [from, until), as [`Steps::over`](crate::model::steps::Steps::over)
    /// gives them, with this added: P·β·e^(−t/D), averaged over each piece, so that no update is lost.
    pub fn added_to(&self, rates: &[(i64, f64)], from: Timestamp, until: Timestamp) -> Vec<(i64, f64)> {
        let lasts = self.lasts();
        let mut extra = Vec::new();
        if self.at > from {
            // Since the last look, as much as then.
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

    /// Updates that it foretells from now on.
    pub fn expected(&self) -> f64 {
        self.probability * self.per_hour * hours(self.lasts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fades_and_loses_nothing() {
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
        // e^(−4) of it lies beyond the last piece.
        assert!((total - 24.0 - excess.expected() * (1.0 - (-4.0_f64).exp())).abs() < 1e-6, "{total}");
    }

    #[test]
    fn a_plan_that_begins_before_the_look_or_long_after_is_served() {
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
