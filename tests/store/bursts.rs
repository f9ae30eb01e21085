//! Bursts: as they go on, and what was done about them.

use tidewatch::rate::burst::{Change, Evidence};
use tidewatch::store::review::BurstReview;

use super::*;

fn evidence(until: i64, observed: u32) -> Evidence {
    Evidence { since: at(1_000), at: at(until), observed, expected: 0.5 }
}

fn look(id: SourceId, secs: i64, policy: Policy, burst: Option<Change>) -> Landing {
    let plain = landing(id, secs);
    let follows = if matches!(burst, Some(Change::Ended(_))) { Policy::Plan } else { Policy::Ttl };
    let life = Life { follows, ..Life::default() };
    Landing {
        flight: Flight { policy, ..plain.flight },
        memory: Memory { life, ..plain.memory.clone() },
        burst,
        ..plain
    }
}

#[tokio::test]
async fn a_burst_grows_ends_and_is_reviewed() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let land = |landing: Landing| store.write(Write::Land(Box::new(landing)));
    land(look(a, 500, Policy::Plan, None));
    land(look(a, 1_600, Policy::Plan, Some(Change::Began(evidence(1_600, 5)))));
    land(look(b, 1_650, Policy::Ttl, None));
    land(Landing { burst_so_far: Some(evidence(1_700, 9)), ..look(a, 1_700, Policy::Ttl, None) });
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

    land(look(a, 1_900, Policy::Ttl, Some(Change::Ended(evidence(1_900, 11)))));
    land(look(b, 2_000, Policy::Ttl, Some(Change::Passed(evidence(1_990, 4)))));
    land(look(a, 2_500, Policy::Ttl, None));
    store.flush().await;
    assert_eq!(reader.open_burst(a).await.unwrap(), None);
    let over = BurstReview { ended: Some(at(1_900)), observed: 11, probes: 3, by_ttl: 2, ..on.clone() };
    let passed = BurstReview { source: b, ended: Some(at(1_990)), observed: 4, probes: 1, by_ttl: 1, ..on };
    assert_eq!(reader.bursts().await.unwrap(), [over.clone(), passed.clone()], "nobody plans since");
    land(look(a, 2_600, Policy::Plan, None));
    store.flush().await;
    let planned = BurstReview { planned_again: true, ..over };
    assert_eq!(reader.bursts().await.unwrap(), [planned, passed]);
}
