//! Reading the configuration again while running.
//!
//! Read, compare, prepare; only when all of that went well is anything changed, in one step of
//! the scheduler. A file with faults changes nothing. Nothing is fetched because of a reload.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::config;
use crate::config::configuration::Config;
use crate::config::diff::Diff;
use crate::config::load::LoadError;
use crate::config::source::Source;
use crate::config::target::Target;
use crate::fetch::client::Fetcher;
use crate::store::reader::Reader;
use crate::store::record::Event;
use crate::store::sync::{Listed, Synced};
use crate::store::writer::Write;
use crate::store::{StoreError, load};
use tidewatch_core::engine::event::{Changed, KnownSource, Moved};
use tidewatch_core::planning::build::PlanParams;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::messages::{Control, Reconfiguration};
use super::planner;
use super::refit::RefitParams;
use super::startup::{self, Learning, Spec, spec_by, terms};

/// Reads the configuration again when asked.
#[derive(Debug)]
pub struct Reloader {
    /// What runs now.
    pub config: Arc<Config>,
    /// Where it was read from.
    pub path: PathBuf,
    /// To look up probes.
    pub reader: Reader,
    /// To store the list.
    pub writes: mpsc::UnboundedSender<Write>,
    /// To tell the scheduler.
    pub control: mpsc::UnboundedSender<Control>,
    /// What time it is.
    pub clock: Clock,
    /// Those that are told of what changed, besides the scheduler.
    pub settings: SettingsSenders,
}

/// Where the tasks learn what holds since a reload.
#[derive(Debug)]
pub struct SettingsSenders {
    /// How rates are fitted.
    pub refits: watch::Sender<Arc<RefitParams>>,
    /// What plans follow.
    pub planning: watch::Sender<Arc<PlanParams>>,
    /// Where matches are delivered.
    pub targets: watch::Sender<Arc<Vec<Arc<Target>>>>,
    /// How deliveries reach the network.
    pub posts: watch::Sender<Fetcher>,
    /// How long probes are kept.
    pub retention: watch::Sender<Span>,
}

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

impl Reloader {
    /// Reads and applies the configuration; on any fault the old one keeps running.
    pub async fn reload(&mut self) -> Result<String, Refused> {
        let outcome = self.try_reload().await;
        if let Err(refused) = &outcome {
            for line in refused.0.lines() {
                tracing::error!("{line}");
            }
            tracing::error!("the new configuration is refused; the old one keeps running");
            let event = Event {
                at: self.clock.now(),
                kind: "reload_refused",
                source: None,
                detail: Some(refused.0.clone()),
            };
            let _ = self.writes.send(Write::Event(event));
        }
        outcome
    }

    async fn try_reload(&mut self) -> Result<String, Refused> {
        let (path, old) = (self.path.clone(), Arc::clone(&self.config));
        let Prepared { new, diff, added, changed, refits } =
            tokio::task::spawn_blocking(move || prepare(&path, &old))
                .await
                .map_err(|_| Refused("reading the configuration panicked; please report it".to_owned()))?
                .map_err(|error| Refused(error.to_string()))?;
        for setting in &diff.needs_restart {
            tracing::warn!("{setting} changed: it takes effect when tidewatch is restarted");
        }
        let fetcher = Fetcher::new(&new.fetch, new.daemon.contact.as_deref())
            .map_err(|error| Refused(error.message))?;
        let at = self.clock.now();
        let synced = self.sync(&added, &changed, &diff.removed, at).await?;
        let usual = startup::usual(&new);
        let added = self.added(added, &synced, &usual, at).await?;
        let changed = self.changed(changed, &synced, &usual, at).await?;
        // Before anyone plans by the new list.
        let planning = planner::params(&new);
        let replan =
            *planning != **self.settings.planning.borrow() || new.fleet.burst != self.config.fleet.burst;
        self.settings.planning.send_replace(planning);
        let learning = Some(usual).filter(|new| *new != startup::usual(&self.config));
        // Also where only sources came or went: which of them rules have to do with is another matter.
        let same = diff.added.is_empty() && diff.removed.is_empty() && diff.changed.is_empty();
        let kept = new.rules == self.config.rules && (same || new.rules.is_empty());
        let rules = (!kept).then(|| Arc::clone(&new.rules));
        self.settings.retention.send_replace(new.daemon.retain_probes);
        self.settings.posts.send_replace(fetcher.clone());
        self.settings.targets.send_replace(Arc::new(new.targets.clone()));
        let summary = diff.to_string();
        let (applied, done) = oneshot::channel();
        let apply = Reconfiguration {
            params: new.fleet.clone(),
            fetcher: Some(fetcher),
            added,
            changed,
            removed: synced.removed,
            learning,
            rules,
            replan,
            summary: summary.clone(),
            applied,
        };
        self.control.send(Control::Apply(Box::new(apply))).map_err(|_| stopping())?;
        done.await.map_err(|_| stopping())?;
        self.settings.refits.send_replace(refits);
        let old = std::mem::replace(&mut self.config, Arc::new(new));
        // A million sources are not let go of in an instant.
        drop(tokio::task::spawn_blocking(move || drop(old)));
        Ok(summary)
    }

    /// Stores what changed in the list, a piece at a time: between them, probes take off and land.
    async fn sync(
        &self,
        added: &[Arc<Source>],
        changed: &[(Arc<Source>, Before)],
        gone: &[String],
        at: Timestamp,
    ) -> Result<Synced, Refused> {
        let mut synced = Synced::default();
        let listed: Vec<&Arc<Source>> =
            added.iter().chain(changed.iter().map(|(source, _)| source)).collect();
        let listed = listed.chunks(PIECE).map(|piece| (piece, &[][..]));
        let gone = gone.chunks(PIECE).map(|piece| (&[][..], piece));
        for (listed, gone) in listed.chain(gone) {
            let (reply, answer) = oneshot::channel();
            let listed = listed.iter().map(|source| Listed::new(*source)).collect();
            let sync = Write::Sync { listed, gone: gone.to_vec(), at, reply };
            self.writes.send(sync).map_err(|_| stopping())?;
            synced.extend(answer.await.map_err(|_| stopping())?);
        }
        Ok(synced)
    }

    async fn added(
        &self,
        added: Vec<Arc<Source>>,
        synced: &Synced,
        usual: &Arc<Learning>,
        at: Timestamp,
    ) -> Result<Vec<(KnownSource, Arc<Spec>)>, Refused> {
        // One that was listed before keeps its budget and whatever its publisher asked for.
        let revived: Vec<(SourceId, Timestamp)> = added
            .iter()
            .filter(|source| synced.stored.contains(&source.name))
            .filter_map(|source| Some((*synced.ids.get(&source.name)?, since(at, source.budget.per))))
            .collect();
        let mut probes = self.reader.probes_since(&revived).await?;
        let ids: Vec<SourceId> = revived.into_iter().map(|(id, _)| id).collect();
        let mut connection = self.reader.connection().await?;
        let mut memories = load::remembered_of(&mut connection, &ids).await?;
        drop(connection);
        let known = |source: Arc<Source>| {
            let &id = synced.ids.get(&source.name)?;
            let memory = memories.remove(&id).unwrap_or_default();
            let spec = spec_by(usual, &source, memory.adopted_url.as_deref());
            let terms = terms(&source, spec.url());
            let probes = probes.remove(&id).unwrap_or_default();
            Some((
                KnownSource { id, terms, memory, probes, answered_by: None, moved: Moved::Same },
                Arc::new(spec),
            ))
        };
        Ok(added.into_iter().filter_map(known).collect())
    }

    async fn changed(
        &self,
        changed: Vec<(Arc<Source>, Before)>,
        synced: &Synced,
        usual: &Arc<Learning>,
        at: Timestamp,
    ) -> Result<Vec<(Changed, Arc<Spec>)>, Refused> {
        let (mut longer, mut same) = (Vec::new(), Vec::new());
        for (source, before) in &changed {
            let Some(&id) = synced.ids.get(&source.name) else { continue };
            if source.budget.per > before.per {
                longer.push((id, since(at, source.budget.per)));
            }
            if !before.elsewhere {
                same.push(id);
            }
        }
        let mut probes = self.reader.probes_since(&longer).await?;
        let adopted = self.reader.adopted_urls(&same).await?;
        let change = |(source, before): (Arc<Source>, Before)| {
            let &id = synced.ids.get(&source.name)?;
            // By what ran until now, not by what is stored: a reload that failed halfway is tried again.
            let moved = if before.elsewhere { Moved::Elsewhere } else { Moved::Same };
            let spec = spec_by(usual, &source, adopted.get(&id).map(String::as_str));
            let terms = terms(&source, spec.url());
            let probes = probes.remove(&id).unwrap_or_default();
            Some((Changed { id, terms, moved, probes }, Arc::new(spec)))
        };
        Ok(changed.into_iter().filter_map(change).collect())
    }
}

/// Sources that are stored at a time.
const PIECE: usize = 1_000;

fn stopping() -> Refused {
    Refused("tidewatch is stopping".to_owned())
}

/// From when on probes count for a budget.
fn since(now: Timestamp, per: Span) -> Timestamp {
    now - per - Span::from_hours(1)
}

/// What needs a look at every source, and so is done off the async threads.
struct Prepared {
    new: Config,
    diff: Diff,
    added: Vec<Arc<Source>>,
    changed: Vec<(Arc<Source>, Before)>,
    refits: Arc<RefitParams>,
}

/// What a changed source was before.
#[derive(Debug, Clone, Copy)]
struct Before {
    /// The window of its budget.
    per: Span,
    /// It was at another address, or of another kind.
    elsewhere: bool,
}

fn prepare(path: &Path, old: &Config) -> Result<Prepared, LoadError> {
    let new = config::load::load_again(path, Some(old))?;
    let diff = config::diff::diff(old, &new);
    let added: HashSet<&str> = diff.added.iter().map(String::as_str).collect();
    let names: HashSet<&str> = diff.changed.iter().map(String::as_str).collect();
    let before: HashMap<&str, &Arc<Source>> = old
        .sources
        .iter()
        .filter(|source| names.contains(source.name.as_str()))
        .map(|source| (source.name.as_str(), source))
        .collect();
    let changed = |source: &Arc<Source>| {
        let old = before.get(source.name.as_str())?;
        let elsewhere = old.url != source.url || old.kind != source.kind;
        Some((Arc::clone(source), Before { per: old.budget.per, elsewhere }))
    };
    let changed = new.sources.iter().filter_map(changed).collect();
    let added = new.sources.iter().filter(|source| added.contains(source.name.as_str())).cloned().collect();
    let refits = Arc::new(RefitParams::new(&new));
    Ok(Prepared { new, diff, added, changed, refits })
}
