//! Order, retries, giving up and resuming, across outages, reloads and restarts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use tidewatch::config::target::TargetConfig;
use tidewatch::store::outbox::{Retried, Which, retry};
use tidewatch_core::time::{Span, Timestamp};
use tokio::sync::Notify;

use super::fixture::{Fixture, HOUR, Log, at, exec, webhook};
use crate::waiting::{soon, until_found};
use tidewatch_fixtures::loopback::{LoopbackServer, Reply, SeenRequest};

fn key(seen: &SeenRequest) -> String {
    seen.text("idempotency-key").unwrap()
}

fn title(seen: &SeenRequest) -> String {
    let document: Value = serde_json::from_slice(&seen.body).unwrap();
    document["items"][0]["title"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn after_an_outage_all_documents_arrive_in_order_and_retries_keep_their_key() {
    let fixture = Fixture::stopped(3600.0).await;
    let (clock, well_at) = (fixture.clock.clone(), OnceLock::new());
    // Closes the connection or answers 500; after an hour it accepts.
    let web = LoopbackServer::start(move |seen| {
        let now = clock.now();
        match (now < *well_at.get_or_init(|| now + HOUR), seen.order % 2) {
            (true, 0) => Reply::raw(Vec::new()),
            (true, _) => Reply::new(500),
            (false, _) => Reply::new(200),
        }
    })
    .await;
    let fixture = fixture.run_with(vec![webhook("webhook:a", web.url("/"))]);
    let titles: Vec<String> = (0..50).map(|n| format!("item {n}")).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    fixture.enqueue("webhook:a", &titles).await;
    fixture.delivered(50).await;
    let requests = web.requests();
    let repeats = requests.len() - 50;
    assert!((1..=20).contains(&repeats), "{repeats} repeats in an hour");
    assert!(requests[..=repeats].iter().all(|seen| key(seen) == key(&requests[0])), "none overtakes it");
    assert!(requests[..=repeats].iter().all(|seen| seen.body == requests[0].body));
    let delivered: Vec<String> = requests[repeats..].iter().map(title).collect();
    assert_eq!(delivered, titles);
    let keys: HashMap<String, usize> = requests[repeats..].iter().map(|seen| (key(seen), 1)).collect();
    assert_eq!(keys.len(), 50, "each its own key");
    let first = fixture.rows().await.remove(0);
    assert_eq!((first.attempts as usize, first.last_error), (repeats + 1, None));
}

#[tokio::test]
async fn a_stopped_dispatcher_repeats_the_document_before_it_sends_the_next() {
    let never = Arc::new(Notify::new());
    let web = LoopbackServer::start(move |seen| match seen.order {
        0 => Reply::new(200).after(Arc::clone(&never)),
        _ => Reply::new(200),
    })
    .await;
    let mut fixture = Fixture::running(1.0, vec![webhook("webhook:a", web.url("/"))]).await;
    fixture.enqueue("webhook:a", &["first", "second"]).await;
    soon("the first attempt", web.arrived(1)).await;
    fixture.stop().await;
    assert_eq!(fixture.rows().await[0].attempts, 0, "its outcome is unknown");
    fixture.start();
    fixture.delivered(2).await;
    let requests = web.requests();
    assert_eq!(requests.iter().map(title).collect::<Vec<_>>(), ["first", "first", "second"]);
    assert_eq!(key(&requests[0]), key(&requests[1]));
    assert_eq!(requests[0].body, requests[1].body);
}

#[tokio::test]
async fn a_document_that_is_refused_is_dead_at_once_and_the_next_passes() {
    let web =
        LoopbackServer::start(|seen| if title(seen) == "bad" { Reply::new(422) } else { Reply::new(200) })
            .await;
    let log = Log::listen();
    let fixture = Fixture::running(1.0, vec![webhook("webhook:a", web.url("/"))]).await;
    fixture.enqueue("webhook:a", &["bad", "good"]).await;
    fixture.delivered(1).await;
    let rows = fixture.rows().await;
    assert_eq!((rows[0].state.as_str(), rows[0].attempts), ("dead", 1));
    assert_eq!(rows[0].last_error.as_deref(), Some("HTTP 422: the receiver refuses this document"));
    assert_eq!(rows[1].state, "delivered");
    assert_eq!(web.requests().len(), 2);
    let logged = log.text();
    assert!(logged.contains("ERROR") && logged.contains("tidewatch deliveries retry 1"), "{logged}");
    let events = super::rows::events(&fixture).await;
    let detail = format!("{} to webhook:a: HTTP 422: the receiver refuses this document", rows[0].id);
    assert_eq!(events, [("delivery_dead".to_owned(), Some("a".to_owned()), Some(detail))]);
}

#[tokio::test]
async fn a_document_that_is_never_accepted_is_given_up_and_can_be_retried_by_hand() {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let web =
        LoopbackServer::start(move |_| Reply::new(if is_well.load(Ordering::SeqCst) { 200 } else { 500 }))
            .await;
    let hook = TargetConfig { give_up: HOUR, ..webhook("webhook:a", web.url("/")) };
    let fixture = Fixture::running(36_000.0, vec![hook]).await;
    fixture.enqueue("webhook:a", &["first", "second"]).await;
    until_found("both are given up", async || fixture.states().await.get("dead") == Some(&2)).await;
    for row in fixture.rows().await {
        let error = row.last_error.unwrap();
        assert!(error.starts_with("given up after ") && error.ends_with(" attempts: HTTP 500"), "{error}");
        assert!(row.attempts >= 4);
    }
    assert_eq!(super::rows::events(&fixture).await.len(), 2);

    well.store(true, Ordering::SeqCst);
    web.clear_log();
    let dead = Which::Dead { target: Some("webhook:a".into()) };
    assert_eq!(retry(&fixture.store(), &dead).await.unwrap(), Retried::Waiting(2));
    // The dispatcher is not woken: another process wrote the rows.
    fixture.delivered(2).await;
    assert_eq!(web.requests().iter().map(title).collect::<Vec<_>>(), ["first", "second"]);
    assert!(fixture.rows().await.iter().all(|row| row.attempts == 1));
}

#[tokio::test]
async fn a_pause_can_be_cut_short_by_hand() {
    let web = LoopbackServer::start(|seen| match seen.order {
        0 => Reply::new(503).header("Retry-After", "80000"),
        _ => Reply::new(200),
    })
    .await;
    let fixture = Fixture::running(1.0, vec![webhook("webhook:a", web.url("/"))]).await;
    fixture.enqueue("webhook:a", &["x"]).await;
    let row = fixture.failed("webhook:a").await;
    assert!(row.next_at.unwrap() >= at(80_000), "{:?}", row.next_at);
    let unfit = retry(&fixture.store(), &Which::Numbers(vec![row.id, 77])).await.unwrap();
    assert_eq!(unfit, Retried::Unfit(vec![77]));
    let again = retry(&fixture.store(), &Which::Numbers(vec![row.id])).await.unwrap();
    assert_eq!(again, Retried::Waiting(1));
    fixture.delivered(1).await;
    let unfit = retry(&fixture.store(), &Which::Numbers(vec![row.id])).await.unwrap();
    assert_eq!(unfit, Retried::Unfit(vec![row.id]), "it is delivered");
}

#[tokio::test]
async fn a_receivers_retry_after_is_obeyed() {
    let fixture = Fixture::stopped(3600.0).await;
    let times = Arc::new(Mutex::new(Vec::<Timestamp>::new()));
    let (clock, theirs) = (fixture.clock.clone(), Arc::clone(&times));
    let web = LoopbackServer::start(move |seen| {
        theirs.lock().unwrap().push(clock.now());
        match seen.order {
            0 => Reply::new(429).header("Retry-After", "1800"),
            1 => Reply::new(503).header("Retry-After", "3000"),
            _ => Reply::new(200),
        }
    })
    .await;
    let fixture = fixture.run_with(vec![webhook("webhook:a", web.url("/"))]);
    fixture.enqueue("webhook:a", &["x", "y"]).await;
    fixture.delivered(2).await;
    let times = times.lock().unwrap();
    assert!(times[1] - times[0] >= Span::from_secs(1800), "{times:?}");
    assert!(times[2] - times[1] >= Span::from_secs(3000), "{times:?}");
}

#[tokio::test]
async fn rows_for_a_target_that_is_not_configured_wait_until_it_is() {
    let log = Log::listen();
    let fixture = Fixture::running(1.0, vec![exec("exec:here", &["/bin/true"])]).await;
    fixture.enqueue("exec:gone", &["x", "y"]).await;
    let message = || log.text().matches("a target that is not configured").count();
    until_found("it is logged", async || message() > 0).await;
    fixture.enqueue("exec:here", &["x"]).await;
    fixture.delivered(1).await;
    assert_eq!(message(), 1, "once: {}", log.text());
    let waiting: Vec<_> = fixture.rows().await.into_iter().filter(|row| row.state == "waiting").collect();
    assert!(waiting.len() == 2 && waiting.iter().all(|row| row.target == "exec:gone" && row.attempts == 0));
    assert_eq!(fixture.reader.waiting_targets().await.unwrap(), ["exec:gone"]);
    fixture.configure(vec![exec("exec:gone", &["/bin/true"])]);
    fixture.delivered(3).await;
    assert!(fixture.reader.waiting_targets().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_changed_target_holds_from_the_next_attempt_on() {
    let old = LoopbackServer::start(|_| Reply::new(500)).await;
    let new = LoopbackServer::start(|_| Reply::new(200)).await;
    let fixture = Fixture::running(3600.0, vec![webhook("webhook:a", old.url("/"))]).await;
    fixture.enqueue("webhook:a", &["x"]).await;
    fixture.failed("webhook:a").await;
    fixture.configure(vec![webhook("webhook:a", new.url("/"))]);
    fixture.delivered(1).await;
    assert_eq!(new.requests().len(), 1);
    // A target that is removed and added again has one worker.
    fixture.configure(Vec::new());
    fixture.configure(vec![webhook("webhook:a", new.url("/"))]);
    fixture.enqueue("webhook:a", &["y", "z"]).await;
    fixture.delivered(3).await;
    assert_eq!(new.requests().iter().map(title).collect::<Vec<_>>(), ["x", "y", "z"]);
    assert_eq!(new.most_in_flight(), 1);
}

#[tokio::test]
async fn a_target_that_takes_nothing_gets_few_requests_whatever_the_number_of_sources() {
    let fixture = Fixture::stopped(3600.0).await;
    let (clock, well_at) = (fixture.clock.clone(), OnceLock::new());
    let web = LoopbackServer::start(move |_| {
        let now = clock.now();
        Reply::new(if now < *well_at.get_or_init(|| now + HOUR) { 500 } else { 200 })
    })
    .await;
    let fixture = fixture.run_with(vec![webhook("webhook:a", web.url("/"))]);
    for n in 0..40 {
        let source = fixture.add_source(&format!("source {n}")).await;
        fixture.enqueue_from(source, "webhook:a", &["first", "second"]).await;
    }
    fixture.delivered(80).await;
    let repeats = web.requests().len() - 80;
    assert!((1..=25).contains(&repeats), "{repeats} failed requests in an hour");
}

#[tokio::test]
async fn a_pause_that_a_receiver_asks_for_holds_for_all_sources_also_after_a_restart() {
    let web = LoopbackServer::start(|seen| match seen.order {
        0 => Reply::new(429).header("Retry-After", "80000"),
        _ => Reply::new(200),
    })
    .await;
    let mut fixture = Fixture::running(1.0, vec![webhook("webhook:a", web.url("/"))]).await;
    fixture.enqueue("webhook:a", &["x"]).await;
    let row = fixture.failed("webhook:a").await;
    fixture.enqueue_from(fixture.other_source, "webhook:a", &["y"]).await;
    fixture.stop().await;
    fixture.start();
    // Another target shows that the dispatcher works.
    fixture.configure(vec![webhook("webhook:a", web.url("/")), webhook("webhook:b", web.url("/"))]);
    fixture.enqueue("webhook:b", &["z"]).await;
    fixture.delivered(1).await;
    assert_eq!(web.requests().len(), 2);
    let again = retry(&fixture.store(), &Which::Numbers(vec![row.id])).await.unwrap();
    assert_eq!(again, Retried::Waiting(1));
    fixture.delivered(3).await;
}
