//! Runs one worker for each delivery target, and wakes the workers.
//!
//! Starts workers when targets are configured; a worker ends when its target is removed. Workers check the
//! outbox after a commit, and every second of real time for rows that another process has reset.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{Id, JoinSet};

use crate::clock::{Clock, real_pause};
use crate::config::target::TargetConfig;
use crate::fetch::client::Fetcher;
use crate::store::load::seed;
use crate::store::reader::Reader;
use crate::store::writer::Write;

use super::target_worker::TargetWorker;

/// Interval between checks of the store without a notification.
const CHECKS_EVERY: Duration = Duration::from_secs(1);

/// Delivers the rows of the outbox.
#[derive(Debug)]
pub struct Dispatcher {
    /// Reads the outbox.
    pub reader: Reader,
    /// Stores the results of attempts.
    pub writes: mpsc::UnboundedSender<Write>,
    /// The clock for pauses between attempts.
    pub clock: Clock,
    /// The configured targets; a change applies from the next attempt.
    pub targets: watch::Receiver<Arc<Vec<Arc<TargetConfig>>>>,
    /// The HTTP client; a change applies from the next attempt.
    pub fetcher: watch::Receiver<Fetcher>,
    /// Notified after deliveries are committed.
    pub committed: Arc<Notify>,
}

impl Dispatcher {
    /// Delivers until the writer ends. Dropping the future cancels attempts in progress: programs are
    /// killed, and their rows are sent again first.
    pub async fn run(mut self) {
        let seed = self.seed().await;
        let (change, changed) = watch::channel(());
        // Dropping the set aborts the workers.
        let mut workers = JoinSet::new();
        let mut names: HashMap<Id, Arc<str>> = HashMap::new();
        let mut mentioned = HashSet::new();
        let mut reloads = true;
        while !self.writes.is_closed() {
            let targets = Arc::clone(&self.targets.borrow_and_update());
            for target in targets.iter() {
                if names.values().any(|name| *name == target.name) {
                    continue;
                }
                let worker = TargetWorker {
                    name: Arc::clone(&target.name),
                    reader: self.reader.clone(),
                    writes: self.writes.clone(),
                    clock: self.clock.clone(),
                    targets: self.targets.clone(),
                    fetcher: self.fetcher.clone(),
                    changed: changed.clone(),
                    seed,
                };
                names.insert(workers.spawn(worker.run()).id(), Arc::clone(&target.name));
            }
            self.warn_of_unknown_targets(&targets, &mut mentioned).await;
            tokio::select! {
                () = self.committed.notified() => {}
                () = real_pause(CHECKS_EVERY) => {}
                changed = self.targets.changed(), if reloads => reloads = changed.is_ok(),
                Some(ended) = workers.join_next_with_id() => {
                    let id = match ended {
                        Ok((id, ())) => id,
                        Err(error) => {
                            tracing::error!(%error, "a delivery worker failed; it is started again");
                            // Restarted after a pause: the cause may persist.
                            real_pause(CHECKS_EVERY).await;
                            error.id()
                        }
                    };
                    names.remove(&id);
                }
            }
            change.send_replace(());
        }
    }

    /// The seed of this installation's jitter; zero if it cannot be read.
    async fn seed(&self) -> u64 {
        let read = async {
            let mut connection = self.reader.connection().await?;
            seed(&mut connection).await
        };
        read.await.unwrap_or_default()
    }

    /// Warns once about each target that has queued rows but is not configured.
    async fn warn_of_unknown_targets(
        &self,
        targets: &[Arc<TargetConfig>],
        mentioned: &mut HashSet<String>,
    ) {
        let Ok(waiting) = self.reader.waiting_targets().await else { return };
        let known = |name: &str| targets.iter().any(|target| &*target.name == name);
        mentioned.retain(|name| !known(name));
        for name in waiting.into_iter().filter(|name| !known(name)) {
            if !mentioned.contains(&name) {
                tracing::warn!(to = %name, "deliveries wait for a target that is not configured");
                mentioned.insert(name);
            }
        }
    }
}
