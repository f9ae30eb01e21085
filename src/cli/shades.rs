//! Shades of maps at a terminal. Must not know what is drawn.

use tidewatch_lab::words::number;

/// How many shades a map has.
pub const SHADES: usize = 5;

const BLOCKS: [char; SHADES] = [' ', '░', '▒', '▓', '█'];

/// From blue to yellow out of the 256 colours, in nearly even steps of lightness (L* of 17, 38, 53,
/// 70, 87), so that it can be read without telling colours apart.
const TERMINAL: [u8; SHADES] = [18, 24, 66, 143, 220];

/// How intense a cell is, 0 to 1: the root of its share of the peak, so that one sharp spike does
/// not drown all else.
pub fn intensity(value: f64, peak: f64) -> f64 {
    if peak > 0.0 { (value / peak).clamp(0.0, 1.0).sqrt() } else { 0.0 }
}

/// A cell's shade, 0 to `SHADES - 1`.
pub fn shade(value: f64, peak: f64) -> usize {
    ((intensity(value, peak) * SHADES as f64 + 1e-9) as usize).min(SHADES - 1)
}

/// From how many updates an hour on a shade is used.
pub fn shade_from(shade: usize, peak: f64) -> f64 {
    (shade as f64 / SHADES as f64).powi(2) * peak
}

/// What a piece of a map in that shade looks like. A text of signs is shown as it is with colours;
/// without them only if it is a `mark`, else it is the shade's block as often.
pub fn swatch(shade: usize, text: &str, mark: bool, colours: bool) -> String {
    let shade = shade.min(SHADES - 1);
    match colours {
        true => {
            let ink = if shade < 3 { 231 } else { 16 };
            format!("\x1b[48;5;{};38;5;{ink}m{text}\x1b[0m", TERMINAL[shade])
        }
        false if mark => text.to_owned(),
        false => text.chars().map(|_| BLOCKS[shade]).collect(),
    }
}

/// Each shade as a cell of these signs, with the value it begins at.
pub fn shades(peak: f64, cell: &str, colours: bool) -> String {
    let said = (0..SHADES).map(|shade| {
        let from = match shade {
            0 => format!("under {}", number(shade_from(1, peak))),
            _ => format!("{}+", number(shade_from(shade, peak))),
        };
        format!("  [{}] {from}", swatch(shade, cell, false, colours))
    });
    said.collect()
}
