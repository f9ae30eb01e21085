//! `tidewatch simulate`: its output, its refusals and its exit codes.

use serde_json::Value;

use crate::command_folder;
use tidewatch_fixtures::command::CommandFolder;

const FLEET: &[&str] = &["simulate", "fleet"];

/// With `rates.csv`: three sources.
fn with_rates() -> CommandFolder {
    let folder = command_folder(FLEET);
    folder.write("rates.csv", "per_step\n0.5\n0.25\n0.125\n");
    folder
}

fn json(folder: &CommandFolder, arguments: &[&str]) -> Value {
    serde_json::from_str(&folder.output(&[arguments, &["--json"]].concat())).unwrap()
}

fn number(document: &Value, key: &str) -> f64 {
    document[key].as_f64().unwrap_or_else(|| panic!("no {key} in {document}"))
}

#[test]
fn the_document_has_the_documented_keys() {
    let folder = with_rates();
    let arguments =
        ["--rates", "rates.csv", "--allocator", "index", "--probes-per-step", "1", "--steps", "6000"];
    let out = folder.output(&[&arguments[..], &["--seed", "1", "--json"]].concat());
    let documented = ["allocator", "cost", "lower_bound", "tight_lower_bound", "probes", "elapsed_ms"];
    let places: Vec<usize> =
        documented.iter().map(|key| out.find(&format!("\"{key}\"")).unwrap()).collect();
    assert!(places.is_sorted(), "{out}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["allocator"], "index");
    assert_eq!(document["probes"], 6000);
    assert_eq!((&document["steps"], &document["scored_steps"]), (&Value::from(6000), &Value::from(3000)));
    // Theorem 1 by hand.
    let roots = 0.5_f64.sqrt() + 0.5 + 0.125_f64.sqrt();
    assert!((number(&document, "lower_bound") - (roots * roots / 2.0).max(0.875)).abs() < 1e-12);
    let (cost, tight) = (number(&document, "cost"), number(&document, "tight_lower_bound"));
    assert!(cost >= tight && cost < 1.05 * tight, "{cost} {tight}");
    assert!((number(&document, "tight_ratio") - cost / tight).abs() < 1e-12);
    assert!(number(&document, "elapsed_ms") >= 0.0);
    assert!(document["learned"].is_null() && document["regret"].is_null());
}

#[test]
fn equal_seeds_give_equal_results() {
    let folder = command_folder(FLEET);
    let shape = ["--shape", "pareto:1.2", "--sources", "50", "--unknown", "--allocator", "memoryless"];
    let cost =
        |seed| number(&json(&folder, &[&shape[..], &["--steps", "3000", "--seed", seed]].concat()), "cost");
    assert_eq!(cost("1"), cost("1"));
    assert_ne!(cost("1"), cost("2"));
}

#[test]
fn without_a_name_every_allocator_runs() {
    let folder = command_folder(FLEET);
    let document = json(&folder, &["--shape", "zipf:1", "--sources", "100", "--steps", "20000"]);
    let list = document["allocators"].as_array().unwrap();
    let names: Vec<&str> = list.iter().map(|one| one["allocator"].as_str().unwrap()).collect();
    assert_eq!(names, ["adaptive", "index", "memoryless", "cyclic", "round_robin", "greedy"]);
    for one in list {
        assert!(number(one, "cost") >= number(one, "tight_lower_bound") * 0.999, "{one}");
        if let Some(proven) = one["proven_ratio"].as_f64() {
            assert!(number(one, "ratio") <= 1.05 * proven, "{one}");
        }
        // Only Adaptive always learns.
        assert_eq!(one["learned"].is_null(), one["allocator"] != "adaptive", "{one}");
    }
}

#[test]
fn hidden_rates_are_learned_with_regret() {
    let folder = command_folder(FLEET);
    let world = ["--shape", "zipf:1", "--sources", "200", "--probes-per-step", "4", "--steps", "20000"];
    let hidden = [&world[..], &["--unknown", "--change-at", "10000"]].concat();
    let index = json(&folder, &[&hidden[..], &["--allocator", "index"]].concat());
    assert_eq!(
        (&index["learned"], &index["scored_steps"]),
        (&Value::from("forgetting"), &Value::from(20_000))
    );
    assert!((0.0..0.1).contains(&number(&index, "regret")), "{index}");
    let counting =
        json(&folder, &[&hidden[..], &["--allocator", "index", "--estimate", "counted"]].concat());
    assert_eq!(counting["learned"], "counted");
    assert!(number(&counting, "regret") > 1.5 * number(&index, "regret"), "{counting}");
    let fifth = json(&folder, &[&hidden[..], &["--allocator", "index", "--change-share", "0.2"]].concat());
    assert!(number(&fifth, "regret") < number(&index, "regret"), "{fifth}");
    let late = json(&folder, &[&hidden[..], &["--allocator", "index", "--warm-up", "19000"]].concat());
    assert_eq!(late["scored_steps"], 1000);
}

#[test]
fn without_json_a_table_is_printed() {
    let folder = command_folder(FLEET);
    let world = ["--shape", "powers", "--sources", "20", "--steps", "4000"];
    let out = folder.output(&world);
    let head = "powers  20 sources, 1 probe a step, 4000 steps, the first 2000 not counted; seed 1\n";
    assert!(out.starts_with(head), "{out}");
    assert!(out.contains("known to all but adaptive\n") && out.contains("(Theorem 1)"), "{out}");
    assert!(out.contains("\nallocator    cost") && !out.contains("regret"), "{out}");
    assert!(["adaptive ", "round_robin "].iter().all(|name| out.contains(&format!("\n{name}"))), "{out}");
    assert!(!out.contains('\x1b') && !out.contains("NaN"), "{out}");
    let out = folder
        .output(&[&world[..], &["--unknown", "--change-at", "2000", "--change-share", "0.5"]].concat());
    assert!(out.contains("hidden from all but an oracle, 50 % of them permuted at step 2000\n"), "{out}");
    assert!(out.contains("regret") && out.contains(" %"), "{out}");
}

#[test]
fn sources_without_updates_are_simulated() {
    let folder = command_folder(FLEET);
    folder.write("silent.csv", "per_step\n0\n0\n");
    let out = folder.output(&["--rates", "silent.csv"]);
    assert!(out.contains("index        0     –"), "{out}");
    let document = json(&folder, &["--rates", "silent.csv", "--unknown"]);
    for one in document["allocators"].as_array().unwrap() {
        assert_eq!(number(one, "cost"), 0.0, "{one}");
        assert!(one["ratio"].is_null() && one["regret"].is_null(), "{one}");
    }
}

#[test]
fn faults_of_the_file_are_shown_where_they_are() {
    let folder = command_folder(FLEET);
    for (text, message) in [
        ("", "f.csv:1: the header `per_step` is expected, not `nothing`"),
        ("0.5\n0.1\n", "f.csv:1: the header `per_step` is expected, not `0.5`"),
        ("per_step\n", "f.csv:1: no rates follow the header"),
        ("per_step\n1\nmany\n", "f.csv:3: `many` is not a number"),
        ("per_step\n-0.5\n", "f.csv:2: `-0.5` is negative"),
        ("per_step\nNaN\n", "f.csv:2: `NaN` is not a finite number"),
        ("per_step\n1\n2\ninf\n", "f.csv:4: `inf` is not a finite number"),
        ("per_step\n1e10\n", "f.csv:2: `1e10` is more than 1000000000 updates per step"),
    ] {
        folder.write("f.csv", text);
        let err = folder.error(1, &["--rates", "f.csv"]);
        assert!(err.starts_with(&format!("tidewatch: {message}")), "{err}");
    }
    folder.write("f.csv", &format!("per_step\nx\n{}", "y\n".repeat(30)));
    let err = folder.error(1, &["--rates", "f.csv"]);
    assert_eq!((err.lines().count(), err.lines().last()), (21, Some("and 11 more")), "{err}");
    let err = folder.error(1, &["--rates", "none.csv"]);
    assert!(err.starts_with("tidewatch: none.csv: "), "{err}");
}

#[test]
fn impossible_requests_are_refused() {
    let folder = with_rates();
    for (arguments, message) in [
        (&["--probes-per-step", "4"][..], "--probes-per-step is 4, and there are 3 sources"),
        (&["--change-at", "0"], "--change-at 0 never comes"),
        (&["--change-at", "20001"], "steps are counted from 1 to 20000"),
        (&["--warm-up", "20000"], "--warm-up 20000 leaves none of 20000 steps"),
    ] {
        let err = folder.error(1, &[&["--rates", "rates.csv"], arguments].concat());
        assert!(err.starts_with("tidewatch: ") && err.contains(message), "{arguments:?}: {err}");
    }
}

#[test]
fn wrong_usage_is_reported() {
    let folder = with_rates();
    let rates = ["--rates", "rates.csv"];
    for (arguments, message) in [
        (&["--steps", "0"][..], "invalid value '0' for '--steps"),
        (&["--steps", "-1"], "invalid value '-1' for '--steps"),
        (&["--steps", "9999999999"], "9999999999 is not in 1..=500000000"),
        (&["--probes-per-step", "0"], "invalid value '0' for '--probes-per-step"),
        (&["--allocator", "best"], "there are adaptive, index, memoryless, cyclic, round_robin, greedy"),
        (&["--change-share", "0.5"], "--change-at"),
        (&["--change-at", "5", "--change-share", "1.5"], "a share is a number from 0 to 1"),
        (&["--estimate", "guess"], "counted, forgetting"),
        (&["--shape", "equal", "--sources", "3"], "cannot be used with"),
    ] {
        let err = folder.error(2, &[&rates[..], arguments].concat());
        assert!(err.contains(message), "{arguments:?}: {err}");
    }
    for (arguments, message) in [
        (&[][..], "--rates <FILE>|--shape <SHAPE>"),
        (&["--shape", "equal"], "--sources <COUNT>"),
        (&["--shape", "zipf", "--sources", "3"], "`zipf` is no shape"),
        (&["--shape", "equal", "--sources", "0"], "invalid value '0' for '--sources"),
    ] {
        let err = folder.error(2, arguments);
        assert!(err.contains(message), "{arguments:?}: {err}");
    }
}
