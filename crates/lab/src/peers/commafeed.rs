//! CommaFeed's empirical interval: half the mean gap of what the feed shows, and less often where it
//! has been quiet for weeks.
//!
//! As its settings and `FeedRefreshIntervalCalculator` have it since 5.6: with `interval` = 5 minutes
//! and `max-interval` = 4 hours, a feed without items waits 4 hours; one whose newest item is 30 days
//! old too, 14 days 2 hours, 7 days 1 hour, in whole days. Any other waits half the mean gap between
//! neighbouring items of the feed, at least 5 minutes and at most 1 hour; one with a single item waits
//! 4 hours.
//!
//! A feed's own date, where it is later than its newest item's, is taken there for the newest item; here
//! feeds have none. The knob multiplies every wait, the limits with it: else 4 hours would be the
//! longest, 42 probes a week the fewest.
//!
//! Knows what the feed shows now. Remembers nothing.

use tidewatch_core::time::Span;

use super::rule::{Rule, Shown};

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

/// The documented wait.
fn wait(shown: &Shown<'_>) -> Span {
    let (Some(&oldest), Some(&newest)) = (shown.items.first(), shown.items.last()) else { return LONGEST };
    let part = |share: i64| Span::from_millis(LONGEST.as_millis() / share);
    match (shown.now - newest).as_millis() / DAY_MS {
        30.. => LONGEST,
        14.. => part(2),
        7.. => part(4),
        // The mean of the gaps is the whole over their number.
        _ => match i64::try_from(shown.items.len() - 1) {
            Ok(gaps @ 1..) => {
                Span::from_millis((newest - oldest).as_millis() / gaps / 2).clamp(SHORTEST, part(4))
            }
            _ => LONGEST,
        },
    }
}

impl Rule for Empirical {
    fn wait(&mut self, shown: &Shown<'_>) -> Span {
        wait(shown).scaled(self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::Peer;
    use super::super::watch::{Watched, watch};
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
    fn quiet_feeds_wait_in_tiers() {
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
    fn others_wait_half_the_mean_gap_within_limits() {
        // Gaps of 60, 10 and 20 minutes: 30 on average.
        assert_eq!(after(95, &[0, 60, 70, 90]), Span::from_mins(15));
        // A flurry.
        assert_eq!(after(95, &[90, 90, 91, 92]), Span::from_mins(5));
        // Days apart.
        assert_eq!(after(20_000, &[0, 10_000, 19_000]), Span::from_hours(1));
    }

    #[test]
    fn a_schedule_by_hand() {
        // Gaps of 60 minutes, then one item after 25 minutes.
        let events = [at(-120), at(-60), at(0), at(25)];
        let (from, min_spacing) = (at(0), Span::from_secs(1));
        let until = at(100);
        let feed = Watched { events: &events, holds: 3, from, until, min_spacing, phase: 0.0 };
        // Half of 60; then with -60, 0 and 25 half of 42.5.
        let second = at(30) + Span::from_secs(1275);
        let third = second + Span::from_secs(1275);
        let fourth = third + Span::from_secs(1275);
        assert_eq!(watch(Peer::Commafeed, Some(1.0), &feed), [at(0), at(30), second, third, fourth]);
        // Twice as slow, limits and all.
        assert_eq!(watch(Peer::Commafeed, Some(2.0), &feed), [at(0), at(60)]);
    }
}
