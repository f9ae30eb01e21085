//! All trials on all cores, their cells on the way to the cube as they come.
//!
//! Cells pass through a channel that holds a few batches: whoever is ahead of the writer waits for it, and memory
//! stays what it is however long the walk. Must not know what trials are for nor how results are shown.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::runtime::Runtime;

use crate::cli::CliError;
use crate::cli::simulate::progress::Bar;
use tidewatch_lab::contest::on_all_cores;
use tidewatch_lab::garden::cube::{CellRow, Cube, CubeError};
use tidewatch_lab::garden::walk::{Cell, Trial, walk};
use tidewatch_lab::garden::{Outcome, units};

use super::ask::Question;

/// Cells that are written at once.
const BATCH: usize = 8192;

/// Batches that may wait.
const WAITING: usize = 8;

/// The bar moves on after so many days.
const EVERY: u64 = 50;

/// Some cells of a trial.
type Batch = (Trial, Vec<CellRow>);

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
        let outcomes = on_all_cores(question.trials.len(), |index| {
            try_out(question, question.trials[index], sender.as_ref(), &bar)
        });
        // The writer ends when nothing more can come.
        drop(sender);
        match writer.map(std::thread::ScopedJoinHandle::join) {
            Some(Ok(written)) => written?,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => {}
        }
        Ok::<_, CubeError>(outcomes.into_iter().collect())
    })?;
    outcomes.ok_or_else(|| CliError::Refused("the trials were cut short".to_owned()))
}

fn write(cube: &mut Cube, batches: &Receiver<Batch>, runtime: &Runtime) -> Result<(), CubeError> {
    for (trial, cells) in batches {
        runtime.block_on(cube.add(units(trial.capacity), trial.policy.name(), &cells))?;
    }
    Ok(())
}

/// One trial from its first day to its last, unless the writer has given up.
fn try_out(
    question: &Question,
    trial: Trial,
    sender: Option<&SyncSender<Batch>>,
    bar: &Bar,
) -> Option<Outcome> {
    let (mut batch, mut days) = (Vec::new(), 0);
    let row = |cell: &Cell| (cell.bed, cell.day, cell.tardiness, cell.work, cell.probes, cell.missed);
    let outcome = walk(&question.instance, trial, &mut |cells| {
        days += 1;
        if days == EVERY {
            bar.forward(std::mem::take(&mut days));
        }
        let Some(sender) = sender else { return true };
        batch.extend(cells.iter().map(row));
        batch.len() < BATCH || sender.send((trial, std::mem::take(&mut batch))).is_ok()
    })?;
    bar.forward(days);
    match sender {
        Some(sender) if !batch.is_empty() => sender.send((trial, batch)).ok().map(|()| outcome),
        _ => Some(outcome),
    }
}
