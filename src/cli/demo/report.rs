//! The result of a run: publications against findings, and politeness.
//!
//! Combines three inputs: the calendar (publications), the checks (requests at the server) and the
//! store (findings of the daemon). Knows how to compare and show them. Must not know how each of them
//! is obtained.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::table::{TableCell, Tone, cell, print};
use crate::store::StoreError;
use crate::store::reader::Reader;
use crate::store::review::Detection;
use tidewatch_core::time::{Span, Timestamp};

use super::bursts::{self, BurstReport};
use super::demo_sources::{DemoFormat, DemoSource, SpecialBehaviour};
use super::politeness_check::{PolitenessCheck, SourceRequests};
use super::run_facts::{RunFacts, day};
use super::text::{key, revision};

/// Updates published later than this before the end (of the source or the run) need not be found. The
/// time covers a night of skipped hours and a backoff after it.
const PATIENCE: Span = Span::from_hours(12);

/// State of a source with a plan.
const PLANNED: &str = "planned";

/// The report; [`super`] describes its fields.
#[derive(Debug, Clone, Serialize)]
pub struct DemoReport {
    fine: bool,
    interrupted: bool,
    began: String,
    ended: String,
    speed: f64,
    wall_s: f64,
    store: PathBuf,
    totals: DemoTotals,
    lateness: DemoDeadlines,
    sources: Vec<SourceReport>,
    comparison: Option<DemoComparison>,
    bursts: Vec<BurstReport>,
    bursts_missed: Vec<String>,
    violations: Vec<ViolationReport>,
}

/// Totals of the sources with a plan, and of the same sources probed evenly.
#[derive(Debug, Clone, Serialize)]
struct DemoComparison {
    sources: usize,
    plan: DemoShare,
    uniform: DemoShare,
}

/// Probes and findings of one daemon, summed over sources.
#[derive(Debug, Clone, Default, Serialize)]
struct DemoShare {
    probes: u64,
    found: usize,
    missed: usize,
    mean_delay_s: Option<f64>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct DemoTotals {
    probes: u64,
    requests: u64,
    published: usize,
    found: usize,
    missed: usize,
    updates_stored: usize,
    mean_delay_s: Option<f64>,
    median_delay_s: Option<f64>,
    violations: usize,
}

#[derive(Debug, Clone, Serialize)]
struct DemoDeadlines {
    median_s: f64,
    p95_s: f64,
    max_s: f64,
    p95_real_ms: f64,
}

#[derive(Debug, Clone, Serialize)]
struct SourceReport {
    name: String,
    character: String,
    state: String,
    probes: u64,
    published: usize,
    found: usize,
    missed: usize,
    mean_delay_s: Option<f64>,
    median_delay_s: Option<f64>,
    violations: usize,
    uniform: Option<DemoShare>,
    #[serde(skip)]
    delays: Vec<f64>,
}

#[derive(Debug, Clone, Serialize)]
struct ViolationReport {
    source: String,
    at: String,
    rule: &'static str,
    detail: String,
}

impl DemoReport {
    /// Builds the report.
    pub async fn build(
        demo_sources: &[DemoSource],
        check: &PolitenessCheck,
        run: &RunFacts,
        store: &Path,
    ) -> Result<Self, StoreError> {
        let reader = Reader::open(store).await?;
        let rows = reader.sources().await?;
        let mut found: HashMap<_, Vec<Detection>> = HashMap::new();
        for detection in reader.detections().await? {
            found.entry(detection.source).or_default().push(detection);
        }
        let updates_stored = found.values().map(Vec::len).sum();
        let late = reader.lateness().await?;
        let mut sources = Vec::with_capacity(demo_sources.len());
        for (index, demo_source) in demo_sources.iter().enumerate() {
            let row = rows.iter().find(|row| row.name == demo_source.name);
            let seen = row.and_then(|row| found.get(&row.id)).map_or(&[][..], Vec::as_slice);
            let mut source = compare(demo_source, check.source(index), seen, run);
            source.violations = check.violations().iter().filter(|v| v.source == demo_source.name).count();
            if let Some(row) = row {
                (source.state, source.probes) = (row.state.clone(), row.probes);
            }
            sources.push(source);
        }
        let mut delays: Vec<f64> = sources.iter().flat_map(|source| source.delays.clone()).collect();
        let totals = DemoTotals {
            probes: sources.iter().map(|source| source.probes).sum(),
            requests: check.requests(),
            published: sources.iter().map(|source| source.published).sum(),
            found: sources.iter().map(|source| source.found).sum(),
            missed: sources.iter().map(|source| source.missed).sum(),
            updates_stored,
            mean_delay_s: mean(&delays),
            median_delay_s: median(&mut delays),
            violations: check.violations().len(),
        };
        let p95 = quantile(&late, 0.95);
        let named = |id| rows.iter().find(|row| row.id == id).map(|row| row.name.as_str());
        let bursts = bursts::build(&reader.bursts().await?, named);
        let in_time = p95 <= bursts::IN_TIME.as_secs_f64();
        let bursts_missed =
            bursts::missed(demo_sources, &bursts, run).filter(|_| in_time).collect::<Vec<_>>();
        Ok(Self {
            fine: totals.violations == 0 && totals.missed == 0 && bursts_missed.is_empty(),
            interrupted: run.interrupted,
            began: run.began.iso(),
            ended: run.ended.iso(),
            speed: run.speed,
            wall_s: run.wall_s,
            store: store.to_owned(),
            totals,
            lateness: DemoDeadlines {
                median_s: quantile(&late, 0.5),
                p95_s: p95,
                max_s: quantile(&late, 1.0),
                p95_real_ms: p95 * 1000.0 / run.speed,
            },
            sources,
            comparison: None,
            bursts,
            bursts_missed,
            violations: check
                .violations()
                .iter()
                .map(|violation| ViolationReport {
                    source: violation.source.clone(),
                    at: violation.at.iso(),
                    rule: violation.rule,
                    detail: violation.detail.clone(),
                })
                .collect(),
        })
    }

    /// Adds the results of the daemon that probes evenly.
    pub fn beside(mut self, evenly: Self) -> Self {
        self.fine &= evenly.fine;
        let mut planned: Vec<(&SourceReport, &SourceReport)> = Vec::new();
        for source in &mut self.sources {
            let Some(other) = evenly.sources.iter().find(|other| other.name == source.name) else {
                continue;
            };
            source.uniform = Some(share(&[other]));
            if source.state == PLANNED && source.found > 0 {
                planned.push((source, other));
            }
        }
        let (plan, uniform): (Vec<_>, Vec<_>) = planned.into_iter().unzip();
        self.comparison = (!plan.is_empty()).then(|| DemoComparison {
            sources: plan.len(),
            plan: share(&plan),
            uniform: share(&uniform),
        });
        let named = |violation: ViolationReport| {
            let source = format!("{} (evenly)", violation.source);
            ViolationReport { source, ..violation }
        };
        let evenly_too = |name: String| format!("{name} (evenly)");
        self.bursts_missed.extend(evenly.bursts_missed.into_iter().map(evenly_too));
        self.totals.violations += evenly.violations.len();
        self.violations.extend(evenly.violations.into_iter().map(named));
        self
    }

    /// Whether there was no violation, no missed update and no undetected burst.
    pub fn is_fine(&self) -> bool {
        self.fine
    }

    /// Prints one JSON document.
    pub fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Prints tables and text.
    pub fn print(&self, out: &mut dyn Write, colours: bool) -> io::Result<()> {
        let head = [
            "source",
            "character",
            "state",
            "probes",
            "published",
            "found",
            "mean delay",
            "median",
            "violations",
            "evenly",
        ];
        let rows: Vec<Vec<TableCell>> = self.sources.iter().map(SourceReport::cells).collect();
        print(out, &head, &rows, colours)?;
        let totals = &self.totals;
        writeln!(
            out,
            "\n{} to {} in {:.0} s{}: {} probes in {} requests, {} updates published, {} found.",
            day(&self.began),
            day(&self.ended),
            self.wall_s,
            if self.interrupted { " (interrupted)" } else { "" },
            totals.probes,
            totals.requests,
            totals.published,
            totals.found,
        )?;
        writeln!(
            out,
            "Delay {} on average, {} in the middle. Probes were sent {} after they were due at the 95th \
             percentile, {} at most ({:.0}x real time; {:.0} ms and {:.0} ms really).",
            span(totals.mean_delay_s),
            span(totals.median_delay_s),
            span(Some(self.lateness.p95_s)),
            span(Some(self.lateness.max_s)),
            self.speed,
            self.lateness.p95_real_ms,
            self.lateness.max_s * 1000.0 / self.speed,
        )?;
        if let Some(DemoComparison { sources, plan, uniform }) = &self.comparison {
            writeln!(
                out,
                "The {sources} sources with a plan: {} probes, delay {} on average. Asked evenly within the \
                 same budgets: {} probes, delay {}.",
                plan.probes,
                span(plan.mean_delay_s),
                uniform.probes,
                span(uniform.mean_delay_s),
            )?;
        }
        if !self.bursts.is_empty() {
            writeln!(out, "Bursts that were noticed:")?;
        }
        for burst in &self.bursts {
            writeln!(out, "  {burst}")?;
        }
        match totals.violations {
            0 => writeln!(out, "The server saw no breach of manners.")?,
            count => writeln!(out, "The server saw {count} breaches of manners:")?,
        }
        for violation in &self.violations {
            let ViolationReport { source, at, rule, detail } = violation;
            writeln!(out, "  {at}  {source}: {rule}: {detail}")?;
        }
        if totals.missed > 0 {
            writeln!(out, "{} updates were published early enough and not found.", totals.missed)?;
        }
        for name in &self.bursts_missed {
            writeln!(out, "The burst of {name} was not noticed, or not when it was on.")?;
        }
        let missed =
            self.sources.iter().filter_map(|source| source.uniform.as_ref()).map(|share| share.missed);
        match missed.sum() {
            0_usize => {}
            missed => writeln!(out, "{missed} were not found by the daemon that asks evenly.")?,
        }
        writeln!(out, "\nEverything that was seen is in {}; for example:", self.store.display())?;
        writeln!(out, "  sqlite3 {} 'select * from readable_updates limit 5'", quoted(&self.store))
    }
}

impl SourceReport {
    fn cells(&self) -> Vec<TableCell> {
        let alarm = |count: usize| if count > 0 { Tone::Bad } else { Tone::Plain };
        let evenly = self.uniform.as_ref().map_or_else(String::new, |share| {
            format!("{} after {} probes", span(share.mean_delay_s), share.probes)
        });
        let found = match self.missed {
            0 => self.found.to_string(),
            missed => format!("{} ({missed} missed)", self.found),
        };
        vec![
            cell(&self.name),
            cell(&self.character).tone(Tone::Faint),
            cell(&self.state),
            cell(self.probes.to_string()),
            cell(self.published.to_string()),
            cell(found).tone(alarm(self.missed)),
            cell(span(self.mean_delay_s)),
            cell(span(self.median_delay_s)),
            cell(self.violations.to_string()).tone(alarm(self.violations)),
            cell(evenly).tone(Tone::Faint),
        ]
    }
}

/// Compares the publications of one source with the findings.
fn compare(
    demo_source: &DemoSource,
    requests: &SourceRequests,
    seen: &[Detection],
    run: &RunFacts,
) -> SourceReport {
    let detected: HashMap<&str, Timestamp> = seen
        .iter()
        .filter(|detection| detection.kind == "new")
        .map(|detection| (detection.key.as_str(), detection.at))
        .collect();
    let detected_at = |number: u32| match demo_source.form {
        // If a page changes twice between two probes, only the later revision is found; it counts for
        // both.
        DemoFormat::Page => seen
            .iter()
            .find(|d| d.title.as_deref().and_then(revision).is_some_and(|shown| shown >= number))
            .map(|d| d.at),
        _ => detected.get(key(demo_source, number).as_str()).copied(),
    };
    let mut source = SourceReport {
        name: demo_source.name.to_owned(),
        character: demo_source.description.to_owned(),
        state: "unknown".to_owned(),
        probes: 0,
        published: 0,
        found: 0,
        missed: 0,
        mean_delay_s: None,
        median_delay_s: None,
        violations: 0,
        uniform: None,
        delays: Vec::new(),
    };
    // Updates from before the first probe do not count.
    let news = |at: Timestamp| requests.first_answer.is_none_or(|first| at > first) && at >= run.began;
    let last_chance = match demo_source.behaviour {
        SpecialBehaviour::Gone(from) => from.min(run.ended),
        _ => run.ended,
    };
    for post in demo_source.posts.iter().filter(|post| news(post.at) && post.at <= run.ended) {
        source.published += 1;
        match detected_at(post.number) {
            Some(at) => {
                source.found += 1;
                source.delays.push((at - post.at).as_secs_f64());
            }
            None if demo_source.must_be_found() && post.at + PATIENCE <= last_chance => {
                source.missed += 1;
            }
            None => {}
        }
    }
    source.mean_delay_s = mean(&source.delays);
    source.median_delay_s = median(&mut source.delays);
    source
}

/// Sums over some sources.
fn share(sources: &[&SourceReport]) -> DemoShare {
    let delays: Vec<f64> = sources.iter().flat_map(|source| source.delays.iter().copied()).collect();
    DemoShare {
        probes: sources.iter().map(|source| source.probes).sum(),
        found: sources.iter().map(|source| source.found).sum(),
        missed: sources.iter().map(|source| source.missed).sum(),
        mean_delay_s: mean(&delays),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// The quantile of the sorted spans, in seconds.
fn quantile(sorted: &[Span], share: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(place).map_or(0.0, |span| span.as_secs_f64())
}

fn span(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |s| Span::from_secs(s.round() as i64).to_string())
}

/// A path quoted for the shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
