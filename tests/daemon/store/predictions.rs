//! Forecasts and what came of them, summed by day and source.

use tidewatch::store::predictions::PredictionSums;
use tidewatch::store::record::ComparedProbe;
use tidewatch::store::retention::DeleteBefore;
use tidewatch_core::engine::rule_counts::RuleOutcomes;
use tidewatch_core::model::burst::{BurstChange, BurstEvidence};
use tidewatch_core::model::probe_forecast::ProbeForecast;

use super::*;

/// The seconds from the start of these tests, on the evening of a day, to midnight.
const MIDNIGHT: i64 = 6_400;

fn forecast(updates: f32) -> ProbeForecast {
    ProbeForecast { updates, dispersion: 2.0, overflow: Some(0.25) }
}

fn compared(id: SourceId, secs: i64, updates: f32, found: u32) -> ProbeRecord {
    let rules = RuleOutcomes { updates: 2, confidence: 1.5, in_time: 1 };
    let compared = ComparedProbe {
        forecast: forecast(updates),
        found,
        overflowed: found > 3,
        false_alarms: 0.125,
        burst: found > 3,
        went_quiet: found == 0,
        quiet_ended: found == 1,
        rules,
    };
    ProbeRecord { compared: Some(compared), ..probe_record(id, secs) }
}

#[tokio::test]
async fn forecasts_are_stored_with_the_start_and_summed_by_day_and_source() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    store.write(Write::Started(vec![
        Attempt { forecast: Some(forecast(0.5)), ..attempt(a, 100) },
        attempt(b, 100),
    ]));
    store.flush().await;
    type Stored = (Option<f64>, Option<f64>, Option<f64>);
    let flights: Vec<Stored> =
        sqlx::query_as("SELECT expected, dispersion, overflow FROM readable_flights ORDER BY source")
            .fetch_all(&mut store.connection().await)
            .await
            .unwrap();
    assert_eq!(flights, [(Some(0.5), Some(2.0), Some(0.25)), (None, None, None)]);

    // Two of one day in one batch, others in later ones.
    let began = BurstEvidence { since: at(150), at: at(201), observed: 7, expected: 4.0 };
    let burst = Some(BurstChange::Passed(began));
    store.write(Write::Ended(Box::new(compared(a, 100, 0.5, 0))));
    store.write(Write::Ended(Box::new(ProbeRecord { burst, ..compared(a, 200, 1.5, 6) })));
    store.flush().await;
    store.write(Write::Ended(Box::new(compared(a, 300, 1.0, 1))));
    store.write(Write::Ended(Box::new(compared(a, MIDNIGHT, 4.0, 2))));
    store.write(Write::Ended(Box::new(compared(b, 100, 8.0, 3))));
    store.write(Write::Ended(Box::new(probe_record(b, 400))));
    store.flush().await;

    let reader = store.reader().await;
    let all = reader.predictions(at(0), None).await.unwrap();
    let days: Vec<(String, u64, f64, u64)> =
        all.days.iter().map(|(day, of)| (day.iso(), of.probes, of.expected, of.found)).collect();
    assert_eq!(
        days,
        [
            ("2023-11-14T00:00:00.000Z".to_owned(), 4, 11.0, 10),
            ("2023-11-15T00:00:00.000Z".to_owned(), 1, 4.0, 2)
        ]
    );
    let first = PredictionSums {
        probes: 4,
        expected: 7.0,
        // Twice the expectation, and the excess of three updates of the burst, squared.
        variance: 14.0 + 9.0,
        found: 9,
        overflow: 1.0,
        overflowed: 1,
        alarms_stated: 9.0 / 8.0,
        bursts: 1,
        quiet: 1,
        quiet_ended: 1,
        rule_updates: 8,
        rule_confidence: 6.0,
        rule_in_time: 4,
    };
    assert_eq!(all.sources[0], ("a".to_owned(), first));
    assert_eq!((all.sources[1].1.probes, all.sources[1].1.found), (1, 3));
    assert_eq!((all.total.probes, all.total.expected, all.total.variance), (5, 15.0, 39.0));
    assert_eq!(reader.prediction_total(at(0)).await.unwrap(), all.total);
    let only = reader.predictions(at(0), Some(a)).await.unwrap();
    assert_eq!((only.sources.len(), only.total), (1, first));
    let later = reader.predictions(at(MIDNIGHT), None).await.unwrap();
    assert_eq!((later.days.len(), later.total.probes), (1, 1));
    let readable = "SELECT count(*) FROM readable_predictions WHERE source = 'a' AND day = '2023-11-14'";
    assert_eq!(store.count(readable).await, 1);

    store.write(Write::Prune(DeleteBefore::probes(at(MIDNIGHT), at(MIDNIGHT))));
    store.flush().await;
    assert_eq!(reader.predictions(at(0), None).await.unwrap().days.len(), 1);
}
