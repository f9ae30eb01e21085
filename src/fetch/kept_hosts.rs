//! The hosts whose connections are kept after an answer.
//!
//! Many sources of many hosts would need more sockets than a process may open. A host that is requested again keeps
//! its place, so frequent ones have one in the long run. Must not know what a connection is used for.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use url::Url;

use crate::clock::Stopwatch;

/// Shortest time between two searches for places that have become free.
const SEARCH_EVERY: Duration = Duration::from_secs(1);

/// A bounded number of hosts, each with its last request.
#[derive(Debug)]
pub(super) struct KeptHosts {
    most: usize,
    /// Time after the last request for which a connection may stay open.
    hold: Duration,
    hasher: RandomState,
    places: Mutex<Places>,
}

#[derive(Debug)]
struct Places {
    /// By the hash of scheme, host and port.
    last_request: HashMap<u64, Stopwatch>,
    searched: Stopwatch,
}

impl KeptHosts {
    pub(super) fn new(most: usize, hold: Duration) -> Self {
        let places = Places { last_request: HashMap::new(), searched: Stopwatch::start() };
        Self { most, hold, hasher: RandomState::new(), places: Mutex::new(places) }
    }

    /// Whether the connection of a request that is sent now is kept. Connections to private addresses are
    /// counted apart, because they are not shared with other requests.
    pub(super) fn keeps(&self, url: &Url, allow_private: bool) -> bool {
        let host = (url.scheme(), url.host_str(), url.port_or_known_default(), allow_private);
        let host = self.hasher.hash_one(host);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let Places { last_request, searched } = &mut *places;
        if last_request.len() >= self.most
            && !last_request.contains_key(&host)
            && searched.elapsed() >= SEARCH_EVERY
        {
            last_request.retain(|_, request| request.elapsed() < self.hold);
            *searched = Stopwatch::start();
        }
        let keeps = last_request.len() < self.most || last_request.contains_key(&host);
        if keeps {
            last_request.insert(host, Stopwatch::start());
        }
        keeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::real_pause;

    const HOLD: Duration = Duration::from_secs(120);

    fn url(n: usize) -> Url {
        format!("https://{n}.example/feed").parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_free_again_after_the_hold_time() {
        let kept = KeptHosts::new(1_000, HOLD);
        let keeps = |n| kept.keeps(&url(n), false);
        assert!((0..1_000).all(keeps));
        assert!(!keeps(1_000) && keeps(7), "full, but known hosts are kept");
        real_pause(HOLD - Duration::from_secs(2)).await;
        assert!(keeps(0) && keeps(7) && !keeps(1_000));
        real_pause(Duration::from_secs(2)).await;
        assert!((1_000..1_998).all(keeps), "all but two hosts were not requested again");
        assert!(!keeps(1_998) && keeps(0) && keeps(7));
        assert_eq!(kept.places.lock().unwrap().last_request.len(), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn scheme_port_and_permission_distinguish_hosts() {
        let kept = KeptHosts::new(1, HOLD);
        let keeps = |url: &str, private| kept.keeps(&url.parse().unwrap(), private);
        assert!(keeps("https://a.example/feed", false));
        assert!(keeps("https://user@A.example:443/other", false));
        for other in ["http://a.example/", "https://a.example:444/", "https://b.example/"] {
            assert!(!keeps(other, false), "{other}");
        }
        assert!(!keeps("https://a.example/feed", true));
    }
}
