//! Old probes are forgotten, now and then.

use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::store::writer::Write;
use tidewatch_core::time::Span;

/// The first time is so long after a start.
const FIRST_AFTER: Span = Span::from_mins(1);

/// How often old probes are pruned.
const EVERY: Span = Span::from_hours(1);

/// Prunes until it is dropped or the writer is gone.
pub async fn prune(clock: Clock, retain: watch::Receiver<Span>, writes: mpsc::UnboundedSender<Write>) {
    clock.sleep(FIRST_AFTER).await;
    loop {
        let before = clock.now() - *retain.borrow();
        if writes.send(Write::Prune { before }).is_err() {
            return;
        }
        clock.sleep(EVERY).await;
    }
}
