//! Pages: the compared part of a document.

use proptest::prelude::*;
use regex::Regex;
use tidewatch_core::observe::limits::ReadingLimits;
use tidewatch_core::observe::page::{PageRules, check_selector, read};
use tidewatch_core::observe::{FetchedDocument, PageText, Unreadable};

fn rules(select: &[&str], remove: &[&str]) -> PageRules {
    let owned = |list: &[&str]| list.iter().map(|&selector| selector.to_owned()).collect();
    PageRules { select: owned(select), remove: owned(remove), ignore: Vec::new() }
}

fn page(bytes: &[u8], content_type: Option<&str>, rules: &PageRules) -> Result<PageText, Unreadable> {
    read(
        &FetchedDocument { bytes, content_type, url: "https://example.org/", limits: ReadingLimits::USUAL },
        rules,
    )
}

fn text(html: &str, select: &[&str], remove: &[&str]) -> String {
    page(html.as_bytes(), Some("text/html"), &rules(select, remove)).expect("readable").text
}

const PAGE: &str = "<!doctype html><html><head><title>Tide &amp; time</title><style>p{}</style></head><body>
    <nav>Menu</nav><main><p>One</p><p>T<b>w</b>o&nbsp;&lt;3<br>three</p><script>x()</script><noscript>no</noscript>
    <template><p>hidden</p></template><!-- gone --><div class=ad>Buy <span>now</span></div>after</main>
    <svg><title>icon</title></svg></body></html>";

#[test]
fn invisible_parts_of_the_body_are_left_out() {
    let read = page(PAGE.as_bytes(), None, &PageRules::default()).expect("readable");
    assert_eq!(read.title.as_deref(), Some("Tide & time"));
    assert_eq!(read.text, "Menu One Two <3 three Buy now after icon");
}

#[test]
fn titles_without_head_and_titles_of_drawings() {
    let title = |html: &str| page(html.as_bytes(), None, &PageRules::default()).expect("readable").title;
    assert_eq!(title("<title>A\n B</title><p>x").as_deref(), Some("A B"));
    assert_eq!(title("<body><svg><title>icon</title></svg>x"), None);
    assert_eq!(title("<title>A</title><title>B</title><p>x").as_deref(), Some("A"));
}

#[test]
fn selected_removed_and_nested() {
    assert_eq!(text(PAGE, &["main"], &[".ad"]), "One Two <3 three after");
    assert_eq!(text(PAGE, &["main", "p", "p b"], &[".ad"]), "One Two <3 three after");
    assert_eq!(text(PAGE, &[".ad span", "nav"], &[]), "Menu now");
    assert_eq!(text(PAGE, &[".ad span"], &["main"]), "");
    assert_eq!(text("<div>a<div>b<div>c</div>d</div>e</div>", &["div"], &[]), "a b c d e");
    assert_eq!(text("<p>a</p>between<p>b</p>", &["p"], &[]), "a b");
    assert_eq!(text("no body <i>at</i> all", &[], &[]), "no body at all");
    let split = format!("<body>{}", "&amp;&eacute;".repeat(20_000));
    assert_eq!(text(&split, &[], &[]), "&é".repeat(20_000), "entities across the rewriter's buffers");
    assert_eq!(text("<body>x&am<!-- -->p;y</body>", &[], &[]), "x&amp;y");
}

#[test]
fn nothing_selected_names_the_selectors() {
    let error = page(PAGE.as_bytes(), None, &rules(&["#news", ".x"], &[])).expect_err("nothing");
    assert_eq!(error.to_string(), "nothing on the page matches `#news`, `.x`");
    assert!(matches!(page(b" ", None, &PageRules::default()), Err(Unreadable::NothingSelected(_))));
    assert!(matches!(page(b"<p>", None, &rules(&["p:has(b)"], &[])), Err(Unreadable::NothingSelected(_))));
    assert!(check_selector("main > p.x").is_ok());
    assert!(check_selector("a + b").is_err());
}

#[test]
fn ignored_patterns_do_not_change_the_fingerprint() {
    let clock =
        PageRules { ignore: vec![Regex::new(r"\d\d:\d\d").expect("valid")], ..PageRules::default() };
    let at = |time: &str| {
        page(format!("<p>It is {time} now</p>").as_bytes(), Some("text/html"), &clock).expect("readable")
    };
    assert_eq!(at("10:15"), at("22:47"));
    assert_eq!(at("10:15").text, "It is now");
    assert_ne!(at("10:15").fingerprint, at("noon").fingerprint);
    let spaced = page(b"<p>It\n is\t10:15   now</p>", Some("text/html"), &clock).expect("readable");
    assert_eq!(spaced.fingerprint, at("10:15").fingerprint);
}

#[test]
fn other_encodings_and_other_documents() {
    let all = PageRules::default();
    let latin = page(b"<body>caf\xe9", Some("text/html; charset=iso-8859-1"), &all).expect("readable");
    assert_eq!(latin.text, "café");
    assert_eq!(page(b"<meta charset=koi8-r><body>\xd0", None, &all).expect("readable").text, "п");
    assert_eq!(page("\u{feff}<body>é".as_bytes(), None, &all).expect("readable").text, "é");
    let json = page(b"{\"a\": \"<b>\"}", Some("application/json"), &all).expect("readable");
    assert_eq!(json.text, "{\"a\": \"<b>\"}");
    let plain = page(b"a < b &amp; c", Some("text/plain"), &all).expect("readable");
    assert_eq!((plain.text.as_str(), plain.title), ("a < b &amp; c", None));
}

#[test]
fn huge_and_deep_pages_are_bounded() {
    let long = format!("<body><p>{}", "wörd ".repeat(1_000_000));
    assert!(text(&long, &[], &[]).len() <= 1 << 20);
    let deep = |levels: usize| format!("<body>{}x{}", "<div>".repeat(levels), "</div>".repeat(levels));
    assert_eq!(text(&deep(10_000), &["div"], &["p div"]), "x");
    let refused = page(deep(100_000).as_bytes(), None, &rules(&["div div"], &["div p"]));
    assert!(matches!(refused, Err(Unreadable::TooComplex(_))));
    for evil in
        ["<a<a", "<!--", "<script>", "</p>", "<p a='", "&amp", "<svg><title>", "<b>x</i>", "<!doctype x>"]
    {
        let flood = evil.repeat(100_000);
        let _ = page(flood.as_bytes(), Some("text/html"), &rules(&["p", "b"], &["i b"]));
        let _ = page(flood.as_bytes(), Some("text/html"), &PageRules::default());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = page(&bytes, None, &PageRules::default());
        let _ = page(&bytes, Some("text/html"), &rules(&["p"], &["b"]));
    }

    #[test]
    fn any_tag_soup_is_read_the_same_twice(soup in "(<[/!]?[a-d!-]{0,3}[ =\"'>]?|[&;#x0-9a-f ]|<p>|</p>|<script>|<title>|é){0,60}") {
        let once = page(soup.as_bytes(), Some("text/html"), &rules(&["p"], &["b"]));
        prop_assert_eq!(&once, &page(soup.as_bytes(), Some("text/html"), &rules(&["p"], &["b"])));
        let _ = page(soup.as_bytes(), Some("text/html"), &PageRules::default());
    }

    #[test]
    fn text_is_kept_word_for_word(words in proptest::collection::vec("[a-zé&<>]{1,8}", 1..20)) {
        let html: String = words.iter().map(|word| format!("<p>{}</p>", html_escape::encode_text(word))).collect();
        prop_assert_eq!(text(&html, &["p"], &[]), words.join(" "));
    }
}
