//! Bursts while they last, and their review.

use tidewatch::store::load;
use tidewatch::store::review::BurstReview;
use tidewatch_core::model::burst::{BurstChange, BurstEvidence};

use super::*;

fn evidence(until: i64, observed: u32) -> BurstEvidence {
    BurstEvidence { since: at(1_000), at: at(until), observed, expected: 0.5 }
}

fn record_by(id: SourceId, secs: i64, policy: Policy, burst: Option<BurstChange>) -> ProbeRecord {
    let plain = probe_record(id, secs);
    let follows = if matches!(burst, Some(BurstChange::Ended(_))) { Policy::Plan } else { Policy::Ttl };
    let burst_state = BurstState { follows, ..BurstState::default() };
    ProbeRecord {
        attempt: Attempt { policy, ..plain.attempt },
        memory: SourceMemory { burst: burst_state, ..plain.memory.clone() },
        burst,
        ..plain
    }
}

#[tokio::test]
async fn a_burst_grows_ends_and_is_reviewed() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let write = |record: ProbeRecord| store.write(Write::Ended(Box::new(record)));
    write(record_by(a, 500, Policy::Plan, None));
    write(record_by(a, 1_600, Policy::Plan, Some(BurstChange::Began(evidence(1_600, 5)))));
    write(record_by(b, 1_650, Policy::Ttl, None));
    write(ProbeRecord { burst_so_far: Some(evidence(1_700, 9)), ..record_by(a, 1_700, Policy::Ttl, None) });
    store.flush().await;
    let reader = store.reader().await;
    assert_eq!(reader.open_burst(a).await.unwrap(), Some((at(1_000), 9, 0.5)));
    assert_eq!(reader.open_burst(b).await.unwrap(), None);
    let on = BurstReview {
        source: a,
        began: at(1_000),
        ended: None,
        observed: 9,
        expected: 0.5,
        probes: 2,
        by_ttl: 1,
        planned_again: false,
    };
    assert_eq!(reader.bursts().await.unwrap().as_slice(), std::slice::from_ref(&on));

    write(record_by(a, 1_900, Policy::Ttl, Some(BurstChange::Ended(evidence(1_900, 11)))));
    write(record_by(b, 2_000, Policy::Ttl, Some(BurstChange::Passed(evidence(1_990, 4)))));
    write(record_by(a, 2_500, Policy::Ttl, None));
    store.flush().await;
    assert_eq!(reader.open_burst(a).await.unwrap(), None);
    let over = BurstReview { ended: Some(at(1_900)), observed: 11, probes: 3, by_ttl: 2, ..on.clone() };
    let passed = BurstReview { source: b, ended: Some(at(1_990)), observed: 4, probes: 1, by_ttl: 1, ..on };
    assert_eq!(reader.bursts().await.unwrap(), [over.clone(), passed.clone()], "no plan since then");
    write(record_by(a, 2_600, Policy::Plan, None));
    store.flush().await;
    let planned = BurstReview { planned_again: true, ..over };
    assert_eq!(reader.bursts().await.unwrap(), [planned, passed]);
}

fn changed_since(secs: i64) -> BeliefsRecord {
    BeliefsRecord { burst_became_rhythm: Some(at(secs)), ..believed(&[1]) }
}

fn rate(source: SourceId, fitted: i64) -> Write {
    Write::Rates(vec![RateRecord {
        source,
        fitted_at: at(fitted),
        origin: "individual",
        cycle: "none",
        time_zone: "UTC".to_owned(),
        segments: vec![(0, 604_800, 0.5)],
        per_week: 84.0,
        dispersion: None,
        updates: 30,
        since: None,
        habits: None,
    }])
}

#[tokio::test]
async fn a_permanent_change_voids_the_rate_and_is_recorded() {
    let store = Store::new().await;
    let a = store.id("a");
    let write = |record: ProbeRecord| store.write(Write::Ended(Box::new(record)));
    write(ProbeRecord { beliefs: Some(believed(&[1])), ..record_by(a, 1_000, Policy::Plan, None) });
    store.write(rate(a, 1_100));
    write(record_by(
        a,
        1_200,
        Policy::Plan,
        Some(BurstChange::Passed(BurstEvidence { at: at(900), ..evidence(900, 3) })),
    ));
    write(record_by(a, 1_600, Policy::Plan, Some(BurstChange::Began(evidence(1_600, 5)))));
    let last = record_by(a, 9_000, Policy::Ttl, Some(BurstChange::Ended(evidence(9_000, 99))));
    write(ProbeRecord { beliefs: Some(changed_since(1_000)), ..last });
    store.flush().await;
    let reader = store.reader().await;
    assert!(reader.rates(&[a]).await.unwrap().is_empty(), "the rate of the old rhythm is void");
    assert_eq!(
        reader.histories(SourceId(0), 9, FitScope::WithoutRate).await.unwrap().len(),
        1,
        "fitted soon"
    );
    let spans = reader.burst_spans(a).await.unwrap();
    assert_eq!(spans.iter().map(|span| span.for_good).collect::<Vec<_>>(), [false, true]);
    write(ProbeRecord { beliefs: Some(believed(&[2])), ..record_by(a, 9_500, Policy::Plan, None) });
    store.write(rate(a, 9_600));
    store.flush().await;
    assert_eq!(reader.rates(&[a]).await.unwrap().len(), 1);
    assert_eq!(reader.probe_inputs(a).await.unwrap().rate.unwrap().updates, 30);
    assert!(reader.histories(SourceId(0), 9, FitScope::WithoutRate).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_lower_level_voids_the_rate_and_leaves_bursts_as_they_are() {
    let store = Store::new().await;
    let a = store.id("a");
    let write = |record: ProbeRecord| store.write(Write::Ended(Box::new(record)));
    let tested = BeliefsRecord { rhythm_test: Some(vec![1, 2]), ..believed(&[1]) };
    write(ProbeRecord { beliefs: Some(tested), ..record_by(a, 1_000, Policy::Plan, None) });
    store.write(rate(a, 1_100));
    let passed = BurstChange::Passed(BurstEvidence { at: at(1_150), ..evidence(1_150, 3) });
    write(record_by(a, 1_200, Policy::Plan, Some(passed)));
    store.flush().await;
    let reader = store.reader().await;
    assert_eq!(reader.probe_inputs(a).await.unwrap().rhythm_test, Some(vec![1, 2]));
    assert_eq!(reader.rhythm_since(a).await.unwrap(), None);
    let relearned = BeliefsRecord { relearned_since: Some(at(1_010)), ..believed(&[1]) };
    write(ProbeRecord { beliefs: Some(relearned), ..record_by(a, 2_000, Policy::Plan, None) });
    write(ProbeRecord { beliefs: Some(believed(&[2])), ..record_by(a, 2_100, Policy::Plan, None) });
    store.flush().await;
    assert!(reader.rates(&[a]).await.unwrap().is_empty(), "the rate of the old rhythm is void");
    assert_eq!(reader.rhythm_since(a).await.unwrap(), Some(at(1_010)));
    assert_eq!(reader.probe_inputs(a).await.unwrap().rhythm_test, None);
    assert!(reader.burst_spans(a).await.unwrap().iter().all(|span| !span.for_good));
    assert_eq!(reader.rhythm_since(SourceId(99)).await.unwrap(), None);
}

#[tokio::test]
async fn a_new_address_resets_the_burst_state() {
    let store = Store::new().await;
    let a = store.id("a");
    let first = record_by(a, 1_600, Policy::Plan, Some(BurstChange::Began(evidence(1_600, 5))));
    let burst_state = BurstState {
        asked_by: Policy::Ttl,
        follows: Policy::Ttl,
        newest: Some(at(1_500)),
        burst_since: Some(at(1_000)),
        in_bursts: 300_000,
        quiet_since: Some(at(1)),
        reserve_whole_at: Some(at(5_000)),
    };
    let memory = SourceMemory { burst: burst_state.clone(), ..first.memory.clone() };
    store.write(Write::Ended(Box::new(ProbeRecord { memory, ..first })));
    let sync = async |listed: Listed| {
        let (reply, synced) = oneshot::channel();
        store.write(Write::Sync { listed: vec![listed], gone: Vec::new(), at: at(2_000), reply });
        synced.await.unwrap();
        store.flush().await;
        let mut connection = store.reader().await.connection().await.unwrap();
        load::remembered(&mut connection, a, at(2_000)).await.unwrap().burst
    };
    let same = listed("a", "http://a/");
    assert_eq!(sync(same.clone()).await, burst_state, "nothing changed");
    let otherwise = BurstState { follows: Policy::Adaptive, ..burst_state.clone() };
    assert_eq!(sync(Listed { policy: "uniform", ..same.clone() }).await, otherwise, "another policy");
    let moved = sync(Listed { policy: "uniform", ..listed("a", "http://elsewhere/") }).await;
    assert_eq!(moved, BurstState { asked_by: Policy::Ttl, ..BurstState::default() });
    assert_eq!(store.reader().await.open_burst(a).await.unwrap(), None, "its burst is over");
}

#[tokio::test]
async fn setting_the_clock_moves_every_stored_limit() {
    let store = Store::new().await;
    let a = store.id("a");
    let first = probe_record(a, 10_000);
    let memory = SourceMemory {
        due: Due::At(at(20_000)),
        last_probe: Some(at(10_001)),
        retry_until: Some(at(15_000)),
        burst: BurstState { newest: Some(at(9_000)), ..BurstState::default() },
        ..first.memory.clone()
    };
    store.write(Write::Ended(Box::new(probe_record(a, 50))));
    store.write(Write::Ended(Box::new(ProbeRecord { memory, ..first })));
    store.write(clock_set(Span::from_secs(-5_000), at(5_100)));
    store.flush().await;
    let reader = store.reader().await;
    let mut connection = reader.connection().await.unwrap();
    let moved = load::remembered(&mut connection, a, at(5_100)).await.unwrap();
    assert_eq!((moved.due, moved.retry_until), (Due::At(at(15_000)), Some(at(10_000))));
    assert_eq!((moved.last_probe, moved.burst.newest), (Some(at(5_001)), Some(at(4_000))));
    let starts: Vec<Timestamp> =
        reader.last_probes(a, 9).await.unwrap().iter().map(|probe| probe.started_at).collect();
    assert_eq!(starts, [at(5_000), at(50 - 5_000)], "by the clock in force");
    let logged: Vec<i64> = sqlx::query_scalar("SELECT started_at FROM probes ORDER BY id")
        .fetch_all(&mut *connection)
        .await
        .unwrap();
    assert_eq!(logged, [at(50), at(10_000)].map(Timestamp::as_millis), "the log is not written again");
    drop(connection);
    let list = [listed("a", "http://a/"), listed("b", "http://b/")];
    let loaded = load(&mut store.connection().await, &list, at(5_200), at(-4_000)).await;
    assert_eq!(loaded["a"].probes, [at(5_001)], "it counts by the new clock");
    // The row is brought up to date later, and says the same then.
    store.flush().await;
    let row = "SELECT retry_until FROM sources WHERE name = 'a'";
    assert_eq!(store.count(row).await, at(10_000).as_millis());
    assert_eq!(loaded["a"].memory, moved);
}

#[tokio::test]
async fn a_page_is_blind_only_if_its_own_times_are_inexact() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let page = |name: &str, url: &str| Listed { kind: "page", ..listed(name, url) };
    let (reply, synced) = oneshot::channel();
    let listed = vec![page("a", "http://a/"), page("b", "http://b/")];
    store.write(Write::Sync { listed, gone: Vec::new(), at: at(10), reply });
    synced.await.unwrap();
    for (id, occurred) in [(a, Occurred::At(at(90))), (b, Occurred::Between(at(40), at(100)))] {
        let seen = Observation {
            updates: vec![Update { occurred, kind: UpdateKind::Changed, ..new_item("one", 90) }],
            ..Observation::default()
        };
        let beliefs = Some(believed(&[1]));
        let record = ProbeRecord { observation: Some(seen), beliefs, ..probe_record(id, 100) };
        store.write(Write::Ended(Box::new(record)));
    }
    store.flush().await;
    let rows = store.reader().await.histories(SourceId(0), 9, FitScope::All).await.unwrap();
    assert_eq!(rows.iter().map(|row| (row.id, row.blind)).collect::<Vec<_>>(), [(a, false), (b, true)]);
}
