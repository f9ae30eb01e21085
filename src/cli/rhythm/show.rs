//! The rhythm at a terminal.

use std::io::{self, Write};

use tidewatch_core::time::Timestamp;
use tidewatch_lab::words::{count, cut, zone};

use super::grid::{self, Ahead, here, hours};
use super::known::Rhythm;
use super::{heat, stretches, words};

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
