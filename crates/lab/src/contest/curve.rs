//! A chart of the mean delay against the number of probes, a line per policy, or a point if there is one
//! budget.
//!
//! Each has its name beside it. Our policies are in colour, the others grey. It is a separate picture or a
//! part of a page. Must not know where it is written.

use crate::draw::chart::{Frame, Scale, line, plain};
use crate::draw::colour::{GREY, ink};
use crate::draw::labels::{beside, spread};
use crate::draw::svg::{Picture, Shape, tenth};
use crate::score::Score;
use crate::words::{delay, number};

use super::question::ContestQuestion;
use super::results::{PolicyResult, Results, probes_per_week};
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
/// The height.
pub const HEIGHT: usize = 466;
const FRAME: Frame = Frame { left: 74.0, top: 76.0, width: 806.0, height: 330.0 };
/// The part of the width that names at the ends of lines take.
const NAMES: f64 = 158.0;

/// The chart as an SVG file.
pub fn to_svg(question: &ContestQuestion, all: &[&Results]) -> String {
    let mut summary = summary(question);
    if question.rules.as_shipped {
        summary += "; each policy as its users get it";
    }
    let each = if all.len() == 1 { "point" } else { "line" };
    let description =
        format!("Mean delay against probes per source and week, a {each} per policy: {summary}.");
    let title = "How long updates go unseen, by what is spent";
    let mut picture = Picture::new((WIDTH, HEIGHT), title, &description, ".grid{stroke:#2b3440}");
    picture.head(title, (52, &summary));
    draw(all, &mut picture);
    picture.finish() + "\n"
}

/// One policy in the chart.
struct PolicyCurve {
    name: &'static str,
    /// Its colour; `None` for grey.
    ink: Option<&'static str>,
    /// Probes per week and mean delay in seconds, per budget.
    points: Vec<(f64, f64)>,
}

impl PolicyCurve {
    /// The policies that have results, ours last, so that they are on top.
    fn of(all: &[&Results]) -> Vec<Self> {
        let Some(first) = all.first() else { return Vec::new() };
        let mut ours = 0;
        let curve = |(index, result): (usize, &PolicyResult)| {
            let ink = result.policy.is_ours().then(|| {
                ours += 1;
                ink(ours - 1)
            });
            let points = all.iter().filter_map(|results| place(&results.policies.get(index)?.score));
            Self { name: result.policy.name(), ink, points: points.collect() }
        };
        let mut curves: Vec<Self> = first.policies.iter().enumerate().map(curve).collect();
        curves.retain(|curve| !curve.points.is_empty());
        curves.sort_by_key(|curve| curve.ink.is_some());
        curves
    }

    /// Its name at a place.
    fn label(&self, (x, y): (f64, f64)) -> Shape {
        let label = Shape::text(tenth(x), tenth(y + 4.0), self.name);
        match self.ink {
            Some(ink) => label.with("style", format!("fill:{ink};font-weight:600")),
            None => label.class("soft"),
        }
    }
}

/// The chart without title.
pub fn draw(all: &[&Results], picture: &mut Picture) {
    let curves = PolicyCurve::of(all);
    let every = || curves.iter().flat_map(|curve| &curve.points);
    let across = Scale::around(every().map(|&(probes, _)| probes));
    let up = Scale::around(every().map(|&(_, delay)| delay));
    let (Some(across), Some(up)) = (across, up) else {
        return picture.add(&Shape::text(20, FRAME.top, "nothing to draw").class("soft"));
    };
    let lines = curves.iter().any(|curve| curve.points.len() > 1);
    let frame = Frame { width: FRAME.width - if lines { NAMES } else { 0.0 }, ..FRAME };
    frame.upright(&across, &across.round(), plain, picture);
    frame.level(&up, &up.among(&DELAYS), |secs| delay(Some(secs)), picture);
    let (middle, below) = (frame.x(0.5), frame.bottom() + 38.0);
    let name = Shape::text(middle, below, "probes per source and week").anchor("middle").class("soft");
    picture.add_row(&[name, Shape::text(20, frame.top - 6.0, "mean delay").class("soft")]);
    let mut ends = Vec::with_capacity(curves.len());
    for curve in &curves {
        let point = |&(probes, secs): &(f64, f64)| {
            let word = format!("{}: {} probes a week, {}", curve.name, number(probes), delay(Some(secs)));
            (frame.x(across.share(probes)), frame.y(up.share(secs)), word)
        };
        let points: Vec<(f64, f64, String)> = curve.points.iter().map(point).collect();
        line(curve.ink.unwrap_or(GREY), if curve.ink.is_some() { 3.0 } else { 1.5 }, &points, picture);
        ends.extend(points.last().map(|&(x, y, _)| (x, y)));
    }
    match lines {
        true => name_ends(&curves, &ends, &frame, picture),
        false => name_points(&curves, &ends, picture),
    }
}

/// Names in a column to the right, each joined to the end of its line.
fn name_ends(curves: &[PolicyCurve], ends: &[(f64, f64)], frame: &Frame, picture: &mut Picture) {
    let heights: Vec<f64> = ends.iter().map(|&(_, y)| y).collect();
    let column = frame.x(1.0) + 14.0;
    let places = spread(&heights, (frame.top, frame.bottom()));
    for ((curve, &(x, y)), at) in curves.iter().zip(ends).zip(places) {
        let joint = Shape::line((tenth(x + 6.0), tenth(y)), (tenth(column - 3.0), tenth(at)));
        let joint = joint.stroke(curve.ink.unwrap_or(GREY)).with("stroke-opacity", 0.5);
        picture.add_row(&[joint, curve.label((column, at))]);
    }
}

/// Names beside single points.
fn name_points(curves: &[PolicyCurve], ends: &[(f64, f64)], picture: &mut Picture) {
    let names: Vec<&str> = curves.iter().map(|curve| curve.name).collect();
    let places = beside(ends, &names, (FRAME.left, WIDTH as f64 - 4.0));
    curves.iter().zip(places).for_each(|(curve, at)| picture.add(&curve.label(at)));
}

/// The position of a score. A policy without delay is drawn at the smallest delay of the axis.
fn place(score: &Score) -> Option<(f64, f64)> {
    Some((probes_per_week(score)?, score.mean_delay()?.max(DELAYS[0])))
}
