//! Forgets host groups that no source has.
//!
//! Redirects lead to any number of them, and a hostile page can name a new one at each probe. Those that limit requests
//! now are kept, so that no pause is broken; when they are very many, no redirect leads to a further one. Must not know
//! why a host was added.

use crate::source_table::SourceTable;
use crate::time::{Span, Timestamp};

use super::hosts::HostIx;
use super::source::Source;
use super::state::Engine;

/// For this long no redirect leads to a new host if too many limit requests.
const CLOSED_FOR: Span = Span::from_hours(1);

impl Engine {
    /// Forgets unused hosts if many were added. It visits all sources, so it is not done for each host.
    pub(super) fn forget_unused_hosts(&mut self, now: Timestamp) {
        if self.hosts.are_many_new(now) {
            let used = used_hosts(&self.sources, self.hosts.len());
            let forgotten = self.hosts.forget_unused(&used, now, CLOSED_FOR);
            self.outage.forget(&forgotten);
        }
    }

    /// From when a redirect may lead to a host that is not known yet.
    pub(super) fn room_for_host(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        self.forget_unused_hosts(now);
        self.hosts.full_until().filter(|&until| until > now).map_or(Ok(()), Err)
    }
}

/// Whether a source has each host, by the host's number: as its own, for its redirects, or during its probe.
pub(super) fn used_hosts(sources: &SourceTable<Box<Source>>, hosts: usize) -> Vec<bool> {
    let mut used = vec![false; hosts];
    let mut mark = |host: HostIx| {
        if let Some(used) = used.get_mut(host.0 as usize) {
            *used = true;
        }
    };
    for source in sources.values() {
        mark(source.host);
        source.redirect_host.into_iter().for_each(&mut mark);
        if let Some(probe) = source.condition().in_progress() {
            mark(probe.hosts.0);
            probe.hosts.1.into_iter().for_each(&mut mark);
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::action::{Action, Persist};
    use crate::engine::event::{Committed, EngineEvent, KnownSource, Moved, ProbeAnswer, ProbeReport};
    use crate::engine::hosts::Hosts;
    use crate::engine::loading::Loader;
    use crate::engine::params::{FleetParams, HostGroup, SourcePrice, Terms};
    use crate::engine::source_memory::SourceMemory;
    use crate::planning::budget::Budget;
    use crate::planning::policy::Policy;
    use crate::source_id::SourceId;

    fn t(hours: i64) -> Timestamp {
        Timestamp::from_secs(1_794_787_200 + 3_600 * hours)
    }

    fn key(n: usize) -> Arc<str> {
        format!("host{n}.example").into()
    }

    /// Hosts with these numbers.
    fn many(count: usize) -> Hosts {
        let mut hosts = Hosts::default();
        (0..count).for_each(|n| assert_eq!(hosts.host(&key(n)), HostIx(n as u32)));
        hosts
    }

    fn forget(hosts: &mut Hosts, used: &[bool]) -> Vec<u32> {
        hosts.forget_unused(used, t(0), CLOSED_FOR).into_iter().map(|host| host.0).collect()
    }

    #[test]
    fn unused_hosts_are_forgotten_unless_they_limit_requests() {
        let mut hosts = many(7);
        hosts.occupy(HostIx(1));
        hosts.pause(HostIx(2), t(9_000));
        hosts.close_until(HostIx(3), t(1));
        hosts.set_crawl_delay(HostIx(4), "https://host4.example", Span::from_secs(9));
        hosts.pause(HostIx(5), t(-1));
        assert_eq!(forget(&mut hosts, &[true]), [5, 6]);
        assert_eq!((hosts.known("host5.example"), hosts.known("host4.example")), (None, Some(HostIx(4))));
        assert_eq!(hosts.paused_until(HostIx(2)), Some(t(9_000)));
        assert!(forget(&mut hosts, &[true]).is_empty(), "a free number is no host");
        let again = [hosts.host(&key(8)), hosts.host(&key(5)), hosts.host(&key(9))];
        assert_eq!(again.map(|host| host.0), [5, 6, 7]);
        assert_eq!(again.map(|host| hosts.key(host).to_string()), [8, 5, 9].map(|n| key(n).to_string()));
        assert_eq!(hosts.paused_until(HostIx(5)), None, "of the host that had the number");
    }

    #[test]
    fn a_forgotten_host_with_a_parked_source_keeps_no_other_from_its_turn() {
        let mut hosts = many(2);
        hosts.occupy(HostIx(0));
        hosts.park(HostIx(0), SourceId(1), false);
        hosts.release(HostIx(0), t(-1));
        hosts.push(HostIx(1), t(0), SourceId(2));
        // The parked source was removed.
        assert_eq!(forget(&mut hosts, &[false, true]), [0]);
        assert_eq!(hosts.pop(t(0)), Some((HostIx(1), SourceId(2), false)));
        assert_eq!((hosts.pop(t(0)), hosts.next()), (None, None));
    }

    #[test]
    fn those_with_a_crawl_delay_that_were_asked_last_are_kept() {
        let mut hosts = many(1_500);
        for n in 0..1_500 {
            let host = HostIx(n as u32);
            hosts.set_crawl_delay(host, "", Span::from_secs(9));
            hosts.close_until(host, t(-1 - n));
        }
        assert_eq!(forget(&mut hosts, &[]), (1_000..1_500).collect::<Vec<_>>());
        assert!(hosts.full_until().is_none() && !hosts.are_many_new(t(0)));
    }

    #[test]
    fn while_very_many_limit_requests_there_is_room_for_no_other() {
        let mut hosts = many(10_000);
        (0..10_000).for_each(|n| hosts.pause(HostIx(n), t(2)));
        assert_eq!((forget(&mut hosts, &[]), hosts.full_until()), (vec![], Some(t(1))));
        assert!(!hosts.are_many_new(t(0)) && hosts.are_many_new(t(1)));
        hosts.lift_pause(HostIx(7));
        assert_eq!((forget(&mut hosts, &[]), hosts.full_until()), (vec![7], None));
    }

    #[test]
    fn origins_with_a_crawl_delay_are_bounded_and_the_largest_holds() {
        let mut hosts = many(2);
        let secs = Span::from_secs;
        for n in 0..1_000 {
            hosts.set_crawl_delay(HostIx(0), &format!("https://a:{n}"), secs(1 + n % 50));
        }
        assert_eq!(hosts.crawl_delay(HostIx(0)), secs(50));
        assert_eq!(hosts.delays_of(HostIx(0)).count(), 32);
        // Those of the other origins are reported again when their pages are probed.
        hosts.set_crawl_delay(HostIx(0), "https://a:49", Span::ZERO);
        hosts.set_crawl_delay(HostIx(0), "https://a:999", secs(4));
        hosts.set_crawl_delay(HostIx(1), "https://b", secs(60));
        assert_eq!((hosts.crawl_delay(HostIx(0)), hosts.crawl_delay(HostIx(1))), (secs(49), secs(60)));
    }

    /// An engine with one source, whose probes are sent and answered.
    struct World {
        engine: Engine,
        now: Timestamp,
    }

    impl World {
        fn new() -> Self {
            let terms = Terms {
                budget: Budget::default(),
                policy: Policy::Uniform,
                weight: 1.0,
                price: SourcePrice::Fleet,
                max_gap: None,
                cost: None,
                host: HostGroup { key: "own.example".into(), public: true },
            };
            let mut loader = Loader::new(FleetParams::default(), 7, t(0));
            loader.sources(vec![KnownSource {
                id: SourceId(1),
                terms,
                memory: SourceMemory::default(),
                probes: Vec::new(),
                answered_by: None,
                moved: Moved::Same,
            }]);
            Self { engine: loader.finish(), now: t(0) }
        }

        fn handle(&mut self, event: EngineEvent) -> Vec<Action> {
            let mut actions = Vec::new();
            self.engine.handle(self.now, event, &mut actions);
            actions
        }

        /// The next probe, which redirects to this host. Returns the answer to the redirect.
        fn probe(&mut self, to: Arc<str>) -> Result<(), Timestamp> {
            let (id, host) = (SourceId(1), HostGroup { key: to, public: true });
            loop {
                self.now += Span::from_mins(1);
                let started = |action: &Action| matches!(action, Action::Persist(Persist::Started(_)));
                if self.handle(EngineEvent::Tick).iter().any(started) {
                    break;
                }
            }
            self.handle(EngineEvent::Committed(Committed::Started(vec![id])));
            let redirected = self.handle(EngineEvent::ProbeRedirected { source: id, to: host.clone() });
            let answer = redirected.iter().find_map(|action| match action {
                Action::Redirect { answer, .. } => Some(*answer),
                _ => None,
            });
            let report = ProbeReport {
                source: id,
                started: self.now,
                finished: self.now,
                answered_by: Some(host),
                crawl_delays: Vec::new(),
                result: Ok(ProbeAnswer::default()),
            };
            self.handle(EngineEvent::ProbeEnded(Box::new(report)));
            self.handle(EngineEvent::Committed(Committed::Ended(id)));
            answer.expect("it is answered")
        }
    }

    #[test]
    fn a_source_that_redirects_to_a_new_host_at_each_probe_takes_bounded_memory() {
        let mut world = World::new();
        let paused = world.engine.hosts.host(&"paused.example".into());
        world.engine.hosts.pause(paused, t(1_000_000));
        for n in 0..3_000 {
            assert_eq!(world.probe(key(n)), Ok(()));
        }
        assert!(world.engine.hosts.len() < 1_100, "{}", world.engine.hosts.len());
        // Its own host and the one of its last redirect are still known.
        let source = world.engine.sources.get(&SourceId(1)).unwrap();
        assert_eq!(world.engine.hosts.known("own.example"), Some(source.host));
        assert_eq!(world.engine.hosts.known(&key(2_999)), source.redirect_host);
        assert_eq!(world.probe("paused.example".into()), Err(t(1_000_000)));
    }

    #[test]
    fn a_redirect_to_an_unknown_host_waits_while_there_is_no_room() {
        let mut world = World::new();
        world.probe("known.example".into()).unwrap();
        for n in 0..10_000 {
            let host = world.engine.hosts.host(&key(n));
            world.engine.hosts.pause(host, t(1_000_000));
        }
        let until = world.probe("new.example".into()).unwrap_err();
        assert!(until > world.now && until <= world.now + CLOSED_FOR);
        assert_eq!(world.probe("known.example".into()), Ok(()));
        assert_eq!(world.probe(key(7)), Err(t(1_000_000)));
    }
}
