//! A garden's alternatives and slices for programs.
//!
//! Knows which keys are promised. Must not reckon.

use std::io;

use serde::Serialize;
use serde_json::{Map, Value, json};

use tidewatch_lab::garden::Outcome;
use tidewatch_lab::garden::slice::{Mark, Slice};

use super::Answer;

#[derive(Serialize)]
struct Document {
    plants: usize,
    omega: f64,
    capacity: f64,
    days: u32,
    alternatives: Vec<Alternative>,
    knee: Alternative,
    #[serde(skip_serializing_if = "Option::is_none")]
    slice: Option<Vec<Value>>,
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
    Ok(serde_json::to_string_pretty(&json!({ "slice": rows(slice) }))?)
}

fn rows(slice: &Slice) -> Vec<Value> {
    let row = |row: &tidewatch_lab::garden::slice::SliceRow| {
        let mut map = Map::new();
        for (dim, mark) in slice.by.iter().zip(&row.marks) {
            let value = match mark {
                Mark::Capacity(capacity) => json!(capacity),
                Mark::Name(name) => json!(name),
                Mark::Day(day) => json!(day),
            };
            map.insert(dim.name().to_owned(), value);
        }
        map.insert("tardiness".to_owned(), json!(row.tardiness));
        map.insert("workload".to_owned(), json!(row.workload));
        map.insert("probes".to_owned(), json!(row.probes));
        map.insert("missed".to_owned(), json!(row.missed));
        map.insert("mean_tardiness".to_owned(), json!(row.mean_tardiness()));
        map.insert("mean_workload".to_owned(), json!(row.mean_workload()));
        Value::Object(map)
    };
    slice.rows.iter().map(row).collect()
}
