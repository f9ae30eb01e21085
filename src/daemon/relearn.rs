//! Learns the evidence of sources again whose half-life or time zone changed, and evidence that was begun by a clock that
//! was years ahead.
//!
//! It is learned from the source's log, one source at a time. Until then, probes go on with the old evidence, also if
//! that has years of silence after the items of the first contact. A probe that ends meanwhile wins: evidence is
//! replaced only if it is still what was read, and otherwise learned again at the next fit.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::store::StoreError;
use crate::store::reader::{HistoryRow, Reader};
use crate::store::record::RelearnedRecord;
use crate::store::writer::{Write, commit};
use tidewatch_core::model::history::History;
use tidewatch_core::model::post_burst::PostBurstEvidence;
use tidewatch_core::model::probe_log::ProbeLog;
use tidewatch_core::model::source_model::{WRONG_CLOCK, model_shift};
use tidewatch_core::time::{Span, Timestamp};

use super::startup::Learning;

/// Sources whose evidence one transaction stores.
const STORED_AT_A_TIME: usize = 50;

/// Learns the evidence of those rows again that have other settings than configured or were begun by a clock that was
/// years ahead, and stores it. The clock shows `now`, and has these corrections.
pub async fn relearn(
    reader: &Reader,
    writes: &mpsc::UnboundedSender<Write>,
    rows: &mut [(HistoryRow, Arc<Learning>)],
    (now, corrected): (Timestamp, Span),
) -> Result<(), StoreError> {
    let (mut relearned, mut by_wrong_clock) = (0, 0);
    let mut records = Vec::new();
    for (row, learning) in rows {
        let mut history = learning.history(Some(&row.bytes), now);
        let begun = history.span().map(|(since, _)| since);
        let begun_ahead =
            corrected - row.begun_corrected < -WRONG_CLOCK && begun.is_some_and(|at| at <= now);
        if history.is_learned_with(&learning.zone, learning.half_life) && !begun_ahead {
            continue;
        }
        let shift = model_shift(corrected - row.model_corrected);
        history.shift(shift);
        let log = reader.probe_log(row.id).await?;
        if begun_ahead && log.latest_date().is_some_and(|at| at > now) {
            // The present clock is the wrong one.
            continue;
        }
        by_wrong_clock += u32::from(begun_ahead);
        let (settings, post_burst) = (Arc::clone(learning), row.post_burst.clone());
        let learn = move || learn_again(&log, (&history, shift), post_burst.as_deref(), &settings, now);
        // A panic while learning is a bug; the source keeps its evidence.
        let Ok((bytes, post_burst)) = tokio::task::spawn_blocking(learn).await else { continue };
        records.push(RelearnedRecord {
            source: row.id,
            read: (std::mem::replace(&mut row.bytes, bytes.clone()), row.post_burst.take()),
            corrected,
            history: bytes,
            post_burst: post_burst.clone(),
        });
        (row.model_corrected, row.begun_corrected) = (corrected, corrected);
        row.post_burst = post_burst;
        relearned += 1;
        if records.len() >= STORED_AT_A_TIME {
            commit(writes, Write::Relearned(std::mem::take(&mut records))).await?;
        }
    }
    if relearned > 0 {
        commit(writes, Write::Relearned(records)).await?;
        tracing::info!(
            sources = relearned,
            by_wrong_clock,
            "half_life or time_zone changed, or the clock was years ahead: rates were learned again from the logged probes"
        );
    }
    Ok(())
}

/// The encoded evidence with the new settings, and that since the last burst began.
fn learn_again(
    log: &ProbeLog,
    (history, shift): (&History, Span),
    post_burst: Option<&[u8]>,
    learning: &Learning,
    now: Timestamp,
) -> (Vec<u8>, Option<Vec<u8>>) {
    let again = |log: &ProbeLog, old: &History| log.history(old, &learning.zone, learning.half_life, now);
    let post_burst = post_burst.and_then(|bytes| PostBurstEvidence::from_bytes(bytes, history));
    let post_burst = post_burst.map(|mut evidence| {
        evidence.shift(shift);
        let history = again(&log.without_bursts(), evidence.history());
        evidence.with_history(history).to_bytes()
    });
    (again(log, history).to_bytes(), post_burst)
}
