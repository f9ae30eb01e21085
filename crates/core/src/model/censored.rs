//! Rates of sources that only show *whether* they changed since the last probe.
//!
//! A probe of a page shows at most one change, even after several updates. So changes per time underestimate
//! the rate, more so for longer gaps. The count in a gap is *censored* at one: a gap of length τ shows a
//! change with probability 1 − e^{−λτ} (Cho and Garcia-Molina, "Estimating frequency of change", §4).
//! [`homogeneous`] inverts this for a single rate, [`from_probes`] for weekly evidence.
//!
//! Takes gaps and bits. May not know the probed document or the time of the next probe.

use jiff::tz::TimeZone;

use crate::time::{Span, Timestamp};

use super::cyclic::Rate;
use super::fit::{Division, WeeklyPrior, divide, level};
use super::history::{History, WeeklyEvidence};
use super::week::{HOUR_MS, WEEK_MS, stretches};

/// Upper bound on bisection steps: more do not change an f64.
const HALVINGS: usize = 64;

/// Rounds of dividing the hours into segments.
const ROUNDS: usize = 8;

/// Rounds of expectation and maximisation on the rates of given segments. Each round leaves a share 1 −
/// λτ/(e^{λτ} − 1) of the error: two thirds at two updates per gap.
const REFINEMENTS: usize = 60;

/// Rounds end early when less than this share of the updates moves to another hour.
const SETTLED: f64 = 0.002;

/// The rate per hour from gaps of any lengths and whether each showed a change: the solution of
///
/// Σ_changed τ/(e^{λτ} − 1) = Σ_unchanged τ + ½·mean(τ).
///
/// Without the last term it is the maximum of the likelihood (Cho and Garcia-Molina §4.3). That diverges if
/// every gap changed. Half an unchanged gap more reduces its bias. For equal gaps the solution is their
/// −ln((n − X + ½)/(n + ½))/τ. Gaps of zero length are ignored. `None` if there are no others; 0 if none
/// changed.
///
/// ```
/// # use tidewatch_core::model::censored::homogeneous;
/// # use tidewatch_core::time::Span;
/// let hour = Span::from_hours(1);
/// let rate = homogeneous(&[(hour, true), (hour, false)]).unwrap();
/// assert!((rate - (2.5_f64 / 1.5).ln()).abs() < 1e-9);
/// assert_eq!(homogeneous(&[]), None);
/// ```
pub fn homogeneous(gaps: &[(Span, bool)]) -> Option<f64> {
    let hours = || {
        let positive = gaps.iter().filter(|(gap, _)| *gap > Span::ZERO);
        positive.map(|&(gap, changed)| (gap.as_secs_f64() / 3600.0, changed))
    };
    let total = hours().count();
    if total == 0 {
        return None;
    }
    let changed: Vec<f64> = hours().filter(|(_, changed)| *changed).map(|(gap, _)| gap).collect();
    if changed.is_empty() {
        return Some(0.0);
    }
    let (all, with_change) = (hours().map(|(gap, _)| gap).sum::<f64>(), changed.iter().sum::<f64>());
    let quiet = all - with_change + 0.5 * all / total as f64;
    // 1 − x/2 ≤ x/(eˣ − 1) ≤ 1, so the solution lies between these two.
    let count = changed.len() as f64;
    let (mut low, mut high) = (count / (quiet + 0.5 * with_change), count / quiet);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        let sum: f64 = changed.iter().map(|gap| gap / (middle * gap).exp_m1()).sum();
        if sum > quiet {
            low = middle
        } else {
            high = middle
        }
        if high - low <= 1e-12 * high {
            break;
        }
    }
    Some(0.5 * (low + high))
}

/// Weekly evidence as of `now` from probe gaps (from, until, whether it changed in between), by expectation
/// and maximisation. A changed gap with Λ expected updates holds N̂ = Λ/(1 − e^{−Λ}) of them, distributed
/// like the rate. The completed evidence determines which hours share a rate. All gaps together then
/// determine the rates of those segments. Starts with the homogeneous rate. Gaps are in order of time and do
/// not overlap.
pub fn from_probes(
    probes: &[(Timestamp, Timestamp, bool)],
    zone: &TimeZone,
    half_life: Span,
    now: Timestamp,
) -> History {
    // The exposure does not depend on the rate.
    let mut watched = History::new(zone.clone(), half_life, now);
    for &(from, until, _) in probes {
        watched.exposed(from, until);
    }
    let gaps: Vec<_> = probes.iter().map(|&(from, until, changed)| (until - from, changed)).collect();
    let mut rate = Rate::constant(homogeneous(&gaps).unwrap_or(0.0));
    let mut history = completed(&watched, probes, &rate);
    let mut evidence = history.evidence(now);
    for _ in 1..ROUNDS {
        let division = divide(&evidence, &WeeklyPrior::flat(level(&evidence)));
        rate = refine(probes, &division, zone, half_life, now);
        let next = completed(&watched, probes, &rate);
        let after = next.evidence(now);
        let moved = distance(&evidence, &after);
        (history, evidence) = (next, after);
        if moved <= SETTLED * evidence.total_updates() {
            break;
        }
    }
    history
}

/// One probe gap: its weight, whether it changed, and its hours in each segment.
type Split = (f64, bool, Vec<(usize, f64)>);

/// The rates of given segments from all gaps: λ_k = Σ w λ_k e_jk/(1 − e^{−Λ_j}) over changed gaps j, divided
/// by the segment's exposure plus half a mean gap. That half gap keeps the rate finite for a segment that
/// changed in every gap, as in [`homogeneous`]. There are few numbers, and rounds are cheap.
fn refine(
    probes: &[(Timestamp, Timestamp, bool)],
    division: &Division,
    zone: &TimeZone,
    half_life: Span,
    now: Timestamp,
) -> Rate {
    let weight = |at: Timestamp| ((at - now).as_secs_f64() / half_life.as_secs_f64().max(1.0)).exp2();
    let splits: Vec<Split> = probes
        .iter()
        .map(|&(from, until, changed)| (weight(until), changed, split(from, until, division, zone)))
        .collect();
    let mut rates = vec![0.0; division.segments];
    for (cell, &segment) in division.segment_of.iter().enumerate() {
        rates[segment] = division.per_hour[cell];
    }
    let mut watched = vec![0.0; division.segments];
    let (mut weights, mut hours) = (0.0, 0.0);
    for (weight, _, parts) in &splits {
        weights += weight;
        for &(segment, length) in parts {
            watched[segment] += weight * length;
            hours += weight * length;
        }
    }
    let half_gap = if weights > 0.0 { 0.5 * hours / weights } else { 0.0 };
    for _ in 0..REFINEMENTS {
        let mut updates = vec![0.0; rates.len()];
        for (weight, changed, parts) in &splits {
            let expected: f64 = parts.iter().map(|&(segment, length)| rates[segment] * length).sum();
            if *changed && expected > 0.0 {
                let each = weight / -(-expected).exp_m1();
                parts
                    .iter()
                    .for_each(|&(segment, length)| updates[segment] += each * rates[segment] * length);
            }
        }
        for (segment, rate) in rates.iter_mut().enumerate() {
            *rate = updates[segment] / (watched[segment] + half_gap).max(f64::MIN_POSITIVE);
        }
    }
    let cells = division.segment_of.iter().map(|&segment| rates[segment]);
    let hours = cells.enumerate().map(|(cell, rate)| ((cell as u32 + 1) * 3600, rate));
    Rate::new(zone.clone(), hours).unwrap_or_else(|_| Rate::constant(0.0))
}

/// Hours of an interval in each segment.
fn split(from: Timestamp, until: Timestamp, division: &Division, zone: &TimeZone) -> Vec<(usize, f64)> {
    let mut parts: Vec<(usize, f64)> = Vec::new();
    for (start, end) in stretches(zone, from, until) {
        let mut local = start;
        while local < end {
            let next = ((local.div_euclid(HOUR_MS) + 1) * HOUR_MS).min(end);
            let segment = division.segment_of[(local.rem_euclid(WEEK_MS) / HOUR_MS) as usize];
            let length = (next - local) as f64 / HOUR_MS as f64;
            match parts.iter_mut().find(|(known, _)| *known == segment) {
                Some((_, hours)) => *hours += length,
                None => parts.push((segment, length)),
            }
            local = next;
        }
    }
    parts
}

/// The exposure together with the expected updates of each changed gap.
fn completed(watched: &History, probes: &[(Timestamp, Timestamp, bool)], rate: &Rate) -> History {
    let mut history = watched.clone();
    for &(from, until, changed) in probes {
        if changed {
            history.spread(from, until, behind_a_change(rate.expected(from, until)), rate);
        }
    }
    history
}

/// The expected number of updates given at least one: Λ/(1 − e^{−Λ}), which is 1 for small Λ.
///
/// ```
/// # use tidewatch_core::model::censored::behind_a_change;
/// assert_eq!(behind_a_change(0.0), 1.0);
/// assert!((behind_a_change(1.0) - 1.581_976_7).abs() < 1e-6);
/// assert!((behind_a_change(50.0) - 50.0).abs() < 1e-9);
/// ```
pub fn behind_a_change(expected: f64) -> f64 {
    if expected > 0.0 { expected / -(-expected).exp_m1() } else { 1.0 }
}

/// The sum over the hours of the absolute difference in updates.
fn distance(a: &WeeklyEvidence, b: &WeeklyEvidence) -> f64 {
    a.updates.iter().zip(&b.updates).map(|(a, b)| (a - b).abs()).sum()
}
