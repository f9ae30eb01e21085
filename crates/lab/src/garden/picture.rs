//! The front as a picture, in one self-contained SVG file.
//!
//! Work is from left to right, tardiness upwards. Ω is a vertical line: alternatives left of it must be late.
//! The file has a title and a description for screen readers.

use crate::draw::chart::{points, round_ticks};
use crate::draw::colour::{BACKGROUND, LILAC, ramp};
use crate::draw::svg::{Picture, Shape, tenth};
use crate::words::number;

use super::answer::GardenAnswer;
use super::outcome::GardenOutcome;
use super::policy::GardenPolicy;
use super::text::{summary, title};

const WIDTH: usize = 1000;
const HEIGHT: usize = 560;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 970.0;
const TOP: f64 = 104.0;
const BOTTOM: f64 = 462.0;
/// Approximate width of a letter.
const LETTER: f64 = 7.0;
/// The colour of Ω.
const RED: &str = "#e5786d";
/// The colour of the knee.
const WHITE: &str = "#f0f3f6";

/// The front as an SVG document.
pub fn to_svg(answer: &GardenAnswer) -> String {
    let (title, scale, knee) = (title(answer), ColourScale::of(answer), answer.knee());
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
    let mut picture = Picture::new((WIDTH, HEIGHT), "What a capacity costs", &description, style);
    picture.head(&title, (54, &summary(answer)));
    axes(&scale, &mut picture);
    floor(answer, &scale, &mut picture);
    alternatives(answer, &scale, &mut picture);
    mark(answer, &scale, &mut picture);
    legend(answer, &mut picture);
    picture.finish() + "\n"
}

/// The ranges of both axes.
struct ColourScale {
    from: f64,
    to: f64,
    most: f64,
}

impl ColourScale {
    fn of(answer: &GardenAnswer) -> Self {
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

    fn place(&self, outcome: &GardenOutcome) -> (f64, f64) {
        (self.x(outcome.mean_work), self.y(outcome.mean_tardiness))
    }
}

fn ink(policy: GardenPolicy) -> String {
    match policy {
        GardenPolicy::Medd => ramp(1.0),
        GardenPolicy::Edd => "#58a6ff".to_owned(),
        GardenPolicy::MeddPrinted => LILAC.to_owned(),
        GardenPolicy::PowerOfTwo => "#3fb68b".to_owned(),
    }
}

fn axes(scale: &ColourScale, picture: &mut Picture) {
    for (work, label) in round_ticks(scale.from, scale.to, 8.0) {
        let x = scale.x(work);
        picture.add(&Shape::line((tenth(x), TOP), (tenth(x), BOTTOM + 6.0)).class("line"));
        let below = Shape::text(tenth(x), BOTTOM + 20.0, &label);
        picture.add(&below.anchor("middle").class("small"));
    }
    for (late, label) in round_ticks(0.0, scale.most, 6.0) {
        let y = scale.y(late);
        picture.add(&Shape::line((LEFT - 6.0, tenth(y)), (RIGHT, tenth(y))).class("line"));
        let beside = Shape::text(LEFT - 10.0, tenth(y + 4.0), &label);
        picture.add(&beside.anchor("end").class("small"));
    }
    let both = format!("M{LEFT} {TOP}V{BOTTOM}H{RIGHT}");
    picture.add(&Shape::new("path").class("axis").fill("none").with("d", both));
    let work = Shape::text(RIGHT, BOTTOM + 40.0, "mean workload K̄, a day");
    picture.add(&work.anchor("end").class("soft"));
    let late = Shape::text(20, TOP - 22.0, "mean tardiness T̄, days of a plant and day");
    picture.add(&late.class("soft"));
}

/// Ω as a line with a label.
fn floor(answer: &GardenAnswer, scale: &ColourScale, picture: &mut Picture) {
    let omega = answer.question.instance.omega();
    let (x, label) = (scale.x(omega), format!("Ω = {}: with less work some are late", number(omega)));
    let line = Shape::line((tenth(x), TOP - 12.0), (tenth(x), BOTTOM)).stroke(RED);
    picture.add(&line.with("stroke-width", 1.5).with("stroke-dasharray", "6 5"));
    // The name of the axis is at the left.
    let (x, anchor) = match x + LETTER * label.chars().count() as f64 <= RIGHT {
        true => (x + 6.0, "start"),
        false => (x - 6.0, "end"),
    };
    let text = Shape::text(tenth(x), TOP - 6.0, &label).anchor(anchor);
    picture.add(&text.with("style", format!("fill:{RED}")));
}

fn alternatives(answer: &GardenAnswer, scale: &ColourScale, picture: &mut Picture) {
    let front = answer.front.iter().map(|&index| scale.place(&answer.outcomes[index]));
    let line = Shape::new("polyline").class("front").with("points", points(front));
    picture.add(&line.fill("none").stroke("#c9d1d9").with("stroke-width", 1.5));
    // Drawn in reverse, so that the policy named first is on top.
    for (index, outcome) in answer.outcomes.iter().enumerate().rev() {
        let ((x, y), ink) = (scale.place(outcome), ink(outcome.policy));
        let (radius, fill) =
            if answer.front.contains(&index) { (4.5, ink.as_str()) } else { (3.5, "none") };
        let hint = format!(
            "capacity {} by {}: tardiness {}, work {}",
            outcome.capacity,
            outcome.policy.name(),
            number(outcome.mean_tardiness),
            number(outcome.mean_work)
        );
        let circle = Shape::circle(tenth(x), tenth(y), radius).class("alternative").fill(fill).stroke(&ink);
        picture.add(&circle.with("stroke-width", 1.2).hint(&hint));
    }
}

/// The knee, with a label where there is space.
fn mark(answer: &GardenAnswer, scale: &ColourScale, picture: &mut Picture) {
    let knee = answer.knee();
    let (x, y) = scale.place(knee);
    let label = format!("knee: capacity {} by {}", knee.capacity, knee.policy.name());
    let width = LETTER * label.chars().count() as f64 + 12.0;
    let left = if x + 34.0 + width <= RIGHT { x + 34.0 } else { x - 34.0 - width };
    let height = 22.0;
    let top = (y - 62.0).max(TOP + 4.0);
    let edge = if left > x { left } else { left + width };
    let from = if top + height < y - 9.0 { y - 9.0 } else { y };
    let circle = Shape::circle(tenth(x), tenth(y), 9).fill("none").stroke(WHITE).with("stroke-width", 2);
    let line = Shape::line((tenth(x), tenth(from)), (tenth(edge), tenth(top + height / 2.0))).stroke(WHITE);
    let plate = Shape::rect(tenth(left), tenth(top), tenth(width), height).with("rx", 4);
    let plate = plate.fill(BACKGROUND).stroke(WHITE);
    let name = Shape::text(tenth(left + width / 2.0), tenth(top + 15.5), &label).anchor("middle");
    picture.add(&Shape::new("g").class("knee").around(&circle).around(&line).around(&plate).around(&name));
}

fn legend(answer: &GardenAnswer, picture: &mut Picture) {
    let (mut x, y) = (20.0, HEIGHT as f64 - 22.0);
    let tried = |policy: &GardenPolicy| answer.outcomes.iter().any(|outcome| outcome.policy == *policy);
    for policy in GardenPolicy::ALL.into_iter().filter(tried) {
        picture.key(x, y, &ink(policy), policy.name());
        x += 48.0 + LETTER * policy.name().len() as f64;
    }
    picture.add(&Shape::text(x, y, "full: on the front; hollow: another beats it in both").class("soft"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garden::answer::GardenQuestion;
    use crate::garden::made_up;

    #[test]
    fn tiny_numbers_give_well_formed_xml() {
        let outcome = |policy, mean_tardiness, mean_work| GardenOutcome {
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
            outcome(GardenPolicy::Medd, 0.2, 1.0),
            outcome(GardenPolicy::Edd, 1e-9, 2.0),
            outcome(GardenPolicy::PowerOfTwo, 0.0, 3.0),
        ];
        let question = GardenQuestion {
            instance: made_up::instance(9, 1),
            capacity: 3.0,
            days: 9,
            day: None,
            trials: vec![],
        };
        let svg = to_svg(&GardenAnswer::new(question, outcomes));
        assert!(svg.contains("&lt;0.000001"), "{svg}");
        let mut reader = quick_xml::Reader::from_str(&svg);
        while !matches!(reader.read_event().unwrap(), quick_xml::events::Event::Eof) {}
    }
}
