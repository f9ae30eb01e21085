//! Converts Unix signals to daemon commands.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::messages::DaemonCommand;

/// Starts to handle SIGHUP, SIGTERM and SIGINT. The first SIGTERM or SIGINT drains the daemon, the next one
/// aborts it.
pub fn listen(commands: mpsc::UnboundedSender<DaemonCommand>) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let mut stopping = false;
        loop {
            let command = tokio::select! {
                Some(()) = hangup.recv() => DaemonCommand::Reload,
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

fn stop(stopping: &mut bool) -> DaemonCommand {
    if std::mem::replace(stopping, true) { DaemonCommand::Abort } else { DaemonCommand::Stop }
}
