//! Sends one GET, and asks the engine before each redirect to another site.
//!
//! A probe waits for another site for a short time only. Must not know what the answer means.

use tokio::sync::oneshot;

use crate::fetch::client::{FetchProgress, FetchStep, Fetcher};
use crate::fetch::error::FetchFault;
use crate::fetch::host_group::host_group;
use crate::fetch::request::FetchRequest;
use tidewatch_core::engine::event::Failure;
use tidewatch_core::engine::params::HostGroup;
use tidewatch_core::time::Span;

use super::messages::{Control, Launch, Redirection};
use super::probe_context::ProbeContext;
use super::stopped_probe::{Stopped, without_answer};

/// Longest wait for another site.
const LONGEST_WAIT: Span = Span::from_mins(1);

/// Sends the next request of a GET. Before a redirect to another site, waits until that site may be asked.
pub(super) async fn go_on(
    context: &ProbeContext,
    fetcher: &Fetcher,
    launch: &Launch,
    request: &FetchRequest,
    progress: FetchProgress,
) -> Result<FetchStep, Stopped> {
    let site = host_group(progress.url());
    let step = fetcher.go_on(request, progress, &context.clock).await.map_err(|error| {
        // A site that was asked before: the probe counts against the budget.
        let asked = (error.fault == FetchFault::NoDescriptorsAtRedirect).then(|| site.clone());
        Stopped { answered_by: asked, ..without_answer(error) }
    })?;
    if let FetchStep::Redirected(next) = &step {
        let to = host_group(next.url());
        if to != site {
            wait_for(context, launch, &to).await?;
        }
    }
    Ok(step)
}

/// Waits until the other site may be asked.
pub(super) async fn wait_for(
    context: &ProbeContext,
    launch: &Launch,
    to: &HostGroup,
) -> Result<(), Stopped> {
    let source = launch.attempt.source;
    let latest = context.clock.now() + LONGEST_WAIT;
    loop {
        let (answer, answered) = oneshot::channel();
        let redirection = Redirection { source, to: to.clone(), answer };
        // The task that joins the scheduler notices its end.
        let _ = context.control.send(Control::Redirected(redirection));
        let until = match answered.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(until)) => until,
            Err(_) => return Err(Stopped::new(Failure::Interrupted, "the source was removed meanwhile")),
        };
        if until > latest {
            // The next probe begins when both sites may be asked.
            let error = format!("it redirects to {}, which may not be asked before {until}", to.key);
            return Err(Stopped {
                answered_by: Some(to.clone()),
                ..Stopped::new(Failure::Interrupted, error)
            });
        }
        let waits = context.clock.waiting();
        context.clock.sleep(until - context.clock.now()).await;
        drop(waits);
    }
}
