//! `tidewatch deliveries`: lists deliveries and resets them for a new attempt. Works on the store, with
//! or without a running daemon.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::clock::Clock;
use crate::config::configuration::Config;
use crate::store::deliveries::{DeliveryRow, DeliveryTotals, Filter};
use crate::store::outbox::{Retried, Which, retry};
use crate::store::reader::Reader;
use tidewatch_core::time::Timestamp;
use tidewatch_lab::words::cut;

use super::error::CliError;
use super::json_document;
use super::process::{colours, runtime};
use super::table::{TableCell, Tone, cell, print};

/// Options of `deliveries`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<DeliveriesCommand>,
    /// Show only deliveries in this state.
    #[arg(long, value_name = "STATE", value_parser = ["waiting", "delivered", "dead"])]
    state: Option<String>,
    /// Show only deliveries for this target, such as exec:notify.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Show only the latest N.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// Print one JSON document that includes the delivered documents.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum DeliveriesCommand {
    /// Set deliveries back to waiting, as if they had never been tried.
    Retry(Retry),
}

#[derive(Debug, clap::Args)]
struct Retry {
    /// Numbers of the deliveries.
    #[arg(value_name = "ID", required_unless_present = "dead", conflicts_with = "dead")]
    ids: Vec<i64>,
    /// Retry all abandoned deliveries.
    #[arg(long)]
    dead: bool,
    /// With --dead: only those for this target.
    #[arg(long, value_name = "TARGET", requires = "dead", conflicts_with = "ids")]
    target: Option<String>,
}

/// Lists deliveries, or resets some.
pub fn run(config: &Config, arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    match &arguments.command {
        Some(DeliveriesCommand::Retry(retry)) => set_back(config, retry, out),
        None => list(config, arguments, out),
    }
}

fn set_back(config: &Config, arguments: &Retry, out: &mut dyn Write) -> Result<(), CliError> {
    let which = if arguments.dead {
        Which::Dead { target: arguments.target.clone() }
    } else {
        Which::Numbers(arguments.ids.clone())
    };
    match runtime()?.block_on(retry(&config.daemon.store, &which))? {
        Retried::Waiting(1) => writeln!(out, "1 delivery waits again")?,
        Retried::Waiting(count) => writeln!(out, "{count} deliveries wait again")?,
        Retried::Unfit(numbers) => {
            let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
            return Err(CliError::Refused(format!(
                "nothing was changed: not there, or delivered already: {}",
                numbers.join(", ")
            )));
        }
    }
    Ok(())
}

fn list(config: &Config, arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    let now = Clock::wall().now();
    let filter =
        Filter { state: arguments.state.clone(), target: arguments.target.clone(), limit: arguments.limit };
    let (rows, totals) = runtime()?.block_on(async {
        let reader = Reader::open(&config.daemon.store).await?;
        Ok::<_, CliError>((reader.deliveries(&filter).await?, reader.delivery_totals(&filter).await?))
    })?;
    if arguments.json {
        let document = DeliveriesDocument {
            at: now.iso(),
            store: &config.daemon.store,
            deliveries: rows.iter().map(DeliveryEntry::from).collect(),
            totals: totals.iter().map(TotalsEntry::from).collect(),
        };
        return Ok(json_document::write(out, &document)?);
    }
    if totals.is_empty() {
        return Ok(writeln!(out, "no deliveries")?);
    }
    let head = ["id", "to", "rule", "source", "matched", "state", "tried", "next", "error"];
    let table: Vec<Vec<TableCell>> = rows.iter().map(|row| to_cells(row, now)).collect();
    print(out, &head, &table, colours())?;
    writeln!(out)?;
    for total in &totals {
        writeln!(out, "{}", in_words(total))?;
    }
    Ok(())
}

fn in_words(total: &DeliveryTotals) -> String {
    format!(
        "{}: {} waiting, {} delivered, {} dead",
        cut(&total.target, 40),
        total.waiting,
        total.delivered,
        total.dead
    )
}

/// JSON document of `deliveries`.
#[derive(Serialize)]
struct DeliveriesDocument<'a> {
    at: String,
    store: &'a Path,
    deliveries: Vec<DeliveryEntry<'a>>,
    totals: Vec<TotalsEntry<'a>>,
}

#[derive(Serialize)]
struct DeliveryEntry<'a> {
    id: i64,
    key: &'a str,
    profile: &'a str,
    rule: &'a str,
    target: &'a str,
    source: &'a str,
    created_at: String,
    state: &'a str,
    attempts: u32,
    first_tried_at: Option<String>,
    next_at: Option<String>,
    delivered_at: Option<String>,
    last_error: Option<&'a str>,
    document: Value,
}

impl<'a> From<&'a DeliveryRow> for DeliveryEntry<'a> {
    fn from(row: &'a DeliveryRow) -> Self {
        let iso = |at: Option<Timestamp>| at.map(Timestamp::iso);
        Self {
            id: row.id,
            key: &row.key,
            profile: &row.profile,
            rule: &row.rule,
            target: &row.target,
            source: &row.source,
            created_at: row.created_at.iso(),
            state: &row.state,
            attempts: row.attempts,
            first_tried_at: iso(row.first_tried_at),
            next_at: iso(row.next_at),
            delivered_at: iso(row.delivered_at),
            last_error: row.last_error.as_deref(),
            document: serde_json::from_str(&row.document).unwrap_or_default(),
        }
    }
}

#[derive(Serialize)]
struct TotalsEntry<'a> {
    target: &'a str,
    waiting: u64,
    delivered: u64,
    dead: u64,
}

impl<'a> From<&'a DeliveryTotals> for TotalsEntry<'a> {
    fn from(totals: &'a DeliveryTotals) -> Self {
        let DeliveryTotals { target, waiting, delivered, dead } = totals;
        Self { target, waiting: *waiting, delivered: *delivered, dead: *dead }
    }
}

fn to_cells(row: &DeliveryRow, now: Timestamp) -> Vec<TableCell> {
    let tone = match row.state.as_str() {
        "delivered" => Tone::Good,
        "dead" => Tone::Bad,
        _ if row.attempts > 0 => Tone::Warn,
        _ => Tone::Plain,
    };
    let next = match (row.state.as_str(), row.next_at) {
        ("waiting", Some(at)) if at > now => format!("in {}", at - now),
        ("waiting", _) => "due".to_owned(),
        _ => String::new(),
    };
    vec![
        cell(row.id.to_string()),
        cell(cut(&row.target, 24)),
        cell(cut(&format!("{}/{}", row.profile, row.rule), 32)),
        cell(cut(&row.source, 32)),
        cell(format!("{} ago", now - row.created_at)),
        cell(row.state.clone()).tone(tone),
        cell(row.attempts.to_string()),
        cell(next),
        cell(cut(row.last_error.as_deref().unwrap_or_default(), 70)).tone(Tone::Bad),
    ]
}
