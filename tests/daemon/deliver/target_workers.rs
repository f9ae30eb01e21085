//! Order, repeats, giving up, and coming back: across outages, reloads and restarts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use tidewatch::config::target::TargetConfig;
use tidewatch::store::outbox::{Retried, Which, retry};
use tidewatch_core::time::{Span, Timestamp};
use tokio::sync::Notify;

use super::office::{HOUR, Log, Office, at, exec, soon, until, webhook};
use crate::web::{Reply, Seen, Web};

fn key(seen: &Seen) -> String {
    seen.text("idempotency-key").unwrap()
}

fn title(seen: &Seen) -> String {
    let told: Value = serde_json::from_slice(&seen.body).unwrap();
    told["items"][0]["title"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn after_an_hour_of_silence_all_arrive_in_order_and_repeats_keep_their_key() {
    let office = Office::closed(3600.0).await;
    let (clock, well_at) = (office.clock.clone(), OnceLock::new());
    // Closes without a word, refuses to work, or, after an hour of that, works.
    let web = Web::start(move |seen| {
        let now = clock.now();
        match (now < *well_at.get_or_init(|| now + HOUR), seen.order % 2) {
            (true, 0) => Reply::raw(Vec::new()),
            (true, _) => Reply::new(500),
            (false, _) => Reply::new(200),
        }
    })
    .await;
    let office = office.at_work(vec![webhook("webhook:a", web.url("/"))]);
    let titles: Vec<String> = (0..50).map(|n| format!("item {n}")).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    office.tell("webhook:a", &titles).await;
    office.delivered(50).await;
    let requests = web.requests();
    let repeats = requests.len() - 50;
    assert!((1..=20).contains(&repeats), "{repeats} repeats in an hour");
    assert!(requests[..=repeats].iter().all(|seen| key(seen) == key(&requests[0])), "nobody overtakes");
    assert!(requests[..=repeats].iter().all(|seen| seen.body == requests[0].body));
    let told: Vec<String> = requests[repeats..].iter().map(title).collect();
    assert_eq!(told, titles);
    let keys: HashMap<String, usize> = requests[repeats..].iter().map(|seen| (key(seen), 1)).collect();
    assert_eq!(keys.len(), 50, "each its own key");
    let first = office.rows().await.remove(0);
    assert_eq!((first.attempts as usize, first.last_error), (repeats + 1, None));
}

#[tokio::test]
async fn a_courier_cut_short_sends_the_same_again_and_only_then_the_next() {
    let never = Arc::new(Notify::new());
    let web = Web::start(move |seen| match seen.order {
        0 => Reply::new(200).after(Arc::clone(&never)),
        _ => Reply::new(200),
    })
    .await;
    let mut office = Office::open(1.0, vec![webhook("webhook:a", web.url("/"))]).await;
    office.tell("webhook:a", &["first", "second"]).await;
    soon("the first attempt", web.arrived(1)).await;
    office.stop().await;
    assert_eq!(office.rows().await[0].attempts, 0, "nobody knows how it ended");
    office.start();
    office.delivered(2).await;
    let requests = web.requests();
    assert_eq!(requests.iter().map(title).collect::<Vec<_>>(), ["first", "first", "second"]);
    assert_eq!(key(&requests[0]), key(&requests[1]));
    assert_eq!(requests[0].body, requests[1].body);
}

#[tokio::test]
async fn a_document_that_is_refused_is_dead_at_once_and_the_next_passes() {
    let web = Web::start(|seen| if title(seen) == "bad" { Reply::new(422) } else { Reply::new(200) }).await;
    let (log, _guard) = Log::listen();
    let office = Office::open(1.0, vec![webhook("webhook:a", web.url("/"))]).await;
    office.tell("webhook:a", &["bad", "good"]).await;
    office.delivered(1).await;
    let rows = office.rows().await;
    assert_eq!((rows[0].state.as_str(), rows[0].attempts), ("dead", 1));
    assert_eq!(rows[0].last_error.as_deref(), Some("HTTP 422: the receiver refuses this document"));
    assert_eq!(rows[1].state, "delivered");
    assert_eq!(web.requests().len(), 2);
    let logged = log.text();
    assert!(logged.contains("ERROR") && logged.contains("tidewatch deliveries retry 1"), "{logged}");
    let events = super::rows::events(&office).await;
    let detail = format!("{} to webhook:a: HTTP 422: the receiver refuses this document", rows[0].id);
    assert_eq!(events, [("delivery_dead".to_owned(), Some("a".to_owned()), Some(detail))]);
}

#[tokio::test]
async fn what_is_never_taken_is_given_up_and_can_be_tried_again_by_hand() {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let web = Web::start(move |_| Reply::new(if is_well.load(Ordering::SeqCst) { 200 } else { 500 })).await;
    let hook = TargetConfig { give_up: HOUR, ..webhook("webhook:a", web.url("/")) };
    let office = Office::open(36_000.0, vec![hook]).await;
    office.tell("webhook:a", &["first", "second"]).await;
    until("both are given up", async || office.states().await.get("dead") == Some(&2)).await;
    for row in office.rows().await {
        let error = row.last_error.unwrap();
        assert!(error.starts_with("given up after ") && error.ends_with(" attempts: HTTP 500"), "{error}");
        assert!(row.attempts >= 4);
    }
    assert_eq!(super::rows::events(&office).await.len(), 2);

    well.store(true, Ordering::SeqCst);
    web.forget();
    let dead = Which::Dead { target: Some("webhook:a".into()) };
    assert_eq!(retry(&office.store(), &dead).await.unwrap(), Retried::Waiting(2));
    // Nobody pokes: another process did it.
    office.delivered(2).await;
    assert_eq!(web.requests().iter().map(title).collect::<Vec<_>>(), ["first", "second"]);
    assert!(office.rows().await.iter().all(|row| row.attempts == 1));
}

#[tokio::test]
async fn a_pause_can_be_cut_short_by_hand() {
    let web = Web::start(|seen| match seen.order {
        0 => Reply::new(503).header("Retry-After", "80000"),
        _ => Reply::new(200),
    })
    .await;
    let office = Office::open(1.0, vec![webhook("webhook:a", web.url("/"))]).await;
    office.tell("webhook:a", &["x"]).await;
    let row = office.failed("webhook:a").await;
    assert!(row.next_at.unwrap() >= at(80_000), "{:?}", row.next_at);
    let unfit = retry(&office.store(), &Which::Numbers(vec![row.id, 77])).await.unwrap();
    assert_eq!(unfit, Retried::Unfit(vec![77]));
    let again = retry(&office.store(), &Which::Numbers(vec![row.id])).await.unwrap();
    assert_eq!(again, Retried::Waiting(1));
    office.delivered(1).await;
    let unfit = retry(&office.store(), &Which::Numbers(vec![row.id])).await.unwrap();
    assert_eq!(unfit, Retried::Unfit(vec![row.id]), "it is delivered");
}

#[tokio::test]
async fn rest_that_a_receiver_asks_for_is_given() {
    let office = Office::closed(3600.0).await;
    let times = Arc::new(Mutex::new(Vec::<Timestamp>::new()));
    let (clock, theirs) = (office.clock.clone(), Arc::clone(&times));
    let web = Web::start(move |seen| {
        theirs.lock().unwrap().push(clock.now());
        match seen.order {
            0 => Reply::new(429).header("Retry-After", "1800"),
            1 => Reply::new(503).header("Retry-After", "3000"),
            _ => Reply::new(200),
        }
    })
    .await;
    let office = office.at_work(vec![webhook("webhook:a", web.url("/"))]);
    office.tell("webhook:a", &["x", "y"]).await;
    office.delivered(2).await;
    let times = times.lock().unwrap();
    assert!(times[1] - times[0] >= Span::from_secs(1800), "{times:?}");
    assert!(times[2] - times[1] >= Span::from_secs(3000), "{times:?}");
}

#[tokio::test]
async fn rows_for_a_target_that_is_not_configured_wait_until_it_is() {
    let (log, _guard) = Log::listen();
    let office = Office::open(1.0, vec![exec("exec:here", &["/bin/true"])]).await;
    office.tell("exec:gone", &["x", "y"]).await;
    let said = || log.text().matches("a target that is not configured").count();
    until("it is said", async || said() > 0).await;
    office.tell("exec:here", &["x"]).await;
    office.delivered(1).await;
    assert_eq!(said(), 1, "once: {}", log.text());
    let waiting: Vec<_> = office.rows().await.into_iter().filter(|row| row.state == "waiting").collect();
    assert!(waiting.len() == 2 && waiting.iter().all(|row| row.target == "exec:gone" && row.attempts == 0));
    assert_eq!(office.reader.waiting_targets().await.unwrap(), ["exec:gone"]);
    office.configure(vec![exec("exec:gone", &["/bin/true"])]);
    office.delivered(3).await;
    assert!(office.reader.waiting_targets().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_changed_target_holds_from_the_next_attempt_on() {
    let old = Web::start(|_| Reply::new(500)).await;
    let new = Web::start(|_| Reply::new(200)).await;
    let office = Office::open(3600.0, vec![webhook("webhook:a", old.url("/"))]).await;
    office.tell("webhook:a", &["x"]).await;
    office.failed("webhook:a").await;
    office.configure(vec![webhook("webhook:a", new.url("/"))]);
    office.delivered(1).await;
    assert_eq!(new.requests().len(), 1);
    // A target that goes and comes back has one lane, not two.
    office.configure(Vec::new());
    office.configure(vec![webhook("webhook:a", new.url("/"))]);
    office.tell("webhook:a", &["y", "z"]).await;
    office.delivered(3).await;
    assert_eq!(new.requests().iter().map(title).collect::<Vec<_>>(), ["x", "y", "z"]);
    assert_eq!(new.high_water(), 1);
}
