//! Feeds of every dialect, and known faults of publishers.

use tidewatch_core::observe::limits::ReadingLimits;
use tidewatch_core::observe::{
    FeedItem, FetchedDocument, ItemDetails, ParsedFeed, StoredView, Unreadable, feed,
};
use tidewatch_core::time::{Span, Timestamp};

/// The feed as a source without items sees it: all items are new.
fn bytes_as(bytes: &[u8], content_type: Option<&str>) -> Result<ParsedFeed, Unreadable> {
    let seen = StoredView { last_success: Some(Timestamp::from_secs(0)), ..StoredView::default() };
    let url = "https://example.org/blog/feed.xml";
    feed::read(&FetchedDocument { bytes, content_type, url, limits: ReadingLimits::USUAL }, &seen)
}

fn details(item: &FeedItem) -> &ItemDetails {
    item.details.as_ref().expect("an update")
}

fn read(text: &str) -> ParsedFeed {
    bytes_as(text.as_bytes(), None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn keys(feed: &ParsedFeed) -> Vec<&str> {
    feed.items.iter().map(|item| item.key.as_str()).collect()
}

fn titles(feed: &ParsedFeed) -> Vec<&str> {
    feed.items.iter().map(|item| details(item).title.as_deref().unwrap_or("-")).collect()
}

fn at(iso: &str) -> Option<Timestamp> {
    Some(Timestamp::parse_iso(iso).expect("valid"))
}

const RSS2: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:media="http://search.yahoo.com/mrss/"
     xmlns:sy="http://purl.org/rss/1.0/modules/syndication/" xmlns:atom="http://www.w3.org/2005/Atom">
<channel>
  <title>Tide &amp; Time</title><link>https://example.org/</link>
  <atom:link href="https://example.org/feed" rel="self"/>
  <ttl> 60.0 </ttl>
  <skipHours><hour>3</hour><hour>24</hour></skipHours>
  <skipDays><day>sunday</day></skipDays>
  <sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>
  <image><title>not the title</title><url>x</url></image>
  <item>
    <title>First &lt;b&gt;post&lt;/b&gt;</title><link>/first</link><guid isPermaLink="false"> urn:1 </guid>
    <description><![CDATA[<p>Hello</p>]]></description><content:encoded>Long</content:encoded>
    <pubDate>Sun, 01 Nov 2026 10:00:00 GMT</pubDate>
    <media:title>nor this</media:title><author>—a@example.org</author>
  </item>
  <item><title>Second</title><guid>https://example.org/second</guid></item>
  <item><title>Third</title><link>https://example.org/third</link></item>
  <item><description>Nameless</description></item>
</channel></rss>"#;

#[test]
fn rss_2_with_all_it_carries() {
    let feed = read(RSS2);
    assert_eq!(feed.title.as_deref(), Some("Tide & Time"));
    assert_eq!(feed.repaired, None);
    assert_eq!(titles(&feed), ["First post", "Second", "Third", "-"]);
    assert_eq!(keys(&feed)[..3], ["urn:1", "https://example.org/second", "https://example.org/third"]);
    assert!(feed.items[3].key.starts_with("hash:"));
    let links: Vec<_> = feed.items.iter().map(|item| details(item).link.as_deref()).collect();
    assert_eq!(
        links,
        [
            Some("https://example.org/first"),
            Some("https://example.org/second"),
            Some("https://example.org/third"),
            None
        ]
    );
    assert_eq!(feed.items[0].published, at("2026-11-01T10:00:00Z"));
    assert_eq!(feed.hints.ttl, Some(Span::from_hours(1)));
    assert_eq!(feed.hints.skip_hours, 0b1001);
    assert_eq!(feed.hints.skip_days, 0b100_0000);
    assert_eq!(feed.hints.update_period, Some(Span::from_mins(30)));
}

#[test]
fn hints_count_only_as_children_of_the_channel() {
    let feed = read(
        "<rss version='2.0'><channel><image><ttl>5</ttl></image><x:ttl xmlns:x='urn:x'>7</x:ttl>
        <item><guid>a</guid><ttl>9</ttl><skipHours><hour>1</hour></skipHours></item></channel></rss>",
    );
    assert_eq!(feed.hints, Default::default());
}

#[test]
fn old_rss() {
    let rss090 = read(
        r#"<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
        xmlns="http://my.netscape.com/rdf/simple/0.9/"><channel><title>Old</title></channel>
        <item><title>A</title><link>http://a/</link></item><item><title>B</title><link>http://b/</link></item></rdf:RDF>"#,
    );
    assert_eq!((rss090.title.as_deref(), titles(&rss090)), (Some("Old"), vec!["A", "B"]));
    assert_eq!(keys(&rss090), ["http://a/", "http://b/"]);

    let rss091 = read(
        r#"<?xml version="1.0"?><!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN"
        "http://my.netscape.com/publish/formats/rss-0.91.dtd"><rss version="0.91"><channel><title>T</title>
        <skipHours><hour>1</hour></skipHours><item><title>A</title><link>http://a/</link></item></channel></rss>"#,
    );
    assert_eq!((titles(&rss091), rss091.hints.skip_hours), (vec!["A"], 2));

    for version in ["version='0.92'", "version='0.93'", "version='0.94'", "version=''"] {
        let feed = read(&format!("<rss {version}><channel><item><title>A</title></item></channel></rss>"));
        assert_eq!((titles(&feed), &feed.repaired), (vec!["A"], &None), "{version}");
    }
    let unversioned = read("<rss><channel><item><title>A</title></item></channel></rss>");
    assert_eq!((titles(&unversioned), unversioned.repaired.as_deref()), (vec!["A"], Some("no version")));

    let rss10 = read(
        r#"<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
        xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:syn="http://purl.org/rss/1.0/modules/syndication/">
        <channel rdf:about="http://c/"><title>Ten</title><syn:updatePeriod>daily</syn:updatePeriod>
        <items><rdf:Seq><rdf:li resource="http://a/"/></rdf:Seq></items></channel>
        <item rdf:about="urn:a"><title>A</title><link>http://a/</link><dc:date>2026-11-01T10:00:00+01:00</dc:date></item>
        <item rdf:about="urn:b"><title>B, no link</title></item></rdf:RDF>"#,
    );
    assert_eq!(keys(&rss10), ["urn:a", "urn:b"]);
    assert_eq!(rss10.items[0].published, at("2026-11-01T09:00:00Z"));
    assert_eq!(rss10.hints.update_period, Some(Span::from_days(1)));
}

#[test]
fn atom() {
    let atom10 = read(
        r#"<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://elsewhere.org/"><title type="text">A &lt;b&gt; C</title>
        <entry><id> urn:1 </id><title type="html">&lt;i&gt;One&lt;/i&gt; &amp;amp; only</title><link rel="self" href="/self"/>
        <link rel="enclosure" href="/a.mp3"/><link href="one" /><published>2026-11-01T10:00:00Z</published>
        <updated>2026-11-02T10:00:00Z</updated><source><id>urn:other</id><title>not me</title></source>
        <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">Hi<br/>there <b>you</b></div></content></entry>
        <entry><title>Linked only</title><link href="two"/><content type="image/png" src="x.png">junk</content></entry></feed>"#,
    );
    assert_eq!(atom10.title.as_deref(), Some("A <b> C"));
    assert_eq!(titles(&atom10), ["One & only", "Linked only"]);
    assert_eq!(keys(&atom10), ["urn:1", "two"]);
    assert_eq!(details(&atom10.items[0]).link.as_deref(), Some("https://elsewhere.org/one"));
    assert_eq!(atom10.items[0].published, at("2026-11-01T10:00:00Z"));
    assert_eq!(atom10.items[0].updated, at("2026-11-02T10:00:00Z"));
    assert_eq!(atom10.repaired, None);

    let atom03 = read(
        r#"<feed version="0.3" xmlns="http://purl.org/atom/ns#"><title mode="escaped" type="text/html">Old</title>
        <entry><id>tag:1</id><title type="text/plain">One</title><link rel="alternate" type="text/html" href="http://a/1"/>
        <issued>2026-11-01T10:00:00Z</issued><modified>2026-11-02T10:00:00Z</modified></entry></feed>"#,
    );
    assert_eq!((keys(&atom03), titles(&atom03)), (vec!["tag:1"], vec!["One"]));
    assert_eq!(atom03.items[0].updated, at("2026-11-02T10:00:00Z"));

    let prefixed =
        read("<a:feed xmlns:a='http://www.w3.org/2005/Atom'><a:entry><a:id>x</a:id></a:entry></a:feed>");
    assert_eq!(keys(&prefixed), ["x"]);
    let no_namespace = read("<feed><entry><id>x</id></entry></feed>");
    assert_eq!(keys(&no_namespace), ["x"]);
}

#[test]
fn modules_and_undeclared_prefixes() {
    let feed = read(
        "<rss version='2.0' xmlns:a='http://www.w3.org/2005/Atom'><channel><item><guid>x</guid>
        <media:title>Not this</media:title><title>This</title><title>Nor this</title>
        <dc:date>2026-11-01T10:00:00Z</dc:date><a:updated>2026-11-02T10:00:00Z</a:updated>
        <a:link rel='replies' href='http://no/'/><a:link href='http://yes/'/></item></channel></rss>",
    );
    assert_eq!(titles(&feed), ["This"]);
    assert_eq!(feed.items[0].published, at("2026-11-01T10:00:00Z"));
    assert_eq!(feed.items[0].updated, at("2026-11-02T10:00:00Z"));
    assert_eq!(details(&feed.items[0]).link.as_deref(), Some("http://yes/"));
}

#[test]
fn json_feed() {
    let feed = read(
        r#"{"version":"https://jsonfeed.org/version/1.1","title":"J","items":[
        {"id":"1","url":"/one","title":"One","content_html":"<p>x</p>","date_published":"2026-11-01T10:00:00Z"},
        {"id":"2","content_text":"no title"}]}"#,
    );
    assert_eq!((keys(&feed), titles(&feed)), (vec!["1", "2"], vec!["One", "-"]));
    assert_eq!(details(&feed.items[0]).link.as_deref(), Some("https://example.org/one"));
    assert_eq!(feed.repaired, None);

    let odd = read(
        r#"{"version":"https://jsonfeed.org/version/1","items":[{"id":7,"authors":"me","url":"javascript:x"},{"title":"t"}]} trailing"#,
    );
    assert_eq!((keys(&odd)[0], details(&odd.items[0]).link.as_deref()), ("7", None));
    assert_eq!(odd.repaired.as_deref(), Some("1 value of the wrong type"));

    let cut = read(
        r#"{"version":"https://jsonfeed.org/version/1","title":"T","items":[{"id":"1","tags":["{"]},{"id":"2"},{"id":"3","ti"#,
    );
    assert_eq!(keys(&cut), ["1", "2"]);
    assert_eq!(cut.repaired.as_deref(), Some("truncated after 2 items"));
    let raw_newline = read(
        "{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[{\"id\":\"a\",\"title\":\"b\nc\"}]}",
    );
    assert_eq!(titles(&raw_newline), ["b c"]);
    for not in [r#"{"error":"no"}"#, r#"{"items":[1,2]}"#, "[1]", "{"] {
        assert!(matches!(bytes_as(not.as_bytes(), None), Err(Unreadable::NotAFeed(_))), "{not}");
    }
}

#[test]
fn encodings() {
    let xml = |prolog: &str| {
        format!("{prolog}<rss version='2.0'><channel><item><title>Café ą</title></item></channel></rss>")
    };
    let title = |bytes: &[u8], header: Option<&str>| {
        let feed = bytes_as(bytes, header).expect("readable");
        details(&feed.items[0]).title.clone().unwrap_or_default()
    };
    let utf8 = xml("<?xml version='1.0' encoding='UTF-8'?>");
    assert_eq!(title(utf8.as_bytes(), Some("text/html; charset=ISO-8859-1")), "Café ą");
    assert_eq!(title(format!("\u{feff}{utf8}").as_bytes(), None), "Café ą");
    let wide: Vec<u16> = xml("<?xml version='1.0' encoding='UTF-16'?>").encode_utf16().collect();
    let little: Vec<u8> = wide.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> =
        [0xfe, 0xff].into_iter().chain(wide.iter().flat_map(|unit| unit.to_be_bytes())).collect();
    assert_eq!(title(&little, None), "Café ą");
    assert_eq!(title(&big, None), "Café ą");
    let latin: Vec<u8> = xml("").replace('ą', "").chars().map(|c| c as u8).collect();
    assert_eq!(title(&latin, Some("application/rss+xml; charset=iso-8859-1")), "Café");
    assert_eq!(title(&latin, None), "Café");
}

#[test]
fn junk_before_the_prolog() {
    let plain = read(
        "\n\n  <?xml version='1.0'?><rss version='2.0'><channel><item><guid>a</guid></item></channel></rss>\n",
    );
    assert_eq!((keys(&plain), &plain.repaired), (vec!["a"], &None));
    let php = read(
        "<br />\n<b>Warning</b>: Undefined variable in <b>/x.php</b> on line <b>3</b><br />\n<?xml version='1.0'?>
        <rss version='2.0'><channel><item><guid>a</guid></item></channel></rss>",
    );
    assert_eq!((keys(&php), php.repaired.as_deref()), (vec!["a"], Some("junk before the feed")));
}

#[test]
fn broken_characters() {
    let feed = read(
        "<rss version='2.0'><channel><item><guid>a</guid><title>Q&A at AT&T & more</title><link>http://a/?x=1&y=2</link></item>
        <item><guid>b</guid><title>R&nbsp;&eacute;sum&#233;&bogus; \u{8}\u{c}x</title></item>
        <item><guid>c</guid><title>1 < 2 and 3 > 2</title></item></channel></rss>",
    );
    assert_eq!(titles(&feed)[0], "Q&A at AT&T & more");
    assert_eq!(titles(&feed)[1], "R ésumé&bogus; x");
    assert!(titles(&feed)[2].starts_with("1 < 2"), "{:?}", titles(&feed));
    assert_eq!(details(&feed.items[0]).link.as_deref(), Some("http://a/?x=1&y=2"));
    let message = feed.repaired.expect("repaired");
    assert!(message.contains("bare ampersands") && message.contains("2 undeclared entities"), "{message}");
    assert!(message.contains("2 control characters"), "{message}");
}

#[test]
fn broken_structure() {
    let feed = read(
        "<rss version='2.0'><channel><title>T</title>
        <item><guid>a</guid><description>one<br>two <p>three</description></item>
        <item><guid>b</guid><title>B</Title></item>
        <item><guid>c</guid></b><title>C
        <item><guid>d</guid></item></channel></rss>",
    );
    assert_eq!(keys(&feed), ["a", "b", "c", "d"]);
    assert_eq!(titles(&feed)[2], "C");
    let message = feed.repaired.expect("repaired");
    assert!(message.contains("unclosed element") && message.contains("stray end tag"), "{message}");

    let unclosed_comment = read(
        "<rss version='2.0'><channel><item><guid>a</guid></item><item><guid>b</guid><!-- oops </item>
        <item><guid>c</guid></item></channel></rss>",
    );
    assert_eq!(keys(&unclosed_comment), ["a", "c"]);
    assert!(unclosed_comment.repaired.expect("repaired").contains("1 unreadable part"));
}

#[test]
fn truncated_feeds_keep_complete_items() {
    let whole = read(RSS2);
    let third = RSS2.find("<title>Third").expect("there");
    let feed = read(&RSS2[..third]);
    assert_eq!(feed.items[..], whole.items[..2]);
    assert_eq!(feed.repaired.as_deref(), Some("truncated after 2 items"));
    assert!(feed.truncated);
    for cut in 0..RSS2.len() {
        match bytes_as(&RSS2.as_bytes()[..cut], None) {
            Ok(part) => assert_eq!(part.items[..], whole.items[..part.items.len()], "{cut}"),
            Err(error) => assert!(matches!(error, Unreadable::NotAFeed(_)), "{cut}: {error}"),
        }
    }
}

#[test]
fn other_documents_are_named() {
    let message = |text: &str| {
        bytes_as(text.as_bytes(), Some("application/rss+xml")).expect_err("no feed").to_string()
    };
    assert_eq!(message(""), "not a feed: the document is empty");
    assert_eq!(message(" \n"), "not a feed: the document is empty");
    assert_eq!(
        message("<!DOCTYPE html><html><head><title>Log in</title></head><body><rss></body></html>"),
        "not a feed: an HTML page titled `Log in`; is the URL right?"
    );
    assert_eq!(message("Too many\nrequests"), "not a feed: it starts with `Too many requests`");
    assert_eq!(
        message("<?xml version='1.0'?><opml><body/></opml>"),
        "not a feed: an OPML list of feeds; is the URL right?"
    );
    let empty = read("<rss version='2.0'><channel><title>Nothing yet</title></channel></rss>");
    assert!(empty.items.is_empty());
}

#[test]
fn identity_survives_edits_dates_and_order() {
    let feed = |item: &str| read(&format!("<rss version='2.0'><channel>{item}</channel></rss>"));
    let before = feed(
        "<item><link>http://a/1</link><title>Old  title</title><pubDate>Sun, 01 Nov 2026 10:00:00 GMT</pubDate></item>",
    );
    let spaced = feed(
        "<item><title>Old\ntitle </title><slash:comments>7</slash:comments><link>http://a/1</link></item>",
    );
    let edited = feed("<item><link>http://a/1</link><title>New title</title></item>");
    assert_eq!(before.items[0].key, edited.items[0].key);
    assert_eq!(before.items[0].fingerprint, spaced.items[0].fingerprint);
    assert_ne!(before.items[0].fingerprint, edited.items[0].fingerprint);
    let same_guid = feed(
        "<item><guid>x</guid><link>http://a/1</link></item><item><guid>x</guid><link>http://a/2</link></item>",
    );
    assert_eq!(keys(&same_guid), ["x http://a/1", "x http://a/2"]);
}

#[test]
fn many_items_keep_their_own_fields() {
    let numbers = 0..600;
    let item = |n: i32| format!("<item><guid>{n}</guid><title>Title {n}</title></item>");
    let items: String = numbers.clone().map(item).collect();
    let feed = read(&format!("<rss version='2.0'><channel>{items}</channel></rss>"));
    let expected: Vec<_> = numbers.map(|n| (n.to_string(), format!("Title {n}"))).collect();
    let found =
        feed.items.iter().map(|item| (item.key.clone(), details(item).title.clone().unwrap_or_default()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn attacks_end_quickly() {
    let laughs = "<!DOCTYPE lolz [<!ENTITY lol 'lol'><!ENTITY lol1 '&lol;&lol;&lol;&lol;'>]><rss version='2.0'><channel><title>&lol1;</title></channel></rss>";
    assert!(matches!(bytes_as(laughs.as_bytes(), None), Err(Unreadable::TooComplex(_))));
    let plain_entity = read(
        "<!DOCTYPE r [<!ENTITY who 'me'>]><rss version='2.0'><channel><title>&who;</title></channel></rss>",
    );
    assert_eq!(plain_entity.title.as_deref(), Some("&who;"));
    let deep = format!("<rss version='2.0'><channel>{}", "<a>".repeat(200_000));
    assert!(matches!(bytes_as(deep.as_bytes(), None), Err(Unreadable::TooComplex(_))));
    let many = format!("<rss version='2.0'><channel>{}</channel></rss>", "<a/>".repeat(500_001));
    assert!(matches!(bytes_as(many.as_bytes(), None), Err(Unreadable::TooComplex(_))));
    let attributes: String = (0..50_000).map(|n| format!(" a{n}='x' xmlns:p{n}='u'")).collect();
    let wide = read(&format!(
        "<rss version='2.0'{attributes}><channel><item{attributes}><guid>a</guid></item></channel></rss>"
    ));
    assert_eq!(keys(&wide), ["a"]);
    let json = format!("{}{}", "{\"items\":".repeat(100_000), "}".repeat(100_000));
    assert!(bytes_as(json.as_bytes(), None).is_err());
    for evil in [
        "<!DOCTYPE [>",
        "<!--",
        "<a<a",
        "<item",
        "<?",
        "<![CDATA[",
        "&a",
        "&",
        "</a>",
        "<a b='",
        "<item><!--",
        "<!x",
    ] {
        let flood = evil.repeat(100_000);
        let _ = bytes_as(flood.as_bytes(), None);
        let _ = bytes_as(format!("<rss><channel><item>{flood}").as_bytes(), None);
        let _ = bytes_as(format!("<feed><entry><content>{flood}").as_bytes(), None);
    }
}

#[test]
fn labels_and_texts_of_every_format_can_be_queried() {
    let rss = r#"<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>t</title>
        <item><guid>1</guid><title>one</title><author>ada@example.org (Ada)</author><dc:creator>Grace</dc:creator>
        <category>a &amp; b</category><category domain="x">c</category><dc:subject>d</dc:subject>
        <description>&lt;p&gt;Some &lt;b&gt;words&lt;/b&gt;&lt;/p&gt;</description></item>
        <item><guid>2</guid><title>two</title></item></channel></rss>"#;
    let atom = r#"<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title><entry><id>1</id><title>one</title>
        <author><name>Ada</name><uri>https://example.org</uri></author><author><name>Grace</name></author>
        <category term="a &amp; b" label="other"/><category term="c"/><category term="d"/>
        <content type="html">&lt;p&gt;Some &lt;b&gt;words&lt;/b&gt;&lt;/p&gt;</content></entry>
        <entry><id>2</id><title>two</title></entry></feed>"#;
    let json = r#"{"version":"https://jsonfeed.org/version/1.1","title":"t","items":[
        {"id":"1","title":"one","authors":[{"name":"Ada"},{"name":"Grace"}],"tags":["a & b","c","d"],
         "content_html":"<p>Some <b>words</b></p>"},{"id":"2","title":"two","tags":"not a list"}]}"#;
    for text in [rss, atom, json] {
        let items = read(text).items;
        assert_eq!(details(&items[0]).labels.authors, ["Ada", "Grace"], "{text}");
        assert_eq!(details(&items[0]).labels.categories, ["a & b", "c", "d"], "{text}");
        assert_eq!(details(&items[0]).text.as_deref(), Some("Some words"), "{text}");
        assert_eq!(
            (details(&items[1]).labels.authors.len(), details(&items[1]).labels.categories.len()),
            (0, 0),
            "{text}"
        );
        assert_eq!(details(&items[1]).text, None, "{text}");
    }
}
