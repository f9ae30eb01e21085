//! Rules from feed to delivery: a feed triggers a rule, a page is probed for it, and a program and a webhook
//! get the requested fields, also when the daemon is killed repeatedly.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tidewatch::clock::real_pause;

use super::daemon::Home;
use crate::waiting::{soon, until};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

/// A few probes a second.
const BUDGET: &str = "probes = 5, per = \"1s\", min_spacing = \"100ms\"";

/// A program that appends its input to a file, and a webhook.
fn targets(file: &Path, hook: &LoopbackServer) -> String {
    // With one write and a whole line, also if the daemon is killed before it ends the line.
    let script =
        format!("input=$(cat); [ -n \"$input\" ] && printf '%s\\n' \"$input\" >> '{}'", file.display());
    format!(
        "[deliver.file]\nexec = [\"/bin/sh\", \"-c\", {script:?}]\n\
         [deliver.hook]\nwebhook = \"{}\"\nallow_private = true\nsecret = \"hush\"\n",
        hook.url("/hook")
    )
}

/// The documents in a file, one a line.
fn written(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The documents that a webhook got, in their order.
fn posted(hook: &LoopbackServer) -> Vec<Value> {
    let posts = hook.requests().into_iter().filter(|seen| seen.method == "POST");
    posts.map(|seen| serde_json::from_slice(&seen.body).unwrap()).collect()
}

fn titles(document: &Value) -> Vec<&str> {
    document["items"].as_array().unwrap().iter().map(|item| item["title"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_feed_triggers_a_rule_and_the_text_of_a_page_is_delivered() {
    let items = Arc::new(Mutex::new(vec!["old".to_owned()]));
    let shown = Arc::clone(&items);
    let feed = LoopbackServer::start(move |_| Reply::ok(rss(shown.lock().unwrap().iter().rev()))).await;
    let text = Arc::new(Mutex::new("price 0".to_owned()));
    let shown = Arc::clone(&text);
    let page = LoopbackServer::start(move |seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404),
        _ => Reply::ok(format!("<title>Prices</title><p>{}</p>", shown.lock().unwrap()))
            .header("Content-Type", "text/html"),
    })
    .await;
    let hook = LoopbackServer::start(|_| Reply::new(204)).await;
    let home = Home::new();
    let file = home.path("documents.jsonl");
    let rule = "[[profile]]\nname = \"shopping\"\nsources = [\"prices\"]\n\
         [[profile.rule]]\nname = \"sale\"\n\
         query = { fields = [\"title\", \"text\"], where = \"text ~ 'price \\\\d'\" }\n\
         trigger = { of = [\"news\"], where = \"title contains 'SALE'\" }\n\
         life = { window = \"1s\" }\ndeliver = [\"exec:file\", \"webhook:hook\"]\n";
    let prices = source_with_budget("prices", &page.url("/prices"), BUDGET)
        + "kind = \"page\"\npolicy = \"profile\"\n";
    let news = source_with_budget("news", &feed.url("/feed"), BUDGET);
    home.write(&[news, prices, rule.to_owned(), targets(&file, &hook)]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM sources WHERE last_look_at IS NOT NULL", |probed| probed == 2).await;
    let page_probes = || page.requests().iter().filter(|seen| seen.path == "/prices").count();
    assert_eq!(page_probes(), 1);
    let say = |item: &str| items.lock().unwrap().push(item.to_owned());
    let change = |to: &str| to.clone_into(&mut text.lock().unwrap());

    change("price 1");
    say("a sale begins");
    until("the first document", || !written(&file).is_empty() && !posted(&hook).is_empty()).await;
    assert_eq!(page_probes(), 2);

    // An item that does not trigger the rule causes no probe of the page.
    change("price 2");
    say("the weather");
    home.until("SELECT count(*) FROM updates WHERE key = 'the weather'", |found| found == 1).await;
    let feeds = feed.requests().len();
    soon("more probes of the feed", feed.arrived(feeds + 3)).await;
    assert_eq!(page_probes(), 2);

    // A text that does not match is not delivered.
    change("cost 3");
    say("another sale");
    home.until("SELECT count(*) FROM updates WHERE kind = 'changed'", |found| found == 2).await;

    change("price 4");
    say("the last sale");
    until("the second document", || written(&file).len() >= 2 && posted(&hook).len() >= 2).await;
    daemon.stop().await;

    let (files, posts) = (written(&file), posted(&hook));
    for documents in [&files, &posts] {
        let message: Vec<&str> =
            documents.iter().map(|doc| doc["items"][0]["text"].as_str().unwrap()).collect();
        assert_eq!(message, ["Prices price 1", "Prices price 4"]);
        for document in documents.iter() {
            assert_eq!(document["items"].as_array().unwrap().len(), 1);
            assert_eq!(document["rule"], "sale");
            assert_eq!(
                (&document["source"], &document["items"][0]["title"]),
                (&"prices".into(), &"Prices".into())
            );
        }
    }
    let signed = hook.requests();
    assert!(signed.iter().all(|seen| seen.text("X-Tidewatch-Signature").is_some()));
    assert_eq!(signed[0].text("Idempotency-Key").unwrap(), posts[0]["key"]);
    let asked: Vec<(String, String)> = home
        .rows(
            "SELECT p.reason, p.policy FROM probes p JOIN sources s ON s.id = p.source_id
               WHERE s.name = 'prices' ORDER BY p.id",
        )
        .await;
    assert_eq!(asked[1..], vec![("rule".to_owned(), "profile".to_owned()); 3]);

    let shown = home.run(&["deliveries", "--json"]).await;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert!(shown.to_string().matches("\"delivered\"").count() >= 4, "{shown}");
    let shown = home.run(&["match", "prices", "--json"]).await;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["updates"], 3);
    // Of pages only the last text is kept.
    assert_eq!(shown["rules"][0]["caught"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["rules"][0]["text_not_kept"], true);
    let shown = home.run(&["match", "news"]).await;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("3 of the last 4 updates count"), "{shown}");
}

const ROUNDS: usize = 50;

#[tokio::test]
async fn fifty_kills_lose_no_document_and_repeats_have_the_same_key() {
    let (asked, silent) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let quiet = Arc::clone(&silent);
    let feed = LoopbackServer::start(move |_| {
        let more = usize::from(!quiet.load(Ordering::SeqCst));
        let newest = asked.fetch_add(more, Ordering::SeqCst) + more;
        Reply::ok(rss((newest.saturating_sub(100)..=newest).map(|n| format!("item {n}"))))
            .slowly(Duration::from_millis([0, 2, 10, 25][newest % 4]))
    })
    .await;
    let answers = AtomicUsize::new(0);
    let hook = LoopbackServer::start(move |_| {
        // Now and then the answer is lost, or is none.
        match answers.fetch_add(1, Ordering::SeqCst) {
            12 | 25 => Reply::new(503),
            n if n % 7 == 5 => Reply::new(200).slowly(Duration::from_millis(30)),
            _ => Reply::new(200),
        }
    })
    .await;
    let home = Home::new();
    let file = home.path("documents.jsonl");
    let rule = "[[profile]]\nname = \"all\"\nsources = [\"feed\"]\n\
         [[profile.rule]]\nname = \"even\"\nquery = { where = \"title ~ '[02468]$'\" }\n\
         life = { window = \"1s\" }\ndeliver = [\"exec:file\", \"webhook:hook\"]\n\
         [[profile.rule]]\nname = \"three at a time\"\ntrigger = { every = 3 }\n\
         life = { window = \"1s\" }\ndeliver = [\"webhook:hook\"]\n";
    home.write(&[
        source_with_budget("feed", &feed.url("/feed"), BUDGET),
        rule.to_owned(),
        targets(&file, &hook),
    ]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM items", |known| known >= 1).await;
    for round in 0..ROUNDS {
        let before = feed.requests().len() + hook.requests().len();
        until("something happens", || feed.requests().len() + hook.requests().len() > before).await;
        // A different delay in every round; it waits for nothing.
        real_pause(Duration::from_millis((round * 7 % 40) as u64)).await;
        daemon.kill();
        soon("the server is quiet", feed.settled()).await;
        daemon = home.start();
    }
    // On a busy machine all kills may have come before the first update was found.
    home.until("SELECT count(*) FROM updates WHERE kind = 'new'", |found| found >= 6).await;
    silent.store(true, Ordering::SeqCst);
    let newest = feed.requests().len();
    soon("more requests", feed.arrived(newest + 3)).await;
    // Retries of refused documents take seconds.
    home.until("SELECT count(*) FROM deliveries WHERE state <> 'delivered'", |waiting| waiting == 0).await;
    daemon.stop().await;
    let left = home.number("SELECT count(*) FROM deliveries WHERE state <> 'delivered'").await;

    let found: Vec<(String,)> = home.rows("SELECT title FROM updates WHERE kind = 'new' ORDER BY id").await;
    let found: Vec<String> = found.into_iter().map(|(title,)| title).collect();
    let even: HashSet<&str> =
        found.iter().map(String::as_str).filter(|t| t.ends_with(['0', '2', '4', '6', '8'])).collect();
    let delivered = |documents: &[Value], rule: &str| -> Vec<String> {
        let mut keys: HashMap<String, String> = HashMap::new();
        let mut all = Vec::new();
        for document in documents.iter().filter(|document| document["rule"] == rule) {
            let message = document["items"].to_string();
            let key = document["key"].as_str().unwrap().to_owned();
            match keys.get(&key) {
                Some(before) => assert_eq!(*before, message, "a key stands for one document"),
                None => {
                    all.extend(titles(document).into_iter().map(str::to_owned));
                    keys.insert(key, message);
                }
            }
        }
        all
    };
    let (files, posts) = (written(&file), posted(&hook));
    assert_eq!(left, 0);
    for documents in [&files, &posts] {
        let all = delivered(documents, "even");
        assert_eq!(all.iter().map(String::as_str).collect::<HashSet<_>>(), even, "each that matches");
        assert_eq!(all.len(), even.len(), "under one key");
    }
    // In threes, each once; an incomplete three is held.
    let threes = delivered(&posts, "three at a time");
    let held = home.number("SELECT count(*) FROM held_matches").await;
    assert_eq!(threes.len() + usize::try_from(held).unwrap(), found.len());
    assert_eq!(threes, found[..threes.len()]);
    // One document may have several matches.
    assert!(!files.is_empty() && !posts.is_empty() && !even.is_empty() && !threes.is_empty());
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_and_probes_go_on() {
    let asked = AtomicUsize::new(0);
    let feed = LoopbackServer::start(move |_| {
        let newest = asked.fetch_add(1, Ordering::SeqCst);
        Reply::ok(rss((newest.saturating_sub(100)..=newest).map(|n| format!("item {n}"))))
    })
    .await;
    let home = Home::new();
    let rule = "[[profile]]\nname = \"all\"\nsources = [\"feed\"]\n\
         [[profile.rule]]\nname = \"each\"\nlife = { window = \"1s\" }\ndeliver = [\"exec:hang\"]\n\
         [deliver.hang]\nexec = [\"/bin/sleep\", \"1000\"]\ntimeout = \"1500ms\"\n";
    home.write(&[source_with_budget("feed", &feed.url("/feed"), BUDGET), rule.to_owned()]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM deliveries", |waiting| waiting > 0).await;
    let before = feed.requests().len();
    soon("probes go on", feed.arrived(before + 6)).await;
    home.until("SELECT count(*) FROM deliveries WHERE attempts = 1 AND last_error IS NOT NULL", |tried| {
        tried == 1
    })
    .await;
    daemon.stop().await;
    let errors: Vec<(String,)> =
        home.rows("SELECT last_error FROM deliveries WHERE last_error IS NOT NULL").await;
    assert!(errors[0].0.contains("1500ms") || errors[0].0.contains("1.5"), "{errors:?}");
}

#[tokio::test]
async fn a_reload_adds_rules_and_targets_and_a_restart_keeps_triggered_rules() {
    let items = Arc::new(Mutex::new(vec!["old".to_owned()]));
    let shown = Arc::clone(&items);
    let feed = LoopbackServer::start(move |_| Reply::ok(rss(shown.lock().unwrap().iter().rev()))).await;
    let page = LoopbackServer::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404),
        _ => Reply::ok("<p>x</p>").header("Content-Type", "text/html"),
    })
    .await;
    let hook = LoopbackServer::start(|_| Reply::new(204)).await;
    let home = Home::new();
    let file = home.path("documents.jsonl");
    let sources = [
        source_with_budget("news", &feed.url("/feed"), BUDGET),
        source_with_budget("page", &page.url("/page"), BUDGET) + "kind = \"page\"\npolicy = \"profile\"\n",
    ];
    home.write(&sources);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM sources WHERE last_look_at IS NOT NULL", |probed| probed == 2).await;
    let say = |item: &str| items.lock().unwrap().push(item.to_owned());
    say("before");
    home.until("SELECT count(*) FROM updates WHERE key = 'before'", |found| found == 1).await;

    let rules = "[[profile]]\nname = \"p\"\nsources = [\"news\"]\n\
         [[profile.rule]]\nname = \"each\"\nlife = { window = \"1s\" }\ndeliver = [\"exec:file\"]\n\
         [[profile]]\nname = \"q\"\nsources = [\"page\"]\n\
         [[profile.rule]]\nname = \"later\"\ntrigger = { of = [\"news\"] }\nlife = { window = \"1h\" }\n\
         deliver = [\"webhook:hook\"]\n";
    let [news, prices] = sources;
    home.write(&[news, prices, rules.to_owned(), targets(&file, &hook)]);
    daemon.signal("HUP");
    home.until("SELECT count(*) FROM events WHERE kind = 'reloaded'", |reloads| reloads == 1).await;
    say("after");
    until("the document", || !written(&file).is_empty()).await;
    assert_eq!(written(&file).iter().map(titles).collect::<Vec<_>>(), [["About after"]]);

    // The page is due within the hour, at the last moment.
    let due = "SELECT next_probe_at FROM sources WHERE name = 'page' AND next_probe_rule = 'q/later'";
    let before: Vec<(i64,)> = home.rows(due).await;
    assert_eq!(before.len(), 1);
    let explained = home.run(&["explain", "page"]).await;
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(
        explained.contains("rule        `q/later` needs a probe within 1h of each update"),
        "{explained}"
    );
    assert!(explained.contains("a rule requires it"), "{explained}");
    daemon.kill();
    daemon = home.start();
    let feeds = feed.requests().len();
    soon("probes after the restart", feed.arrived(feeds + 2)).await;
    let after: Vec<(i64,)> = home.rows(due).await;
    assert!((after[0].0 - before[0].0).abs() < 2_000, "{before:?} and {after:?}");
    assert_eq!(page.requests().iter().filter(|seen| seen.path == "/page").count(), 1, "not before");
    daemon.stop().await;
}
