//! Runs probes concurrently, and reports the end of each for its source, also after a panic.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::SteadyClock;
use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::event::Failure;
use tidewatch_core::time::Span;

use super::messages::Launch;
use super::probe::{Finished, probe};
use super::probe_context::ProbeContext;

/// Largest number of probes that are launched before other work gets its turn.
const TOGETHER: usize = 64;

/// Runs each launched probe until the channel closes. `abort` cancels the probes in progress.
pub async fn run(
    context: ProbeContext,
    mut launches: mpsc::UnboundedReceiver<Launch>,
    finished: mpsc::UnboundedSender<Box<Finished>>,
    abort: CancellationToken,
) {
    let context = Arc::new(context);
    let mut under_way = JoinSet::new();
    let mut batch = Vec::with_capacity(TOGETHER);
    loop {
        tokio::select! {
            launched = launches.recv_many(&mut batch, TOGETHER) => {
                if launched == 0 { break }
            }
            () = abort.cancelled() => return,
        }
        // They have reported their ends; only their handles are left.
        while under_way.try_join_next().is_some() {}
        for launch in batch.drain(..) {
            let (context, finished) = (Arc::clone(&context), finished.clone());
            under_way.spawn(async move {
                let mut report = Report::new(&launch, finished);
                report.ended(probe(&context, launch).await);
            });
        }
    }
    let all_ended = async { while under_way.join_next().await.is_some() {} };
    tokio::select! {
        () = all_ended => {}
        () = abort.cancelled() => {}
    }
}

/// Reports the end of one probe. If the probe panics, reports that.
struct Report {
    attempt: Attempt,
    clock: SteadyClock,
    corrected: Span,
    finished: mpsc::UnboundedSender<Box<Finished>>,
}

impl Report {
    fn new(launch: &Launch, finished: mpsc::UnboundedSender<Box<Finished>>) -> Self {
        Self { attempt: launch.attempt, clock: launch.clock.clone(), corrected: launch.corrected, finished }
    }

    fn ended(&mut self, result: Finished) {
        // The task that joins the scheduler notices its end.
        let _ = self.finished.send(Box::new(result));
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = "the probe panicked; please report it".to_owned();
            let (attempt, now) = (self.attempt, self.clock.now());
            let failed = Finished::failed(attempt, now, Failure::Unreadable, message);
            self.ended(Finished { corrected: self.corrected, ..failed });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use tidewatch_core::engine::reason::Reason;
    use tidewatch_core::planning::policy::Policy;
    use tidewatch_core::source_id::SourceId;
    use tidewatch_core::time::Timestamp;

    #[tokio::test]
    async fn a_panic_is_reported_for_its_source_and_a_cancelled_probe_is_not() {
        let (finished, mut reports) = mpsc::unbounded_channel();
        let at = Timestamp::from_secs(1);
        let attempt = |id| Attempt {
            source: SourceId(id),
            due: at,
            started: at,
            policy: Policy::Auto,
            reason: Reason::default(),
            forecast: None,
        };
        let report = |id| Report {
            attempt: attempt(id),
            clock: SteadyClock::of(&Clock::wall()),
            corrected: Span::ZERO,
            finished: finished.clone(),
        };
        let (panics, waits) = (report(7), report(8));
        let panicked = tokio::spawn(async move {
            let _report = panics;
            panic!("a fault of the program");
        });
        assert!(panicked.await.unwrap_err().is_panic());
        let cancelled = tokio::spawn(async move {
            let _report = waits;
            std::future::pending::<()>().await;
        });
        cancelled.abort();
        assert!(cancelled.await.unwrap_err().is_cancelled());
        drop(finished);
        let ended = reports.recv().await.expect("reported");
        assert!(ended.attempt.source == SourceId(7) && ended.error.unwrap().contains("panicked"));
        assert!(reports.recv().await.is_none());
    }
}
