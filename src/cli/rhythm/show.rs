//! The rhythm at a terminal.

use std::io::{self, Write};

use tidewatch_core::time::Timestamp;
use tidewatch_lab::words::{count, cut, zone};

use super::grid::{self, NextHours, here, hours};
use super::known::StoredRhythm;
use super::{heat, stretches, words};

/// Prints the map, its legend, the periods, the evidence and the next 24 hours.
pub fn show(rhythm: &StoredRhythm, now: Timestamp, colours: bool, out: &mut dyn Write) -> io::Result<()> {
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
    let ahead = NextHours::of(rate, now);
    writeln!(out, "{:<12}{}", "next 24h", words::ahead(&ahead, rate.zone()))?;
    heat::spark(&ahead, rate.zone(), out)
}
