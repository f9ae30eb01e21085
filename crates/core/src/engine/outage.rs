//! Detects an outage of our own network, and decides what is probed during one.
//!
//! Counts the host groups that could not be reached since the last answer from any of them. Only sources that
//! answered their last probe count: a host that is dead anyway shows nothing. During an outage a few probes at a
//! time, the canaries, find its end. Must not know what a probe costs its source.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use crate::time::{Span, Timestamp};

use super::hosts::HostIx;

/// This many unreachable hosts in a row, without any answer, are an outage.
const HOSTS: usize = 4;

/// The number of canaries …
const CANARIES: u32 = 3;
/// … in this time.
const CANARIES_EVERY: Span = Span::from_mins(1);

/// For this long no probe is started after one found no file descriptor.
const DESCRIPTORS_AGAIN: Span = Span::from_secs(10);

/// The state of our own network.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Outage {
    unreachable: BTreeSet<HostIx>,
    /// Some of the hosts whose sources answered last: as many as are needed to detect an outage.
    answering: BTreeSet<HostIx>,
    on: Option<OutageSoFar>,
    /// No probe starts before this time: this process had no file descriptor left.
    no_descriptors_until: Option<Timestamp>,
}

/// An outage in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct OutageSoFar {
    since: Timestamp,
    failed: u32,
    canaries_left: u32,
    next_canaries: Timestamp,
}

/// A change of the outage state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutageChange {
    /// An outage was detected.
    Began {
        /// How many hosts that answered before cannot be reached.
        hosts: u32,
    },
    /// A host answered again.
    Ended {
        /// How long it lasted.
        lasted: Span,
        /// How many probes failed meanwhile.
        failed: u32,
    },
}

/// An unreachable source, as evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastResult {
    /// Its last probe was answered.
    Answered,
    /// Its last probe failed too, or it never answered.
    Failed,
}

impl Outage {
    /// A source of this host answered its last probe before a restart.
    pub fn known_to_answer(&mut self, host: HostIx) {
        if self.answering.len() < HOSTS {
            self.answering.insert(host);
        }
    }

    /// These numbers will stand for other hosts.
    pub fn forget(&mut self, hosts: &BTreeSet<HostIx>) {
        self.answering.retain(|host| !hosts.contains(host));
        self.unreachable.retain(|host| !hosts.contains(host));
    }

    /// A host answered, with any status.
    pub fn answered(&mut self, host: HostIx, now: Timestamp) -> Option<OutageChange> {
        self.known_to_answer(host);
        self.unreachable.clear();
        let over = self.on.take()?;
        Some(OutageChange::Ended { lasted: now - over.since, failed: over.failed })
    }

    /// A source of this host could not be reached.
    pub fn unreachable(&mut self, host: HostIx, last: LastResult, now: Timestamp) -> Option<OutageChange> {
        if let Some(on) = &mut self.on {
            on.failed = on.failed.saturating_add(1);
            return None;
        }
        if last == LastResult::Failed {
            self.answering.remove(&host);
            return None;
        }
        self.unreachable.insert(host);
        // With few hosts all of them must fail; a single host is no proof.
        if self.unreachable.len() < HOSTS.min(self.answering.len().max(2)) {
            return None;
        }
        let next_canaries = now + CANARIES_EVERY;
        self.on = Some(OutageSoFar { since: now, failed: 1, canaries_left: 0, next_canaries });
        Some(OutageChange::Began { hosts: u32::try_from(self.unreachable.len()).unwrap_or(u32::MAX) })
    }

    /// Whether there is an outage.
    pub fn is_outage(&self) -> bool {
        self.on.is_some()
    }

    /// A probe found no file descriptor. Returns whether that is news.
    pub fn no_descriptors(&mut self, now: Timestamp) -> bool {
        let news = self.no_descriptors_until.is_none_or(|until| until + DESCRIPTORS_AGAIN < now);
        self.no_descriptors_until = Some(now + DESCRIPTORS_AGAIN);
        news
    }

    /// How many probes may start now; `None`: any number.
    pub fn allowance(&mut self, now: Timestamp) -> Option<u32> {
        if self.no_descriptors_until.is_some_and(|until| until > now) {
            return Some(0);
        }
        let on = self.on.as_mut()?;
        if on.next_canaries <= now {
            (on.canaries_left, on.next_canaries) = (CANARIES, now + CANARIES_EVERY);
        }
        Some(on.canaries_left)
    }

    /// A probe starts.
    pub fn started(&mut self) {
        if let Some(on) = &mut self.on {
            on.canaries_left = on.canaries_left.saturating_sub(1);
        }
    }

    /// The earliest start of a probe, if that is bounded.
    pub fn next_start(&self) -> Option<Timestamp> {
        let canaries = self.on.filter(|on| on.canaries_left == 0).map(|on| on.next_canaries);
        canaries.max(self.no_descriptors_until)
    }

    /// Moves all times after the clock was set.
    pub fn shift(&mut self, by: Span) {
        if let Some(on) = &mut self.on {
            on.since += by;
            on.next_canaries += by;
        }
        self.no_descriptors_until = self.no_descriptors_until.map(|until| until + by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    /// An outage among this many hosts that answered.
    fn watch(hosts: u32) -> Outage {
        let mut outage = Outage::default();
        for host in 0..hosts {
            assert_eq!(outage.answered(HostIx(host), t(0)), None);
        }
        outage
    }

    #[test]
    fn one_unreachable_host_is_no_outage_and_several_are() {
        let mut outage = watch(50);
        let mut fails = |host| outage.unreachable(HostIx(host), LastResult::Answered, t(9));
        for _ in 0..10 {
            assert_eq!(fails(0), None);
        }
        assert_eq!((fails(1), fails(2)), (None, None));
        assert_eq!(fails(3), Some(OutageChange::Began { hosts: 4 }));
        assert_eq!(fails(4), None);
        assert!(outage.is_outage());
        let ended = OutageChange::Ended { lasted: Span::from_secs(51), failed: 2 };
        assert_eq!(outage.answered(HostIx(9), t(60)), Some(ended));
        assert!(!outage.is_outage());
        assert_eq!(
            watch(1).unreachable(HostIx(0), LastResult::Answered, t(1)),
            None,
            "one host is no proof"
        );
    }

    #[test]
    fn hosts_that_were_dead_before_show_nothing() {
        let mut outage = watch(50);
        for host in 10..30 {
            assert_eq!(outage.unreachable(HostIx(host), LastResult::Failed, t(1)), None);
        }
        // Of three sites, one is dead for good: the other two are enough.
        let mut outage = watch(3);
        assert_eq!(outage.unreachable(HostIx(0), LastResult::Answered, t(1)), None);
        assert_eq!(outage.answered(HostIx(1), t(2)), None);
        assert_eq!(outage.unreachable(HostIx(0), LastResult::Failed, t(3)), None);
        assert_eq!(outage.unreachable(HostIx(1), LastResult::Answered, t(4)), None);
        let began = outage.unreachable(HostIx(2), LastResult::Answered, t(5));
        assert_eq!(began, Some(OutageChange::Began { hosts: 2 }));
    }

    #[test]
    fn during_an_outage_a_few_probes_start_each_minute() {
        let mut outage = watch(2);
        assert_eq!((outage.allowance(t(0)), outage.next_start()), (None, None));
        outage.unreachable(HostIx(0), LastResult::Answered, t(0));
        outage.unreachable(HostIx(1), LastResult::Answered, t(0));
        assert_eq!((outage.allowance(t(59)), outage.next_start()), (Some(0), Some(t(60))));
        for left in [3, 2, 1, 0] {
            assert_eq!(outage.allowance(t(60)), Some(left));
            outage.started();
        }
        assert_eq!((outage.allowance(t(119)), outage.next_start()), (Some(0), Some(t(120))));
        outage.answered(HostIx(1), t(119));
        assert_eq!((outage.allowance(t(119)), outage.next_start()), (None, None));
    }

    #[test]
    fn without_descriptors_no_probe_starts_for_a_while() {
        let mut outage = watch(9);
        assert!(outage.no_descriptors(t(0)));
        assert!(!outage.no_descriptors(t(5)), "it is reported once");
        assert_eq!((outage.allowance(t(14)), outage.next_start()), (Some(0), Some(t(15))));
        assert_eq!(outage.allowance(t(15)), None);
        assert!(outage.no_descriptors(t(60)), "another time");
    }
}
