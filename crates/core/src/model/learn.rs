//! Turns the observation of a probe into evidence for the source's history.
//!
//! Dated items are events at their dates; undated ones lie somewhere since the last probe. A page shows at
//! least one change, or with `Last-Modified` the time of its last change. Time without updates counts as
//! exposure. At first contact the dated items of a feed are history. May not know how evidence becomes a
//! rate, except for the estimate by which undated updates are distributed.

use crate::model::censored::behind_a_change;
use crate::model::fit::{WeeklyPrior, fit, level};
use crate::model::history::History;
use crate::observe::{Observation, Occurred, SourceKind, Update, UpdateKind};
use crate::time::Timestamp;

/// One probe of a source.
#[derive(Debug, Clone, Copy)]
pub struct ProbedUpdates<'a> {
    /// Feed or page.
    pub kind: SourceKind,
    /// The previous probe; `None` at first contact.
    pub last: Option<Timestamp>,
    /// This probe.
    pub now: Timestamp,
    /// The observation; `None` if the source reported no change.
    pub seen: Option<&'a Observation>,
    /// The part of the interval that belongs to a burst. Its updates and its time are excluded from the
    /// evidence (Bright, Gal, Raschid §8.2.2).
    pub except: Option<(Timestamp, Timestamp)>,
}

impl<'a> ProbedUpdates<'a> {
    /// A probe at the end of this time that found no updates. The kind does not matter then.
    pub fn silence((from, until): (Timestamp, Timestamp)) -> Self {
        Self { kind: SourceKind::Feed, last: Some(from), now: until, seen: None, except: None }
    }

    /// Its updates. Edits are none.
    pub fn updates(&self) -> impl Iterator<Item = &'a Update> + use<'a> {
        let updates = self.seen.map_or(&[][..], |seen| &seen.updates);
        updates.iter().filter(|update| update.kind != UpdateKind::Edited)
    }

    /// Whether it only shows that there was no update since the last probe.
    pub fn is_silent(&self) -> bool {
        let only_known = |seen: &Observation| !seen.first_contact && !seen.gap;
        self.last.is_some() && self.seen.is_none_or(only_known) && self.updates().next().is_none()
    }
}

/// Adds the observation of one probe to the evidence.
pub fn learn(history: &mut History, probe: &ProbedUpdates<'_>) {
    let first_contact = probe.seen.is_some_and(|seen| seen.first_contact);
    match (probe.last, probe.seen) {
        (_, Some(seen)) if first_contact => learn_past(history, seen, probe.now),
        (Some(last), _) => learn_since(history, probe, last),
        (None, _) => {}
    }
}

/// A feed's dated items at first contact. The oldest only marks the time since which the feed is complete.
fn learn_past(history: &mut History, seen: &Observation, now: Timestamp) {
    let mut dates: Vec<Timestamp> = seen.present.iter().filter_map(|item| item.dated).collect();
    dates.sort_unstable();
    if let Some((&oldest, later)) = dates.split_first().filter(|(oldest, _)| **oldest < now) {
        history.exposed(oldest, now);
        later.iter().for_each(|&at| history.update(at));
    }
}

fn learn_since(history: &mut History, probe: &ProbedUpdates<'_>, last: Timestamp) {
    let ProbedUpdates { kind, now, seen, except, .. } = *probe;
    let updates = seen.map_or(&[][..], |seen| &seen.updates);
    let burst = except.filter(|(from, until)| from < until && *until > last);
    let undated = |update: &Update| {
        update.kind != UpdateKind::Edited && matches!(update.occurred, Occurred::Between(..))
    };
    if burst.is_some() && (kind == SourceKind::Page || updates.iter().any(undated)) {
        // The updates of the burst cannot be separated from the others.
        return;
    }
    let mut exposed_from = last;
    if seen.is_some_and(|seen| seen.gap) {
        // Items older than the oldest present one may be missing.
        let oldest = seen.and_then(|seen| seen.present.iter().filter_map(|item| item.dated).min());
        exposed_from = oldest.unwrap_or(now).max(last);
    }
    let mut fitted = None;
    for update in updates.iter().filter(|update| update.kind != UpdateKind::Edited) {
        match (update.occurred, kind) {
            (Occurred::At(at), _) if burst.is_some_and(|(from, until)| from <= at && at <= until) => {}
            (Occurred::At(at), SourceKind::Feed) => history.update(at),
            (Occurred::At(at), SourceKind::Page) => {
                // Only the last change is visible. It and the time without updates since then are certain.
                history.update(at);
                exposed_from = at;
            }
            (Occurred::Between(from, until), _) => {
                // One fit for all: more updates of one probe change it little.
                let rate = fitted.get_or_insert_with(|| {
                    let evidence = history.evidence(now);
                    fit(&evidence, &WeeklyPrior::flat(level(&evidence)), history.zone()).rate
                });
                // A changed page changed at least once: the mean of a Poisson number that is not zero.
                let count = match kind {
                    SourceKind::Feed => 1.0,
                    SourceKind::Page => behind_a_change(rate.expected(from, until)),
                };
                history.spread(from, until, count, rate);
            }
        }
    }
    let (from, until) = burst.unwrap_or((now, now));
    history.exposed(exposed_from, from.min(now));
    history.exposed(until.max(exposed_from), now);
}

/// Counts the updates and the time of the excluded part for the mean rate.
pub fn count_burst(history: &mut History, probe: &ProbedUpdates<'_>) {
    let (Some((from, until)), Some(last)) = (probe.except, probe.last) else { return };
    let within = |at: Timestamp| from <= at && at <= until;
    let updates = probe.seen.map_or(&[][..], |seen| &seen.updates);
    let news = updates.iter().filter(|update| update.kind != UpdateKind::Edited);
    let undated = |update: &&Update| matches!(update.occurred, Occurred::Between(..));
    // Of undated updates the burst cannot be separated: all of the interval counts.
    let whole = probe.kind == SourceKind::Page || news.clone().any(|update| undated(&update));
    let (from, until) = if whole { (last, probe.now) } else { (from.max(last), until.min(probe.now)) };
    let count = news.filter(|update| match update.occurred {
        Occurred::At(at) => whole || within(at),
        Occurred::Between(..) => true,
    });
    history.burst(from, until, u32::try_from(count.count()).unwrap_or(u32::MAX));
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::observe::{ItemChange, Present};
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
        let dated = |hours| Present {
            key_hash: 0,
            fingerprint: 0,
            change: ItemChange::New,
            dated: Some(start() - Span::from_hours(hours)),
        };
        let seen = Observation {
            present: vec![dated(1), dated(10), dated(4)],
            first_contact: true,
            ..Observation::default()
        };
        learn(
            &mut history,
            &ProbedUpdates {
                kind: SourceKind::Feed,
                last: None,
                now: start(),
                seen: Some(&seen),
                except: None,
            },
        );
        assert!(close(totals(&history, start()), (2.0, 10.0)), "{:?}", totals(&history, start()));
        assert_eq!(history.seen(), 2);
    }

    #[test]
    fn time_without_updates_is_exposure_and_a_gap_is_not() {
        let mut history = history();
        let now = start() + Span::from_hours(6);
        learn(
            &mut history,
            &ProbedUpdates { kind: SourceKind::Feed, last: Some(start()), now, seen: None, except: None },
        );
        assert!(close(totals(&history, now), (0.0, 6.0)));
        let lost = Observation {
            gap: true,
            present: vec![Present {
                key_hash: 0,
                fingerprint: 0,
                change: ItemChange::New,
                dated: Some(now + Span::from_hours(3)),
            }],
            updates: vec![new_item(Occurred::At(now + Span::from_hours(3)))],
            ..Observation::default()
        };
        let later = now + Span::from_hours(4);
        learn(
            &mut history,
            &ProbedUpdates {
                kind: SourceKind::Feed,
                last: Some(now),
                now: later,
                seen: Some(&lost),
                except: None,
            },
        );
        assert!(close(totals(&history, later), (1.0, 7.0)), "{:?}", totals(&history, later));
    }

    #[test]
    fn edits_are_ignored_and_undated_items_are_spread() {
        let mut history = history();
        let now = start() + Span::from_hours(2);
        let edited = Update { kind: UpdateKind::Edited, ..new_item(Occurred::At(now)) };
        let undated = new_item(Occurred::Between(start(), now));
        let seen = Observation { updates: vec![edited, undated], ..Observation::default() };
        learn(
            &mut history,
            &ProbedUpdates {
                kind: SourceKind::Feed,
                last: Some(start()),
                now,
                seen: Some(&seen),
                except: None,
            },
        );
        let evidence = history.evidence(now);
        assert!((evidence.updates[0] - 0.5).abs() < 0.02 && (evidence.updates[1] - 0.5).abs() < 0.02);
    }

    #[test]
    fn a_dated_page_change_counts_as_exposure_from_its_date() {
        let mut history = history();
        let now = start() + Span::from_hours(8);
        let changed =
            Update { kind: UpdateKind::Changed, ..new_item(Occurred::At(start() + Span::from_hours(5))) };
        let seen = Observation { updates: vec![changed], ..Observation::default() };
        learn(
            &mut history,
            &ProbedUpdates {
                kind: SourceKind::Page,
                last: Some(start()),
                now,
                seen: Some(&seen),
                except: None,
            },
        );
        assert!(close(totals(&history, now), (1.0, 3.0)), "{:?}", totals(&history, now));
    }

    #[test]
    fn updates_and_time_of_a_burst_are_excluded() {
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
        let around = learned(SourceKind::Feed, dated(&[1, 3, 4, 5, 6, 8]), burst);
        assert!(close(around, (2.0, 7.0)), "{around:?}");
        assert_eq!(learned(SourceKind::Feed, dated(&[1, 3]), Some((start(), hours(10)))), (0.0, 0.0));
        let before = learned(SourceKind::Feed, dated(&[1, 3]), Some((hours(-5), start())));
        assert!(close(before, (2.0, 10.0)), "a burst that ended before the previous probe: {before:?}");
        // Undated updates cannot be assigned to the burst, so the whole interval is excluded.
        let undated = vec![new_item(Occurred::Between(start(), hours(10)))];
        assert_eq!(learned(SourceKind::Feed, undated, burst), (0.0, 0.0));
        let changed = Update { kind: UpdateKind::Changed, ..new_item(Occurred::At(hours(8))) };
        assert_eq!(learned(SourceKind::Page, vec![changed], burst), (0.0, 0.0));
    }
}
