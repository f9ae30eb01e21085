//! The other ends of a scheduler's channels, for tests that replace network, store and planner.

use std::sync::Arc;
use std::time::Duration;

use tidewatch::clock::real_pause;
use tidewatch::daemon::messages::{Control, Launch};
use tidewatch::daemon::probe::Finished;
use tidewatch::daemon::scheduler::{Channels, Progress};
use tidewatch::daemon::watchdog::ProgressMark;
use tidewatch::store::attempts::RequestInputs;
use tidewatch::store::writer::{Health, Receipt, Write};
use tidewatch_core::planning::build::PlanOrder;
use tokio::sync::{mpsc, watch};

/// The ends that network, store and planner use.
pub struct Ends {
    pub control: mpsc::UnboundedSender<Control>,
    pub finished: mpsc::UnboundedSender<Box<Finished>>,
    pub launched: mpsc::UnboundedReceiver<Launch>,
    pub to_plan: mpsc::UnboundedReceiver<PlanOrder>,
    _health_sender: watch::Sender<Health>,
}

/// A scheduler's channels to a store with these commit times for the start and the end of a probe.
pub fn channels(start: Duration, end: Duration) -> (Channels, Ends) {
    let (control, controls) = mpsc::unbounded_channel();
    let (finished, has_finished) = mpsc::unbounded_channel();
    let (receipt, receipts) = mpsc::unbounded_channel();
    let (writes, mut to_write) = mpsc::unbounded_channel();
    let (launches, launched) = mpsc::unbounded_channel();
    let (plans, to_plan) = mpsc::unbounded_channel();
    let (_health_sender, health) = watch::channel(Health::Well);
    let (progress, _) = watch::channel(Progress::default());
    tokio::spawn(async move {
        while let Some(write) = to_write.recv().await {
            let (after, committed) = match write {
                Write::Started(attempts) => {
                    let started = attempts.iter().map(|attempt| (attempt.source, RequestInputs::default()));
                    (start, Receipt::Started(started.collect()))
                }
                Write::Ended(record) => (end, Receipt::Ended(record.attempt.source)),
                _ => continue,
            };
            let receipt = receipt.clone();
            tokio::spawn(async move {
                if !after.is_zero() {
                    real_pause(after).await;
                }
                let _ = receipt.send(committed);
            });
        }
    });
    let channels = Channels {
        control: controls,
        finished: has_finished,
        receipts,
        writes,
        launches,
        plans,
        health,
        progress,
        deliver: Arc::default(),
        mark: ProgressMark::default(),
    };
    (channels, Ends { control, finished, launched, to_plan, _health_sender })
}
