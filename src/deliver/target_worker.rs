//! Delivers the queued rows of one target, those of each source in order.
//!
//! Each target has its own worker, so that a slow target delays no other. A row that fails delays later rows of
//! its source; if rows fail one after the other, the whole target is paused. The worker takes the next row only
//! after the result of the last one is committed. So a row that was interrupted is sent again first, with the
//! same key. Must not know how a target is reached.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::clock::{Clock, SteadyClock};
use crate::config::target::TargetConfig;
use crate::fetch::client::Fetcher;
use crate::store::StoreError;
use crate::store::outbox::{NextDelivery, WaitingDelivery};
use crate::store::reader::Reader;
use crate::store::record::{DeliveryRecord, EventRecord, Settled};
use crate::store::writer::Write;
use tidewatch_core::time::Timestamp;

use super::attempt::attempt;
use super::delivery_outcome::{
    DeliveryOutcome, LONGEST_PAUSE, LONGEST_REQUESTED_PAUSE, pause_of_target, settled,
};
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
    /// This row is due, with its document.
    Due(WaitingDelivery, String),
    /// Nothing is due before this time; `None`: no row can be sent.
    Later(Option<Timestamp>),
}

/// The failed attempts since the last document that the target took.
#[derive(Debug, Default)]
struct Failures {
    /// How many there were, one after the other.
    count: u32,
    /// The end of the target's pause, and the row that failed last.
    pause: Option<(Timestamp, i64)>,
}

impl TargetWorker {
    /// Delivers until the target is removed from the configuration, or a channel closes.
    pub(super) async fn run(mut self) {
        let mut failures = Failures::default();
        let mut unreadable = false;
        while let Some(target) = self.target() {
            // Marked as seen before the store is read, so that no signal is lost.
            self.changed.borrow_and_update();
            let head = self.head(&mut failures).await.unwrap_or_else(|error| {
                if !std::mem::replace(&mut unreadable, true) {
                    tracing::warn!(to = %self.name, %error, "deliveries cannot be read; trying again");
                }
                Head::Later(None)
            });
            let done = match head {
                Head::Due(row, document) => {
                    unreadable = false;
                    self.deliver(&target, row, document, &mut failures).await
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

    async fn head(&self, failures: &mut Failures) -> Result<Head, StoreError> {
        // A time further in the future than the longest pause results from a changed clock and is ignored.
        let now = self.clock.now();
        let latest = now + LONGEST_REQUESTED_PAUSE;
        if let Some((until, failed)) = failures.pause {
            // The clock may have been set back since.
            if until > now && until <= now + LONGEST_PAUSE && self.reader.waits_for_retry(failed).await? {
                return Ok(Head::Later(Some(until)));
            }
            failures.pause = None;
        }
        match self.reader.next_waiting(&self.name, now, latest).await? {
            NextDelivery::Due(row) => {
                let document = self.reader.document(row.id).await?;
                Ok(document.map_or(Head::Later(None), |document| Head::Due(row, document)))
            }
            NextDelivery::Later(at) => Ok(Head::Later(at)),
        }
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
        failures: &mut Failures,
    ) -> Result<(), ChannelClosed> {
        // The clock may be set during the attempt: what was read before is by the old one.
        let clock = SteadyClock::of(&self.clock);
        let tried_at = clock.now();
        let shipment = Shipment { id: row.id, key: row.key.clone(), document };
        let outcome = self.attempt(Arc::clone(target), shipment).await;
        let set_by = clock.set_since();
        let settled =
            settled(outcome, &row, (tried_at, clock.now()), target.give_up, self.seed).after(set_by);
        let (tried_at, now) = (tried_at + set_by, clock.now() + set_by);
        failures.note(&row, &settled, now, self.seed);
        self.log(&row, &settled, failures.count);
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

    /// Logs failures at growing intervals: of the target if its attempts fail one after the other, else of the row.
    fn log(&self, row: &WaitingDelivery, settled: &Settled, in_a_row: u32) {
        let to = &self.name;
        match settled {
            Settled::Delivered => {
                tracing::debug!(%to, delivery = row.id, "delivered");
                if row.attempts > 0 {
                    tracing::info!(%to, delivery = row.id, "delivery {} was taken by {to} at attempt {}", row.id, row.attempts + 1);
                }
            }
            Settled::Failed { error, .. } => {
                let attempts = if in_a_row > 1 { in_a_row } else { row.attempts.saturating_add(1) };
                if attempts.is_power_of_two() {
                    tracing::warn!(
                        %to, delivery = row.id, %error, attempts,
                        "{to} did not take delivery {}, failed attempts: {attempts}; trying again, nothing is lost: {error}",
                        row.id
                    );
                } else {
                    tracing::debug!(%to, delivery = row.id, %error, attempts, "not delivered");
                }
            }
            Settled::Dead { error } => tracing::error!(
                %to, delivery = row.id, %error,
                "delivery {} to {to} is given up; `tidewatch deliveries retry {}` tries it again: {error}",
                row.id, row.id
            ),
        }
    }
}

impl Failures {
    /// Counts the result of an attempt. A document that is refused shows that the target can be reached.
    fn note(&mut self, row: &WaitingDelivery, settled: &Settled, now: Timestamp, seed: u64) {
        match settled {
            Settled::Delivered | Settled::Dead { .. } => *self = Self::default(),
            Settled::Failed { .. } => {
                self.count = self.count.saturating_add(1);
                self.pause = pause_of_target(self.count, row.id, seed).map(|pause| (now + pause, row.id));
            }
        }
    }
}
