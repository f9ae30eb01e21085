//! The engine's notes about sources, as events in the store and lines in the log.

use crate::store::record::EventRecord;
use tidewatch_core::engine::note::{Note, burst_event};
use tidewatch_core::planning::execution::Obstacle;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

/// The event for a note; `None` for a note that is not stored. `shown` is an address without secrets.
pub fn event(
    id: SourceId,
    at: Timestamp,
    note: &Note,
    shown: impl Fn(&str) -> String,
) -> Option<EventRecord> {
    let (kind, source, detail) = match note {
        Note::MoveAdopted { to } => ("redirect_adopted", Some(id), Some(shown(to))),
        Note::Rests { why } => ("rests", Some(id), Some(why.name().to_owned())),
        Note::HostPaused { host, until } => {
            ("host_paused", Some(id), Some(format!("{host} until {until}")))
        }
        Note::LongPause { until } => ("long_pause", Some(id), Some(format!("until {until}"))),
        Note::OutageBegan { hosts } => {
            ("outage_began", None, Some(format!("{hosts} hosts in a row cannot be reached")))
        }
        Note::OutageEnded { lasted, failed } => {
            ("outage_ended", None, Some(format!("after {lasted}; {failed} probes failed")))
        }
        Note::NoDescriptors => {
            ("no_descriptors", None, Some("no file descriptor was left; new probes wait".to_owned()))
        }
        Note::StateChanged { from, to } => {
            ("state_changed", Some(id), Some(format!("{} -> {}", from.name(), to.name())))
        }
        Note::Burst(change) => {
            let (kind, text) = burst_event(change);
            (kind, Some(id), Some(text))
        }
        Note::BurstForgotten => {
            let text = "the burst is over: its usual rate is no longer known and is learned again";
            ("burst_ended", Some(id), Some(text.to_owned()))
        }
        Note::RhythmChanged => (
            "rhythm_changed",
            Some(id),
            Some("the burst lasted a whole cycle and is now the usual rate".to_owned()),
        ),
        Note::RhythmRelearned(change) => ("rhythm_changed", Some(id), Some(change.to_string())),
        Note::PolicySwitched { from, to, why } => {
            ("policy_switched", Some(id), Some(format!("{} -> {}: {why}", from.name(), to.name())))
        }
        Note::WentQuiet { since, expected } => {
            let since = since.map_or_else(String::new, |at| format!(" since {at}"));
            ("quiet", Some(id), Some(format!("no update{since}, {expected:.1} expected")))
        }
        Note::SpokeAgain => ("quiet_ended", Some(id), None),
        Note::RuleUnmet { rule, until, why } => {
            let text = format!("{rule}: no probe is possible before {until}; blocked by {}", why.name());
            ("rule_unmet", Some(id), Some(text))
        }
        Note::Tardy { by, why } => {
            let why = why.map_or("slots or capacity", |why| why.name());
            ("tardy_began", Some(id), Some(format!("to be probed by {by}; blocked by {why}")))
        }
        Note::TardyEnded { late } => ("tardy_ended", Some(id), Some(format!("probed {late} late"))),
        Note::DiedAlone { deaths, until } => {
            let text = format!("{deaths} times in a row; not probed before {until}");
            ("daemon_died", Some(id), Some(text))
        }
        Note::PlanStale => return None,
        Note::RuleMissed { rule, until } => {
            ("rule_missed", Some(id), Some(format!("{rule}: the probe came after {until}")))
        }
    };
    Some(EventRecord { at, kind, source, detail })
}

/// Logs a note about the source with that name.
pub fn log_note(source: &str, note: &Note) {
    match note {
        Note::LongPause { until } => tracing::warn!(
            source, %until,
            "the server asks for a pause of more than a day; it is kept, and only `tidewatch pardon` lifts it"
        ),
        Note::OutageBegan { hosts } => {
            tracing::error!(
                "{hosts} hosts in a row that answered before cannot be reached: the local network seems to be down; a few probes a minute find out when it is up again, and their failures are not counted against sources"
            );
        }
        Note::OutageEnded { lasted, failed } => {
            tracing::info!("the network is up again after {lasted}; {failed} probes failed meanwhile")
        }
        Note::NoDescriptors => tracing::error!(
            "no file descriptor is left: new probes wait; raise the limit of open files (LimitNOFILE= of the unit) or lower probes_per_step"
        ),
        Note::HostPaused { host, until } => {
            tracing::warn!(%host, %until, "the host limits requests; its sources are not probed until then")
        }
        Note::Burst(change) => {
            let (kind, text) = burst_event(change);
            tracing::info!(source, "{kind}: {text}");
        }
        Note::BurstForgotten => {
            tracing::info!(
                source,
                "the burst is over: its usual rate is no longer known and is learned again"
            );
        }
        Note::RhythmChanged => {
            tracing::info!(source, "the update rate has changed for good; it is learned again");
        }
        Note::RhythmRelearned(change) => {
            tracing::info!(source, "{change}; the rate is learned again");
        }
        Note::PolicySwitched { from, to, why } => {
            tracing::info!(source, from = from.name(), to = to.name(), "{why}");
        }
        Note::WentQuiet { since, expected } => {
            let since = since.map_or(String::new(), |since| format!(" since {since}"));
            tracing::warn!(
                source,
                "quiet: no update{since}, {expected:.1} expected; has the source moved or ended?"
            );
        }
        Note::SpokeAgain => tracing::info!(source, "the source updates again"),
        Note::RuleUnmet { rule, until, why } => {
            let blocked_by = match why {
                Obstacle::Closed => "hours or pauses that server or feed ask for",
                why => why.name(),
            };
            tracing::warn!(
                source, %rule, deadline = %until, blocked_by,
                "the rule will miss its deadline: no probe is allowed before it"
            );
        }
        Note::RuleMissed { rule, until } => {
            tracing::warn!(source, %rule, deadline = %until, "the probe came after the rule's deadline");
        }
        Note::Tardy { by, why } => {
            let blocked_by = why.map_or("probes_per_step or capacity", |why| why.name());
            tracing::warn!(source, deadline = %by, blocked_by, "the source was not probed within its max_gap");
        }
        Note::TardyEnded { late } => {
            tracing::info!(source, %late, "the source was probed after its deadline")
        }
        Note::DiedAlone { deaths, until } => tracing::error!(
            source,
            "tidewatch died {deaths} times while this source was probed, the last time while nothing else was in progress; \
             it is not probed before {until}; check what its server sends or remove it from the configuration, and please \
             report it"
        ),
        Note::PlanStale => tracing::debug!(
            source,
            "a finished plan is discarded: the source changed or was probed while it was computed"
        ),
        Note::MoveAdopted { .. } | Note::Rests { .. } | Note::StateChanged { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adopted_address_is_stored_without_its_secrets() {
        let note = Note::MoveAdopted { to: "https://a.example/new?token=hunter2".to_owned() };
        let shown = |to: &str| crate::config::address::shown(to, true);
        let event = event(SourceId(1), Timestamp::from_secs(0), &note, shown).unwrap();
        assert_eq!(event.detail.as_deref(), Some("https://a.example/new"));
    }
}
