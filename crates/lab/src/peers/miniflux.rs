//! Miniflux's `entry_frequency` scheduler: one probe per entry of the last week.
//!
//! It follows the manual page, `internal/model/feed.go` and `internal/storage/feed.go`. The weekly count is a
//! week divided by the mean gap of the entries dated within the last seven days, rounded up. It is 0 if there
//! are fewer than two or all have one date. The interval is a week over count × factor, at least 5 minutes
//! and at most 24 hours, and 24 hours if the count is 0. The factor is 1. Must not know future updates.
//!
//! Entries count if they were stored before the probe, because Miniflux schedules before it parses. An entry
//! stays stored after the feed no longer shows it. At the first contact Miniflux stores entries without a
//! schedule and probes again at once; here they are counted as at that second probe.
//!
//! Miniflux's poller runs every `POLLING_FREQUENCY` (60 minutes), which lengthens short intervals; here it
//! runs all the time. Factors are integers there and any number here. The limits are divided by the factor
//! too: otherwise a feed without entries would always get seven probes a week. With factors below 1 the upper
//! limit stays at 24 hours until the lower one reaches it, at 1/288; then they are equal. With a longer upper
//! limit a busy feed would get fewer and fewer probes. Its items are replaced between two probes, so fewer
//! entries are stored, and the next probe is later.

use tidewatch_core::time::{Span, Timestamp};

use super::rule::{PeerRule, Shown};

const WEEK: Span = Span::from_days(7);
const SHORTEST: Span = Span::from_mins(5);
const LONGEST: Span = Span::from_hours(24);

/// The scheduler with the entries of one feed.
pub(super) struct EntryFrequency {
    factor: f64,
    /// Dates, ascending.
    stored: Vec<Timestamp>,
}

impl EntryFrequency {
    pub(super) fn new(factor: f64) -> Self {
        Self { factor, stored: Vec::new() }
    }

    /// Entries a week at the mean gap of the last seven days.
    fn weekly_count(&self, now: Timestamp) -> u64 {
        let recent = &self.stored[self.stored.partition_point(|&at| at < now - WEEK)..];
        let (Some(&oldest), Some(&newest)) = (recent.first(), recent.last()) else { return 0 };
        let spread = (newest - oldest).as_millis();
        if spread <= 0 {
            return 0;
        }
        let gap = spread as f64 / (recent.len() - 1) as f64;
        (WEEK.as_millis() as f64 / gap).ceil() as u64
    }
}

impl PeerRule for EntryFrequency {
    fn wait(&mut self, shown: &Shown<'_>) -> Span {
        let new = &shown.items[shown.items.len() - shown.new.min(shown.items.len())..];
        let before = shown.last.is_some().then(|| self.weekly_count(shown.now));
        self.stored.extend_from_slice(new);
        let by = |limit: Span| limit.scaled(1.0 / self.factor);
        let shortest = by(SHORTEST);
        let longest = by(LONGEST).min(LONGEST).max(shortest);
        match before.unwrap_or_else(|| self.weekly_count(shown.now)) {
            0 => longest,
            count => by(WEEK.scaled(1.0 / count as f64)).clamp(shortest, longest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::Peer;
    use super::super::peer_feed::{PeerFeed, UNLIMITED, watch};
    use super::*;

    fn at(mins: i64) -> Timestamp {
        Timestamp::from_secs(mins * 60)
    }

    fn probes(events: &[Timestamp], factor: f64, days: i64) -> Vec<Timestamp> {
        let from = at(0);
        let until = from + Span::from_days(days);
        watch(
            Peer::Miniflux,
            Some(factor),
            &PeerFeed { events, holds: 10, from, until, caps: UNLIMITED, phase: 0.0 },
        )
    }

    #[test]
    fn feed_with_at_most_one_entry_date_is_probed_daily() {
        let daily: Vec<Timestamp> = (0..4).map(|day| at(day * 1440)).collect();
        assert_eq!(probes(&[], 1.0, 4), daily);
        assert_eq!(probes(&[at(-60)], 1.0, 4), daily);
        assert_eq!(probes(&[at(-60), at(-60), at(-60)], 1.0, 4), daily);
        // The limit scales with factors above 1, and below 1 once the lower limit reaches it.
        assert_eq!(probes(&[], 2.0, 2), [at(0), at(720), at(1440), at(2160)]);
        assert_eq!(probes(&[], 1.0 / 288.0, 4), daily);
        assert_eq!(probes(&[], 1.0 / 576.0, 4), [at(0), at(2880)]);
    }

    #[test]
    fn interval_is_the_mean_gap_of_the_week() {
        // Three gaps of 8 hours: 21 a week, one every 8 hours.
        let events = [at(-1500), at(-1020), at(-540), at(-60)];
        assert_eq!(probes(&events, 1.0, 1), [at(0), at(480), at(960)]);
        assert_eq!(probes(&events, 2.0, 1)[..3], [at(0), at(240), at(480)]);
        // Two gaps of 5 hours on average: 33.6 a week count as 34.
        let events = [at(-640), at(-60), at(-40)];
        let every = Span::from_millis(604_800_000 / 34);
        let probes = probes(&events, 1.0, 1);
        assert!(((probes[1] - probes[0]) - every).as_millis().abs() <= 1, "{probes:?}");
    }

    #[test]
    fn entries_older_than_a_week_do_not_count() {
        let mut rule = EntryFrequency::new(1.0);
        rule.stored = vec![at(0), at(60), at(120)];
        assert_eq!(rule.weekly_count(at(7 * 1440)), 168);
        assert_eq!(rule.weekly_count(at(7 * 1440 + 60)), 168);
        assert_eq!(rule.weekly_count(at(7 * 1440 + 61)), 0);
    }

    #[test]
    fn burst_counts_from_the_probe_after_its_discovery() {
        // Ten entries a minute apart, an hour after the start.
        let events: Vec<Timestamp> = (60..70).map(at).collect();
        let probes = probes(&events, 1.0, 10);
        // No entries at first; found a day later, counted the day after: then every 5 minutes.
        assert_eq!(probes[..5], [at(0), at(1440), at(2880), at(2885), at(2890)]);
        // Until the entries are a week old: with one entry left the count is 0.
        let week_later = 7 * 1440 + 70;
        let last_short = probes.iter().rposition(|&p| p <= at(week_later)).unwrap();
        assert_eq!(probes[last_short + 1] - probes[last_short], Span::from_days(1));
        assert_eq!(probes[last_short] - probes[last_short - 1], Span::from_mins(5));
    }
}
