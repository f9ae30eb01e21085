//! A chart of the mean delay against the number of probes, a line per policy.
//!
//! It is a separate picture or a part of a page. Must not know where it is written.

use crate::draw::chart::{Frame, Scale, line, plain};
use crate::draw::colour::ink;
use crate::draw::svg::{Picture, Shape};
use crate::score::Score;
use crate::words::{delay, number};

use super::question::ContestQuestion;
use super::results::{Results, probes_per_week};
use super::tables::summary;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// Round delays for the axis, in seconds.
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

/// The chart is below this; the title of a separate picture is above.
pub const TOP: usize = 56;
/// The width.
pub const WIDTH: usize = 900;
const FRAME: Frame = Frame { left: 74.0, top: 76.0, width: 806.0, height: 330.0 };
/// The distance between the lines of the legend.
const KEY: f64 = 20.0;
const KEYS_A_LINE: usize = 6;

/// The height, with a legend for `policies` policies.
pub fn height(policies: usize) -> usize {
    (FRAME.bottom() + 56.0) as usize + keys_height(policies)
}

/// The height of a legend for `policies` policies.
pub fn keys_height(policies: usize) -> usize {
    policies.div_ceil(KEYS_A_LINE) * KEY as usize
}

/// The chart as an SVG file.
pub fn to_svg(question: &ContestQuestion, all: &[&Results]) -> String {
    let policies = all.first().map_or(0, |results| results.policies.len());
    let summary = summary(question);
    let description =
        format!("Mean delay against probes per source and week, a line per policy: {summary}.");
    let title = "How long updates go unseen, by what is spent";
    let mut picture = Picture::new((WIDTH, height(policies)), title, &description, ".grid{stroke:#2b3440}");
    picture.head(title, (52, &summary));
    draw(all, &mut picture);
    picture.finish() + "\n"
}

/// The chart and its legend, without title.
pub fn draw(all: &[&Results], picture: &mut Picture) {
    let places =
        |index: usize| all.iter().filter_map(move |results| place(&results.policies.get(index)?.score));
    let names: Vec<&str> = all
        .first()
        .map(|results| results.policies.iter().map(|result| result.policy.name()).collect())
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

/// The legend.
pub fn keys(names: &[&str], top: f64, picture: &mut Picture) {
    let step = (WIDTH - 40) as f64 / KEYS_A_LINE as f64;
    for (index, name) in names.iter().enumerate() {
        let x = 20.0 + (index % KEYS_A_LINE) as f64 * step;
        picture.key(x, top + (index / KEYS_A_LINE) as f64 * KEY, ink(index), name);
    }
}

/// The position of a score. A policy without delay is drawn at the smallest delay of the axis.
fn place(score: &Score) -> Option<(f64, f64)> {
    Some((probes_per_week(score)?, score.mean_delay()?.max(DELAYS[0])))
}
