//! Deletes old rows at a fixed interval.

use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::config::params::DaemonParams;
use crate::store::reader::Reader;
use crate::store::retention::DeleteBefore;
use crate::store::writer::Write;
use tidewatch_core::time::{Span, Timestamp};

/// Delay of the first deletion after a start.
const FIRST_AFTER: Span = Span::from_mins(1);

/// Interval between deletions.
const EVERY: Span = Span::from_hours(1);

/// Requests deletions until it is dropped or the writer has ended.
pub async fn prune(
    clock: Clock,
    retain: watch::Receiver<DaemonParams>,
    reader: Reader,
    writes: mpsc::UnboundedSender<Write>,
) {
    clock.sleep(FIRST_AFTER).await;
    let mut hours = 0;
    let mut warned = false;
    loop {
        match reader.deletion_clock().await {
            Ok(mut trust) => {
                let now = clock.now();
                let trusted = trust.trusts(now, hours);
                if !trusted && trust.last.is_some() && !std::mem::replace(&mut warned, true) {
                    tracing::warn!(
                        "the clock is more than two days ahead of the last deletions; old rows are kept until it has \
                         been so for a day of running, in case it is wrong"
                    );
                }
                let before = delete_before(&retain.borrow(), now);
                let prune = trusted.then_some(Write::Prune(before));
                let mut to_write = [Some(Write::DeletionClock(trust)), prune].into_iter().flatten();
                if to_write.any(|write| writes.send(write).is_err()) {
                    return;
                }
            }
            Err(error) => tracing::error!(%error, "old rows are not deleted: the store cannot be read"),
        }
        clock.sleep(EVERY).await;
        hours = 1;
    }
}

fn delete_before(params: &DaemonParams, now: Timestamp) -> DeleteBefore {
    DeleteBefore {
        probes: now - params.retain_probes,
        updates: params.retain_updates.map(|age| now - age),
        events: Some(now - params.retain_events),
        now,
    }
}
