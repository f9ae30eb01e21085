//! A probe's end as it goes into the store.
//!
//! Joins what the probe saw with what the fleet made of it. Shared by the daemon and by a single
//! probe from the command line.

use crate::store::record::{Event, HostRecord, Landing};
use tidewatch_core::engine::life::burst_event;
use tidewatch_core::engine::{Absorbed, Note};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::catch;
use super::probe::Finished;

/// Everything that follows from a probe, ready to be committed.
pub fn landing(finished: Finished, absorbed: Absorbed) -> Landing {
    let id = finished.flight.source;
    let caught = catch::records(&finished, &absorbed.follows.notices);
    let heard = finished.result.ok().map(|answered| answered.heard).unwrap_or_default();
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
        tardy: absorbed.tardy,
        look_by: absorbed.look_by,
        observation: finished.observation,
        memory: absorbed.memory,
        beliefs: finished.beliefs,
        burst: heard.burst,
        burst_so_far: heard.on,
        host,
        events,
        caught,
        rules: absorbed.follows.states,
    }
}

/// A note as an event.
pub fn event(id: SourceId, at: Timestamp, note: &Note) -> Event {
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
        Note::Burst(change) => {
            let (kind, said) = burst_event(change);
            (kind, Some(id), Some(said))
        }
        Note::BurstForgotten => {
            let said = "nothing is known any more of the rhythm that it broke";
            ("burst_ended", Some(id), Some(said.to_owned()))
        }
        Note::RhythmChanged => ("rhythm_changed", Some(id), Some("the burst is its rhythm now".to_owned())),
        Note::PolicySwitched { from, to, why } => {
            ("policy_switched", Some(id), Some(format!("{} -> {}: {why}", from.name(), to.name())))
        }
        Note::WentQuiet { since, expected } => {
            let since = since.map_or_else(String::new, |at| format!(" since {at}"));
            ("quiet", Some(id), Some(format!("no update{since}, {expected:.1} expected")))
        }
        Note::SpokeAgain => ("quiet_ended", Some(id), None),
        Note::RuleUnmet { rule, until, why } => {
            let said = format!("{rule}: no probe can come by {until}; {} is in the way", why.name());
            ("rule_unmet", Some(id), Some(said))
        }
        Note::Tardy { by, why } => {
            let why = why.map_or("slots or capacity", |why| why.name());
            ("tardy_began", Some(id), Some(format!("to be looked at by {by}; {why} is in the way")))
        }
        Note::TardyEnded { late } => ("tardy_ended", Some(id), Some(format!("looked at {late} late"))),
        Note::RuleMissed { rule, until } => {
            ("rule_missed", Some(id), Some(format!("{rule}: the probe came after {until}")))
        }
    };
    Event { at, kind, source, detail }
}
