//! The observation reaches the source's history.
//!
//! Turns what a look saw into evidence, by what can be known from it: dated items are events at
//! their dates; undated ones lie somewhere since the last look; a page tells only that it changed
//! at least once, or, with `Last-Modified`, when last; quiet time counts as much as events. On
//! first contact the dated items of a feed are history. Must not know how evidence becomes a rate,
//! but for the guess that undated updates are spread by.

use crate::model::censored::behind_a_change;
use crate::model::fit::{WeeklyPrior, fit, level};
use crate::model::history::History;
use crate::observe::{Kind, Observation, Occurred, Update, UpdateKind};
use crate::time::Timestamp;

/// One look at a source.
#[derive(Debug, Clone, Copy)]
pub struct ProbedUpdates<'a> {
    /// Feed or page.
    pub kind: Kind,
    /// The look before; `None` on first contact.
    pub last: Option<Timestamp>,
    /// This one.
    pub now: Timestamp,
    /// What was seen; `None` when the source said that nothing had changed.
    pub seen: Option<&'a Observation>,
    /// The part of it that a burst was on: neither its updates nor its time say anything about the
    /// rhythm, as if nobody had watched (Bright, Gal, Raschid §8.2.2).
    pub except: Option<(Timestamp, Timestamp)>,
}

/// Adds what a look saw to the evidence.
pub fn learn(history: &mut History, look: &ProbedUpdates<'_>) {
    let first_contact = look.seen.is_some_and(|seen| seen.first_contact);
    match (look.last, look.seen) {
        (_, Some(seen)) if first_contact => learn_past(history, seen, look.now),
        (Some(last), _) => learn_since(history, look, last),
        (None, _) => {}
    }
}

/// A feed's dated items at first contact. The oldest only says since when the feed is complete.
fn learn_past(history: &mut History, seen: &Observation, now: Timestamp) {
    let mut dates: Vec<Timestamp> = seen.present.iter().filter_map(|item| item.dated).collect();
    dates.sort_unstable();
    if let Some((&oldest, later)) = dates.split_first().filter(|(oldest, _)| **oldest < now) {
        history.exposed(oldest, now);
        later.iter().for_each(|&at| history.update(at));
    }
}

fn learn_since(history: &mut History, look: &ProbedUpdates<'_>, last: Timestamp) {
    let ProbedUpdates { kind, now, seen, except, .. } = *look;
    let updates = seen.map_or(&[][..], |seen| &seen.updates);
    let burst = except.filter(|(from, until)| from < until && *until > last);
    let undated = |update: &Update| {
        update.kind != UpdateKind::Edited && matches!(update.occurred, Occurred::Between(..))
    };
    if burst.is_some() && (kind == Kind::Page || updates.iter().any(undated)) {
        // What belongs to the burst cannot be told.
        return;
    }
    let mut exposed_from = last;
    if seen.is_some_and(|seen| seen.gap) {
        // Items may have been lost before the oldest that is there.
        let oldest = seen.and_then(|seen| seen.present.iter().filter_map(|item| item.dated).min());
        exposed_from = oldest.unwrap_or(now).max(last);
    }
    for update in updates.iter().filter(|update| update.kind != UpdateKind::Edited) {
        match (update.occurred, kind) {
            (Occurred::At(at), _) if burst.is_some_and(|(from, until)| from <= at && at <= until) => {}
            (Occurred::At(at), Kind::Feed) => history.update(at),
            (Occurred::At(at), Kind::Page) => {
                // Only the last change shows: what is known is that change, and the quiet since.
                history.update(at);
                exposed_from = at;
            }
            (Occurred::Between(from, until), _) => {
                let evidence = history.evidence(now);
                let rate = fit(&evidence, &WeeklyPrior::flat(level(&evidence)), history.zone()).rate;
                // A page that changed did so at least once: the mean of a Poisson number that is
                // not zero.
                let count = match kind {
                    Kind::Feed => 1.0,
                    Kind::Page => behind_a_change(rate.expected(from, until)),
                };
                history.spread(from, until, count, &rate);
            }
        }
    }
    let (from, until) = burst.unwrap_or((now, now));
    history.exposed(exposed_from, from.min(now));
    history.exposed(until.max(exposed_from), now);
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::observe::Present;
    use crate::time::Span;

    fn start() -> Timestamp {
        Timestamp::parse_iso("2026-11-16T00:00:00Z").expect("valid")
    }

    fn history() -> History {
        History::new(TimeZone::UTC, Span::from_days(56), start())
    }

    fn new_item(occurred: Occurred) -> Update {
        Update::bare(UpdateKind::New, occurred, "k")
    }

    fn totals(history: &History, now: Timestamp) -> (f64, f64) {
        let evidence = history.evidence(now);
        (evidence.total_updates(), evidence.total_hours())
    }

    fn close(got: (f64, f64), wanted: (f64, f64)) -> bool {
        (got.0 - wanted.0).abs() < 0.02 * wanted.0.max(0.1)
            && (got.1 - wanted.1).abs() < 0.02 * wanted.1.max(0.1)
    }

    #[test]
    fn dated_items_at_first_contact_are_history() {
        let mut history = history();
        let dated =
            |hours| Present { key_hash: 0, fingerprint: 0, dated: Some(start() - Span::from_hours(hours)) };
        let seen = Observation {
            present: vec![dated(1), dated(10), dated(4)],
            first_contact: true,
            ..Observation::default()
        };
        learn(
            &mut history,
            &ProbedUpdates { kind: Kind::Feed, last: None, now: start(), seen: Some(&seen), except: None },
        );
        assert!(close(totals(&history, start()), (2.0, 10.0)), "{:?}", totals(&history, start()));
        assert_eq!(history.seen(), 2);
    }

    #[test]
    fn quiet_time_counts_and_a_gap_does_not() {
        let mut history = history();
        let now = start() + Span::from_hours(6);
        learn(
            &mut history,
            &ProbedUpdates { kind: Kind::Feed, last: Some(start()), now, seen: None, except: None },
        );
        assert!(close(totals(&history, now), (0.0, 6.0)));
        let lost = Observation {
            gap: true,
            present: vec![Present { key_hash: 0, fingerprint: 0, dated: Some(now + Span::from_hours(3)) }],
            updates: vec![new_item(Occurred::At(now + Span::from_hours(3)))],
            ..Observation::default()
        };
        let later = now + Span::from_hours(4);
        learn(
            &mut history,
            &ProbedUpdates {
                kind: Kind::Feed,
                last: Some(now),
                now: later,
                seen: Some(&lost),
                except: None,
            },
        );
        assert!(close(totals(&history, later), (1.0, 7.0)), "{:?}", totals(&history, later));
    }

    #[test]
    fn edits_are_not_updates_of_the_rhythm_and_undated_items_are_spread() {
        let mut history = history();
        let now = start() + Span::from_hours(2);
        let edited = Update { kind: UpdateKind::Edited, ..new_item(Occurred::At(now)) };
        let undated = new_item(Occurred::Between(start(), now));
        let seen = Observation { updates: vec![edited, undated], ..Observation::default() };
        learn(
            &mut history,
            &ProbedUpdates { kind: Kind::Feed, last: Some(start()), now, seen: Some(&seen), except: None },
        );
        let evidence = history.evidence(now);
        assert!((evidence.updates[0] - 0.5).abs() < 0.02 && (evidence.updates[1] - 0.5).abs() < 0.02);
    }

    #[test]
    fn a_page_with_a_date_is_known_since_then() {
        let mut history = history();
        let now = start() + Span::from_hours(8);
        let changed =
            Update { kind: UpdateKind::Changed, ..new_item(Occurred::At(start() + Span::from_hours(5))) };
        let seen = Observation { updates: vec![changed], ..Observation::default() };
        learn(
            &mut history,
            &ProbedUpdates { kind: Kind::Page, last: Some(start()), now, seen: Some(&seen), except: None },
        );
        assert!(close(totals(&history, now), (1.0, 3.0)), "{:?}", totals(&history, now));
    }

    #[test]
    fn a_burst_is_kept_out() {
        let hours = |hours| start() + Span::from_hours(hours);
        let learned = |kind, updates: Vec<Update>, except| {
            let mut history = history();
            let seen = Observation { updates, ..Observation::default() };
            let (last, now) = (Some(start()), hours(10));
            learn(&mut history, &ProbedUpdates { kind, last, now, seen: Some(&seen), except });
            totals(&history, now)
        };
        let dated = |list: &[i64]| list.iter().map(|&at| new_item(Occurred::At(hours(at)))).collect();
        let burst = Some((hours(3), hours(6)));
        let around = learned(Kind::Feed, dated(&[1, 3, 4, 5, 6, 8]), burst);
        assert!(close(around, (2.0, 7.0)), "{around:?}");
        assert_eq!(learned(Kind::Feed, dated(&[1, 3]), Some((start(), hours(10)))), (0.0, 0.0));
        let before = learned(Kind::Feed, dated(&[1, 3]), Some((hours(-5), start())));
        assert!(close(before, (2.0, 10.0)), "over before the look: {before:?}");
        // Without dates nobody can tell.
        let undated = vec![new_item(Occurred::Between(start(), hours(10)))];
        assert_eq!(learned(Kind::Feed, undated, burst), (0.0, 0.0));
        let changed = Update { kind: UpdateKind::Changed, ..new_item(Occurred::At(hours(8))) };
        assert_eq!(learned(Kind::Page, vec![changed], burst), (0.0, 0.0));
    }
}
