//! Deletes old rows at a fixed interval.

use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::config::params::DaemonParams;
use crate::store::reader::Reader;
use crate::store::retention::DeleteBefore;
use crate::store::writer::Write;
use tidewatch_core::time::Span;

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
    let mut trust = match reader.deletion_clock().await {
        Ok(trust) => trust,
        Err(error) => {
            tracing::error!(%error, "old rows are not deleted until the next start: the store cannot be read");
            return;
        }
    };
    loop {
        let now = clock.now();
        let trusted = trust.trusts(now);
        if !trusted && trust.hours_ahead == 1 && trust.last.is_some() {
            tracing::warn!(
                "the clock is more than two days ahead of the last deletions; old rows are kept until it has been so \
                 for a day of running, in case it is wrong"
            );
        }
        let before = trusted.then(|| {
            let params = retain.borrow();
            Write::Prune(DeleteBefore {
                probes: now - params.retain_probes,
                updates: params.retain_updates.map(|age| now - age),
                events: Some(now - params.retain_events),
                now,
            })
        });
        let ended = [Some(Write::DeletionClock(trust)), before]
            .into_iter()
            .flatten()
            .any(|write| writes.send(write).is_err());
        if ended {
            return;
        }
        clock.sleep(EVERY).await;
    }
}
