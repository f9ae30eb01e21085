//! What probes buy: the mean delay against the number of probes, a line per policy.
//!
//! As a picture of its own, or as a part of a page. Must not know where it is written.

use crate::draw::chart::{Frame, Scale, line, plain};
use crate::draw::colour::ink;
use crate::draw::svg::{Picture, Shape};
use crate::score::Score;
use crate::words::{delay, number};

use super::question::Question;
use super::results::{Results, probes_per_week};
use super::tables::summary;

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
    let summary = summary(question);
    let description =
        format!("Mean delay against probes per source and week, a line per policy: {summary}.");
    let title = "How long updates go unseen, by what is spent";
    let mut picture = Picture::new((WIDTH, height(policies)), title, &description, ".grid{stroke:#2b3440}");
    picture.head(title, (52, &summary));
    draw(all, &mut picture);
    picture.finish() + "\n"
}

/// The chart and its key, without what is around it.
pub fn draw(all: &[&Results], picture: &mut Picture) {
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
        return picture.add(&Shape::text(20, FRAME.top, "nothing to draw").class("soft"));
    };
    FRAME.upright(&across, &across.round(), plain, picture);
    FRAME.level(&up, &up.among(&DELAYS), |secs| delay(Some(secs)), picture);
    let (middle, below) = (FRAME.x(0.5), FRAME.bottom() + 38.0);
    let name = Shape::text(middle, below, "probes per source and week").anchor("middle").class("soft");
    picture.add_row(&[name, Shape::text(20, FRAME.top - 6.0, "mean delay").class("soft")]);
    for (index, name) in names.iter().enumerate() {
        let point = |(probes, secs): (f64, f64)| {
            let word = format!("{name}: {} probes a week, {}", number(probes), delay(Some(secs)));
            (FRAME.x(across.share(probes)), FRAME.y(up.share(secs)), word)
        };
        line(index, &places(index).map(point).collect::<Vec<_>>(), picture);
    }
    keys(&names, below + 24.0, picture);
}

/// What each colour stands for.
pub fn keys(names: &[&str], top: f64, picture: &mut Picture) {
    let step = (WIDTH - 40) as f64 / KEYS_A_LINE as f64;
    for (index, name) in names.iter().enumerate() {
        let x = 20.0 + (index % KEYS_A_LINE) as f64 * step;
        picture.key(x, top + (index / KEYS_A_LINE) as f64 * KEY, ink(index), name);
    }
}

/// Where a score is drawn. A policy without delay is drawn at the least that can be.
fn place(score: &Score) -> Option<(f64, f64)> {
    Some((probes_per_week(score)?, score.mean_delay()?.max(DELAYS[0])))
}
