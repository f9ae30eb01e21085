//! Programs as targets: their input, their environment and their exit.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tidewatch::config::target::TargetConfig;
use tidewatch_core::time::Span;

use super::fixture::{Fixture, HOSTILE, exec, script};
use crate::waiting::until_found;

/// Whether a process runs; a zombie does not.
fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// Starts a child, writes both process ids into `$0`, and never ends.
const HANGS: &str = "sleep 100000 & echo $! $$ > \"$0.part\"; mv \"$0.part\" \"$0\"; wait";

#[tokio::test]
async fn a_program_gets_the_exact_bytes_without_a_shell() {
    let fixture = Fixture::stopped(1.0).await;
    let odd = fixture.path("$(touch pwned) `touch pwned`; touch pwned & 'x' \"y\" *.json");
    let fixture = fixture.run_with(vec![exec("exec:tee", &["/usr/bin/tee", odd.to_str().unwrap()])]);
    let long = HOSTILE.repeat(1_000_000 / HOSTILE.len() + 1);
    for (n, title) in [HOSTILE, &long].into_iter().enumerate() {
        fixture.enqueue("exec:tee", &[title]).await;
        fixture.delivered(n + 1).await;
        let row = fixture.rows().await.pop().unwrap();
        let bytes = fs::read(&odd).unwrap();
        assert!(bytes == format!("{}\n", row.document).into_bytes(), "the document and a newline");
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(document["items"][0]["title"] == title, "intact");
        assert_eq!(document["key"], row.key);
        assert_eq!((row.attempts, row.last_error), (1, None));
    }
    let mut names: Vec<String> = fs::read_dir(fixture.path(""))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| !name.starts_with("t.db"));
    assert_eq!(names, [odd.file_name().unwrap().to_str().unwrap()]);
}

#[tokio::test]
async fn a_program_gets_a_clean_environment() {
    let fixture = Fixture::stopped(1.0).await;
    let file = fixture.path("seen");
    let text = "cat /proc/$$/environ > \"$0\"; readlink /proc/$$/cwd >> \"$0\"";
    let fixture = fixture.run_with(vec![script("exec:env", text, &file)]);
    fixture.enqueue("exec:env", &["x"]).await;
    fixture.delivered(1).await;
    let seen = fs::read_to_string(&file).unwrap();
    let mut seen: Vec<&str> = seen.split('\0').collect();
    seen.sort_unstable();
    let key = format!("TIDEWATCH_KEY={}", fixture.rows().await[0].key);
    let wanted =
        ["/\n", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", &key, "TIDEWATCH_TARGET=exec:env"];
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn only_exit_status_zero_counts_as_delivered() {
    let fixture = Fixture::stopped(1.0).await;
    let file = fixture.path("pid");
    let long = "x".repeat(1_000_000);
    let fixture = fixture.run_with(vec![
        exec("exec:ignores", &["/bin/true"]),
        // Its child keeps the standard error open and is ignored.
        script("exec:leaves", "sleep 100000 & echo $! > \"$0\"", &file),
        script(
            "exec:loud",
            "yes long | head -c 5000000 >&2; printf 'the \\033[1mend\\n' >&2; exit 3",
            &file,
        ),
        exec("exec:none", &["/nowhere/at/all", "hunter2"]),
        script("exec:shot", "kill -9 $$", &file),
    ]);
    for target in ["exec:ignores", "exec:leaves", "exec:loud", "exec:none", "exec:shot"] {
        fixture.enqueue(target, &[&long]).await;
    }
    fixture.delivered(2).await;
    let loud = fixture.failed("exec:loud").await.last_error.unwrap();
    assert!(loud.starts_with("/bin/sh ended with exit status: 3: "), "{loud}");
    assert!(loud.ends_with("the  [1mend") && loud.len() < 4200, "the last of it, on one line: {loud}");
    let none = fixture.failed("exec:none").await;
    let error = none.last_error.unwrap();
    assert_eq!(error, "cannot start /nowhere/at/all: No such file or directory (os error 2)");
    assert_eq!((none.state.as_str(), none.attempts >= 1), ("waiting", true));
    let shot = fixture.failed("exec:shot").await.last_error.unwrap();
    assert!(shot.contains("SIGKILL"), "{shot}");
    let left = fs::read_to_string(&file).unwrap();
    assert!(alive(left.trim()), "a child of a program that succeeded is not killed");
    kill_process(Pid::from_raw(left.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_with_its_children() {
    let fixture = Fixture::stopped(60.0).await;
    let file = fixture.path("pids");
    let hangs = TargetConfig { timeout: Span::from_secs(1), ..script("exec:hangs", HANGS, &file) };
    let fixture = fixture.run_with(vec![hangs]);
    fixture.enqueue("exec:hangs", &["x"]).await;
    // On a busy machine the first attempt may time out earlier.
    until_found("it ran", async || file.exists()).await;
    let row = fixture.failed("exec:hangs").await;
    assert_eq!(row.last_error.as_deref(), Some("it had not ended and was killed after 1s"));
    assert_eq!(row.state, "waiting");
    // A retry may already run; it is stopped as well.
    fixture.configure(Vec::new());
    until_found("no process is left", async || {
        fs::read_to_string(&file).unwrap().split_whitespace().all(|pid| !alive(pid))
    })
    .await;
}

#[tokio::test]
async fn a_program_that_hangs_delays_no_other_target_and_ends_with_the_dispatcher() {
    let fixture = Fixture::stopped(1.0).await;
    let file = fixture.path("pids");
    let mut fixture =
        fixture.run_with(vec![script("exec:hangs", HANGS, &file), exec("exec:well", &["/bin/true"])]);
    fixture.enqueue("exec:hangs", &["x", "y"]).await;
    until_found("it hangs", async || file.exists()).await;
    fixture.enqueue("exec:well", &["x", "y", "z"]).await;
    fixture.delivered(3).await;
    let pids = fs::read_to_string(&file).unwrap();
    assert!(pids.split_whitespace().all(alive), "it still hangs");
    let waiting: Vec<_> = fixture.rows().await.into_iter().filter(|row| row.state == "waiting").collect();
    assert!(waiting.iter().all(|row| row.target == "exec:hangs" && row.attempts == 0));
    assert_eq!(waiting.len(), 2);
    fixture.stop().await;
    until_found("both are gone", async || !pids.split_whitespace().any(alive)).await;
}
