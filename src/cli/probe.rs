//! `tidewatch probe`: one probe now; with `--dry-run`, only the request and the comparison are shown.
//!
//! If a daemon runs, it sends the probe, so that only one process counts the budget.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Stopwatch, real_pause};
use crate::config::configuration::Config;
use crate::config::secret::Secret;
use crate::config::source::SourceConfig;
use crate::daemon::once::{OnceError, once};
use crate::daemon::probe::{Finished, reads_otherwise, recall, request};
use crate::daemon::run::DaemonError;
use crate::daemon::startup::spec;
use crate::store::StoreError;
use crate::store::attempts::RequestInputs;
use crate::store::probe_inputs::ProbeInputs;
use crate::store::reader::{Reader, ask};
use tidewatch_core::observe::limits::ReadingLimits;
use tidewatch_core::observe::{self, FetchedDocument, Fingerprints, SourceKind, StoredView, compare};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;
use tidewatch_lab::words::cut;

use super::configured::find_source;
use super::error::CliError;
use super::files::refuse_new_store_elsewhere;
use super::log;
use super::process::runtime;
use super::status::load_sources;

/// Options of `probe`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the source.
    source: String,
    /// Send nothing; show the request, whether the gate allows it, and what would be compared.
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: treat this file as the response, and show what would be compared.
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    body: Option<PathBuf>,
}

/// Time limit for the daemon to respond and to probe.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// Probes, or shows what it would do.
pub fn run(config: &Config, arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    let source = find_source(config, &arguments.source)?;
    let runtime = runtime()?;
    if arguments.dry_run {
        return runtime.block_on(dry_run(config, source, arguments, out));
    }
    refuse_new_store_elsewhere(config)?;
    let _log = log::start("warn");
    let clock = Clock::wall();
    match runtime.block_on(once(config, &source.name, &clock)) {
        Ok(finished) => show_result(&finished, out),
        Err(OnceError::Daemon(DaemonError::Store(StoreError::InUse(_)))) => {
            runtime.block_on(ask_daemon(config, source, &clock, out))
        }
        Err(error @ (OnceError::Refused(_) | OnceError::Cancelled)) => {
            Err(CliError::Refused(error.to_string()))
        }
        Err(OnceError::Daemon(error)) => Err(error.into()),
    }
}

fn show_result(finished: &Finished, out: &mut dyn Write) -> Result<(), CliError> {
    let status = finished.http_status.map_or_else(String::new, |status| format!(" (HTTP {status})"));
    if let Some(error) = &finished.error {
        return Err(CliError::Refused(format!("the probe failed: {error}")));
    }
    let updates = finished.observation.as_ref().map_or(&[][..], |seen| &seen.updates);
    writeln!(
        out,
        "{}{status}: {} updates, {} bytes",
        finished.outcome.name(),
        updates.len(),
        finished.bytes
    )?;
    for update in updates {
        let title = update.title.as_deref().unwrap_or(&update.key);
        writeln!(
            out,
            "  {}  {}  {}",
            update.kind.name(),
            cut(title, 80),
            update.link.as_deref().unwrap_or_default()
        )?;
    }
    Ok(())
}

async fn ask_daemon(
    config: &Config,
    source: &Arc<SourceConfig>,
    clock: &Clock,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let store = &config.daemon.store;
    let asked_at = clock.now();
    let reader = Reader::open(store).await?;
    let unknown = || {
        CliError::Refused(format!("the running daemon does not know `{}`; reload it first", source.name))
    };
    let row =
        reader.sources().await?.into_iter().find(|row| *row.name == *source.name).ok_or_else(unknown)?;
    let number = ask(store, row.id, asked_at).await?;
    let stopwatch = Stopwatch::start();
    let mut accepted = false;
    while stopwatch.elapsed() < ANSWER_LIMIT {
        real_pause(Duration::from_millis(200)).await;
        if !accepted {
            match reader.answer(number).await?.as_deref() {
                None => continue,
                Some("accepted") => accepted = true,
                Some(refused) => {
                    return Err(CliError::Refused(format!(
                        "not now: {}",
                        refused.trim_start_matches("refused: ")
                    )));
                }
            }
        }
        let last = reader.last_probes(row.id, 1).await?.pop().filter(|probe| probe.started_at >= asked_at);
        if let Some(probe) = last {
            if let Some(error) = probe.error {
                return Err(CliError::Refused(format!("the probe failed: {error}")));
            }
            let status = probe.http_status.map_or_else(String::new, |status| format!(" (HTTP {status})"));
            writeln!(
                out,
                "{}{status}: {} updates (by the running daemon)",
                probe.outcome, probe.updates_found
            )?;
            return Ok(());
        }
    }
    Err(CliError::Refused("the running daemon has not answered in time; see its log".to_owned()))
}

async fn dry_run(
    config: &Config,
    source: &Arc<SourceConfig>,
    arguments: &Args,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let now = Clock::wall().now();
    let mut inputs = ProbeInputs::default();
    let mut request_inputs = RequestInputs::default();
    let mut last_text = None;
    let mut adopted = None;
    let mut stored = None;
    let mut gate_status = "the gate allows it now".to_owned();
    match load_sources(config, &Clock::wall()).await {
        Ok((rows, engine)) => {
            if let Some(row) = rows.into_iter().find(|row| *row.name == *source.name) {
                let reader = Reader::open(&config.daemon.store).await?;
                inputs = reader.probe_inputs(row.id).await?;
                request_inputs = reader.request_inputs(row.id).await?;
                last_text = reader.page_text(row.id).await?;
                if inputs.seen.moved || reads_otherwise(source, &request_inputs) {
                    inputs.seen.page = None;
                }
                adopted = row.adopted_url;
                stored = Some((row.id, reader));
                let blocking = engine.explain(row.id, None, now).and_then(|explanation| {
                    let timed = explanation.constraints.into_iter();
                    let timed = timed.filter_map(|(rule, until)| Some((rule, until?)));
                    timed.filter(|&(_, until)| until > now).max_by_key(|&(_, until)| until)
                });
                if let Some((rule, until)) = blocking {
                    gate_status = format!("the gate forbids it until {until}: {}", rule.name());
                }
            }
        }
        Err(CliError::Store(StoreError::Missing(_))) => gate_status.push_str(" (there is no store yet)"),
        Err(error) => return Err(error),
    }
    writeln!(out, "{gate_status}\n")?;
    show_request(config, source, adopted.as_deref(), &request_inputs, out)?;
    writeln!(out)?;
    show_comparison(source, &inputs, last_text.as_deref(), out)?;
    if let Some(file) = &arguments.body {
        writeln!(out)?;
        show_body(source, file, &inputs, stored, (now, config.fetch.max_items), out).await?;
    }
    Ok(())
}

fn show_request(
    config: &Config,
    source: &Arc<SourceConfig>,
    adopted: Option<&str>,
    inputs: &RequestInputs,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    // Secrets are not read; only their places are shown.
    let spec = spec(config, source, adopted);
    let request = request(&spec, http::HeaderMap::new(), inputs, &config.fetch);
    writeln!(out, "GET {}", source.shown(request.url.as_str()))?;
    for (name, value) in crate::fetch::client::common_headers(config.daemon.contact.as_deref())
        .map_err(|error| CliError::Refused(error.message))?
        .iter()
    {
        writeln!(out, "{name}: {}", String::from_utf8_lossy(value.as_bytes()))?;
    }
    for (name, value) in source.headers.iter() {
        let from = match value {
            Secret::Literal(_) => "(as configured)".to_owned(),
            Secret::File(path) => format!("(from the file {})", path.display()),
            Secret::Credential(name) => format!("(from the credential {name})"),
        };
        writeln!(out, "{name}: {from}")?;
    }
    if let Some(validators) = &request.validators {
        for (name, value) in
            [("if-none-match", &validators.etag), ("if-modified-since", &validators.last_modified)]
        {
            if let Some(value) = value {
                writeln!(out, "{name}: {}", String::from_utf8_lossy(value))?;
            }
        }
        if validators.url != request.url.as_str() {
            let to = source.shown(&validators.url);
            writeln!(out, "(the validators go to {to} only, where redirects led last time)")?;
        }
    }
    Ok(())
}

fn show_comparison(
    source: &SourceConfig,
    inputs: &ProbeInputs,
    last_text: Option<&str>,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    match (source.kind, inputs.seen.last_success) {
        (SourceKind::Page, Some(_)) if inputs.seen.page.is_none() => {
            writeln!(out, "compared with nothing: other parts or another address are read now")?;
        }
        (_, None) => writeln!(out, "compared with nothing: this would be the first contact")?,
        (SourceKind::Feed, Some(at)) => {
            writeln!(
                out,
                "compared with {} items seen at {at}, and by key with older ones",
                inputs.seen.items.len()
            )?;
        }
        (SourceKind::Page, Some(at)) => {
            writeln!(out, "compared with this text, seen at {at}:")?;
            show_text(last_text.unwrap_or_default(), out)?;
        }
    }
    Ok(())
}

async fn show_body(
    source: &SourceConfig,
    file: &PathBuf,
    inputs: &ProbeInputs,
    stored: Option<(SourceId, Reader)>,
    (now, max_items): (Timestamp, usize),
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let unreadable = |error: std::io::Error| CliError::Refused(format!("{}: {error}", file.display()));
    let bytes = std::fs::read(file).map_err(unreadable)?;
    let limits = ReadingLimits { items: max_items, ..ReadingLimits::USUAL };
    let document = FetchedDocument { bytes: &bytes, content_type: None, url: source.url.as_str(), limits };
    let refused = |error: observe::Unreadable| CliError::Refused(format!("{}: {error}", file.display()));
    match source.kind {
        SourceKind::Feed => {
            // To a source without items all of them are new, so that they are read in full.
            let unseen = StoredView { last_success: Some(now), ..StoredView::default() };
            let feed = observe::feed::read(&document, &unseen).map_err(refused)?;
            writeln!(out, "{}: a feed of {} items", file.display(), feed.items.len())?;
            if let Some(repaired) = &feed.repaired {
                writeln!(out, "  malformed: {repaired}")?;
            }
            for item in &feed.items {
                let title = item.details.as_ref().and_then(|details| details.title.as_deref());
                let dated =
                    item.published.or(item.updated).map_or_else(|| "undated".to_owned(), Timestamp::iso);
                writeln!(
                    out,
                    "  {dated}  {}  [{}]",
                    cut(title.unwrap_or_default(), 60),
                    cut(&item.key, 60)
                )?;
            }
            let mut older = Fingerprints::new();
            if let Some((id, reader)) = stored {
                let unknown = compare::unknown(&feed, &inputs.seen);
                older = reader.known_items(&[(id, unknown)]).await?.pop().unwrap_or_default();
                let (seen, of_request) = (&inputs.seen, reader.request_inputs(id).await?);
                recall(&reader, id, &of_request, max_items, (&feed, seen), &mut older).await?;
            }
            let seen = compare::feed(feed, &inputs.seen, &older, now).map_err(refused)?;
            writeln!(out, "it would bring {} updates", seen.updates.len())?;
        }
        SourceKind::Page => {
            let page = observe::page::read(&document, &source.page).map_err(refused)?;
            let changed = inputs.seen.page.is_some_and(|old| old != page.fingerprint);
            writeln!(
                out,
                "{}: this text would be compared ({}):",
                file.display(),
                if changed { "changed" } else { "no change to report" }
            )?;
            show_text(&page.text, out)?;
        }
    }
    Ok(())
}

fn show_text(text: &str, out: &mut dyn Write) -> Result<(), CliError> {
    const SHOWN: usize = 4_000;
    let cut_at = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    for line in text[..cut_at].lines() {
        writeln!(out, "  | {line}")?;
    }
    if cut_at < text.len() {
        writeln!(out, "  | … and {} bytes more", text.len() - cut_at)?;
    }
    Ok(())
}
