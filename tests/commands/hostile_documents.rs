//! No document takes its reader much more time than an ordinary one of its size.
//!
//! Processor time is measured, not real time, so that a busy machine changes little. A step that is quadratic takes
//! sixteen times as long for a document of four times the size. One that is quadratic up to a limit takes long for
//! every item.

use std::time::Duration;

use tidewatch::clock::ThreadTime;
use tidewatch::fetch::robots::Robots;
use tidewatch_core::observe::limits::ReadingLimits;
use tidewatch_core::observe::page::PageRules;
use tidewatch_core::observe::{FetchedDocument, ParsedFeed, StoredView, Unreadable, feed, page};
use tidewatch_core::time::Timestamp;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::hostile::{HOSTILE_DOCUMENTS, HostileDocument, ReadAs};

/// The smaller size. Four times that is read as well.
const BYTES: usize = 400_000;

/// Times below this say nothing about growth.
const MEASURABLE: Duration = Duration::from_millis(40);

fn fetched<'d>(text: &'d str, limits: ReadingLimits<'d>) -> FetchedDocument<'d> {
    FetchedDocument { bytes: text.as_bytes(), content_type: None, url: "http://h.example/", limits }
}

/// Reads it as a source without items does: in full.
fn read_feed(text: &str, limits: ReadingLimits<'_>) -> Result<ParsedFeed, Unreadable> {
    let seen = StoredView { last_success: Some(Timestamp::from_secs(0)), ..StoredView::default() };
    feed::read(&fetched(text, limits), &seen)
}

fn read(document: &HostileDocument, text: &str) {
    match document.read_as {
        ReadAs::Feed => drop(read_feed(text, ReadingLimits::USUAL)),
        ReadAs::Page => drop(page::read(&fetched(text, ReadingLimits::USUAL), &PageRules::default())),
        ReadAs::Robots => {
            let robots = Robots::parse(200, text.as_bytes());
            robots.allows(&url::Url::parse("http://h.example/a/b").unwrap());
        }
    }
}

/// The least time of some runs.
fn time_of(document: &HostileDocument, bytes: usize) -> Duration {
    let text = (document.write)(bytes);
    let run = |_| {
        let time = ThreadTime::start();
        read(document, &text);
        time.used()
    };
    (0..3).map(run).min().unwrap()
}

#[test]
fn the_time_of_every_reader_grows_no_faster_than_the_document() {
    let ordinary = HostileDocument {
        name: "an ordinary feed",
        read_as: ReadAs::Feed,
        write: |bytes| rss((0..bytes / 75).map(|number| number.to_string())),
    };
    let ordinary = time_of(&ordinary, 4 * BYTES);
    let slow = |document: &HostileDocument| {
        let large = time_of(document, 4 * BYTES);
        let grown = large.div_duration_f64(time_of(document, BYTES).max(Duration::from_micros(1)));
        let compared = large.div_duration_f64(ordinary);
        let slow = compared > 10.0 || (large > MEASURABLE && grown > 9.0);
        slow.then(|| {
            format!("{}: {compared:.1} times an ordinary one, {grown:.1} times a quarter", document.name)
        })
    };
    let slow: Vec<String> = HOSTILE_DOCUMENTS.iter().filter_map(slow).collect();
    assert!(slow.is_empty(), "an ordinary one takes {ordinary:?}:\n{}", slow.join("\n"));
}

#[test]
fn a_document_is_read_up_to_its_limits() {
    for document in HOSTILE_DOCUMENTS.iter().filter(|document| document.read_as == ReadAs::Feed) {
        let text = (document.write)(2_000_000);
        let Ok(feed) = read_feed(&text, ReadingLimits::USUAL) else { continue };
        assert!(feed.items.len() <= ReadingLimits::USUAL.items, "{}", document.name);
        let details = feed.items.iter().filter_map(|item| item.details.as_ref());
        let built: usize = details
            .map(|it| {
                let texts = [&it.title, &it.link, &it.text];
                texts.into_iter().flatten().map(String::len).sum::<usize>()
            })
            .sum();
        assert!(built <= 2 * text.len(), "{}: {built} bytes", document.name);
    }
}

#[test]
fn a_reading_ends_when_its_time_is_over() {
    for (kind, begin, piece) in [
        (ReadAs::Feed, "<rss><channel>", "<a/>"),
        (ReadAs::Feed, "<rss><channel>", "</a>"),
        (ReadAs::Feed, "<rss><channel>", "&"),
        (ReadAs::Feed, "<rss><channel>", "<!---->"),
        (ReadAs::Feed, r#"{"version":"","items":[{"tags":[1"#, ",1"),
        (ReadAs::Page, "<body>", "<p>x"),
    ] {
        let text = format!("{begin}{}", piece.repeat(5_000));
        let limits = ReadingLimits { out_of_time: &|| true, ..ReadingLimits::USUAL };
        let error = match kind {
            ReadAs::Page => page::read(&fetched(&text, limits), &PageRules::default()).unwrap_err(),
            _ => read_feed(&text, limits).unwrap_err(),
        };
        assert!(error.to_string().contains("takes too long to read"), "{piece}: {error}");
    }
}

#[test]
fn items_beyond_the_limit_are_left_out_and_counted() {
    let limits = ReadingLimits { items: 3, ..ReadingLimits::USUAL };
    let items: String = (0..5).map(|n| format!("<item><guid>{n}</guid></item>")).collect();
    let rss = format!("<rss version='2.0'><channel>{items}<ttl>90</ttl></channel></rss>");
    let objects: Vec<String> = (0..5).map(|n| format!("{{\"id\":\"{n}\"}}")).collect();
    let json = format!(r#"{{"items":[{}],"version":"https://jsonfeed.org/version/1"}}"#, objects.join(","));
    for text in [&rss, &json] {
        let feed = read_feed(text, limits).unwrap();
        let keys: Vec<&str> = feed.items.iter().map(|item| &*item.key).collect();
        assert_eq!(keys, ["0", "1", "2"]);
        assert!(feed.cut);
        let sentence = feed.repaired.unwrap();
        assert_eq!(sentence, "only the first 3 of 5 items are read (`max_items`)");
        assert!(!read_feed(text, ReadingLimits::USUAL).unwrap().cut);
    }
    assert!(read_feed(&rss, limits).unwrap().hints.ttl.is_some(), "what follows the items is read");
}
