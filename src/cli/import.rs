//! `tidewatch import`: converts an OPML file of another feed reader to `[[source]]` tables.
//!
//! Accepts OPML as readers really write it: attributes in any case, unescaped ampersands, wrong
//! encoding declarations. The output passes `tidewatch check`. Feeds that cannot be polled are left out
//! with a remark. Sends no requests.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use url::Url;

use crate::config::address;

/// Longest name made from a title, in characters; leaves room for a suffix such as `-2`.
const LONGEST_SLUG: usize = 60;
/// Longest group, in characters.
const LONGEST_GROUP: usize = 200;

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Broken XML.
    #[error("line {line} is not well-formed XML: {what}; export the file again, or mend that line")]
    Malformed {
        /// The line.
        line: usize,
        /// Message of the parser.
        what: String,
    },
    /// The root element is not `<opml>`.
    #[error("this is not OPML: it starts with <{0}> instead of <opml>")]
    NotOpml(String),
    /// The file has no element.
    #[error("this is not OPML: there is no <opml> in it")]
    Empty,
    /// The output could not be written.
    #[error("the sources can't be written")]
    Write(#[from] io::Error),
}

/// One source of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedFeed {
    /// Unique name.
    pub name: String,
    /// Address.
    pub url: Url,
    /// Names of its folders, joined by slashes.
    pub group: Option<String>,
    /// Whether it is a page and not a feed.
    pub page: bool,
}

/// Reads OPML, writes sources to `out`, and writes the reasons for omissions to `remarks`.
pub fn run(opml: &[u8], out: &mut dyn Write, remarks: &mut dyn Write) -> Result<(), ImportError> {
    let (found, omissions) = read(opml)?;
    for remark in omissions {
        writeln!(remarks, "{remark}")?;
    }
    for (index, source) in found.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(
            out,
            "[[source]]\nname = {}\nurl = {}",
            quoted(&source.name),
            quoted(source.url.as_str())
        )?;
        if source.page {
            writeln!(out, "kind = \"page\"")?;
        }
        if let Some(group) = &source.group {
            writeln!(out, "group = {}", quoted(group))?;
        }
    }
    Ok(())
}

/// Quotes a text as a one-line TOML string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Parses OPML: the sources, and remarks on omissions.
pub fn read(opml: &[u8]) -> Result<(Vec<ImportedFeed>, Vec<String>), ImportError> {
    let text = decode(opml);
    let mut reader = Reader::from_str(&text);
    let mut list = List::default();
    // For each open element, the length of the folder path before it.
    let mut open: Vec<usize> = Vec::new();
    let mut folders: Vec<String> = Vec::new();
    let mut rooted = false;
    loop {
        let event =
            reader.read_event().map_err(|error| malformed(&text, reader.error_position(), &error))?;
        let (element, empty) = match &event {
            Event::Start(element) => (element, false),
            Event::Empty(element) => (element, true),
            Event::End(_) => {
                folders.truncate(open.pop().unwrap_or(0));
                continue;
            }
            Event::Eof => break,
            _ => continue,
        };
        let name = element.local_name().into_inner().to_ascii_lowercase();
        if !rooted && name != "opml" {
            return Err(ImportError::NotOpml(tidy(&name)));
        }
        rooted = true;
        let depth = folders.len();
        if name == "outline" {
            let outline = Outline::read(element)
                .map_err(|error| malformed(&text, reader.buffer_position(), &error))?;
            match outline.address() {
                Some(_) => list.add(outline, &folders),
                None if !empty => folders.extend(outline.title().map(str::to_owned)),
                None => {}
            }
        }
        if !empty {
            open.push(depth);
        }
    }
    if !rooted {
        return Err(ImportError::Empty);
    }
    if !open.is_empty() {
        let what = "the file ends before all elements are closed".to_owned();
        return Err(ImportError::Malformed { line: text.lines().count().max(1), what });
    }
    if list.found.is_empty() {
        list.remarks.push("no feeds were found in this file".to_owned());
    }
    Ok((list.found, list.remarks))
}

fn malformed(text: &str, at: u64, error: &dyn std::error::Error) -> ImportError {
    let at = usize::try_from(at).unwrap_or(text.len()).min(text.len());
    let line = text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
    ImportError::Malformed { line, what: tidy(&error.to_string()) }
}

/// Decodes the text by byte order mark, XML declaration, or as UTF-8.
fn decode(bytes: &[u8]) -> String {
    let claimed = || {
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
        let declaration =
            head.split_once("?>")?.0.split_once("encoding")?.1.trim_start().strip_prefix('=')?;
        let declaration = declaration.trim_start();
        let quote = declaration.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let label = declaration[1..].split(quote).next()?;
        encoding_rs::Encoding::for_label(label.as_bytes())
    };
    // Valid UTF-8 is read as UTF-8, whatever the declaration says.
    let encoding = match std::str::from_utf8(bytes) {
        Ok(_) => encoding_rs::UTF_8,
        Err(_) => claimed().unwrap_or(encoding_rs::UTF_8),
    };
    encoding.decode(bytes).0.into_owned()
}

/// The used attributes of an outline.
#[derive(Debug, Default)]
struct Outline {
    text: String,
    title: String,
    kind: String,
    xml_url: String,
    url: String,
    name: String,
}

impl Outline {
    fn read(element: &BytesStart<'_>) -> Result<Self, quick_xml::Error> {
        let mut outline = Self::default();
        let mut attributes = element.attributes();
        // A duplicate attribute must not stop the whole import.
        attributes.with_checks(false);
        for attribute in attributes {
            let attribute = attribute?;
            let field = match attribute.key.into_inner().to_ascii_lowercase().as_str() {
                "text" => &mut outline.text,
                "title" => &mut outline.title,
                "type" => &mut outline.kind,
                "xmlurl" => &mut outline.xml_url,
                "url" => &mut outline.url,
                "tidewatch:name" => &mut outline.name,
                _ => continue,
            };
            if field.is_empty() {
                *field = match attribute.normalized_value(XmlVersion::Implicit1_0) {
                    Ok(value) => tidy(&value),
                    // An unescaped ampersand or an HTML entity.
                    Err(_) => tidy(&html_escape::decode_html_entities(&attribute.value)),
                };
            }
        }
        Ok(outline)
    }

    fn is_page(&self) -> bool {
        self.xml_url.is_empty() && self.kind.eq_ignore_ascii_case("link")
    }

    /// Its address, unless it is a folder or another list.
    fn address(&self) -> Option<&str> {
        let address = if self.is_page() { &self.url } else { &self.xml_url };
        let ours = !self.name.is_empty();
        let list = self.is_page() && !ours && address.to_ascii_lowercase().ends_with(".opml");
        (!address.is_empty() && !list).then_some(address.as_str())
    }

    fn title(&self) -> Option<&str> {
        [&self.text, &self.title].into_iter().find(|text| !text.is_empty()).map(String::as_str)
    }
}

/// Replaces control characters by spaces and trims white space.
fn tidy(text: &str) -> String {
    text.replace(char::is_control, " ").trim().to_owned()
}

#[derive(Default)]
struct List {
    found: Vec<ImportedFeed>,
    remarks: Vec<String>,
    urls: HashMap<Url, String>,
    names: HashSet<String>,
    /// Next suffix to try for a name.
    numbers: HashMap<String, usize>,
}

impl List {
    fn add(&mut self, outline: Outline, folders: &[String]) {
        let text = outline.address().unwrap_or_default();
        let called = outline.title().unwrap_or("an untitled feed").to_owned();
        let url = match address::read(text, false) {
            Ok(url) => url,
            Err(error) => {
                self.remarks.push(format!("left out `{called}`: {error}; {}", error.hint()));
                return;
            }
        };
        if let Some(first) = self.urls.get(&url) {
            self.remarks.push(format!("left out `{called}`: `{first}` has the same address"));
            return;
        }
        let own = !outline.name.is_empty() && outline.name.chars().count() <= LONGEST_GROUP;
        let wanted = if own {
            outline.name.clone()
        } else {
            [outline.title().unwrap_or_default(), url.host_str().unwrap_or_default()]
                .into_iter()
                .map(slug)
                .find(|slug| !slug.is_empty())
                .unwrap_or_else(|| "source".to_owned())
        };
        let name = self.unique(wanted);
        self.urls.insert(url.clone(), name.clone());
        let page = outline.is_page();
        self.found.push(ImportedFeed { name, url, group: group(folders), page });
    }

    fn unique(&mut self, wanted: String) -> String {
        if self.names.insert(wanted.clone()) {
            return wanted;
        }
        let base: String = wanted.chars().take(LONGEST_GROUP - 10).collect();
        let number = self.numbers.entry(base.clone()).or_insert(2);
        loop {
            let name = format!("{base}-{number}");
            *number += 1;
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// Joins folder names to one group label.
fn group(folders: &[String]) -> Option<String> {
    let label: String = folders.join("/").chars().take(LONGEST_GROUP).collect();
    let label = label.trim();
    (!label.is_empty()).then(|| label.to_owned())
}

/// Makes a name from a title: lower-case letters, digits and hyphens.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if slug.chars().count() >= LONGEST_SLUG {
            break;
        }
        if c.is_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') && c != '\'' && c != '’' {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::config::valid;

    fn outlines(body: &str) -> String {
        format!("<?xml version=\"1.0\"?>\n<opml version=\"1.0\"><head/><body>{body}</body></opml>")
    }

    fn found(body: &str) -> Vec<ImportedFeed> {
        read(outlines(body).as_bytes()).unwrap().0
    }

    #[test]
    fn folders_titles_and_entities_are_read() {
        let list = found(
            r#"<outline text="News"><outline title="Tech &amp; Co">
                 <outline text="It&#8217;s &quot;LWN&quot;" xmlUrl="https://lwn.net/?a=1&amp;b=2"/>
                 <outline TEXT="it's lwn" XMLURL="https://lwn.net/other"></outline>
               </outline>
               <outline text="Plain" xmlurl="https://example.org/?a=1&b=2"/></outline>
               <outline xmlUrl="https://top.example.org/feed"/>
               <outline type="link" text="Page" url="https://example.org/page"/>"#,
        );
        let fields: Vec<_> =
            list.iter().map(|f| (f.name.as_str(), f.url.as_str(), f.group.as_deref(), f.page)).collect();
        assert_eq!(
            fields,
            [
                ("its-lwn", "https://lwn.net/?a=1&b=2", Some("News/Tech & Co"), false),
                ("its-lwn-2", "https://lwn.net/other", Some("News/Tech & Co"), false),
                ("plain", "https://example.org/?a=1&b=2", Some("News"), false),
                ("top-example-org", "https://top.example.org/feed", None, false),
                ("page", "https://example.org/page", None, true),
            ]
        );
    }

    #[test]
    fn feeds_that_cannot_be_polled_are_left_out_with_a_remark() {
        let body = r#"<outline text="A" xmlUrl="https://example.org/"/>
            <outline text="A again" xmlUrl="https://EXAMPLE.org"/>
            <outline text="Router" xmlUrl="http://192.168.0.1/feed"/>
            <outline text="Old" xmlUrl="feed://example.org/x"/>
            <outline text="Paid" xmlUrl="https://me:hush@example.org/x"/>"#;
        let (list, remarks) = read(outlines(body).as_bytes()).unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!(
            remarks,
            [
                "left out `A again`: `a` has the same address",
                "left out `Router`: `192.168.0.1` is a private address; \
                 set `allow_private = true` for this source if that is meant",
                "left out `Old`: `feed` addresses can't be polled; \
                 expected a URL that starts with https:// or http://",
                "left out `Paid`: the URL holds a user name or password; \
                 take it out and put it into `headers`, as Authorization",
            ]
        );
    }

    #[test]
    fn other_encodings_are_read() {
        let latin = b"<?xml version='1.0' encoding='ISO-8859-1'?><opml><body>\
            <outline text='Caf\xe9' xmlUrl='https://example.org/'/></body></opml>";
        assert_eq!(read(latin).unwrap().0[0].name, "café");
        let utf16: Vec<u8> = std::iter::once(0xfeff)
            .chain(outlines("<outline text='ü' xmlUrl='https://example.org/'/>").encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(read(&utf16).unwrap().0[0].name, "ü");
    }

    #[test]
    fn a_file_that_is_not_opml_is_refused() {
        for (text, message) in [
            ("", "this is not OPML: there is no <opml> in it"),
            ("just words", "this is not OPML: there is no <opml> in it"),
            ("<html><body/></html>", "this is not OPML: it starts with <html> instead of <opml>"),
        ] {
            assert_eq!(read(text.as_bytes()).unwrap_err().to_string(), message);
        }
        for text in [
            "<opml>\n<body>\n</opml>",
            "<opml>\n<body>\n<outline text=",
            "<opml>\n<body>\n",
            "<opml>\n<body>\n<outline text=a/></body></opml>",
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            let ImportError::Malformed { line, .. } = error else { panic!("{text}: {error}") };
            assert!((2..=3).contains(&line), "{text}: {error}");
        }
    }

    /// Asserts that the output passes the check.
    fn assert_sound(opml: &str) {
        let mut out = Vec::new();
        if run(opml.as_bytes(), &mut out, &mut Vec::new()).is_ok() {
            let text = String::from_utf8(out).unwrap();
            if let Err(faults) = valid::parse(&[(PathBuf::from("import.toml"), text)]) {
                panic!("{faults}");
            }
        }
    }

    #[test]
    fn odd_titles_give_valid_sources() {
        for title in [
            "",
            "\"",
            "a\\b",
            "&#10;&#9;",
            "&#0;",
            "…",
            "日本 ニュース",
            "'''",
            "&#x7f;x",
            &"long ".repeat(100),
        ] {
            let outline = format!(
                "<outline text=\"{0}\" xmlUrl=\"https://example.org/\"/>",
                title.replace('"', "&quot;")
            );
            let named = outline.replace(
                "<outline",
                &format!("<outline tidewatch:name='{}'", title.replace('\'', "&apos;")),
            );
            for outline in [outline, named] {
                assert_sound(&outlines(&format!(
                    "<outline text='{}'>{outline}</outline>",
                    title.replace('\'', "’")
                )));
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_outlines_give_valid_sources(
            sources in prop::collection::vec((any::<String>(), any::<String>(), any::<String>()), 0..8),
        ) {
            let mut body = String::new();
            for (group, title, path) in &sources {
                let escape = |text: &str| quick_xml::escape::escape(text).into_owned();
                body.push_str(&format!(
                    "<outline text=\"{}\"><outline tidewatch:name=\"{1}\" text=\"{1}\" xmlUrl=\"https://example.org/{2}\"/>\
                     <outline text=\"{1}\" xmlUrl=\"https://example.com/{2}\"/></outline>",
                    escape(group), escape(title), escape(path),
                ));
            }
            assert_sound(&outlines(&body));
        }

        #[test]
        fn arbitrary_text_never_panics(text in any::<String>()) {
            assert_sound(&text);
            assert_sound(&outlines(&text));
        }
    }
}
