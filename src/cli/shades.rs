//! Shades of maps at a terminal. Must not know what is drawn.

use tidewatch_lab::words::number;

/// Number of shades.
pub const SHADES: usize = 5;

const BLOCKS: [char; SHADES] = [' ', '░', '▒', '▓', '█'];

/// From blue to yellow out of the 256 colours, in nearly even steps of lightness (L* of 17, 38, 53, 70,
/// 87), so that the map is readable without colour vision.
const TERMINAL: [u8; SHADES] = [18, 24, 66, 143, 220];

/// Intensity of a cell, 0 to 1: the square root of its share of the peak, so that one high peak does
/// not hide other cells.
pub fn intensity(value: f64, peak: f64) -> f64 {
    if peak > 0.0 { (value / peak).clamp(0.0, 1.0).sqrt() } else { 0.0 }
}

/// Shade of a cell, 0 to `SHADES - 1`.
pub fn shade(value: f64, peak: f64) -> usize {
    ((intensity(value, peak) * SHADES as f64 + 1e-9) as usize).min(SHADES - 1)
}

/// Smallest number of updates per hour with this shade.
pub fn shade_from(shade: usize, peak: f64) -> f64 {
    (shade as f64 / SHADES as f64).powi(2) * peak
}

/// A piece of a map in that shade. With colours, `text` is printed as it is. Without, it is printed
/// only if it is a `mark`; else each of its characters becomes the block of the shade.
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

/// The legend: each shade as a cell, with its smallest value.
pub fn shades(peak: f64, cell: &str, colours: bool) -> String {
    let cells = (0..SHADES).map(|shade| {
        let from = match shade {
            0 => format!("under {}", number(shade_from(1, peak))),
            _ => format!("{}+", number(shade_from(shade, peak))),
        };
        format!("  [{}] {from}", swatch(shade, cell, false, colours))
    });
    cells.collect()
}
