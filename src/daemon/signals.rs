//! Signals become commands.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::run::Command;

/// Listens for SIGHUP, SIGTERM and SIGINT from now on: the first of the latter two drains, the
/// next one aborts.
pub fn listen(commands: mpsc::UnboundedSender<Command>) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let mut stopping = false;
        loop {
            let command = tokio::select! {
                Some(()) = hangup.recv() => Command::Reload,
                Some(()) = terminate.recv() => stop(&mut stopping),
                Some(()) = interrupt.recv() => stop(&mut stopping),
                else => return,
            };
            if commands.send(command).is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn stop(stopping: &mut bool) -> Command {
    if std::mem::replace(stopping, true) { Command::Abort } else { Command::Stop }
}
