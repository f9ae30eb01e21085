//! A probe's end as it goes into the store.
//!
//! Joins what the probe saw with what the fleet made of it. Shared by the daemon and by a single
//! probe from the command line.

use crate::fleet::params::SourceId;
use crate::fleet::{Absorbed, Note};
use crate::store::record::{Event, HostRecord, Landing};
use crate::time::Timestamp;

use super::probe::Finished;

/// Everything that follows from a probe, ready to be committed.
pub fn landing(finished: Finished, absorbed: Absorbed) -> Landing {
    let id = finished.flight.source;
    let events = absorbed.notes.iter().map(|note| event(id, finished.finished, note)).collect();
    let host = absorbed.host.map(|asks| HostRecord {
        key: asks.host.key.to_string(),
        public: asks.host.public,
        paused_until: (asks.paused_until > Timestamp::MIN).then_some(asks.paused_until),
        crawl_delay: asks.crawl_delay,
    });
    Landing {
        flight: finished.flight,
        finished: finished.finished,
        outcome: finished.outcome,
        http_status: finished.http_status,
        bytes: finished.bytes,
        error: finished.error,
        validators: finished.validators,
        observation: finished.observation,
        memory: absorbed.memory,
        history: finished.history,
        host,
        events,
    }
}

fn event(id: SourceId, at: Timestamp, note: &Note) -> Event {
    let (kind, source, detail) = match note {
        Note::MoveAdopted { to } => ("redirect_adopted", Some(id), Some(to.clone())),
        Note::Rests { why } => ("rests", Some(id), Some((*why).to_owned())),
        Note::HostPaused { host, until } => {
            ("host_paused", Some(id), Some(format!("{host} until {until}")))
        }
        Note::OutageBegan => ("outage_began", None, Some("no host can be reached".to_owned())),
        Note::OutageEnded => ("outage_ended", None, None),
        Note::StateChanged { from, to } => {
            ("state_changed", Some(id), Some(format!("{} -> {}", from.name(), to.name())))
        }
    };
    Event { at, kind, source, detail }
}
