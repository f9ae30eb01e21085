//! Sources drawn anew from recorded ones, with the flurries of the record.
//!
//! Real updates clump, so probabilities for independent updates do not hold for them. A record does not tell
//! which alarm is false. Here that is known: a drawn source has no burst, no silence and no change of rhythm
//! beyond chance. A *flurry* is a run of updates with gaps of at most a quarter of the mean gap, and at most
//! an hour. Flurries are copied from the record as they are. Their starts are a Poisson process with
//! the record's number of flurries and its times of the week, each moved by up to half an hour. Regular
//! gaps between flurries are lost. Must not know the policies.

use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::trace::{TestSpan, Trace};

/// Longest gap within a flurry.
const LONGEST_GAP: Span = Span::from_hours(1);

const WEEK: Span = Span::from_days(7);
const HOUR: Span = Span::from_hours(1);

/// A source like `trace` in the span, drawn with this seed.
pub fn resampled(trace: &Trace, span: TestSpan, seed: u64) -> Trace {
    let within = |&&at: &&Timestamp| at >= span.begins && at < span.to;
    let events: Vec<Timestamp> = trace.events.iter().filter(within).copied().collect();
    let flurries = flurries(&events, span.to - span.begins);
    let mut chance = Stream::new(seed, format!("resampled {}", trace.name));
    let mut drawn = Vec::with_capacity(events.len());
    for _ in 0..poisson(flurries.len() as f64, &mut chance) {
        let begins = flurries[pick(flurries.len(), &mut chance)][0];
        let flurry = flurries[pick(flurries.len(), &mut chance)];
        let Some(start) = moved(begins, span, &mut chance) else { continue };
        drawn.extend(flurry.iter().map(|&at| start + (at - flurry[0])).filter(|&at| at < span.to));
    }
    drawn.sort_unstable();
    Trace { events: drawn, truth: None, tried: Some(span), ..trace.clone() }
}

/// Splits updates, ascending, into flurries.
fn flurries(events: &[Timestamp], length: Span) -> Vec<&[Timestamp]> {
    let mean_gap = length.scaled(1.0 / events.len().max(1) as f64);
    let longest = mean_gap.scaled(0.25).min(LONGEST_GAP);
    events.chunk_by(|&earlier, &later| later - earlier <= longest).collect()
}

/// The same time of a random week of the span, up to half an hour earlier or later. `None` if there is none.
fn moved(at: Timestamp, span: TestSpan, chance: &mut Stream) -> Option<Timestamp> {
    let in_week = (at - span.begins).as_millis().rem_euclid(WEEK.as_millis());
    // Weeks in which this time is within the span.
    let weeks = ((span.to - span.begins).as_millis() - in_week - 1).div_euclid(WEEK.as_millis()) + 1;
    let week = WEEK.scaled(pick(usize::try_from(weeks).ok()?, chance) as f64);
    let moved = span.begins + week + Span::from_millis(in_week) + HOUR.scaled(chance.unit() - 0.5);
    (moved >= span.begins && moved < span.to).then_some(moved)
}

fn pick(of: usize, chance: &mut Stream) -> usize {
    ((chance.unit() * of as f64) as usize).min(of.saturating_sub(1))
}

/// A Poisson number: arrivals at rate 1 before `mean`.
fn poisson(mean: f64, chance: &mut Stream) -> usize {
    let mut at = -(1.0 - chance.unit()).ln();
    let mut count = 0;
    while at < mean {
        count += 1;
        at -= (1.0 - chance.unit()).ln();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span() -> TestSpan {
        let begins = Timestamp::parse_iso("2026-03-02T00:00:00Z").unwrap();
        TestSpan { begins, from: begins + WEEK.scaled(12.0), to: begins + WEEK.scaled(16.0) }
    }

    /// Flurries of four updates within three minutes, every Tuesday and Friday at noon.
    fn flurried() -> Trace {
        let mut events = Vec::new();
        for week in 0..16 {
            for day in [1, 4] {
                let noon = span().begins + Span::from_days(7 * week + day) + Span::from_hours(12);
                events.extend((0..4).map(|n| noon + Span::from_mins(n)));
            }
        }
        Trace::new("a", "b", events)
    }

    #[test]
    fn flurries_and_times_of_the_week_are_kept() {
        let (mut flurries_drawn, runs) = (0, 200);
        for seed in 0..runs {
            let drawn = resampled(&flurried(), span(), seed);
            assert_eq!(drawn.test_span(Span::ZERO, Span::ZERO), Some(span()));
            for &at in &drawn.events {
                let in_week = (at - span().begins).as_millis() % WEEK.as_millis();
                let hours = in_week as f64 / 3_600_000.0;
                let off = [36.0, 108.0].map(|noon: f64| (hours - noon).abs());
                assert!(off.iter().any(|&off| off <= 0.5 + 3.0 / 60.0), "{hours}");
            }
            assert_eq!(drawn.events.len() % 4, 0, "whole flurries");
            flurries_drawn += drawn.events.len() / 4;
        }
        // A Poisson number of mean 32 in every run.
        let (mean, most) = (32.0 * runs as f64, 4.0 * (32.0 * runs as f64).sqrt());
        assert!((flurries_drawn as f64 - mean).abs() < most, "{flurries_drawn} of {mean}");
    }

    #[test]
    fn equal_seeds_give_equal_sources() {
        let drawn = |seed| resampled(&flurried(), span(), seed);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    /// Starts are spread over all weeks, the last one included, also if the span has no whole number of weeks.
    #[test]
    fn every_week_is_drawn_alike() {
        let span = TestSpan { to: span().to + Span::from_days(2), ..span() };
        let mut weeks = [0_usize; 17];
        for seed in 0..400 {
            for at in resampled(&flurried(), span, seed).events {
                weeks[((at - span.begins).as_millis() / WEEK.as_millis()) as usize] += 1;
            }
        }
        let whole = &weeks[..16];
        let mean = whole.iter().sum::<usize>() as f64 / 16.0;
        assert!(whole.iter().all(|&count| (count as f64 / mean - 1.0).abs() < 0.15), "{weeks:?}");
        assert!((weeks[16] as f64 / mean - 0.5).abs() < 0.1, "Tuesday's only: {weeks:?}");
    }

    #[test]
    fn silence_stays_silent() {
        let nothing = Trace::new("a", "b", Vec::new());
        assert!(resampled(&nothing, span(), 1).events.is_empty());
    }
}
