//! Decides when a probe may follow a redirect to another site.
//!
//! The request to the other site is one like any other: not during a pause, one at a time, and spaced. The number of
//! sites is bounded. Must not know how long the probe can wait.

use crate::source_id::SourceId;
use crate::time::Timestamp;

use super::action::Action;
use super::params::HostGroup;
use super::state::Engine;
use super::wait_transitions::closed_until;

impl Engine {
    /// Reserves the other site for the probe, or says when to ask again.
    pub(super) fn redirect(
        &mut self,
        id: SourceId,
        to: &HostGroup,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        if self.hosts.known(&to.key).is_none()
            && let Err(until) = self.room_for_host(now)
        {
            actions.push(Action::Redirect { source: id, answer: Err(until) });
            return;
        }
        let host = self.hosts.host(&to.key);
        let spacing = self.params.host_spacing;
        let Some(source) = self.sources.get_mut(&id) else { return };
        let Some(probe) = source.probe_mut() else { return };
        let (own, reserved) = probe.hosts;
        let closed = match host == own || reserved == Some(host) {
            // Busy with this probe.
            true => self.hosts.closed_until_known(host).max(self.hosts.paused_until(host)),
            false => closed_until(&self.hosts, host, now),
        };
        let answer = match closed.filter(|&until| until > now) {
            Some(until) => Err(until),
            None => self.hosts.claim_start(host, spacing, now),
        };
        if answer.is_ok() && host != own && reserved != Some(host) {
            if let Some(before) = reserved {
                // Its request has ended with a redirect.
                self.hosts.close_until(before, now + spacing);
                self.hosts.release(before, now);
            }
            self.hosts.occupy(host);
            probe.hosts = (own, Some(host));
        }
        actions.push(Action::Redirect { source: id, answer });
    }
}
