//! Runs all trials with a progress bar, and writes their cells to the cube.
//!
//! Cells pass through a channel with room for a few batches; trials block when it is full.

use std::sync::mpsc::{Receiver, sync_channel};

use tokio::runtime::Runtime;

use crate::cli::error::CliError;
use crate::cli::simulate::progress::Bar;
use tidewatch_lab::garden::answer::GardenQuestion;
use tidewatch_lab::garden::cube::{Cube, CubeError};
use tidewatch_lab::garden::instance::units;
use tidewatch_lab::garden::outcome::GardenOutcome;
use tidewatch_lab::garden::trials::{self, Batch};

/// Batches that the channel holds.
const WAITING: usize = 8;

/// Outcomes of all trials, in order.
pub fn all(
    question: &GardenQuestion,
    cube: Option<&mut Cube>,
    runtime: &Runtime,
) -> Result<Vec<GardenOutcome>, CliError> {
    let bar = Bar::new(question.trials.len() as u64 * u64::from(question.days));
    let (sender, receiver) = sync_channel(WAITING);
    let sender = cube.is_some().then_some(sender);
    let outcomes: Option<Vec<GardenOutcome>> = std::thread::scope(|scope| {
        let writer = cube.map(|cube| scope.spawn(move || write(cube, &receiver, runtime)));
        let outcomes = trials::all(question, sender.as_ref(), &|days| bar.forward(days));
        // The writer ends when the channel is closed.
        drop(sender);
        match writer.map(std::thread::ScopedJoinHandle::join) {
            Some(Ok(written)) => written?,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => {}
        }
        Ok::<_, CubeError>(outcomes)
    })?;
    outcomes.ok_or_else(|| CliError::Refused("the trials were cut short".to_owned()))
}

fn write(cube: &mut Cube, batches: &Receiver<Batch>, runtime: &Runtime) -> Result<(), CubeError> {
    for (trial, cells) in batches {
        runtime.block_on(cube.add(units(trial.capacity), trial.policy.name(), &cells))?;
    }
    Ok(())
}
