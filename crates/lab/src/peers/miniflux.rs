//! Miniflux's `entry_frequency` scheduler: as often as the feed has published within the last week.
//!
//! As its manual page and `internal/model/feed.go`, `internal/storage/feed.go` have it: the weekly
//! count is a week over the mean gap of the entries dated within the last seven days, rounded up, and 0
//! where there are fewer than two or all have one date. The interval is a week over count × factor, at
//! least 5 minutes and at most 24 hours, and 24 hours where the count is 0. The factor is 1.
//!
//! The entries counted are those stored before the probe, as it schedules before it parses. What was
//! seen once stays stored, whether the feed still shows it or not. At the first contact, when entries
//! are stored without a schedule and looked at again at once, they are counted as that second look would.
//!
//! Its poller wakes every `POLLING_FREQUENCY` (60 minutes), which makes short intervals longer; here it
//! is always awake. Factors are whole numbers there and any number here, and the limits are divided by
//! the factor too: else an idle feed could have no other number of probes than seven a week. With
//! factors below 1 the upper limit stays at 24 hours until the lower one comes there, at 1/288, and then
//! goes with it. Were it longer, a busy feed would spiral into neglect: what it shows is replaced between
//! two probes, so ever fewer entries are stored, so the next probe is ever later.
//!
//! Knows what it has stored. Must not know the feed's future.

use tidewatch_core::time::{Span, Timestamp};

use super::rule::{Rule, Shown};

const WEEK: Span = Span::from_days(7);
const SHORTEST: Span = Span::from_mins(5);
const LONGEST: Span = Span::from_hours(24);

/// The scheduler, and the entries of one feed.
pub(super) struct EntryFrequency {
    factor: f64,
    /// Dates, ascending.
    stored: Vec<Timestamp>,
}

impl EntryFrequency {
    pub(super) fn new(factor: f64) -> Self {
        Self { factor, stored: Vec::new() }
    }

    /// Entries a week, as if the last seven days had gone on at their mean gap.
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

impl Rule for EntryFrequency {
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
    use super::super::watch::{Watched, watch};
    use super::*;

    fn at(mins: i64) -> Timestamp {
        Timestamp::from_secs(mins * 60)
    }

    fn probes(events: &[Timestamp], factor: f64, days: i64) -> Vec<Timestamp> {
        let (from, min_spacing) = (at(0), Span::from_secs(1));
        let until = from + Span::from_days(days);
        watch(
            Peer::Miniflux,
            Some(factor),
            &Watched { events, holds: 10, from, until, min_spacing, phase: 0.0 },
        )
    }

    #[test]
    fn nothing_or_one_entry_a_week_is_looked_at_daily() {
        let daily: Vec<Timestamp> = (0..4).map(|day| at(day * 1440)).collect();
        assert_eq!(probes(&[], 1.0, 4), daily);
        assert_eq!(probes(&[at(-60)], 1.0, 4), daily);
        assert_eq!(probes(&[at(-60), at(-60), at(-60)], 1.0, 4), daily);
        // The limit moves with factors above 1, and below 1 once the other one comes there.
        assert_eq!(probes(&[], 2.0, 2), [at(0), at(720), at(1440), at(2160)]);
        assert_eq!(probes(&[], 1.0 / 288.0, 4), daily);
        assert_eq!(probes(&[], 1.0 / 576.0, 4), [at(0), at(2880)]);
    }

    #[test]
    fn the_mean_gap_of_the_week_is_the_interval() {
        // Three gaps of 8 hours: 21 a week, every 8 hours.
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
    fn what_is_older_than_a_week_does_not_count() {
        let mut rule = EntryFrequency::new(1.0);
        rule.stored = vec![at(0), at(60), at(120)];
        assert_eq!(rule.weekly_count(at(7 * 1440)), 168);
        assert_eq!(rule.weekly_count(at(7 * 1440 + 60)), 168);
        assert_eq!(rule.weekly_count(at(7 * 1440 + 61)), 0);
    }

    #[test]
    fn a_flurry_counts_from_the_probe_after_the_one_that_finds_it() {
        // Ten entries a minute apart, an hour after the start.
        let events: Vec<Timestamp> = (60..70).map(at).collect();
        let probes = probes(&events, 1.0, 10);
        // Nothing known at first; found a day later, counted the day after: every 5 minutes then.
        assert_eq!(probes[..5], [at(0), at(1440), at(2880), at(2885), at(2890)]);
        // Until it is a week old: with one entry left the count is 0.
        let week_later = 7 * 1440 + 70;
        let last_short = probes.iter().rposition(|&p| p <= at(week_later)).unwrap();
        assert_eq!(probes[last_short + 1] - probes[last_short], Span::from_days(1));
        assert_eq!(probes[last_short] - probes[last_short - 1], Span::from_mins(5));
    }
}
