//! How well fitted rates predict updates that were not seen: log-likelihoods on recorded traces.
//!
//! `cargo run --release -p tidewatch-lab --example rates -- FOLDER` reads a folder of traces. They are CSV
//! files with the header `unix_time` and one event a line. `index.csv`, if present, has each trace's kind,
//! which is its group. The first table learns from the first 70 % of each trace, and compares the default fit
//! with a homogeneous rate and with a plain histogram of the 168 hours, on the remainder. The second learns
//! from the last two weeks of that and from the other traces of the group. It compares the blend with the
//! source's own history alone, and with the group's alone.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use jiff::tz::TimeZone;
use tidewatch_core::model::aggregate::{Aggregate, blend};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::fit::{Cycle, WeeklyPrior, fit, level};
use tidewatch_core::model::history::{CELLS, History, WeeklyEvidence};
use tidewatch_core::time::{Span, Timestamp};

struct Trace {
    name: String,
    group: String,
    events: Vec<Timestamp>,
}

impl Trace {
    fn cut(&self) -> Timestamp {
        let (first, last) = self.ends();
        first + (last - first).scaled(0.7)
    }

    fn ends(&self) -> (Timestamp, Timestamp) {
        (self.events[0], self.events[self.events.len() - 1])
    }

    /// The evidence at the cut if watching began at `from`.
    fn evidence(&self, from: Timestamp) -> WeeklyEvidence {
        self.history(from).evidence(self.cut())
    }

    fn history(&self, from: Timestamp) -> History {
        let cut = self.cut();
        let mut history = History::new(TimeZone::UTC, Span::from_days(56), cut);
        history.exposed(from, cut);
        for &event in self.events.iter().filter(|&&event| event > from && event < cut) {
            history.update(event);
        }
        history
    }

    /// Log-likelihood of what came after the cut.
    fn score(&self, rate: &Rate) -> f64 {
        let (cut, (_, last)) = (self.cut(), self.ends());
        let seen = self.events.iter().filter(|&&event| event >= cut);
        seen.map(|&event| rate.at(event).max(1e-12).ln()).sum::<f64>() - rate.expected(cut, last)
    }

    fn unseen(&self) -> usize {
        let cut = self.cut();
        self.events.iter().filter(|&&event| event >= cut).count()
    }
}

fn read(folder: &Path) -> anyhow::Result<Vec<Trace>> {
    let index = fs::read_to_string(folder.join("index.csv")).unwrap_or_default();
    let kinds: HashMap<&str, &str> = index
        .lines()
        .filter_map(|line| line.split_once(','))
        .map(|(name, rest)| (name, rest.split(',').next().unwrap_or_default()))
        .collect();
    let mut traces = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none_or(|extension| extension != "csv") || name == "index" {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let events: Vec<Timestamp> = text
            .lines()
            .skip(1)
            .filter_map(|line| line.trim().parse().ok())
            .map(Timestamp::from_secs)
            .collect();
        if events.len() >= 20 {
            let group = kinds.get(name.as_str()).copied().unwrap_or("all").to_owned();
            traces.push(Trace { name, group, events });
        }
    }
    traces.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(traces)
}

/// The plain histogram: every hour of the week its own rate, with a tenth of an update added so
/// that it can be scored at all.
fn histogram(evidence: &WeeklyEvidence) -> Rate {
    let mean = level(evidence);
    let hours = (0..CELLS).map(|cell| {
        let rate = (evidence.updates[cell] + 0.1) / (evidence.hours[cell] + 0.1 / mean);
        ((cell as u32 + 1) * 3600, rate)
    });
    Rate::new(TimeZone::UTC, hours).unwrap_or_else(|_| Rate::constant(mean))
}

fn main() -> anyhow::Result<()> {
    let folder = std::env::args().nth(1).context("usage: rates FOLDER")?;
    let traces = read(Path::new(&folder))?;
    let zone = TimeZone::UTC;
    let out = &mut std::io::stdout().lock();

    let mut totals = [0.0; 3];
    let (mut worse, mut unseen) = (Vec::new(), 0);
    let mut cycles = [0; 4];
    let mut sizes = Vec::new();
    let all: Vec<WeeklyEvidence> = traces.iter().map(|trace| trace.evidence(trace.ends().0)).collect();
    for (trace, evidence) in traces.iter().zip(&all) {
        let mean = level(evidence);
        let fitted = fit(evidence, &WeeklyPrior::flat(mean), &zone);
        let history = trace.history(trace.ends().0);
        let heap = history.heap_bytes() + fitted.rate.heap_bytes();
        sizes.push(size_of::<History>() + size_of::<Rate>() + heap);
        let scores =
            [Rate::constant(mean), histogram(evidence), fitted.rate].map(|rate| trace.score(&rate));
        totals.iter_mut().zip(scores).for_each(|(total, score)| *total += score);
        unseen += trace.unseen();
        cycles[Cycle::ALL.iter().position(|&cycle| cycle == fitted.cycle).unwrap_or(0)] += 1;
        if scores[2] < scores[0] - 1e-6 {
            worse.push((scores[2] - scores[0], &trace.name));
        }
    }
    writeln!(out, "{} sources, {unseen} unseen updates; 70 % of each trace to learn from", traces.len())?;
    for (name, total) in ["homogeneous", "hourly histogram", "default fit"].iter().zip(totals) {
        writeln!(out, "  {name:<18} {total:>12.0} nats  {:>7.3} a update", total / unseen as f64)?;
    }
    let share = 100.0 * (1.0 - worse.len() as f64 / traces.len() as f64);
    writeln!(out, "  no worse than homogeneous on {share:.1} % of the sources; the others:")?;
    worse.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (loss, name) in worse {
        writeln!(out, "    {loss:>8.1}  {name}")?;
    }
    writeln!(
        out,
        "  cycles: none {}, day {}, work week {}, week {}",
        cycles[0], cycles[1], cycles[2], cycles[3]
    )?;

    sizes.sort_unstable();
    let size = |share: f64| sizes[((sizes.len() - 1) as f64 * share) as usize];
    writeln!(out, "  bytes of evidence and rate: {} in the middle, {} at most", size(0.5), size(1.0))?;

    let mut totals = [0.0; 4];
    for (index, trace) in traces.iter().enumerate() {
        let own = trace.evidence(trace.cut() - Span::from_days(14));
        let others = traces.iter().zip(&all).enumerate();
        let others_of_group =
            others.filter(|(i, (other, _))| *i != index && other.group == trace.group).map(|(_, (_, e))| e);
        let group = Aggregate::of(others_of_group);
        let mean = level(&own);
        let rates = [
            Rate::constant(mean),
            fit(&own, &WeeklyPrior::flat(mean), &zone).rate,
            group.history(mean, &zone),
            blend(&own, Some(&group), &zone).0.rate,
        ];
        totals.iter_mut().zip(rates).for_each(|(total, rate)| *total += trace.score(&rate));
    }
    writeln!(out, "the last two weeks of that to learn from, and the other sources of the group")?;
    for (name, total) in ["homogeneous", "IndHist", "AggHist", "blend"].iter().zip(totals) {
        writeln!(out, "  {name:<18} {total:>12.0} nats  {:>7.3} a update", total / unseen as f64)?;
    }
    Ok(())
}
