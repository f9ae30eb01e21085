//! XML as found in the wild, made readable.
//!
//! Exists because the feed library wants well-formed documents of a few versions, fails a whole
//! feed for one bare ampersand, and can be stalled or made to panic through fields that we do not
//! need (authors, durations, a million attributes). So it never sees a foreign document: this
//! reader goes through the text once, keeps the fields that matter, repairs what it can, and
//! writes a small clean feed. Knows XML's failures and which element of which dialect means what.
//! Must not know dates, identity, or what was seen before.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use url::Url;

use super::Unreadable;
use super::attributes::{Attributes, Prefixes};
use super::clean::{Clean, Writer};
use super::dialect::{Field, Flavour, Role, Space};
use super::hints::Hints;
use super::repairs::Repairs;

/// Deeper than any feed, shallow enough for every search through the open elements.
const MAX_DEPTH: usize = 128;
/// A feed of this many elements is none.
const MAX_ELEMENTS: usize = 500_000;
/// How often reading may start again behind broken markup. Each time may cost one more pass.
const MAX_RESTARTS: usize = 16;

/// Elements of HTML that never close; in a field with raw markup they must not pile up.
const VOID: [&str; 9] = ["br", "img", "hr", "input", "meta", "link", "wbr", "source", "col"];

/// Reads the XML that starts with a feed's root element. `url` is where the document came from.
pub(super) fn clean(text: &str, url: Option<&Url>, mut repairs: Repairs) -> Result<Clean, Unreadable> {
    let without_controls;
    let mut text = text;
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{80}'..='\u{9f}');
    if text.contains(is_control) {
        repairs.controls += text.chars().filter(|c| is_control(*c)).count();
        without_controls = text.replace(is_control, "");
        text = &without_controls;
    }
    let mut wash = Wash { url, repairs, ..Wash::default() };
    wash.run(text)?;
    Ok(wash.finish())
}

/// An element that is open.
#[derive(Debug)]
struct Open {
    name: String,
    role: Role,
    /// What names without prefix mean inside.
    default: Space,
    base: Option<Url>,
}

#[derive(Debug, Default)]
struct Wash<'u> {
    url: Option<&'u Url>,
    flavour: Flavour,
    stack: Vec<Open>,
    prefixes: Prefixes,
    elements: usize,
    /// Of the field that is open: its text, whether that holds markup, its attributes.
    capture: String,
    markup: bool,
    attributes: Attributes,
    writer: Writer,
    hints: Hints,
    repairs: Repairs,
}

impl Wash<'_> {
    fn run(&mut self, text: &str) -> Result<(), Unreadable> {
        let mut reader = lenient(text);
        let mut offset = 0;
        let mut restarts = 0;
        loop {
            match reader.read_event() {
                Ok(Event::Start(start)) => self.open(&start)?,
                Ok(Event::End(end)) => self.close(end.name().0),
                Ok(Event::Text(chars)) => {
                    self.repairs.ampersands += usize::from(chars.starts_with('&'));
                    self.text(&chars);
                }
                Ok(Event::CData(chars)) => self.text(&chars),
                Ok(Event::GeneralRef(reference)) => self.reference(&reference),
                Ok(Event::Eof) => break,
                Ok(_) => {}
                Err(_) => {
                    // The next item that can be found is a new chance.
                    let broken =
                        offset + usize::try_from(reader.error_position()).unwrap_or(usize::MAX / 2);
                    let rest = text.get(broken.max(offset + 1)..).unwrap_or_default();
                    let next = rest.find(self.flavour.item_tag()).filter(|_| restarts < MAX_RESTARTS);
                    let Some(next) = next else { break };
                    restarts += 1;
                    self.repairs.skipped += 1;
                    self.abandon_item();
                    offset = text.len() - rest.len() + next;
                    reader = lenient(&text[offset..]);
                }
            }
            if self.stack.is_empty() && self.elements > 0 {
                return Ok(());
            }
        }
        self.repairs.truncated = true;
        self.writer.abandon_item();
        Ok(())
    }

    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), Unreadable> {
        let name = start.name();
        let name = name.0;
        if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            // `a < b` in text, not a tag. The reader swallowed up to the next `>`.
            self.text("<");
            self.text(start);
            self.text(">");
            return Ok(());
        }
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            return Err(Unreadable::TooComplex(format!("more than {MAX_ELEMENTS} elements")));
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(Unreadable::TooComplex(format!("elements nested deeper than {MAX_DEPTH}")));
        }
        let inside = self.stack.last().map(|open| open.role);
        let local = local_name(name);
        if matches!(inside, Some(Role::Field(_) | Role::Inner)) && !self.is_next_item(local) {
            self.markup = true;
            self.capture.push('<');
            self.capture.push_str(start);
            self.capture.push('>');
            if !is_void(local) {
                self.push(name, Role::Inner, Space::Other, None);
            }
            return Ok(());
        }
        let attributes = Attributes::of(start, &mut self.prefixes);
        if self.stack.is_empty() {
            self.open_root(name, local, &attributes);
            return Ok(());
        }
        if self.writer.in_item() && self.is_next_item(local) {
            self.close_unclosed_item();
        }
        let (parent, inherited) =
            self.stack.last().map_or((Role::Ignored, Space::Core), |open| (open.role, open.default));
        let default = attributes.xmlns.as_deref().map_or(inherited, Space::of_uri);
        let space = match name.split_once(':') {
            Some((prefix, _)) => self.prefixes.space(prefix),
            None => default,
        };
        let role = self.flavour.role(parent, space, &local.to_ascii_lowercase());
        match role {
            Role::Item => self.writer.open_item(attributes.about.clone()),
            Role::Field(_) => {
                self.capture.clear();
                self.markup = false;
            }
            _ => {}
        }
        let base = self.resolved_base(attributes.base.as_deref());
        self.push(name, role, default, base);
        self.attributes = attributes;
        Ok(())
    }

    fn open_root(&mut self, name: &str, local: &str, attributes: &Attributes) {
        let local = local.to_ascii_lowercase();
        self.flavour =
            if matches!(local.as_str(), "feed" | "entry") { Flavour::Atom } else { Flavour::Rss };
        self.repairs.no_version = local == "rss" && !attributes.version;
        self.writer.start(self.flavour);
        // A default namespace that we have never heard of is still this feed's own.
        let default = match attributes.xmlns.as_deref().map_or(Space::Core, Space::of_uri) {
            Space::Atom if self.flavour == Flavour::Rss => Space::Atom,
            _ => Space::Core,
        };
        let role = match local.as_str() {
            "rss" | "rdf" => Role::Root,
            "entry" => Role::Item,
            _ => Role::Channel,
        };
        if role == Role::Item {
            self.writer.open_item(attributes.about.clone());
        }
        let base = self.resolved_base(attributes.base.as_deref());
        self.push(name, role, default, base);
    }

    fn push(&mut self, name: &str, role: Role, default: Space, base: Option<Url>) {
        self.stack.push(Open { name: name.to_owned(), role, default, base });
    }

    /// An `item` cannot stand inside an item: the one before was not closed. An Atom entry may
    /// well hold a foreign `entry` in its content.
    fn is_next_item(&self, local: &str) -> bool {
        self.flavour == Flavour::Rss && self.writer.in_item() && local.eq_ignore_ascii_case("item")
    }

    fn close(&mut self, name: &str) {
        let name = name.trim();
        let Some(at) = self.stack.iter().rposition(|open| open.name.eq_ignore_ascii_case(name)) else {
            self.repairs.stray += usize::from(!is_void(local_name(name)));
            return;
        };
        let inside = self.stack.last().map(|open| open.role);
        if is_void(local_name(name))
            && matches!(inside, Some(Role::Inner | Role::Field(_)))
            && at + 1 < self.stack.len()
        {
            // `</link>` of an inline `<link/>` must not close the item's own.
            return;
        }
        self.repairs.unclosed += self.stack.len() - at - 1;
        while self.stack.len() > at {
            self.close_top();
        }
    }

    fn close_top(&mut self) {
        let Some(open) = self.stack.pop() else { return };
        match open.role {
            Role::Inner => {
                self.capture.push_str("</");
                self.capture.push_str(&open.name);
                self.capture.push('>');
            }
            Role::Field(field) => self.field(field, open.base.as_ref()),
            Role::Item => self.writer.close_item(),
            _ => {}
        }
    }

    fn close_unclosed_item(&mut self) {
        if let Some(at) = self.stack.iter().rposition(|open| open.role == Role::Item) {
            self.repairs.unclosed += self.stack.len() - at;
            while self.stack.len() > at {
                self.close_top();
            }
        }
    }

    /// Half an item would look edited when the whole one comes: better none.
    fn abandon_item(&mut self) {
        self.writer.abandon_item();
        if let Some(at) = self.stack.iter().position(|open| open.role == Role::Item) {
            self.stack.truncate(at);
        } else if let Some(at) =
            self.stack.iter().rposition(|open| matches!(open.role, Role::Channel | Role::Root))
        {
            self.stack.truncate(at + 1);
        }
    }

    fn field(&mut self, field: Field, base: Option<&Url>) {
        let text = std::mem::take(&mut self.capture);
        let attributes = std::mem::take(&mut self.attributes);
        let text = match (text.trim(), attributes.src) {
            ("", Some(src)) if field == Field::Content => src,
            _ => text,
        };
        match field {
            Field::Ttl => self.hints.ttl(&text),
            Field::Hour => self.hints.skip_hour(&text),
            Field::Day => self.hints.skip_day(&text),
            Field::Period => self.hints.update_period(&text),
            Field::Frequency => self.hints.update_frequency(&text),
            Field::Link => {
                let (rank, written) =
                    match (attributes.href, attributes.rel.as_deref().unwrap_or("alternate")) {
                        (None, _) => (0, text),
                        (Some(href), "alternate") => {
                            let html = attributes.media.is_none_or(|media| media.contains("html"));
                            (if html { 1 } else { 2 }, href)
                        }
                        (Some(href), "related" | "via") => (3, href),
                        (Some(_), _) => return,
                    };
                self.link(rank, written.trim(), base);
            }
            Field::Id => {
                let denied =
                    attributes.permalink.is_some_and(|value| value.trim().eq_ignore_ascii_case("false"));
                self.writer.id(&text, self.flavour == Flavour::Rss && !denied);
            }
            Field::Author => {
                if let Some(labels) = self.writer.labels() {
                    labels.author(&text);
                }
            }
            Field::Category => {
                if let Some(labels) = self.writer.labels() {
                    labels.category(attributes.term.as_deref().unwrap_or(&text));
                }
            }
            Field::FeedTitle
            | Field::Title
            | Field::Summary
            | Field::Content
            | Field::Published
            | Field::Updated => {
                let html = self.markup || attributes.media.is_some_and(|media| media.contains("html"));
                self.writer.text(field, &text, html);
            }
        }
    }

    fn link(&mut self, rank: u8, written: &str, base: Option<&Url>) {
        // The innermost `xml:base`; without any the caller resolves against the document's URL.
        let base = base.or_else(|| self.stack.iter().rev().find_map(|open| open.base.as_ref()));
        let resolved = base.and_then(|base| base.join(written).ok()).map(String::from);
        self.writer.link(rank, written, resolved);
    }

    fn text(&mut self, text: &str) {
        if matches!(self.stack.last(), Some(Open { role: Role::Field(_) | Role::Inner, .. })) {
            self.capture.push_str(text);
        }
    }

    fn reference(&mut self, reference: &BytesRef<'_>) {
        let name: &str = reference;
        match reference.resolve_char_ref() {
            Ok(Some(c)) if c.is_control() && !matches!(c, '\t' | '\n' | '\r') => self.repairs.controls += 1,
            Ok(Some(c)) => self.text(c.encode_utf8(&mut [0; 4])),
            Ok(None) if resolve_predefined_entity(name).is_some() => {
                self.text(resolve_predefined_entity(name).unwrap_or_default());
            }
            _ => {
                // Either HTML's entity without a declaration, or `AT&T; …`, no reference at all.
                let written = format!("&{name};");
                let decoded = html_escape::decode_html_entities(&written);
                if *decoded == *written {
                    self.repairs.ampersands += 1;
                } else {
                    self.repairs.entities += 1;
                }
                self.text(&decoded);
            }
        }
    }

    fn resolved_base(&self, written: Option<&str>) -> Option<Url> {
        let written = written?.trim();
        let outer = self.stack.iter().rev().find_map(|open| open.base.as_ref()).or(self.url);
        Url::options().base_url(outer).parse(written).ok()
    }

    fn finish(self) -> Clean {
        let (document, labels) = self.writer.finish();
        Clean { document, labels, hints: self.hints.finish(), repairs: self.repairs }
    }
}

fn lenient(text: &str) -> Reader<&[u8]> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    config.expand_empty_elements = true;
    reader
}

fn local_name(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

fn is_void(local: &str) -> bool {
    VOID.iter().any(|void| void.eq_ignore_ascii_case(local))
}
