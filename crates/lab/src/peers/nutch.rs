//! Nutch's `AdaptiveFetchSchedule`: the interval shrinks when a page has changed and grows when it has
//! not.
//!
//! It follows `nutch-default.xml` and the class. A page starts with an interval of 30 days. A fetch that
//! finds a change multiplies it by 1 − 0.2, one that finds none by 1 + 0.4; the first fetch does neither.
//! Then the schedule approaches the time of change (`sync_delta`), with Δ since the fetch that last found a
//! change. The interval is at least Δ, and the next fetch is 0.3·Δ earlier than the interval. The interval
//! stays between 60 seconds and 365 days, and at most 90 days by `db.fetch.interval.max`. Must not know the
//! dates of items: a page has none.
//!
//! At equilibrium about three fetches in five find a change, at any scale of the limits. So the number of
//! fetches depends on the limits, and the knob multiplies both: the longest matters for slow feeds, the
//! shortest for fast ones. This needs two additions. The shift is at most 0.3 of the interval. At the
//! defaults this changes nothing until a feed has no change for 90 days. Without it, a longest interval of
//! hours would put the next fetch in the past after a day without change. A tuned schedule starts at its
//! shortest interval, for every knob, not at 30 days. Starting at 30 days, it would take five months to reach
//! an hour, and the comparison would measure that instead of the rule.

use tidewatch_core::time::{Span, Timestamp};

use super::rule::{PeerRule, Shown};

const START: f64 = 30.0 * 86_400.0;
const SHORTEST: f64 = 60.0;
const LONGEST: f64 = 90.0 * 86_400.0;
const GROWS: f64 = 1.4;
const SHRINKS: f64 = 0.8;
const SHIFT: f64 = 0.3;

/// The schedule of one page.
pub(super) struct Adaptive {
    shortest: f64,
    longest: f64,
    /// In seconds.
    interval: f64,
    /// Time of the last change found; at first, time of the first fetch.
    modified: Option<Timestamp>,
}

impl Adaptive {
    /// The documented schedule.
    pub(super) fn usual() -> Self {
        Self { shortest: SHORTEST, longest: LONGEST, interval: START, modified: None }
    }

    /// The schedule with both limits multiplied.
    pub(super) fn tuned(scale: f64) -> Self {
        let (shortest, longest) = (SHORTEST * scale, LONGEST * scale);
        Self { shortest, longest, interval: shortest, modified: None }
    }
}

impl PeerRule for Adaptive {
    fn wait(&mut self, shown: &Shown<'_>) -> Span {
        let modified = match self.modified {
            Some(before) if shown.new == 0 => {
                self.interval *= GROWS;
                before
            }
            Some(_) => {
                self.interval *= SHRINKS;
                shown.now
            }
            None => shown.now,
        };
        self.modified = Some(modified);
        let since = (shown.now - modified).as_millis().div_euclid(1000) as f64;
        self.interval = self.interval.max(since).clamp(self.shortest, self.longest);
        Span::from_secs(1).scaled(self.interval - SHIFT * since.min(self.interval))
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::Peer;
    use super::super::peer_feed::{PeerFeed, UNLIMITED, watch};
    use super::*;

    const DAY: i64 = 86_400;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn waits(rule: &mut Adaptive, probes: &[(i64, usize)]) -> Vec<f64> {
        let wait = |&(secs, new): &(i64, usize)| {
            let shown = Shown { now: at(secs), last: None, new, items: &[] };
            rule.wait(&shown).as_secs_f64()
        };
        probes.iter().map(wait).collect()
    }

    #[test]
    fn changes_shorten_the_interval_and_their_absence_lengthens_it() {
        let mut rule = Adaptive::usual();
        // The first fetch does not change the interval. A change: 24 days. Another: 19.2 days.
        let first = [(0, 5), (30 * DAY, 1), (54 * DAY, 3)];
        assert_eq!(waits(&mut rule, &first), [30.0, 24.0, 19.2].map(|days| days * DAY as f64));
        // Unchanged after 19.2 days: 26.88 days, less 0.3 · 19.2, makes 21.12.
        let now = 54 * DAY + 1_658_880;
        assert_eq!(waits(&mut rule, &[(now, 0)]), [1_824_768.0]);
        // Unchanged 21.12 days later, 40.32 after the change: longer than 26.88 · 1.4.
        let now = now + 1_824_768;
        assert!((waits(&mut rule, &[(now, 0)])[0] - 0.7 * 40.32 * DAY as f64).abs() < 1e-3);
    }

    #[test]
    fn interval_limits_hold_and_scale_with_the_knob() {
        let mut rule = Adaptive::usual();
        let mut now = 0;
        for _ in 0..60 {
            now += waits(&mut rule, &[(now, 1)])[0] as i64;
        }
        assert_eq!(waits(&mut rule, &[(now, 1)]), [60.0]);
        let mut rule = Adaptive::tuned(2.0);
        assert_eq!(waits(&mut rule, &[(0, 1), (200, 1)]), [120.0, 120.0]);
        // Unchanged for a year: 0.7 of the longest interval.
        let longest = 0.7 * 180.0 * DAY as f64;
        assert!((waits(&mut rule, &[(365 * DAY, 0)])[0] - longest).abs() < 1e-3);
    }

    #[test]
    fn unchanged_page_is_fetched_at_growing_intervals() {
        let from = at(0);
        let feed = PeerFeed { events: &[], holds: 10, from, until: at(400), caps: UNLIMITED, phase: 0.0 };
        // At half the scale, from 30 s: 42 − 9 = 33; Δ = 63 over 58.8, so 0.7 · 63 = 44.1; Δ = 107 over
        // 88.2: 74.9; Δ = 182: 127.4.
        let secs = [0.0, 30.0, 63.0, 107.1, 182.0, 309.4];
        let probes = watch(Peer::Nutch, Some(0.5), &feed);
        let probes: Vec<f64> = probes.iter().map(|&probe| (probe - from).as_secs_f64()).collect();
        assert_eq!(probes, secs);
    }
}
