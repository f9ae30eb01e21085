//! `tidewatch replay`: its results from a log, and its refusals.

use serde_json::Value;
use sqlx::SqliteConnection;
use tidewatch::store::open;

use crate::command_folder;
use tidewatch_fixtures::command::CommandFolder;

const REPLAY: &[&str] = &["replay"];
const MONDAY: i64 = 1_794_787_200;
const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// Few policies and budgets, so that it ends soon.
const SHORT: [&str; 6] = ["--test", "1w", "--policies", "auto,uniform", "--budgets", "2"];

const SOURCES: [(&str, &str); 4] =
    [("nightly", "feed"), ("page", "page"), ("silent", "feed"), ("unprobed", "feed")];

/// A folder with a configuration and a store that has the sources without probes.
async fn with_store() -> (CommandFolder, SqliteConnection) {
    let folder = command_folder(REPLAY);
    let mut config =
        "[importance]\ntime_zone = \"Europe/Zurich\"\n\n[rate]\nhalf_life = \"4w\"\n".to_owned();
    let mut store = open::for_writing(&folder.path().join("tidewatch.db")).await.unwrap();
    for (name, kind) in SOURCES {
        config += &format!("\n[[source]]\nname = \"{name}\"\nurl = \"https://{name}.example/\"\n");
        config += &format!("kind = \"{kind}\"\nbudget = {{ probes = 6, per = \"1d\" }}\n");
        sqlx::query("INSERT INTO sources (name, url, kind, policy, added_at) VALUES (?, ?, ?, 'auto', 0)")
            .bind(name)
            .bind(format!("https://{name}.example/"))
            .bind(kind)
            .execute(&mut store)
            .await
            .unwrap();
    }
    folder.write("tidewatch.toml", &config);
    (folder, store)
}

async fn probe(store: &mut SqliteConnection, name: &str, at: i64, outcome: &str) {
    sqlx::query(
        "INSERT INTO probes (source_id, due_at, started_at, duration_ms, outcome, policy, reason)
         SELECT id, ?2, ?2, 100, ?3, 'uniform', 'x' FROM sources WHERE name = ?1",
    )
    .bind(name)
    .bind(at * 1_000)
    .bind(outcome)
    .execute(store)
    .await
    .unwrap();
}

async fn update(store: &mut SqliteConnection, name: &str, occurred: i64, detected: i64, kind: &str) {
    sqlx::query(
        "INSERT INTO updates (source_id, detected_at, occurred_at, occurred_exact, kind, key)
         SELECT id, ?3, ?2, ?4 = 'new', ?4, ?2 FROM sources WHERE name = ?1",
    )
    .bind(name)
    .bind(occurred * 1_000)
    .bind(detected * 1_000)
    .bind(kind)
    .execute(store)
    .await
    .unwrap();
}

/// Three weeks of probes every four hours, of which one a day fails. One source publishes every night,
/// a page changes every other day, one is silent, and one was never probed.
async fn with_log() -> CommandFolder {
    let (folder, mut store) = with_store().await;
    let store = &mut store;
    sqlx::query("BEGIN").execute(&mut *store).await.unwrap();
    for n in 0..=21 * 6 {
        let at = MONDAY + n * 4 * HOUR;
        let outcome = if n % 6 == 1 { "failed" } else { "unchanged" };
        for name in ["nightly", "page", "silent"] {
            probe(store, name, at, outcome).await;
        }
    }
    for day in 0..21 {
        let night = MONDAY + day * DAY + 3 * HOUR + (day * 37) % 120;
        update(store, "nightly", night, MONDAY + day * DAY + 8 * HOUR, "new").await;
        if day % 2 == 0 {
            let detected = MONDAY + day * DAY + 16 * HOUR;
            update(store, "page", detected - 2 * HOUR, detected, "changed").await;
        }
    }
    sqlx::query("COMMIT").execute(&mut *store).await.unwrap();
    folder
}

fn json(folder: &CommandFolder, arguments: &[&str]) -> Value {
    serde_json::from_str(&folder.output(&[&SHORT[..], arguments, &["--json"]].concat())).unwrap()
}

fn policies(document: &Value) -> &[Value] {
    document["policies"].as_array().unwrap()
}

#[tokio::test]
async fn a_log_is_replayed() {
    let folder = with_log().await;
    let document = json(&folder, &[]);
    assert_eq!((&document["sources"], &document["sources_in_all"]), (&3.into(), &4.into()));
    let rows = policies(&document);
    let names: Vec<&str> = rows.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["as it was", "auto", "uniform", "auto"]);
    for row in rows {
        for key in ["mean_delay_s", "p50_delay_s", "worst_delay_s", "probes_per_source_and_day", "ratio"] {
            assert!(row[key].as_f64().is_some_and(|value| value >= 0.0), "{key} in {row}");
        }
        assert_eq!(row["updates"], rows[0]["updates"], "all are scored by the same updates");
    }
    // The last week: seven nights, and the page on the days 14, 16, 18 and 20.
    assert_eq!((&document["updates"], &document["guessed"]), (&11.into(), &4.into()));
    // The probe at four failed, so that the update at three was found at eight.
    let worst = rows[0]["worst_delay_s"].as_f64().unwrap();
    assert!((4.9 * 3_600.0..=5.0 * 3_600.0).contains(&worst), "{worst}");
    assert_eq!(rows[0]["probes"], 3 * 7 * 6, "failed probes count");
    assert_eq!(rows[0]["probes_per_source_and_day"], 6.0);
    assert_eq!(rows[0]["ratio"], 1.0);
    let delay = |row: &Value| row["mean_delay_s"].as_f64().unwrap();
    assert!(delay(&rows[3]) < delay(&rows[1]), "twice the probes reduce the delay: {document:#}");
    let half = &document["half_the_delay"];
    assert_eq!(half["policy"], "auto");
    let factor = half["factor"].as_f64().unwrap();
    assert!(factor > 0.0 && factor <= 50.0, "{half}");
}

#[tokio::test]
async fn the_table_has_the_same_figures_and_equal_seeds_give_equal_results() {
    let folder = with_log().await;
    let shown = folder.output(&SHORT);
    for part in [
        "3 of 4 sources, of which 2 published something",
        "of 4 of the 11 updates it is only known between which probes they came",
        "as it was",
        "uniform",
        "half the delay would take auto",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
    assert_eq!(folder.output(&SHORT), shown);
    assert_eq!(json(&folder, &["--seed", "7"]), json(&folder, &["--seed", "7"]));
}

#[tokio::test]
async fn the_configuration_is_applied() {
    let folder = with_log().await;
    // `plan` uses the rate, which depends on `half_life`; `auto` may use habits. `uniform` comes first:
    // the first policy runs with many probes, and `uniform` is fast.
    let planned = |folder: &CommandFolder| -> Value {
        let asked =
            ["--test", "1w", "--policies", "uniform,plan", "--sample", "1", "--budgets", "2", "--json"];
        serde_json::from_str(&folder.output(&asked)).unwrap()
    };
    let usual = planned(&folder);
    let config = std::fs::read_to_string(folder.path().join("tidewatch.toml")).unwrap();
    folder.write("tidewatch.toml", &config.replace("half_life = \"4w\"", "half_life = \"1d\""));
    let forgetful = planned(&folder);
    assert_ne!(policies(&usual)[2], policies(&forgetful)[2], "a shorter half-life gives another plan");
    assert_eq!(policies(&usual)[0], policies(&forgetful)[0], "the log is the same");
}

#[tokio::test]
async fn a_sample_has_the_requested_size() {
    let folder = with_log().await;
    assert_eq!(json(&folder, &["--sample", "2"])["sources"], 2);
    // By name, the first of three is the one that publishes every night.
    assert_eq!(json(&folder, &["--sample", "1"])["updates"], 7);
}

#[tokio::test]
async fn a_log_without_updates_is_reported() {
    let (folder, mut store) = with_store().await;
    for n in 0..60 {
        probe(&mut store, "silent", MONDAY + n * 4 * HOUR, "not_modified").await;
        probe(&mut store, "page", MONDAY + n * 4 * HOUR, "failed").await;
    }
    let shown = folder.output(&SHORT);
    assert!(shown.contains("nothing was published in that time"), "{shown}");
    assert!(!shown.contains("NaN"), "{shown}");
    let document = json(&folder, &[]);
    assert_eq!(document["half_the_delay"], Value::Null);
    assert_eq!((&document["guessed"], &document["policies"][0]["mean_delay_s"]), (&0.into(), &Value::Null));
}

#[tokio::test]
async fn updates_before_the_first_probe_count_in_no_delay() {
    let folder = with_log().await;
    let before = json(&folder, &[]);
    let mut store = open::for_writing(&folder.path().join("tidewatch.db")).await.unwrap();
    let first = MONDAY + 19 * DAY;
    for n in 0..12 {
        probe(&mut store, "unprobed", first + n * 4 * HOUR, "unchanged").await;
    }
    for (key, at) in [first - 2 * DAY, first - DAY].into_iter().enumerate() {
        sqlx::query(
            "INSERT INTO items (source_id, key_hash, fingerprint, dated_at, first_seen_at, last_seen_at)
             SELECT id, ?1, 1, ?2, ?3, ?3 FROM sources WHERE name = 'unprobed'",
        )
        .bind(key as i64)
        .bind(at * 1_000)
        .bind(first * 1_000)
        .execute(&mut store)
        .await
        .unwrap();
    }
    let after = json(&folder, &[]);
    assert_eq!(after["sources"], 4);
    assert_eq!(after["updates"], before["updates"]);
    assert_eq!(policies(&after)[0]["worst_delay_s"], policies(&before)[0]["worst_delay_s"]);
}

#[tokio::test]
async fn a_log_that_is_too_short_is_refused_with_advice() {
    let (folder, mut store) = with_store().await;
    let text = folder.error(1, &[]);
    assert!(text.contains("holds too few probes") && text.contains("let the daemon run"), "{text}");
    for n in 0..4 {
        probe(&mut store, "nightly", MONDAY + n * 600, "unchanged").await;
    }
    let text = folder.error(1, &[]);
    assert!(text.contains("only 30m long") && text.contains("let the daemon run"), "{text}");
    let text = folder.error(2, &["--policies", "auto,plan,auto"]);
    assert!(text.contains("--policies names `auto` twice"), "{text}");
    for wrong in [["--budgets", "0"], ["--sample", "0"], ["--policies", "unknown"]] {
        folder.error(2, &wrong);
    }
}

#[tokio::test]
async fn deadlines_and_rules_of_the_configuration_are_kept() {
    let folder = with_log().await;
    let config = std::fs::read_to_string(folder.path().join("tidewatch.toml")).unwrap();
    let free = json(&folder, &[]);
    assert!(free.get("rules").is_none() && policies(&free)[0].get("deadlines").is_none());
    let source = "name = \"nightly\"\n";
    let config = config.replace(source, &format!("{source}max_gap = \"5h\"\n"));
    let rules = "\n[[profile]]\nname = \"p\"\nsources = [\"nightly\"]\n\n[[profile.rule]]\nname = \"r\"\n\
        life = { window = \"2h\" }\ndeliver = [\"exec:e\"]\n\n[deliver.e]\nexec = [\"/bin/true\"]\n";
    folder.write("tidewatch.toml", &(config + rules));
    let bound = json(&folder, &[]);
    for row in policies(&bound) {
        assert!(row["deadlines"].as_u64().is_some_and(|count| count > 30), "{row}");
    }
    assert_eq!(policies(&bound)[0]["deadlines_missed"], 0, "it was probed every four hours");
    let rules = bound["rules"].as_array().unwrap();
    let names: Vec<&str> = rules.iter().map(|rule| rule["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["as it was", "auto", "uniform"]);
    // The update at three was found at eight, because the probe at four failed.
    assert_eq!((&rules[0]["waited_for"], &rules[0]["in_time"]), (&7.into(), &0.into()));
    assert!(rules[1]["in_time"].as_u64() >= Some(5), "{}", rules[1]);
    assert!(folder.output(&SHORT).contains("updates that rules waited for"));
}
