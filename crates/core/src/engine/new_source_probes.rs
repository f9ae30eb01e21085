//! The early probes of new sources.
//!
//! A new source is probed δ, 2δ and 4δ after the probe before, and then by what was found. These probes are
//! inside its budget and begin only while three quarters of it are left. The early probes of all sources
//! together take at most a tenth of the slots, and those of a host group at most a tenth of its requests. A
//! large number of new sources delays neither the others nor their neighbours. An early probe that would not
//! be sooner than the usual one is not reserved. Must not know what probes find.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use crate::time::{Span, Timestamp};

use super::hosts::HostIx;
use super::params::FleetParams;
use super::source::Source;

/// The number of early probes of a source.
pub(super) const EARLY_PROBES: u8 = 3;

/// Early probes take at most one of this many slots, and of the requests to a host group.
const SHARE: u32 = 10;

/// How many times are tried for an early probe.
const MOST_TRIES: usize = 256;

/// The times reserved for early probes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct EarlyProbes {
    /// Early probes per period of slots, by its beginning.
    slots: BTreeMap<Timestamp, u32>,
    /// The periods of each host group that have an early probe, by their beginning.
    hosts: BTreeSet<(Timestamp, HostIx)>,
}

impl EarlyProbes {
    /// Reserves a time in [from, until) for an early probe of a source of this host group; `None` if there is
    /// none, or only after many tries.
    pub fn reserve(
        &mut self,
        (host, host_spacing): (HostIx, Span),
        (from, until): (Timestamp, Timestamp),
        now: Timestamp,
        params: &FleetParams,
    ) -> Option<Timestamp> {
        let slots = params.probes_per_step;
        // A period has one early probe at least: with few slots it is several steps long.
        let (steps, most) = (SHARE.div_ceil(slots.max(1)), (slots / SHARE).max(1));
        let period = params.step.scaled(f64::from(steps)).max(Span::from_millis(1));
        let visit = host_spacing.scaled(f64::from(SHARE)).max(Span::from_millis(1));
        self.slots = self.slots.split_off(&(now - period));
        self.hosts = self.hosts.split_off(&(now - visit, HostIx(0)));
        let begins = |at: Timestamp, length: Span| {
            let length = length.as_millis();
            Timestamp::from_millis(at.as_millis().div_euclid(length) * length)
        };
        let mut at = from;
        for _ in 0..MOST_TRIES {
            if at >= until {
                return None;
            }
            let (slot, visits) = (begins(at, period), (begins(at, visit), host));
            let taken = self.slots.get(&slot).is_some_and(|&count| count >= most);
            let visited = self.hosts.contains(&visits);
            if !taken && !visited {
                *self.slots.entry(slot).or_default() += 1;
                self.hosts.insert(visits);
                return Some(at);
            }
            let next_slot = if taken { slot + period } else { at };
            let next_visit = if visited { visits.0 + visit } else { at };
            at = next_slot.max(next_visit);
        }
        None
    }

    /// Forgets all reservations, after the clock was set.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Source {
    /// The wait until its next early probe after one that ended at `ended`, if it is new; counts that probe.
    pub fn take_early_wait(&mut self, ended: Timestamp) -> Option<Span> {
        let used = self.memory.early_probes;
        if used >= EARLY_PROBES || !self.terms.policy.has_price() {
            return None;
        }
        self.memory.early_probes += 1;
        let budget = &self.terms.budget;
        if self.spent.left(budget, ended) < budget.probes - budget.probes / 4 {
            return None;
        }
        // A spacing of zero is no wish for probes at once.
        let spacing = budget.min_spacing.max(budget.even_gap().scaled(0.5));
        Some(spacing.scaled(f64::from(1_u32 << used)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn early_probes_take_a_tenth_of_the_slots_and_of_a_host() {
        let params = FleetParams::default();
        let (mut early, now) = (EarlyProbes::default(), Timestamp::from_secs(1_000_000));
        let (within, spacing) = ((now, now + Span::from_hours(1)), params.host_spacing);
        let hosts: Vec<HostIx> = {
            let mut all = super::super::hosts::Hosts::default();
            (0..1000).map(|host| all.host(&Arc::from(format!("h{host}")))).collect()
        };
        let mut times: Vec<Timestamp> =
            hosts.iter().filter_map(|&host| early.reserve((host, spacing), within, now, &params)).collect();
        times.sort_unstable();
        // 20 slots in 10 s: two early probes in each step.
        for window in times.windows(3) {
            assert!(window[2] - window[0] >= Span::from_secs(1), "{window:?}");
        }
        let first_steps = times.iter().filter(|&&at| at < now + Span::from_secs(100)).count();
        assert!((19..=22).contains(&first_steps), "{first_steps}");
        assert!(times.len() >= 500 && times.len() < 1000, "the others found no time: {}", times.len());
        // One host: one request in 2 s, so an early one in 20 s.
        let mut early = EarlyProbes::default();
        let of_one: Vec<Timestamp> =
            (0..20).filter_map(|_| early.reserve((hosts[0], spacing), within, now, &params)).collect();
        assert_eq!(of_one.len(), 20);
        assert!(of_one.is_sorted() && of_one[19] - of_one[0] >= Span::from_secs(19 * 20 - 20));
        assert_eq!(early.reserve((hosts[0], spacing), (now, now), now, &params), None);
        let few = FleetParams { probes_per_step: 1, ..params };
        let mut early = EarlyProbes::default();
        let seldom: Vec<Timestamp> = hosts[..5]
            .iter()
            .filter_map(|&host| early.reserve((host, spacing), within, now, &few))
            .collect();
        assert!(seldom.windows(2).all(|pair| pair[1] - pair[0] >= Span::from_secs(1)), "{seldom:?}");
        assert!(seldom[4] - seldom[0] >= Span::from_secs(300), "one in a hundred seconds: {seldom:?}");
    }
}
