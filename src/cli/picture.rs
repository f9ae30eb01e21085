//! What pictures have in common, at a terminal and as SVG: shades, colours, text made safe.
//!
//! Must not know what is drawn.

use std::fmt::Write;

use super::words::number;

/// How many shades a map has.
pub const SHADES: usize = 5;

const BLOCKS: [char; SHADES] = [' ', '░', '▒', '▓', '█'];

/// From blue to yellow out of the 256 colours, in nearly even steps of lightness (L* of 17, 38, 53,
/// 70, 87), so that it can be read without telling colours apart.
const TERMINAL: [u8; SHADES] = [18, 24, 66, 143, 220];

/// From blue to yellow in even steps of lightness, readable without telling colours apart.
const RAMP: [[f64; 3]; 8] = [
    [18.0, 38.0, 79.0],
    [21.0, 63.0, 114.0],
    [28.0, 93.0, 134.0],
    [48.0, 124.0, 138.0],
    [93.0, 154.0, 126.0],
    [155.0, 179.0, 103.0],
    [215.0, 203.0, 77.0],
    [254.0, 232.0, 56.0],
];

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

/// Dark, and brought along, so that a picture looks the same on light and dark pages.
pub const BACKGROUND: &str = "#10151c";

/// How text looks in a picture.
pub const STYLE: &str = "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;\
font-size:13px;fill:#c9d1d9}.name{font-size:18px;font-weight:600;fill:#f0f3f6}.soft{fill:#9aa4af}";

/// A colour between dark blue (0) and yellow (1).
pub fn colour(intensity: f64) -> String {
    let place = intensity.clamp(0.0, 1.0) * (RAMP.len() - 1) as f64;
    let index = (place as usize).min(RAMP.len() - 2);
    let share = place - index as f64;
    let [r, g, b]: [u8; 3] = std::array::from_fn(|channel| {
        (RAMP[index][channel] * (1.0 - share) + RAMP[index + 1][channel] * share).round() as u8
    });
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// A text as XML holds it: escaped, and without the characters that XML forbids.
pub fn escaped(text: &str) -> String {
    let allowed = |c: &char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    let clean: String = text.chars().filter(allowed).collect();
    quick_xml::escape::escape(clean.as_str()).into_owned()
}

/// The beginning of an SVG file: its size, a title and a description for those who do not see it, its
/// style and its background. Both texts are escaped already.
pub fn begin(size: (usize, usize), title: &str, description: &str, style: &str) -> String {
    let (width, height) = size;
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="title desc">
<title id="title">{title}</title>
<desc id="desc">{description}</desc>
<style>{STYLE}{style}</style>
<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>
"#
    )
}

/// A small square of a colour and what it stands for.
pub fn key(x: f64, y: f64, fill: &str, label: &str, svg: &mut String) -> std::fmt::Result {
    writeln!(
        svg,
        r##"<rect x="{x}" y="{}" width="12" height="12" rx="2" fill="{fill}" stroke="#4a5562"/><text class="soft" x="{}" y="{y}">{label}</text>"##,
        y - 10.0,
        x + 19.0
    )
}
