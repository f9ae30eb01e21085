//! A plan as a picture: rate, importance and probes along one time axis, in one self-contained SVG file. It
//! has a title and a description for screen readers.

use std::fmt::{Display, Write};

use tidewatch_core::model::obsolescence::hours;
use tidewatch_core::time::Span;

use crate::draw::colour::{AXIS, LILAC, ramp};
use crate::draw::svg::{Picture, Shape, tenth};
use crate::words::{count, exact, local, number, plural, zone};

use super::axis::ticks;
use super::problem::Problem;
use super::search::{Method, SearchOutcome};
use super::text::{digits, manner, unit};

const WIDTH: usize = 1100;
const HEIGHT: usize = 492;
const LEFT: f64 = 62.0;
const PLOT: f64 = 1014.0;
const RATE: PictureBand = PictureBand { top: 100.0, height: 150.0 };
const WEIGHT: PictureBand = PictureBand { top: 282.0, height: 44.0 };
const PROBES: PictureBand = PictureBand { top: 358.0, height: 34.0 };
/// Maximum number of closed times drawn.
const MOST_CLOSED: usize = 2000;
/// Above this number, probes are drawn as counts per column.
const MOST_TICKS: usize = 1500;

/// A band of the picture with a curve in it.
struct PictureBand {
    top: f64,
    height: f64,
}

impl PictureBand {
    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The y coordinate of a share of the maximum.
    fn y(&self, share: f64) -> f64 {
        self.bottom() - share.clamp(0.0, 1.0) * self.height
    }
}

/// The plan as an SVG document.
pub fn to_svg(problem: &Problem, outcome: &SearchOutcome) -> String {
    let n = outcome.times.len();
    let when = |at| local(at, &problem.zone, "%a %Y-%m-%d %H:%M");
    let (from, to, zone) = (when(problem.start), when(problem.end()), zone(&problem.zone));
    let summary = format!(
        "{n} probe{} in {}, {} updates expected",
        plural(n),
        exact(problem.horizon.length()),
        count(problem.updates())
    );
    let (manner, cost) = (manner(problem, outcome), costs(outcome));
    let title = format!("When to probe {}", problem.title);
    let description = format!(
        "Rate, importance and probes from {from} to {to}, hours in {zone}: {summary}; {manner}; {cost}."
    );
    let style = ".small{font-size:11px;fill:#9aa4af}.line{stroke:#2b3440}.faint{stroke:#1b222b}";
    let mut picture = Picture::new((WIDTH, HEIGHT), &title, &description, style);
    picture.head(&problem.title, (54, &format!("{summary} · {from} to {to}, hours in {zone}")));
    closed(problem, &mut picture);
    axis(problem, &mut picture);
    curves(problem, &mut picture);
    probes(problem, outcome, &mut picture);
    legend(problem, &mut picture);
    let foot = format!("{manner}; {cost} {}", unit(problem));
    picture.add(&Shape::text(20, HEIGHT - 16, &foot).class("soft"));
    picture.finish() + "\n"
}

/// The cost, its bound, and the cost of evenly spaced probes.
fn costs(outcome: &SearchOutcome) -> String {
    let mut cost = format!("expected cost {}", digits(outcome.expected_cost));
    if let Some(bound) = outcome.lower_bound {
        cost += &format!(", lower bound {}", digits(bound));
    }
    if let Some(uniform) = outcome.uniform.filter(|_| outcome.method != Method::Uniform) {
        cost += &format!(", evenly spread {}", digits(uniform));
    }
    cost
}

/// The x coordinate of a time of the horizon.
fn x(problem: &Problem, at: Span) -> f64 {
    LEFT + PLOT * hours(at) / hours(problem.horizon.length()).max(f64::MIN_POSITIVE)
}

/// A label of the plot.
fn small(x: impl Display, y: f64, words: &str) -> Shape {
    Shape::text(x, y, words).class("small")
}

/// Closed times, hatched.
fn closed(problem: &Problem, picture: &mut Picture) {
    if problem.horizon.closed.is_empty() {
        return;
    }
    let stripe = Shape::new("rect").with("width", 2).with("height", 6).fill("#28303a");
    let pattern = Shape::new("pattern")
        .with("id", "closed")
        .with("width", 6)
        .with("height", 6)
        .with("patternUnits", "userSpaceOnUse")
        .with("patternTransform", "rotate(45)")
        .around(&stripe);
    picture.add(&Shape::new("defs").around(&pattern));
    let length = problem.horizon.length();
    for &(from, until) in problem.horizon.closed.iter().take(MOST_CLOSED) {
        let (from, until) = (x(problem, from), x(problem, until.min(length)));
        let height = PROBES.bottom() - RATE.top;
        picture.add(&Shape::rect(tenth(from), RATE.top, tenth(until - from), height).fill("url(#closed)"));
    }
}

fn axis(problem: &Problem, picture: &mut Picture) {
    let mut free = LEFT;
    for tick in ticks(&problem.zone, problem.start, problem.end()) {
        let at = x(problem, tick.at - problem.start);
        let (class, reach) = match tick.label {
            Some(_) => ("line", PROBES.bottom() + 8.0),
            None => ("faint", PROBES.bottom()),
        };
        picture.add(&Shape::line((tenth(at), RATE.top), (tenth(at), reach)).class(class));
        if let Some(label) = &tick.label {
            let ends = at + 7.0 * label.chars().count() as f64;
            if at >= free && ends <= LEFT + PLOT + 20.0 {
                picture.add(&small(tenth(at), PROBES.bottom() + 20.0, label));
                free = ends + 6.0;
            }
        }
    }
}

/// The averaging interval of the curves, so that they stay readable.
fn averaged(length: Span) -> Option<(Span, &'static str)> {
    match length {
        length if length > Span::from_days(800) => Some((Span::from_days(7), ", weekly means")),
        length if length > Span::from_days(75) => Some((Span::from_days(1), ", daily means")),
        _ => None,
    }
}

/// The pieces of the horizon: end, rate, weight.
fn pieces(problem: &Problem) -> Vec<(Span, f64, f64)> {
    let cost = &problem.horizon.cost;
    let Some((step, _)) = averaged(cost.length()) else {
        return cost.cells().iter().map(|cell| (cell.until, cell.rate, cell.weight)).collect();
    };
    let mut means = Vec::new();
    let mut from = Span::ZERO;
    while from < cost.length() {
        let until = (from + step).min(cost.length());
        let (a, b, length) = (cost.sums(from), cost.sums(until), hours(until - from));
        means.push((until, (b.updates - a.updates) / length, (b.importance - a.importance) / length));
        from = until;
    }
    means
}

fn curves(problem: &Problem, picture: &mut Picture) {
    let pieces = pieces(problem);
    let means = averaged(problem.horizon.length()).map_or("", |(_, words)| words);
    let rates: Vec<(Span, f64)> = pieces.iter().map(|&(until, rate, _)| (until, rate)).collect();
    let weights: Vec<(Span, f64)> = pieces.iter().map(|&(until, _, weight)| (until, weight)).collect();
    curve(problem, &RATE, &format!("updates an hour{means}"), &rates, &ramp(0.62), picture);
    curve(problem, &WEIGHT, &format!("importance{means}"), &weights, LILAC, picture);
}

fn curve(
    problem: &Problem,
    band: &PictureBand,
    label: &str,
    pieces: &[(Span, f64)],
    ink: &str,
    picture: &mut Picture,
) {
    let peak = pieces.iter().map(|piece| piece.1).fold(0.0, f64::max);
    let mut path = String::new();
    let mut at = LEFT;
    for &(until, value) in pieces {
        let y = band.y(if peak > 0.0 { value / peak } else { 0.0 });
        let ends = x(problem, until);
        // Writing to a string does not fail.
        let _ = write!(path, "L{at:.1} {y:.1}H{ends:.1}");
        at = ends;
    }
    let (top, bottom, line) = (band.top, band.bottom(), path.replacen('L', "M", 1));
    let area = Shape::new("path").with("d", format!("M{LEFT} {bottom}{path}V{bottom}Z"));
    let area = area.fill(ink).with("fill-opacity", 0.22);
    let line = Shape::new("path").with("d", line).fill("none").stroke(ink).with("stroke-width", 1.5);
    picture.add_row(&[area, line]);
    picture.add(&Shape::line((LEFT, bottom), (LEFT + PLOT, bottom)).stroke(AXIS));
    picture.add(&small(LEFT, top - 8.0, label));
    for (value, y) in [(number(peak).replace(".00", ""), top + 4.0), ("0".to_owned(), bottom + 4.0)] {
        picture.add(&small(LEFT - 8.0, y, &value).anchor("end"));
    }
}

fn probes(problem: &Problem, outcome: &SearchOutcome, picture: &mut Picture) {
    let (top, bottom, ink) = (PROBES.top, PROBES.bottom(), ramp(1.0));
    picture.add(&small(LEFT, top - 8.0, "probes"));
    picture.add(&Shape::line((LEFT, bottom), (LEFT + PLOT, bottom)).stroke(AXIS));
    if outcome.times.len() > MOST_TICKS {
        return crowd(problem, outcome, &ink, picture);
    }
    let width = (PLOT / outcome.times.len().max(1) as f64 * 0.3).clamp(0.5, 2.0);
    let through = outcome.times.len() <= 120;
    for &time in &outcome.times {
        let (at, message) =
            (x(problem, time), local(problem.start + time, &problem.zone, "%a %Y-%m-%d %H:%M:%S"));
        if through {
            let faint = Shape::line((tenth(at), RATE.top), (tenth(at), top)).stroke(&ink);
            picture.add(&faint.with("stroke-opacity", 0.28));
        }
        let probe = Shape::line((tenth(at), top), (tenth(at), bottom)).class("probe").stroke(&ink);
        picture.add(&probe.with("stroke-width", format!("{width:.2}")).hint(&message));
    }
}

/// Draws many probes as counts per column.
fn crowd(problem: &Problem, outcome: &SearchOutcome, ink: &str, picture: &mut Picture) {
    let mut counts = vec![0_u32; PLOT as usize];
    for &time in &outcome.times {
        let column = (x(problem, time) - LEFT) as usize;
        counts[column.min(PLOT as usize - 1)] += 1;
    }
    let most = f64::from(counts.iter().copied().max().unwrap_or(1).max(1));
    for (column, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (at, y) = (LEFT + column as f64, PROBES.y(f64::from(count) / most));
        let height = tenth(PROBES.bottom() - y);
        picture.add(&Shape::rect(at, tenth(y), 1, height).class("probe").fill(ink));
    }
}

fn legend(problem: &Problem, picture: &mut Picture) {
    let y = HEIGHT - 46;
    let mut items =
        vec![(ramp(0.62), "rate λ(t)"), (LILAC.to_owned(), "importance a(t)"), (ramp(1.0), "probe")];
    if !problem.horizon.closed.is_empty() {
        items.push(("url(#closed)".to_owned(), "closed to probes"));
    }
    let mut x = 20;
    for (fill, label) in items {
        picture.key(x as f64, y as f64, &fill, label);
        x += 48 + 7 * label.chars().count();
    }
}
