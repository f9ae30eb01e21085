//! `tidewatch status --period`: measures of the probes in a period.
//!
//! Knows how measures are requested and shown. The store defines and computes them.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::store::measures::{Measures, PeriodMeasures};
use crate::store::report::SourceReportRow;
use tidewatch_core::time::{Span, SpanError, Timestamp};
use tidewatch_lab::words::cut;

use super::process::colours;
use super::table::{TableCell, Tone, cell, print};

/// A time span that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// First instant.
    pub since: Timestamp,
    /// First instant after it.
    pub until: Timestamp,
}

impl Period {
    /// The span up to now.
    pub fn last(span: Span, now: Timestamp) -> Self {
        Self { since: now - span, until: now }
    }
}

/// Why a text is not the length of a period.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeriodError {
    /// Not a duration.
    #[error(transparent)]
    Span(#[from] SpanError),
    /// Zero length.
    #[error("a period of no length; write it like `1d` or `7d`")]
    Empty,
}

/// Parses the length of a period, in the duration format of the configuration.
pub fn length(text: &str) -> Result<Span, PeriodError> {
    match Span::parse(text)? {
        Span::ZERO => Err(PeriodError::Empty),
        span => Ok(span),
    }
}

/// A period in the JSON document of `status`.
#[derive(Debug, Serialize)]
pub struct PeriodDocument {
    since: String,
    until: String,
}

impl From<Period> for PeriodDocument {
    fn from(period: Period) -> Self {
        Self { since: period.since.iso(), until: period.until.iso() }
    }
}

/// Measures in the JSON document of `status`.
#[derive(Debug, Serialize)]
pub struct MeasuresDocument {
    validations: u64,
    useful_validations: u64,
    freshness_misses: u64,
    failed: u64,
    updates: u64,
    average_delay_s: Option<f64>,
    median_delay_s: Option<f64>,
}

impl From<&Measures> for MeasuresDocument {
    fn from(measures: &Measures) -> Self {
        Self {
            validations: measures.validations,
            useful_validations: measures.useful_validations,
            freshness_misses: measures.freshness_misses,
            failed: measures.failed,
            updates: measures.updates,
            average_delay_s: measures.average_delay_s,
            median_delay_s: measures.median_delay_s,
        }
    }
}

/// Prints one line per source in the order of `rows`, and a total; times are in `zone`.
pub fn show(
    out: &mut dyn Write,
    rows: &[SourceReportRow],
    period: Period,
    measured: &PeriodMeasures,
    zone: &TimeZone,
) -> io::Result<()> {
    writeln!(out, "the last {}, since {}", period.until - period.since, period.since.iso_in(zone))?;
    let head = [
        "source",
        "policy",
        "validations",
        "useful",
        "misses",
        "failed",
        "updates",
        "mean delay",
        "median delay",
    ];
    let mut table: Vec<Vec<TableCell>> = rows
        .iter()
        .map(|row| {
            let mut line = vec![cell(cut(&row.name, 32)), cell(&row.policy)];
            line.extend(to_cells(&of(measured, row)));
            line
        })
        .collect();
    let mut total = vec![cell("total"), cell("")];
    total.extend(to_cells(&measured.total));
    table.push(total.into_iter().map(|cell| cell.tone(Tone::Head)).collect());
    print(out, &head, &table, colours())
}

/// Measures of a source; zero if the source was added between two reads of the store.
pub fn of(measured: &PeriodMeasures, row: &SourceReportRow) -> Measures {
    measured.sources.get(&row.id).cloned().unwrap_or_default()
}

fn to_cells(measures: &Measures) -> [TableCell; 7] {
    let useful = match measures.validations {
        0 => "0".to_owned(),
        all => {
            let share = 100.0 * measures.useful_validations as f64 / all as f64;
            format!("{} ({share:.0} %)", measures.useful_validations)
        }
    };
    let failed = match measures.failed {
        0 => Tone::Plain,
        _ => Tone::Bad,
    };
    let delay = |seconds: Option<f64>| {
        seconds.map_or_else(String::new, |seconds| Span::from_millis(1000).scaled(seconds).to_string())
    };
    [
        cell(measures.validations.to_string()),
        cell(useful),
        cell(measures.freshness_misses.to_string()),
        cell(measures.failed.to_string()).tone(failed),
        cell(measures.updates.to_string()),
        cell(delay(measures.average_delay_s)),
        cell(delay(measures.median_delay_s)),
    ]
}
