//! Who is due next, host by host.
//!
//! Each host group keeps its own queue of sources by due time, and one ordered set holds the hosts
//! by the time at which their first source may go. So ten thousand sources on one busy host cost
//! the step nothing: the host has one entry, and none while a request to it is under way. All
//! operations are O(log n). Knows order, not rules: when a host may be asked again is told to it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::time::{Span, Timestamp};

use crate::source_id::SourceId;

/// A host group's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostIx(pub u32);

#[derive(Debug)]
struct Host {
    key: Arc<str>,
    waiting: BTreeSet<(Timestamp, SourceId)>,
    /// Whose turn had come when the host was closed: who is due, and who is sampled.
    parked: [Parked; 2],
    busy: bool,
    /// Its own plea for rest, kept apart because it is shown and stored.
    paused_until: Timestamp,
    /// Spacing or crawl delay.
    held_until: Timestamp,
    crawl_delay: Span,
    /// Its entry in the ordered set.
    listed: Option<Timestamp>,
}

/// Those that wait for a host to open.
#[derive(Debug, Default)]
struct Parked {
    line: VecDeque<SourceId>,
    /// How many were let go since a request was last sent.
    let_go: u8,
}

impl Parked {
    fn next(&mut self) -> Option<SourceId> {
        let source = if self.let_go < LET_GO { self.line.pop_front() } else { None };
        self.let_go += u8::from(source.is_some());
        source
    }

    fn has_next(&self) -> bool {
        self.let_go < LET_GO && !self.line.is_empty()
    }
}

/// Of those that are parked at a host, so many at a time try again when it opens: only one of them can
/// go, and more than a few would be turned away for nothing.
const LET_GO: u8 = 4;

/// The ordered hosts.
#[derive(Debug, Default)]
pub struct Frontier {
    hosts: Vec<Host>,
    by_key: HashMap<Arc<str>, HostIx>,
    ready: BTreeSet<(Timestamp, HostIx)>,
}

impl Frontier {
    /// The number of a host group, new or known.
    pub fn host(&mut self, key: &Arc<str>) -> HostIx {
        if let Some(&ix) = self.by_key.get(key) {
            return ix;
        }
        let ix = HostIx(u32::try_from(self.hosts.len()).unwrap_or(u32::MAX));
        self.hosts.push(Host {
            key: key.clone(),
            waiting: BTreeSet::new(),
            parked: Default::default(),
            busy: false,
            paused_until: Timestamp::MIN,
            held_until: Timestamp::MIN,
            crawl_delay: Span::ZERO,
            listed: None,
        });
        self.by_key.insert(key.clone(), ix);
        ix
    }

    /// How many host groups there are.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// The host group's name.
    pub fn key(&self, host: HostIx) -> &Arc<str> {
        &self.at(host).key
    }

    /// Queues a source.
    pub fn push(&mut self, host: HostIx, due: Timestamp, source: SourceId) {
        if due != Timestamp::MAX {
            self.at_mut(host).waiting.insert((due, source));
            self.list(host);
        }
    }

    /// Takes a source out of its queue.
    pub fn remove(&mut self, host: HostIx, due: Timestamp, source: SourceId) {
        self.at_mut(host).waiting.remove(&(due, source));
        self.list(host);
    }

    /// The next source of the earliest host that may go by `now`, taken out, and whether it was parked.
    pub fn pop(&mut self, now: Timestamp) -> Option<(HostIx, SourceId, bool)> {
        let &(at, host) = self.ready.first()?;
        if at > now {
            return None;
        }
        let entry = self.at_mut(host);
        let popped = match entry.parked.iter_mut().find_map(Parked::next) {
            Some(source) => (host, source, true),
            None => (host, entry.waiting.pop_first()?.1, false),
        };
        self.list(host);
        Some(popped)
    }

    /// A source whose turn had come finds the host closed: it tries again when that opens, who is due
    /// before who is sampled.
    pub fn park(&mut self, host: HostIx, source: SourceId, sampled: bool) {
        self.at_mut(host).parked[usize::from(sampled)].line.push_back(source);
        self.list(host);
    }

    /// Somebody who was let go did not go after all: others may try instead.
    pub fn let_others_go(&mut self, host: HostIx) {
        self.at_mut(host).parked.iter_mut().for_each(|parked| parked.let_go = 0);
        self.list(host);
    }

    /// When the next source may go, if any waits.
    pub fn next(&self) -> Option<Timestamp> {
        self.ready.first().map(|&(at, _)| at)
    }

    /// A request to the host is under way.
    pub fn occupy(&mut self, host: HostIx) {
        let entry = self.at_mut(host);
        entry.busy = true;
        entry.parked.iter_mut().for_each(|parked| parked.let_go = 0);
        self.list(host);
    }

    /// The request to the host has ended.
    pub fn release(&mut self, host: HostIx, now: Timestamp) {
        let entry = self.at_mut(host);
        entry.busy = false;
        entry.held_until = entry.held_until.max(now + entry.crawl_delay);
        self.list(host);
    }

    /// No request to the host before `until`, because of spacing.
    pub fn hold(&mut self, host: HostIx, until: Timestamp) {
        let entry = self.at_mut(host);
        entry.held_until = entry.held_until.max(until);
        self.list(host);
    }

    /// No request to the host before `until`, because it said so.
    pub fn pause(&mut self, host: HostIx, until: Timestamp) {
        let entry = self.at_mut(host);
        entry.paused_until = entry.paused_until.max(until);
        self.list(host);
    }

    /// Until when the host asked for rest.
    pub fn paused_until(&self, host: HostIx) -> Timestamp {
        self.at(host).paused_until
    }

    /// Until when spacing or crawl delay hold the host.
    pub fn held_until(&self, host: HostIx) -> Timestamp {
        self.at(host).held_until
    }

    /// From when a request to the host is allowed; `None` while one is under way.
    pub fn open_from(&self, host: HostIx) -> Option<Timestamp> {
        let entry = self.at(host);
        (!entry.busy).then(|| entry.paused_until.max(entry.held_until))
    }

    /// What robots.txt asks to keep between requests.
    pub fn crawl_delay(&self, host: HostIx) -> Span {
        self.at(host).crawl_delay
    }

    /// Sets what robots.txt asks to keep between requests.
    pub fn set_crawl_delay(&mut self, host: HostIx, delay: Span) {
        self.at_mut(host).crawl_delay = delay;
    }

    /// Moves everything when the clock was found to have been set.
    pub fn shift(&mut self, by: Span) {
        let move_finite = |at: Timestamp| if at == Timestamp::MIN { at } else { at + by };
        for host in &mut self.hosts {
            host.waiting = host.waiting.iter().map(|&(due, id)| (due + by, id)).collect();
            host.paused_until = move_finite(host.paused_until);
            host.held_until = move_finite(host.held_until);
            host.listed = host.listed.map(move_finite);
        }
        self.ready = self.ready.iter().map(|&(at, host)| (move_finite(at), host)).collect();
    }

    /// Brings the host's entry in the ordered set up to date.
    fn list(&mut self, host: HostIx) {
        let entry = &mut self.hosts[host.0 as usize];
        let first = match entry.waiting.first() {
            _ if entry.parked.iter().any(Parked::has_next) => Some(Timestamp::MIN),
            first => first.map(|&(due, _)| due),
        };
        let open = entry.paused_until.max(entry.held_until);
        let at = first.filter(|_| !entry.busy).map(|due| due.max(open));
        if entry.listed == at {
            return;
        }
        if let Some(old) = entry.listed {
            self.ready.remove(&(old, host));
        }
        entry.listed = at;
        if let Some(at) = at {
            self.ready.insert((at, host));
        }
    }

    fn at(&self, host: HostIx) -> &Host {
        &self.hosts[host.0 as usize]
    }

    fn at_mut(&mut self, host: HostIx) -> &mut Host {
        &mut self.hosts[host.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn a_busy_or_paused_host_steps_aside() {
        let mut frontier = Frontier::default();
        let (a, b) = (frontier.host(&"a".into()), frontier.host(&"b".into()));
        frontier.push(a, t(1), SourceId(1));
        frontier.push(a, t(2), SourceId(2));
        frontier.push(b, t(3), SourceId(3));
        assert_eq!(frontier.pop(t(0)), None);
        assert_eq!(frontier.pop(t(5)), Some((a, SourceId(1), false)));
        frontier.occupy(a);
        assert_eq!(frontier.pop(t(5)), Some((b, SourceId(3), false)));
        assert_eq!(frontier.pop(t(5)), None, "a is busy");
        frontier.release(a, t(6));
        frontier.pause(a, t(9));
        assert_eq!(frontier.pop(t(8)), None, "a rests");
        assert_eq!(frontier.next(), Some(t(9)));
        assert_eq!(frontier.pop(t(9)), Some((a, SourceId(2), false)));
        assert_eq!(frontier.next(), None);
    }

    #[test]
    fn a_crawl_delay_counts_from_the_end_of_a_request() {
        let mut frontier = Frontier::default();
        let a = frontier.host(&"a".into());
        frontier.set_crawl_delay(a, Span::from_secs(30));
        frontier.push(a, t(1), SourceId(1));
        frontier.occupy(a);
        frontier.release(a, t(10));
        assert_eq!(frontier.next(), Some(t(40)));
    }
}
