//! The front as a picture, in one SVG file that needs nothing else.
//!
//! Work from left to right, tardiness upwards, Ω as a floor: whoever is left of it must be late. Has a title and a
//! description for those who do not see it. Knows shapes and colours. Must not know where it will be written.

use std::fmt::{Result, Write};

use crate::cli::picture::{BACKGROUND, begin, colour, escaped, key};
use crate::cli::words;
use tidewatch_lab::garden::{Outcome, Policy};

use super::Answer;
use super::show::{summary, title};

const WIDTH: usize = 1000;
const HEIGHT: usize = 560;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 970.0;
const TOP: f64 = 104.0;
const BOTTOM: f64 = 462.0;
/// About how wide a letter is.
const LETTER: f64 = 7.0;

/// The front as an SVG document.
pub fn to_svg(answer: &Answer) -> String {
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = draw(answer, &mut svg);
    svg
}

/// A number as XML holds it: a tiny one is said to be less than another.
fn number(value: f64) -> String {
    escaped(&words::number(value))
}

/// Where what stands.
struct Scale {
    from: f64,
    to: f64,
    most: f64,
}

impl Scale {
    fn of(answer: &Answer) -> Self {
        let omega = answer.question.instance.omega();
        let works = answer.outcomes.iter().map(|outcome| outcome.mean_work).chain([omega]);
        let (from, to) = works.fold((f64::INFINITY, 0.0_f64), |(from, to), x| (from.min(x), to.max(x)));
        let room = ((to - from) * 0.04).max(to * 0.01).max(f64::MIN_POSITIVE);
        let most = answer.outcomes.iter().map(|outcome| outcome.mean_tardiness).fold(0.0, f64::max);
        Self { from: from - room, to: to + room, most: if most > 0.0 { most * 1.05 } else { 1.0 } }
    }

    fn x(&self, work: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (work - self.from) / (self.to - self.from)
    }

    fn y(&self, tardiness: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * tardiness / self.most
    }

    fn place(&self, outcome: &Outcome) -> (f64, f64) {
        (self.x(outcome.mean_work), self.y(outcome.mean_tardiness))
    }
}

fn ink(policy: Policy) -> String {
    match policy {
        Policy::Medd => colour(1.0),
        Policy::Edd => "#58a6ff".to_owned(),
        Policy::MeddPrinted => "#c8a2ff".to_owned(),
        Policy::PowerOfTwo => "#3fb68b".to_owned(),
    }
}

fn draw(answer: &Answer, svg: &mut String) -> Result {
    let (title, scale, knee) = (escaped(&title(answer)), Scale::of(answer), answer.knee());
    let description = format!(
        "Mean tardiness over mean workload: {title}; {}; the knee is capacity {} by {}, {} days late a plant and \
         day for work of {} a day.",
        summary(answer),
        knee.capacity,
        knee.policy.name(),
        number(knee.mean_tardiness),
        number(knee.mean_work)
    );
    let style = ".small{font-size:11px;fill:#9aa4af}.line{stroke:#2b3440}.axis{stroke:#3a4552}";
    svg.push_str(&begin((WIDTH, HEIGHT), "What a capacity costs", &description, style));
    writeln!(svg, r#"<text class="name" x="20" y="32">{title}</text>"#)?;
    writeln!(svg, r#"<text class="soft" x="20" y="54">{}</text>"#, summary(answer))?;
    axes(&scale, svg)?;
    floor(answer, &scale, svg)?;
    alternatives(answer, &scale, svg)?;
    mark(answer, &scale, svg)?;
    legend(answer, svg)?;
    writeln!(svg, "</svg>")
}

/// Round numbers from one to another, about so many.
fn ticks(from: f64, to: f64, about: f64) -> Vec<(f64, String)> {
    let rough = (to - from) / about;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    let digits = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    let (first, last) = ((from / step).ceil() as i64, (to / step).floor() as i64);
    (first..=last).map(|index| index as f64 * step).map(|at| (at, format!("{at:.digits$}"))).collect()
}

fn axes(scale: &Scale, svg: &mut String) -> Result {
    for (work, label) in ticks(scale.from, scale.to, 8.0) {
        let x = scale.x(work);
        writeln!(svg, r#"<line class="line" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{}"/>"#, BOTTOM + 6.0)?;
        let y = BOTTOM + 20.0;
        writeln!(svg, r#"<text class="small" text-anchor="middle" x="{x:.1}" y="{y}">{label}</text>"#)?;
    }
    for (late, label) in ticks(0.0, scale.most, 6.0) {
        let y = scale.y(late);
        writeln!(svg, r#"<line class="line" x1="{}" x2="{RIGHT}" y1="{y:.1}" y2="{y:.1}"/>"#, LEFT - 6.0)?;
        let (x, y) = (LEFT - 10.0, y + 4.0);
        writeln!(svg, r#"<text class="small" text-anchor="end" x="{x}" y="{y:.1}">{label}</text>"#)?;
    }
    writeln!(svg, r#"<path class="axis" fill="none" d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"/>"#)?;
    let y = BOTTOM + 40.0;
    writeln!(
        svg,
        r#"<text class="soft" text-anchor="end" x="{RIGHT}" y="{y}">mean workload K̄, a day</text>"#
    )?;
    writeln!(
        svg,
        r#"<text class="soft" x="20" y="{}">mean tardiness T̄, days of a plant and day</text>"#,
        TOP - 22.0
    )
}

/// Ω, and what it means.
fn floor(answer: &Answer, scale: &Scale, svg: &mut String) -> Result {
    let omega = answer.question.instance.omega();
    let (x, label) = (scale.x(omega), format!("Ω = {}: with less work some are late", number(omega)));
    writeln!(
        svg,
        r##"<line x1="{x:.1}" x2="{x:.1}" y1="{}" y2="{BOTTOM}" stroke="#e5786d" stroke-width="1.5" stroke-dasharray="6 5"/>"##,
        TOP - 12.0
    )?;
    // The axis has its name to the left.
    let (x, anchor) = match x + LETTER * label.chars().count() as f64 <= RIGHT {
        true => (x + 6.0, "start"),
        false => (x - 6.0, "end"),
    };
    let y = TOP - 6.0;
    writeln!(
        svg,
        r##"<text style="fill:#e5786d" text-anchor="{anchor}" x="{x:.1}" y="{y}">{label}</text>"##
    )
}

fn alternatives(answer: &Answer, scale: &Scale, svg: &mut String) -> Result {
    let points: Vec<String> = answer
        .front
        .iter()
        .map(|&index| scale.place(&answer.outcomes[index]))
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    writeln!(
        svg,
        r##"<polyline class="front" points="{}" fill="none" stroke="#c9d1d9" stroke-width="1.5"/>"##,
        points.join(" ")
    )?;
    // Whoever was named first lies on top.
    for (index, outcome) in answer.outcomes.iter().enumerate().rev() {
        let (on_front, (x, y), ink) =
            (answer.front.contains(&index), scale.place(outcome), ink(outcome.policy));
        let (radius, fill) = if on_front { (4.5, ink.as_str()) } else { (3.5, "none") };
        writeln!(
            svg,
            r#"<circle class="alternative" cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{fill}" stroke="{ink}" stroke-width="1.2"><title>capacity {} by {}: tardiness {}, work {}</title></circle>"#,
            outcome.capacity,
            outcome.policy.name(),
            number(outcome.mean_tardiness),
            number(outcome.mean_work)
        )?;
    }
    Ok(())
}

/// The knee, with its name where there is room.
fn mark(answer: &Answer, scale: &Scale, svg: &mut String) -> Result {
    let knee = answer.knee();
    let (x, y) = scale.place(knee);
    let label = format!("knee: capacity {} by {}", knee.capacity, knee.policy.name());
    let width = LETTER * label.chars().count() as f64 + 12.0;
    let left = if x + 34.0 + width <= RIGHT { x + 34.0 } else { x - 34.0 - width };
    let height = 22.0;
    let top = (y - 62.0).max(TOP + 4.0);
    let edge = if left > x { left } else { left + width };
    writeln!(
        svg,
        r##"<g class="knee"><circle cx="{x:.1}" cy="{y:.1}" r="9" fill="none" stroke="#f0f3f6" stroke-width="2"/><line x1="{x:.1}" y1="{:.1}" x2="{edge:.1}" y2="{:.1}" stroke="#f0f3f6"/><rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height}" rx="4" fill="{BACKGROUND}" stroke="#f0f3f6"/><text text-anchor="middle" x="{:.1}" y="{:.1}">{label}</text></g>"##,
        if top + height < y - 9.0 { y - 9.0 } else { y },
        top + height / 2.0,
        left + width / 2.0,
        top + 15.5
    )
}

fn legend(answer: &Answer, svg: &mut String) -> Result {
    let (mut x, y) = (20.0, HEIGHT as f64 - 22.0);
    let tried = |policy: &Policy| answer.outcomes.iter().any(|outcome| outcome.policy == *policy);
    for policy in Policy::ALL.into_iter().filter(tried) {
        key(x, y, &ink(policy), policy.name(), svg)?;
        x += 48.0 + LETTER * policy.name().len() as f64;
    }
    writeln!(
        svg,
        r#"<text class="soft" x="{x}" y="{y}">full: on the front; hollow: another beats it in both</text>"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::garden::ask::Question;
    use tidewatch_lab::garden::made_up;

    #[test]
    fn tiny_numbers_do_not_break_the_file() {
        let outcome = |policy, mean_tardiness, mean_work| Outcome {
            policy,
            capacity: mean_work,
            mean_tardiness,
            mean_work,
            most_tardiness: 1,
            most_work: mean_work,
            probes: 9,
            missed: 1,
        };
        let outcomes = vec![
            outcome(Policy::Medd, 0.2, 1.0),
            outcome(Policy::Edd, 1e-9, 2.0),
            outcome(Policy::PowerOfTwo, 0.0, 3.0),
        ];
        let question = Question {
            instance: made_up::instance(9, 1),
            capacity: 3.0,
            days: 9,
            day: None,
            trials: vec![],
        };
        let svg = to_svg(&Answer::new(question, outcomes));
        assert!(svg.contains("&lt;0.000001"), "{svg}");
        let mut reader = quick_xml::Reader::from_str(&svg);
        while !matches!(reader.read_event().unwrap(), quick_xml::events::Event::Eof) {}
    }

    #[test]
    fn ticks_are_round() {
        let said = |from, to| ticks(from, to, 5.0).into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(said(0.0, 0.26), ["0.0", "0.1", "0.2"]);
        assert_eq!(said(138.0, 360.0), ["150", "200", "250", "300", "350"]);
    }
}
