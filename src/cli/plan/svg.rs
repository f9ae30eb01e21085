//! The plan as a picture: rate, importance and probes along one time axis, in one SVG file that
//! needs nothing else.
//!
//! Has a title and a description for those who do not see it. Knows shapes and colours. Must not
//! know where it will be written.

use std::fmt::{Result, Write};

use crate::cli::picture::{begin, colour, escaped, key};
use crate::cli::words::{count, local, number, zone};
use tidewatch_core::model::obsolescence::hours;
use tidewatch_core::time::Span;

use super::axis::ticks;
use super::refusal::exact;
use super::show::{digits, manner};
use super::{Method, Outcome, Problem};

const WIDTH: usize = 1100;
const HEIGHT: usize = 492;
const LEFT: f64 = 62.0;
const PLOT: f64 = 1014.0;
const RATE: Lane = Lane { top: 100.0, height: 150.0 };
const WEIGHT: Lane = Lane { top: 282.0, height: 44.0 };
const PROBES: Lane = Lane { top: 358.0, height: 34.0 };
/// More closed times than this are not drawn.
const MOST_CLOSED: usize = 2000;
/// More probes than this are drawn as counts by column.
const MOST_TICKS: usize = 1500;

const LILAC: &str = "#c8a2ff";

/// A band of the picture with a curve in it.
struct Lane {
    top: f64,
    height: f64,
}

impl Lane {
    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Where a share of the most stands.
    fn y(&self, share: f64) -> f64 {
        self.bottom() - share.clamp(0.0, 1.0) * self.height
    }
}

/// The plan as an SVG document.
pub fn to_svg(problem: &Problem, outcome: &Outcome) -> String {
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = draw(problem, outcome, &mut svg);
    svg
}

/// Where a time of the horizon stands.
fn x(problem: &Problem, at: Span) -> f64 {
    LEFT + PLOT * hours(at) / hours(problem.horizon.length()).max(f64::MIN_POSITIVE)
}

fn draw(problem: &Problem, outcome: &Outcome, svg: &mut String) -> Result {
    let n = outcome.times.len();
    let (title, length) = (escaped(&problem.title), exact(problem.horizon.length()));
    let plural = if n == 1 { "" } else { "s" };
    let when = |at| local(at, &problem.zone, "%a %Y-%m-%d %H:%M");
    let (from, to, zone) = (when(problem.start), when(problem.end()), escaped(&zone(&problem.zone)));
    let updates = count(problem.updates());
    let summary = format!("{n} probe{plural} in {length}, {updates} updates expected");
    let mut cost = format!("expected cost {}", digits(outcome.expected_cost));
    if let Some(bound) = outcome.lower_bound {
        cost += &format!(", lower bound {}", digits(bound));
    }
    if let Some(uniform) = outcome.uniform.filter(|_| outcome.method != Method::Uniform) {
        cost += &format!(", evenly spread {}", digits(uniform));
    }
    let manner = escaped(&manner(problem, outcome));
    let description = format!(
        "Rate, importance and probes from {from} to {to}, hours in {zone}: {summary}; {manner}; {cost}."
    );
    let style = ".small{font-size:11px;fill:#9aa4af}.line{stroke:#2b3440}.faint{stroke:#1b222b}";
    svg.push_str(&begin((WIDTH, HEIGHT), &format!("When to probe {title}"), &description, style));
    writeln!(svg, r#"<text class="name" x="20" y="32">{title}</text>"#)?;
    writeln!(
        svg,
        r#"<text class="soft" x="20" y="54">{summary} · {from} to {to}, hours in {zone}</text>"#
    )?;
    closed(problem, svg)?;
    axis(problem, svg)?;
    curves(problem, svg)?;
    probes(problem, outcome, svg)?;
    legend(problem, svg)?;
    writeln!(
        svg,
        r#"<text class="soft" x="20" y="{}">{manner}; {cost} {}</text>"#,
        HEIGHT - 16,
        if problem.is_unweighted() { "update·hours" } else { "update·hours × importance" }
    )?;
    writeln!(svg, "</svg>")
}

/// Times without probes, hatched.
fn closed(problem: &Problem, svg: &mut String) -> Result {
    if problem.horizon.closed.is_empty() {
        return Ok(());
    }
    writeln!(
        svg,
        r##"<defs><pattern id="closed" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2" height="6" fill="#28303a"/></pattern></defs>"##
    )?;
    let length = problem.horizon.length();
    for &(from, until) in problem.horizon.closed.iter().take(MOST_CLOSED) {
        let (from, until) = (x(problem, from), x(problem, until.min(length)));
        writeln!(
            svg,
            r#"<rect x="{from:.1}" y="{}" width="{:.1}" height="{}" fill="url(#closed)"/>"#,
            RATE.top,
            until - from,
            PROBES.bottom() - RATE.top
        )?;
    }
    Ok(())
}

fn axis(problem: &Problem, svg: &mut String) -> Result {
    let ticks = ticks(&problem.zone, problem.start, problem.end());
    let mut free = LEFT;
    for tick in &ticks {
        let at = x(problem, tick.at - problem.start);
        let (class, reach) = match tick.label {
            Some(_) => ("line", PROBES.bottom() + 8.0),
            None => ("faint", PROBES.bottom()),
        };
        writeln!(
            svg,
            r#"<line class="{class}" x1="{at:.1}" x2="{at:.1}" y1="{}" y2="{reach}"/>"#,
            RATE.top
        )?;
        if let Some(label) = &tick.label {
            let ends = at + 7.0 * label.chars().count() as f64;
            if at >= free && ends <= LEFT + PLOT + 20.0 {
                let y = PROBES.bottom() + 20.0;
                writeln!(svg, r#"<text class="small" x="{at:.1}" y="{y}">{label}</text>"#)?;
                free = ends + 6.0;
            }
        }
    }
    Ok(())
}

/// Over how long the curves are averaged, so that they can be told apart.
fn averaged(length: Span) -> Option<(Span, &'static str)> {
    match length {
        length if length > Span::from_days(800) => Some((Span::from_days(7), ", weekly means")),
        length if length > Span::from_days(75) => Some((Span::from_days(1), ", daily means")),
        _ => None,
    }
}

/// The pieces of the horizon: where each ends, rate, weight.
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

fn curves(problem: &Problem, svg: &mut String) -> Result {
    let pieces = pieces(problem);
    let means = averaged(problem.horizon.length()).map_or("", |(_, words)| words);
    let rates: Vec<(Span, f64)> = pieces.iter().map(|&(until, rate, _)| (until, rate)).collect();
    let weights: Vec<(Span, f64)> = pieces.iter().map(|&(until, _, weight)| (until, weight)).collect();
    curve(problem, &RATE, &format!("updates an hour{means}"), &rates, &colour(0.62), svg)?;
    curve(problem, &WEIGHT, &format!("importance{means}"), &weights, LILAC, svg)
}

fn curve(
    problem: &Problem,
    lane: &Lane,
    label: &str,
    pieces: &[(Span, f64)],
    ink: &str,
    svg: &mut String,
) -> Result {
    let peak = pieces.iter().map(|piece| piece.1).fold(0.0, f64::max);
    let mut path = String::new();
    let mut at = LEFT;
    for &(until, value) in pieces {
        let y = lane.y(if peak > 0.0 { value / peak } else { 0.0 });
        let ends = x(problem, until);
        write!(path, "L{at:.1} {y:.1}H{ends:.1}")?;
        at = ends;
    }
    let (bottom, line) = (lane.bottom(), path.replacen('L', "M", 1));
    writeln!(
        svg,
        r#"<path d="M{LEFT} {bottom}{path}V{bottom}Z" fill="{ink}" fill-opacity="0.22"/><path d="{line}" fill="none" stroke="{ink}" stroke-width="1.5"/>"#
    )?;
    let (right, top) = (LEFT + PLOT, lane.top);
    writeln!(svg, r##"<line x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}" stroke="#3a4552"/>"##)?;
    writeln!(svg, r#"<text class="small" x="{LEFT}" y="{}">{label}</text>"#, top - 8.0)?;
    for (value, y) in [(number(peak).replace(".00", ""), top + 4.0), ("0".to_owned(), bottom + 4.0)] {
        let x = LEFT - 8.0;
        writeln!(svg, r#"<text class="small" text-anchor="end" x="{x}" y="{y}">{value}</text>"#)?;
    }
    Ok(())
}

fn probes(problem: &Problem, outcome: &Outcome, svg: &mut String) -> Result {
    let (top, bottom, ink) = (PROBES.top, PROBES.bottom(), colour(1.0));
    writeln!(svg, r#"<text class="small" x="{LEFT}" y="{}">probes</text>"#, top - 8.0)?;
    let right = LEFT + PLOT;
    writeln!(svg, r##"<line x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}" stroke="#3a4552"/>"##)?;
    if outcome.times.len() > MOST_TICKS {
        return crowd(problem, outcome, &ink, svg);
    }
    let width = (PLOT / outcome.times.len().max(1) as f64 * 0.3).clamp(0.5, 2.0);
    let through = outcome.times.len() <= 120;
    for &time in &outcome.times {
        let (at, said) =
            (x(problem, time), local(problem.start + time, &problem.zone, "%a %Y-%m-%d %H:%M:%S"));
        if through {
            writeln!(
                svg,
                r#"<line x1="{at:.1}" x2="{at:.1}" y1="{}" y2="{top}" stroke="{ink}" stroke-opacity="0.28"/>"#,
                RATE.top
            )?;
        }
        writeln!(
            svg,
            r#"<line class="probe" x1="{at:.1}" x2="{at:.1}" y1="{top}" y2="{bottom}" stroke="{ink}" stroke-width="{width:.2}"><title>{said}</title></line>"#
        )?;
    }
    Ok(())
}

/// So many probes that they are counted by column.
fn crowd(problem: &Problem, outcome: &Outcome, ink: &str, svg: &mut String) -> Result {
    let mut counts = vec![0_u32; PLOT as usize];
    for &time in &outcome.times {
        let column = (x(problem, time) - LEFT) as usize;
        counts[column.min(PLOT as usize - 1)] += 1;
    }
    let most = f64::from(counts.iter().copied().max().unwrap_or(1).max(1));
    for (column, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (at, y) = (LEFT + column as f64, PROBES.y(f64::from(count) / most));
        let height = PROBES.bottom() - y;
        writeln!(
            svg,
            r#"<rect class="probe" x="{at}" y="{y:.1}" width="1" height="{height:.1}" fill="{ink}"/>"#
        )?;
    }
    Ok(())
}

fn legend(problem: &Problem, svg: &mut String) -> Result {
    let y = HEIGHT - 46;
    let mut items =
        vec![(colour(0.62), "rate λ(t)"), (LILAC.to_owned(), "importance a(t)"), (colour(1.0), "probe")];
    if !problem.horizon.closed.is_empty() {
        items.push(("url(#closed)".to_owned(), "closed to probes"));
    }
    let mut x = 20;
    for (fill, label) in items {
        key(x as f64, y as f64, &fill, label, svg)?;
        x += 48 + 7 * label.chars().count();
    }
    Ok(())
}
