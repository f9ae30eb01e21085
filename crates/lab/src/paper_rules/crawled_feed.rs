//! The probes of a feed by a paper's rule.

use tidewatch_core::model::aggregate::Aggregate;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::plan_input::AT_LEAST_EVERY;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use crate::learned_feed::{LearnedFeed, Watching};

use super::paper_rule::PaperRule;
use super::schedule::PaperInput;

/// A feed and the span in which it is probed.
#[derive(Debug, Clone)]
pub struct CrawledFeed<'e> {
    /// Update times, ascending.
    pub events: &'e [Timestamp],
    /// How probes are evaluated.
    pub watching: Watching,
    /// The aggregates of its group, each valid from its time on.
    pub group_rates: &'e [(Timestamp, Aggregate)],
    /// The interval between fits of the rate.
    pub refit_every: Span,
    /// Start of the span.
    pub from: Timestamp,
    /// End of the span, exclusive.
    pub until: Timestamp,
    /// The gap between probes before the first fit.
    pub first_gap: Span,
    /// The limits of its probes. Two are never less than a second apart.
    pub caps: Budget,
    /// The source of randomness.
    pub chance: Stream,
}

/// Every probe of a feed by a rule at a price in hours, ascending.
pub fn watch(rule: PaperRule, price: f64, feed: &CrawledFeed<'_>) -> Vec<Timestamp> {
    let mut chance = feed.chance.clone();
    let mut now = feed.from + feed.first_gap.scaled(chance.unit());
    let mut schedule = rule.schedule(price, chance);
    let mut learned = LearnedFeed::new(feed.events.to_vec(), feed.watching.clone(), feed.from);
    let mut fitted = feed.from;
    let spacing = feed.caps.min_spacing.max(Span::from_secs(1));
    let most = feed.caps.probes.max(1) as usize;
    let mut probes = Vec::new();
    while now < feed.until {
        let due = feed.last_fit(now);
        if due > fitted {
            let since = feed.group_rates.partition_point(|(since, _)| *since <= due);
            learned.refit(due, since.checked_sub(1).map(|at| &feed.group_rates[at].1));
            fitted = due;
        }
        learned.probe(now);
        probes.push(now);
        let known = |rate| PaperInput { last: now, rate, fitted, least_gap: feed.caps.even_gap() };
        let wanted = match learned.rate() {
            Some(rate) => schedule.next(&known(rate)).unwrap_or(Timestamp::MAX),
            None => now + feed.first_gap,
        };
        let within_caps = probes.len().checked_sub(most).map(|first| probes[first] + feed.caps.per);
        let allowed = (now + spacing).max(within_caps.unwrap_or(Timestamp::MIN));
        now = wanted.min(now + AT_LEAST_EVERY).max(allowed);
    }
    probes
}

impl CrawledFeed<'_> {
    /// The time of the last fit up to now.
    fn last_fit(&self, now: Timestamp) -> Timestamp {
        let every = self.refit_every.as_millis().max(1);
        now - Span::from_millis((now - self.from).as_millis() % every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::peer_feed::UNLIMITED;

    const HOUR: Span = Span::from_hours(1);

    fn at(hours: i64) -> Timestamp {
        // A Monday.
        Timestamp::from_secs(1_794_787_200 + hours * 3600)
    }

    fn feed(events: &[Timestamp]) -> CrawledFeed<'_> {
        CrawledFeed {
            events,
            watching: Watching { habits: false, ..Watching::default() },
            group_rates: &[],
            refit_every: Span::from_days(1),
            from: at(0),
            until: at(24 * 28),
            first_gap: Span::from_hours(4),
            caps: UNLIMITED,
            chance: Stream::new(1, "a"),
        }
    }

    /// The last two weeks, after two weeks of learning.
    fn settled(probes: &[Timestamp]) -> &[Timestamp] {
        &probes[probes.partition_point(|&probe| probe < at(24 * 14))..]
    }

    /// One update every two hours, shifted a little.
    fn regular() -> Vec<Timestamp> {
        (-100..400).map(|n| at(2 * n) + Span::from_secs(n * n % 1201)).collect()
    }

    #[test]
    fn numbers_of_probes_follow_the_formulas_on_a_steady_source() {
        let events = regular();
        // Per hour at Δ = 0.5 and ν = 0.2.
        let expected = [
            (PaperRule::SiaCho, (0.5_f64 / 0.4).sqrt()),
            (PaperRule::Azar, 2.5_f64.sqrt() - 0.5),
            (PaperRule::LambdaCrawl, (-0.5 + 10.25_f64.sqrt()) / 2.0),
            (PaperRule::LambdaCrawlEven, (-0.5 + 10.25_f64.sqrt()) / 2.0),
        ];
        for (rule, per_hour) in expected {
            let probes = watch(rule, 0.2, &feed(&events));
            let share = settled(&probes).len() as f64 / (per_hour * 24.0 * 14.0);
            assert!((share - 1.0).abs() < 0.1, "{}: {share}", rule.name());
        }
    }

    #[test]
    fn fewer_probes_at_a_higher_price() {
        let events = regular();
        for rule in PaperRule::ALL {
            let counts: Vec<usize> = [0.02, 0.1, 0.5, 2.5, 100.0]
                .map(|price| settled(&watch(rule, price, &feed(&events))).len())
                .to_vec();
            assert!(counts.is_sorted_by(|more, fewer| more >= fewer), "{}: {counts:?}", rule.name());
            // At least once a day, whatever the price.
            assert!(counts[0] > 400 && (14..=24).contains(&counts[4]), "{}: {counts:?}", rule.name());
        }
    }

    #[test]
    fn busy_source_is_given_up_for_freshness_but_probed_for_delay() {
        let events: Vec<Timestamp> = (0..24 * 28 * 15).map(|n| at(0) + Span::from_mins(4 * n)).collect();
        // Δ = 15 an hour is above 1/ν = 5.
        let count = |rule| settled(&watch(rule, 0.2, &feed(&events))).len();
        assert!(count(PaperRule::Azar) <= 15 && count(PaperRule::GreedyCrawl) <= 15);
        assert!(count(PaperRule::SiaCho) > 1000 && count(PaperRule::LambdaCrawlEven) > 500);
    }

    #[test]
    fn caps_hold_and_a_rate_above_them_is_spread_evenly() {
        let events = regular();
        let caps = Budget { probes: 12, per: Span::from_days(1), min_spacing: HOUR };
        for rule in PaperRule::ALL {
            let probes = watch(rule, 1e-3, &CrawledFeed { caps, ..feed(&events) });
            for pair in probes.windows(2) {
                assert!(pair[1] - pair[0] >= HOUR, "{}", rule.name());
            }
            for window in probes.windows(13) {
                assert!(window[12] - window[0] >= Span::from_days(1), "{}", rule.name());
            }
            let share = settled(&probes).len() as f64 / (12.0 * 14.0);
            assert!(share > 0.7, "{}: {share}", rule.name());
            if matches!(rule, PaperRule::Azar | PaperRule::GreedyCrawl) {
                assert!(settled(&probes).windows(2).all(|pair| pair[1] - pair[0] == HOUR + HOUR));
            }
        }
    }

    #[test]
    fn probes_repeat_and_do_not_depend_on_later_updates() {
        let events = regular();
        let until = at(24 * 20);
        let known: Vec<Timestamp> = events.iter().copied().filter(|&event| event < until).collect();
        for rule in PaperRule::ALL {
            let all = watch(rule, 0.1, &feed(&events));
            assert_eq!(all, watch(rule, 0.1, &feed(&events)));
            let before = &all[..all.partition_point(|&probe| probe < until)];
            assert_eq!(before, watch(rule, 0.1, &CrawledFeed { until, ..feed(&known) }), "{}", rule.name());
        }
    }
}
