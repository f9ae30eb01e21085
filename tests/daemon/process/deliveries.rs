//! Deliveries of a daemon that is restored, gets far too many items, or meets a document that no receiver takes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::daemon::Home;
use crate::waiting::until;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

/// A few probes a second.
const BUDGET: &str = "probes = 5, per = \"1s\", min_spacing = \"100ms\"";

/// A rule that delivers all updates of these sources to a webhook.
fn rule(sources: &[&str], fields: &str, hook: &LoopbackServer) -> String {
    format!(
        "[[profile]]\nname = \"p\"\nsources = {sources:?}\n\
         [[profile.rule]]\nname = \"each\"\nquery = {{ fields = [{fields}] }}\nlife = {{ window = \"1s\" }}\n\
         deliver = [\"webhook:hook\"]\n\
         [deliver.hook]\nwebhook = \"{}\"\nallow_private = true\n",
        hook.url("/hook")
    )
}

/// A feed and a page whose content a test can change.
struct Publisher {
    server: LoopbackServer,
    items: Arc<Mutex<Vec<String>>>,
    text: Arc<Mutex<String>>,
}

impl Publisher {
    async fn start() -> Self {
        let items = Arc::new(Mutex::new(vec!["old".to_owned()]));
        let text = Arc::new(Mutex::new("price 0".to_owned()));
        let (shown, written) = (Arc::clone(&items), Arc::clone(&text));
        let server = LoopbackServer::start(move |seen| match seen.path.as_str() {
            "/robots.txt" => Reply::new(404),
            "/page" => Reply::ok(format!("<title>Prices</title><p>{}</p>", written.lock().unwrap()))
                .header("Content-Type", "text/html"),
            _ => Reply::ok(rss(shown.lock().unwrap().iter().rev())),
        })
        .await;
        Self { server, items, text }
    }

    fn say(&self, item: &str) {
        self.items.lock().unwrap().push(item.to_owned());
    }

    fn change(&self, text: &str) {
        text.clone_into(&mut self.text.lock().unwrap());
    }

    fn feed(&self, name: &str) -> String {
        source_with_budget(name, &self.server.url(&format!("/{name}")), BUDGET)
    }

    fn page(&self) -> String {
        source_with_budget("page", &self.server.url("/page"), BUDGET) + "kind = \"page\"\n"
    }
}

/// The documents that a webhook got, in their order.
fn posted(hook: &LoopbackServer) -> Vec<Value> {
    hook.requests().iter().map(|seen| serde_json::from_slice(&seen.body).unwrap()).collect()
}

fn keys(documents: &[Value]) -> Vec<String> {
    documents.iter().map(|document| document["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_is_found_again_after_a_restored_backup_has_the_same_keys() {
    let publisher = Publisher::start().await;
    let hook = LoopbackServer::start(|_| Reply::new(204)).await;
    let home = Home::new();
    let rule = rule(&["feed", "page"], "\"title\", \"text\"", &hook);
    home.write(&[publisher.feed("feed"), publisher.page(), rule]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM sources WHERE last_look_at IS NOT NULL", |probed| probed == 2).await;
    daemon.stop().await;
    let backup = home.path("backup.db");
    std::fs::copy(home.store(), &backup).unwrap();

    let mut daemon = home.start();
    publisher.say("news");
    publisher.change("price 1");
    until("both documents", || posted(&hook).len() == 2).await;
    daemon.stop().await;
    std::fs::copy(&backup, home.store()).unwrap();
    let mut daemon = home.start();
    until("both documents again", || posted(&hook).len() == 4).await;
    let documents = posted(&hook);
    let of = |documents: &[Value]| keys(documents).into_iter().collect::<HashSet<_>>();
    assert_eq!(of(&documents[..2]), of(&documents[2..]), "{documents:#?}");
    let item_keys = |documents: &[Value]| {
        documents.iter().map(|document| document["items"][0]["key"].to_string()).collect::<HashSet<_>>()
    };
    assert_eq!(item_keys(&documents[..2]), item_keys(&documents[2..]));
    let times: HashSet<String> =
        documents.iter().map(|document| document["items"][0]["detected_at"].to_string()).collect();
    assert!(times.len() > 2, "they were found again: {times:?}");

    // A page that returns to an earlier text has changed again.
    for (text, count) in [("price 0", 5), ("price 1", 6)] {
        publisher.change(text);
        until("the next change", || posted(&hook).len() == count).await;
    }
    daemon.stop().await;
    let documents = posted(&hook);
    let texts: Vec<&str> =
        documents[4..].iter().map(|document| document["items"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Prices price 0", "Prices price 1"]);
    let different = keys(&documents).into_iter().collect::<HashSet<_>>();
    assert_eq!(different.len(), 4, "{documents:#?}");
}

#[tokio::test]
async fn a_document_that_no_receiver_takes_delays_its_source_only() {
    let publishers = [Publisher::start().await, Publisher::start().await];
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let hook = LoopbackServer::start(move |seen| {
        let poisonous = String::from_utf8_lossy(&seen.body).contains("poison");
        Reply::new(if poisonous && !is_well.load(Ordering::SeqCst) { 500 } else { 204 })
    })
    .await;
    let home = Home::new();
    let [bad, good] = &publishers;
    home.write(&[bad.feed("bad"), good.feed("good"), rule(&["bad", "good"], "\"title\"", &hook)]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM sources WHERE last_look_at IS NOT NULL", |probed| probed == 2).await;
    bad.say("poison");
    until("the first attempt", || !posted(&hook).is_empty()).await;
    bad.say("later");
    home.until("SELECT count(*) FROM updates WHERE key = 'later'", |found| found == 1).await;
    let titles = || -> Vec<String> {
        let documents = posted(&hook);
        documents.iter().map(|it| it["items"][0]["title"].as_str().unwrap().to_owned()).collect()
    };
    for item in ["one", "two", "three"] {
        good.say(item);
        until("the other source's document", || titles().contains(&format!("About {item}"))).await;
    }
    assert!(!titles().contains(&"About later".to_owned()), "in order: {:?}", titles());
    well.store(true, Ordering::SeqCst);
    home.until("SELECT count(*) FROM deliveries WHERE state = 'delivered'", |done| done == 5).await;
    daemon.stop().await;
    let taken: Vec<(String,)> =
        home.rows("SELECT document ->> '$.items[0].title' FROM deliveries ORDER BY delivered_at, id").await;
    let bad: Vec<&str> = taken
        .iter()
        .map(|(title,)| title.as_str())
        .filter(|title| "About poison About later".contains(title))
        .collect();
    assert_eq!(bad, ["About poison", "About later"]);
}

#[tokio::test]
async fn five_thousand_items_in_one_answer_are_one_document_of_bounded_size() {
    let publisher = Publisher::start().await;
    let hook = LoopbackServer::start(|_| Reply::new(204)).await;
    let home = Home::new();
    let rule = rule(&["feed", "page"], "\"title\", \"text\"", &hook);
    home.write(&[publisher.feed("feed"), publisher.page(), rule]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM sources WHERE last_look_at IS NOT NULL", |probed| probed == 2).await;
    {
        let mut items = publisher.items.lock().unwrap();
        items.extend((0..5_000).map(|n| format!("item {n}")));
    }
    until("the document", || !posted(&hook).is_empty()).await;
    let long = "x".repeat(100_000);
    publisher.change(&long);
    until("the page's document", || posted(&hook).len() >= 2).await;
    daemon.stop().await;
    let documents = posted(&hook);
    assert_eq!(documents.len(), 2);
    let items = documents[0]["items"].as_array().unwrap();
    assert_eq!((items.len(), &documents[0]["more"]), (1_000, &Value::from(4_000)));
    assert_eq!(items[0]["title"], "About item 4999", "the first ones of the document");
    assert_eq!(home.number("SELECT count(*) FROM updates WHERE kind = 'new'").await, 5_000);
    let item = &documents[1]["items"][0];
    let text = item["text"].as_str().unwrap();
    assert!(text.len() <= 65_540 && text.ends_with('…'), "{} bytes", text.len());
    assert_eq!(item["cut"], serde_json::json!(["text"]));
    assert_eq!(documents[1].get("more"), None);
}
