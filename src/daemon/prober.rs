//! Runs probes concurrently, and reports the end of each for its source, also after a panic.

use std::collections::HashMap;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::event::Failure;

use super::messages::Launch;
use super::probe::{Finished, ProbeContext, probe};

/// Runs each launched probe until the channel closes. `abort` cancels the probes in progress.
pub async fn run(
    context: ProbeContext,
    mut launches: mpsc::UnboundedReceiver<Launch>,
    finished: mpsc::UnboundedSender<Finished>,
    abort: CancellationToken,
) {
    let mut under_way = JoinSet::new();
    let mut attempts: HashMap<Id, Attempt> = HashMap::new();
    let mut open = true;
    while open || !under_way.is_empty() {
        let ended = tokio::select! {
            launch = launches.recv(), if open => {
                match launch {
                    Some(launch) => {
                        let attempt = launch.attempt;
                        let context = context.clone();
                        let task = under_way.spawn(async move { probe(&context, launch).await });
                        attempts.insert(task.id(), attempt);
                    }
                    None => open = false,
                }
                continue;
            }
            Some(ended) = under_way.join_next_with_id() => ended,
            () = abort.cancelled() => return,
        };
        let result = match ended {
            Ok((id, result)) => {
                attempts.remove(&id);
                Some(result)
            }
            Err(error) => attempts.remove(&error.id()).map(|attempt| {
                let message = "the probe panicked; please report it".to_owned();
                Finished::failed(attempt, context.clock.now(), Failure::Unreadable, message)
            }),
        };
        if let Some(result) = result {
            // The task that joins the scheduler notices its end.
            let _ = finished.send(result);
        }
    }
}
