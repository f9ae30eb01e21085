//! Update times and habits: kept from probe to probe and from fit to fit, and deleted with their source.

use std::sync::Arc;

use tidewatch::clock::Clock;
use tidewatch::config::valid;
use tidewatch::daemon::refit::{RefitParams, Refitter};
use tidewatch::store::migrations::MIGRATIONS;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::habits::mixture::PredictorMix;
use tidewatch_core::model::habits::update_times::UpdateTimes;
use tidewatch_core::model::habits::weights::FEW;
use tidewatch_core::model::history::History;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::rng::Stream;
use tokio::sync::{mpsc, watch};

use super::*;

const HOUR: i64 = 3_600;

/// Updates at four minutes past each hour.
fn hourly_times(hours: i64) -> UpdateTimes {
    let mut times = UpdateTimes::default();
    times.watched_since(at(-HOUR));
    (0..hours).for_each(|n| times.note(at(n * HOUR + 240), Some(1.0)));
    times
}

fn probed(id: SourceId, secs: i64, update_times: Option<Vec<u8>>) -> Write {
    let history = History::new(jiff::tz::TimeZone::UTC, Span::from_days(56), at(0)).to_bytes();
    let beliefs = Some(BeliefsRecord { history, update_times, ..BeliefsRecord::default() });
    Write::Ended(Box::new(ProbeRecord { beliefs, ..probe_record(id, secs) }))
}

fn rate(source: SourceId, fitted: i64, habits: Option<Vec<u8>>) -> Write {
    Write::Rates(vec![RateRecord {
        source,
        fitted_at: at(fitted),
        origin: "individual",
        cycle: "none",
        time_zone: "UTC".to_owned(),
        segments: vec![(0, 604_800, 1.0)],
        per_week: 168.0,
        dispersion: None,
        updates: 30,
        since: None,
        habits,
    }])
}

#[tokio::test]
async fn update_times_and_habits_are_kept_until_replaced() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let first = hourly_times(20).to_bytes();
    let rhythm = Steps::from(&Rate::constant(1.0));
    let habits = PredictorMix::fit_weights(&hourly_times(20), &rhythm, at(20 * HOUR), true).to_bytes();
    store.write(probed(a, 100, Some(first.clone())));
    store.write(probed(b, 100, None));
    store.flush().await;
    let reader = store.reader().await;
    assert_eq!(reader.probe_inputs(a).await.unwrap().update_times, Some(first.clone()));
    assert_eq!(reader.probe_inputs(b).await.unwrap().update_times, None);
    let of_a = async || reader.update_times(&[a, b]).await.unwrap().remove(&a);
    let row = of_a().await.unwrap();
    assert_eq!((row.update_times, row.habits, row.weighed_at), (first.clone(), None, None));
    assert!(!reader.update_times(&[a, b]).await.unwrap().contains_key(&b));
    assert!(reader.update_times(&[]).await.unwrap().is_empty());

    store.write(rate(a, 200, Some(habits.clone())));
    store.write(probed(a, 300, Some(first.clone())));
    // A fit that weighs nothing leaves them alone.
    store.write(rate(a, 400, None));
    store.flush().await;
    let row = of_a().await.unwrap();
    assert_eq!(
        (row.update_times, row.habits, row.weighed_at),
        (first, Some(habits.clone()), Some(at(200)))
    );

    let more = hourly_times(21).to_bytes();
    store.write(probed(a, 500, Some(more.clone())));
    store.flush().await;
    let row = of_a().await.unwrap();
    assert_eq!((row.update_times, row.habits, row.weighed_at), (more.clone(), Some(habits.clone()), None));

    // A new address may have the same feed; a page has no update times.
    let sync = async |listed: Listed| {
        let (reply, synced) = oneshot::channel();
        store.write(Write::Sync { listed: vec![listed], gone: Vec::new(), at: at(600), reply });
        synced.await.unwrap();
    };
    sync(listed("a", "http://elsewhere/")).await;
    assert_eq!(of_a().await.unwrap().habits, Some(habits.clone()));
    sync(Listed { kind: "page", ..listed("a", "http://elsewhere/") }).await;
    assert_eq!(of_a().await, None);
    assert_eq!(store.count("SELECT count(*) FROM histories WHERE habits IS NOT NULL").await, 0);

    // Habits are deleted with their update times.
    store.write(probed(b, 700, Some(more)));
    store.write(rate(b, 800, Some(habits)));
    store.write(probed(b, 900, None));
    store.flush().await;
    assert_eq!(store.count("SELECT count(*) FROM histories WHERE habits IS NOT NULL").await, 0);
}

#[tokio::test]
async fn an_older_store_without_update_times_accepts_them() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("old.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut old = options.connect().await.unwrap();
    let before = MIGRATIONS.iter().filter(|migration| migration.version < 8).cloned().collect();
    sqlx::migrate::Migrator::with_migrations(before).run(&mut old).await.unwrap();
    sqlx::raw_sql(
        "INSERT INTO sources (id, name, url, kind, policy, added_at) VALUES (1, 'a', 'http://a/', 'feed', 'auto', 0);
         INSERT INTO histories (source_id, bytes) VALUES (1, x'010203')",
    )
    .execute(&mut old)
    .await
    .unwrap();
    old.close().await.unwrap();
    let connection = open::for_writing(&path).await.unwrap();
    let reader = Reader::open(&path).await.unwrap();
    let inputs = reader.probe_inputs(SourceId(1)).await.unwrap();
    assert_eq!((inputs.history, inputs.update_times), (Some(vec![1, 2, 3]), None));
    assert!(reader.update_times(&[SourceId(1)]).await.unwrap().is_empty());
    let (writer, handle) = Writer::new(connection);
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(writer.run(stopped));
    handle.writes.send(probed(SourceId(1), 100, Some(hourly_times(9).to_bytes()))).unwrap();
    stop.send(()).unwrap();
    patience(LONGEST, task).await.unwrap().unwrap().unwrap();
    assert_eq!(
        reader.update_times(&[SourceId(1)]).await.unwrap()[&SourceId(1)].update_times,
        hourly_times(9).to_bytes()
    );
}

#[tokio::test]
async fn a_refit_weighs_habits_when_updates_are_new_or_old() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let (reply, synced) = oneshot::channel();
    let listed = vec![Listed { policy: "plan", ..listed("b", "http://b/") }];
    store.write(Write::Sync { listed, gone: Vec::new(), at: at(1), reply });
    synced.await.unwrap();
    store.write(probed(a, 100, Some(hourly_times(100).to_bytes())));
    store.write(probed(b, 100, Some(hourly_times(100).to_bytes())));
    store.flush().await;
    let params = |settings: &str| {
        let config = valid::parse(&[(PathBuf::from("t.toml"), settings.to_owned())]).unwrap();
        Arc::new(RefitParams::new(&config))
    };
    let (refits, of_refits) = watch::channel(params(""));
    let (control, _events) = mpsc::unbounded_channel();
    let reader = store.reader().await;
    let refitter = Refitter {
        reader: reader.clone(),
        writes: store.handle.writes.clone(),
        control,
        clock: Clock::wall(),
        params: of_refits,
    };
    let weighed = async |secs: i64| {
        assert_eq!(refitter.refit(at(secs)).await.unwrap(), 2);
        let rows = reader.update_times(&[a, b]).await.unwrap();
        assert!(rows[&b].habits.is_some(), "with every policy");
        (rows[&a].weighed_at, PredictorMix::from_bytes(rows[&a].habits.as_deref().unwrap()).unwrap())
    };
    let now = 100 * HOUR;
    let (when, habits) = weighed(now).await;
    assert_eq!(when, Some(at(now)));
    let rhythm = async || Steps::from(&reader.rates(&[a]).await.unwrap()[&a].rate);
    assert_eq!(habits, PredictorMix::fit_weights(&hourly_times(100), &rhythm().await, at(now), true));

    assert_eq!(weighed(now + 6 * HOUR).await.0, Some(at(now)), "no new update");
    assert_eq!(weighed(now + 30 * HOUR).await.0, Some(at(now + 30 * HOUR)), "old updates fade");
    store.write(probed(a, now + 31 * HOUR, Some(hourly_times(101).to_bytes())));
    store.flush().await;
    let (when, habits) = weighed(now + 32 * HOUR).await;
    assert_eq!(when, Some(at(now + 32 * HOUR)));
    assert_eq!(
        habits,
        PredictorMix::fit_weights(&hourly_times(101), &rhythm().await, at(now + 32 * HOUR), true)
    );

    // If `echoes` is switched off, the next refit drops them at once.
    let mut clustered = UpdateTimes::default();
    let mut chance = Stream::new(3, "clusters");
    for _ in 0..60 {
        let first = at(now - (chance.unit() * 1_500.0 * HOUR as f64) as i64);
        (0..4).for_each(|n| clustered.note(first + Span::from_mins(3 * n), Some(1.0)));
    }
    store.write(probed(a, now + 33 * HOUR, Some(clustered.to_bytes())));
    store.flush().await;
    let (when, habits) = weighed(now + 34 * HOUR).await;
    assert!(habits.triggered_per_update() > 0.1, "{habits:?}");
    refits.send_replace(params("[rate]\nechoes = false\n"));
    let (again, habits) = weighed(now + 35 * HOUR).await;
    assert!(again > when);
    assert_eq!(habits.triggered_per_update(), 0.0);
}

#[tokio::test]
async fn few_update_times_are_not_weighed() {
    let store = Store::new().await;
    let a = store.id("a");
    store.write(probed(a, 100, Some(hourly_times(FEW as i64 - 1).to_bytes())));
    store.flush().await;
    let config = valid::parse(&[(PathBuf::from("t.toml"), String::new())]).unwrap();
    let (_refits, params) = watch::channel(Arc::new(RefitParams::new(&config)));
    let (control, _events) = mpsc::unbounded_channel();
    let reader = store.reader().await;
    let writes = store.handle.writes.clone();
    let refitter = Refitter { reader: reader.clone(), writes, control, clock: Clock::wall(), params };
    assert_eq!(refitter.refit(at(5 * HOUR)).await.unwrap(), 1);
    assert_eq!(reader.update_times(&[a]).await.unwrap()[&a].habits, None);
}
