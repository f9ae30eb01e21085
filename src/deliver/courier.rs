//! The courier: a lane for each target, and the bell that wakes them.
//!
//! Exists so that lanes come and go with the configuration, and learn soon of new rows: from
//! whoever pokes after a commit, and, for rows set back by hand in another process, by looking
//! again every second of real time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{Id, JoinSet};

use crate::clock::{Clock, real_pause};
use crate::config::target::Target;
use crate::fetch::client::Fetcher;
use crate::store::StoreError;
use crate::store::load::standing;
use crate::store::reader::Reader;
use crate::store::writer::Write;

use super::lane::Lane;

/// How often lanes look at the store unasked.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// Delivers what is in the outbox.
#[derive(Debug)]
pub struct Courier {
    /// Where rows are found.
    pub reader: Reader,
    /// Where it is said what became of them.
    pub writes: mpsc::UnboundedSender<Write>,
    /// What time it is, for pauses between attempts.
    pub clock: Clock,
    /// Who can be told; a change holds from the next attempt on.
    pub targets: watch::Receiver<Arc<Vec<Arc<Target>>>>,
    /// What posts; likewise.
    pub fetcher: watch::Receiver<Fetcher>,
    /// Others call `notify_one` on it after they have committed rows.
    pub poke: Arc<Notify>,
}

impl Courier {
    /// Delivers until nobody is left to write to. Dropped before, it cuts short what is under way:
    /// programs are killed, and their rows are the first to be sent again.
    pub async fn run(mut self) {
        let seed = self.seed().await;
        let (ring, bell) = watch::channel(());
        // Dropped with this, and the lanes with it.
        let mut lanes = JoinSet::new();
        let mut names: HashMap<Id, Arc<str>> = HashMap::new();
        let mut mentioned = HashSet::new();
        let mut reloads = true;
        while !self.writes.is_closed() {
            let targets = Arc::clone(&self.targets.borrow_and_update());
            for target in targets.iter() {
                if names.values().any(|name| *name == target.name) {
                    continue;
                }
                let lane = Lane {
                    name: Arc::clone(&target.name),
                    reader: self.reader.clone(),
                    writes: self.writes.clone(),
                    clock: self.clock.clone(),
                    targets: self.targets.clone(),
                    fetcher: self.fetcher.clone(),
                    bell: bell.clone(),
                    seed,
                };
                names.insert(lanes.spawn(lane.run()).id(), Arc::clone(&target.name));
            }
            self.mention_strangers(&targets, &mut mentioned).await;
            tokio::select! {
                () = self.poke.notified() => {}
                () = real_pause(LOOKS_EVERY) => {}
                changed = self.targets.changed(), if reloads => reloads = changed.is_ok(),
                Some(ended) = lanes.join_next_with_id() => {
                    let id = match ended {
                        Ok((id, ())) => id,
                        Err(error) => {
                            tracing::error!(%error, "a lane of deliveries broke; it begins anew");
                            // Not at once: what broke it may still be there.
                            real_pause(LOOKS_EVERY).await;
                            error.id()
                        }
                    };
                    names.remove(&id);
                }
            }
            ring.send_replace(());
        }
    }

    /// What this installation's jitter is drawn from. Any other will do, should it not be readable.
    async fn seed(&self) -> u64 {
        let read = async {
            let mut connection = self.reader.connection().await?;
            Ok::<_, StoreError>(standing(&mut connection).await?.seed)
        };
        read.await.unwrap_or_default()
    }

    /// Says once of each target that rows wait for it and it is not configured.
    async fn mention_strangers(&self, targets: &[Arc<Target>], mentioned: &mut HashSet<String>) {
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
