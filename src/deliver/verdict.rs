//! How an attempt ended, and what follows from it.
//!
//! Pure: what was, and `now`, in; what becomes of the row out. Must not know how a target is told.

use crate::store::outbox::Waiting;
use crate::store::record::Settled;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The target has taken it.
    Delivered,
    /// Not this time.
    Failed {
        /// Why.
        error: String,
        /// The target asks for this much rest.
        rest: Option<Span>,
    },
    /// The target will never take this document.
    Refused(String),
}

impl Verdict {
    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self::Failed { error: error.into(), rest: None }
    }
}

const FIRST_PAUSE: Span = Span::from_secs(5);
const LONGEST_PAUSE: Span = Span::from_mins(15);

/// A target that asks for more rest than this gets this much: it may be a slip, and others wait.
pub(super) const LONGEST_REST: Span = Span::from_days(1);

/// After fewer attempts nothing is given up, whatever the clock says: we may have been off for most
/// of the time, or the clock may have been set.
const FEWEST_ATTEMPTS: u32 = 4;

/// An error is cut to this many characters; what a program said last fits in.
const LONGEST_ERROR: usize = 8192;

/// What becomes of a row after an attempt that began at `tried_at` and ended `now`.
pub(super) fn settled(
    verdict: Verdict,
    row: &Waiting,
    (tried_at, now): (Timestamp, Timestamp),
    give_up: Span,
    seed: u64,
) -> Settled {
    let (error, rest) = match verdict {
        Verdict::Delivered => return Settled::Delivered,
        Verdict::Refused(error) => return Settled::Dead { error: line(&error) },
        Verdict::Failed { error, rest } => (line(&error), rest),
    };
    let deadline = row.first_tried_at.unwrap_or(tried_at) + give_up;
    let attempts = row.attempts.saturating_add(1);
    if now >= deadline && attempts >= FEWEST_ATTEMPTS {
        return Settled::Dead { error: format!("given up after {attempts} attempts: {error}") };
    }
    let mut next_at = now + pause(row, seed);
    if deadline > now {
        // A last time at the deadline rather than never again.
        next_at = next_at.min(deadline);
    }
    if let Some(rest) = rest {
        next_at = next_at.max(now + rest.min(LONGEST_REST));
    }
    Settled::Failed { next_at, error }
}

/// Doubles from attempt to attempt; a little less at random, so that rows that failed together do
/// not come back together.
fn pause(row: &Waiting, seed: u64) -> Span {
    let doubled = FIRST_PAUSE.scaled(2_f64.powi(i32::try_from(row.attempts.min(30)).unwrap_or(30)));
    let draw = Stream::new(seed, format!("delivery {} {}", row.id, row.attempts)).unit();
    doubled.min(LONGEST_PAUSE).scaled(1.0 - 0.2 * draw)
}

/// Text from outside as one line of bounded length.
pub(super) fn line(text: &str) -> String {
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_ERROR).collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use tidewatch_core::source_id::SourceId;

    use super::*;

    const HOUR: Span = Span::from_hours(1);

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + secs)
    }

    fn row(attempts: u32, first_tried_at: Option<Timestamp>) -> Waiting {
        Waiting { id: 7, key: "k".into(), source: SourceId(1), attempts, first_tried_at, next_at: None }
    }

    fn next(verdict: Verdict, row: &Waiting, now: Timestamp) -> Span {
        match settled(verdict, row, (now, now), HOUR, 1) {
            Settled::Failed { next_at, .. } => next_at - now,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pauses_double_up_to_a_quarter_of_an_hour() {
        let of = |attempts| next(Verdict::failed("x"), &row(attempts, Some(at(0))), at(0)).as_secs_f64();
        for (attempts, most) in [(0, 5.0), (1, 10.0), (2, 20.0), (7, 640.0), (8, 900.0), (4_000_000, 900.0)]
        {
            assert!(of(attempts) <= most && of(attempts) >= 0.8 * most, "{attempts}: {}", of(attempts));
        }
    }

    #[test]
    fn a_row_is_given_up_after_its_time_and_not_after_one_attempt() {
        let late = at(3600);
        let dead = settled(Verdict::failed("x"), &row(9, Some(at(0))), (late, late), HOUR, 1);
        assert_eq!(dead, Settled::Dead { error: "given up after 10 attempts: x".into() });
        assert!(next(Verdict::failed("x"), &row(1, Some(at(0))), at(864_000)) > Span::ZERO);
        // The last attempt is at the deadline.
        assert_eq!(next(Verdict::failed("x"), &row(9, Some(at(0))), at(3590)), Span::from_secs(10));
        let never = settled(Verdict::Refused("no".into()), &row(0, None), (at(0), at(0)), HOUR, 1);
        assert_eq!(never, Settled::Dead { error: "no".into() });
    }

    #[test]
    fn rest_that_was_asked_for_is_given_also_past_the_deadline() {
        let asks = |secs| Verdict::Failed { error: "x".into(), rest: Some(Span::from_secs(secs)) };
        assert_eq!(next(asks(120), &row(0, None), at(0)), Span::from_secs(120));
        assert_eq!(next(asks(120), &row(9, Some(at(0))), at(3590)), Span::from_secs(120));
        assert!(next(asks(1), &row(0, None), at(0)) >= Span::from_secs(4), "at least our own pause");
        assert_eq!(next(asks(1_000_000_000), &row(0, None), at(0)), Span::from_days(1));
    }

    #[test]
    fn errors_are_one_line_without_control_characters() {
        assert_eq!(line(" a\r\n\u{1b}[31mb\0 "), "a   [31mb");
        assert_eq!(line(&"x".repeat(10_000)).len(), LONGEST_ERROR);
    }
}
