//! The three policies that the best schedule is compared with (Eckstein, Gal, Reiner, section 5.2):
//! uniform, threshold and first arrival.
//!
//! Each goes from one probe to the next without lookahead and has one parameter, which is set so that n
//! probes result. Spacing, closed times and the spent budget delay a probe; a probe that would then be too
//! close to the end is dropped. Must not know the cost of the schedules.

use tidewatch_core::model::obsolescence::PrefixSums;
use tidewatch_core::time::Span;

use tidewatch_core::planning::horizon::{Horizon, HorizonEnd, Impossible};

const TICK: Span = Span::from_millis(1);

/// A probe every T/n, or every T/(n + 1) if the end needs no probe. Of several probes that a closed time
/// delays to its end, one remains.
pub fn uniform(horizon: &Horizon) -> Result<Vec<Span>, Impossible> {
    horizon.check()?;
    let most = most_before_end(horizon);
    let gaps = most as f64 + 1.0;
    let mut even = (1..=most).map(|index| horizon.length().scaled(index as f64 / gaps));
    Ok(follow(horizon, most, |last| even.find(|&at| at > last)).unwrap_or_default())
}

/// A probe whenever the expected cost since the last one has reached Π, the smallest value for which n probes
/// are enough.
pub fn threshold(horizon: &Horizon) -> Result<Vec<Span>, Impossible> {
    least_level(horizon, PrefixSums::cost_until)
}

/// A probe whenever an update has happened with probability π: when Λ since the last probe has reached
/// −ln(1 − π). The smallest π is taken for which n probes are enough. If no probe is delayed, these are equal
/// steps of Λ.
pub fn first_arrival(horizon: &Horizon) -> Result<Vec<Span>, Impossible> {
    least_level(horizon, |last, now| now.updates - last.updates)
}

/// The maximum number of probes, without the one at the end.
fn most_before_end(horizon: &Horizon) -> usize {
    match horizon.end {
        HorizonEnd::Probed => {
            horizon.may_be_sent(horizon.length()).min(horizon.probes).saturating_sub(1) as usize
        }
        HorizonEnd::Open => horizon.probes as usize,
    }
}

/// Takes each probe at the wanted time, or as soon after it as allowed. `None` if that needs too many probes.
fn follow(
    horizon: &Horizon,
    most: usize,
    mut wanted: impl FnMut(Span) -> Option<Span>,
) -> Option<Vec<Span>> {
    let spacing = horizon.min_spacing.max(TICK);
    let latest = match horizon.end {
        HorizonEnd::Probed => horizon.length() - spacing,
        HorizonEnd::Open => horizon.length() - TICK,
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
    if horizon.end == HorizonEnd::Probed {
        times.push(horizon.length());
    }
    Some(times)
}

/// The schedule of the smallest level for which at most n probes are needed, with a probe whenever `grown`
/// reaches the level. A higher level delays every probe, so there is one such level. Floats of 0 or more are
/// ordered like their bits, so the bits are bisected down to the last.
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

/// The first time after `from` at which this holds. It must hold from some time on, and at `until`.
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
