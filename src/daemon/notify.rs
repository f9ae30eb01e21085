//! What systemd is told: ready, reloading, stopping, a line of status, and that we live.
//!
//! Does nothing where there is no notification socket. The watchdog is fed only while the
//! scheduler's loop turns, so a stuck scheduler is restarted by systemd.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::watch;

use crate::clock::{Clock, real_pause};

use super::pilot::Progress;

/// We are up.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The configuration is being read again.
pub fn reloading() {
    // systemd wants to know *when*, to tell this reload from the one before.
    match NotifyState::monotonic_usec_now() {
        Ok(when) => {
            tell(&[NotifyState::Reloading, when, NotifyState::Status("reloading the configuration")])
        }
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// We are on our way out.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("finishing what is under way")]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager cannot be told");
    }
}

/// How often the status is looked at when no watchdog asks for more.
const STATUS_EVERY: Duration = Duration::from_secs(2);

/// Feeds the watchdog and keeps the status line current, as long as the scheduler shows itself.
pub async fn keep(mut progress: watch::Receiver<Progress>, clock: Clock) {
    let watchdog = sd_notify::watchdog_enabled();
    let every = watchdog.map_or(STATUS_EVERY, |limit| (limit / 3).min(STATUS_EVERY));
    let (mut beats, mut said) = (0, String::new());
    loop {
        real_pause(every).await;
        if progress.has_changed().is_err() {
            return;
        }
        let shown = progress.borrow_and_update().clone();
        if watchdog.is_some() && shown.beats != beats {
            tell(&[NotifyState::Watchdog]);
        }
        beats = shown.beats;
        let line = status_line(&shown, &clock);
        if line != said {
            tell(&[NotifyState::Status(&line)]);
            said = line;
        }
    }
}

/// The daemon in one line.
pub fn status_line(shown: &Progress, clock: &Clock) -> String {
    let mut line = format!("watching {} sources, {} in flight", shown.sources, shown.in_flight);
    if let Some(next) = shown.next_step {
        let wait = next - clock.now();
        if wait > crate::time::Span::from_secs(60) {
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
