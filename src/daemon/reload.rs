//! Reading the configuration again while running.
//!
//! Read, compare, prepare; only when all of that went well is anything changed, in one move of
//! the pilot. A file with faults changes nothing. Nothing is fetched because of a reload.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::config::{self, Config};
use crate::fetch::client::Fetcher;
use crate::fleet::making::PlanParams;
use crate::fleet::params::SourceId;
use crate::fleet::source::Memory;
use crate::fleet::{Changed, Known, Moved};
use crate::store::load;
use crate::store::reader::Reader;
use crate::store::record::Event;
use crate::store::sync::Synced;
use crate::store::writer::Write;
use crate::time::{Span, Timestamp};

use super::muster::{learning, listed, spec, terms};
use super::pilot::{Control, Reconfiguration};
use super::planner;
use super::refit::RefitParams;

/// Reads the configuration again when asked.
#[derive(Debug)]
pub struct Reloader {
    /// What runs now.
    pub config: Config,
    /// Where it was read from.
    pub path: PathBuf,
    /// To look up probes.
    pub reader: Reader,
    /// To store the list.
    pub writes: mpsc::UnboundedSender<Write>,
    /// To tell the pilot.
    pub control: mpsc::UnboundedSender<Control>,
    /// What time it is.
    pub clock: Clock,
    /// To tell who fits rates.
    pub refits: watch::Sender<Arc<RefitParams>>,
    /// To tell who plans.
    pub planning: watch::Sender<Arc<PlanParams>>,
}

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

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
        let path = self.path.clone();
        let new = tokio::task::spawn_blocking(move || config::load::load(&path))
            .await
            .map_err(|_| Refused("reading the configuration panicked; please report it".to_owned()))?
            .map_err(|error| Refused(error.to_string()))?;
        let diff = config::diff::diff(&self.config, &new);
        for setting in &diff.needs_restart {
            tracing::warn!("{setting} changed: it takes effect when tidewatch is restarted");
        }
        let fetcher = Fetcher::new(&new.fetch, new.daemon.contact.as_deref())
            .map_err(|error| Refused(error.message))?;
        let stopping = |_| Refused("tidewatch is stopping".to_owned());
        let (reply, synced) = oneshot::channel();
        let at = self.clock.now();
        let sync = Write::Sync { listed: listed(&new), at, reply };
        self.writes.send(sync).map_err(|_| Refused("tidewatch is stopping".to_owned()))?;
        let synced = synced.await.map_err(stopping)?;

        let summary = diff.to_string();
        let by_name: HashMap<&str, &config::Source> =
            new.sources.iter().map(|source| (source.name.as_str(), source)).collect();
        let old: HashMap<&str, &config::Source> =
            self.config.sources.iter().map(|source| (source.name.as_str(), source)).collect();
        let mut added = Vec::with_capacity(diff.added.len());
        for name in &diff.added {
            let (Some(source), Some(&id)) = (by_name.get(name.as_str()), synced.ids.get(name)) else {
                continue;
            };
            // One that was listed before keeps its budget and whatever its publisher asked for.
            let (memory, probes) = match synced.revived.contains(name) {
                true => (self.remembered(id).await?, self.probes(id, source.budget.per, at).await?),
                false => (Memory::default(), Vec::new()),
            };
            let spec = spec(&new, source, memory.adopted_url.as_deref());
            let terms = terms(source, &spec.url);
            added.push((Known { id, terms, memory, probes, answered_by: None }, Arc::new(spec)));
        }
        let mut changed = Vec::with_capacity(diff.changed.len());
        for name in &diff.changed {
            let (Some(source), Some(&id)) = (by_name.get(name.as_str()), synced.ids.get(name)) else {
                continue;
            };
            let longer = old.get(name.as_str()).is_some_and(|old| source.budget.per > old.budget.per);
            let probes = if longer { self.probes(id, source.budget.per, at).await? } else { Vec::new() };
            let moved = moved(&synced, name);
            let adopted = match moved {
                Moved::Same => self.reader.adopted_url(id).await.map_err(|e| Refused(e.to_string()))?,
                Moved::Elsewhere => None,
            };
            let spec = spec(&new, source, adopted.as_deref());
            let terms = terms(source, &spec.url);
            changed.push((Changed { id, terms, moved, probes }, Arc::new(spec)));
        }
        // Before anyone plans by the new list.
        let planning = planner::params(&new);
        let replan = *planning != **self.planning.borrow() || new.fleet.burst != self.config.fleet.burst;
        self.planning.send_replace(planning);
        let usual = |config: &Config| learning(config, config.importance.time_zone.clone());
        let learning = Some(usual(&new)).filter(|new| *new != usual(&self.config));
        let (applied, done) = oneshot::channel();
        let apply = Reconfiguration {
            params: new.fleet.clone(),
            retain: new.daemon.retain_probes,
            fetcher: Some(fetcher),
            added,
            changed,
            removed: synced.removed,
            learning,
            replan,
            summary: summary.clone(),
            applied,
        };
        let gone = || Refused("tidewatch is stopping".to_owned());
        self.control.send(Control::Apply(Box::new(apply))).map_err(|_| gone())?;
        done.await.map_err(|_| gone())?;
        self.refits.send_replace(Arc::new(RefitParams::new(&new)));
        self.config = new;
        Ok(summary)
    }

    async fn remembered(&self, id: SourceId) -> Result<Memory, Refused> {
        let refused = |error: crate::store::StoreError| Refused(error.to_string());
        let mut connection = self.reader.connection().await.map_err(refused)?;
        load::remembered(&mut connection, id).await.map_err(refused)
    }

    async fn probes(&self, id: SourceId, per: Span, now: Timestamp) -> Result<Vec<Timestamp>, Refused> {
        let since = now - per - Span::from_hours(1);
        self.reader.probes_since(id, since).await.map_err(|error| Refused(error.to_string()))
    }
}

fn moved(synced: &Synced, name: &str) -> Moved {
    if synced.moved.contains(name) { Moved::Elsewhere } else { Moved::Same }
}
