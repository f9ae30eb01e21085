//! Names are resolved by the system on threads, a bounded number at a time.
//!
//! A resolver that hangs keeps its thread until it returns. So the number of threads is bounded: the store, files and
//! document readers need threads of the same pool. Must not know which addresses are permitted.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::clock::patience;

/// Lookups at a time. The pool has 512 threads.
const AT_A_TIME: usize = 64;

/// Of the whole process, because all resolvers, also those of earlier configurations, use one pool.
static FREE: Semaphore = Semaphore::const_new(AT_A_TIME);

/// Longest wait for a free thread, and then for the answer.
const LONGEST: Duration = Duration::from_secs(20);

type ResolveName = dyn Fn(&str) -> Result<Vec<IpAddr>> + Send + Sync;

/// Resolves names. Clones share the bound.
#[derive(Clone)]
pub(super) struct NameLookups {
    free: &'static Semaphore,
    longest: Duration,
    resolve: Arc<ResolveName>,
}

impl fmt::Debug for NameLookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameLookups").field("free", &self.free).finish_non_exhaustive()
    }
}

impl Default for NameLookups {
    fn default() -> Self {
        Self::by(&FREE, LONGEST, |name| Ok((name, 0).to_socket_addrs()?.map(|found| found.ip()).collect()))
    }
}

impl NameLookups {
    /// Resolves names with this function, which may block.
    fn by(
        free: &'static Semaphore,
        longest: Duration,
        resolve: impl Fn(&str) -> Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self { free, longest, resolve: Arc::new(resolve) }
    }

    /// The addresses of a name.
    pub async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>> {
        let late = |what: &str| {
            let secs = self.longest.as_secs();
            Error::new(ErrorKind::TimedOut, format!("{what} within {secs} s; check the name servers"))
        };
        let free = patience(self.longest, self.free.acquire()).await;
        let free = free
            .map_err(|_| late("no thread to resolve the name was free"))?
            .map_err(|_| Error::from(ErrorKind::Interrupted))?;
        let (resolve, name) = (Arc::clone(&self.resolve), name.to_owned());
        let answer = tokio::task::spawn_blocking(move || {
            let answer = resolve(&name);
            // Not before the thread is free, however long that takes.
            drop(free);
            answer
        });
        patience(self.longest, answer)
            .await
            .map_err(|_| late("the name was not resolved"))?
            .map_err(Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc::{Receiver, channel};
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Names that hang until the sender is dropped.
    fn hanging(hang: Receiver<()>) -> NameLookups {
        let hang = Mutex::new(Some(hang));
        let free = Box::leak(Box::new(Semaphore::new(AT_A_TIME)));
        NameLookups::by(free, Duration::from_millis(100), move |name| {
            if name == "hangs" {
                // The first waits in `recv`, the others for the lock.
                let hang = hang.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = hang.as_ref().map(Receiver::recv);
            }
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        })
    }

    #[tokio::test]
    async fn resolvers_that_hang_leave_threads_to_others_and_end_in_an_error() {
        let (release, hang) = channel();
        let lookups = hanging(hang);
        let hung: Vec<_> = (0..600)
            .map(|_| {
                let lookups = lookups.clone();
                tokio::spawn(async move { lookups.resolve("hangs").await })
            })
            .collect();
        tokio::task::yield_now().await;
        // More lookups than the pool has threads were asked for.
        let other = tokio::task::spawn_blocking(|| 7);
        assert_eq!(other.await.unwrap(), 7, "files and document readers work");
        for lookup in hung {
            let error = lookup.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        }
        drop(release);
        let found = lookups.resolve("answers").await.unwrap();
        assert_eq!(found, [IpAddr::from(Ipv4Addr::LOCALHOST)]);
    }
}
