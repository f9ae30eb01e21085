//! The system resolver's last answers, kept for a minute.
//!
//! Many sources of one site need its name at the same time. The system's interface does not tell for how long an
//! answer holds, so it is kept no longer than a minute. Failures are not kept. Must not know which addresses are
//! permitted: that is checked at each use.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Stopwatch;

/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(60);

/// Most names whose answers are kept.
const MOST_NAMES: usize = 10_000;

/// The addresses of a name, and their age.
type Answer = (Stopwatch, Arc<[IpAddr]>);

/// Addresses by name.
#[derive(Debug, Default)]
pub(super) struct KnownAddresses(Mutex<HashMap<String, Answer>>);

impl KnownAddresses {
    /// The addresses of a name that was resolved a short time ago.
    pub(super) fn get(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(name).filter(|answer| is_current(answer)).map(|(_, addresses)| Arc::clone(addresses))
    }

    /// Keeps an answer. If there are too many, those that are too old are dropped, or else all.
    pub(super) fn keep(&self, name: &str, addresses: &Arc<[IpAddr]>) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MOST_NAMES {
            answers.retain(|_, answer| is_current(answer));
        }
        if answers.len() >= MOST_NAMES {
            answers.clear();
        }
        answers.insert(name.to_owned(), (Stopwatch::start(), Arc::clone(addresses)));
    }
}

fn is_current((since, _): &Answer) -> bool {
    since.elapsed() < KEPT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::real_pause;

    fn addresses(last: u8) -> Arc<[IpAddr]> {
        [IpAddr::from([192, 0, 2, last])].into()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_a_minute_and_replaced_by_a_later_one() {
        let known = KnownAddresses::default();
        assert_eq!(known.get("a.example"), None);
        known.keep("a.example", &addresses(1));
        real_pause(Duration::from_secs(59)).await;
        assert_eq!(known.get("a.example"), Some(addresses(1)));
        known.keep("b.example", &addresses(2));
        real_pause(Duration::from_secs(1)).await;
        assert_eq!((known.get("a.example"), known.get("b.example")), (None, Some(addresses(2))));
        known.keep("a.example", &addresses(3));
        assert_eq!(known.get("a.example"), Some(addresses(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_names_is_bounded() {
        let known = KnownAddresses::default();
        let names = || known.0.lock().unwrap().len();
        for n in 0..MOST_NAMES - 1 {
            known.keep(&format!("{n}.example"), &addresses(1));
        }
        real_pause(Duration::from_secs(30)).await;
        known.keep("later.example", &addresses(2));
        real_pause(Duration::from_secs(31)).await;
        known.keep("last.example", &addresses(3));
        assert_eq!((names(), known.get("later.example")), (2, Some(addresses(2))));
        for n in 0..MOST_NAMES {
            known.keep(&format!("{n}.example"), &addresses(1));
        }
        assert!(names() <= MOST_NAMES && known.get("9999.example").is_some());
    }
}
