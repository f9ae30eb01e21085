//! The heat map as a self-contained SVG file.
//!
//! Has a title and a description for screen readers. Must not know where it is written.

use crate::cli::shades::{SHADES, intensity, shade_from};
use tidewatch_core::time::Timestamp;
use tidewatch_lab::draw::colour::{BACKGROUND, ramp};
use tidewatch_lab::draw::svg::{Picture, Shape};
use tidewatch_lab::words::{DAYS, count, cut, number, zone};

use super::grid::{here, hours, peak};
use super::known::StoredRhythm;
use super::words::{cycle, nothing, origin, regularity, seen};

const CELL: usize = 26;
const STEP: usize = CELL + 3;
const LEFT: usize = 64;
const TOP: usize = 84;
const WIDTH: usize = LEFT + 24 * STEP + 21;
const HEIGHT: usize = TOP + 7 * STEP + 102;

/// The rhythm as an SVG document.
pub fn to_svg(rhythm: &StoredRhythm, now: Timestamp) -> String {
    let rate = &rhythm.rate;
    let summary = match rhythm.is_known() {
        true => format!("{} updates a week, hours in {}", count(rate.per_week()), zone(rate.zone())),
        false => nothing(rhythm),
    };
    let title = format!("When {} is updated", rhythm.name);
    let description =
        format!("Heat map of the week, days by hours: {summary}. {}", caption(rhythm).join("; "));
    let mut picture = Picture::new((WIDTH, HEIGHT), &title, &description, "");
    picture.head(&cut(&rhythm.name, 60), (52, &summary));
    cells(rhythm, now, &mut picture);
    let bottom = TOP + 7 * STEP;
    if rhythm.is_known() {
        legend(peak(&hours(rate)), bottom + 18, &mut picture);
    }
    for (line, text) in caption(rhythm).iter().enumerate() {
        picture.add(&Shape::text(20, bottom + 64 + 20 * line, text).class("soft"));
    }
    picture.finish() + "\n"
}

fn cells(rhythm: &StoredRhythm, now: Timestamp, picture: &mut Picture) {
    let hours = hours(&rhythm.rate);
    let (peak, now) = (peak(&hours), here(rhythm.rate.zone(), now));
    for hour in (0..24).step_by(3) {
        let label = Shape::text(LEFT + hour * STEP, TOP - 8, &format!("{hour:02}:00"));
        picture.add(&label.class("soft"));
    }
    for (day, row) in hours.iter().enumerate() {
        let y = TOP + day * STEP;
        picture.add(&Shape::text(20, y + 18, DAYS[day]));
        for (hour, &value) in row.iter().enumerate() {
            let suffix = if (day, hour) == now { " (now)" } else { "" };
            let (name, until, rate) = (DAYS[day], hour + 1, number(value));
            let hint = format!("{name} {hour:02}:00–{until:02}:00: {rate} an hour{suffix}");
            let cell = Shape::rect(LEFT + hour * STEP, y, CELL, CELL).class("cell").with("rx", 4);
            picture.add(&cell.fill(&ramp(intensity(value, peak))).hint(&hint));
        }
    }
    mark(LEFT + now.1 * STEP + CELL / 2, TOP + now.0 * STEP + CELL / 2, picture);
}

/// Marks the current hour: dark with a light border, visible on every colour.
fn mark(x: usize, y: usize, picture: &mut Picture) {
    let circle = Shape::circle(x, y, 5).fill(BACKGROUND).stroke("#ffffff").with("stroke-width", 2);
    picture.add(&circle.with("pointer-events", "none"));
}

fn legend(peak: f64, y: usize, picture: &mut Picture) {
    picture.add(&Shape::text(20, y + 13, "updates an hour").class("soft"));
    for step in 0..=SHADES {
        let x = 150 + step * 84;
        let (fill, label) = (ramp(step as f64 / SHADES as f64), number(shade_from(step, peak)));
        picture.add(&Shape::rect(x, y, 18, 18).with("rx", 3).fill(&fill));
        picture.add(&Shape::text(x + 25, y + 13, &label).class("soft"));
    }
    let x = 150 + (SHADES + 1) * 84;
    mark(x + 9, y + 9, picture);
    picture.add(&Shape::text(x + 25, y + 13, "now").class("soft"));
}

/// The evidence in two lines.
fn caption(rhythm: &StoredRhythm) -> [String; 2] {
    let mut seen = seen(rhythm);
    if let Some(dispersion) = rhythm.dispersion.filter(|value| value.is_finite()) {
        seen = format!("{seen}; {}", regularity(dispersion));
    }
    [seen, format!("from {}: {}", origin(rhythm), cycle(rhythm))]
}
