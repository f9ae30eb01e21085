//! The time to read a feed and to compare it, as a multiple of one plain parse by the feed library.
//!
//! `cargo bench --bench read`. RSS, Atom and JSON Feed with about 500 bytes per item. Each document is read
//! by a source that knows all its items, all but one, or none. Each figure is the fastest of several rounds,
//! and the readers of a document alternate, so that a busy machine slows all of them.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write;

use tidewatch::clock::Stopwatch;
use tidewatch_core::observe::limits::ReadingLimits;
use tidewatch_core::observe::{FetchedDocument, Fingerprints, Observation, StoredView, compare, feed};
use tidewatch_core::time::{Span, Timestamp};

const ROUNDS: usize = 151;
/// Seconds that one reader spends in one round.
const ROUND: f64 = 0.002;
const URL: &str = "https://news.example/feed";
/// 2026-11-01, the date of the newest item.
const NEWEST: Timestamp = Timestamp::from_secs(1_793_527_200);

fn observe(bytes: &[u8], seen: &StoredView) -> Observation {
    let document = FetchedDocument { bytes, content_type: None, url: URL, limits: ReadingLimits::USUAL };
    let read = feed::read(&document, seen).expect("a feed");
    compare::feed(read, seen, &Fingerprints::new(), NEWEST).expect("comparable")
}

/// The view of a source that saw all items but the first `unseen` ones.
fn seen(first: &Observation, unseen: usize) -> StoredView {
    let items = first.present.iter().skip(unseen).map(|item| (item.key_hash, item.fingerprint));
    let last_success = Some(NEWEST - Span::from_hours(1));
    StoredView { last_success, items: items.collect(), ..StoredView::default() }
}

/// The parts of an item.
struct Post {
    link: String,
    title: String,
    text: String,
    at: Timestamp,
}

fn post(n: usize) -> Post {
    Post {
        link: format!("https://news.example/2026/11/{n}-the-port-of-call-and-its-ships"),
        title: format!("Post {n}: ships & cargo"),
        text: format!(
            "<p>The <a href=\"https://port.example/ships/{n}\">ship number {n}</a> has left the port with the \
             tide, and it is not known when it will be back.</p>"
        ),
        at: NEWEST - Span::from_mins(n as i64 * 30),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn rss(items: usize, text: impl Fn(&str) -> String) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\" \
         xmlns:content=\"http://purl.org/rss/1.0/modules/content/\" \
         xmlns:dc=\"http://purl.org/dc/elements/1.1/\" xmlns:atom=\"http://www.w3.org/2005/Atom\">\n<channel>\n\
         <title>News of the port</title>\n<link>https://news.example/</link>\n\
         <atom:link href=\"https://news.example/feed\" rel=\"self\" type=\"application/rss+xml\"/>\n\
         <description>All that moves</description>\n<ttl>60</ttl>\n",
    );
    for n in 0..items {
        let Post { link, title, text: words, at } = post(n);
        let (title, words) = (escaped(&title), text(&words));
        let day = jiff::Timestamp::from_millisecond(at.as_millis()).expect("a date");
        let day = day.strftime("%a, %d %b %Y %H:%M:%S GMT");
        let _ = write!(
            out,
            "<item>\n  <title>{title}</title>\n  <link>{link}</link>\n  <guid isPermaLink=\"false\">tag:{n}</guid>\n  \
             <dc:creator>Ada Mariner</dc:creator>\n  <category>ships</category>\n  <pubDate>{day}</pubDate>\n  \
             <description>{words}</description>\n</item>\n"
        );
    }
    out + "</channel>\n</rss>\n"
}

fn atom(items: usize) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n\
         <title>News of the port</title>\n<id>https://news.example/</id>\n<updated>2026-11-01T10:00:00Z</updated>\n",
    );
    for n in 0..items {
        let Post { link, title, text, at } = post(n);
        let (title, text, day) = (escaped(&title), escaped(&text), at.iso());
        let _ = write!(
            out,
            "<entry>\n  <title>{title}</title>\n  <link href=\"{link}\"/>\n  <id>tag:{n}</id>\n  \
             <author><name>Ada Mariner</name></author>\n  <category term=\"ships\"/>\n  \
             <updated>{day}</updated>\n  <content type=\"html\">{text}</content>\n</entry>\n"
        );
    }
    out + "</feed>\n"
}

fn json(items: usize) -> String {
    let mut out = String::from(
        "{\"version\":\"https://jsonfeed.org/version/1.1\",\"title\":\"News of the port\",\"items\":[",
    );
    for n in 0..items {
        let Post { link, title, text, at } = post(n);
        let (text, day) = (text.replace('"', "\\\""), at.iso());
        let comma = if n == 0 { "" } else { "," };
        let _ = write!(
            out,
            "{comma}\n{{\"id\":\"tag:{n}\",\"url\":\"{link}\",\"title\":\"{title}\",\
             \"authors\":[{{\"name\":\"Ada Mariner\"}}],\"tags\":[\"ships\"],\"content_html\":\"{text}\",\
             \"date_published\":\"{day}\"}}"
        );
    }
    out + "\n]}\n"
}

/// Seconds per call of each reader.
fn fastest<const N: usize>(readers: [&dyn Fn(); N]) -> [f64; N] {
    let timed = |reader: &dyn Fn(), times: usize| {
        let stopwatch = Stopwatch::start();
        (0..times).for_each(|_| reader());
        stopwatch.elapsed().as_secs_f64() / times as f64
    };
    let times = readers.map(|reader| {
        reader();
        (ROUND / timed(reader, 3)).ceil() as usize
    });
    let mut best = [f64::INFINITY; N];
    for _ in 0..ROUNDS {
        for (at, reader) in readers.iter().enumerate() {
            best[at] = best[at].min(timed(reader, times[at]));
        }
    }
    best
}

fn main() -> std::io::Result<()> {
    let out = &mut std::io::stdout().lock();
    writeln!(
        out,
        "{:<24} {:>8} {:>10} {:>10} {:>10} {:>10}",
        "document", "bytes", "library", "unchanged", "one new", "first"
    )?;
    let cdata = |text: &str| format!("<![CDATA[{text}]]>");
    for items in [20, 1_000] {
        for (name, document) in [
            ("RSS", rss(items, cdata)),
            ("RSS, escaped", rss(items, escaped)),
            ("Atom", atom(items)),
            ("JSON Feed", json(items)),
        ] {
            let bytes = document.as_bytes();
            let none = StoredView::default();
            let first = observe(bytes, &none);
            let (all, but_one) = (seen(&first, 0), seen(&first, 1));
            let counted = |seen: &StoredView| observe(bytes, seen).updates.len();
            assert_eq!((counted(&all), counted(&but_one), counted(&none)), (0, 1, 0));
            let [library, unchanged, new, contact] = fastest([
                &|| drop(black_box(feed_rs::parser::parse(bytes))),
                &|| drop(black_box(observe(bytes, &all))),
                &|| drop(black_box(observe(bytes, &but_one))),
                &|| drop(black_box(observe(bytes, &none))),
            ]);
            writeln!(
                out,
                "{:<24} {:>8} {:>7.1} us {:>10.2} {:>10.2} {:>10.2}",
                format!("{name}, {items} items"),
                bytes.len(),
                library * 1e6,
                unchanged / library,
                new / library,
                contact / library
            )?;
        }
    }
    Ok(())
}
