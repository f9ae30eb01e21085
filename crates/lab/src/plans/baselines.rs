//! The three policies that the best schedule is compared with (Eckstein, Gal, Reiner, section 5.2):
//! uniform, threshold and first arrival.
//!
//! All three go from one probe to the next without looking further, and are brought to n probes by
//! the one number that each of them has. Spacing, closed times and what is still spent put a probe
//! off; one that would then come too close to the end is left out.
//!
//! Knows one horizon. Must not know how good the schedules are.

use tidewatch_core::model::obsolescence::PrefixSums;
use tidewatch_core::time::Span;

use tidewatch_core::planning::horizon::{End, Horizon, Impossible};

const TICK: Span = Span::from_millis(1);

/// A probe every T/n; every T/(n + 1) where the end costs none. Of several that a closed time puts
/// off to its end one remains.
pub fn uniform(horizon: &Horizon) -> Result<Vec<Span>, Impossible> {
    horizon.check()?;
    let most = most_before_end(horizon);
    let gaps = most as f64 + 1.0;
    let mut even = (1..=most).map(|index| horizon.length().scaled(index as f64 / gaps));
    Ok(follow(horizon, most, |last| even.find(|&at| at > last)).unwrap_or_default())
}

/// A probe whenever the expected cost since the last one has reached Π, the smallest with which n
/// probes are enough.
pub fn threshold(horizon: &Horizon) -> Result<Vec<Span>, Impossible> {
    least_level(horizon, PrefixSums::cost_until)
}

/// A probe whenever there is something new with probability π, which is when Λ since the last one
/// has reached −ln(1 − π); the smallest with which n probes are enough. Where nothing puts probes
/// off, these are equal steps of Λ.
pub fn first_arrival(horizon: &Horizon) -> Result<Vec<Span>, Impossible> {
    least_level(horizon, |last, now| now.updates - last.updates)
}

/// How many probes there may be, without the one at the end.
fn most_before_end(horizon: &Horizon) -> usize {
    match horizon.end {
        End::Probed => horizon.may_be_sent(horizon.length()).min(horizon.probes).saturating_sub(1) as usize,
        End::Open => horizon.probes as usize,
    }
}

/// From probe to probe as wanted, or as soon after as is allowed. `None` if that takes too many.
fn follow(
    horizon: &Horizon,
    most: usize,
    mut wanted: impl FnMut(Span) -> Option<Span>,
) -> Option<Vec<Span>> {
    let spacing = horizon.min_spacing.max(TICK);
    let latest = match horizon.end {
        End::Probed => horizon.length() - spacing,
        End::Open => horizon.length() - TICK,
    };
    let (mut times, mut last) = (Vec::new(), Span::ZERO);
    while let Some(at) = wanted(last) {
        let at = horizon.open_from(at.max(last + spacing).max(horizon.earliest(times.len())));
        if at > latest {
            break;
        }
        if times.len() == most {
            return None;
        }
        times.push(at);
        last = at;
    }
    if horizon.end == End::Probed {
        times.push(horizon.length());
    }
    Some(times)
}

/// The schedule of the smallest level with which probes wherever `grown` has reached it are not too
/// many. A higher level puts every single probe off, so there is one such level; as numbers of 0 or
/// more are ordered like their bits, the bits are bisected, to the last.
fn least_level(
    horizon: &Horizon,
    grown: impl Fn(PrefixSums, PrefixSums) -> f64,
) -> Result<Vec<Span>, Impossible> {
    horizon.check()?;
    let most = most_before_end(horizon);
    let reached = |last: Span, level: f64| {
        let from = horizon.cost.sums(last);
        let enough = |at: Span| grown(from, horizon.cost.sums(at)) >= level;
        enough(horizon.length()).then(|| first(last, horizon.length(), enough))
    };
    let schedule = |bits: u64| follow(horizon, most, |last| reached(last, f64::from_bits(bits)));
    let (mut low, mut high) = (0, f64::MAX.to_bits());
    while low < high {
        let middle = low + (high - low) / 2;
        match schedule(middle) {
            Some(_) => high = middle,
            None => low = middle + 1,
        }
    }
    Ok(schedule(low).unwrap_or_default())
}

/// The first time after `from` at which this holds; it does at `until` and from then on.
fn first(from: Span, until: Span, holds: impl Fn(Span) -> bool) -> Span {
    let (mut low, mut high) = (from, until);
    while high - low > TICK {
        let middle = low + (high - low).scaled(0.5);
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}
