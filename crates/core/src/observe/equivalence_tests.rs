//! Keys, fingerprints and details are those that follow from a full parse by the feed library.
//!
//! Stored items have keys and fingerprints of such parses. If one changed, all items would count as new or
//! edited. Here all fields of a document go through the library, in its own format.

use std::collections::HashMap;

use feed_rs::model::{Entry, FeedType};
use proptest::prelude::*;
use quick_xml::escape::{escape, partial_escape};
use serde_json::{Map, Value, json};
use url::Url;

use super::limits::ReadingLimits;
use super::repairs::Repairs;
use super::written::{WrittenFeed, WrittenItem};
use super::{FeedItem, FetchedDocument, ItemDetails, StoredView, feed, link, text};
use crate::time::Timestamp;

const URL: &str = "https://example.org/blog/feed.xml";

/// The format of the document that the library gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CleanFormat {
    Rss,
    Atom,
    Json,
}

fn element(name: &str, attribute: &str, text: &str) -> String {
    format!("<{name}{attribute}>{}</{name}>", partial_escape(text))
}

fn rss_item(item: &WrittenItem<'_>) -> String {
    let fields = [
        ("guid", &item.id),
        ("link", &item.link),
        ("description", &item.summary),
        ("content:encoded", &item.content),
        ("pubDate", &item.published),
        ("updated", &item.updated),
    ];
    let fields = fields.iter().filter_map(|(name, text)| Some(element(name, "", text.as_deref()?)));
    let title = item.title.as_ref().map(|title| element("title", "", &title.text));
    format!("<item>{}</item>", title.into_iter().chain(fields).collect::<String>())
}

fn atom_entry(item: &WrittenItem<'_>) -> String {
    let kind = |markup| if markup { " type=\"html\"" } else { " type=\"text\"" };
    let fields = [
        ("id", "", &item.id),
        ("summary", kind(false), &item.summary),
        ("content", kind(true), &item.content),
        ("published", "", &item.published),
        ("updated", "", &item.updated),
    ];
    let fields = fields.iter().filter_map(|(name, kind, text)| Some(element(name, kind, text.as_deref()?)));
    let title = item.title.as_ref().map(|title| element("title", kind(title.markup), &title.text));
    let link = item.link.as_ref().map(|link| format!("<link href=\"{}\"/>", escape(&**link)));
    format!("<entry>{}</entry>", title.into_iter().chain(link).chain(fields).collect::<String>())
}

fn json_item(item: &WrittenItem<'_>) -> Value {
    let title = item.title.as_ref().map(|title| title.text.clone());
    let fields = [
        ("id", &item.id),
        ("url", &item.link),
        ("title", &title),
        ("content_html", &item.content),
        ("summary", &item.summary),
        ("date_published", &item.published),
        ("date_modified", &item.updated),
    ];
    let fields =
        fields.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text.as_deref()?))));
    Value::Object(fields.collect())
}

fn clean(feed: &WrittenFeed<'_>, format: CleanFormat) -> String {
    match format {
        CleanFormat::Rss => format!(
            "<rss version=\"2.0\" xmlns:content=\"http://purl.org/rss/1.0/modules/content/\"><channel>{}\
             </channel></rss>",
            feed.items.iter().map(rss_item).collect::<String>()
        ),
        CleanFormat::Atom => format!(
            "<feed xmlns=\"http://www.w3.org/2005/Atom\">{}</feed>",
            feed.items.iter().map(atom_entry).collect::<String>()
        ),
        CleanFormat::Json => {
            let items: Vec<Value> = feed.items.iter().map(json_item).collect();
            json!({ "version": "https://jsonfeed.org/version/1.1", "title": "", "items": items })
                .to_string()
        }
    }
}

/// Everything but the labels, which the library does not get.
#[derive(Debug, Clone, PartialEq)]
struct Parsed {
    key: String,
    fingerprint: u64,
    title: Option<String>,
    link: Option<String>,
    published: Option<Timestamp>,
    updated: Option<Timestamp>,
    text: Option<String>,
}

fn parsed(entry: Entry, escaped_titles: bool) -> Parsed {
    let (title, markup) = entry.title.map_or((String::new(), false), |title| {
        let markup = escaped_titles || title.content_type.essence().subty == "html";
        (title.content, markup)
    });
    let written_link = entry.links.into_iter().next().map_or(String::new(), |link| link.href);
    let summary = entry.summary.map_or(String::new(), |summary| summary.content);
    let content = entry.content.and_then(|content| content.body).unwrap_or_default();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let seen = [&title, &written_link, &summary, &content].map(|part| words(part));
    let bounded = |key: &str| match key.len() {
        0..=1024 => key.to_owned(),
        _ => format!("hash:{}", text::hex([key])),
    };
    let key = match (entry.id.trim(), written_link.trim()) {
        ("", "") => format!("hash:{}", text::hex([&*seen[0], &*seen[2], &*seen[3]])),
        ("", link) => bounded(link),
        (id, _) => bounded(id),
    };
    Parsed {
        key,
        fingerprint: text::fingerprint(seen.iter().map(String::as_str)),
        title: text::title(&title, markup),
        link: link::absolute(&written_link, Url::parse(URL).ok().as_ref()),
        published: entry.published.map(|at| Timestamp::from_millis(at.timestamp_millis())),
        updated: entry.updated.map(|at| Timestamp::from_millis(at.timestamp_millis())),
        text: text::plain([&*summary, &*content]),
    }
}

/// The items with distinct keys.
fn distinct(mut items: Vec<Parsed>) -> Vec<Parsed> {
    let mut links: HashMap<String, Vec<Option<String>>> = HashMap::new();
    for item in &items {
        links.entry(item.key.clone()).or_default().push(item.link.clone());
    }
    for item in &mut items {
        let shared = &links[&item.key];
        if let (true, Some(link)) = (shared.iter().any(|link| *link != shared[0]), &item.link) {
            let key = format!("{} {link}", item.key);
            item.key = if key.len() <= 1024 { key } else { format!("hash:{}", text::hex([key.as_str()])) };
        }
    }
    let mut taken = Vec::new();
    items.retain(|item| {
        !taken.contains(&item.key) && {
            taken.push(item.key.clone());
            true
        }
    });
    items
}

/// The items of a document by way of the library; `None` if it is no feed.
fn by_library(document: &str) -> Option<Vec<Parsed>> {
    let written =
        feed::written(document, Url::parse(URL).ok().as_ref(), ReadingLimits::USUAL, Repairs::default())
            .ok()?;
    let format = match (document.trim_start().starts_with('{'), written.edited_when_published) {
        (true, _) => CleanFormat::Json,
        (false, true) => CleanFormat::Rss,
        (false, false) => CleanFormat::Atom,
    };
    let parser = feed_rs::parser::Builder::new()
        .id_generator(|_, _, _| String::new())
        .sanitize_content(false)
        .build();
    let library = parser.parse(clean(&written, format).as_bytes()).expect("a clean document");
    assert_eq!(library.entries.len(), written.items.len());
    if written.repairs.truncated && written.items.is_empty() {
        return None;
    }
    let escaped_titles = matches!(library.feed_type, FeedType::RSS0 | FeedType::RSS1 | FeedType::RSS2);
    Some(distinct(library.entries.into_iter().map(|entry| parsed(entry, escaped_titles)).collect()))
}

/// The items of a document as they are read; `None` if it is no feed.
fn as_read(document: &str) -> Option<Vec<Parsed>> {
    // All items are new.
    let seen = StoredView { last_success: Some(Timestamp::from_secs(0)), ..StoredView::default() };
    let document = FetchedDocument {
        bytes: document.as_bytes(),
        content_type: None,
        url: URL,
        limits: ReadingLimits::USUAL,
    };
    let item = |item: FeedItem| {
        let ItemDetails { title, link, text, .. } = item.details.expect("a new item");
        let FeedItem { key, fingerprint, published, updated, .. } = item;
        Parsed { key, fingerprint, title, link, published, updated, text }
    };
    Some(feed::read(&document, &seen).ok()?.items.into_iter().map(item).collect())
}

const PIECES: [&str; 36] = [
    "word",
    " ",
    "  ",
    "\n",
    "\t",
    "\r\n",
    "é",
    "日本",
    "’",
    "\u{a0}",
    "\u{2003}",
    "\u{85}",
    "\u{200b}",
    "&amp;",
    "&lt;p&gt;x&lt;/p&gt;",
    "&#13;",
    "&#233;",
    "&#1;",
    "&#xD800;",
    "&nbsp;",
    "&bogus;",
    "&amp;lt;",
    "&",
    "AT&T; ",
    "<![CDATA[<p>c&d</p>]]>",
    "<![CDATA[]]>",
    "<b>bold</b>",
    "<br/>",
    "<p>open",
    " < ",
    "<!-- c -->",
    "]]>",
    "\u{c}",
    "\"",
    "'",
    "<div xmlns='http://www.w3.org/1999/xhtml'>x<i>y</i></div>",
];
const LINKS: [&str; 20] = [
    "http://a/1",
    "http://a/2",
    "HTTP://A/1",
    "https://example.org",
    "https://h/a?x=1&amp;y=2",
    "/rel",
    "../up",
    "//host/p",
    "mailto:x@y.z",
    "javascript:alert(1)",
    "http://a/ b",
    " http://a/1 ",
    "http://a/\n1",
    "http://h:80/",
    "http://h/a/../b",
    "http://1.2.3/",
    "http://é.org/é",
    "http://[::1]/",
    "http://",
    "",
];
const DATES: [&str; 7] = [
    "Sun, 01 Nov 2026 10:00:00 GMT",
    "2026-11-01T10:00:00Z",
    "2026-11-01",
    "yesterday",
    "",
    " 2026-11-01T10:00:00Z \n",
    "Thurs, 5 November 2026 7:00:00 UTC",
];
const IDS: [&str; 8] = ["a", "b", " urn:1 ", "", " ", "http://a/1", "é\nb", "<![CDATA[q]]>"];
const FIELDS: [&str; 26] = [
    "guid",
    "id",
    "title",
    "title",
    "link",
    "link",
    "a:link",
    "description",
    "content:encoded",
    "summary",
    "content",
    "pubDate",
    "published",
    "updated",
    "modified",
    "dc:date",
    "a:updated",
    "dc:description",
    "media:title",
    "dc:title",
    "source",
    "author",
    "category",
    "a:title",
    "atom:published",
    "entry",
];
const ATTRIBUTES: [&str; 14] = [
    "",
    "",
    "",
    "",
    " type='html'",
    " type='xhtml'",
    " type='text'",
    " rel='alternate'",
    " rel='self'",
    " isPermaLink='false'",
    " xml:base='http://base/x/'",
    " src='s.html'",
    " xmlns='urn:x'",
    " type='image/png'",
];
const ROOTS: [(&str, &str); 9] = [
    ("<rss version='2.0' xmlns:a='http://www.w3.org/2005/Atom'><channel>", "item"),
    ("<rss version='0.91'><channel>", "item"),
    ("<rss version='0.92' xml:base='http://b/'><channel><title>T</title>", "item"),
    (
        "<rdf:RDF xmlns='http://purl.org/rss/1.0/'><channel rdf:about='c'></channel>",
        "item rdf:about=' urn:r '",
    ),
    ("<rdf:RDF xmlns='http://my.netscape.com/rdf/simple/0.9/'><channel/>", "item"),
    ("<feed xmlns='http://www.w3.org/2005/Atom'>", "entry"),
    ("<feed xmlns='http://www.w3.org/2005/Atom' xml:base='/b/'>", "entry xml:base='c/'"),
    ("<feed version='0.3' xmlns='http://purl.org/atom/ns#'>", "entry"),
    ("<a:feed xmlns:a='http://www.w3.org/2005/Atom' xmlns:media='urn:m'>", "a:entry"),
];

fn any_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop::sample::select(&PIECES[..]), 0..7).prop_map(|pieces| pieces.concat())
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => any_text(),
        2 => prop::sample::select(&LINKS[..]).prop_map(str::to_owned),
        1 => prop::sample::select(&DATES[..]).prop_map(str::to_owned),
        1 => prop::sample::select(&IDS[..]).prop_map(str::to_owned),
        1 => Just("x".repeat(1030)),
    ]
}

fn any_element() -> impl Strategy<Value = String> {
    let attributes = (prop::sample::select(&ATTRIBUTES[..]), prop::sample::select(&ATTRIBUTES[..]));
    let href = proptest::option::of(prop::sample::select(&LINKS[..]));
    (prop::sample::select(&FIELDS[..]), attributes, href, any_value(), 0..12_u8).prop_map(
        |(name, (one, other), href, value, end)| {
            let href = match href.filter(|_| name.ends_with("link")) {
                Some(href) => format!(" href='{href}'"),
                None => String::new(),
            };
            match end {
                0 => format!("<{name}{one}{other}{href}/>"),
                1 => format!("<{name}{one}{other}{href}>{value}"),
                _ => format!("<{name}{one}{other}{href}>{value}</{name}>\n"),
            }
        },
    )
}

fn any_xml() -> impl Strategy<Value = String> {
    let items = proptest::collection::vec(proptest::collection::vec(any_element(), 0..9), 0..5);
    (prop::sample::select(&ROOTS[..]), items).prop_map(|((root, item), items)| {
        let name = item.split(' ').next().unwrap_or_default();
        let item = |fields: &Vec<String>| format!("<{item}>{}</{name}>", fields.concat());
        let end = root[1..].split([' ', '>']).next().unwrap_or_default();
        let channel = if root.starts_with("<rss") { "</channel>" } else { "" };
        format!("{root}{}{channel}</{end}>", items.iter().map(item).collect::<String>())
    })
}

fn any_json() -> impl Strategy<Value = String> {
    let names = [
        "id",
        "url",
        "external_url",
        "title",
        "content_html",
        "content_text",
        "summary",
        "date_published",
        "date_modified",
    ];
    let value = prop_oneof![
        8 => any_value().prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => Just(json!(null)),
        1 => Just(json!([true])),
    ];
    let members = proptest::collection::vec((prop::sample::select(names.to_vec()), value), 0..9);
    proptest::collection::vec(members, 0..5).prop_map(|items| {
        let item = |members: Vec<(&str, Value)>| {
            members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>()
        };
        let items: Vec<_> = items.into_iter().map(item).collect();
        json!({ "version": "https://jsonfeed.org/version/1.1", "items": items }).to_string()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn xml_feeds_are_read_as_by_the_library(document in any_xml()) {
        prop_assert_eq!(as_read(&document), by_library(&document));
    }

    #[test]
    fn json_feeds_are_read_as_by_the_library(document in any_json()) {
        prop_assert_eq!(as_read(&document), by_library(&document));
    }
}

/// Values of an earlier version, which stores contain.
#[test]
fn keys_and_fingerprints_never_change() {
    let rss = "<rss version=\"2.0\" xmlns:content=\"http://purl.org/rss/1.0/modules/content/\"><channel>
<item><title> A &lt;b&gt;bold&lt;/b&gt;
 title</title><link>HTTPS://Example.org:443/a/../b c</link><guid isPermaLink=\"false\"> urn:1 </guid>
<description><![CDATA[<p>One  &amp; two</p>]]></description><content:encoded>Three&nbsp;four</content:encoded></item>
<item><title>Q&A</title><link>/relative</link></item>
<item><description>Nameless</description></item></channel></rss>
";
    let atom = "<feed xmlns=\"http://www.w3.org/2005/Atom\" xml:base=\"https://elsewhere.org/x/\">
<entry><id>tag:1</id><title type=\"html\">&lt;i&gt;One&lt;/i&gt;</title><link href=\"one?a=1&amp;b=2\"/><summary>S</summary>
<content type=\"xhtml\"><div xmlns=\"http://www.w3.org/1999/xhtml\">Hi<br/> there <b>you</b></div></content></entry>
<entry><title>Linked only</title><link rel=\"via\" href=\"via\"/><link href=\"two\"/></entry></feed>
";
    let json = r#"{"version":"https://jsonfeed.org/version/1.1","title":"J","items":[
{"id":7,"url":"https://example.org","title":" One ","content_html":"<p>x</p>","content_text":"x"},
{"external_url":"http://a/1","content_text":"a\n b"},{"title":"only"}]}
"#;
    let items = [rss, atom, json].into_iter().flat_map(|document| as_read(document).expect("a feed"));
    let items: Vec<(String, u64)> = items.map(|item| (item.key, item.fingerprint)).collect();
    let nameless = "hash:3f18392df1b47014dbccd50ebd3f2c4c9738787bc7e71920539f1e541db36522";
    let only = "hash:e710c5d63ebbaf1ead93b158785d28c1a75fa35c758a8d93514ee9f6d4602844";
    let stored = [
        ("urn:1", 0x315e6c9e9d3d00fa),
        ("/relative", 0x404b506b279cd870),
        (nameless, 0x0c69989cb8e3ce4f),
        ("tag:1", 0xa7d3e17ecc189f19),
        ("two", 0x538a4f5f53262745),
        ("7", 0xcae2c2bde7f62235),
        ("http://a/1", 0xc2de3bb07696aed8),
        (only, 0xc921dcdb2878f307),
    ];
    assert_eq!(items, stored.map(|(key, fingerprint)| (key.to_owned(), fingerprint)));
}
