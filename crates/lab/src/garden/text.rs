//! A garden's answer as text and tables: tardiness and work of each alternative on the front, and the knee.

use crate::tables::{Emphasis, ResultTable, TableEntry, entry};
use crate::words::{cut, number, plural};

use super::answer::{GardenAnswer, GardenDay};
use super::cube::slice::{Slice, SliceMark, SliceRow};
use super::outcome::GardenOutcome;
use super::policy::GardenPolicy;

/// The number of plants, their least mean work, and the capacity.
pub fn title(answer: &GardenAnswer) -> String {
    let question = &answer.question;
    let plants = question.instance.plants().len();
    format!(
        "{plants} plant{}, Ω = {} a day, k = {}{}",
        plural(plants),
        number(question.instance.omega()),
        question.capacity,
        question.day.map_or_else(String::new, |GardenDay { steps, step }| match steps {
            1 => format!("; a day is a step of {step}"),
            steps => format!("; a day is {steps} steps of {step}"),
        })
    )
}

/// The number of days and alternatives.
pub fn summary(answer: &GardenAnswer) -> String {
    let (all, front) = (answer.outcomes.len(), answer.front.len());
    let days = answer.question.days;
    format!(
        "{days} day{}, {all} alternative{}, {front} that no other beats in both",
        plural(days as usize),
        plural(all)
    )
}

/// The alternatives on the front.
pub fn front(answer: &GardenAnswer) -> ResultTable {
    let heads =
        ["capacity", "policy", "mean tardiness", "mean workload", "T_max", "K_max", "probes", "missed", ""];
    let row = |&index: &usize| -> Vec<TableEntry> {
        let outcome = &answer.outcomes[index];
        let (mark, at_knee) = match index == answer.knee {
            true => ("knee", Emphasis::Good),
            false => ("", Emphasis::Plain),
        };
        let late = if outcome.missed == 0 { Emphasis::Good } else { Emphasis::Plain };
        vec![
            entry(outcome.capacity.to_string()).marked(at_knee),
            entry(outcome.policy.name()),
            entry(tardiness(outcome.mean_tardiness)).marked(late),
            entry(work(outcome.mean_work)),
            entry(outcome.most_tardiness.to_string()),
            entry(work(outcome.most_work)),
            entry(outcome.probes.to_string()),
            entry(outcome.missed.to_string()).marked(late),
            entry(mark).marked(at_knee),
        ]
    };
    ResultTable::new(heads, answer.front.iter().map(row).collect())
}

/// Tardiness with enough digits to distinguish neighbours.
fn tardiness(days: f64) -> String {
    match days {
        days if days >= 1.0 => format!("{days:.2}"),
        days if days >= 0.001 => format!("{days:.4}"),
        days => number(days),
    }
}

/// Work with enough digits to distinguish neighbours.
fn work(units: f64) -> String {
    if units >= 10.0 { format!("{units:.1}") } else { format!("{units:.3}") }
}

/// The alternative at the knee, the reason, and the configuration lines for it, line by line.
pub fn knee(answer: &GardenAnswer) -> Vec<String> {
    let knee = answer.knee();
    let mut lines = vec![
        format!(
            "The knee is capacity {} by {}: {} days late a plant and day, work of {} a day, {} times Ω.",
            knee.capacity,
            knee.policy.name(),
            tardiness(knee.mean_tardiness),
            work(knee.mean_work),
            number(knee.mean_work / answer.question.instance.omega().max(f64::MIN_POSITIVE))
        ),
        why(answer, knee),
    ];
    if answer.bend > 0.0 {
        let bend = number(answer.bend);
        lines.push(format!("It is farthest from the line through the front's ends, {bend} of both axes."));
    } else if answer.front.len() > 1 {
        lines.push(
            "The front hardly bends elsewhere, so the end that is least late is taken for its knee."
                .to_owned(),
        );
    }
    lines.push(in_time(answer));
    if knee.policy != GardenPolicy::Medd {
        let name = knee.policy.name();
        lines.push(format!("{name} is there to compare with; a fleet of that capacity works by medd."));
    }
    let steps = answer.question.day.map_or(1.0, |day| f64::from(day.steps));
    // Rounded up, so that no capacity is lost. Written with a decimal point, as a measured value.
    let capacity = (knee.capacity / steps * 1e4).ceil() / 1e4;
    lines.extend([String::new(), "[fleet]".to_owned(), format!("capacity = {capacity:?}")]);
    lines
}

/// The least capacity at which each policy is always in time.
fn in_time(answer: &GardenAnswer) -> String {
    let least = |policy: GardenPolicy| {
        let in_time = answer.outcomes.iter().filter(|o| o.policy == policy && o.missed == 0);
        in_time.min_by(|one, other| one.capacity.total_cmp(&other.capacity))
    };
    let message = |outcome: &GardenOutcome| {
        let (name, work) = (outcome.policy.name(), work(outcome.mean_work));
        format!("{name} at {} (work of {work})", outcome.capacity)
    };
    let all: Vec<String> = GardenPolicy::ALL.into_iter().filter_map(least).map(message).collect();
    match all.is_empty() {
        true => format!("No policy was always in time with {} or less.", answer.question.capacity),
        false => format!("Always in time: {}.", all.join(", ")),
    }
}

fn why(answer: &GardenAnswer, knee: &GardenOutcome) -> String {
    let end = |index: Option<&usize>| index.map_or(knee, |&index| &answer.outcomes[index]);
    let (first, last) = (end(answer.front.first()), end(answer.front.last()));
    let saved = |from: &GardenOutcome, to: &GardenOutcome| {
        (to.mean_work > from.mean_work)
            .then(|| (from.mean_tardiness - to.mean_tardiness) / (to.mean_work - from.mean_work))
    };
    match (saved(first, knee), saved(knee, last)) {
        (None, None) => "No other is better in either: it is the only one on the front.".to_owned(),
        (Some(before), Some(after)) => format!(
            "Up to it a unit of work a day buys {} of mean tardiness, beyond it {}.",
            number(before),
            number(after)
        ),
        (Some(before), None) => {
            format!(
                "Up to it a unit of work a day buys {} of mean tardiness; none is less late.",
                number(before)
            )
        }
        (None, Some(after)) => {
            format!(
                "Beyond it a unit of work a day buys {} of mean tardiness; none works less.",
                number(after)
            )
        }
    }
}

/// The grouping and filters of a slice.
pub fn slice_title(slice: &Slice) -> String {
    let by: Vec<&str> = slice.by.iter().map(|dim| dim.name()).collect();
    let held: Vec<String> =
        slice.held.iter().map(|(dim, mark)| format!("{} is {}", dim.name(), message(mark))).collect();
    let held = if held.is_empty() { String::new() } else { format!(", where {}", held.join(" and ")) };
    format!("by {}{held}", by.join(" and "))
}

/// The rows of a slice.
pub fn slice(slice: &Slice) -> ResultTable {
    let measures = ["days late", "workload", "probes", "missed", "late a plant and day", "work a day"];
    let heads = slice.by.iter().map(|dim| dim.name()).chain(measures);
    let row = |row: &SliceRow| -> Vec<TableEntry> {
        let measures = [
            row.tardiness.to_string(),
            format!("{:.2}", row.workload),
            row.probes.to_string(),
            row.missed.to_string(),
            number(row.mean_tardiness()),
            number(row.mean_workload()),
        ];
        row.marks.iter().map(message).chain(measures).map(entry).collect()
    };
    ResultTable::new(heads, slice.rows.iter().map(row).collect())
}

fn message(mark: &SliceMark) -> String {
    match mark {
        SliceMark::Capacity(capacity) => capacity.to_string(),
        SliceMark::Day(day) => day.to_string(),
        SliceMark::Name(name) if name.is_empty() => "–".to_owned(),
        SliceMark::Name(name) => cut(name, 40),
    }
}
