//! `tidewatch garden`: what a capacity costs and what it buys, from too little work to more than enough.
//!
//! Sources that must be looked at within some time are plants that must be watered (B. J. Gao et al., *The Gardener's
//! Problem*, 2009). Every policy is tried with many capacities (MMEDD); of what comes of them only those are worth a
//! thought that no other beats in both tardiness and work. Knows the order of things. Must not simulate, nor lay
//! anything out.

use std::io::Write;
use std::path::Path;

use crate::store::StoreError;
use tidewatch_lab::garden::cube::{BedRow, Cube, CubeError, RunRow};
use tidewatch_lab::garden::{Outcome, front};

use super::{CliError, colours, runtime, write_file};

mod ask;
mod configured;
mod file;
mod json;
mod run;
mod scatter;
mod show;
mod sliced;
mod svg;

pub use ask::Args;
use ask::Question;

impl From<CubeError> for CliError {
    fn from(error: CubeError) -> Self {
        match error {
            CubeError::Sql(error) => Self::Store(StoreError::Sql(error)),
            error => Self::Refused(error.to_string()),
        }
    }
}

/// What came of a question.
#[derive(Debug)]
pub struct Answer {
    /// The question.
    question: Question,
    /// Every alternative.
    outcomes: Vec<Outcome>,
    /// The places of those that none dominates, by work.
    front: Vec<usize>,
    /// Of these the one at the knee, within the largest capacity.
    knee: usize,
    /// How much the front bends there.
    bend: f64,
}

impl Answer {
    fn new(question: Question, outcomes: Vec<Outcome>) -> Self {
        let front = front::front(&outcomes);
        // Whoever keeps to no capacity may need more than there is.
        let within = |&index: &usize| outcomes[index].capacity <= question.capacity;
        let allowed: Vec<usize> = front.iter().copied().filter(within).collect();
        let of = if allowed.is_empty() { &front } else { &allowed };
        let knee = front::knee(&outcomes, of).unwrap_or(0);
        let bend = front::bend(&outcomes, of, knee);
        Self { question, outcomes, front, knee, bend }
    }

    fn knee(&self) -> &Outcome {
        &self.outcomes[self.knee]
    }

    /// The rows of the cube's `runs`.
    fn runs(&self) -> Vec<RunRow> {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let row = |(index, outcome): (usize, &Outcome)| RunRow {
            capacity: outcome.capacity,
            policy: outcome.policy.name().to_owned(),
            days: i64::from(self.question.days),
            mean_tardiness: outcome.mean_tardiness,
            mean_workload: outcome.mean_work,
            most_tardiness: signed(outcome.most_tardiness),
            most_workload: outcome.most_work,
            probes: signed(outcome.probes),
            missed: signed(outcome.missed),
            on_front: self.front.contains(&index),
        };
        self.outcomes.iter().enumerate().map(row).collect()
    }
}

/// Tries out and shows, or slices a cube that is there.
pub fn run(arguments: &Args, config: Option<&Path>, out: &mut dyn Write) -> Result<(), CliError> {
    let (runtime, by) = (runtime()?, arguments.by());
    if let Some(file) = arguments.only_sliced() {
        if arguments.svg.is_some() {
            return Err(CliError::Usage("--svg draws a garden that is tried out; name one".to_owned()));
        }
        let slice =
            runtime.block_on(async { Cube::open(file).await?.slice(&by, &arguments.held).await })?;
        match arguments.json {
            true => writeln!(out, "{}", json::slice(&slice)?)?,
            false => sliced::table(&slice, colours(), out)?,
        }
        return Ok(());
    }
    let question = arguments.question(config)?;
    let mut cube = match arguments.cube.is_some() || !by.is_empty() {
        true => Some(runtime.block_on(Cube::begin(arguments.cube.as_deref(), &beds(&question)))?),
        false => None,
    };
    let outcomes = match (run::all(&question, cube.as_mut(), &runtime), cube.take()) {
        (Err(error), Some(cube)) => {
            runtime.block_on(cube.discard())?;
            return Err(error);
        }
        (outcomes, untouched) => {
            cube = untouched;
            outcomes?
        }
    };
    let answer = Answer::new(question, outcomes);
    let slice = match cube {
        Some(mut cube) => runtime.block_on(async {
            cube.conclude(&answer.runs()).await?;
            let slice = if by.is_empty() { None } else { Some(cube.slice(&by, &arguments.held).await) };
            // Whether or not there is such a slice, what was found stays.
            cube.keep().await?;
            slice.transpose()
        })?,
        None => None,
    };
    if let Some(file) = &arguments.svg {
        write_file(file, &svg::to_svg(&answer))?;
    }
    if arguments.json {
        writeln!(out, "{}", json::document(&answer, slice.as_ref())?)?;
    } else {
        show::all(&answer, colours(), out)?;
        if let Some(slice) = &slice {
            writeln!(out)?;
            sliced::table(slice, colours(), out)?;
        }
    }
    Ok(())
}

fn beds(question: &Question) -> Vec<BedRow> {
    let row = |bed: &tidewatch_lab::garden::Bed| BedRow {
        group: bed.group.clone(),
        window_class: bed.window_class(),
        plants: i64::try_from(bed.plants).unwrap_or(i64::MAX),
        omega: bed.omega,
    };
    question.instance.beds().iter().map(row).collect()
}
