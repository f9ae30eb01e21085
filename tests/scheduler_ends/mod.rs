//! The far ends of a pilot's channels, for tests that play network, store and planner themselves.

use std::sync::Arc;

use tidewatch::daemon::messages::{Control, Launch};
use tidewatch::daemon::scheduler::{Lines, Progress};
use tidewatch::daemon::probe::Finished;
use tidewatch::store::writer::{Health, Receipt, Write};
use tidewatch_core::planning::build::PlanOrder;
use tokio::sync::{mpsc, watch};

/// What the others hold.
pub struct Ends {
    pub control: mpsc::UnboundedSender<Control>,
    pub finished: mpsc::UnboundedSender<Finished>,
    pub launched: mpsc::UnboundedReceiver<Launch>,
    pub to_plan: mpsc::Receiver<PlanOrder>,
    _well: watch::Sender<Health>,
}

/// A pilot's lines, to a store that commits everything at once.
pub fn lines() -> (Lines, Ends) {
    let (control, orders) = mpsc::unbounded_channel();
    let (finished, has_finished) = mpsc::unbounded_channel();
    let (receipt, receipts) = mpsc::unbounded_channel();
    let (writes, mut to_write) = mpsc::unbounded_channel();
    let (launches, launched) = mpsc::unbounded_channel();
    let (plans, to_plan) = mpsc::channel(8);
    let (_well, health) = watch::channel(Health::Well);
    let (progress, _) = watch::channel(Progress::default());
    tokio::spawn(async move {
        while let Some(write) = to_write.recv().await {
            match write {
                Write::Started(flights) => drop(receipt.send(Receipt::TookOff(flights))),
                Write::Ended(landing) => drop(receipt.send(Committed::Ended(landing.attempt.source))),
                _ => {}
            }
        }
    });
    let lines = Lines {
        control: orders,
        finished: has_finished,
        receipts,
        writes,
        launches,
        plans,
        health,
        progress,
        poke: Arc::default(),
    };
    (lines, Ends { control, finished, launched, to_plan, _well })
}
