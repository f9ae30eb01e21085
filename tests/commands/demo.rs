//! The demo as a user runs it: the built program, its real clock, sockets and store.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tidewatch::clock::real_pause;
use tidewatch::store::reader::Reader;

fn demo(store: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidewatch"));
    command.args(["demo", "--speed", "50000", "--json", "--store"]).arg(store);
    command.env_remove("TIDEWATCH_CONFIG").env_remove("TIDEWATCH_LOG");
    command
}

#[tokio::test]
async fn an_interrupt_ends_the_demo_with_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("demo.db");
    let child = demo(&store).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // The store is created after the signal handlers.
    while !store.exists() {
        real_pause(Duration::from_millis(20)).await;
    }
    real_pause(Duration::from_millis(500)).await;
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["violations"], Value::Array(Vec::new()));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_existing_store_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("precious.db");
    std::fs::write(&store, "precious").unwrap();
    let output = demo(&store).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&store).unwrap(), "precious");
}

/// Four days: one run, because it takes a minute or more in an unoptimised build.
#[test]
fn four_days_run_without_a_violation_and_teach_the_rhythms() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("demo.db");
    let output = demo(&store).args(["--days", "4"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    no_rule_is_violated(&report, &text);
    assert_eq!(output.status.code(), Some(0), "{text}");
    every_source_behaves(&report);
    let rows = tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(async { Reader::open(&store).await?.detections().await })
        .unwrap();
    assert_eq!(report["totals"]["updates_stored"].as_u64(), Some(rows.len() as u64));
    assert!(report["totals"]["found"].as_u64() > Some(200));
    both_daemons_are_compared(&report);
    the_burst_is_followed(&report);
    rhythms_are_learned(&store);
}

fn no_rule_is_violated(report: &Value, text: &str) {
    assert_eq!(report["violations"], Value::Array(Vec::new()), "{text}");
    assert_eq!(report["totals"]["violations"], 0);
    assert_eq!(report["totals"]["missed"], 0, "{report:#}");
    assert_eq!((&report["fine"], &report["interrupted"]), (&Value::Bool(true), &Value::Bool(false)));
    assert!(text.contains("day 1 of 4"), "{text}");
}

fn every_source_behaves(report: &Value) {
    let source = |name: &str| {
        let sources = report["sources"].as_array().unwrap();
        sources.iter().find(|source| source["name"] == name).unwrap()
    };
    let publishing = [
        "office-blog",
        "nightly-cron",
        "newsroom",
        "sleeper",
        "quiet-page",
        "zipped",
        "malformed",
        "flaky",
        "throttler",
        "shared-a",
        "shared-b",
        "mover",
        "gone",
    ];
    for name in publishing {
        assert!(source(name)["found"].as_u64() > Some(0), "{name}: {report:#}");
    }
    for (name, state) in
        [("gone", "resting"), ("closed-page", "resting"), ("dead", "backoff"), ("bomb", "backoff")]
    {
        assert_eq!(source(name)["state"], state, "{name}");
    }
}

fn both_daemons_are_compared(report: &Value) {
    let compared = &report["comparison"];
    assert!(compared["sources"].as_u64() >= Some(8), "{compared:#}");
    for policy in ["plan", "uniform"] {
        assert!(compared[policy]["probes"].as_u64() > Some(100), "{compared:#}");
        assert!(compared[policy]["mean_delay_s"].as_f64() > Some(0.0), "{compared:#}");
    }
}

fn the_burst_is_followed(report: &Value) {
    // The newsroom's burst was detected, and has ended.
    assert_eq!(report["bursts_missed"], Value::Array(Vec::new()), "{:#}", report["bursts"]);
    let bursts = report["bursts"].as_array().unwrap();
    let news = bursts.iter().find(|burst| burst["source"] == "newsroom").expect("a burst");
    assert!(news["began"].is_string() && news["ended"].is_string(), "{news:#}");
    assert!(news["observed"].as_u64() > Some(20) && news["expected"].as_f64() < Some(6.0), "{news:#}");
    assert_eq!(news["planned_again"], true, "{news:#}");
    assert!(news["probes"].as_u64() >= Some(4) && news["by_ttl"].as_u64() >= Some(2), "{news:#}");
}

fn rhythms_are_learned(store: &Path) {
    let rhythm = |source: &str| -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_tidewatch"))
            .args(["rhythm", source, "--json", "--config"])
            .arg(store.with_extension("toml"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // The share of a week's updates that is expected in these hours of these days.
    let share = |rhythm: &Value, days: std::ops::Range<usize>, hours: std::ops::Range<usize>| -> f64 {
        let expected = |day: usize, hour: usize| rhythm["hours"][day][hour].as_f64().unwrap();
        let part: f64 = days.flat_map(|day| hours.clone().map(move |hour| expected(day, hour))).sum();
        part / rhythm["per_week"].as_f64().unwrap()
    };
    let office = rhythm("office-blog");
    let in_office = share(&office, 0..5, 9..17);
    assert!(in_office > 0.75, "{in_office}: 40 of 168 hours hold the posts");
    assert!(share(&office, 5..7, 0..24) < 0.1);
    let cron = rhythm("nightly-cron");
    let at_half_past_two = share(&cron, 0..7, 2..3);
    assert!(at_half_past_two > 0.4, "{at_half_past_two}: one hour of 24 holds the entries");
    assert!(share(&cron, 0..7, 6..24) < 0.3);
    assert_eq!(cron["cycle"], "day");
}
