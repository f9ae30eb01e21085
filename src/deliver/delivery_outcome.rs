//! The result of an attempt, and the resulting state of its row.
//!
//! Pure functions of the row, the result and the time. Must not know how a target is reached.

use crate::store::outbox::WaitingDelivery;
use crate::store::record::Settled;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    /// The target accepted the document.
    Delivered,
    /// The attempt failed; a retry may succeed.
    Failed {
        /// The error message.
        error: String,
        /// The pause requested by the target.
        retry_after: Option<Span>,
    },
    /// The target refuses this document for good.
    Refused(String),
}

impl DeliveryOutcome {
    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self::Failed { error: error.into(), retry_after: None }
    }
}

const FIRST_PAUSE: Span = Span::from_secs(5);
pub(super) const LONGEST_PAUSE: Span = Span::from_mins(15);

/// Longest pause that a target can request; a longer one may be a mistake and would delay other rows.
pub(super) const LONGEST_REQUESTED_PAUSE: Span = Span::from_days(1);

/// Fewest attempts before a row is given up. The daemon may have been stopped most of the time, or the
/// clock may have been set.
const FEWEST_ATTEMPTS: u32 = 4;

/// Longest error in characters; the kept end of a program's standard error fits.
const LONGEST_ERROR: usize = 8192;

/// The state of a row after an attempt from `tried_at` to `now`.
pub(super) fn settled(
    outcome: DeliveryOutcome,
    row: &WaitingDelivery,
    (tried_at, now): (Timestamp, Timestamp),
    give_up: Span,
    seed: u64,
) -> Settled {
    let (error, retry_after) = match outcome {
        DeliveryOutcome::Delivered => return Settled::Delivered,
        DeliveryOutcome::Refused(error) => return Settled::Dead { error: line(&error) },
        DeliveryOutcome::Failed { error, retry_after } => (line(&error), retry_after),
    };
    let deadline = row.first_tried_at.unwrap_or(tried_at) + give_up;
    let attempts = row.attempts.saturating_add(1);
    if now >= deadline && attempts >= FEWEST_ATTEMPTS {
        return Settled::Dead { error: format!("given up after {attempts} attempts: {error}") };
    }
    let mut next_at = now + pause(row, seed);
    if deadline > now {
        // The last attempt is made at the deadline.
        next_at = next_at.min(deadline);
    }
    if let Some(retry_after) = retry_after {
        next_at = next_at.max(now + retry_after.min(LONGEST_REQUESTED_PAUSE));
    }
    Settled::Failed { next_at, pauses_target: retry_after.is_some(), error }
}

/// The pause before the next attempt.
fn pause(row: &WaitingDelivery, seed: u64) -> Span {
    doubled(row.attempts, Stream::new(seed, format!("delivery {} {}", row.id, row.attempts)))
}

/// The pause of a target after this many attempts in a row that failed, for deliveries of any source. None
/// after the first: it may concern its document only.
pub(super) fn pause_of_target(failures: u32, id: i64, seed: u64) -> Option<Span> {
    let repeated = failures.checked_sub(2)?;
    Some(doubled(repeated, Stream::new(seed, format!("target {id} {failures}"))))
}

/// A pause that doubles each time, less up to 20 % at random, so that those which failed together are not
/// retried together.
fn doubled(times: u32, mut jitter: Stream) -> Span {
    let doubled = FIRST_PAUSE.scaled(2_f64.powi(i32::try_from(times.min(30)).unwrap_or(30)));
    doubled.min(LONGEST_PAUSE).scaled(1.0 - 0.2 * jitter.unit())
}

/// External text as one line of bounded length.
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

    fn row(attempts: u32, first_tried_at: Option<Timestamp>) -> WaitingDelivery {
        WaitingDelivery { id: 7, key: "k".into(), source: SourceId(1), attempts, first_tried_at }
    }

    fn next(outcome: DeliveryOutcome, row: &WaitingDelivery, now: Timestamp) -> Span {
        match settled(outcome, row, (now, now), HOUR, 1) {
            Settled::Failed { next_at, .. } => next_at - now,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pauses_double_up_to_a_quarter_of_an_hour() {
        let of =
            |attempts| next(DeliveryOutcome::failed("x"), &row(attempts, Some(at(0))), at(0)).as_secs_f64();
        for (attempts, most) in [(0, 5.0), (1, 10.0), (2, 20.0), (7, 640.0), (8, 900.0), (4_000_000, 900.0)]
        {
            assert!(of(attempts) <= most && of(attempts) >= 0.8 * most, "{attempts}: {}", of(attempts));
        }
    }

    #[test]
    fn a_row_is_given_up_after_its_time_and_not_after_one_attempt() {
        let late = at(3600);
        let dead = settled(DeliveryOutcome::failed("x"), &row(9, Some(at(0))), (late, late), HOUR, 1);
        assert_eq!(dead, Settled::Dead { error: "given up after 10 attempts: x".into() });
        assert!(next(DeliveryOutcome::failed("x"), &row(1, Some(at(0))), at(864_000)) > Span::ZERO);
        // The last attempt is at the deadline.
        assert_eq!(next(DeliveryOutcome::failed("x"), &row(9, Some(at(0))), at(3590)), Span::from_secs(10));
        let never = settled(DeliveryOutcome::Refused("no".into()), &row(0, None), (at(0), at(0)), HOUR, 1);
        assert_eq!(never, Settled::Dead { error: "no".into() });
    }

    #[test]
    fn a_requested_pause_is_kept_even_past_the_deadline() {
        let asks =
            |secs| DeliveryOutcome::Failed { error: "x".into(), retry_after: Some(Span::from_secs(secs)) };
        assert_eq!(next(asks(120), &row(0, None), at(0)), Span::from_secs(120));
        assert_eq!(next(asks(120), &row(9, Some(at(0))), at(3590)), Span::from_secs(120));
        assert!(next(asks(1), &row(0, None), at(0)) >= Span::from_secs(4), "at least the computed pause");
        assert_eq!(next(asks(1_000_000_000), &row(0, None), at(0)), Span::from_days(1));
    }

    #[test]
    fn errors_are_one_line_without_control_characters() {
        assert_eq!(line(" a\r\n\u{1b}[31mb\0 "), "a   [31mb");
        assert_eq!(line(&"x".repeat(10_000)).len(), LONGEST_ERROR);
    }
}
