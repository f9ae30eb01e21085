//! The heat map at a terminal: a row for each day, two columns for each hour.
//!
//! Knows characters and colours. Must not know what the numbers mean.

use std::io::{self, Write};

use jiff::tz::TimeZone;

use super::grid::{Ahead, Hours, SHADES, here, peak, shade, shade_from};
use super::words::{DAYS, number};

const BLOCKS: [char; SHADES] = [' ', '░', '▒', '▓', '█'];
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// From blue to yellow out of the 256 colours, in nearly even steps of lightness (L* of 17, 38, 53,
/// 70, 87), so that it can be read without telling colours apart.
const RAMP: [u8; SHADES] = [18, 24, 66, 143, 220];

/// What a cell of that shade looks like; with colours it may hold a mark.
fn swatch(shade: usize, mark: Option<&str>, colours: bool) -> String {
    let shade = shade.min(SHADES - 1);
    match colours {
        true => {
            let ink = if shade < 3 { 231 } else { 16 };
            format!("\x1b[48;5;{};38;5;{ink}m{}\x1b[0m", RAMP[shade], mark.unwrap_or("  "))
        }
        false => String::from_iter([BLOCKS[shade]; 2]),
    }
}

/// The map, with an hour ruler above it, and signs at the row and the column of `now`.
pub fn map(hours: &Hours, now: (usize, usize), colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let ruler: String = (0..24).step_by(3).map(|hour| format!("{hour:02}    ")).collect();
    writeln!(out, "      {}", ruler.trim_end())?;
    let peak = peak(hours);
    for (day, row) in hours.iter().enumerate() {
        let sign = if day == now.0 { '>' } else { ' ' };
        write!(out, "{} {sign}│", DAYS[day])?;
        for (hour, &value) in row.iter().enumerate() {
            let mark = ((day, hour) == now).then_some("[]");
            write!(out, "{}", swatch(shade(value, peak), mark, colours))?;
        }
        writeln!(out, "│")?;
    }
    writeln!(out, "{}^^ now", " ".repeat(6 + 2 * now.1))
}

/// Which shade stands for how many updates an hour.
pub fn legend(peak: f64, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "an hour:")?;
    for shade in 0..SHADES {
        let from = match shade {
            0 => format!("under {}", number(shade_from(1, peak))),
            _ => format!("{}+", number(shade_from(shade, peak))),
        };
        write!(out, "  [{}] {from}", swatch(shade, None, colours))?;
    }
    writeln!(out)
}

/// The day ahead as bars, an hour each, with a ruler of local hours below.
pub fn spark(ahead: &Ahead, zone: &TimeZone, out: &mut dyn Write) -> io::Result<()> {
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
    // The least that is expected still shows.
    BARS[((value / top * 8.0).round() as usize).clamp(1, 8)]
}
