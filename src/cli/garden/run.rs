//! All trials with a progress bar, their cells written to the cube as they come.
//!
//! Cells pass through a channel that holds a few batches: trials wait for the writer when it is full.

use std::sync::mpsc::{Receiver, sync_channel};

use tokio::runtime::Runtime;

use crate::cli::error::CliError;
use crate::cli::simulate::progress::Bar;
use tidewatch_lab::garden::answer::Question;
use tidewatch_lab::garden::cube::{Cube, CubeError};
use tidewatch_lab::garden::instance::units;
use tidewatch_lab::garden::outcome::Outcome;
use tidewatch_lab::garden::trials::{self, Batch};

/// Batches that may wait.
const WAITING: usize = 8;

/// What came of each trial, in order.
pub fn all(
    question: &Question,
    cube: Option<&mut Cube>,
    runtime: &Runtime,
) -> Result<Vec<Outcome>, CliError> {
    let bar = Bar::new(question.trials.len() as u64 * u64::from(question.days));
    let (sender, receiver) = sync_channel(WAITING);
    let sender = cube.is_some().then_some(sender);
    let outcomes: Option<Vec<Outcome>> = std::thread::scope(|scope| {
        let writer = cube.map(|cube| scope.spawn(move || write(cube, &receiver, runtime)));
        let outcomes = trials::all(question, sender.as_ref(), &|days| bar.forward(days));
        // The writer ends when nothing more can come.
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
