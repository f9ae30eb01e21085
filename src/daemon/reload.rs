//! Reloads the configuration while the daemon runs.
//!
//! Reads, compares and prepares everything first. The changes are then applied in one step of the
//! scheduler. A configuration with errors changes nothing. A reload sends no probe.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::config;
use crate::config::configuration::Config;
use crate::config::diff::Diff;
use crate::config::doubt::doubt;
use crate::config::load::LoadError;
use crate::config::params::DaemonParams;
use crate::config::source::SourceConfig;
use crate::config::target::TargetConfig;
use crate::fetch::client::Fetcher;
use crate::store::reader::Reader;
use crate::store::record::EventRecord;
use crate::store::sync::{Listed, Synced};
use crate::store::writer::{Write, commit};
use crate::store::{StoreError, load};
use tidewatch_core::engine::event::{Changed, KnownSource, Moved};
use tidewatch_core::planning::build::PlanParams;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::messages::{Control, Reconfiguration};
use super::planner;
use super::refit::RefitParams;
use super::startup::{self, Learning, Spec, spec_by, terms};

/// Reloads the configuration on request.
#[derive(Debug)]
pub struct Reloader {
    /// The configuration in force.
    pub config: Arc<Config>,
    /// Its file.
    pub path: PathBuf,
    /// Reads past probes.
    pub reader: Reader,
    /// Stores the source list.
    pub writes: mpsc::UnboundedSender<Write>,
    /// Sends the changes to the scheduler.
    pub control: mpsc::UnboundedSender<Control>,
    /// The clock.
    pub clock: Clock,
    /// Channels to the tasks other than the scheduler.
    pub settings: SettingsSenders,
    /// The last change, if it was refused as a probable mistake. The same change is applied when it is requested again.
    pub doubted: Option<Diff>,
}

/// Channels through which tasks receive changed settings.
#[derive(Debug)]
pub struct SettingsSenders {
    /// Refit parameters.
    pub refits: watch::Sender<Arc<RefitParams>>,
    /// Plan parameters.
    pub planning: watch::Sender<Arc<PlanParams>>,
    /// Delivery targets.
    pub targets: watch::Sender<Arc<Vec<Arc<TargetConfig>>>>,
    /// The HTTP client of deliveries.
    pub posts: watch::Sender<Fetcher>,
    /// How long rows are kept.
    pub retention: watch::Sender<DaemonParams>,
}

/// The error of a reload that changed nothing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl Refused {
    /// The reason in one line.
    pub fn first_line(&self) -> &str {
        self.0.lines().next().unwrap_or_default()
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

impl Reloader {
    /// Reads and applies the configuration. After any error the old one stays in force.
    pub async fn reload(&mut self) -> Result<String, Refused> {
        let outcome = self.try_reload().await;
        if let Err(refused) = &outcome {
            for line in refused.0.lines() {
                tracing::error!("{line}");
            }
            tracing::error!("the new configuration is refused; the old one keeps running");
            let _ = self.control.send(Control::ReloadRefused(refused.first_line().to_owned()));
            let event = EventRecord {
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
        let doubted = self.doubted.take();
        let (path, old) = (self.path.clone(), Arc::clone(&self.config));
        let Prepared { new, mut diff, mut added, mut changed, refits } =
            tokio::task::spawn_blocking(move || prepare(&path, &old))
                .await
                .map_err(|_| Refused("reading the configuration panicked; please report it".to_owned()))?
                .map_err(|error| Refused(error.to_string()))?;
        if doubted.as_ref() != Some(&diff)
            && let Some(why) = doubt(&self.config, &new, &diff)
        {
            self.doubted = Some(diff);
            return Err(Refused(format!("{why}; {CONFIRM}")));
        }
        for setting in &diff.needs_restart {
            tracing::warn!("{setting} changed: it takes effect when tidewatch is restarted");
        }
        let before = self.settings.posts.borrow().clone();
        let fetcher = before
            .renewed(&new.fetch, new.daemon.contact.as_deref())
            .map_err(|error| Refused(error.message))?;
        let at = self.clock.now();
        self.rename(&mut diff, &mut added, &mut changed, at).await?;
        let synced = self.sync(&added, &changed, &diff.removed, at).await?;
        let usual = startup::usual(&new);
        let corrected = self.reader.corrected().await?;
        let added = self.added(added, &synced, &usual, at).await?;
        let changed = self.changed(changed, &synced, &usual, at).await?;
        if self.reader.corrected().await? != corrected {
            return Err(Refused("the clock was set during the reload; reload again".to_owned()));
        }
        // Set before the new source list is applied, so that no plan uses the old parameters.
        let planning = planner::params(&new);
        let replan = *planning != **self.settings.planning.borrow()
            || new.fleet.burst != self.config.fleet.burst
            || new.fleet.pricing != self.config.fleet.pricing;
        self.settings.planning.send_replace(planning);
        let learning = Some(usual).filter(|new| *new != startup::usual(&self.config));
        // Rules are sent again if only sources changed: the sources that match a rule may differ.
        let same = diff.added.is_empty()
            && diff.removed.is_empty()
            && diff.renamed.is_empty()
            && diff.changed.is_empty();
        let kept = new.rules == self.config.rules && (same || new.rules.is_empty());
        let rules = (!kept).then(|| Arc::clone(&new.rules));
        self.settings.retention.send_replace(new.daemon.clone());
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
            corrected,
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
        // Freeing a million sources takes time, so it runs on a blocking thread.
        drop(tokio::task::spawn_blocking(move || drop(old)));
        Ok(summary)
    }

    /// Gives stored sources their new names. Not one that a removed source has: then there are two histories, and as
    /// without a rename the source of that name comes back and the other one is removed.
    async fn rename(
        &self,
        diff: &mut Diff,
        added: &mut Vec<Arc<SourceConfig>>,
        changed: &mut Vec<(Arc<SourceConfig>, EarlierSource)>,
        at: Timestamp,
    ) -> Result<(), Refused> {
        if diff.renamed.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = diff.renamed.iter().map(|(_, new)| new.as_str()).collect();
        let taken = self.reader.removed_among(&names).await?;
        for (old, new) in diff.renamed.extract_if(.., |(_, new)| taken.contains(new)) {
            added.extend(changed.extract_if(.., |(it, _)| *it.name == *new).map(|(source, _)| source));
            diff.added.push(new);
            diff.removed.push(old);
        }
        commit(&self.writes, Write::Rename { names: diff.renamed.clone(), at }).await?;
        Ok(())
    }

    /// Stores the changes to the source list in parts, so that probes are recorded in between.
    async fn sync(
        &self,
        added: &[Arc<SourceConfig>],
        changed: &[(Arc<SourceConfig>, EarlierSource)],
        gone: &[String],
        at: Timestamp,
    ) -> Result<Synced, Refused> {
        let mut synced = Synced::default();
        let listed: Vec<&Arc<SourceConfig>> =
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
        added: Vec<Arc<SourceConfig>>,
        synced: &Synced,
        usual: &Arc<Learning>,
        at: Timestamp,
    ) -> Result<Vec<(KnownSource, Spec)>, Refused> {
        // A source that was listed before keeps its used budget and its stored state.
        let revived: Vec<(SourceId, Timestamp)> = added
            .iter()
            .filter(|source| synced.stored.contains(&*source.name))
            .filter_map(|source| Some((*synced.ids.get(&*source.name)?, since(at, source.budget.per))))
            .collect();
        let mut probes = self.reader.probes_since(&revived).await?;
        let ids: Vec<SourceId> = revived.into_iter().map(|(id, _)| id).collect();
        let mut connection = self.reader.connection().await?;
        let mut memories = load::remembered_of(&mut connection, &ids, at).await?;
        drop(connection);
        let known = |source: Arc<SourceConfig>| {
            let &id = synced.ids.get(&*source.name)?;
            let memory = memories.remove(&id).unwrap_or_default();
            let spec = spec_by(usual, &source, memory.adopted_url.as_deref());
            let terms = terms(&source, &spec.url());
            let probes = probes.remove(&id).unwrap_or_default();
            Some((KnownSource { id, terms, memory, probes, answered_by: None, moved: Moved::Same }, spec))
        };
        Ok(added.into_iter().filter_map(known).collect())
    }

    async fn changed(
        &self,
        changed: Vec<(Arc<SourceConfig>, EarlierSource)>,
        synced: &Synced,
        usual: &Arc<Learning>,
        at: Timestamp,
    ) -> Result<Vec<(Changed, Spec)>, Refused> {
        let (mut longer, mut same) = (Vec::new(), Vec::new());
        for (source, before) in &changed {
            let Some(&id) = synced.ids.get(&*source.name) else { continue };
            if source.budget.per > before.per {
                longer.push((id, since(at, source.budget.per)));
            }
            if !before.elsewhere {
                same.push(id);
            }
        }
        let mut probes = self.reader.probes_since(&longer).await?;
        let adopted = self.reader.adopted_urls(&same).await?;
        let change = |(source, before): (Arc<SourceConfig>, EarlierSource)| {
            let &id = synced.ids.get(&*source.name)?;
            // Compared with the running configuration, not with the store: a reload that failed halfway is
            // repeated.
            let moved = if before.elsewhere { Moved::Elsewhere } else { Moved::Same };
            let spec = spec_by(usual, &source, adopted.get(&id).map(String::as_str));
            let terms = terms(&source, &spec.url());
            let probes = probes.remove(&id).unwrap_or_default();
            Some((Changed { id, terms, moved, probes }, spec))
        };
        Ok(changed.into_iter().filter_map(change).collect())
    }
}

/// How a change that is probably a mistake is carried out.
const CONFIRM: &str = "if that is meant, reload again with the same files, or restart tidewatch";

/// Sources stored in one write.
const PIECE: usize = 1_000;

fn stopping() -> Refused {
    Refused("tidewatch is stopping".to_owned())
}

/// The earliest time from which probes count for a budget.
fn since(now: Timestamp, per: Span) -> Timestamp {
    now - per - Span::from_hours(1)
}

/// The results that need a pass over all sources; computed on a blocking thread.
struct Prepared {
    new: Config,
    diff: Diff,
    added: Vec<Arc<SourceConfig>>,
    changed: Vec<(Arc<SourceConfig>, EarlierSource)>,
    refits: Arc<RefitParams>,
}

/// The earlier settings of a changed source.
#[derive(Debug, Clone, Copy)]
struct EarlierSource {
    /// The window of the budget.
    per: Span,
    /// The URL or the kind was a different one.
    elsewhere: bool,
}

fn prepare(path: &Path, old: &Config) -> Result<Prepared, LoadError> {
    let new = config::load::load_again(path, Some(old))?;
    let diff = config::diff::diff(old, &new);
    let added: HashSet<&str> = diff.added.iter().map(String::as_str).collect();
    // The names before and now of the sources that go on with other settings.
    let same = diff.changed.iter().map(|name| (name.as_str(), name.as_str()));
    let renamed = diff.renamed.iter().map(|(old, new)| (old.as_str(), new.as_str()));
    let names: HashMap<&str, &str> = same.chain(renamed).collect();
    let before: HashMap<&str, &Arc<SourceConfig>> =
        old.sources.iter().filter_map(|source| Some((*names.get(&*source.name)?, source))).collect();
    let changed = |source: &Arc<SourceConfig>| {
        let old = before.get(&*source.name)?;
        let elsewhere = old.url != source.url || old.kind != source.kind;
        Some((Arc::clone(source), EarlierSource { per: old.budget.per, elsewhere }))
    };
    let changed = new.sources.iter().filter_map(changed).collect();
    let added = new.sources.iter().filter(|source| added.contains(&*source.name)).cloned().collect();
    let refits = Arc::new(RefitParams::new(&new));
    Ok(Prepared { new, diff, added, changed, refits })
}
