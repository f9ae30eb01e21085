//! Notifications to systemd: ready, reloading, stopping, and a status line.
//!
//! Does nothing without a notification socket.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::{Clock, patience, real_pause};

use super::scheduler::Progress;

/// Reports that the daemon is ready.
pub async fn ready(status: String) {
    notify(move || sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status)])).await;
}

/// Reports that the configuration is being reloaded.
pub async fn reloading() {
    // systemd requires the time, to distinguish this reload from the one before.
    let when = NotifyState::monotonic_usec_now().ok();
    let status = NotifyState::Status("reloading the configuration");
    let states: Vec<_> = [Some(NotifyState::Reloading), when, Some(status)].into_iter().flatten().collect();
    notify(move || sd_notify::notify(&states)).await;
}

/// Reports that the daemon is stopping.
pub async fn stopping() {
    notify(|| {
        sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("finishing what is under way")])
    })
    .await;
}

/// Reports why the start waits, and asks for this much more time.
pub async fn start_waits(status: String, more: Duration) {
    let more = u32::try_from(more.as_micros()).unwrap_or(u32::MAX);
    notify(move || {
        sd_notify::notify(&[NotifyState::Status(&status), NotifyState::ExtendTimeoutUsec(more)])
    })
    .await;
}

/// Longest wait for one notification to be sent.
const SEND_LIMIT: Duration = Duration::from_secs(1);

/// Sends on a blocking thread: the send blocks if the socket is full and not read. Returns the task if it
/// has not finished in time.
async fn notify(send: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Option<JoinHandle<()>> {
    let mut sending = tokio::task::spawn_blocking(move || {
        if let Err(error) = send() {
            tracing::debug!(%error, "the service manager cannot be notified");
        }
    });
    patience(SEND_LIMIT, &mut sending).await.is_err().then_some(sending)
}

/// Interval of status updates.
const STATUS_EVERY: Duration = Duration::from_secs(2);

/// Updates the status line, as long as the scheduler reports progress.
pub async fn keep(mut progress: watch::Receiver<Progress>, clock: Clock) {
    let mut last_line = String::new();
    let mut blocked: Option<JoinHandle<()>> = None;
    loop {
        real_pause(STATUS_EVERY).await;
        if progress.has_changed().is_err() {
            return;
        }
        if blocked.as_ref().is_some_and(|sending| !sending.is_finished()) {
            // One notification at a time, so that blocked ones do not accumulate.
            continue;
        }
        let shown = progress.borrow_and_update().clone();
        let line = status_line(&shown, &clock);
        if line != last_line {
            last_line.clone_from(&line);
            blocked = notify(move || sd_notify::notify(&[NotifyState::Status(&line)])).await;
        }
    }
}

/// The status line.
pub fn status_line(shown: &Progress, clock: &Clock) -> String {
    let mut line = format!("watching {} sources, {} in flight", shown.sources, shown.in_progress);
    if let Some(next) = shown.next_step {
        let wait = next - clock.now();
        if wait > tidewatch_core::time::Span::from_secs(60) {
            line.push_str(&format!(", next probe in {wait}"));
        }
    }
    if let Some(why) = &shown.stalled {
        line.push_str(&format!("; THE STORE CANNOT BE WRITTEN: {why}"));
    }
    if let Some(reload) = &shown.last_reload {
        line.push_str(&format!("; last reload: {reload}"));
    }
    line
}
