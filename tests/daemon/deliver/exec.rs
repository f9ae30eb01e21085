//! Programs: what reaches them, what surrounds them, and how they end.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tidewatch::config::target::TargetConfig;
use tidewatch_core::time::Span;

use super::office::{HOSTILE, Office, exec, script, until};

/// Whether a process is there and not merely waiting to be buried.
fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// Leaves a child behind, writes both numbers into `$0`, and never ends.
const HANGS: &str = "sleep 100000 & echo $! $$ > \"$0.part\"; mv \"$0.part\" \"$0\"; wait";

#[tokio::test]
async fn a_program_gets_the_very_bytes_and_no_shell_sees_anything() {
    let office = Office::closed(1.0).await;
    let odd = office.path("$(touch pwned) `touch pwned`; touch pwned & 'x' \"y\" *.json");
    let office = office.at_work(vec![exec("exec:tee", &["/usr/bin/tee", odd.to_str().unwrap()])]);
    let long = HOSTILE.repeat(1_000_000 / HOSTILE.len() + 1);
    for (n, title) in [HOSTILE, &long].into_iter().enumerate() {
        office.tell("exec:tee", &[title]).await;
        office.delivered(n + 1).await;
        let row = office.rows().await.pop().unwrap();
        let bytes = fs::read(&odd).unwrap();
        assert!(bytes == format!("{}\n", row.document).into_bytes(), "the document and a newline");
        let told: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(told["items"][0]["title"] == title, "intact");
        assert_eq!(told["key"], row.key);
        assert_eq!((row.attempts, row.last_error), (1, None));
    }
    let mut names: Vec<String> = fs::read_dir(office.path(""))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| !name.starts_with("t.db"));
    assert_eq!(names, [odd.file_name().unwrap().to_str().unwrap()]);
}

#[tokio::test]
async fn its_surroundings_hold_nothing_of_ours() {
    let office = Office::closed(1.0).await;
    let file = office.path("seen");
    let text = "cat /proc/$$/environ > \"$0\"; readlink /proc/$$/cwd >> \"$0\"";
    let office = office.at_work(vec![script("exec:env", text, &file)]);
    office.tell("exec:env", &["x"]).await;
    office.delivered(1).await;
    let seen = fs::read_to_string(&file).unwrap();
    let mut seen: Vec<&str> = seen.split('\0').collect();
    seen.sort_unstable();
    let key = format!("TIDEWATCH_KEY={}", office.rows().await[0].key);
    let wanted =
        ["/\n", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", &key, "TIDEWATCH_TARGET=exec:env"];
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn only_a_good_end_counts_whatever_was_read_or_said() {
    let office = Office::closed(1.0).await;
    let file = office.path("pid");
    let long = "x".repeat(1_000_000);
    let office = office.at_work(vec![
        exec("exec:deaf", &["/bin/true"]),
        // Its child holds the standard error, and is nobody's business.
        script("exec:leaves", "sleep 100000 & echo $! > \"$0\"", &file),
        script(
            "exec:loud",
            "yes long | head -c 5000000 >&2; printf 'the \\033[1mend\\n' >&2; exit 3",
            &file,
        ),
        exec("exec:none", &["/nowhere/at/all", "hunter2"]),
        script("exec:shot", "kill -9 $$", &file),
    ]);
    for target in ["exec:deaf", "exec:leaves", "exec:loud", "exec:none", "exec:shot"] {
        office.tell(target, &[&long]).await;
    }
    office.delivered(2).await;
    let loud = office.failed("exec:loud").await.last_error.unwrap();
    assert!(loud.starts_with("/bin/sh ended with exit status: 3: "), "{loud}");
    assert!(loud.ends_with("the  [1mend") && loud.len() < 4200, "the last of it, on one line: {loud}");
    let none = office.failed("exec:none").await;
    let error = none.last_error.unwrap();
    assert_eq!(error, "cannot start /nowhere/at/all: No such file or directory (os error 2)");
    assert_eq!((none.state.as_str(), none.attempts >= 1), ("waiting", true));
    let shot = office.failed("exec:shot").await.last_error.unwrap();
    assert!(shot.contains("SIGKILL"), "{shot}");
    let left = fs::read_to_string(&file).unwrap();
    assert!(alive(left.trim()), "what a program leaves behind after a good end stays");
    kill_process(Pid::from_raw(left.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_with_all_that_it_started() {
    let office = Office::closed(60.0).await;
    let file = office.path("pids");
    let hangs = TargetConfig { timeout: Span::from_secs(1), ..script("exec:hangs", HANGS, &file) };
    let office = office.at_work(vec![hangs]);
    office.tell("exec:hangs", &["x"]).await;
    // On a busy machine not with the first attempt.
    until("it ran", async || file.exists()).await;
    let row = office.failed("exec:hangs").await;
    assert_eq!(row.last_error.as_deref(), Some("it had not ended and was killed after 1s"));
    assert_eq!(row.state, "waiting");
    // It may be tried again already; that ends, too.
    office.configure(Vec::new());
    until("nobody is left", async || {
        fs::read_to_string(&file).unwrap().split_whitespace().all(|pid| !alive(pid))
    })
    .await;
}

#[tokio::test]
async fn a_program_that_hangs_delays_nobody_else_and_ends_with_the_courier() {
    let office = Office::closed(1.0).await;
    let file = office.path("pids");
    let mut office =
        office.at_work(vec![script("exec:hangs", HANGS, &file), exec("exec:well", &["/bin/true"])]);
    office.tell("exec:hangs", &["x", "y"]).await;
    until("it hangs", async || file.exists()).await;
    office.tell("exec:well", &["x", "y", "z"]).await;
    office.delivered(3).await;
    let pids = fs::read_to_string(&file).unwrap();
    assert!(pids.split_whitespace().all(alive), "it hangs all the while");
    let waiting: Vec<_> = office.rows().await.into_iter().filter(|row| row.state == "waiting").collect();
    assert!(waiting.iter().all(|row| row.target == "exec:hangs" && row.attempts == 0));
    assert_eq!(waiting.len(), 2);
    office.stop().await;
    until("both are gone", async || !pids.split_whitespace().any(alive)).await;
}
