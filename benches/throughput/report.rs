//! The result as a table or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use crate::process::Measurement;
use crate::{Case, Options};

/// Statements of a run, by their first words.
#[derive(Debug)]
pub struct StatementCounts {
    /// The probes that caused them.
    pub probes: u64,
    /// Their number.
    pub by_words: BTreeMap<String, u64>,
}

impl StatementCounts {
    fn per_probe(&self) -> f64 {
        self.by_words.values().sum::<u64>() as f64 / self.probes as f64
    }
}

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    title: String,
    /// The machine's load of the last minute, before and after.
    load: [String; 2],
    rates: BTreeMap<Case, u32>,
    /// The bare loop, each time that it ran.
    pub bare: BTreeMap<Case, Vec<Measurement>>,
    /// The daemon.
    pub daemon: BTreeMap<Case, Measurement>,
    /// Its statements, counted in a run of their own.
    pub statements: BTreeMap<Case, StatementCounts>,
    /// Sources, when it was measured, and resident kB.
    memory: Vec<(usize, &'static str, u64)>,
}

/// A daemon below this share of the rate did not keep up.
const KEPT_UP: f64 = 0.95;

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

impl Report {
    /// Nothing measured yet.
    pub fn new(options: &Options) -> Self {
        Self {
            title: format!(
                "{} sources on {} hosts, {} s for each case",
                options.sources, options.hosts, options.seconds
            ),
            load: [load_average(), String::new()],
            rates: Case::REPEATED.into_iter().map(|case| (case, options.rate(case))).collect(),
            bare: BTreeMap::new(),
            daemon: BTreeMap::new(),
            statements: BTreeMap::new(),
            memory: Vec::new(),
        }
    }

    /// All is measured.
    pub fn finished(mut self) -> Self {
        self.load[1] = load_average();
        self
    }

    /// Notes the memory of a daemon.
    pub fn resident(&mut self, sources: usize, after: &'static str, kb: u64) {
        self.memory.push((sources, after, kb));
    }

    fn bare(&self, case: Case) -> Option<Measurement> {
        self.bare.get(&case)?.iter().copied().reduce(|one, other| one.and(&other))
    }

    fn ratio(&self, case: Case) -> Option<f64> {
        Some(self.daemon.get(&case)?.per_cpu_second() / self.bare(case)?.per_cpu_second())
    }

    fn late(&self, case: Case) -> bool {
        let (Some(daemon), Some(&rate)) = (self.daemon.get(&case), self.rates.get(&case)) else {
            return false;
        };
        (daemon.probes as f64 / daemon.seconds) < KEPT_UP * f64::from(rate)
    }

    /// Writes it to standard output.
    pub fn print(&self, json: bool) -> Result<()> {
        let text = if json { serde_json::to_string_pretty(&self.json())? + "\n" } else { self.table() };
        Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
    }

    fn cases(&self) -> impl Iterator<Item = Case> {
        let all = [Case::NotModified, Case::Unchanged, Case::NewItem, Case::FirstContact];
        all.into_iter().filter(|case| self.bare.contains_key(case) || self.daemon.contains_key(case))
    }

    fn table(&self) -> String {
        let [before, after] = &self.load;
        let mut text = format!("{}; load average {before} before, {after} after\n\n", self.title);
        let _ = writeln!(
            text,
            "{:<20} {:>16} {:>16} {:>6} {:>12} {:>12} {:>10}",
            "", "bare loop", "daemon", "", "switches", "statements", "probes"
        );
        let _ = writeln!(
            text,
            "{:<20} {:>16} {:>16} {:>6} {:>12} {:>12} {:>10}",
            "case", "probes/CPU-s", "probes/CPU-s", "ratio", "per probe", "per probe", "a second"
        );
        let number = |value: Option<f64>, decimals: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
        };
        for case in self.cases() {
            let daemon = self.daemon.get(&case);
            let late = if self.late(case) { " *" } else { "" };
            let _ = writeln!(
                text,
                "{:<20} {:>16} {:>16} {:>6} {:>12} {:>12} {:>10}{late}",
                case.title(),
                number(self.bare(case).map(|bare| bare.per_cpu_second()), 0),
                number(daemon.map(Measurement::per_cpu_second), 0),
                number(self.ratio(case), 2),
                number(daemon.map(|daemon| daemon.switches as f64 / daemon.probes as f64), 2),
                number(self.statements.get(&case).map(StatementCounts::per_probe), 2),
                number(daemon.map(|daemon| daemon.probes as f64 / daemon.seconds), 0)
            );
        }
        if self.cases().any(|case| self.late(case)) {
            let _ = writeln!(text, "* fewer than asked for: the daemon did not keep up");
        }
        if !self.memory.is_empty() {
            let _ = writeln!(text, "\n{:>10}  {:<16} {:>12}", "sources", "after", "resident MB");
        }
        for (sources, after, kb) in &self.memory {
            let _ = writeln!(text, "{sources:>10}  {after:<16} {:>12.1}", *kb as f64 / 1000.0);
        }
        text
    }

    fn json(&self) -> Value {
        let cases = self.cases().map(|case| {
            json!({
                "case": case.title(),
                "bare": self.bare.get(&case),
                "daemon": self.daemon.get(&case),
                "ratio": self.ratio(case),
                "kept_up": !self.late(case),
                "statements": self.statements.get(&case).map(|counted| json!({
                    "probes": counted.probes,
                    "per_probe": counted.per_probe(),
                    "by_words": counted.by_words,
                })),
            })
        });
        let memory = self
            .memory
            .iter()
            .map(|(sources, after, kb)| json!({ "sources": sources, "after": after, "resident_kb": kb }));
        json!({
            "run": self.title,
            "load_average": self.load,
            "cases": cases.collect::<Vec<_>>(),
            "memory": memory.collect::<Vec<_>>(),
        })
    }
}
