//! `tidewatch plan`: its output, its refusals and its exit codes.

use std::path::{Path, PathBuf};

use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;
use sqlx::SqliteConnection;
use tidewatch::store::open;

use crate::command_folder;
use tidewatch_fixtures::command::CommandFolder;

const PLAN: &[&str] = &["plan"];
const MONDAY: &str = "2026-11-16T00:00:00Z";
const DAY: f64 = 86_400.0;

/// With a rate of one update an hour, and one with an hour of work on weekdays.
fn with_rates() -> CommandFolder {
    let folder = command_folder(PLAN);
    folder.write("even.toml", "default_per_day = 24\n");
    folder.write(
        "noon.toml",
        "segments = [ { days = \"mon-fri\", hours = \"12:00-13:00\", per_day = 48 } ]\ndefault_per_day = 1\n",
    );
    folder
}

/// A plan from this rate, as JSON.
fn planned(folder: &CommandFolder, arguments: &[&str]) -> Value {
    serde_json::from_str(&folder.output(&[arguments, &["--start", MONDAY, "--json"]].concat())).unwrap()
}

fn example(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples").join(name);
    path.to_str().unwrap().to_owned()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn cost(plan: &Value) -> f64 {
    plan["expected_cost"].as_f64().unwrap()
}

#[test]
fn the_document_has_the_documented_keys() {
    let folder = with_rates();
    let arguments =
        ["--rate", "even.toml", "--start", MONDAY, "--horizon", "7d", "--probes", "7", "--json"];
    let (code, out, err) = folder.run(&arguments);
    assert_eq!((code, err.as_str()), (0, ""));
    let documented = [
        "method",
        "start",
        "horizon_s",
        "grid_s",
        "probes_s",
        "expected_cost",
        "lower_bound",
        "improver_moves",
        "elapsed_us",
    ];
    let places: Vec<usize> =
        documented.iter().map(|key| out.find(&format!("\"{key}\"")).unwrap()).collect();
    assert!(places.is_sorted(), "{out}");
    let plan: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(plan["method"], "optimal");
    assert_eq!(plan["start"], "2026-11-16T00:00:00.000Z");
    assert_eq!((&plan["horizon_s"], &plan["grid_s"]), (&Value::from(604_800), &Value::from(60)));
    // One update an hour, seven probes: a day apart is best, and costs 24²/2 a day.
    let days: Vec<f64> = numbers(&plan["probes_s"]).iter().map(|at| at / DAY).collect();
    assert_eq!(days, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    assert!((cost(&plan) - 7.0 * 288.0).abs() < 1e-9);
    let bound = plan["lower_bound"].as_f64().unwrap();
    assert!(bound <= cost(&plan) + 1e-9 && bound > 0.99 * cost(&plan), "{bound}");
    assert_eq!(plan["improver_moves"], 0);
    assert!(plan["elapsed_us"].is_u64());
    let counts: Vec<u64> =
        plan["trade_off"].as_array().unwrap().iter().map(|row| row["probes"].as_u64().unwrap()).collect();
    assert_eq!(counts, [3, 7, 14, 17]);
}

#[test]
fn every_method_keeps_the_constraints() {
    let folder = with_rates();
    let common = ["--rate", "noon.toml", "--horizon", "3d", "--probes", "20", "--min-spacing", "90m"];
    let closed = ["--closed", "22:00-06:00", "--closed", "wed 10:00-11:00", "--horizon", "78h"];
    let best = cost(&planned(&folder, &[&common[..], &["--grid", "5m"]].concat()));
    for method in ["optimal", "paper", "uniform", "threshold", "first_arrival"] {
        for improve in [&[][..], &["--improve"], &["--improver", "exact"], &["--improver", "moves"]] {
            let this = [&common[..], &["--grid", "30m", "--method", method], improve].concat();
            let plan = planned(&folder, &this);
            let times = numbers(&plan["probes_s"]);
            assert_eq!(times.last(), Some(&(3.0 * DAY)), "{this:?}");
            assert!(times.len() <= 20, "{this:?}");
            let gaps = std::iter::once(&0.0).chain(&times).zip(&times);
            assert!(gaps.into_iter().all(|(a, b)| b - a >= 5400.0 - 1e-6), "{this:?}: {times:?}");
            assert_eq!(plan["method"], method);
            assert_eq!(plan["grid_s"].is_null(), !["optimal", "paper"].contains(&method), "{this:?}");
            let bound = plan["lower_bound"].as_f64().unwrap();
            assert!(bound <= cost(&plan) * (1.0 + 1e-9), "{this:?}: {bound}");
            if !improve.is_empty() || plan["grid_s"].is_null() {
                assert!(bound <= best * (1.0 + 1e-9), "{this:?}: {bound} and {best}");
            }
        }
        let this =
            [&["--rate", "noon.toml", "--probes", "20", "--grid", "10m", "--method", method][..], &closed]
                .concat();
        for at in numbers(&planned(&folder, &this)["probes_s"]) {
            let (day, hour) = ((at / DAY).floor(), at % DAY / 3600.0);
            assert!((6.0..22.0).contains(&hour), "{method}: {day} {hour}");
            assert!(day != 2.0 || !(10.0..11.0).contains(&hour), "{method}: {day} {hour}");
        }
    }
}

#[test]
fn the_papers_example() {
    let folder = command_folder(PLAN);
    let (rate, importance) = (example("dbworld-rate.toml"), example("dbworld-importance.toml"));
    let common = [
        "--rate",
        &rate,
        "--importance",
        &importance,
        "--horizon",
        "28d",
        "--probes",
        "28",
        "--grid",
        "1h",
    ];
    let paper = planned(&folder, &[&common[..], &["--method", "paper"]].concat());
    // In update·days.
    assert!((cost(&paper) / 24.0 - 80.5915).abs() < 1e-3, "{}", cost(&paper) / 24.0);
    let optimal = planned(&folder, &[&common[..], &["--method", "optimal"]].concat());
    assert!((cost(&optimal) - cost(&paper)).abs() < 1e-6 * cost(&paper));
    let improved = planned(&folder, &[&common[..], &["--improve"]].concat());
    assert!(cost(&improved) <= cost(&optimal) * (1.0 + 1e-12));
    assert!(improved["lower_bound"].as_f64().unwrap() <= cost(&improved));
    for name in ["micronet-rate.toml", "micronet-importance.toml"] {
        let flag = if name.contains("rate") { "--rate" } else { "--importance" };
        let plan = planned(
            &folder,
            &["--rate", &rate, "--probes", "7", "--grid", "1h", flag, &example(name)][flag_at(flag)..],
        );
        assert_eq!(numbers(&plan["probes_s"]).len(), 7, "{name}");
    }
}

/// `--rate` may be given once.
fn flag_at(flag: &str) -> usize {
    if flag == "--rate" { 2 } else { 0 }
}

#[test]
fn impossible_requests_are_refused() {
    let folder = with_rates();
    let even = ["--rate", "even.toml", "--start", MONDAY];
    for (arguments, message) in [
        (
            &["--probes", "8", "--min-spacing", "1d"][..],
            "8 probes at least 1d apart need 8d, and the horizon is 7d: at most 7 fit; use --probes 7,",
        ),
        (&["--probes", "1", "--min-spacing", "8d"], "shorten --min-spacing or lengthen --horizon"),
        (&["--probes", "1", "--horizon", "0s"], "the horizon is empty: give a longer --horizon"),
        (&["--probes", "0"], "no probes to plan: at least one is needed"),
        (&["--probes", "1", "--closed", "daily"], "every time of the horizon is closed to probes"),
        (
            &["--probes", "1", "--closed", "22:00-06:30"],
            "its end (Mon 00:00) is closed to probes until Mon 06:30; use --horizon 7d6h30m",
        ),
        (&["--probes", "1", "--grid", "0s"], "a grid of 0s has no times to choose from"),
        (&["--probes", "1", "--grid", "0s", "--method", "uniform"], "a grid of 0s has no times"),
        (&["--probes", "1", "--grid", "8d"], "a grid of 8d is longer than the horizon of 7d"),
        (&["--probes", "1", "--grid", "1s", "--method", "paper"], "points is too fine"),
        (&["--probes", "1", "--grid", "1ms"], "points is too fine"),
        (&["--probes", "1", "--horizon", "99999d"], "--horizon can be at most 3660d"),
        (&["--probes", "4000000000"], "--probes can be at most 1000000"),
    ] {
        let err = folder.error(1, &[&even[..], arguments].concat());
        assert!(err.starts_with("tidewatch: ") && err.contains(message), "{arguments:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn wrong_usage_is_reported() {
    let folder = with_rates();
    let even = ["--rate", "even.toml"];
    for (arguments, message) in [
        (&[][..], "say how many probes to plan, with --probes"),
        (&["--probes", "NaN"], "invalid value 'NaN' for '--probes"),
        (&["--probes", "-1"], "invalid value '-1' for '--probes"),
        (&["--probes", "1", "--method", "best"], "first_arrival"),
        (&["--probes", "1", "--improver", "magic"], "exact"),
        (&["--probes", "1", "--horizon", "7"], "`7` has no unit; write it like `7s`"),
        (&["--probes", "1", "--horizon", "NaN"], "`NaN` is not a duration"),
        (&["--probes", "1", "--min-spacing=-5m"], "is not a duration"),
        (&["--probes", "1", "--start", "soon"], "--start: `soon` is not a time"),
        (&["--probes", "1", "--start", "9999-12-30T00:00:00Z"], "--start is too far away"),
        (&["--probes", "1", "--closed", "mon-fry"], "`fry` is not a day of the week"),
    ] {
        let err = folder.error(2, &[&even[..], arguments].concat());
        assert!(err.contains(message), "{arguments:?}: {err}");
    }
    let err = folder.error(2, &["--probes", "3"]);
    assert!(err.contains("name a source to plan for, or give a rate with --rate FILE"), "{err}");
}

#[test]
fn faults_of_both_files_are_shown_where_they_are() {
    let folder = command_folder(PLAN);
    folder.write(
        "rate.toml",
        r#"time_zone = "Europe/Londn"
segments = [
    { days = "mon-fry", hours = "09:00-18:00", per_day = 7.5 },
    { days = "sat", hours = "9-18", per_day = -1 },
    { day = "sun", per_day = nan },
    { hours = "12:00-12:00" },
]
default_per_dy = 2.4
"#,
    );
    folder.write("importance.toml", "segments = [ { weight = \"high\" } ]\ndefault_weight = inf\n");
    let err =
        folder.error(78, &["--rate", "rate.toml", "--importance", "importance.toml", "--probes", "1"]);
    insta::assert_snapshot!(err);
    let err = folder.error(78, &["--rate", "none.toml", "--probes", "1"]);
    assert!(err.contains("none.toml can't be read; check the path"), "{err}");
}

#[test]
fn without_json_a_picture_and_its_cost_are_printed() {
    let folder = with_rates();
    let plan = |more: &[&str]| {
        let common = ["--rate", "noon.toml", "--start", MONDAY];
        let (code, out, err) = folder.run(&[&common[..], more].concat());
        assert_eq!((code, err.as_str()), (0, ""));
        out
    };
    let out = plan(&["--probes", "14", "--grid", "10m"]);
    assert!(out.starts_with("noon.toml  14 probes in 7d; 16.8 updates expected\n"), "{out}");
    assert!(out.contains("from Mon 2026-11-16 00:00 to Mon 2026-11-23 00:00, hours in UTC\n"), "{out}");
    let rows: Vec<&str> = out.lines().filter(|line| line.ends_with('│')).collect();
    assert_eq!(rows.len(), 7, "{out}");
    assert!(rows.iter().all(|row| row.chars().count() == rows[0].chars().count()), "{out}");
    assert!(rows[0].starts_with("Mon 16 Nov │") && rows[0].contains("██●"), "{out}");
    assert_eq!(rows.concat().matches('●').count(), 14, "{out}");
    for message in
        ["expected cost", "lower bound", "evenly spread", "an update is found after", "this plan"]
    {
        assert!(out.contains(message), "{message}: {out}");
    }
    assert!(out.contains("  Mon 16 Nov  13:00"), "{out}");
    assert!(!out.contains('\x1b'));
    let out = plan(&["--probes", "100", "--grid", "1h", "--method", "uniform"]);
    assert!(out.contains("All 100 are in what --json prints."), "{out}");
    assert!(!out.contains("evenly spread"), "{out}");
    let out = plan(&["--probes", "50", "--horizon", "365d", "--grid", "1d"]);
    assert!(out.contains("--svg FILE draws it all") && out.lines().count() < 120, "{out}");
    folder.write("heavy.toml", "default_weight = 2\n");
    let out = plan(&["--probes", "2", "--importance", "heavy.toml", "--closed", "sat", "--grid", "1h"]);
    assert!(out.contains("update·hours × importance") && !out.contains("is found after"), "{out}");
    assert!(out.contains("Sat 21 Nov │------"), "{out}");
}

/// Reads a picture to its end as XML: how many elements are probes, and its title.
fn picture(svg: &str) -> (usize, String) {
    let mut reader = Reader::from_str(svg);
    let (mut probes, mut depth, mut title, mut in_title) = (0, 0, None, false);
    loop {
        match reader.read_event().unwrap() {
            Event::Start(tag) => {
                depth += 1;
                in_title = tag.name().as_ref() == "title";
                probes +=
                    usize::from(tag.attributes().map(Result::unwrap).any(|a| a.value.as_ref() == "probe"));
            }
            Event::Empty(tag) => {
                probes +=
                    usize::from(tag.attributes().map(Result::unwrap).any(|a| a.value.as_ref() == "probe"));
            }
            Event::Text(text) if in_title && title.is_none() => title = Some(text.to_string()),
            Event::End(_) => depth -= 1,
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    (probes, title.unwrap())
}

#[test]
fn the_picture_is_well_formed_at_any_length() {
    let folder = with_rates();
    folder.write("a&b<c>.toml", "default_per_day = 3\n");
    for (horizon, probes, grid) in
        [("1d", "1", "1h"), ("28d", "28", "6h"), ("365d", "300", "1d"), ("9w", "40", "1d")]
    {
        let arguments = ["--rate", "a&b<c>.toml", "--horizon", horizon, "--probes", probes, "--grid", grid];
        let (code, out, err) = folder
            .run(&[&arguments[..], &["--closed", "sat", "--start", MONDAY, "--svg", "p.svg"]].concat());
        assert_eq!((code, out.as_str(), err.as_str()), (0, "drawn into p.svg\n", ""), "{horizon}");
        let svg = std::fs::read_to_string(folder.path().join("p.svg")).unwrap();
        let (drawn, title) = picture(&svg);
        assert_eq!(drawn, probes.parse::<usize>().unwrap(), "{horizon}");
        assert!(title.starts_with("When to probe a"), "{title}");
        assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<c>"), "{svg}");
    }
    let err = folder.error(1, &["--rate", "even.toml", "--probes", "1", "--svg", "no/where.svg"]);
    assert!(err.contains("no/where.svg: "), "{err}");
}

/// A store with the source `blog`: a rate of one an hour where asked, and a feed that skips 00-06 UTC.
async fn store(folder: &CommandFolder, with_rate: bool) -> SqliteConnection {
    let mut store = open::for_writing(&folder.path().join("tidewatch.db")).await.unwrap();
    let mut statements = vec![
        "INSERT INTO sources (id, name, url, kind, policy, added_at, skip_hours)
         VALUES (1, 'blog', 'https://example.org/', 'feed', 'auto', 0, 63)",
    ];
    if with_rate {
        statements.push("INSERT INTO fits VALUES (1, 0, 'individual', 'none', 'UTC', 168.0, 1.0, 50, 0)");
        statements.push("INSERT INTO rates VALUES (1, 0, 'individual', 0, 604800, 1.0)");
    }
    for statement in statements {
        sqlx::query(statement).execute(&mut store).await.unwrap();
    }
    store
}

#[tokio::test]
async fn a_source_is_planned_with_its_stored_rate_and_hints() {
    let folder = with_rates();
    folder.write(
        "tidewatch.toml",
        "[[source]]\nname = \"blog\"\nurl = \"https://example.org/\"\n\
         budget = { probes = 12, per = \"1d\", min_spacing = \"30m\" }\n",
    );
    let (code, _, err) = folder.run(&["blog"]);
    assert_eq!(code, 69, "{err}");
    let given = planned(&folder, &["blog", "--rate", "even.toml", "--grid", "5m"]);
    assert_eq!(numbers(&given["probes_s"]).len(), 12);
    drop(store(&folder, true).await);
    let plan = planned(&folder, &["blog", "--grid", "5m"]);
    let times = numbers(&plan["probes_s"]);
    // Midnight is skipped, so the plan reaches on to six o'clock.
    assert_eq!((times.len(), times.last()), (12, Some(&(1.25 * DAY))));
    assert_eq!(plan["horizon_s"], 108_000);
    assert!(times.iter().all(|at| at % DAY >= 6.0 * 3600.0), "{times:?}");
    let notes = plan["notes"].to_string();
    assert!(notes.contains("skip") && notes.contains("1d6h"), "{notes}");
    // Options override; a longer horizon has its share of the budget.
    let week = planned(&folder, &["blog", "--horizon", "7d6h", "--min-spacing", "1h", "--grid", "20m"]);
    assert_eq!(numbers(&week["probes_s"]).len(), 12 * 7 + 3, "{week}");
    let (code, out, err) = folder.run(&["blog", "--grid", "5m"]);
    assert_eq!((code, err.as_str()), (0, ""), "from the current time");
    assert!(out.starts_with("blog  12 probes in "), "{out}");
    let err = folder.error(1, &["blgo"]);
    assert!(err.contains("did you mean `blog`?"), "{err}");
}

#[tokio::test]
async fn a_source_without_a_rate_is_refused() {
    let folder = command_folder(PLAN);
    folder.write("tidewatch.toml", "[[source]]\nname = \"blog\"\nurl = \"https://example.org/\"\n");
    drop(store(&folder, false).await);
    let err = folder.error(1, &["blog"]);
    assert!(err.contains("no rate is known of `blog` yet") && err.contains("--rate FILE"), "{err}");
}
