//! The front for people: what each capacity on it costs and buys, and which one bends it.
//!
//! Knows which figures are told and in which words. Must not reckon costs.

use std::io::{self, Write};

use crate::cli::table::{Cell, Tone, cell, print};
use crate::cli::words::number;
use tidewatch_lab::garden::{Outcome, Policy};

use super::configured::Day;
use super::{Answer, scatter};

/// All of it.
pub fn all(answer: &Answer, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", title(answer))?;
    writeln!(out, "{}", summary(answer))?;
    writeln!(out)?;
    front(answer, colours, out)?;
    writeln!(out)?;
    for line in scatter::lines(answer) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    knee(answer, out)
}

/// How many, what they cost at least, and what there is.
pub fn title(answer: &Answer) -> String {
    let question = &answer.question;
    let plants = question.instance.plants().len();
    format!(
        "{plants} plant{}, Ω = {} a day, k = {}{}",
        if plants == 1 { "" } else { "s" },
        number(question.instance.omega()),
        question.capacity,
        question.day.map_or_else(String::new, |Day { steps, step }| match steps {
            1 => format!("; a day is a step of {step}"),
            steps => format!("; a day is {steps} steps of {step}"),
        })
    )
}

/// What was tried.
pub fn summary(answer: &Answer) -> String {
    let (all, front) = (answer.outcomes.len(), answer.front.len());
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let days = answer.question.days;
    format!(
        "{days} day{}, {all} alternative{}, {front} that no other beats in both",
        plural(days as usize),
        plural(all)
    )
}

fn front(answer: &Answer, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let heads =
        ["capacity", "policy", "mean tardiness", "mean workload", "T_max", "K_max", "probes", "missed", ""];
    let row = |&index: &usize| -> Vec<Cell> {
        let outcome = &answer.outcomes[index];
        let (mark, tone) = if index == answer.knee { ("knee", Tone::Good) } else { ("", Tone::Plain) };
        let late = if outcome.missed == 0 { Tone::Good } else { Tone::Plain };
        vec![
            cell(outcome.capacity.to_string()).tone(tone),
            cell(outcome.policy.name()),
            cell(tardiness(outcome.mean_tardiness)).tone(late),
            cell(work(outcome.mean_work)),
            cell(outcome.most_tardiness.to_string()),
            cell(work(outcome.most_work)),
            cell(outcome.probes.to_string()),
            cell(outcome.missed.to_string()).tone(late),
            cell(mark).tone(tone),
        ]
    };
    print(out, &heads, &answer.front.iter().map(row).collect::<Vec<_>>(), colours)
}

/// Tardiness with the digits that tell neighbours apart.
fn tardiness(days: f64) -> String {
    match days {
        days if days >= 1.0 => format!("{days:.2}"),
        days if days >= 0.001 => format!("{days:.4}"),
        days => number(days),
    }
}

/// Work with the digits that tell neighbours apart.
fn work(units: f64) -> String {
    if units >= 10.0 { format!("{units:.1}") } else { format!("{units:.3}") }
}

/// Which it is, why, and what to write down.
fn knee(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    let knee = answer.knee();
    writeln!(
        out,
        "The knee is capacity {} by {}: {} days late a plant and day, work of {} a day, {} times Ω.",
        knee.capacity,
        knee.policy.name(),
        tardiness(knee.mean_tardiness),
        work(knee.mean_work),
        number(knee.mean_work / answer.question.instance.omega().max(f64::MIN_POSITIVE))
    )?;
    writeln!(out, "{}", why(answer, knee))?;
    match answer.bend > 0.0 {
        true => writeln!(
            out,
            "It is farthest from the line through the front's ends, {} of both axes.",
            number(answer.bend)
        )?,
        false if answer.front.len() > 1 => {
            writeln!(
                out,
                "The front hardly bends elsewhere, so the end that is least late is taken for its knee."
            )?;
        }
        false => {}
    }
    writeln!(out, "{}", in_time(answer))?;
    if knee.policy != Policy::Medd {
        writeln!(
            out,
            "{} is there to compare with; a fleet of that capacity works by medd.",
            knee.policy.name()
        )?;
    }
    writeln!(out)?;
    // A point, whatever the number: it is one that is measured, not counted.
    let steps = answer.question.day.map_or(1.0, |day| f64::from(day.steps));
    // Up, so that nothing is lost by rounding.
    writeln!(out, "[fleet]\ncapacity = {:?}", (knee.capacity / steps * 1e4).ceil() / 1e4)
}

/// With how much each would have been in time throughout.
fn in_time(answer: &Answer) -> String {
    let least = |policy: Policy| {
        let in_time = answer.outcomes.iter().filter(|o| o.policy == policy && o.missed == 0);
        in_time.min_by(|one, other| one.capacity.total_cmp(&other.capacity))
    };
    let said = |outcome: &Outcome| {
        let (name, work) = (outcome.policy.name(), work(outcome.mean_work));
        format!("{name} at {} (work of {work})", outcome.capacity)
    };
    let all: Vec<String> = Policy::ALL.into_iter().filter_map(least).map(said).collect();
    match all.is_empty() {
        true => format!("Nobody was always in time with {} or less.", answer.question.capacity),
        false => format!("Always in time: {}.", all.join(", ")),
    }
}

fn why(answer: &Answer, knee: &Outcome) -> String {
    let end = |index: Option<&usize>| index.map_or(knee, |&index| &answer.outcomes[index]);
    let (first, last) = (end(answer.front.first()), end(answer.front.last()));
    let saved = |from: &Outcome, to: &Outcome| {
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
