//! The map as a picture: one SVG file that needs nothing else.
//!
//! Brings its own dark background, so it looks the same on light and dark pages; has a title and a
//! description for those who do not see it. Knows shapes and colours. Must not know where it will
//! be written.

use std::fmt::Write;

use crate::cli::picture::{BACKGROUND, SHADES, begin, colour, escaped, intensity, shade_from};
use crate::cli::words::{DAYS, count, number, zone};
use tidewatch_core::time::Timestamp;

use super::Rhythm;
use super::grid::{here, hours, peak};
use super::words::{cycle, nothing, origin, seen, temper};

const CELL: usize = 26;
const STEP: usize = CELL + 3;
const LEFT: usize = 64;
const TOP: usize = 84;
const WIDTH: usize = LEFT + 24 * STEP + 21;
const HEIGHT: usize = TOP + 7 * STEP + 102;

/// The rhythm as an SVG document.
pub fn to_svg(rhythm: &Rhythm, now: Timestamp) -> String {
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = draw(rhythm, now, &mut svg);
    svg
}

fn draw(rhythm: &Rhythm, now: Timestamp, svg: &mut String) -> std::fmt::Result {
    let rate = &rhythm.rate;
    let (name, zone_name) = (escaped(&rhythm.name), escaped(&zone(rate.zone())));
    let shown = escaped(&crate::cli::table::cut(&rhythm.name, 60));
    let summary = match rhythm.is_known() {
        true => format!("{} updates a week, hours in {zone_name}", count(rate.per_week())),
        false => escaped(&nothing(rhythm)),
    };
    let description =
        format!("Heat map of the week, days by hours: {summary}. {}", escaped(&caption(rhythm).join("; ")));
    svg.push_str(&begin((WIDTH, HEIGHT), &format!("When {name} is updated"), &description, ""));
    writeln!(svg, r#"<text class="name" x="20" y="32">{shown}</text>"#)?;
    writeln!(svg, r#"<text class="soft" x="20" y="52">{summary}</text>"#)?;
    cells(rhythm, now, svg)?;
    let bottom = TOP + 7 * STEP;
    if rhythm.is_known() {
        legend(peak(&hours(rate)), bottom + 18, svg)?;
    }
    for (line, text) in caption(rhythm).iter().enumerate() {
        let y = bottom + 64 + 20 * line;
        writeln!(svg, r#"<text class="soft" x="20" y="{y}">{}</text>"#, escaped(text))?;
    }
    writeln!(svg, "</svg>")
}

fn cells(rhythm: &Rhythm, now: Timestamp, svg: &mut String) -> std::fmt::Result {
    let hours = hours(&rhythm.rate);
    let (peak, now) = (peak(&hours), here(rhythm.rate.zone(), now));
    for hour in (0..24).step_by(3) {
        let x = LEFT + hour * STEP;
        writeln!(svg, r#"<text class="soft" x="{x}" y="{}">{hour:02}:00</text>"#, TOP - 8)?;
    }
    for (day, row) in hours.iter().enumerate() {
        let y = TOP + day * STEP;
        writeln!(svg, r#"<text x="20" y="{}">{}</text>"#, y + 18, DAYS[day])?;
        for (hour, &value) in row.iter().enumerate() {
            let (x, fill) = (LEFT + hour * STEP, colour(intensity(value, peak)));
            let is_now = (day, hour) == now;
            let said = if is_now { " (now)" } else { "" };
            writeln!(
                svg,
                r#"<rect class="cell" x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="4" fill="{fill}"><title>{} {hour:02}:00–{:02}:00: {} an hour{said}</title></rect>"#,
                DAYS[day],
                hour + 1,
                number(value)
            )?;
        }
    }
    mark(LEFT + now.1 * STEP + CELL / 2, TOP + now.0 * STEP + CELL / 2, svg)
}

/// The sign of the current hour: dark in light, so that it shows on every colour.
fn mark(x: usize, y: usize, svg: &mut String) -> std::fmt::Result {
    writeln!(
        svg,
        r##"<circle cx="{x}" cy="{y}" r="5" fill="{BACKGROUND}" stroke="#ffffff" stroke-width="2" pointer-events="none"/>"##
    )
}

fn legend(peak: f64, y: usize, svg: &mut String) -> std::fmt::Result {
    writeln!(svg, r#"<text class="soft" x="20" y="{}">updates an hour</text>"#, y + 13)?;
    for step in 0..=SHADES {
        let x = 150 + step * 84;
        let (fill, label) = (colour(step as f64 / SHADES as f64), number(shade_from(step, peak)));
        writeln!(svg, r#"<rect x="{x}" y="{y}" width="18" height="18" rx="3" fill="{fill}"/>"#)?;
        writeln!(svg, r#"<text class="soft" x="{}" y="{}">{label}</text>"#, x + 25, y + 13)?;
    }
    let x = 150 + (SHADES + 1) * 84;
    mark(x + 9, y + 9, svg)?;
    writeln!(svg, r#"<text class="soft" x="{}" y="{}">now</text>"#, x + 25, y + 13)
}

/// The evidence in two lines.
fn caption(rhythm: &Rhythm) -> [String; 2] {
    let mut seen = seen(rhythm);
    if let Some(dispersion) = rhythm.dispersion.filter(|value| value.is_finite()) {
        seen = format!("{seen}; {}", temper(dispersion));
    }
    [seen, format!("from {}: {}", origin(rhythm), cycle(rhythm))]
}
