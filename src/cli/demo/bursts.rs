//! Bursts in the report: the detected ones, the response, and the undetected ones.
//!
//! Knows the planned bursts of the demo sources and the stored ones. Must not know how bursts are
//! detected.

use std::fmt;

use serde::Serialize;

use crate::store::review::BurstReview;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::demo_sources::DemoSource;
use super::run_facts::{RunFacts, day};

/// Largest lateness of probes (95th percentile) for which missed bursts count. Above it the machine is
/// too slow for the clock, so the time of detection says nothing about the daemon.
pub const IN_TIME: Span = Span::from_mins(30);

/// Time until a rhythm is learned. The first probe shows old posts, but not every source gives their
/// dates.
const KNOWN_AFTER: Span = Span::from_days(2);

/// A burst in the report.
#[derive(Debug, Clone, Serialize)]
pub struct BurstReport {
    source: String,
    began: String,
    ended: Option<String>,
    observed: u32,
    expected: f64,
    probes: u64,
    by_ttl: u64,
    planned_again: bool,
    #[serde(skip)]
    span: (Timestamp, Option<Timestamp>),
}

/// The stored bursts, with the names of their sources.
pub fn build<'n>(reviews: &[BurstReview], name: impl Fn(SourceId) -> Option<&'n str>) -> Vec<BurstReport> {
    let report = |burst: &BurstReview| BurstReport {
        source: name(burst.source).unwrap_or("unknown").to_owned(),
        began: burst.began.iso(),
        ended: burst.ended.map(Timestamp::iso),
        observed: burst.observed,
        expected: burst.expected,
        probes: burst.probes,
        by_ttl: burst.by_ttl,
        planned_again: burst.planned_again,
        span: (burst.began, burst.ended),
    };
    reviews.iter().map(report).collect()
}

/// Names of sources whose burst was not detected near its time. The detected start may be one hour
/// early, because counting starts at the update before, or two hours late. The detected end may be one
/// hour early, in a pause, or up to seven hours late. Bursts are ignored if the run starts too shortly
/// before or ends too early.
pub fn missed(
    demo_sources: &[DemoSource],
    found: &[BurstReport],
    run: &RunFacts,
) -> impl Iterator<Item = String> {
    let hours = Span::from_hours;
    demo_sources
        .iter()
        .filter_map(|source| Some((source.name, source.burst?)))
        .filter(move |(_, (from, until))| {
            run.began + KNOWN_AFTER <= *from && run.ended >= *until + hours(7)
        })
        .filter(move |(name, (from, until))| {
            let spans = || found.iter().filter(|burst| burst.source == *name).map(|burst| burst.span);
            let began = spans().any(|(began, _)| (*from - hours(1)..=*from + hours(2)).contains(&began));
            let ended = spans().filter_map(|(_, ended)| ended);
            !began
                || !ended.into_iter().any(|ended| (*until - hours(1)..=*until + hours(7)).contains(&ended))
        })
        .map(|(name, _)| name.to_owned())
}

impl fmt::Display for BurstReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, observed, expected, probes, by_ttl, .. } = self;
        match &self.ended {
            Some(ended) => write!(f, "{source}: {} to {}", day(&self.began), day(ended))?,
            None => write!(f, "{source}: since {}, and still on", day(&self.began))?,
        }
        write!(
            f,
            ": {observed} updates, {expected:.1} expected; {probes} probes, {by_ttl} of them by ttl"
        )?;
        if self.planned_again {
            f.write_str("; planned again since")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::calendar::DemoCalendar;
    use crate::cli::demo::demo_sources::demo_sources;

    fn at(iso: &str) -> Timestamp {
        Timestamp::parse_iso(iso).expect("valid")
    }

    #[test]
    fn a_burst_counts_as_missed_only_if_the_run_covers_it() {
        let calendar = DemoCalendar { origin: at("2026-11-02T00:00:00Z"), days: 7 };
        let demo_sources = demo_sources(&calendar);
        let review = |began, ended: Option<&str>| BurstReview {
            source: SourceId(1),
            began: at(began),
            ended: ended.map(at),
            observed: 61,
            expected: 1.64,
            probes: 14,
            by_ttl: 9,
            planned_again: ended.is_some(),
        };
        let run = |days| RunFacts {
            began: calendar.origin,
            ended: calendar.origin + Span::from_days(days),
            speed: 10_000.0,
            wall_s: 60.0,
            interrupted: false,
        };
        let missed = |reviews: &[BurstReview], days| -> Vec<String> {
            super::missed(&demo_sources, &build(reviews, |_| Some("newsroom")), &run(days)).collect()
        };
        assert_eq!(missed(&[], 7), ["newsroom"]);
        assert_eq!(missed(&[], 4), ["newsroom"], "the run covers that day to midnight");
        assert!(missed(&[], 3).is_empty(), "the run ends before the burst");
        let good = review("2026-11-05T13:02:00Z", Some("2026-11-05T18:30:00Z"));
        assert!(missed(std::slice::from_ref(&good), 7).is_empty());
        for bad in [
            review("2026-11-05T13:02:00Z", None),
            review("2026-11-05T15:01:00Z", Some("2026-11-05T18:30:00Z")),
            review("2026-11-05T13:02:00Z", Some("2026-11-06T00:01:00Z")),
            review("2026-11-04T13:02:00Z", Some("2026-11-04T18:30:00Z")),
        ] {
            assert_eq!(missed(std::slice::from_ref(&bad), 7), ["newsroom"], "{bad:?}");
        }
        // A burst detected in two parts, with a pause between them, also counts.
        let halves = [
            review("2026-11-05T13:02:00Z", Some("2026-11-05T14:30:00Z")),
            review("2026-11-05T15:10:00Z", Some("2026-11-05T18:30:00Z")),
        ];
        assert!(missed(&halves, 7).is_empty());

        let meaning = build(&[good, review("2026-11-05T13:02:00Z", None)], |_| Some("newsroom"));
        assert_eq!(
            meaning[0].to_string(),
            "newsroom: 2026-11-05T13:02:00 to 2026-11-05T18:30:00: 61 updates, 1.6 expected; 14 probes, 9 of \
             them by ttl; planned again since"
        );
        assert!(
            meaning[1].to_string().starts_with("newsroom: since 2026-11-05T13:02:00, and still on: 61")
        );
    }
}
