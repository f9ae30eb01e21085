//! Runs all trials on all cores.
//!
//! Cells are sent in batches, so memory does not grow with the length of a trial. Must not know the purpose
//! of trials, nor the receiver of cells.

use std::sync::mpsc::SyncSender;

use crate::parallel::on_all_cores;

use super::answer::GardenQuestion;
use super::cube::CellRow;
use super::outcome::GardenOutcome;
use super::walk::{GardenCell, GardenTrial, walk};

/// Number of cells in a batch.
const BATCH: usize = 8192;

/// Progress is reported after this many days.
const EVERY: u64 = 50;

/// Some cells of a trial.
pub type Batch = (GardenTrial, Vec<CellRow>);

/// The outcome of each trial, in order; `None` if the receiver of the cells is gone. `progress` is called
/// with the number of further days simulated.
pub fn all(
    question: &GardenQuestion,
    cells: Option<&SyncSender<Batch>>,
    progress: &(dyn Fn(u64) + Sync),
) -> Option<Vec<GardenOutcome>> {
    let outcomes = on_all_cores(question.trials.len(), |index| {
        try_out(question, question.trials[index], cells, progress)
    });
    outcomes.into_iter().collect()
}

/// Runs one trial from its first day to its last.
fn try_out(
    question: &GardenQuestion,
    trial: GardenTrial,
    sender: Option<&SyncSender<Batch>>,
    progress: &(dyn Fn(u64) + Sync),
) -> Option<GardenOutcome> {
    let (mut batch, mut days) = (Vec::new(), 0);
    let row = |cell: &GardenCell| (cell.bed, cell.day, cell.tardiness, cell.work, cell.probes, cell.missed);
    let outcome = walk(&question.instance, trial, &mut |cells| {
        days += 1;
        if days == EVERY {
            progress(std::mem::take(&mut days));
        }
        let Some(sender) = sender else { return true };
        batch.extend(cells.iter().map(row));
        batch.len() < BATCH || sender.send((trial, std::mem::take(&mut batch))).is_ok()
    })?;
    progress(days);
    match sender {
        Some(sender) if !batch.is_empty() => sender.send((trial, batch)).ok().map(|()| outcome),
        _ => Some(outcome),
    }
}
