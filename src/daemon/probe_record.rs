//! A finished probe as one record for the store: its outcome, its observation, and the resulting state.

use crate::config::address;
use crate::store::record::{ComparedProbe, EventRecord, HostRecord, ProbeRecord};
use tidewatch_core::engine::action::ProbeResult;
use tidewatch_core::engine::note::Note;
use tidewatch_core::model::burst::BurstChange;

use super::match_records;
use super::notes::event;
use super::probe::Finished;

/// Builds the record of a finished probe, which is committed in one transaction.
pub fn probe_record(finished: Finished, result: ProbeResult) -> ProbeRecord {
    let id = finished.attempt.source;
    let described = finished.described.clone();
    // Only an answer can lead to another address, and its source is described.
    let shown = |address: &str| {
        described.as_ref().map_or_else(|| address::shown(address, true), |source| source.shown(address))
    };
    let matches = match_records::records(&finished, &result.rule_effects.notices);
    let compared = compared(&finished, &result);
    let model_update = finished.result.ok().map(|answered| answered.model).unwrap_or_default();
    let left_out = finished.left_out.map(|detail| EventRecord {
        at: finished.finished,
        kind: "items_left_out",
        source: Some(id),
        detail: Some(detail),
    });
    let noted = result.notes.iter().filter_map(|note| event(id, finished.finished, note, shown));
    let events = noted.chain(left_out).collect();
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
        uncharged: result.uncharged,
        validators: finished.validators,
        tardy: result.tardy,
        deadline: result.deadline,
        document: finished.document,
        observation: finished.observation,
        memory: result.memory,
        stored: finished.stored,
        beliefs: finished.beliefs,
        burst: model_update.burst,
        burst_so_far: model_update.on,
        host,
        events,
        matches,
        rules: result.rule_effects.states,
        compared,
        room: finished.room,
    }
}

/// The forecast of the probe against its answer. A first document has no updates to compare.
fn compared(finished: &Finished, result: &ProbeResult) -> Option<ComparedProbe> {
    let answer = finished.result.as_ref().ok().filter(|_| !result.discarded)?;
    let first_contact = finished.observation.as_ref().is_some_and(|seen| seen.first_contact);
    let forecast = finished.attempt.forecast.filter(|_| !first_contact)?;
    let noted = |is: fn(&Note) -> bool| result.notes.iter().any(is);
    Some(ComparedProbe {
        forecast,
        found: answer.updates,
        overflowed: answer.gap,
        false_alarms: finished.false_alarms,
        burst: matches!(answer.model.burst, Some(BurstChange::Began(_) | BurstChange::Passed(_))),
        went_quiet: noted(|note| matches!(note, Note::WentQuiet { .. })),
        quiet_ended: noted(|note| matches!(note, Note::SpokeAgain)),
        rules: result.rule_effects.found,
    })
}
