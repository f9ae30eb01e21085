//! Plans, and the rates that they are made from.

use tidewatch::store::migrations::MIGRATIONS;
use tidewatch::store::retention::DeleteBefore;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::plan_input::PlannedTimes;

use super::*;

fn plan_record(source: SourceId, made: i64, times: &[i64]) -> AdoptedPlan {
    let plan = PlannedTimes {
        by: Policy::Plan,
        times: times.iter().map(|&secs| at(secs)).collect(),
        starts: at(made),
        ends: at(made + 86_400),
        expected_cost: 3.0,
        lower_bound: 2.5,
        price: 0.25,
        overflow: Some(0.125),
    };
    let due = Due::At(at(times[0]));
    let due = DueChange { source, due, reason: Reason::Plan, asked_by: Policy::Plan, rule: None };
    AdoptedPlan { made_at: at(made), plan, passing: false, due, follows: Policy::Plan }
}

#[tokio::test]
async fn plans_are_kept_and_the_times_of_the_last_two() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    store.write(Write::Plans(vec![plan_record(a, 0, &[10, 20]), plan_record(b, 0, &[15])]));
    for round in 1..5 {
        store.write(Write::Plans(vec![plan_record(a, 100 * round, &[100 * round + 7, 100 * round + 9])]));
    }
    // Also after the clock was set back.
    store.write(Write::Plans(vec![plan_record(a, -50, &[-40, -30, -20])]));
    store.flush().await;
    assert_eq!(store.count("SELECT count(*) FROM plans").await, 7);
    assert_eq!(store.count("SELECT count(*) FROM plan_probes").await, 3 + 2 + 1);
    let reader = store.reader().await;
    let latest = reader.latest_plan(a).await.unwrap().unwrap();
    assert_eq!((latest.made_at, latest.ends_at, latest.probes), (at(-50), at(86_350), 3));
    assert_eq!(latest.times, [at(-40), at(-30), at(-20)]);
    assert_eq!((latest.expected_cost, latest.lower_bound), (3.0, 2.5));
    assert_eq!((latest.price, latest.overflow), (0.25, Some(0.125)));
    assert_eq!(reader.latest_plan(b).await.unwrap().unwrap().times, [at(15)]);
    assert_eq!(reader.latest_plan(SourceId(99)).await.unwrap(), None);
    let due: Vec<(String, i64, String)> =
        sqlx::query_as("SELECT name, next_probe_at, next_probe_reason FROM sources ORDER BY name")
            .fetch_all(&mut store.connection().await)
            .await
            .unwrap();
    let wanted = |name: &str, secs| (name.to_owned(), at(secs).as_millis(), "plan".to_owned());
    assert_eq!(due, [wanted("a", -40), wanted("b", 15)]);
    // Old plans are pruned with the probes of their time.
    store.write(Write::Prune(DeleteBefore::probes(at(250), at(250))));
    store.flush().await;
    assert_eq!(store.count("SELECT count(*) FROM plans").await, 2);
    assert_eq!(store.count("SELECT count(*) FROM plan_probes").await, 2);
}

#[tokio::test]
async fn as_many_passing_plans_are_kept_as_lasting_ones() {
    let store = Store::new().await;
    let a = store.id("a");
    // An hour apart, of a day each.
    for hour in 0..49 {
        let made = 3_600 * hour;
        let plan = plan_record(a, made, &[made + 100, made + 4_000]);
        store.write(Write::Plans(vec![AdoptedPlan { passing: true, ..plan }]));
    }
    store.flush().await;
    let made: Vec<i64> = sqlx::query_scalar("SELECT made_at FROM plans ORDER BY id")
        .fetch_all(&mut store.connection().await)
        .await
        .unwrap();
    assert_eq!(made, [0, 12, 24, 36, 48].map(|hour| at(3_600 * hour).as_millis()));
    assert_eq!(store.count("SELECT count(*) FROM plan_probes").await, 2 + 2);
    let latest = store.reader().await.latest_plan(a).await.unwrap().unwrap();
    assert_eq!(latest.times, [at(48 * 3_600 + 100), at(48 * 3_600 + 4_000)]);
}

#[tokio::test]
async fn rates_of_many_are_read_at_once() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let record = |segments: &[(u32, u32, f64)]| RateRecord {
        source: a,
        fitted_at: at(200),
        origin: "blend",
        cycle: "day",
        time_zone: "Europe/London".into(),
        segments: segments.to_vec(),
        per_week: 12.5,
        dispersion: None,
        updates: 7,
        since: None,
        habits: None,
    };
    store.write(Write::Rates(vec![record(&[(0, 3600, 0.5), (3600, 604_800, 0.25)])]));
    store.flush().await;
    let reader = store.reader().await;
    let rates = reader.rates(&[a, b, SourceId(77)]).await.unwrap();
    assert_eq!(rates.len(), 1, "the others have none");
    assert_eq!(rates[&a].rate.zone().iana_name(), Some("Europe/London"));
    let monday = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
    let day = Steps::from(&rates[&a].rate).over(monday, monday + Span::from_days(1));
    assert_eq!(day, [(3_600_000, 0.5), (86_400_000, 0.25)]);
    store.write(Write::Rates(vec![record(&[(0, 3600, 0.5)])]));
    store.flush().await;
    assert!(reader.rates(&[a]).await.unwrap().is_empty(), "half a week is no rate");
}

#[tokio::test]
async fn planned_times_of_an_older_store_are_kept() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("old.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut old = options.connect().await.unwrap();
    let before = MIGRATIONS.iter().filter(|migration| migration.version < 7).cloned().collect();
    sqlx::migrate::Migrator::with_migrations(before).run(&mut old).await.unwrap();
    sqlx::raw_sql(
        "INSERT INTO sources (id, name, url, kind, policy, added_at) VALUES (1, 'a', 'http://a/', 'feed', 'auto', 0);
         INSERT INTO plans (id, source_id, made_at, starts_at, ends_at, probes, expected_cost, lower_bound, method)
         VALUES (1, 1, 0, 0, 9, 1, 1, 1, 'rolling'), (2, 1, 5000, 5000, 9000, 2, 1, 1, 'rolling');
         INSERT INTO plan_probes (plan_id, at) VALUES (2, 7000), (2, 6000)",
    )
    .execute(&mut old)
    .await
    .unwrap();
    old.close().await.unwrap();
    let mut new = open::for_writing(&path).await.unwrap();
    let times: Vec<(i64, i64)> =
        sqlx::query_as("SELECT plan_id, at FROM plan_probes").fetch_all(&mut new).await.unwrap();
    assert_eq!(times, [(2, 6000), (2, 7000)]);
    let latest = Reader::open(&path).await.unwrap().latest_plan(SourceId(1)).await.unwrap().unwrap();
    assert_eq!(latest.times, [6000, 7000].map(Timestamp::from_millis));
}
