//! CommaFeed's empirical interval: half the mean gap of the feed's items, and longer for a feed without items
//! for weeks.
//!
//! It follows its settings and `FeedRefreshIntervalCalculator` since 5.6, with `interval` = 5 minutes and
//! `max-interval` = 4 hours. A feed without items has an interval of 4 hours. So has one whose newest item is
//! 30 days old; at 14 days the interval is 2 hours, at 7 days 1 hour, in whole days. Otherwise it is half the
//! mean gap between neighbouring items of the feed, at least 5 minutes and at most 1 hour. A feed with a
//! single item has 4 hours.
//!
//! CommaFeed uses a feed's own date if it is later than its newest item's; feeds here have none. The knob
//! multiplies every interval and the limits. Otherwise 4 hours would be the longest interval and 42 probes a
//! week the fewest. The rule has no state.

use tidewatch_core::time::Span;

use super::rule::{PeerRule, Shown};

const SHORTEST: Span = Span::from_mins(5);
const LONGEST: Span = Span::from_hours(4);
const DAY_MS: i64 = 86_400_000;

/// The calculator.
pub(super) struct Empirical {
    scale: f64,
}

impl Empirical {
    pub(super) fn new(scale: f64) -> Self {
        Self { scale }
    }
}

/// The documented interval.
fn wait(shown: &Shown<'_>) -> Span {
    let (Some(&oldest), Some(&newest)) = (shown.items.first(), shown.items.last()) else { return LONGEST };
    let part = |share: i64| Span::from_millis(LONGEST.as_millis() / share);
    match (shown.now - newest).as_millis() / DAY_MS {
        30.. => LONGEST,
        14.. => part(2),
        7.. => part(4),
        // The mean of the gaps is the total divided by their number.
        _ => match i64::try_from(shown.items.len() - 1) {
            Ok(gaps @ 1..) => {
                Span::from_millis((newest - oldest).as_millis() / gaps / 2).clamp(SHORTEST, part(4))
            }
            _ => LONGEST,
        },
    }
}

impl PeerRule for Empirical {
    fn wait(&mut self, shown: &Shown<'_>) -> Span {
        wait(shown).scaled(self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::Peer;
    use super::super::peer_feed::{PeerFeed, UNLIMITED, watch};
    use super::*;
    use tidewatch_core::time::Timestamp;

    fn at(mins: i64) -> Timestamp {
        Timestamp::from_secs(mins * 60)
    }

    fn after(now: i64, items: &[i64]) -> Span {
        let items: Vec<Timestamp> = items.iter().map(|&mins| at(mins)).collect();
        wait(&Shown { now: at(now), last: None, new: items.len(), items: &items })
    }

    #[test]
    fn interval_grows_in_tiers_without_new_items() {
        let day = 1440;
        let items = [-40, 0];
        assert_eq!(after(7 * day - 1, &items), Span::from_mins(20));
        assert_eq!(after(7 * day, &items), Span::from_hours(1));
        assert_eq!(after(14 * day - 1, &items), Span::from_hours(1));
        assert_eq!(after(14 * day, &items), Span::from_hours(2));
        assert_eq!(after(30 * day, &items), Span::from_hours(4));
        assert_eq!(after(0, &[]), Span::from_hours(4));
        assert_eq!(after(60, &[0]), Span::from_hours(4));
    }

    #[test]
    fn interval_is_half_the_mean_gap_within_limits() {
        // Gaps of 60, 10 and 20 minutes: 30 on average.
        assert_eq!(after(95, &[0, 60, 70, 90]), Span::from_mins(15));
        // A burst.
        assert_eq!(after(95, &[90, 90, 91, 92]), Span::from_mins(5));
        // Days apart.
        assert_eq!(after(20_000, &[0, 10_000, 19_000]), Span::from_hours(1));
    }

    #[test]
    fn schedule_matches_hand_computation() {
        // Gaps of 60 minutes, then one item after 25 minutes.
        let events = [at(-120), at(-60), at(0), at(25)];
        let from = at(0);
        let until = at(100);
        let feed = PeerFeed { events: &events, holds: 3, from, until, caps: UNLIMITED, phase: 0.0 };
        // Half of 60; then with -60, 0 and 25 half of 42.5.
        let second = at(30) + Span::from_secs(1275);
        let third = second + Span::from_secs(1275);
        let fourth = third + Span::from_secs(1275);
        assert_eq!(watch(Peer::Commafeed, Some(1.0), &feed), [at(0), at(30), second, third, fourth]);
        // Twice as slow, including the limits.
        assert_eq!(watch(Peer::Commafeed, Some(2.0), &feed), [at(0), at(60)]);
    }
}
