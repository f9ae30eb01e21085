//! Reads malformed XML feeds.
//!
//! The feed library requires well-formed documents of a few versions and fails a whole feed for one bare
//! ampersand. Fields that are not needed (authors, durations, a million attributes) can stall it or make it
//! panic. So it never gets an original document. This reader scans the text once, keeps the needed fields,
//! repairs faults and writes a small clean feed. Must not know dates, identity, or what was seen before.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use url::Url;

use super::Unreadable;
use super::attributes::{Attributes, Prefixes};
use super::clean::{Clean, CleanWriter};
use super::dialect::{FeedField, Flavour, Role, Space};
use super::hints::Hints;
use super::repairs::Repairs;

/// Deeper than any feed, and small enough for a linear search of the open elements.
const MAX_DEPTH: usize = 128;
/// Maximum number of elements. No real feed has more.
const MAX_ELEMENTS: usize = 500_000;
/// Maximum number of restarts after broken markup. Each may cost one more pass.
const MAX_RESTARTS: usize = 16;

/// HTML elements that never close. In a field with raw markup they must not accumulate.
const VOID: [&str; 9] = ["br", "img", "hr", "input", "meta", "link", "wbr", "source", "col"];

/// Reads XML that starts with a feed's root element. `url` is the document's address.
pub(super) fn clean(text: &str, url: Option<&Url>, mut repairs: Repairs) -> Result<Clean, Unreadable> {
    let without_controls;
    let mut text = text;
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{80}'..='\u{9f}');
    if text.contains(is_control) {
        repairs.controls += text.chars().filter(|c| is_control(*c)).count();
        without_controls = text.replace(is_control, "");
        text = &without_controls;
    }
    let mut wash = Salvage { url, repairs, ..Salvage::default() };
    wash.run(text)?;
    Ok(wash.finish())
}

/// An open element.
#[derive(Debug)]
struct OpenElement {
    name: String,
    role: Role,
    /// The namespace of names without prefix inside it.
    default: Space,
    base: Option<Url>,
}

#[derive(Debug, Default)]
struct Salvage<'u> {
    url: Option<&'u Url>,
    flavour: Flavour,
    stack: Vec<OpenElement>,
    prefixes: Prefixes,
    elements: usize,
    /// For the open field: its text, whether that contains markup, its attributes.
    capture: String,
    markup: bool,
    attributes: Attributes,
    writer: CleanWriter,
    hints: Hints,
    repairs: Repairs,
}

impl Salvage<'_> {
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
                    // Continues at the next item that can be found.
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
            // `a < b` in text is not a tag. The reader consumed up to the next `>`.
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
        // An unknown default namespace counts as the feed's own.
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
        self.stack.push(OpenElement { name: name.to_owned(), role, default, base });
    }

    /// True if a tag starts the next item. An `item` cannot be inside an item, so the one before was not
    /// closed. An Atom entry may contain a foreign `entry` in its content.
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
            // `</link>` of an inline `<link/>` must not close the item's own link.
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

    /// Drops the open item. A partial item would count as edited once the whole one arrives.
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

    fn field(&mut self, field: FeedField, base: Option<&Url>) {
        let text = std::mem::take(&mut self.capture);
        let attributes = std::mem::take(&mut self.attributes);
        let text = match (text.trim(), attributes.src) {
            ("", Some(src)) if field == FeedField::Content => src,
            _ => text,
        };
        match field {
            FeedField::Ttl => self.hints.ttl(&text),
            FeedField::Hour => self.hints.skip_hour(&text),
            FeedField::Day => self.hints.skip_day(&text),
            FeedField::Period => self.hints.update_period(&text),
            FeedField::Frequency => self.hints.update_frequency(&text),
            FeedField::Link => {
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
            FeedField::Id => {
                let denied =
                    attributes.permalink.is_some_and(|value| value.trim().eq_ignore_ascii_case("false"));
                self.writer.id(&text, self.flavour == Flavour::Rss && !denied);
            }
            FeedField::Author => {
                if let Some(labels) = self.writer.labels() {
                    labels.author(&text);
                }
            }
            FeedField::Category => {
                if let Some(labels) = self.writer.labels() {
                    labels.category(attributes.term.as_deref().unwrap_or(&text));
                }
            }
            FeedField::FeedTitle
            | FeedField::Title
            | FeedField::Summary
            | FeedField::Content
            | FeedField::Published
            | FeedField::Updated => {
                let html = self.markup || attributes.media.is_some_and(|media| media.contains("html"));
                self.writer.text(field, &text, html);
            }
        }
    }

    fn link(&mut self, rank: u8, written: &str, base: Option<&Url>) {
        // The innermost `xml:base`. Without one, the caller resolves against the document's URL.
        let base = base.or_else(|| self.stack.iter().rev().find_map(|open| open.base.as_ref()));
        let resolved = base.and_then(|base| base.join(written).ok()).map(String::from);
        self.writer.link(rank, written, resolved);
    }

    fn text(&mut self, text: &str) {
        if matches!(self.stack.last(), Some(OpenElement { role: Role::Field(_) | Role::Inner, .. })) {
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
                // Either an HTML entity without a declaration, or `AT&T; …`, which is no reference.
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
