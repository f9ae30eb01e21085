//! Feed files: complete, valid, and made from the delivered documents.

use std::fs;
use std::path::Path;

use feed_rs::model::Feed;
use serde_json::{Value, json};
use tidewatch::config::target::{TargetConfig, Way};

use super::fixture::{Fixture, HOSTILE, HOUR, at, document};
use crate::waiting::until_found;

fn atom(path: &Path, entries: u32) -> TargetConfig {
    let way = Way::Atom { path: path.to_owned(), entries };
    TargetConfig { name: "atom:news".into(), way, timeout: HOUR, give_up: HOUR }
}

fn read(path: &Path) -> Feed {
    feed_rs::parser::parse(&fs::read(path).unwrap()[..]).unwrap()
}

fn titles(feed: &Feed) -> Vec<String> {
    feed.entries.iter().map(|entry| entry.title.as_ref().unwrap().content.clone()).collect()
}

/// The characters of a text that XML 1.0 allows.
fn allowed_in_xml(text: &str) -> String {
    text.chars()
        .filter(|c| !matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}'))
        .collect()
}

#[tokio::test]
async fn the_feed_lists_the_last_matches_newest_first_also_after_a_restart() {
    let fixture = Fixture::stopped(1.0).await;
    let path = fixture.path("news.atom");
    let mut fixture = fixture.run_with(vec![atom(&path, 3)]);
    fixture.enqueue("atom:news", &["one", "two"]).await;
    fixture.delivered(2).await;
    assert_eq!(titles(&read(&path)), ["two", "one"]);
    fixture.stop().await;
    fs::remove_file(&path).unwrap();
    fixture.start();
    fixture.enqueue("atom:news", &["three", "four"]).await;
    fixture.delivered(4).await;
    let feed = read(&path);
    assert_eq!(titles(&feed), ["four", "three", "two"]);
    let rows = fixture.rows().await;
    let ids: Vec<String> =
        rows.iter().skip(1).rev().map(|row| format!("urn:tidewatch:{}:0", row.key)).collect();
    assert_eq!(feed.entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>(), ids);
    let entry = &feed.entries[0];
    assert_eq!(entry.updated.unwrap().timestamp_millis(), at(-1).as_millis());
    assert_eq!(entry.published.unwrap().timestamp_millis(), at(-60).as_millis());
    assert_eq!(entry.links[0].href, "http://a/1?b=c&d=%3Ce%3E");
    assert_eq!(entry.authors[0].name.as_deref(), Some("a"));
    let terms: Vec<&str> = entry.categories.iter().map(|category| category.term.as_str()).collect();
    assert_eq!(terms, ["me", "all"]);
    assert_eq!(feed.id, "urn:tidewatch:atom:news");
    let left: Vec<_> =
        fs::read_dir(fixture.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".new")), "{left:?}");
}

#[tokio::test]
async fn hostile_titles_of_any_length_stay_titles() {
    let fixture = Fixture::stopped(1.0).await;
    let path = fixture.path("news.atom");
    let fixture = fixture.run_with(vec![atom(&path, 20)]);
    let long = HOSTILE.repeat(1_000_000 / HOSTILE.len() + 1);
    fixture.enqueue("atom:news", &["</title></entry></feed>", HOSTILE, &long]).await;
    fixture.delivered(3).await;
    let found = titles(&read(&path));
    assert_eq!(found.len(), 3);
    assert_eq!(found[2], "</title></entry></feed>");
    // feed-rs trims the ends. Other characters are unchanged, except those that XML forbids.
    assert_eq!(found[1].trim(), allowed_in_xml(HOSTILE).trim());
    assert!(found[0].trim() == allowed_in_xml(&long).trim(), "1 MB, intact");
}

#[tokio::test]
async fn the_feed_is_valid_if_fields_are_missing_or_malformed() {
    let fixture = Fixture::stopped(1.0).await;
    let path = fixture.path("news.atom");
    let fixture = fixture.run_with(vec![atom(&path, 20)]);
    let mut odd = document("x");
    odd.insert(
        "items".into(),
        json!([
            { "kind": "changed" },
            { "kind": "new", "link": "javascript:alert(1)", "title": "", "id": "the id" },
            { "kind": "new", "link": "no link at all", "title": 7, "detected_at": "yesterday" },
            { "kind": "new", "title": "early", "detected_at": "-009999-01-02T00:00:00Z", "occurred_at": 5 },
            { "kind": "new", "title": "dated", "detected_at": "2026-11-16T12:00:00+02:00", "text": "<i>t</i>" },
            "no item",
        ]),
    );
    let mut bare = document("x");
    bare.retain(|name, _| name == "at");
    let mut wrong = document("x");
    wrong.insert("items".into(), Value::from("none"));
    for (key, document) in [("1", odd), ("2", bare), ("3", wrong)] {
        fixture.insert_row(key, "atom:news", &document).await;
    }
    fixture.delivered(3).await;
    let feed = read(&path);
    assert_eq!(titles(&feed), ["changed", "the id", "new", "early", "dated", "match"]);
    assert!(feed.entries.iter().all(|entry| entry.links.is_empty() && entry.updated.is_some()));
    let updated = feed.entries[4].updated.unwrap().to_rfc3339();
    assert_eq!(updated, "2026-11-16T10:00:00+00:00");
    assert_eq!(feed.entries[4].summary.as_ref().unwrap().content, "<i>t</i>");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("javascript") && !text.contains("-009999"));
    let key = &fixture.rows().await[0].key;
    assert_eq!(feed.entries[4].id, format!("urn:tidewatch:{key}:4"));
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_tried_again_and_no_link_is_followed() {
    let fixture = Fixture::stopped(3600.0).await;
    let folder = fixture.path("later");
    let path = folder.join("news.atom");
    let fixture = fixture.run_with(vec![atom(&path, 20)]);
    fixture.enqueue("atom:news", &["x"]).await;
    let error = fixture.failed("atom:news").await.last_error.unwrap();
    assert!(
        error.ends_with("news.atom cannot be written: No such file or directory (os error 2)"),
        "{error}"
    );
    let precious = fixture.path("precious");
    fs::write(&precious, "precious").unwrap();
    fs::create_dir(fixture.path("soon")).unwrap();
    std::os::unix::fs::symlink(&precious, fixture.path("soon/.news.atom.new")).unwrap();
    fs::rename(fixture.path("soon"), &folder).unwrap();
    fixture.delivered(1).await;
    assert_eq!(titles(&read(&path)), ["x"]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    until_found("only the feed is left", async || fs::read_dir(&folder).unwrap().count() == 1).await;
}

#[tokio::test]
async fn matches_that_a_document_only_counts_are_an_entry() {
    let fixture = Fixture::stopped(1.0).await;
    let path = fixture.path("news.atom");
    let fixture = fixture.run_with(vec![atom(&path, 10)]);
    let mut many = document("one");
    many.insert("more".to_owned(), json!(4980));
    fixture.insert_row("k", "atom:news", &many).await;
    fixture.delivered(1).await;
    assert_eq!(titles(&read(&path)), ["one", "and 4980 more matches"]);
}
