//! Lifts limits for the user: what is stored of it, and how it is done without a daemon.

use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::config::configuration::Config;
use crate::store::lock::Lock;
use crate::store::reader::ask_pardon;
use crate::store::record::{EventRecord, PardonRecord};
use crate::store::writer::{Write, Writer};
use crate::store::{StoreError, open};
use tidewatch_core::engine::action::{Action, PardonResult, Persist};
use tidewatch_core::engine::event::{EngineEvent, Pardon};

use super::startup;

/// The writes for a pardon. Nothing is changed if there was nothing to lift.
pub fn writes(result: &PardonResult) -> Vec<Write> {
    let (source, host) = match &result.whom {
        Pardon::Source(id) => (Some(*id), None),
        Pardon::Host(host) => (None, Some(host.to_string())),
    };
    let limits: Vec<String> =
        result.lifted.iter().map(|(limit, until)| format!("{} until {until}", limit.name())).collect();
    let lifted = !limits.is_empty();
    let answer = if lifted { format!("lifted: {}", limits.join(", ")) } else { NOTHING.to_owned() };
    let record = PardonRecord {
        request: result.request,
        at: result.at,
        source: source.filter(|_| lifted),
        host: host.clone().filter(|_| lifted),
        state: result.state.map(|state| state.name()),
        answer,
    };
    let mut writes = vec![Write::Pardoned(record)];
    if lifted {
        let of = host.map_or_else(String::new, |host| format!("{host}: "));
        let detail = Some(format!("{of}{}", limits.join(", ")));
        writes.push(Write::Event(EventRecord { at: result.at, kind: "pardoned", source, detail }));
    }
    writes
}

/// The answer if there was no limit.
const NOTHING: &str = "nothing to lift";

/// What an answer means to the user: the limits that were lifted, or none.
pub fn lifted(answer: &str) -> Option<&str> {
    answer.strip_prefix("lifted: ")
}

/// Lifts limits in a store that no daemon uses. Returns the answer.
pub async fn pardon_stopped(config: &Config, whom: Pardon, clock: &Clock) -> Result<String, StoreError> {
    let store = &config.daemon.store;
    let _lock = Lock::take(store)?;
    let mut connection = open::for_writing(store).await?;
    let mut loaded = startup::begin(config, &mut connection, clock).await?;
    let now = clock.now();
    let request = ask_pardon(store, &whom, now).await?;
    let mut actions = Vec::new();
    loaded.engine.handle(now, EngineEvent::Pardoned { whom, request }, &mut actions);
    let (writer, handle) = Writer::new(connection);
    loaded.correct_sources(&handle.writes);
    let (stop, stopped) = oneshot::channel();
    let mut answer = NOTHING.to_owned();
    for action in actions {
        let queued = match action {
            Action::Persist(Persist::Pardoned(result)) => writes(&result),
            Action::Persist(Persist::Due(due)) => vec![Write::Due(due)],
            _ => Vec::new(),
        };
        for write in queued {
            if let Write::Pardoned(record) = &write {
                answer = record.answer.clone();
            }
            handle.writes.send(write).map_err(|_| StoreError::Stopped)?;
        }
    }
    let _ = stop.send(());
    writer.run(stopped).await?;
    Ok(answer)
}
