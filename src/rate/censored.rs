//! Sources that tell only *whether* they changed since the last look.
//!
//! One look at a page shows one change, however many updates lie behind it, so changes over time
//! falls short of the rate, and the more so the longer the gaps. The number of updates in a gap is
//! *censored* at one: a gap of length τ shows a change with probability 1 − e^{−λτ} (Cho and
//! Garcia-Molina, "Estimating frequency of change", §4). Here that is turned around: into a single
//! rate by [`homogeneous`], into weekly evidence by [`from_looks`].
//!
//! Knows gaps and bits. Must not know what was looked at, nor when the next look is due.

use jiff::tz::TimeZone;

use crate::time::{Span, Timestamp};

use super::cyclic::Rate;
use super::fit::{Prior, fit, level};
use super::history::{Evidence, History};

/// Bisection halves this often at most: f64 has no more digits to give.
const HALVINGS: usize = 64;

/// Rounds of expectation and maximisation. Each closes the share λτ/(e^{λτ} − 1) of what is left:
/// a third at two updates a gap, so that eight leave little. Where gaps hold many more the bits
/// hardly tell, and further rounds would only drift towards the plain maximum, which is infinite
/// when every look showed a change.
const ROUNDS: usize = 8;

/// Rounds end early when less than this share of the updates moves to another hour.
const SETTLED: f64 = 0.002;

/// The rate per hour behind gaps of any lengths and whether each showed a change: the solution of
///
/// Σ_changed τ/(e^{λτ} − 1) = Σ_unchanged τ + ½·mean(τ).
///
/// Without the last term it is the maximum of the likelihood (Cho and Garcia-Molina §4.3), which
/// diverges when every gap changed; half a quiet gap more takes off its bias, and for equal gaps
/// gives their −ln((n − X + ½)/(n + ½))/τ. Gaps without length say nothing. `None` when no other
/// is there; 0 when none changed.
///
/// ```
/// # use tidewatch::rate::censored::homogeneous;
/// # use tidewatch::time::Span;
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
    // 1 − x/2 ≤ x/(eˣ − 1) ≤ 1, which puts the solution between these two.
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

/// Weekly evidence from looks (from, until, whether it changed in between), as of `now`, by
/// expectation and maximisation: a changed gap that expects Λ updates holds N̂ = Λ/(1 − e^{−Λ}) of
/// them, spread over it as the rate has it; and from evidence so completed the next rate is fitted.
/// Begins with the homogeneous rate. Looks come in order of time and
/// do not overlap.
pub fn from_looks(
    looks: &[(Timestamp, Timestamp, bool)],
    zone: &TimeZone,
    half_life: Span,
    now: Timestamp,
) -> History {
    // That a gap was watched does not depend on the rate.
    let mut watched = History::new(zone.clone(), half_life, now);
    for &(from, until, _) in looks {
        watched.exposed(from, until);
    }
    let gaps: Vec<_> = looks.iter().map(|&(from, until, changed)| (until - from, changed)).collect();
    let mut rate = Rate::constant(homogeneous(&gaps).unwrap_or(0.0));
    let mut history = completed(&watched, looks, &rate);
    let mut evidence = history.evidence(now);
    for _ in 1..ROUNDS {
        rate = fit(&evidence, &Prior::flat(level(&evidence)), zone).rate;
        let next = completed(&watched, looks, &rate);
        let after = next.evidence(now);
        let moved = distance(&evidence, &after);
        (history, evidence) = (next, after);
        if moved <= SETTLED * evidence.total_updates() {
            break;
        }
    }
    history
}

/// What was watched, with the updates that the rate expects behind each change.
fn completed(watched: &History, looks: &[(Timestamp, Timestamp, bool)], rate: &Rate) -> History {
    let mut history = watched.clone();
    for &(from, until, changed) in looks {
        if changed {
            history.spread(from, until, behind_a_change(rate.expected(from, until)), rate);
        }
    }
    history
}

/// The updates to expect where at least one was: Λ/(1 − e^{−Λ}), which is 1 for small Λ.
fn behind_a_change(expected: f64) -> f64 {
    if expected > 0.0 { expected / -(-expected).exp_m1() } else { 1.0 }
}

/// How many updates lie in other hours in one than in the other.
fn distance(a: &Evidence, b: &Evidence) -> f64 {
    a.updates.iter().zip(&b.updates).map(|(a, b)| (a - b).abs()).sum()
}
