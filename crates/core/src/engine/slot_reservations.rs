//! Reservations of slots for probes that must start by a certain time.
//!
//! A step has c slots, and a host allows one request per spacing. At the last moment both may be taken. So
//! a slot is reserved in advance, in the last step that has a free slot and a free host. Knows steps, hosts
//! and counts; must not know what a reservation is for.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::step::{Step, StepLength};
use crate::time::Timestamp;

use super::hosts::HostIx;
use super::params::FleetParams;

/// Reserved slots.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Reservations {
    steps: BTreeMap<Step, u32>,
    hosts: BTreeMap<HostIx, BTreeMap<Step, u32>>,
}

/// A reserved slot: the step and the host.
pub(super) type Reservation = (Step, HostIx);

/// Why no slot could be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NoReservation {
    /// All slots are reserved.
    Steps,
    /// Slots are free, but the host is reserved for other probes.
    Host,
}

/// How many steps before the last one are searched.
const FURTHEST_BACK: i64 = 4096;

impl Reservations {
    /// Reserves the last free slot between two times.
    pub fn reserve(
        &mut self,
        host: HostIx,
        (from, until): (Timestamp, Timestamp),
        params: &FleetParams,
    ) -> Result<Reservation, NoReservation> {
        let length = StepLength::new(params.step);
        let (first, last) = (length.step_of(from), length.step_of(until));
        let mut found = Err(NoReservation::Steps);
        for step in (first.max(last.plus(-FURTHEST_BACK)).0..=last.0).rev().map(Step) {
            if self.steps.get(&step).is_some_and(|&kept| kept >= params.probes_per_step) {
                continue;
            }
            if self.host_has_room(host, step, params) {
                found = Ok((step, host));
                break;
            }
            found = Err(NoReservation::Host);
        }
        if let Ok((step, host)) = found {
            *self.steps.entry(step).or_default() += 1;
            *self.hosts.entry(host).or_default().entry(step).or_default() += 1;
        }
        found
    }

    fn host_has_room(&self, host: HostIx, step: Step, params: &FleetParams) -> bool {
        let Some(kept) = self.hosts.get(&host) else { return true };
        let (spacing, length) = (params.host_spacing, StepLength::new(params.step));
        if spacing <= length.span() {
            let most = length.span().as_millis() / spacing.as_millis().max(1);
            return kept.get(&step).is_none_or(|&kept| i64::from(kept) < most);
        }
        // None within a spacing before or after.
        let apart = length.steps_to_cover(spacing);
        kept.range(step.plus(1 - apart)..step.plus(apart)).next().is_none()
    }

    /// Releases a reservation.
    pub fn release(&mut self, kept: Option<Reservation>) {
        let Some((step, host)) = kept else { return };
        less(&mut self.steps, step);
        if let Some(of_host) = self.hosts.get_mut(&host) {
            less(of_host, step);
            if of_host.is_empty() {
                self.hosts.remove(&host);
            }
        }
    }

    /// Drops reservations in past steps.
    pub fn forget_before(&mut self, step: Step) {
        if self.steps.first_key_value().is_none_or(|(&first, _)| first >= step) {
            return;
        }
        self.steps = self.steps.split_off(&step);
        self.hosts.retain(|_, kept| {
            *kept = kept.split_off(&step);
            !kept.is_empty()
        });
    }

    /// Drops all reservations.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

fn less(counts: &mut BTreeMap<Step, u32>, step: Step) {
    if let Some(count) = counts.get_mut(&step) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn params(probes_per_step: u32, host_spacing: i64) -> FleetParams {
        let (step, host_spacing) = (Span::from_secs(10), Span::from_secs(host_spacing));
        FleetParams { step, probes_per_step, host_spacing, ..FleetParams::default() }
    }

    #[test]
    fn the_last_free_slot_is_reserved() {
        let (mut calendar, params) = (Reservations::default(), params(2, 0));
        let mut keep =
            |host| calendar.reserve(HostIx(host), (at(0), at(25)), &params).map(|(step, _)| step.0);
        assert_eq!((0..6).map(&mut keep).collect::<Vec<_>>(), [Ok(2), Ok(2), Ok(1), Ok(1), Ok(0), Ok(0)]);
        assert_eq!(keep(7), Err(NoReservation::Steps));
        calendar.release(Some((Step(1), HostIx(2))));
        assert_eq!(calendar.reserve(HostIx(7), (at(0), at(25)), &params), Ok((Step(1), HostIx(7))));
    }

    #[test]
    fn reservations_of_a_host_are_a_spacing_apart() {
        let span = (at(0), at(59));
        let steps = |spacing: i64| {
            let (mut calendar, params) = (Reservations::default(), params(100, spacing));
            let mut kept = Vec::new();
            while let Ok((step, _)) = calendar.reserve(HostIx(1), span, &params) {
                kept.push(step.0);
            }
            assert_eq!(calendar.reserve(HostIx(1), span, &params), Err(NoReservation::Host));
            assert!(calendar.reserve(HostIx(2), span, &params).is_ok(), "other hosts are free");
            kept
        };
        assert_eq!(steps(25), [5, 2], "three steps apart");
        assert_eq!(steps(10), [5, 4, 3, 2, 1, 0]);
        assert_eq!(steps(5), [5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn past_reservations_are_dropped() {
        let (mut calendar, params) = (Reservations::default(), params(1, 0));
        for step in 0..100 {
            assert!(
                calendar
                    .reserve(HostIx(step), (at(i64::from(step) * 10), at(i64::from(step) * 10)), &params)
                    .is_ok()
            );
        }
        calendar.forget_before(Step(90));
        assert_eq!((calendar.steps.len(), calendar.hosts.len()), (10, 10));
    }
}
