//! `tidewatch status`: the state of every source. Reads the store, with or without a running daemon.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::clock::Clock;
use crate::config::configuration::Config;
use crate::daemon::startup::load_engine;
use crate::store::clock::ClockSeen;
use crate::store::predictions::PredictionSums;
use crate::store::reader::Reader;
use crate::store::report::{FitRow, SourceReportRow};
use tidewatch_core::engine::event::{CrashSuspect, Pardon};
use tidewatch_core::engine::state::Engine;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::words::cut;

use super::calibrate::verdicts;
use super::configured::hide_secrets;
use super::error::CliError;
use super::fleet_load::{self, FleetLoad, FleetLoadDocument};
use super::json_document;
use super::measures::{self, MeasuresDocument, Period, PeriodDocument};
use super::process::{colours, runtime};
use super::reasons;
use super::spending::{self, SpendingDocument};
use super::table::{TableCell, Tone, cell, print};

/// Prints the table, or one JSON document. With a period, the table shows its measures.
pub fn run(
    config: &Config,
    as_json: bool,
    period: Option<Span>,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let now = Clock::wall().now();
    let period = period.map(|span| Period::last(span, now));
    let (rows, fleet, fits, measured, loads, stated, suspects) = runtime()?.block_on(async {
        let (mut rows, fleet) = load_sources(config, &Clock::wall()).await?;
        hide_secrets(config, &mut rows);
        let reader = Reader::open(&config.daemon.store).await?;
        let fits = reader.fits().await?;
        let measured = match period {
            Some(period) => Some((period, reader.measures(period.since, period.until).await?)),
            None => None,
        };
        let loads = reader.loads(now - fleet_load::OVER, now).await?;
        let stated = reader.prediction_total(now - verdicts::USUAL_PERIOD).await?;
        let suspects = reader.crash_suspects().await?;
        Ok::<_, CliError>((rows, fleet, fits, measured, loads, stated, suspects))
    })?;
    let load = loads.and_then(|loads| {
        FleetLoad::new(
            loads,
            fleet.undiscovered(now),
            &fleet.source_rates(),
            fleet.deadlines(),
            &config.fleet,
        )
    });
    if as_json {
        let deaths: HashMap<SourceId, u32> =
            suspects.iter().map(|suspect| (suspect.source, suspect.deaths)).collect();
        let sources = rows.iter().map(|row| {
            let measures = measured.as_ref().map(|(_, measured)| (&measures::of(measured, row)).into());
            let daemon_deaths = deaths.get(&row.id).copied().unwrap_or(0);
            SourceStatus { measures, daemon_deaths, ..source_status(row, &fleet, &fits, now) }
        });
        let document = StatusDocument {
            at: now.iso(),
            store: &config.daemon.store,
            sources: sources.collect(),
            fleet: load.as_ref().map(FleetLoad::document),
            spending: (&fleet.spending()).into(),
            calibration: CalibrationSummary::new(&stated),
            period: measured.as_ref().map(|(period, _)| (*period).into()),
            totals: measured.as_ref().map(|(_, measured)| (&measured.total).into()),
        };
        return Ok(json_document::write(out, &document)?);
    }
    if rows.is_empty() {
        return Ok(writeln!(out, "no sources yet")?);
    }
    if let Some((period, measured)) = &measured {
        return Ok(measures::show(out, &rows, *period, measured, &config.importance.time_zone)?);
    }
    let head = [
        "source",
        "state",
        "last probe",
        "next probe",
        "asked by",
        "because",
        "left",
        "updates",
        "rhythm",
        "error",
    ];
    let table: Vec<Vec<TableCell>> = rows.iter().map(|row| to_cells(row, &fleet, &fits, now)).collect();
    print(out, &head, &table, colours())?;
    writeln!(out)?;
    spending::show(&fleet.spending(), out)?;
    if let Some(load) = load {
        load.show(out)?;
    }
    let lines = long_pauses(&rows, &fleet, now);
    for line in lines.into_iter().chain(crash_suspects(&rows, suspects)) {
        writeln!(out, "{line}")?;
    }
    if let Some(line) = verdicts::summary(&stated, verdicts::USUAL_PERIOD) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// A pause that a server asks for is shown if it is longer than this.
const LONG_PAUSE: Span = Span::from_days(1);

/// Most lines about pauses.
const MOST_PAUSES: usize = 10;

/// The sources whose servers ask for no request for more than a day.
fn long_pauses(rows: &[SourceReportRow], fleet: &Engine, now: Timestamp) -> Vec<String> {
    let paused = rows.iter().filter_map(|row| {
        let until = fleet.pause_asked_for(row.id).filter(|&until| until > now + LONG_PAUSE)?;
        Some((row, until))
    });
    let mut paused: Vec<_> = paused.collect();
    let more = paused.len().saturating_sub(MOST_PAUSES);
    paused.truncate(MOST_PAUSES);
    let line = |(row, until): (&SourceReportRow, Timestamp)| {
        let (name, lifts) = (&row.name, pardons(fleet, row));
        format!("{name}: its server asks for no request before {until}; {lifts}")
    };
    let mut lines: Vec<String> = paused.into_iter().map(line).collect();
    if more > 0 {
        lines.push(format!("{more} more sources are paused by their servers for more than a day"));
    }
    lines
}

/// Most lines about sources that were in progress when the daemon died.
const MOST_SUSPECTS: usize = 10;

/// The sources that were in progress when the daemon died, those with the most deaths first.
fn crash_suspects(rows: &[SourceReportRow], mut suspects: Vec<CrashSuspect>) -> Vec<String> {
    suspects.sort_by_key(|suspect| std::cmp::Reverse(suspect.deaths));
    let more = suspects.len().saturating_sub(MOST_SUSPECTS);
    suspects.truncate(MOST_SUSPECTS);
    let line = |suspect: &CrashSuspect| {
        let row = rows.iter().find(|row| row.id == suspect.source)?;
        Some(format!("{}: {}", row.name, reasons::crash_suspect(suspect)))
    };
    let mut lines: Vec<String> = suspects.iter().filter_map(line).collect();
    if more > 0 {
        lines.push(format!(
            "{more} more sources were probed when tidewatch died, and are probed again one at a time"
        ));
    }
    lines
}

/// The commands that lift the pause that a source's server asked for.
pub fn pardons(fleet: &Engine, row: &SourceReportRow) -> String {
    let needed = fleet.pardons_needed(row.id);
    let command = |whom: &Pardon| match whom {
        Pardon::Source(_) => format!("`tidewatch pardon {}`", row.name),
        Pardon::Host(host) => format!("`tidewatch pardon {host}`"),
    };
    let commands: Vec<String> = needed.iter().map(command).collect();
    format!("{} {} that", commands.join(" and "), if commands.len() == 1 { "lifts" } else { "lift" })
}

/// The stored sources, and an engine loaded from them as the daemon would.
pub async fn load_sources(
    config: &Config,
    clock: &Clock,
) -> Result<(Vec<SourceReportRow>, Engine), CliError> {
    let reader = Reader::open(&config.daemon.store).await?;
    let rows = reader.sources().await?;
    let loaded = load_engine(config, &mut *reader.connection().await?, &ClockSeen::now(clock)).await?;
    Ok((rows, loaded.engine))
}

/// Time and reason of the next probe as of now. They may differ from the stored ones, since a host may
/// have set `Retry-After` later.
fn outlook(row: &SourceReportRow, fleet: &Engine, now: Timestamp) -> (Option<Timestamp>, Option<String>) {
    match fleet.outlook(row.id, now) {
        Some((due, reason)) => (due.at(), Some(reason.name().to_owned())),
        None => (row.next_probe_at, row.next_probe_reason.clone()),
    }
}

/// A rhythm in a few words: updates per week, pattern, and dispersion in brackets (about 1: as
/// expected; far above: bursts; near 0: regular).
fn rhythm(fit: &FitRow) -> String {
    let fits = fit.dispersion.map_or_else(String::new, |dispersion| format!(" ({dispersion:.1})"));
    match fit.cycle.as_str() {
        "none" => format!("{:.1}/w{fits}", fit.per_week),
        cycle => format!("{:.1}/w by {cycle}{fits}", fit.per_week),
    }
}

/// JSON document of `status`.
#[derive(Serialize)]
struct StatusDocument<'a> {
    at: String,
    store: &'a Path,
    sources: Vec<SourceStatus<'a>>,
    fleet: Option<FleetLoadDocument>,
    spending: SpendingDocument,
    calibration: Option<CalibrationSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<PeriodDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<MeasuresDocument>,
}

/// Updates expected and found over the last 28 days.
#[derive(Serialize)]
struct CalibrationSummary {
    probes: u64,
    expected: f64,
    found: u64,
    fits: bool,
}

impl CalibrationSummary {
    /// `None` if nothing was expected yet.
    fn new(stated: &PredictionSums) -> Option<Self> {
        let &PredictionSums { probes, expected, found, .. } = stated;
        let fits = verdicts::updates(stated).fits();
        (probes > 0).then_some(Self { probes, expected, found, fits })
    }
}

#[derive(Serialize)]
struct SourceStatus<'a> {
    name: &'a str,
    url: &'a str,
    adopted_url: Option<&'a str>,
    kind: &'a str,
    policy: &'a str,
    group: Option<&'a str>,
    state: &'a str,
    last_probe_at: Option<String>,
    last_update_at: Option<String>,
    next_probe_at: Option<String>,
    next_probe_reason: Option<String>,
    asked_by: Option<&'a str>,
    follows: Option<&'a str>,
    burst_since: Option<String>,
    quiet_since: Option<String>,
    look_by: Option<String>,
    tardy_s: f64,
    cost: Option<f64>,
    budget_left: Option<u32>,
    updates: u64,
    probes: u64,
    per_week: Option<f64>,
    cycle: Option<&'a str>,
    dispersion: Option<f64>,
    error_streak: u32,
    last_error: Option<&'a str>,
    daemon_deaths: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    measures: Option<MeasuresDocument>,
}

fn source_status<'a>(
    row: &'a SourceReportRow,
    fleet: &Engine,
    fits: &'a HashMap<SourceId, FitRow>,
    now: Timestamp,
) -> SourceStatus<'a> {
    let iso = |at: Option<Timestamp>| at.map(Timestamp::iso);
    let (next_probe_at, next_probe_reason) = outlook(row, fleet, now);
    let fit = fits.get(&row.id);
    SourceStatus {
        name: &row.name,
        url: &row.url,
        adopted_url: row.adopted_url.as_deref(),
        kind: &row.kind,
        policy: &row.policy,
        group: row.group.as_deref(),
        state: &row.state,
        last_probe_at: iso(row.last_probe_at),
        last_update_at: iso(row.last_update_at),
        next_probe_at: iso(next_probe_at),
        next_probe_reason,
        asked_by: row.next_probe_policy.as_deref(),
        follows: row.follows.as_deref().filter(|_| policy(row).switches()),
        burst_since: iso(row.burst_since),
        quiet_since: iso(row.quiet_since),
        look_by: iso(fleet.deadline(row.id)),
        tardy_s: tardy(row.id, fleet, now).as_secs_f64(),
        cost: fleet.cost(row.id),
        budget_left: fleet.budget_left(row.id, now),
        updates: row.updates,
        probes: row.probes,
        per_week: fit.map(|fit| fit.per_week),
        cycle: fit.map(|fit| fit.cycle.as_str()),
        dispersion: fit.and_then(|fit| fit.dispersion),
        error_streak: row.error_streak,
        last_error: row.last_error.as_deref(),
        daemon_deaths: 0,
        measures: None,
    }
}

fn policy(row: &SourceReportRow) -> Policy {
    Policy::from_name(&row.policy).unwrap_or_default()
}

/// Time since the deadline of `max_gap`; zero before it.
fn tardy(id: SourceId, fleet: &Engine, now: Timestamp) -> Span {
    fleet.deadline(id).map_or(Span::ZERO, |by| (now - by).max(Span::ZERO))
}

fn to_cells(
    row: &SourceReportRow,
    fleet: &Engine,
    fits: &HashMap<SourceId, FitRow>,
    now: Timestamp,
) -> Vec<TableCell> {
    let tone = match row.state.as_str() {
        "burst" => Tone::Warn,
        "backoff" | "resting" => Tone::Bad,
        _ if row.quiet_since.is_some() || tardy(row.id, fleet, now) > Span::ZERO => Tone::Warn,
        "planned" => Tone::Good,
        _ => Tone::Plain,
    };
    let mut state = row.state.clone();
    if row.quiet_since.is_some() {
        state.push_str(", quiet");
    }
    let tardy = tardy(row.id, fleet, now);
    if tardy > Span::ZERO {
        state.push_str(&format!(", {tardy} tardy"));
    }
    let ago =
        |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), |at| format!("{} ago", now - at));
    let half =
        fleet.memory(row.id).and_then(|memory| reasons::deciding_half(policy(row), memory.burst.follows));
    let (at, because) = outlook(row, fleet, now);
    let next = match at {
        None => "not planned".to_owned(),
        Some(at) if at <= now => "due".to_owned(),
        Some(at) => format!("in {}", at - now),
    };
    vec![
        cell(cut(&row.name, 32)),
        cell(state).tone(tone),
        cell(ago(row.last_probe_at)),
        cell(next),
        cell(half.as_deref().or(row.next_probe_policy.as_deref()).unwrap_or_default()),
        cell(because.unwrap_or_default()).tone(Tone::Faint),
        cell(fleet.budget_left(row.id, now).map_or_else(String::new, |left| left.to_string())),
        cell(row.updates.to_string()),
        cell(fits.get(&row.id).map_or_else(String::new, rhythm)),
        cell(cut(row.last_error.as_deref().unwrap_or_default(), 70)).tone(Tone::Bad),
    ]
}
