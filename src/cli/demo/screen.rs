//! Progress display: one line per source and a bar of simulated time on a terminal, else one line per
//! simulated day.
//!
//! Reads the store and the server state from time to time. Must not affect the run.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::clock::{Clock, real_pause};
use crate::store::reader::Reader;
use crate::store::report::SourceReportRow;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::words::{DAYS, cut};

use super::calendar::DemoCalendar;
use super::server::{SharedServer, lock};

/// Time between two updates: short enough to seem live, long enough not to slow the run.
const EVERY: Duration = Duration::from_millis(400);

/// Redraws per second. Every changed line requests one, and most are merged.
const REDRAWS: u8 = 5;

/// Shows the run until dropped.
pub async fn show(calendar: DemoCalendar, clock: Clock, server: SharedServer, store: PathBuf) {
    let mut screen = match std::io::stderr().is_terminal() {
        true => Screen::Live(Live::new(&calendar, lock(&server).sources().len())),
        false => Screen::Lines { next: calendar.origin + Span::from_days(1) },
    };
    let reader = loop {
        real_pause(EVERY).await;
        // The daemon creates the store; until then there is nothing to show.
        if let Ok(reader) = Reader::open(&store).await {
            break reader;
        }
    };
    loop {
        let now = clock.now().min(calendar.end());
        if let Ok(rows) = reader.sources().await {
            screen.draw(&calendar, now, &rows, &server);
        }
        real_pause(EVERY).await;
    }
}

enum Screen {
    Live(Live),
    Lines { next: Timestamp },
}

struct Live {
    all: MultiProgress,
    sources: Vec<ProgressBar>,
    time: ProgressBar,
}

impl Live {
    fn new(calendar: &DemoCalendar, sources: usize) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS));
        let line = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let sources =
            (0..sources).map(|_| all.add(ProgressBar::new_spinner().with_style(line.clone()))).collect();
        let style =
            ProgressStyle::with_template("{bar:40} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let length = (calendar.end() - calendar.origin).as_millis().unsigned_abs();
        let time = all.add(ProgressBar::new(length).with_style(style));
        Self { all, sources, time }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Errors are ignored if the terminal is gone. Hiding the target keeps dropped bars from
        // redrawing.
        let _ = self.all.clear();
        self.all.set_draw_target(ProgressDrawTarget::hidden());
    }
}

impl Screen {
    fn draw(
        &mut self,
        calendar: &DemoCalendar,
        now: Timestamp,
        rows: &[SourceReportRow],
        server: &SharedServer,
    ) {
        let day = (now - calendar.origin).as_millis() / Span::from_days(1).as_millis();
        let (probes, updates) =
            rows.iter().fold((0, 0), |(probes, updates), row| (probes + row.probes, updates + row.updates));
        let violations = lock(server).check.violations().len();
        match self {
            Self::Live(live) => {
                for (bar, line) in live.sources.iter().zip(lines(rows, server)) {
                    bar.set_message(line);
                }
                live.time.set_position((now - calendar.origin).as_millis().unsigned_abs());
                live.time.set_message(format!(
                    "{} {} {:02}h  {probes} probes, {updates} updates, {violations} violations",
                    DAYS[now.utc_weekday() as usize % 7],
                    now.iso().get(..10).unwrap_or_default(),
                    now.utc_hour(),
                ));
            }
            Self::Lines { next } if now >= *next => {
                *next = calendar.origin + Span::from_days(day + 1);
                // Errors are ignored if stderr is closed.
                let _ = writeln!(
                    std::io::stderr(),
                    "day {day} of {}: {probes} probes, {updates} updates, {violations} violations",
                    calendar.days,
                );
            }
            Self::Lines { .. } => {}
        }
    }
}

/// One line per source, in the order of the table.
fn lines(rows: &[SourceReportRow], server: &SharedServer) -> Vec<String> {
    let server = lock(server);
    let line = |(index, name): (usize, &str)| {
        let row = rows.iter().find(|row| row.name == name);
        let (state, probes, updates) =
            row.map_or(("", 0, 0), |row| (row.state.as_str(), row.probes, row.updates));
        let outcome =
            match (row.and_then(|row| row.last_error.as_deref()), server.check.source(index).last_status) {
                (Some(error), _) => cut(error, 44),
                (None, Some(status)) => format!("HTTP {status}"),
                (None, None) => String::new(),
            };
        format!("{name:<13} {state:<9} {probes:>5} probes {updates:>4} updates  {outcome}")
    };
    server.sources().iter().map(|source| source.name).enumerate().map(line).collect()
}
