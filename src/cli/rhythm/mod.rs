//! `tidewatch rhythm`: when in the week a source is updated, as a heat map for people, as JSON for
//! programs, as SVG for pages.
//!
//! Exists so that what was learned of a source can be looked at before it is believed. Knows how a
//! weekly rate is shown. Must not know where the rate comes from, nor what time it is: both are
//! handed in.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::cli::table::cut;
use crate::cli::words::{count, zone};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::habits::named::Believed;
use tidewatch_core::time::Timestamp;

mod grid;
mod heat;
pub mod run;
mod stretches;
mod svg;
#[cfg(test)]
mod tests;
mod words;

pub use svg::to_svg;

use grid::{Ahead, here, hours};

/// What is known of a source's rhythm.
#[derive(Debug, Clone, PartialEq)]
pub struct Rhythm {
    /// The source's name.
    pub name: String,
    /// Its rate; the zone is in it.
    pub rate: Rate,
    /// Whose history the rate is from: `individual`, `aggregate` or `blend`.
    pub origin: String,
    /// What repeats: `none`, `day`, `work week` or `week`.
    pub cycle: String,
    /// The evidence: updates seen in all.
    pub updates: u64,
    /// The evidence begins here.
    pub since: Option<Timestamp>,
    /// When the rate was fitted.
    pub fitted_at: Timestamp,
    /// How much more the updates scatter than the rate foretells; 1 = keeps its rhythm.
    pub dispersion: Option<f64>,
    /// What else it is foretold by, the most believed first; `None` where nobody plans by that.
    pub habits: Option<Vec<Believed>>,
}

impl Rhythm {
    /// Whether there is anything to draw.
    fn is_known(&self) -> bool {
        self.updates > 0 && self.rate.per_week() > 0.0
    }
}

/// Shows the rhythm at a terminal: the map, its legend, the stretches, the evidence, the day ahead.
pub fn show(rhythm: &Rhythm, now: Timestamp, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let name = cut(&rhythm.name, 60);
    if !rhythm.is_known() {
        return writeln!(out, "{name}: {}", words::nothing(rhythm));
    }
    let rate = &rhythm.rate;
    writeln!(out, "{name}  {} updates a week, hours in {}", count(rate.per_week()), zone(rate.zone()))?;
    writeln!(out)?;
    let hours = hours(rate);
    heat::map(&hours, here(rate.zone(), now), colours, out)?;
    heat::legend(grid::peak(&hours), colours, out)?;
    writeln!(out)?;
    for line in stretches::lines(rate) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    for (label, text) in words::evidence(rhythm, now) {
        writeln!(out, "{label:<12}{text}")?;
    }
    let ahead = Ahead::of(rate, now);
    writeln!(out, "{:<12}{}", "next 24h", words::ahead(&ahead, rate.zone()))?;
    heat::spark(&ahead, rate.zone(), out)
}

/// The rhythm as one JSON document. `hours` are expected updates by day, Monday first, and hour of
/// the local week; `by_hour` are whole clock hours, the one that `now` lies in first.
pub fn to_json(rhythm: &Rhythm, now: Timestamp) -> Value {
    let rate = &rhythm.rate;
    let segments: Vec<Value> = rate
        .segments()
        .into_iter()
        .map(|(starts, ends, per_hour)| json!({ "starts_s": starts, "ends_s": ends, "per_hour": per_hour }))
        .collect();
    let habits = rhythm.habits.as_ref().map(|habits| -> Vec<Value> {
        habits.iter().map(|one| json!({ "account": one.account, "share": one.share })).collect()
    });
    let ahead = Ahead::of(rate, now);
    json!({
        "source": rhythm.name, "time_zone": zone(rate.zone()), "origin": rhythm.origin,
        "cycle": rhythm.cycle, "updates": rhythm.updates, "since": rhythm.since.map(Timestamp::iso),
        "fitted_at": rhythm.fitted_at.iso(), "dispersion": rhythm.dispersion, "habits": habits,
        "per_week": rate.per_week(), "segments": segments, "hours": hours(rate),
        "next_24h": { "expected": ahead.expected, "by_hour": ahead.by_hour },
    })
}
