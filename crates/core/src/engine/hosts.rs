//! Host groups: queues of sources by due time, and when a request to a host is allowed.
//!
//! Each host group has its own queue. One ordered set holds the hosts by the time at which their first
//! source may be probed. A busy host has no entry there, so ten thousand sources on one busy host cost a
//! step nothing. All operations are O(log n). Holds all state of a host: busy, pause, spacing and crawl
//! delay. A number that was forgotten is given again. Must not know why a source is due.

use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::FakeRelativeClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::direct::NotKeyed;
use governor::{Quota, RateLimiter};

use crate::time::{Span, Timestamp};

use crate::source_id::SourceId;

use super::params::HostGroup;

/// A host group's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostIx(pub u32);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Host {
    key: Arc<str>,
    waiting: BTreeSet<(Timestamp, SourceId)>,
    /// Sources selected while the host was closed: due ones, and sampled ones.
    parked: [Parked; 2],
    condition: HostCondition,
    /// The pause that the host asked for; separate because it is shown and stored.
    paused_until: Option<Timestamp>,
    /// Closed until then after the end of the last request: spacing or crawl delay.
    held_until: Option<Timestamp>,
    /// Closed until then after the start of the last request.
    spaced_until: Option<Timestamp>,
    /// The largest of its origins.
    crawl_delay: Span,
    /// Its entry in the ordered set.
    listed: Option<Ready>,
}

/// The state of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum HostCondition {
    /// No request is in progress.
    Idle,
    /// A request is in progress.
    Busy,
}

/// When the first source of a host may be probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Ready {
    /// Immediately: a source is parked, and the host is open.
    Now,
    /// From this time on.
    At(Timestamp),
}

impl Ready {
    fn time(self) -> Timestamp {
        match self {
            Self::Now => Timestamp::MIN,
            Self::At(at) => at,
        }
    }
}

/// Sources that wait for a host to open.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Parked {
    line: VecDeque<SourceId>,
    /// How many were released since the last request.
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

impl Host {
    fn new(key: Arc<str>) -> Self {
        Self {
            key,
            waiting: BTreeSet::new(),
            parked: Default::default(),
            condition: HostCondition::Idle,
            paused_until: None,
            held_until: None,
            spaced_until: None,
            crawl_delay: Span::ZERO,
            listed: None,
        }
    }

    /// Whether it has a request in progress, or limits the next one.
    fn is_limited(&self, now: Timestamp) -> bool {
        self.condition == HostCondition::Busy || self.closed_until().max(self.spaced_until) > Some(now)
    }

    /// The end of its pause, spacing or crawl delay.
    fn closed_until(&self) -> Option<Timestamp> {
        self.paused_until.max(self.held_until)
    }
}

/// If a request may start now: the earliest start of the one after it. Else: the earliest start. governor
/// does the arithmetic (a burst of one) on state of the host, which can be shown and recorded.
fn next_start(
    spaced_until: Option<Timestamp>,
    spacing: Span,
    now: Timestamp,
) -> Result<Option<Timestamp>, Timestamp> {
    // A spacing of zero allows everything.
    let Some(quota) = Quota::with_period(spacing.to_duration()) else { return Ok(None) };
    let until = spaced_until.filter(|&until| until > now);
    let cell = StartCell(Cell::new(until.map(|until| Nanos::from((until - now).to_duration()))));
    let quota = quota.allow_burst(NonZeroU32::MIN);
    let limiter: RateLimiter<NotKeyed, StartCell, FakeRelativeClock, NoOpMiddleware<Nanos>> =
        RateLimiter::new(quota, cell, FakeRelativeClock::default());
    let allowed = limiter.check().is_ok();
    let next = limiter.into_state_store().0.get().map(|nanos| {
        now + Span::from_millis(i64::try_from(nanos.as_u64().div_ceil(1_000_000)).unwrap_or(i64::MAX))
    });
    if allowed { Ok(next) } else { Err(next.unwrap_or(now)) }
}

/// The time until the next request may start, in governor's form.
struct StartCell(Cell<Option<Nanos>>);

impl StateStore for StartCell {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _: &NotKeyed, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let (allowed, next) = measure(self.0.get())?;
        self.0.set(Some(next));
        Ok(allowed)
    }
}

/// How many parked sources are released at a time when their host opens. Only one of them can be probed;
/// more would be deferred again.
const LET_GO: u8 = 4;

/// Sources that are counted when one of them is refused.
const MOST_COUNTED: usize = 1_000;

/// Origins of a host whose crawl delays are known. Each probe of a page reports that of its origin again.
const MOST_ORIGINS: usize = 32;

/// Unused hosts are forgotten when this many were added, or a sixteenth of all if that is more.
const MANY_NEW: usize = 1_000;

/// Most unused hosts with a crawl delay. If one is forgotten, its robots.txt is read again before its next page.
const MOST_WITH_DELAY: usize = 1_000;

/// Unused hosts that may limit requests at the same time.
const MOST_LIMITED: usize = 10_000;

/// All host groups.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Hosts {
    hosts: Vec<Host>,
    by_key: BTreeMap<Arc<str>, HostIx>,
    ready: BTreeSet<(Ready, HostIx)>,
    /// The crawl delays of origins that ask for one. An empty name stands for an unknown origin of before a restart.
    crawl_delays: BTreeMap<(HostIx, Arc<str>), Span>,
    /// The source that each host refused last, until it was probed since, and at most until this time.
    refused: BTreeMap<HostIx, (SourceId, Timestamp)>,
    /// Numbers of forgotten hosts.
    free: BTreeSet<HostIx>,
    /// Hosts added since unused ones were forgotten.
    added: u32,
    /// Until then too many unused hosts limit requests.
    full_until: Option<Timestamp>,
}

impl Hosts {
    /// Drops the starts of requests after the spacing changed.
    pub fn forget_starts(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.spaced_until = None);
    }

    /// Reserves the host for a request that starts now, or returns from when that is possible. Two starts
    /// are at least `spacing` apart.
    pub fn claim_start(&mut self, host: HostIx, spacing: Span, now: Timestamp) -> Result<(), Timestamp> {
        let entry = self.at_mut(host);
        match next_start(entry.spaced_until, spacing, now) {
            Ok(next) => {
                entry.spaced_until = next;
                Ok(())
            }
            Err(from) => Err(from),
        }
    }

    /// The number of a host group, new or known.
    pub fn host(&mut self, key: &Arc<str>) -> HostIx {
        if let Some(&ix) = self.by_key.get(key) {
            return ix;
        }
        let ix = self.free.pop_first();
        let ix = ix.inspect(|&ix| self.at_mut(ix).key = Arc::clone(key)).unwrap_or_else(|| {
            self.hosts.push(Host::new(Arc::clone(key)));
            HostIx(u32::try_from(self.hosts.len() - 1).unwrap_or(u32::MAX))
        });
        self.added = self.added.saturating_add(1);
        self.by_key.insert(key.clone(), ix);
        ix
    }

    /// One more than the largest number.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Whether enough hosts were added for unused ones to be forgotten.
    pub fn are_many_new(&self, now: Timestamp) -> bool {
        self.added as usize >= MANY_NEW.max(self.hosts.len() / 16)
            || self.full_until.is_some_and(|until| until <= now)
    }

    /// Until when too many unused hosts limit requests.
    pub fn full_until(&self) -> Option<Timestamp> {
        self.full_until
    }

    /// Forgets hosts that are not `used`, by their numbers. Those that limit requests now are kept, and of those with a
    /// crawl delay the ones that were asked last. If too many limit requests, there is no room for others for `closed_for`.
    pub fn forget_unused(&mut self, used: &[bool], now: Timestamp, closed_for: Span) -> BTreeSet<HostIx> {
        let (mut forgotten, mut with_delay, mut limited) = (BTreeSet::new(), Vec::new(), 0);
        // By number: the order of names differs in a recording.
        for (ix, host) in (0..).map(HostIx).zip(&self.hosts) {
            if used.get(ix.0 as usize) == Some(&true) || self.free.contains(&ix) {
                continue;
            }
            if host.is_limited(now) {
                limited += 1;
            } else if host.crawl_delay > Span::ZERO {
                with_delay.push((host.held_until, ix));
            } else {
                forgotten.insert(ix);
            }
        }
        with_delay.sort_unstable();
        let excess = with_delay.len().saturating_sub(MOST_WITH_DELAY);
        forgotten.extend(with_delay[..excess].iter().map(|&(_, ix)| ix));
        for &ix in &forgotten {
            // A removed source may still have a place in its line.
            if let Some(ready) = self.at(ix).listed {
                self.ready.remove(&(ready, ix));
            }
            *self.at_mut(ix) = Host::new("".into());
            self.refused.remove(&ix);
        }
        self.by_key.retain(|_, ix| !forgotten.contains(ix));
        self.crawl_delays.retain(|(ix, _), _| !forgotten.contains(ix));
        self.free.extend(&forgotten);
        self.added = 0;
        self.full_until = (limited >= MOST_LIMITED).then_some(now + closed_for);
        forgotten
    }

    /// The name of a host group.
    pub fn key(&self, host: HostIx) -> &Arc<str> {
        &self.at(host).key
    }

    /// A host group, of a public name or not.
    pub fn group(&self, host: HostIx, public: bool) -> HostGroup {
        HostGroup { key: Arc::clone(self.key(host)), public }
    }

    /// Renames every host group and origin.
    pub fn rename(&mut self, mut name: impl FnMut(&str) -> Arc<str>) {
        self.by_key = self.by_key.iter().map(|(key, &host)| (name(key), host)).collect();
        for (key, host) in &self.by_key {
            self.hosts[host.0 as usize].key = Arc::clone(key);
        }
        let renamed = std::mem::take(&mut self.crawl_delays).into_iter().map(|((host, origin), delay)| {
            // The empty name contains nothing to hide.
            let origin = if origin.is_empty() { origin } else { name(&origin) };
            ((host, origin), delay)
        });
        self.crawl_delays = renamed.collect();
    }

    /// The number of a known host group.
    pub fn known(&self, key: &str) -> Option<HostIx> {
        self.by_key.get(key).copied()
    }

    /// Queues a source.
    pub fn push(&mut self, host: HostIx, due: Timestamp, source: SourceId) {
        self.at_mut(host).waiting.insert((due, source));
        self.list(host);
    }

    /// Takes a source out of its queue.
    pub fn remove(&mut self, host: HostIx, due: Timestamp, source: SourceId) {
        self.at_mut(host).waiting.remove(&(due, source));
        self.list(host);
    }

    /// Takes out the next source of the earliest host that is ready by `now`. The flag is true if it was
    /// parked.
    pub fn pop(&mut self, now: Timestamp) -> Option<(HostIx, SourceId, bool)> {
        let &(ready, host) = self.ready.first()?;
        if ready.time() > now {
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

    /// Parks a selected source until its closed host opens. Due sources are released before sampled ones.
    pub fn park(&mut self, host: HostIx, source: SourceId, sampled: bool) {
        self.at_mut(host).parked[usize::from(sampled)].line.push_back(source);
        self.list(host);
    }

    /// A released source was not probed: other parked sources may be released.
    pub fn open_queue(&mut self, host: HostIx) {
        self.at_mut(host).parked.iter_mut().for_each(|parked| parked.let_go = 0);
        self.list(host);
    }

    /// The earliest time at which a queued source may be probed.
    pub fn next(&self) -> Option<Timestamp> {
        self.ready.first().map(|&(ready, _)| ready.time())
    }

    /// A request to the host is in progress.
    pub fn occupy(&mut self, host: HostIx) {
        let entry = self.at_mut(host);
        entry.condition = HostCondition::Busy;
        entry.parked.iter_mut().for_each(|parked| parked.let_go = 0);
        self.list(host);
    }

    /// The request to the host has ended.
    pub fn release(&mut self, host: HostIx, now: Timestamp) {
        let entry = self.at_mut(host);
        entry.condition = HostCondition::Idle;
        entry.held_until = entry.held_until.max(Some(now + entry.crawl_delay));
        self.list(host);
    }

    /// The request to the host was not sent.
    pub fn cancel(&mut self, host: HostIx) {
        self.at_mut(host).condition = HostCondition::Idle;
        self.list(host);
    }

    /// Restores the spacing and crawl delay after a probe that ended before a restart.
    pub fn resume_after(&mut self, host: HostIx, spacing: Span, ended: Timestamp) {
        self.close_until(host, ended + spacing.max(self.crawl_delay(host)));
    }

    /// Closes the host until `until`, because of spacing.
    pub fn close_until(&mut self, host: HostIx, until: Timestamp) {
        let entry = self.at_mut(host);
        entry.held_until = entry.held_until.max(Some(until));
        self.list(host);
    }

    /// Closes the host until `until`, because it asked for a pause.
    pub fn pause(&mut self, host: HostIx, until: Timestamp) {
        let entry = self.at_mut(host);
        entry.paused_until = entry.paused_until.max(Some(until));
        self.list(host);
    }

    /// Ends the pause that the host asked for. Returns when it would have ended.
    pub fn lift_pause(&mut self, host: HostIx) -> Option<Timestamp> {
        let lifted = self.at_mut(host).paused_until.take();
        self.list(host);
        lifted
    }

    /// The sources that wait for their due time.
    pub fn waiting(&self, host: HostIx) -> impl Iterator<Item = SourceId> {
        self.at(host).waiting.iter().map(|&(_, source)| source)
    }

    /// Notes that the host refused a request for this source, which is due at `due` again. It is behind others for `longest`
    /// after that at most. Returns how many others are due by then, counted up to a bound.
    pub fn refuse(&mut self, host: HostIx, source: SourceId, due: Timestamp, longest: Span) -> usize {
        self.refused.insert(host, (source, due + longest));
        let entry = self.at(host);
        let due = entry.waiting.range(..=(due, SourceId(i64::MAX))).take(MOST_COUNTED).count();
        due + entry.parked.iter().map(|parked| parked.line.len()).sum::<usize>().min(MOST_COUNTED)
    }

    /// A source was probed again.
    pub fn forget_refusal(&mut self, host: HostIx, source: SourceId) {
        if self.refused.get(&host).is_some_and(|&(refused, _)| refused == source) {
            self.refused.remove(&host);
        }
    }

    /// Whether the host refused this source last, and others wait for the host.
    pub fn goes_last(&self, host: HostIx, source: SourceId, now: Timestamp) -> bool {
        self.refused.get(&host).is_some_and(|&(refused, until)| refused == source && now < until)
            && self.at(host).parked.iter().any(|parked| !parked.line.is_empty())
    }

    /// The end of the pause that the host asked for.
    pub fn paused_until(&self, host: HostIx) -> Option<Timestamp> {
        self.at(host).paused_until
    }

    /// The end of spacing or crawl delay.
    pub fn closed_until_known(&self, host: HostIx) -> Option<Timestamp> {
        self.at(host).held_until
    }

    /// From when a request to the host is allowed; `None` while one is in progress.
    pub fn open_from(&self, host: HostIx) -> Option<Timestamp> {
        let entry = self.at(host);
        (entry.condition == HostCondition::Idle).then(|| entry.closed_until().unwrap_or(Timestamp::MIN))
    }

    /// The largest crawl delay of its origins.
    pub fn crawl_delay(&self, host: HostIx) -> Span {
        self.at(host).crawl_delay
    }

    /// Sets the crawl delay that robots.txt of an origin asks for; zero: none. An unknown origin no longer counts once
    /// one is known. Of more than [`MOST_ORIGINS`] only the largest delay is known.
    pub fn set_crawl_delay(&mut self, host: HostIx, origin: &str, delay: Span) {
        if !origin.is_empty() {
            self.crawl_delays.remove(&(host, "".into()));
        }
        let key = (host, Arc::from(origin));
        if delay == Span::ZERO {
            self.crawl_delays.remove(&key);
        } else if self.crawl_delays.contains_key(&key) || self.delays_of(host).count() < MOST_ORIGINS {
            self.crawl_delays.insert(key, delay);
        } else if self.delays_of(host).all(|(_, other)| other < delay) {
            let others: Vec<_> = self.delays_of(host).map(|(origin, _)| Arc::clone(origin)).collect();
            for other in others {
                self.crawl_delays.remove(&(host, other));
            }
            self.crawl_delays.insert(key, delay);
        }
        let largest = self.delays_of(host).map(|(_, delay)| delay).max();
        self.at_mut(host).crawl_delay = largest.unwrap_or(Span::ZERO);
    }

    /// The crawl delays of a host's origins.
    pub fn delays_of(&self, host: HostIx) -> impl Iterator<Item = (&Arc<str>, Span)> {
        let from_host = self.crawl_delays.range((host, "".into())..);
        from_host.take_while(move |((of, _), _)| *of == host).map(|((_, origin), &delay)| (origin, delay))
    }

    /// Moves all times after the clock was set.
    pub fn shift(&mut self, by: Span) {
        for host in &mut self.hosts {
            host.waiting = host.waiting.iter().map(|&(due, id)| (due + by, id)).collect();
            for at in [&mut host.paused_until, &mut host.held_until, &mut host.spaced_until] {
                *at = at.map(|at| at + by);
            }
        }
        self.refused.values_mut().for_each(|(_, until)| *until += by);
        self.full_until = self.full_until.map(|until| until + by);
        (0..self.hosts.len() as u32).for_each(|ix| self.list(HostIx(ix)));
    }

    /// Updates the host's entry in the ordered set.
    fn list(&mut self, host: HostIx) {
        let entry = &mut self.hosts[host.0 as usize];
        let first = match entry.waiting.first() {
            _ if entry.parked.iter().any(Parked::has_next) => Some(Ready::Now),
            first => first.map(|&(due, _)| Ready::At(due)),
        };
        let open = entry.closed_until().map_or(Ready::Now, Ready::At);
        let ready = first.filter(|_| entry.condition == HostCondition::Idle).map(|first| first.max(open));
        if entry.listed == ready {
            return;
        }
        if let Some(old) = entry.listed {
            self.ready.remove(&(old, host));
        }
        entry.listed = ready;
        if let Some(ready) = ready {
            self.ready.insert((ready, host));
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
    fn a_busy_or_paused_host_is_skipped() {
        let mut hosts = Hosts::default();
        let (a, b) = (hosts.host(&"a".into()), hosts.host(&"b".into()));
        hosts.push(a, t(1), SourceId(1));
        hosts.push(a, t(2), SourceId(2));
        hosts.push(b, t(3), SourceId(3));
        assert_eq!(hosts.pop(t(0)), None);
        assert_eq!(hosts.pop(t(5)), Some((a, SourceId(1), false)));
        hosts.occupy(a);
        assert_eq!(hosts.pop(t(5)), Some((b, SourceId(3), false)));
        assert_eq!(hosts.pop(t(5)), None, "a is busy");
        hosts.release(a, t(6));
        hosts.pause(a, t(9));
        assert_eq!(hosts.pop(t(8)), None, "a is paused");
        assert_eq!(hosts.next(), Some(t(9)));
        assert_eq!(hosts.pop(t(9)), Some((a, SourceId(2), false)));
        assert_eq!(hosts.next(), None);
    }

    #[test]
    fn a_crawl_delay_counts_from_the_end_of_a_request() {
        let mut hosts = Hosts::default();
        let a = hosts.host(&"a".into());
        hosts.set_crawl_delay(a, "https://a", Span::from_secs(30));
        hosts.push(a, t(1), SourceId(1));
        hosts.occupy(a);
        hosts.release(a, t(10));
        assert_eq!(hosts.next(), Some(t(40)));
    }

    #[test]
    fn of_a_site_the_largest_crawl_delay_holds_until_its_origin_takes_it_back() {
        let mut hosts = Hosts::default();
        let (a, b) = (hosts.host(&"a".into()), hosts.host(&"b".into()));
        let secs = Span::from_secs;
        hosts.set_crawl_delay(a, "", secs(40));
        hosts.set_crawl_delay(b, "https://b", secs(7));
        assert_eq!(hosts.crawl_delay(a), secs(40), "of before a restart");
        hosts.set_crawl_delay(a, "https://a", secs(30));
        assert_eq!(hosts.crawl_delay(a), secs(30));
        hosts.set_crawl_delay(a, "https://www.a", secs(5));
        assert_eq!(hosts.crawl_delay(a), secs(30), "the smaller one changes nothing");
        hosts.set_crawl_delay(a, "https://a", Span::ZERO);
        assert_eq!(hosts.crawl_delay(a), secs(5));
        hosts.set_crawl_delay(a, "https://www.a", Span::ZERO);
        assert_eq!((hosts.crawl_delay(a), hosts.crawl_delay(b)), (Span::ZERO, secs(7)));
    }

    #[test]
    fn two_starts_are_a_spacing_apart() {
        let mut hosts = Hosts::default();
        let (a, b) = (hosts.host(&"a".into()), hosts.host(&"b".into()));
        let spacing = Span::from_secs(2);
        assert_eq!(hosts.claim_start(a, spacing, t(1_000)), Ok(()));
        assert_eq!(hosts.claim_start(a, spacing, t(1_001)), Err(t(1_002)));
        assert_eq!(hosts.claim_start(b, spacing, t(1_001)), Ok(()));
        assert_eq!(hosts.claim_start(a, spacing, t(1_002)), Ok(()));
        hosts.shift(Span::from_secs(100));
        assert_eq!(hosts.claim_start(a, spacing, t(1_103)), Err(t(1_104)));
        assert_eq!(hosts.claim_start(a, Span::ZERO, t(1_103)), Ok(()), "no spacing allows everything");
    }
}
