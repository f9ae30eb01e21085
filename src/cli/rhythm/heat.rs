//! The heat map at a terminal: one row per day, two columns per hour.
//!
//! Knows characters and colours. Must not know the meaning of the numbers.

use std::io::{self, Write};

use jiff::tz::TimeZone;

use crate::cli::shades::{shade, shades, swatch};
use tidewatch_lab::words::DAYS;

use super::grid::{Hours, NextHours, here, peak};

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the map with a ruler of hours above, and marks the row and column of `now`.
pub fn map(hours: &Hours, now: (usize, usize), colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let ruler: String = (0..24).step_by(3).map(|hour| format!("{hour:02}    ")).collect();
    writeln!(out, "      {}", ruler.trim_end())?;
    let peak = peak(hours);
    for (day, row) in hours.iter().enumerate() {
        let sign = if day == now.0 { '>' } else { ' ' };
        write!(out, "{} {sign}│", DAYS[day])?;
        for (hour, &value) in row.iter().enumerate() {
            let mark = ((day, hour) == now).then_some("[]");
            write!(out, "{}", swatch(shade(value, peak), mark.unwrap_or("  "), false, colours))?;
        }
        writeln!(out, "│")?;
    }
    writeln!(out, "{}^^ now", " ".repeat(6 + 2 * now.1))
}

/// Draws the legend: updates per hour for each shade.
pub fn legend(peak: f64, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "an hour:{}", shades(peak, "  ", colours))
}

/// Draws the next 24 hours as bars, with a ruler of local hours below.
pub fn spark(ahead: &NextHours, zone: &TimeZone, out: &mut dyn Write) -> io::Result<()> {
    let top = ahead.peak();
    let bars: String = ahead.by_hour.iter().flat_map(|&value| [bar(value, top); 2]).collect();
    let first = here(zone, ahead.from).1;
    let ruler: String = (0..24).step_by(3).map(|hour| format!("{:02}    ", (first + hour) % 24)).collect();
    writeln!(out, "     │{bars}│")?;
    writeln!(out, "      {}", ruler.trim_end())
}

fn bar(value: f64, top: f64) -> char {
    if value <= 0.0 || top <= 0.0 {
        return BARS[0];
    }
    // The smallest positive value is still visible.
    BARS[((value / top * 8.0).round() as usize).clamp(1, 8)]
}
