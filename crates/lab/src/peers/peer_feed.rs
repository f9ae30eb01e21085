//! The probes of a feed by a peer.

use tidewatch_core::planning::budget::Budget;
use tidewatch_core::time::{Span, Timestamp};

use super::peer::Peer;
use super::rule::{PeerRule, Shown};

/// A feed and the span in which it is probed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeerFeed<'e> {
    /// Update times, ascending.
    pub events: &'e [Timestamp],
    /// The number of items it shows: the newest.
    pub holds: usize,
    /// Start of the span.
    pub from: Timestamp,
    /// End of the span, exclusive.
    pub until: Timestamp,
    /// The limits of its probes. Two are never less than a second apart.
    pub caps: Budget,
    /// The peer's start as a share of its first interval, in [0, 1): 0 for a probe at once.
    pub phase: f64,
}

/// No limits, except that two probes are a second apart.
pub const UNLIMITED: Budget = Budget { probes: u32::MAX, per: Span::from_days(7), min_spacing: Span::ZERO };

impl PeerFeed<'_> {
    /// Number of updates until now.
    fn there(&self, now: Timestamp) -> usize {
        self.events.partition_point(|&at| at <= now)
    }

    /// The items shown after this many updates.
    fn shows(&self, there: usize) -> &[Timestamp] {
        &self.events[there.saturating_sub(self.holds)..there]
    }
}

/// Every probe of a feed by a peer, ascending; by the documented rule without a knob.
///
/// The phase is a share of the first interval, which is the interval after a first probe at `from`.
pub fn watch(peer: Peer, knob: Option<f64>, feed: &PeerFeed<'_>) -> Vec<Timestamp> {
    let items = feed.shows(feed.there(feed.from));
    let first = Shown { now: feed.from, last: None, new: items.len(), items };
    let phase = if feed.phase.is_finite() { feed.phase.clamp(0.0, 1.0) } else { 0.0 };
    let start = feed.from + peer.rule(knob).wait(&first).scaled(phase);
    follow(peer.rule(knob).as_mut(), feed, start)
}

/// Every probe by a rule in its initial state, from `start` on.
fn follow(rule: &mut dyn PeerRule, feed: &PeerFeed<'_>, start: Timestamp) -> Vec<Timestamp> {
    let spacing = feed.caps.min_spacing.max(Span::from_secs(1));
    let most = feed.caps.probes.max(1) as usize;
    let (mut probes, mut now, mut last, mut seen) = (Vec::<Timestamp>::new(), start, None, 0);
    while now < feed.until {
        probes.push(now);
        let there = feed.there(now);
        let items = feed.shows(there);
        let shown = Shown { now, last, new: items.len().min(there - seen), items };
        let wait = rule.wait(&shown).max(spacing);
        (last, seen) = (Some(now), there);
        let within_caps = probes.len().checked_sub(most).map(|first| probes[first] + feed.caps.per);
        now = (now + wait).max(within_caps.unwrap_or(Timestamp::MIN));
    }
    probes
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewatch_core::rng::Stream;

    const WEEK: Span = Span::from_days(7);

    fn hours(list: &[i64]) -> Vec<Timestamp> {
        list.iter().map(|&hour| Timestamp::from_secs(hour * 3600)).collect()
    }

    fn watched(events: &[Timestamp]) -> PeerFeed<'_> {
        let from = Timestamp::from_millis(0);
        PeerFeed { events, holds: 20, from, until: from + WEEK, caps: UNLIMITED, phase: 0.0 }
    }

    #[test]
    fn names_parse_back() {
        for peer in Peer::ALL {
            assert_eq!(Peer::from_name(peer.name()), Some(peer));
        }
        assert_eq!(Peer::from_name("unknown"), None);
    }

    #[test]
    fn fixed_interval_starts_at_its_phase_and_stops_before_the_end() {
        let mut feed = watched(&[]);
        feed.until = Timestamp::from_secs(4 * 3600);
        assert_eq!(watch(Peer::Fixed, Some(3600.0), &feed), hours(&[0, 1, 2, 3]));
        feed.phase = 0.5;
        let probes = watch(Peer::MinifluxRoundRobin, Some(7200.0), &feed);
        assert_eq!(probes, hours(&[1, 3]));
    }

    #[test]
    fn minimum_spacing_and_caps_hold() {
        let mut feed = watched(&[]);
        feed.until = Timestamp::from_secs(10);
        assert_eq!(watch(Peer::Fixed, Some(0.01), &feed).len(), 10);
        feed.caps.min_spacing = Span::from_secs(4);
        assert_eq!(watch(Peer::Fixed, Some(0.01), &feed).len(), 3);
        feed.caps = Budget { probes: 2, per: Span::from_secs(6), min_spacing: Span::from_secs(1) };
        let secs: Vec<i64> =
            watch(Peer::Fixed, Some(0.01), &feed).iter().map(|at| at.as_millis() / 1000).collect();
        assert_eq!(secs, [0, 1, 6, 7]);
    }

    #[test]
    fn invalid_knob_gives_the_default() {
        let feed = watched(&[]);
        for peer in Peer::ALL {
            let usual = watch(peer, None, &feed);
            for knob in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
                assert_eq!(watch(peer, Some(knob), &feed), usual);
            }
        }
    }

    /// The result of a peer's probe: at first all items, then the new ones that are still shown.
    #[test]
    fn new_items_are_those_since_the_last_probe_still_shown() {
        struct Listener<'l>(&'l mut Vec<(usize, usize, bool)>);
        impl PeerRule for Listener<'_> {
            fn wait(&mut self, shown: &Shown<'_>) -> Span {
                self.0.push((shown.new, shown.items.len(), shown.last.is_some()));
                Span::from_hours(10)
            }
        }
        let events = hours(&[-3, -2, -1, 5, 10, 11, 12, 13, 14]);
        let mut counts = Vec::new();
        let feed = PeerFeed { holds: 3, until: Timestamp::from_secs(30 * 3600), ..watched(&events) };
        let probes = follow(&mut Listener(&mut counts), &feed, feed.from);
        assert_eq!(probes, hours(&[0, 10, 20]));
        assert_eq!(counts, [(3, 3, false), (2, 3, true), (3, 3, true)]);
    }

    /// Four kinds of feeds, eight weeks before the span and eight in it.
    fn feeds() -> Vec<(&'static str, Vec<Timestamp>)> {
        let poisson = |per_week: f64, label: &str| {
            let mut chance = Stream::new(7, label);
            let mut at = -8.0 * 604_800.0;
            let mut list = Vec::new();
            while at < 8.0 * 604_800.0 {
                at -= (1.0 - chance.unit()).ln() * 604_800.0 / per_week;
                list.push(Timestamp::from_secs(at as i64));
            }
            list
        };
        let slow = poisson(2.0, "slow");
        let flurries = slow.iter().flat_map(|&at| (0..10).map(move |k| at + Span::from_secs(40 * k)));
        let mut flurries: Vec<Timestamp> = flurries.collect();
        flurries.sort_unstable();
        vec![("idle", Vec::new()), ("fast", poisson(400.0, "fast")), ("slow", slow), ("flurries", flurries)]
    }

    #[test]
    fn probes_grow_with_the_knob_from_two_a_week_to_a_thousand() {
        let from = Timestamp::from_millis(0);
        for (kind, events) in feeds() {
            let caps = Budget { min_spacing: Span::from_mins(1), ..UNLIMITED };
            let until = from + Span::from_days(56);
            let feed = PeerFeed { events: &events, holds: 20, from, until, caps, phase: 0.3 };
            for peer in Peer::ALL {
                let knob = peer.knob();
                let settled = |probes: Vec<Timestamp>| {
                    let first = probes.partition_point(|&at| at < from + Span::from_days(14));
                    (probes.len() - first) as f64 / 6.0
                };
                let counts: Vec<f64> = (0..=60)
                    .map(|step| settled(watch(peer, Some(knob.at(f64::from(step) / 60.0)), &feed)))
                    .collect();
                let name = peer.name();
                assert!(counts[0] <= 2.0, "{name}, {kind}: {counts:?}");
                assert!(counts[60] >= 1000.0, "{name}, {kind}: {counts:?}");
                for pair in counts.windows(2) {
                    assert!(pair[1] >= pair[0] * 0.97 - 0.5, "{name}, {kind}: {counts:?}");
                }
            }
        }
    }
}
