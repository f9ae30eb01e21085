//! Fits are near the truth, for feeds and pages, probed regularly or not.
//!
//! The bound on each part of the week (office hours, other hours of working days, weekends) is
//!
//! |fitted − true| ≤ 4·√variance + smoothing + prior, all per week, where
//!
//! * the variance is Λ/n for n effective weeks, (Σw)²/Σw² with the weights w of the fading; for a
//!   page it is larger by (e^m − 1)/m, m being the most updates expected of a mean gap, since a bit
//!   holds less than a number;
//! * the smoothing is deliberate: 5 % of the rate is spread over the week, and 20 % leaks to the
//!   hours on either side. It is taken from the truth itself, and scatters with what was drawn. For
//!   pages it counts (e^m − 1)/m times, as the variance does;
//! * the prior is worth an update (or a flurry) in each segment of which a part has up to two, plus
//!   half an update in all;
//! * probes that are not on the hour blur the edges of a rhythm: bits do not show on which side of an
//!   edge the update behind a change was. While an hour at an edge has shown fewer than thirty
//!   updates, a mean gap's worth at each edge may end up on the other side of it; with more, a fifth
//!   of that.
//!
//! With fewer than ten faded updates no rhythm is held to be known, only the level.

use jiff::tz::TimeZone;
use tidewatch_core::model::censored::from_probes;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::fit::{WeeklyPrior, fit, level};
use tidewatch_core::model::history::{CELLS, WeeklyEvidence};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::truth::{
    Cells, HALF_LIFE, WEEKS, bits, cron, end, feed, in_hours, is_office, monday, office, poisson,
    probe_times, steady, weekend,
};

const PARTS: [&str; 3] = ["office hours", "other hours", "weekend"];

fn parts(cells: &[f64]) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for (cell, rate) in cells.iter().enumerate() {
        let (day, hour) = (cell / 24, cell % 24);
        sums[if is_office(day, hour) { 0 } else { 1 + usize::from(day >= 5) }] += rate;
    }
    sums
}

fn hours_of(rate: &Rate) -> Cells {
    (0..CELLS as i64).map(|cell| rate.at(monday() + Span::from_hours(cell))).collect()
}

/// 5 % anywhen, and of the rest 20 % to the two hours beside.
fn smoothed(cells: &[f64]) -> Cells {
    let mean = cells.iter().sum::<f64>() / CELLS as f64;
    let leaked = |cell: usize| 0.5 * (cells[(cell + 1) % CELLS] + cells[(cell + CELLS - 1) % CELLS]);
    (0..CELLS).map(|cell| 0.95 * (0.8 * cells[cell] + 0.2 * leaked(cell)) + 0.05 * mean).collect()
}

/// Σw and (Σw)²/Σw² over the weeks.
fn weeks() -> (f64, f64) {
    let weights = || (0..WEEKS).map(|week| (-(week as f64 + 0.5) * 7.0 / 56.0).exp2());
    let sum: f64 = weights().sum();
    (sum, sum * sum / weights().map(|w| w * w).sum::<f64>())
}

/// Holds a fit of evidence to the bound. For pages, `per_gap` is the most updates that a gap
/// expects, and `blur` how many may lie on the wrong side of an edge.
fn check(name: &str, evidence: &WeeklyEvidence, truth: &[f64], per_gap: f64, blur: f64) {
    let rate = fit(evidence, &WeeklyPrior::flat(level(evidence)), &TimeZone::UTC).rate;
    let (sum, effective) = weeks();
    let open = if per_gap > 0.0 { per_gap.exp_m1() / per_gap } else { 1.0 };
    let parts = |cells: &[f64]| match evidence.total_updates() < 10.0 {
        true => vec![cells.iter().sum()],
        false => parts(cells).to_vec(),
    };
    let (found, smooth, truth) = (parts(&hours_of(&rate)), parts(&smoothed(truth)), parts(truth));
    for part in 0..found.len() {
        let chance = 4.0 * (open * truth[part] / effective).sqrt();
        let drawn = 1.0 + 4.0 / (truth.iter().sum::<f64>() * effective).sqrt();
        let smoothing = open * drawn * (smooth[part] - truth[part]).abs();
        let prior = (2.0 * evidence.clumping + 0.5) / sum;
        let off: f64 = (found[part] - truth[part]).abs();
        assert!(
            off <= chance + smoothing + prior + blur,
            "{name}, {}: {} for {}; {off} > {chance} + {smoothing} + {prior} + {blur}",
            PARTS[part],
            found[part],
            truth[part],
        );
    }
}

/// Each kind of source at each rate that makes sense for it: name, truth, updates.
fn sources() -> Vec<(String, Cells, Vec<Timestamp>)> {
    let mut list = Vec::new();
    for per_day in [0.1, 1.0, 10.0, 100.0] {
        for (kind, cells) in
            [("steady", steady(per_day)), ("office", office(per_day)), ("weekend", weekend(per_day))]
        {
            let name = format!("{kind} {per_day}/day");
            let events = poisson(&cells, WEEKS, &mut Stream::new(1, &name));
            list.push((name, cells, events));
        }
    }
    for probability in [0.1, 1.0] {
        let name = format!("cron {probability}/day");
        let events = cron(probability, WEEKS, &mut Stream::new(1, &name));
        list.push((name, in_hours(probability, |_, hour| hour == 3), events));
    }
    list
}

#[test]
fn feeds_are_known_by_their_dates() {
    for (name, cells, events) in sources() {
        check(&name, &feed(&events, end()).evidence(end()), &cells, 0.0, 0.0);
    }
}

#[test]
fn the_minute_of_a_nightly_job_is_known_to_the_hour() {
    let events = cron(1.0, WEEKS, &mut Stream::new(1, "cron"));
    let evidence = feed(&events, end()).evidence(end());
    let hours = hours_of(&fit(&evidence, &WeeklyPrior::flat(level(&evidence)), &TimeZone::UTC).rate);
    for day in hours.chunks(24) {
        // Three quarters stay in the hour, the rest leaks by design.
        assert!((0.7..0.85).contains(&day[3]), "{}", day[3]);
        assert!(day[8..].iter().all(|rate| *rate < 0.01));
    }
}

/// The bound holds for pages if an hour expects up to four updates. Beyond that, nearly every probe in the
/// busy hours shows a change.
fn pages(regular: bool) {
    for (name, cells, events) in sources() {
        let most = cells.iter().copied().fold(0.0, f64::max);
        // A nightly job is no Poisson source: see below.
        if most > 4.5 || name == "cron 1/day" {
            continue;
        }
        let probe_times = probe_times(regular, end(), &mut Stream::new(2, &name));
        let evidence =
            from_probes(&bits(&events, &probe_times), &TimeZone::UTC, HALF_LIFE, end()).evidence(end());
        let next = cells.iter().cycle().skip(1);
        let edges: f64 = cells.iter().zip(next).map(|(a, b)| (a - b).abs()).sum();
        // Five days a week, or two, over the effective weeks: the evidence for an edge.
        let at_edge = 2.0 * most * weeks().1;
        let blur = if regular { 0.0 } else { edges * if at_edge < 30.0 { 1.0 } else { 0.2 } };
        check(&name, &evidence, &cells, most, blur);
    }
}

#[test]
fn pages_probed_every_hour_are_known_by_their_bits() {
    pages(true);
}

#[test]
fn pages_probed_irregularly_are_known_by_their_bits() {
    pages(false);
}

#[test]
fn a_nightly_job_seen_by_bits_is_found_in_its_hour_and_overestimated() {
    // Every probe after its hour shows a change. For a Poisson source that would mean several updates
    // each night; bits cannot show that there is one. So the hour is known, and the level only to be
    // at least the truth, and at most ln(2n + 1) = 5.9 a night for n nights.
    let events = cron(1.0, WEEKS, &mut Stream::new(1, "cron"));
    let probe_times = probe_times(true, end(), &mut Stream::new(2, "cron"));
    let evidence =
        from_probes(&bits(&events, &probe_times), &TimeZone::UTC, HALF_LIFE, end()).evidence(end());
    let in_hour: f64 = evidence.updates.iter().skip(3).step_by(24).sum();
    assert!(in_hour > 0.99 * evidence.total_updates());
    let nightly = 24.0 * evidence.total_updates() / evidence.total_hours();
    assert!((1.0..5.9).contains(&nightly), "{nightly}");
}
