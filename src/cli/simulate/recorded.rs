//! `tidewatch simulate recorded`: replays a recording of the daemon through the engine of this version.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;

use tidewatch_core::engine::recording::{Replayed, replay};

use crate::cli::error::CliError;
use crate::cli::json_document;

/// Options of `simulate recorded`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File written by `tidewatch run --record`.
    file: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// JSON document of the outcome.
#[derive(Debug, Serialize)]
struct RecordedDocument {
    events: usize,
    actions: usize,
    from: Option<String>,
    until: Option<String>,
    equal: bool,
    difference: Option<DifferenceEntry>,
}

#[derive(Debug, Serialize)]
struct DifferenceEntry {
    event: usize,
    at: String,
    told: String,
    recorded: Vec<String>,
    replayed: Vec<String>,
}

/// Replays a recording; a difference gives exit code 1.
pub fn run(arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    let file = arguments.file.display();
    let bytes = std::fs::read(&arguments.file)
        .map_err(|error| CliError::Refused(format!("{file}: cannot be read: {error}")))?;
    let replayed = replay(&bytes).map_err(|bad| CliError::Refused(format!("{file}: {bad}")))?;
    let document = RecordedDocument::of(&replayed);
    if arguments.json {
        json_document::write(out, &document)?;
    } else {
        show(&document, out)?;
    }
    if document.equal { Ok(()) } else { Err(CliError::Found) }
}

impl RecordedDocument {
    fn of(replayed: &Replayed) -> Self {
        let lines = |actions: &[_]| actions.iter().map(|action| format!("{action:?}")).collect();
        let difference = replayed.difference.as_ref().map(|difference| DifferenceEntry {
            event: difference.exchange,
            at: difference.recorded.now.iso(),
            told: format!("{:?}", difference.recorded.event),
            recorded: lines(&difference.recorded.actions),
            replayed: lines(&difference.replayed),
        });
        Self {
            events: replayed.exchanges,
            actions: replayed.actions,
            from: replayed.span.map(|span| span.0.iso()),
            until: replayed.span.map(|span| span.1.iso()),
            equal: difference.is_none(),
            difference,
        }
    }
}

fn show(document: &RecordedDocument, out: &mut dyn Write) -> Result<(), CliError> {
    let RecordedDocument { events, actions, from, until, .. } = document;
    if let (Some(from), Some(until)) = (from, until) {
        let equal = if document.equal { ": all as recorded" } else { " up to a difference" };
        writeln!(out, "{events} events from {from} to {until}, {actions} actions{equal}")?;
    } else {
        writeln!(out, "no events: a snapshot only")?;
    }
    let Some(DifferenceEntry { event, at, told: given, recorded, replayed }) = &document.difference else {
        return Ok(());
    };
    writeln!(out, "\nevent {event} at {at} has other actions:\n  event     {given}")?;
    for index in 0..recorded.len().max(replayed.len()) {
        let (before, now) = (recorded.get(index), replayed.get(index));
        if before != now {
            let none = "nothing".to_owned();
            writeln!(out, "  recorded  {}", before.unwrap_or(&none))?;
            writeln!(out, "  replayed  {}", now.unwrap_or(&none))?;
        }
    }
    Ok(())
}
