//! A garden's alternatives and slices for programs.
//!
//! Knows which keys are promised. Must not reckon.

use std::io;

use serde::Serialize;

use super::answer::Answer;
use super::cube::slice::{Dim, Mark, Slice, SliceRow};
use super::outcome::Outcome;

#[derive(Serialize)]
struct Document<'s> {
    plants: usize,
    omega: f64,
    capacity: f64,
    days: u32,
    alternatives: Vec<Alternative>,
    knee: Alternative,
    #[serde(skip_serializing_if = "Option::is_none")]
    slice: Option<Vec<Row<'s>>>,
}

/// A row of a slice: the dimensions that it is summed up by, and the measures, by name.
#[derive(Serialize, Default)]
struct Row<'s> {
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'s str>,
    mean_tardiness: f64,
    mean_workload: f64,
    missed: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'s str>,
    probes: i64,
    tardiness: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<&'s str>,
    workload: f64,
}

#[derive(Serialize)]
struct Sliced<'s> {
    slice: Vec<Row<'s>>,
}

#[derive(Serialize)]
struct Alternative {
    policy: &'static str,
    capacity: f64,
    mean_tardiness: f64,
    mean_workload: f64,
    most_tardiness: u64,
    most_workload: f64,
    probes: u64,
    missed: u64,
    on_front: bool,
}

impl Alternative {
    fn of(outcome: &Outcome, on_front: bool) -> Self {
        Self {
            policy: outcome.policy.name(),
            capacity: outcome.capacity,
            mean_tardiness: outcome.mean_tardiness,
            mean_workload: outcome.mean_work,
            most_tardiness: outcome.most_tardiness,
            most_workload: outcome.most_work,
            probes: outcome.probes,
            missed: outcome.missed,
            on_front,
        }
    }
}

/// Everything in one document.
pub fn document(answer: &Answer, slice: Option<&Slice>) -> io::Result<String> {
    let question = &answer.question;
    let alternative = |(index, outcome)| Alternative::of(outcome, answer.front.contains(&index));
    let document = Document {
        plants: question.instance.plants().len(),
        omega: question.instance.omega(),
        capacity: question.capacity,
        days: question.days,
        alternatives: answer.outcomes.iter().enumerate().map(alternative).collect(),
        knee: Alternative::of(answer.knee(), true),
        slice: slice.map(rows),
    };
    Ok(serde_json::to_string_pretty(&document)?)
}

/// A slice of a cube that was there.
pub fn slice(slice: &Slice) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(&Sliced { slice: rows(slice) })?)
}

fn rows(slice: &Slice) -> Vec<Row<'_>> {
    slice.rows.iter().map(|row| Row::of(slice, row)).collect()
}

impl<'s> Row<'s> {
    fn of(slice: &Slice, row: &'s SliceRow) -> Self {
        let mut document = Self {
            mean_tardiness: row.mean_tardiness(),
            mean_workload: row.mean_workload(),
            missed: row.missed,
            probes: row.probes,
            tardiness: row.tardiness,
            workload: row.workload,
            ..Self::default()
        };
        for (dim, mark) in slice.by.iter().zip(&row.marks) {
            match (dim, mark) {
                (_, Mark::Capacity(capacity)) => document.capacity = Some(*capacity),
                (_, Mark::Day(day)) => document.day = Some(*day),
                (Dim::Policy, Mark::Name(name)) => document.policy = Some(name),
                (Dim::Group, Mark::Name(name)) => document.group = Some(name),
                (_, Mark::Name(name)) => document.window = Some(name),
            }
        }
        document
    }
}
