//! A garden's alternatives and slices as JSON.
//!
//! The keys are stable. Must not compute measures.

use std::io;

use serde::Serialize;

use super::answer::GardenAnswer;
use super::cube::slice::{Dim, Slice, SliceMark, SliceRow};
use super::outcome::GardenOutcome;

#[derive(Serialize)]
struct GardenDocument<'s> {
    plants: usize,
    omega: f64,
    capacity: f64,
    days: u32,
    alternatives: Vec<Alternative>,
    knee: Alternative,
    #[serde(skip_serializing_if = "Option::is_none")]
    slice: Option<Vec<GardenRow<'s>>>,
}

/// A row of a slice: the dimensions that it is grouped by, and the measures, by name.
#[derive(Serialize, Default)]
struct GardenRow<'s> {
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
    slice: Vec<GardenRow<'s>>,
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
    fn of(outcome: &GardenOutcome, on_front: bool) -> Self {
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

/// The whole answer in one document.
pub fn document(answer: &GardenAnswer, slice: Option<&Slice>) -> io::Result<String> {
    let question = &answer.question;
    let alternative = |(index, outcome)| Alternative::of(outcome, answer.front.contains(&index));
    let document = GardenDocument {
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

/// A slice of an existing cube.
pub fn slice(slice: &Slice) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(&Sliced { slice: rows(slice) })?)
}

fn rows(slice: &Slice) -> Vec<GardenRow<'_>> {
    slice.rows.iter().map(|row| GardenRow::of(slice, row)).collect()
}

impl<'s> GardenRow<'s> {
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
                (_, SliceMark::Capacity(capacity)) => document.capacity = Some(*capacity),
                (_, SliceMark::Day(day)) => document.day = Some(*day),
                (Dim::Policy, SliceMark::Name(name)) => document.policy = Some(name),
                (Dim::Group, SliceMark::Name(name)) => document.group = Some(name),
                (_, SliceMark::Name(name)) => document.window = Some(name),
            }
        }
        document
    }
}
