//! One line per measured value, with its limit. Collects the limits that are broken.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::daemon::ProcessUsage;
use crate::window::{Window, quantile};

/// The time until the daemon is ready.
pub const READY_WITHIN: Duration = Duration::from_secs(60);
/// The time of a reload of a thousand changes.
pub const RELOAD_WITHIN: Duration = Duration::from_secs(10);
/// The cost of a probe as a multiple of that with few sources.
pub const COST_RATIO: f64 = 1.5;
/// The share of the permitted probes that are sent while more sources are due.
pub const SENT_SHARE: f64 = 0.95;

/// Lateness of a step that 99 in 100 do not exceed, in ms.
const LATENESS_MS: f64 = 1_000.0;
/// Resident memory at any time, in MB.
const PEAK_MB: f64 = 1_500.0;
/// Resident memory in MB when every source was probed, by the number of sources.
const RESIDENT_MB: [(f64, f64); 3] = [(10_000.0, 60.0), (100_000.0, 170.0), (1_000_000.0, 1_100.0)];

/// A limit of a value.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// Prints lines, and collects the broken limits.
#[derive(Debug, Default)]
pub struct Report {
    broken: Vec<String>,
}

/// Prints a line.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A closed output is ignored.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

impl Report {
    /// A value with its limit, if it has one.
    pub fn value(&mut self, what: &str, value: f64, unit: &str, limit: Option<Limit>) {
        let (words, kept) = match limit {
            None => (String::new(), true),
            Some(Limit::AtMost(most)) => (format!(" (at most {}{unit})", rounded(most)), value <= most),
            Some(Limit::AtLeast(least)) => {
                (format!(" (at least {}{unit})", rounded(least)), value >= least)
            }
        };
        let line = format!("{what}: {}{unit}{words}", rounded(value));
        say(&if kept { line.clone() } else { format!("{line} LIMIT BROKEN") });
        if !kept {
            self.broken.push(line);
        }
    }

    /// A time without a limit.
    pub fn took(&mut self, what: &str, time: Duration) {
        self.value(what, time.as_secs_f64(), " s", None);
    }

    /// A time with a limit.
    pub fn within(&mut self, what: &str, time: Duration, most: Duration) {
        self.value(what, time.as_secs_f64(), " s", Some(Limit::AtMost(most.as_secs_f64())));
    }

    /// Resident memory now and at most.
    pub fn memory(&mut self, what: &str, usage: &ProcessUsage) {
        self.value(&format!("{what}, resident memory"), usage.resident_mb, " MB", None);
        self.peak(what, usage);
    }

    /// Resident memory when every source was probed.
    pub fn memory_all_probed(&mut self, sources: usize, usage: &ProcessUsage) {
        let what = "every source probed";
        let limit = resident_limit(sources as f64).map(Limit::AtMost);
        self.value(&format!("{what}, resident memory"), usage.resident_mb, " MB", limit);
        self.peak(what, usage);
    }

    fn peak(&mut self, what: &str, usage: &ProcessUsage) {
        let limit = Some(Limit::AtMost(PEAK_MB));
        self.value(&format!("{what}, resident memory at most so far"), usage.peak_mb, " MB", limit);
    }

    /// The lateness of the steps of a period, and its probes per second.
    pub fn steps(&mut self, what: &str, window: &Window, at_least: Option<f64>) {
        let p99 = quantile(&window.first, 0.99);
        let limit = Some(Limit::AtMost(LATENESS_MS));
        self.value(&format!("{what}, lateness of a step, p99"), p99, " ms", limit);
        let rest = [("median", 0.5), ("largest", 1.0)];
        for (name, share) in rest {
            let late = quantile(&window.first, share);
            self.value(&format!("{what}, lateness of a step, {name}"), late, " ms", None);
        }
        let last = quantile(&window.last, 0.99);
        self.value(&format!("{what}, last probe of a step after its begin, p99"), last, " ms", None);
        let missed = format!("{what}, steps without a probe, of {}", window.steps);
        self.value(&missed, window.missed as f64, "", Some(Limit::AtMost(0.0)));
        let limit = at_least.map(Limit::AtLeast);
        self.value(&format!("{what}, probes per second"), window.per_second(), "", limit);
        if window.failed > 0 {
            self.value(&format!("{what}, failed probes"), window.failed as f64, "", None);
        }
    }

    /// An error if a limit is broken.
    pub fn finish(self) -> Result<()> {
        ensure!(self.broken.is_empty(), "limits broken:\n{}", self.broken.join("\n"));
        say("all limits are kept");
        Ok(())
    }
}

/// A number with three digits or more, without zeros at the end.
fn rounded(value: f64) -> String {
    let precision = if value.abs() < 100.0 { 100.0 } else { 1.0 };
    ((value * precision).round() / precision).to_string()
}

/// The limit of resident memory, linear between the stated numbers of sources; none beyond them.
fn resident_limit(sources: f64) -> Option<f64> {
    RESIDENT_MB.windows(2).find_map(|pair| {
        let ((from, low), (until, high)) = (pair[0], pair[1]);
        let share = (sources - from) / (until - from);
        (0.0..=1.0).contains(&share).then_some(low + share * (high - low))
    })
}
