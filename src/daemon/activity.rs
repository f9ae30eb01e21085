//! What is logged of probes: what each found, failures at growing intervals, and one summary a minute.
//!
//! The number of lines is bounded, whatever the number of sources. Must not decide anything, nor wait for the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tidewatch_core::time::{Span, Timestamp};

use crate::clock::real_pause;
use crate::store::reader::Reader;

use super::probe::Finished;

/// Updates, first answers and repaired documents that are logged per minute; the others are counted.
const MOST_LISTED: u64 = 60;

/// Different causes of failures that are counted; further ones are counted together.
const MOST_CAUSES: usize = 100;

/// How long failures with the same cause are counted.
const CAUSES_KEPT: Span = Span::from_hours(1);

/// What happened since the last summary.
#[derive(Debug, Default)]
pub struct ActivityCounters {
    probes: AtomicU64,
    updates: AtomicU64,
    failures: AtomicU64,
    latest_ms: AtomicI64,
    listed: AtomicU64,
}

/// Logs the ends of probes.
#[derive(Debug, Default)]
pub struct ActivityLog {
    counters: Arc<ActivityCounters>,
    /// Failures by cause.
    causes: BTreeMap<String, u32>,
    causes_since: Option<Timestamp>,
}

impl ActivityLog {
    /// What is counted, for a summary.
    pub fn counters(&self) -> Arc<ActivityCounters> {
        Arc::clone(&self.counters)
    }

    /// Logs the end of a probe of the source with that name. `failures` is the number of its failures in a row, `next`
    /// its next due time.
    pub fn probe_ended(
        &mut self,
        source: &str,
        finished: &Finished,
        failures: u32,
        next: Option<Timestamp>,
    ) {
        let next = next.map_or_else(|| "never".to_owned(), |at| at.iso());
        let counters = &self.counters;
        counters.probes.fetch_add(1, Ordering::Relaxed);
        let late = (finished.attempt.started - finished.attempt.due).as_millis();
        counters.latest_ms.fetch_max(late, Ordering::Relaxed);
        if let Some(error) = &finished.error {
            counters.failures.fetch_add(1, Ordering::Relaxed);
            // A failure that is not the source's fault does not count for it.
            let failures = failures.max(1);
            return match self.repetition(error, failures, finished.finished) {
                Some(repetition) => tracing::warn!(
                    source, %error, failures, %next,
                    "probe failed: {error}{repetition}; next probe {next}"
                ),
                None => tracing::debug!(source, %error, failures, %next, "probe failed: {error}"),
            };
        }
        let outcome = finished.outcome.name();
        let Some(seen) = &finished.observation else {
            return tracing::debug!(source, outcome, %next, "probed");
        };
        let found = seen.updates.len();
        counters.updates.fetch_add(found as u64, Ordering::Relaxed);
        tracing::debug!(source, outcome, updates = found, %next, "probed");
        if seen.first_contact && counters.may_list() {
            match &seen.page {
                Some(_) => {
                    tracing::info!(source, %next, "first answer: the page is known; next probe {next}")
                }
                None => {
                    let items = seen.present.len();
                    tracing::info!(source, items, %next, "first answer: {items} items known; next probe {next}");
                }
            }
        }
        for update in &seen.updates {
            if counters.may_list() {
                let kind = update.kind.name();
                let title = update.title.as_deref().unwrap_or(&update.key);
                tracing::info!(source, kind, "{kind}: {}", title.chars().take(200).collect::<String>());
            }
        }
        if let Some(note) = seen.note.as_ref().filter(|_| counters.may_list()) {
            tracing::info!(source, "{note}");
        }
    }

    /// Logs a failure by a fault of our own: an outage has one line at its begin and one at its end.
    pub fn failed_by_our_fault(&mut self, source: &str, finished: &Finished) {
        self.counters.probes.fetch_add(1, Ordering::Relaxed);
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        let error = finished.error.as_deref().unwrap_or_default();
        tracing::debug!(source, %error, "probe failed by a fault of our own: {error}");
    }

    /// How often it failed, if that is to be logged: for the 1st, 2nd, 4th, 8th … failure in a row of the source, of
    /// those for the 1st, 2nd, 4th … with the same cause.
    fn repetition(&mut self, error: &str, failures: u32, now: Timestamp) -> Option<String> {
        if !failures.is_power_of_two() {
            return None;
        }
        let same_cause = self.count_cause(error, now);
        let mut text = String::new();
        if failures > 1 {
            text.push_str(&format!(" ({failures} times in a row)"));
        }
        if same_cause > 1 {
            text.push_str(&format!("; {same_cause} failures with this cause within the hour"));
        }
        same_cause.is_power_of_two().then_some(text)
    }

    /// Counts a failure with this error. Returns how many had the same cause within the hour.
    fn count_cause(&mut self, error: &str, now: Timestamp) -> u32 {
        let kept = self.causes_since.is_some_and(|since| since <= now && now < since + CAUSES_KEPT);
        if !kept {
            self.causes.clear();
            self.causes_since = Some(now);
        }
        // Before it is the name of the host.
        let cause = error.rsplit(": ").next().unwrap_or(error);
        let known = self.causes.len() < MOST_CAUSES || self.causes.contains_key(cause);
        let count = self.causes.entry(if known { cause } else { "" }.to_owned()).or_default();
        *count = count.saturating_add(1);
        *count
    }
}

impl ActivityCounters {
    /// Whether one more update may be logged in this minute.
    fn may_list(&self) -> bool {
        self.listed.fetch_add(1, Ordering::Relaxed) < MOST_LISTED
    }

    /// The summary of what happened since the last one, without deliveries; `None`: nothing.
    fn take_summary(&self) -> Option<String> {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        let (probes, updates, failures) = (take(&self.probes), take(&self.updates), take(&self.failures));
        let late = Span::from_millis(self.latest_ms.swap(0, Ordering::Relaxed).max(0));
        let unlisted = take(&self.listed).saturating_sub(MOST_LISTED);
        let mut text = format!("{probes} probes, {updates} updates, {failures} failures");
        if late >= Span::from_secs(1) {
            text.push_str(&format!(", up to {late} late"));
        }
        if unlisted > 0 {
            text.push_str(&format!(
                "; {unlisted} updates, first answers or repaired feeds are not listed here"
            ));
        }
        (probes > 0).then_some(text)
    }
}

/// Logs a summary every minute in which something happened.
pub async fn summarize(counters: Arc<ActivityCounters>, reader: Reader) {
    loop {
        real_pause(Duration::from_secs(60)).await;
        let Some(mut summary) = counters.take_summary() else { continue };
        match reader.waiting_deliveries().await {
            Ok(0) => {}
            Ok(waiting) => summary.push_str(&format!("; {waiting} deliveries waiting")),
            Err(error) => tracing::debug!(%error, "deliveries cannot be counted"),
        }
        tracing::info!("last minute: {summary}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + secs)
    }

    /// The numbers of those failures that are logged.
    fn logged(count: u32, mut failure: impl FnMut(u32) -> Option<String>) -> Vec<u32> {
        (1..=count).filter(|&n| failure(n).is_some()).collect()
    }

    #[test]
    fn failures_of_one_source_are_logged_at_growing_intervals() {
        let mut log = ActivityLog::default();
        // Days apart: only the source is the same.
        let one_source = logged(70, |n| log.repetition("a: HTTP 500", n, at(i64::from(n) * 86_400)));
        assert_eq!(one_source, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(log.repetition("a: HTTP 500", 128, at(0)).as_deref(), Some(" (128 times in a row)"));
    }

    #[test]
    fn failures_with_one_cause_are_logged_at_growing_intervals() {
        let mut log = ActivityLog::default();
        let mut refused = |n: u32, secs| {
            log.repetition(&format!("cannot connect to host{n}: Connection refused"), 1, at(secs))
        };
        assert_eq!(logged(1000, |n| refused(n, 0)), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(refused(1, 3_600).as_deref(), Some(""), "an hour later");
        assert_eq!(refused(2, 3_600).as_deref(), Some("; 2 failures with this cause within the hour"));
        assert_eq!(refused(3, -1).as_deref(), Some(""), "the clock was set back");
        assert_eq!(log.repetition("HTTP 404", 1, at(-1)).as_deref(), Some(""), "another cause");
    }

    #[test]
    fn causes_are_bounded() {
        let mut log = ActivityLog::default();
        let many = logged(10_000, |n| log.repetition(&format!("cause {n}"), 1, at(0)));
        assert!(many.len() < MOST_CAUSES + 15, "{}", many.len());
    }

    #[test]
    fn a_summary_counts_one_minute_and_a_quiet_one_has_none() {
        let counters = ActivityCounters::default();
        assert_eq!(counters.take_summary(), None);
        counters.probes.store(12, Ordering::Relaxed);
        counters.failures.store(2, Ordering::Relaxed);
        counters.latest_ms.store(12_000, Ordering::Relaxed);
        let listed = (0..100).filter(|_| counters.may_list()).count();
        assert_eq!(listed, 60);
        let summary = counters.take_summary().unwrap();
        assert_eq!(
            summary,
            "12 probes, 0 updates, 2 failures, up to 12s late; 40 updates, first answers or repaired feeds are not listed here"
        );
        assert_eq!(counters.take_summary(), None);
        assert!(counters.may_list(), "in the next minute");
    }
}
