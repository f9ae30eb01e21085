//! Delivers the queued rows of one target, in order.
//!
//! Each target has its own worker, so that a slow target delays no other. The worker takes the next row
//! only after the result of the last one is committed. So a row that was interrupted is sent again first,
//! with the same key. Must not know how a target is reached.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::clock::Clock;
use crate::config::target::TargetConfig;
use crate::fetch::client::Fetcher;
use crate::store::StoreError;
use crate::store::outbox::WaitingDelivery;
use crate::store::reader::Reader;
use crate::store::record::{DeliveryRecord, EventRecord, Settled};
use crate::store::writer::Write;
use tidewatch_core::time::Timestamp;

use super::attempt::attempt;
use super::delivery_outcome::{DeliveryOutcome, LONGEST_REQUESTED_PAUSE, settled};
use super::shipment::{Shipment, Tools};

/// The worker of one target.
#[derive(Debug, Clone)]
pub(super) struct TargetWorker {
    /// The target's name.
    pub(super) name: Arc<str>,
    pub(super) reader: Reader,
    pub(super) writes: mpsc::UnboundedSender<Write>,
    pub(super) clock: Clock,
    pub(super) targets: watch::Receiver<Arc<Vec<Arc<TargetConfig>>>>,
    pub(super) fetcher: watch::Receiver<Fetcher>,
    /// Signalled when a row may be due.
    pub(super) changed: watch::Receiver<()>,
    /// Seed of the jitter.
    pub(super) seed: u64,
}

/// The channel to the writer or to the dispatcher is closed.
struct ChannelClosed;

/// The state of the target's queue.
enum Head {
    /// The first row is due, with its document.
    Due(WaitingDelivery, String),
    /// Nothing is due before this time; `None`: no row can be sent.
    Later(Option<Timestamp>),
}

impl TargetWorker {
    /// Delivers until the target is removed from the configuration, or a channel closes.
    pub(super) async fn run(mut self) {
        let mut failing = false;
        let mut unreadable = false;
        while let Some(target) = self.target() {
            // Marked as seen before the store is read, so that no signal is lost.
            self.changed.borrow_and_update();
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
    fn target(&self) -> Option<Arc<TargetConfig>> {
        self.targets.borrow().iter().find(|target| target.name == self.name).cloned()
    }

    async fn head(&self) -> Result<Head, StoreError> {
        let Some(row) = self.reader.next_waiting(&self.name).await? else { return Ok(Head::Later(None)) };
        // A time further in the future than the longest pause results from a changed clock and is ignored.
        let now = self.clock.now();
        if row.next_at.is_some_and(|at| at > now && at <= now + LONGEST_REQUESTED_PAUSE) {
            return Ok(Head::Later(row.next_at));
        }
        let document = self.reader.document(row.id).await?;
        Ok(document.map_or(Head::Later(None), |document| Head::Due(row, document)))
    }

    /// Waits for a signal, or until the first row is due.
    async fn wait(&mut self, at: Option<Timestamp>) -> Result<(), ChannelClosed> {
        let due = async {
            match at {
                Some(at) => self.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            signalled = self.changed.changed() => signalled.map_err(|_| ChannelClosed),
            () = due => Ok(()),
        }
    }

    async fn deliver(
        &self,
        target: &Arc<TargetConfig>,
        row: WaitingDelivery,
        document: String,
        failing: &mut bool,
    ) -> Result<(), ChannelClosed> {
        let tried_at = self.clock.now();
        let shipment = Shipment { id: row.id, key: row.key.clone(), document };
        let outcome = self.attempt(Arc::clone(target), shipment).await;
        let now = self.clock.now();
        let settled = settled(outcome, &row, (tried_at, now), target.give_up, self.seed);
        self.log(&row, &settled, failing);
        let event = match &settled {
            Settled::Dead { error } => Some(EventRecord {
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
            self.writes.send(write).map_err(|_| ChannelClosed)?;
        }
        committed.await.map_err(|_| ChannelClosed)
    }

    /// Makes one attempt in its own task, so that a panic is a failed attempt.
    async fn attempt(&self, target: Arc<TargetConfig>, shipment: Shipment) -> DeliveryOutcome {
        let tools = Tools {
            reader: self.reader.clone(),
            fetcher: self.fetcher.borrow().clone(),
            clock: self.clock.clone(),
        };
        let task = tokio::spawn(async move { attempt(&target, shipment, &tools).await });
        AbortOnDropHandle::new(task)
            .await
            .unwrap_or_else(|_| DeliveryOutcome::failed("the attempt panicked; please report it"))
    }

    fn log(&self, row: &WaitingDelivery, settled: &Settled, failing: &mut bool) {
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
