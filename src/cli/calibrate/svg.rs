//! Expected and found updates as a self-contained SVG file: a chart by day, and one by source.
//!
//! Has a title and a description for screen readers. Must not know where it is written.

use crate::store::predictions::PredictionSums;
use tidewatch_core::time::Timestamp;
use tidewatch_lab::draw::chart::{Frame, Scale, plain, points, round_ticks};
use tidewatch_lab::draw::colour::{AXIS, LILAC, ramp};
use tidewatch_lab::draw::svg::{Picture, Shape, tenth};
use tidewatch_lab::words::{count, number};

use super::show::{NOTHING, heading};
use super::verdicts::{RareEvent, StatedPeriod, described, grouped, rare_events, updates, verdict};

const WIDTH: usize = 900;
const DAYS: Frame = Frame { left: 62.0, top: 104.0, width: 818.0, height: 170.0 };
const SOURCES: Frame = Frame { left: 62.0, top: 348.0, width: 340.0, height: 250.0 };
const HEIGHT: usize = 652;
/// Left edge of the list of rare events.
const EVENTS: f64 = 440.0;

/// The period as an SVG document.
pub fn to_svg(period: &StatedPeriod) -> String {
    let of = &period.predictions;
    let summary = match of.total.probes {
        0 => NOTHING.to_owned(),
        _ => format!("updates: {}", described(&updates(&of.total))),
    };
    let title = "Updates expected and found";
    let description = format!("{}. {summary}.", heading(period));
    let mut picture = Picture::new((WIDTH, HEIGHT), title, &description, ".grid{stroke:#2b3440}");
    picture.head(&heading(period), (52, &summary));
    if of.total.probes > 0 {
        by_day(&of.days, &mut picture);
        by_source(&of.sources, &mut picture);
        events(&rare_events(&of.total), &mut picture);
    }
    picture.finish() + "\n"
}

/// Found updates as bars, expected ones as a line.
fn by_day(days: &[(Timestamp, PredictionSums)], picture: &mut Picture) {
    let most = days.iter().map(|(_, of)| of.expected.max(of.found as f64)).fold(1.0, f64::max);
    picture.add(&Shape::text(20, DAYS.top - 14.0, "by day (UTC)").class("soft"));
    picture.key(DAYS.x(1.0) - 190.0, DAYS.top - 14.0, &ramp(0.5), "found");
    picture.key(DAYS.x(1.0) - 100.0, DAYS.top - 14.0, LILAC, "expected");
    for (tick, label) in round_ticks(0.0, most, 4.0) {
        let y = DAYS.y(tick / most);
        let line = Shape::line((DAYS.left, tenth(y)), (DAYS.x(1.0), tenth(y))).class("grid");
        let beside = Shape::text(DAYS.left - 8.0, tenth(y + 4.0), &label).class("soft").anchor("end");
        picture.add_row(&[line, beside]);
    }
    let step = DAYS.width / days.len().max(1) as f64;
    // At most about ten dates fit.
    let labelled = days.len().div_ceil(10).max(1);
    for (index, (day, of)) in days.iter().enumerate() {
        let (x, y) = (DAYS.left + (index as f64 + 0.15) * step, DAYS.y(of.found as f64 / most));
        let date = &day.iso()[..10];
        let hint = format!("{date}: {} expected, {} found", count(of.expected), of.found);
        let bar = Shape::rect(tenth(x), tenth(y), tenth(step * 0.7), tenth(DAYS.bottom() - y));
        picture.add(&bar.fill(&ramp(0.5)).hint(&hint));
        if index.is_multiple_of(labelled) {
            let middle = tenth(x + step * 0.35);
            let label = Shape::text(middle, DAYS.bottom() + 18.0, &date[5..]);
            picture.add(&label.class("soft").anchor("middle"));
        }
    }
    let middles = days
        .iter()
        .enumerate()
        .map(|(index, (_, of))| (DAYS.left + (index as f64 + 0.5) * step, DAYS.y(of.expected / most)));
    let middles: Vec<(f64, f64)> = middles.collect();
    let line = Shape::new("polyline").with("points", points(middles.iter().copied()));
    picture.add(&line.fill("none").stroke(LILAC).with("stroke-width", 2));
    for (x, y) in middles {
        picture.add(&Shape::circle(tenth(x), tenth(y), 3).fill(LILAC));
    }
    picture.add(&Shape::line((DAYS.left, DAYS.bottom()), (DAYS.x(1.0), DAYS.bottom())).stroke(AXIS));
}

/// A point for each source, and the line on which as many are found as expected.
fn by_source(sources: &[(String, PredictionSums)], picture: &mut Picture) {
    let known = sources.iter().filter(|(_, of)| of.expected > 0.0);
    // A source without updates is drawn as half an update.
    let found = |of: &PredictionSums| (of.found as f64).max(0.5);
    let Some(scale) = Scale::around(known.clone().flat_map(|(_, of)| [of.expected, found(of)])) else {
        return;
    };
    picture.add(&Shape::text(20, SOURCES.top - 14.0, "found, by source").class("soft"));
    SOURCES.upright(&scale, &scale.round(), plain, picture);
    SOURCES.level(&scale, &scale.round(), plain, picture);
    let (from, to) = ((SOURCES.x(0.0), SOURCES.y(0.0)), (SOURCES.x(1.0), SOURCES.y(1.0)));
    let equal = Shape::line((tenth(from.0), tenth(from.1)), (tenth(to.0), tenth(to.1)));
    picture.add(&equal.stroke(LILAC).with("stroke-dasharray", "4 4"));
    for (name, of) in known {
        let check = updates(of);
        let (x, y) = (SOURCES.x(scale.share(of.expected)), SOURCES.y(scale.share(found(of))));
        let hint =
            format!("{name}: {} expected, {} found; {}", count(of.expected), of.found, verdict(&check));
        let fill = if check.fits() { ramp(0.5) } else { "#e8590c".to_owned() };
        picture
            .add(&Shape::circle(tenth(x), tenth(y), 5).fill(&fill).with("fill-opacity", 0.85).hint(&hint));
    }
    let below = Shape::text(tenth(SOURCES.x(0.5)), SOURCES.bottom() + 38.0, "expected, by source");
    picture.add(&below.class("soft").anchor("middle"));
}

/// The rare events, with stated and found numbers as bars.
fn events(events: &[RareEvent], picture: &mut Picture) {
    let mut y = SOURCES.top - 14.0;
    picture.key(EVENTS, y, &ramp(0.5), "fits");
    picture.key(EVENTS + 90.0, y, "#e8590c", "does not fit");
    y += 40.0;
    let most = events.iter().map(|event| event.stated.max(event.found as f64)).fold(1.0, f64::max);
    let width = |value: f64| tenth((value / most * 430.0).max(0.5));
    for event in events {
        let fill = if event.fits() { ramp(0.5) } else { "#e8590c".to_owned() };
        let (stated, found) = (number(event.stated), grouped(event.found as f64));
        let cases = format!("{} {}", grouped(event.cases as f64), event.case);
        let text = format!("{}: {found} found, {stated} stated, of {cases}", event.name);
        picture.add(&Shape::text(EVENTS, tenth(y), &text));
        let bar = Shape::rect(EVENTS, tenth(y + 9.0), width(event.found as f64), 10).with("rx", 1);
        let limit = Shape::rect(EVENTS, tenth(y + 21.0), width(event.stated), 5).with("rx", 1);
        picture.add_row(&[bar.fill(&fill), limit.fill(LILAC)]);
        y += 58.0;
    }
}
