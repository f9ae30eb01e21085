//! One target's rows, one after the other.
//!
//! Exists so that a target that hangs delays nobody but itself. Strictly in order: the next row is
//! not touched before it is committed what became of this one. So a row that was under way when we
//! were killed is the first to be sent again, with the same key. Must not know how a target is told.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::clock::Clock;
use crate::config::target::Target;
use crate::fetch::client::Fetcher;
use crate::store::StoreError;
use crate::store::outbox::Waiting;
use crate::store::reader::Reader;
use crate::store::record::{DeliveryRecord, Event, Settled};
use crate::store::writer::Write;
use tidewatch_core::time::Timestamp;

use super::attempt::attempt;
use super::parcel::{Parcel, Tools};
use super::verdict::{LONGEST_REST, Verdict, settled};

/// What a lane works with.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    /// Whose.
    pub(super) name: Arc<str>,
    pub(super) reader: Reader,
    pub(super) writes: mpsc::UnboundedSender<Write>,
    pub(super) clock: Clock,
    pub(super) targets: watch::Receiver<Arc<Vec<Arc<Target>>>>,
    pub(super) fetcher: watch::Receiver<Fetcher>,
    /// Rings when there may be something to do.
    pub(super) bell: watch::Receiver<()>,
    /// What jitter is drawn from.
    pub(super) seed: u64,
}

/// Nobody is left to work for.
struct Alone;

/// What a lane finds at its head.
enum Head {
    /// A row that may be sent now, and its document.
    Due(Waiting, String),
    /// Nothing before this instant; `None`: nothing at all.
    Later(Option<Timestamp>),
}

impl Lane {
    /// Delivers until the target is gone from the configuration, or nobody is left to write to.
    pub(super) async fn run(mut self) {
        let mut failing = false;
        let mut unreadable = false;
        while let Some(target) = self.target() {
            // Before the store is read, so that no ring is lost.
            self.bell.borrow_and_update();
            let head = self.head().await.unwrap_or_else(|error| {
                if !std::mem::replace(&mut unreadable, true) {
                    tracing::warn!(to = %self.name, %error, "deliveries cannot be read; trying again");
                }
                Head::Later(None)
            });
            let done = match head {
                Head::Due(row, document) => {
                    unreadable = false;
                    self.deliver(&target, row, document, &mut failing).await
                }
                Head::Later(at) => self.wait(at).await,
            };
            if done.is_err() {
                return;
            }
        }
    }

    /// The target as it is configured now.
    fn target(&self) -> Option<Arc<Target>> {
        self.targets.borrow().iter().find(|target| target.name == self.name).cloned()
    }

    async fn head(&self) -> Result<Head, StoreError> {
        let Some(row) = self.reader.next_waiting(&self.name).await? else { return Ok(Head::Later(None)) };
        // Further off than any rest is only what a clock said that has been set since.
        let now = self.clock.now();
        if row.next_at.is_some_and(|at| at > now && at <= now + LONGEST_REST) {
            return Ok(Head::Later(row.next_at));
        }
        let document = self.reader.document(row.id).await?;
        Ok(document.map_or(Head::Later(None), |document| Head::Due(row, document)))
    }

    /// Waits for the bell, or for the first row's time.
    async fn wait(&mut self, at: Option<Timestamp>) -> Result<(), Alone> {
        let due = async {
            match at {
                Some(at) => self.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            rung = self.bell.changed() => rung.map_err(|_| Alone),
            () = due => Ok(()),
        }
    }

    async fn deliver(
        &self,
        target: &Arc<Target>,
        row: Waiting,
        document: String,
        failing: &mut bool,
    ) -> Result<(), Alone> {
        let tried_at = self.clock.now();
        let parcel = Parcel { id: row.id, key: row.key.clone(), document };
        let verdict = self.attempt(Arc::clone(target), parcel).await;
        let now = self.clock.now();
        let settled = settled(verdict, &row, (tried_at, now), target.give_up, self.seed);
        self.log(&row, &settled, failing);
        let event = match &settled {
            Settled::Dead { error } => Some(Event {
                at: now,
                kind: "delivery_dead",
                source: Some(row.source),
                detail: Some(format!("{} to {}: {error}", row.id, self.name)),
            }),
            _ => None,
        };
        let (done, committed) = oneshot::channel();
        let record = DeliveryRecord { id: row.id, tried_at, at: now, settled, event };
        for write in [Write::Delivery(record), Write::Flush(done)] {
            self.writes.send(write).map_err(|_| Alone)?;
        }
        committed.await.map_err(|_| Alone)
    }

    /// One attempt in a task of its own, so that a panic is a failed attempt.
    async fn attempt(&self, target: Arc<Target>, parcel: Parcel) -> Verdict {
        let tools = Tools {
            reader: self.reader.clone(),
            fetcher: self.fetcher.borrow().clone(),
            clock: self.clock.clone(),
        };
        let task = tokio::spawn(async move { attempt(&target, parcel, &tools).await });
        AbortOnDropHandle::new(task)
            .await
            .unwrap_or_else(|_| Verdict::failed("the attempt panicked; please report it"))
    }

    fn log(&self, row: &Waiting, settled: &Settled, failing: &mut bool) {
        let to = &self.name;
        match settled {
            Settled::Delivered => {
                tracing::debug!(%to, delivery = row.id, "delivered");
                if std::mem::take(failing) {
                    tracing::info!(%to, "deliveries are taken again");
                }
            }
            Settled::Failed { error, .. } => {
                tracing::debug!(%to, delivery = row.id, %error, "not delivered");
                if !std::mem::replace(failing, true) {
                    tracing::warn!(%to, %error, "deliveries are not taken; trying again, nothing is lost");
                }
            }
            Settled::Dead { error } => tracing::error!(
                %to, delivery = row.id, %error,
                "a delivery is given up; `tidewatch deliveries retry {}` tries it again", row.id
            ),
        }
    }
}
