//! Telling a program: the document on its standard input, no shell in between.
//!
//! Exists so that a program of the user's can do what we need not know. It gets an environment
//! with nothing of ours in it, and a process group of its own, so that it can be ended with all
//! that it started. What it writes to its standard output is nobody's business; of its standard
//! error the end is kept, for the log.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, Command};

use crate::clock::patience;

use super::parcel::Parcel;
use super::verdict::Verdict;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// So much of what it says last is kept.
const KEPT: usize = 4096;

/// A program that has ended may leave children who still hold its standard error.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs the program and waits for its end. Dropped before, it kills the whole process group.
pub(super) async fn run(command: &[String], target: &str, parcel: &Parcel) -> Verdict {
    let Some((program, arguments)) = command.split_first() else {
        return Verdict::failed("no program is configured");
    };
    let spawned = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LANG", "C.UTF-8")
        .env("TIDEWATCH_KEY", &parcel.key)
        .env("TIDEWATCH_TARGET", target)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    // Arguments may hold secrets; the program's name does not.
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Verdict::failed(format!("cannot start {program}: {error}")),
    };
    // After the child, so that it is dropped before it: while nobody has waited for the child, its
    // number cannot belong to another group.
    let mut group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let (stdin, mut stderr) = (child.stdin.take(), child.stderr.take());
    let mut said = Vec::new();
    let ended = {
        let talk =
            async { tokio::join!(feed(stdin, &parcel.document), listen(stderr.as_mut(), &mut said)) };
        // Its end counts, whatever it has read or said by then.
        tokio::select! {
            ended = child.wait() => ended,
            _ = talk => child.wait().await,
        }
    };
    group.0 = None;
    match ended {
        Ok(status) if status.success() => Verdict::Delivered,
        Ok(status) => {
            let _ = patience(LAST_WORDS, listen(stderr.as_mut(), &mut said)).await;
            let said = String::from_utf8_lossy(&said);
            Verdict::failed(format!("{program} ended with {status}: {}", said.trim()))
        }
        Err(error) => Verdict::failed(format!("{program} cannot be waited for: {error}")),
    }
}

/// The document and a newline. A program need not read them: that it ended well is enough.
async fn feed(stdin: Option<ChildStdin>, document: &str) {
    let Some(mut stdin) = stdin else { return };
    if stdin.write_all(document.as_bytes()).await.is_ok() {
        let _ = stdin.write_all(b"\n").await;
    }
}

/// Reads to the end and keeps the last of it.
async fn listen(stderr: Option<&mut ChildStderr>, said: &mut Vec<u8>) {
    let Some(stderr) = stderr else { return };
    let mut piece = [0; KEPT];
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        said.extend_from_slice(&piece[..count]);
        said.drain(..said.len().saturating_sub(KEPT));
    }
}

/// A process group that is killed when this is dropped, unless its leader was waited for.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Fails only when nobody of it is left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}
