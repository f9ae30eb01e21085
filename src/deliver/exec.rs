//! Delivers to a program: the document on its standard input, without a shell.
//!
//! The program gets a fixed environment and its own process group, so that it can be killed with all its
//! children. Its standard output is discarded. The end of its standard error is kept for the log.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, Command};

use crate::clock::patience;

use super::delivery_outcome::DeliveryOutcome;
use super::shipment::Shipment;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Bytes of standard error that are kept.
const KEPT: usize = 4096;

/// Longest wait for the rest of standard error: children of an ended program may keep it open.
const STDERR_LIMIT: Duration = Duration::from_secs(1);

/// Runs the program and waits for its end. Dropping the future kills the whole process group.
pub(super) async fn run(command: &[String], target: &str, shipment: &Shipment) -> DeliveryOutcome {
    let Some((program, arguments)) = command.split_first() else {
        return DeliveryOutcome::failed("no program is configured");
    };
    let spawned = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LANG", "C.UTF-8")
        .env("TIDEWATCH_KEY", &shipment.key)
        .env("TIDEWATCH_TARGET", target)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    // Errors show the program only: its arguments may contain secrets.
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return DeliveryOutcome::failed(format!("cannot start {program}: {error}")),
    };
    // Declared after the child, so it is dropped first: until the child is reaped, its process group number
    // cannot be reused.
    let mut group = ProcessGroup(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let (stdin, mut stderr) = (child.stdin.take(), child.stderr.take());
    let mut stderr_tail = Vec::new();
    let ended = {
        let input_and_errors = async {
            tokio::join!(feed(stdin, &shipment.document), read_stderr(stderr.as_mut(), &mut stderr_tail))
        };
        // The program's end decides, even if its pipes are still open.
        tokio::select! {
            ended = child.wait() => ended,
            _ = input_and_errors => child.wait().await,
        }
    };
    group.0 = None;
    match ended {
        Ok(status) if status.success() => DeliveryOutcome::Delivered,
        Ok(status) => {
            let _ = patience(STDERR_LIMIT, read_stderr(stderr.as_mut(), &mut stderr_tail)).await;
            let stderr_tail = String::from_utf8_lossy(&stderr_tail);
            DeliveryOutcome::failed(format!("{program} ended with {status}: {}", stderr_tail.trim()))
        }
        Err(error) => DeliveryOutcome::failed(format!("{program} cannot be waited for: {error}")),
    }
}

/// Writes the document and a newline. The program need not read them; only its exit status counts.
async fn feed(stdin: Option<ChildStdin>, document: &str) {
    let Some(mut stdin) = stdin else { return };
    if stdin.write_all(document.as_bytes()).await.is_ok() {
        let _ = stdin.write_all(b"\n").await;
    }
}

/// Reads standard error to its end and keeps the last bytes.
async fn read_stderr(stderr: Option<&mut ChildStderr>, stderr_tail: &mut Vec<u8>) {
    let Some(stderr) = stderr else { return };
    let mut piece = [0; KEPT];
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        stderr_tail.extend_from_slice(&piece[..count]);
        stderr_tail.drain(..stderr_tail.len().saturating_sub(KEPT));
    }
}

/// A process group that is killed on drop, unless its leader was reaped.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Fails only if no process of the group is left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}
