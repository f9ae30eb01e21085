//! All trials on all cores.
//!
//! Cells are handed on in batches as they come, so memory stays the same however long a trial is. Must not know what
//! trials are for nor where cells go.

use std::sync::mpsc::SyncSender;

use crate::parallel::on_all_cores;

use super::answer::Question;
use super::cube::CellRow;
use super::outcome::Outcome;
use super::walk::{Cell, Trial, walk};

/// Cells of a batch.
const BATCH: usize = 8192;

/// Progress is told after this many days.
const EVERY: u64 = 50;

/// Some cells of a trial.
pub type Batch = (Trial, Vec<CellRow>);

/// What came of each trial, in order; `None` if the receiver of the cells is gone. `progress` is told how many
/// further days have passed.
pub fn all(
    question: &Question,
    cells: Option<&SyncSender<Batch>>,
    progress: &(dyn Fn(u64) + Sync),
) -> Option<Vec<Outcome>> {
    let outcomes = on_all_cores(question.trials.len(), |index| {
        try_out(question, question.trials[index], cells, progress)
    });
    outcomes.into_iter().collect()
}

/// One trial from its first day to its last.
fn try_out(
    question: &Question,
    trial: Trial,
    sender: Option<&SyncSender<Batch>>,
    progress: &(dyn Fn(u64) + Sync),
) -> Option<Outcome> {
    let (mut batch, mut days) = (Vec::new(), 0);
    let row = |cell: &Cell| (cell.bed, cell.day, cell.tardiness, cell.work, cell.probes, cell.missed);
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
