//! A finished probe as one record for the store: its outcome, its observation, and the resulting state.

use crate::store::record::{HostRecord, ProbeRecord};
use tidewatch_core::engine::action::ProbeResult;

use super::match_records;
use super::notes::event;
use super::probe::Finished;

/// Builds the record of a finished probe, which is committed in one transaction.
pub fn probe_record(finished: Finished, result: ProbeResult) -> ProbeRecord {
    let id = finished.attempt.source;
    let matches = match_records::records(&finished, &result.rule_effects.notices);
    let model_update = finished.result.ok().map(|answered| answered.model).unwrap_or_default();
    let events = result.notes.iter().filter_map(|note| event(id, finished.finished, note)).collect();
    let host = result.host.map(|asks| HostRecord {
        key: asks.host.key.to_string(),
        public: asks.host.public,
        paused_until: asks.paused_until,
        crawl_delay: asks.crawl_delay,
    });
    ProbeRecord {
        attempt: finished.attempt,
        finished: finished.finished,
        outcome: finished.outcome,
        http_status: finished.http_status,
        bytes: finished.bytes,
        error: finished.error,
        validators: finished.validators,
        tardy: result.tardy,
        deadline: result.deadline,
        observation: finished.observation,
        memory: result.memory,
        beliefs: finished.beliefs,
        burst: model_update.burst,
        burst_so_far: model_update.on,
        host,
        events,
        matches,
        rules: result.rule_effects.states,
    }
}
