//! Deletes old probes at a fixed interval.

use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::store::writer::Write;
use tidewatch_core::time::Span;

/// Delay of the first deletion after a start.
const FIRST_AFTER: Span = Span::from_mins(1);

/// Interval between deletions.
const EVERY: Span = Span::from_hours(1);

/// Requests deletions until it is dropped or the writer has ended.
pub async fn prune(clock: Clock, retain: watch::Receiver<Span>, writes: mpsc::UnboundedSender<Write>) {
    clock.sleep(FIRST_AFTER).await;
    loop {
        let now = clock.now();
        let before = now - *retain.borrow();
        if writes.send(Write::Prune { before, now }).is_err() {
            return;
        }
        clock.sleep(EVERY).await;
    }
}
