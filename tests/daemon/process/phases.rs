//! Bursts and silences in the output of `explain` and `status`.

use serde_json::Value;
use tidewatch::clock::Clock;
use tidewatch_core::time::{Span, Timestamp};

use super::daemon::Home;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

const BUDGET: &str = "probes = 96, per = \"1d\", min_spacing = \"10m\"";

async fn printed(home: &Home, arguments: &[&str]) -> String {
    let output = home.run(arguments).await;
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), err.as_ref()), (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

async fn json(home: &Home, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(home, arguments).await).unwrap()
}

/// The source of that name in `status`.
async fn in_status(home: &Home, name: &str) -> Value {
    let status = json(home, &["status", "--json"]).await;
    let sources = status["sources"].as_array().unwrap();
    sources.iter().find(|source| source["name"] == name).unwrap().clone()
}

/// The lines of the explanation under a heading.
fn under<'t>(text: &'t str, heading: &str) -> Vec<&'t str> {
    let mut lines = text.lines().skip_while(|line| line.split("  ").next() != Some(heading));
    let first = lines.next().map(|line| &line[12..]);
    first.into_iter().chain(lines.take_while(|line| line.starts_with("   ")).map(str::trim)).collect()
}

#[tokio::test]
async fn bursts_and_silences_are_explained() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[
        source_with_budget("busy", &web.url("/busy"), BUDGET),
        source_with_budget("silent", &web.url("/silent"), BUDGET),
    ]);
    for name in ["busy", "silent"] {
        printed(&home, &["probe", name]).await;
    }
    let calm = json(&home, &["explain", "busy", "--json"]).await;
    assert!(calm["burst"].is_null() && calm["quiet_since"].is_null() && calm["plan"].is_null(), "{calm:#}");
    assert_eq!(calm["reserve"], serde_json::json!({ "probes": 19, "left": 19, "kept": 0 }));
    let calm = printed(&home, &["explain", "busy"]).await;
    assert!(under(&calm, "burst").is_empty() && under(&calm, "quiet").is_empty(), "{calm}");

    let now = Clock::wall().now();
    let ago = |minutes: i64| (now - Span::from_mins(minutes)).as_millis();
    let mut store = home.connection().await;
    sqlx::query(
        "UPDATE sources SET state = 'burst', follows = 'ttl', next_probe_policy = 'ttl', next_probe_reason = 'burst',
                            next_probe_at = ?, newest_at = ?, burst_since = ?, reserve_whole_at = ?, in_bursts = 1000000
         WHERE name = 'busy'",
    )
    .bind(ago(-20))
    .bind(ago(100))
    .bind(ago(180))
    // Two of nineteen a day.
    .bind(ago(-2 * 24 * 60 / 19))
    .execute(&mut store)
    .await
    .unwrap();
    sqlx::query(
        "INSERT INTO bursts (source_id, began_at, observed, expected) SELECT id, ?, 23, 1.24 FROM sources WHERE name = 'busy'",
    )
    .bind(ago(180))
    .execute(&mut store)
    .await
    .unwrap();
    sqlx::query(
        "UPDATE sources SET state = 'planned', quiet_since = ?, newest_at = ? WHERE name = 'silent'",
    )
    .bind(ago(30))
    .bind(ago(3 * 24 * 60))
    .execute(&mut store)
    .await
    .unwrap();

    let busy = printed(&home, &["explain", "busy"]).await;
    assert!(
        busy.contains("policy      auto (now using ttl)") && busy.contains("because of: burst"),
        "{busy}"
    );
    let [seen, done] = under(&busy, "burst")[..] else { panic!("{busy}") };
    assert!(seen.starts_with("since 2") && seen.ends_with(": 23 updates, 1.2 expected"), "{busy}");
    assert!(
        done.starts_with("extra probes: the next one after 20 % of the age of the last update (2")
            && done
                .ends_with("at least 10m apart, as far as the reserve lasts; 17 of 19 reserve probes left"),
        "{busy}"
    );
    let busy = json(&home, &["explain", "busy", "--json"]).await;
    let iso = |millis| Value::from(Timestamp::from_millis(millis).iso());
    assert_eq!((&busy["asking"], &busy["next_probe_reason"]), (&"ttl".into(), &"burst".into()), "{busy:#}");
    assert_eq!(
        busy["burst"],
        serde_json::json!({ "since": iso(ago(180)), "observed": 23, "expected": 1.24 })
    );
    assert_eq!(busy["newest_update_at"], iso(ago(100)));
    assert_eq!(busy["reserve"], serde_json::json!({ "probes": 19, "left": 17, "kept": 17 }));
    assert!(busy["last_probes"][0]["policy"].is_string(), "{busy:#}");
    let busy = in_status(&home, "busy").await;
    assert_eq!(
        (&busy["state"], &busy["asked_by"], &busy["follows"], &busy["burst_since"], &busy["quiet_since"]),
        (&"burst".into(), &"ttl".into(), &"ttl".into(), &iso(ago(180)), &Value::Null),
        "{busy:#}"
    );

    let silent = printed(&home, &["explain", "silent"]).await;
    let [message] = under(&silent, "quiet")[..] else { panic!("{silent}") };
    assert!(message.starts_with("since 2") && message.contains(": no update since 2"), "{silent}");
    let silent = json(&home, &["explain", "silent", "--json"]).await;
    assert_eq!(
        (&silent["quiet_since"], &silent["newest_update_at"]),
        (&iso(ago(30)), &iso(ago(3 * 24 * 60))),
        "{silent:#}"
    );
    assert_eq!(in_status(&home, "silent").await["quiet_since"], iso(ago(30)));
    let table = printed(&home, &["status"]).await;
    assert!(table.lines().next().unwrap().contains("next probe  asked by  because"), "{table}");
    let line = |name| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("busy").contains(" burst ") && line("busy").contains(" ttl "), "{table}");
    assert!(line("silent").contains(" planned, quiet "), "{table}");

    // A configured policy is used also in a burst.
    home.write(&[source_with_budget("busy", &web.url("/busy"), BUDGET) + "policy = \"uniform\"\n"]);
    sqlx::query("UPDATE sources SET policy = 'uniform'").execute(&mut store).await.unwrap();
    let busy = printed(&home, &["explain", "busy"]).await;
    assert!(under(&busy, "burst")[1].starts_with("no extra probes: the policy is uniform"), "{busy}");
    assert!(in_status(&home, "busy").await["follows"].is_null());
}
