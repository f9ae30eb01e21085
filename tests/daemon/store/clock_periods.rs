//! Readers of the log after the clock was set: they give the times of the clock in force.

use tidewatch::store::past::Past;
use tidewatch_core::model::burst::{BurstChange, BurstEvidence};
use tidewatch_core::model::probe_log::ProbeLog;

use super::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// A probe after the one an hour before. What it found is undated.
fn probed(id: SourceId, secs: i64, key: &str, number: u32) -> Write {
    let undated = Update { occurred: Occurred::Between(at(secs - HOUR), at(secs)), ..new_item(key, 0) };
    let item = Present { dated: None, ..present(key, 1) };
    let observation =
        Some(Observation { updates: vec![undated], present: vec![item], ..Observation::default() });
    let burst = number.is_multiple_of(3).then(|| {
        let (since, at) = (at(secs - HOUR), at(secs));
        BurstChange::Passed(BurstEvidence { since, at, observed: 9, expected: 0.5 })
    });
    let outcome = ProbeOutcome::Updated;
    Write::Ended(Box::new(ProbeRecord { outcome, observation, burst, ..probe_record(id, secs) }))
}

/// A probe an hour from an hour after the start on. The clock is ahead by `ahead` seconds from the sixth to the eighth.
async fn logged(ahead: i64) -> Store {
    let store = Store::new().await;
    let (a, by) = (store.id("a"), Span::from_secs(ahead));
    let first = Present { dated: Some(at(-DAY)), ..present("first", 1) };
    let contact = Observation { present: vec![first], first_contact: true, ..Observation::default() };
    store.write(Write::Ended(Box::new(ProbeRecord { observation: Some(contact), ..probe_record(a, 0) })));
    for n in 1..=5 {
        store.write(probed(a, n * HOUR, &format!("k{n}"), n as u32));
    }
    store.flush().await;
    if ahead != 0 {
        store.write(clock_set(by, at(5 * HOUR + 600 + ahead)));
    }
    for n in 6..=8 {
        store.write(probed(a, n * HOUR + ahead, &format!("k{n}"), n as u32));
    }
    store.flush().await;
    if ahead != 0 {
        store.write(clock_set(-by, at(8 * HOUR + 600)));
    }
    for n in 9..=12 {
        store.write(probed(a, n * HOUR, &format!("k{n}"), n as u32));
    }
    store.flush().await;
    store
}

/// What every reader gives of it.
async fn read(store: &Store) -> (Vec<Past>, ProbeLog, String) {
    let (a, reader) = (store.id("a"), store.reader().await);
    let rest = format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        reader.probe_times(a).await.unwrap(),
        reader.burst_spans(a).await.unwrap(),
        reader.last_probes(a, 6).await.unwrap(),
        reader.last_updates(a, 6).await.unwrap(),
        reader.measures(at(6 * HOUR), at(8 * HOUR)).await.unwrap().total,
        reader.measures(at(0), at(DAY)).await.unwrap().total,
    );
    (reader.pasts(9).await.unwrap().pasts, reader.probe_log(a).await.unwrap(), rest)
}

#[tokio::test]
async fn every_reader_gives_the_times_of_the_clock_in_force() {
    let right = read(&logged(0).await).await;
    for years in [3, -40] {
        let wrong = read(&logged(years * 365 * DAY).await).await;
        assert_eq!(wrong.0, right.0, "{years} years");
        assert_eq!(wrong.1, right.1, "{years} years");
        assert_eq!(wrong.2, right.2, "{years} years");
    }
    // By hours, the time alone does not tell the clock, but the probe does.
    let wrong = read(&logged(-2 * HOUR).await).await;
    assert_eq!(wrong.0, right.0);
    assert_eq!(
        wrong.2.lines().filter(|line| !line.contains("BurstSpan")).collect::<Vec<_>>(),
        right.2.lines().filter(|line| !line.contains("BurstSpan")).collect::<Vec<_>>()
    );
}
