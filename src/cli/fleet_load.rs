//! The summary of `tidewatch status`: slots, lateness, and the distance from the best possible
//! schedule.
//!
//! Computes and shows it from stored values; must not know SQL.

use std::io::{self, Write};

use serde::Serialize;

use tidewatch_core::engine::deadline_index::DeadlineStats;
use tidewatch_core::engine::params::FleetParams;
use tidewatch_core::engine::slot_stats::SlotStats;
use tidewatch_core::engine::undiscovered_lower_bounds::{self, SourceRate};
use tidewatch_core::time::Span;

/// Load of all sources together over the last day.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetLoad {
    loads: SlotStats,
    deadlines: DeadlineStats,
    capacity: Option<f64>,
    step: Span,
    /// c, the slots of a step.
    per_step: u32,
    /// Probes per step on average.
    spent: f64,
    /// Weighted updates that are expected to be undiscovered now.
    undiscovered: f64,
    /// Lower bound of that by Theorem 1, for the probes that were sent.
    lower_bound: f64,
    /// A tighter lower bound.
    tight_lower_bound: f64,
    /// Decrease of that bound with one more probe per step.
    one_more: f64,
}

/// The same values for the JSON document.
#[derive(Debug, Serialize)]
pub struct FleetLoadDocument {
    since: String,
    until: String,
    probes_per_step: u32,
    step_s: f64,
    spent_per_step: f64,
    due: u64,
    sampled: u64,
    late: u64,
    late_mean_s: f64,
    late_max_s: f64,
    waiting: u64,
    undiscovered: f64,
    lower_bound: f64,
    tight_lower_bound: f64,
    one_more_per_step_saves: f64,
    capacity: Option<f64>,
    work_per_step: f64,
    deadlines: u64,
    omega: f64,
    overdue: u64,
    tardy: u64,
    tardy_mean_s: f64,
    tardy_max_s: f64,
}

/// Period that the summary covers.
pub const OVER: Span = Span::from_days(1);

impl FleetLoad {
    /// From slot statistics, the undiscovered updates now, and the rates of the sources.
    pub fn new(
        loads: SlotStats,
        undiscovered: f64,
        rates: &[SourceRate],
        deadlines: DeadlineStats,
        params: &FleetParams,
    ) -> Option<Self> {
        let hours = (loads.until - loads.since).as_secs_f64() / 3600.0;
        let steps = hours * 3600.0 / params.step.as_secs_f64();
        let probes = loads.due + loads.sampled;
        if steps <= 0.0 || probes == 0 {
            return None;
        }
        let spent = probes as f64 / steps;
        let best = undiscovered_lower_bounds::tight(rates, spent);
        Some(Self {
            undiscovered,
            loads,
            deadlines,
            capacity: params.capacity,
            step: params.step,
            per_step: params.probes_per_step,
            spent,
            lower_bound: undiscovered_lower_bounds::theorem_1(
                rates.iter().map(|source| source.rate),
                spent,
            ),
            tight_lower_bound: best.cost,
            one_more: best.cost - undiscovered_lower_bounds::tight(rates, spent + 1.0).cost,
        })
    }

    /// As part of the JSON document.
    pub fn document(&self) -> FleetLoadDocument {
        let SlotStats { due, sampled, late, latest, late_for, waiting, tardy, tardy_for, tardiest, .. } =
            self.loads;
        let mean_s =
            |all: Span, count: u64| if count == 0 { 0.0 } else { all.as_secs_f64() / count as f64 };
        FleetLoadDocument {
            since: self.loads.since.iso(),
            until: self.loads.until.iso(),
            probes_per_step: self.per_step,
            step_s: self.step.as_secs_f64(),
            spent_per_step: self.spent,
            due,
            sampled,
            late,
            late_mean_s: mean_s(late_for, late),
            late_max_s: latest.as_secs_f64(),
            waiting,
            undiscovered: self.undiscovered,
            lower_bound: self.lower_bound,
            tight_lower_bound: self.tight_lower_bound,
            one_more_per_step_saves: self.one_more,
            capacity: self.capacity,
            work_per_step: self.work_per_step(),
            deadlines: self.deadlines.sources,
            omega: self.deadlines.omega,
            overdue: self.deadlines.tardy,
            tardy,
            tardy_mean_s: mean_s(tardy_for, tardy),
            tardy_max_s: tardiest.as_secs_f64(),
        }
    }

    /// Mean cost of the probes of a step.
    fn work_per_step(&self) -> f64 {
        let steps = (self.loads.until - self.loads.since).as_secs_f64() / self.step.as_secs_f64();
        self.loads.work / steps.max(1e-9)
    }

    fn show_deadlines(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(capacity) = self.capacity {
            let spent = short(self.work_per_step());
            writeln!(out, "capacity: probes cost {spent} of {} a step in the mean", short(capacity))?;
        }
        let SlotStats { tardy, tardy_for, tardiest, .. } = self.loads;
        let DeadlineStats { sources, tardy: now, omega } = self.deadlines;
        if sources == 0 {
            return Ok(());
        }
        let verb = if now == 1 { "is" } else { "are" };
        let (many, take) = if sources == 1 { ("", "takes") } else { ("s", "take") };
        write!(
            out,
            "deadlines: {sources} source{many} {take} {} of {} slots a step; {now} {verb} tardy now; ",
            short(omega),
            self.per_step
        )?;
        match tardy {
            0 => writeln!(out, "no probe came late"),
            _ => writeln!(
                out,
                "{tardy} probes came late, {} in the mean, {tardiest} at most",
                tardy_for.scaled((tardy as f64).recip())
            ),
        }
    }

    /// Prints the summary in a few lines.
    pub fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let SlotStats { since, until, due, sampled, late, latest, late_for, waiting, .. } = self.loads;
        writeln!(
            out,
            "the fleet, last {}: {} probes ({due} due, {sampled} sampled), {} of {} per step of {}",
            until - since,
            due + sampled,
            short(self.spent),
            self.per_step,
            self.step
        )?;
        match late {
            0 => writeln!(out, "slots: no probe waited longer than a step; {waiting} waiting now")?,
            _ => writeln!(
                out,
                "slots: {late} probes waited longer than a step, {} on average, {latest} at most; {waiting} waiting now",
                late_for.scaled((late as f64).recip())
            )?,
        }
        self.show_deadlines(out)?;
        write!(out, "undiscovered: about {} updates now; ", short(self.undiscovered))?;
        let best = self.tight_lower_bound;
        match self.undiscovered >= best {
            _ if best <= 0.0 => writeln!(out, "rates are not known yet")?,
            true => writeln!(
                out,
                "the best schedule with these probes leaves at least {} on average: this one is at most {:.0} % worse",
                short(best),
                100.0 * (self.undiscovered / best - 1.0)
            )?,
            // The bound holds for the mean, and for rates that are constant over the day.
            false => writeln!(
                out,
                "a schedule that ignores the hour of day leaves at least {} on average",
                short(best)
            )?,
        }
        match self.one_more > 0.005 * best {
            true => writeln!(out, "one more probe per step would save {} of them", short(self.one_more)),
            false => {
                writeln!(out, "more probes per step would save next to nothing: budgets allow no more")
            }
        }
    }
}

fn short(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 1.0 => format!("{n:.1}"),
        n => format!("{n:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewatch_core::time::Timestamp;

    fn deadlines() -> DeadlineStats {
        DeadlineStats { sources: 3, tardy: 1, omega: 0.25 }
    }

    #[test]
    fn the_summary_shows_the_distance_from_the_bound() {
        let since = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
        let loads = SlotStats {
            since,
            until: since + Span::from_days(1),
            due: 7_000,
            sampled: 1_640,
            late: 10,
            late_for: Span::from_mins(10),
            latest: Span::from_mins(3),
            waiting: 2,
            undiscovered_hours: 1200.0,
            work: 8640.0,
            tardy: 4,
            tardy_for: Span::from_mins(8),
            tardiest: Span::from_mins(5),
            overdue: 1,
        };
        let rates = vec![SourceRate { rate: 0.01, least_gap: 30.0 }; 100];
        let params = FleetParams { probes_per_step: 2, ..FleetParams::default() };
        let load = FleetLoad::new(loads.clone(), 50.5, &rates, deadlines(), &params).unwrap();
        let mut shown = Vec::new();
        load.show(&mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(
            shown.contains("8640 probes (7000 due, 1640 sampled), 1.0 of 2 per step of 10s"),
            "{shown}"
        );
        assert!(
            shown.contains("10 probes waited longer than a step, 1m on average, 3m at most; 2 waiting now"),
            "{shown}"
        );
        // Every source every 100 steps: π·(ℓ+1)/2 each.
        assert!(shown.contains("about 50.5 updates now"), "{shown}");
        assert!(shown.contains("at most 0 % worse"), "{shown}");
        // (101 - 51)/2 times a rate of 0.01, times 100 sources.
        assert!(shown.contains("one more probe per step would save 25.0 of them"), "{shown}");
        assert!(
            shown.contains("deadlines: 3 sources take 0.250 of 2 slots a step; 1 is tardy now; 4 probes came late, 2m in the mean, 5m at most"),
            "{shown}"
        );
        let document = load.document();
        assert_eq!(document.late_mean_s, 60.0);
        assert!((document.tight_lower_bound - 50.5).abs() < 1e-6, "{document:?}");
        let limited = FleetLoad::new(
            loads,
            9.0,
            &[SourceRate { rate: 0.01, least_gap: 900.0 }],
            DeadlineStats { sources: 0, ..deadlines() },
            &params,
        )
        .unwrap();
        let mut shown = Vec::new();
        limited.show(&mut shown).unwrap();
        assert!(String::from_utf8(shown).unwrap().contains("budgets allow no more"));
    }
}
