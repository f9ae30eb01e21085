//! What probes buy: the mean delay against the number of probes, a line per policy.
//!
//! As a picture of its own, dark like the others, or as a part of a page. Knows what the axes are. Must
//! not know where it is written.

use std::fmt::{Result, Write};

use crate::cli::picture::{begin, escaped, key};
use crate::cli::words::number;
use tidewatch_lab::score::Score;

use super::Question;
use super::chart::{Frame, Scale, ink, line, plain};
use super::results::{Results, probes_per_week};
use super::show::{delay, summary};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// Delays that people have a word for, in seconds.
const DELAYS: [f64; 21] = [
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    30.0,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    20.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    4.0 * HOUR,
    8.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    4.0 * DAY,
    7.0 * DAY,
];

/// Below this is the chart; above it the title of a picture of its own.
pub const TOP: usize = 56;
/// How wide it is.
pub const WIDTH: usize = 900;
const FRAME: Frame = Frame { left: 74.0, top: 76.0, width: 806.0, height: 330.0 };
/// How far apart the lines of the key are.
const KEY: f64 = 20.0;
const KEYS_A_LINE: usize = 6;

/// How high it is, with keys for so many policies.
pub fn height(policies: usize) -> usize {
    (FRAME.bottom() + 56.0) as usize + keys_height(policies)
}

/// How high the keys for so many policies are.
pub fn keys_height(policies: usize) -> usize {
    policies.div_ceil(KEYS_A_LINE) * KEY as usize
}

/// As an SVG file.
pub fn to_svg(question: &Question, all: &[&Results]) -> String {
    let policies = all.first().map_or(0, |results| results.standings.len());
    let summary = escaped(&summary(question));
    let description =
        format!("Mean delay against probes per source and week, a line per policy: {summary}.");
    let title = "How long updates go unseen, by what is spent";
    let mut svg = begin((WIDTH, height(policies)), title, &description, ".grid{stroke:#2b3440}");
    // Writing to a string does not fail.
    let _ = writeln!(svg, r#"<text class="name" x="20" y="32">{title}</text>"#);
    let _ = writeln!(svg, r#"<text class="soft" x="20" y="52">{summary}</text>"#);
    let _ = draw(all, &mut svg);
    svg + "</svg>\n"
}

/// The chart and its key, without what is around it.
pub fn draw(all: &[&Results], svg: &mut String) -> Result {
    let places =
        |index: usize| all.iter().filter_map(move |results| place(&results.standings.get(index)?.score));
    let names: Vec<&str> = all
        .first()
        .map(|results| results.standings.iter().map(|standing| standing.who.name()).collect())
        .unwrap_or_default();
    let every = || (0..names.len()).flat_map(places);
    let across = Scale::around(every().map(|(probes, _)| probes));
    let up = Scale::around(every().map(|(_, delay)| delay));
    let (Some(across), Some(up)) = (across, up) else {
        return writeln!(svg, r#"<text class="soft" x="20" y="{}">nothing to draw</text>"#, FRAME.top);
    };
    FRAME.upright(&across, &across.round(), plain, svg)?;
    FRAME.level(&up, &up.among(&DELAYS), |secs| delay(Some(secs)), svg)?;
    let (middle, below) = (FRAME.x(0.5), FRAME.bottom() + 38.0);
    writeln!(
        svg,
        r#"<text class="soft" text-anchor="middle" x="{middle}" y="{below}">probes per source and week</text><text class="soft" x="20" y="{}">mean delay</text>"#,
        FRAME.top - 6.0
    )?;
    for (index, name) in names.iter().enumerate() {
        let point = |(probes, secs): (f64, f64)| {
            let word = format!("{name}: {} probes a week, {}", number(probes), delay(Some(secs)));
            (FRAME.x(across.share(probes)), FRAME.y(up.share(secs)), word)
        };
        line(index, &places(index).map(point).collect::<Vec<_>>(), svg)?;
    }
    keys(&names, below + 24.0, svg)
}

/// What each ink stands for.
pub fn keys(names: &[&str], top: f64, svg: &mut String) -> Result {
    let step = (WIDTH - 40) as f64 / KEYS_A_LINE as f64;
    for (index, name) in names.iter().enumerate() {
        let x = 20.0 + (index % KEYS_A_LINE) as f64 * step;
        key(x, top + (index / KEYS_A_LINE) as f64 * KEY, ink(index), name, svg)?;
    }
    Ok(())
}

/// Where a score is drawn. A policy without delay is drawn at the least that can be.
fn place(score: &Score) -> Option<(f64, f64)> {
    Some((probes_per_week(score)?, score.mean_delay()?.max(DELAYS[0])))
}
