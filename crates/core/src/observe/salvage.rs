//! Reads malformed XML feeds.
//!
//! The feed library requires well-formed documents of a few versions and fails a whole feed for one bare
//! ampersand. Fields that are not needed (authors, durations, a million attributes) can stall it or make it
//! panic. So it never gets an original document. This reader scans the text once, takes the needed fields
//! and repairs faults. Must not know dates, identity, or what was seen before.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};
use url::Url;

use super::Unreadable;
use super::attributes::{Attributes, Prefixes};
use super::capture::Capture;
use super::dialect::{FeedField, Flavour, Role, Space};
use super::draft::Draft;
use super::hints::Hints;
use super::limits::{MAX_ADDRESS, MAX_ELEMENTS, ReadingLimits};
use super::repairs::Repairs;
use super::written::{Written, WrittenFeed, WrittenItem, WrittenTitle};

/// Deeper than any feed, and small enough for a linear search of the open elements.
const MAX_DEPTH: usize = 128;
/// Maximum number of restarts after broken markup. Each may cost one more pass.
const MAX_RESTARTS: usize = 16;

/// HTML elements that never close. In a field with raw markup they must not accumulate.
const VOID: [&str; 9] = ["br", "img", "hr", "input", "meta", "link", "wbr", "source", "col"];

/// The text without control characters, which no XML may contain. They are counted.
pub(super) fn without_controls<'t>(text: &'t str, repairs: &mut Repairs) -> Cow<'t, str> {
    // Those from U+0080 to U+009F are allowed.
    let is_control =
        |byte: u8| ((byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r')) | (byte == 0x7f);
    // Without an early end, the compiler tests many bytes at once.
    if !text.bytes().fold(false, |found, byte| found | is_control(byte)) {
        return Cow::Borrowed(text);
    }
    repairs.controls += text.bytes().filter(|byte| is_control(*byte)).count();
    Cow::Owned(text.replace(|c| u8::try_from(c).is_ok_and(is_control), ""))
}

/// Reads XML that starts with a feed's root element. `url` is the document's address.
pub(super) fn read<'t>(
    text: &'t str,
    url: Option<&Url>,
    limits: ReadingLimits<'_>,
    repairs: Repairs,
) -> Result<WrittenFeed<'t>, Unreadable> {
    let mut salvage = Salvage::new(url, limits, repairs);
    salvage.run(text)?;
    Ok(salvage.finish())
}

/// An open element.
#[derive(Debug)]
struct OpenElement<'t> {
    name: &'t str,
    role: Role,
    /// The namespace of names without prefix inside it.
    default: Space,
}

#[derive(Debug)]
struct Salvage<'t, 'u> {
    url: Option<&'u Url>,
    limits: ReadingLimits<'u>,
    flavour: Flavour,
    stack: Vec<OpenElement<'t>>,
    /// The `xml:base` of open elements, each with its depth: 1 for the root.
    bases: Vec<(usize, Url)>,
    prefixes: Prefixes<'t>,
    elements: usize,
    /// For the open field: its text, whether that contains markup, its attributes.
    capture: Capture<'t>,
    markup: bool,
    attributes: Option<Attributes<'t>>,
    title: Option<WrittenTitle<'t>>,
    items: Vec<WrittenItem<'t>>,
    draft: Option<Draft<'t>>,
    hints: Hints,
    repairs: Repairs,
}

impl<'t, 'u> Salvage<'t, 'u> {
    fn new(url: Option<&'u Url>, limits: ReadingLimits<'u>, repairs: Repairs) -> Self {
        Self {
            url,
            limits,
            flavour: Flavour::default(),
            stack: Vec::new(),
            bases: Vec::new(),
            prefixes: Prefixes::default(),
            elements: 0,
            capture: Capture::default(),
            markup: false,
            attributes: None,
            title: None,
            items: Vec::new(),
            draft: None,
            hints: Hints::default(),
            repairs,
        }
    }

    fn run(&mut self, text: &'t str) -> Result<(), Unreadable> {
        let mut reader = lenient(text);
        let mut offset = 0;
        let mut restarts = 0;
        let mut events = 0;
        loop {
            // References and comments take time too, so elements are not enough.
            events += 1;
            if self.limits.end_at(events) {
                return Err(Unreadable::too_slow());
            }
            let position = offset + usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX / 2);
            match reader.read_event() {
                Ok(Event::Start(start)) => {
                    // The same text, but borrowed from the document. It follows the bracket.
                    let tag = text.get(position + 1..position + 1 + start.len()).unwrap_or_default();
                    self.open(tag, start.name().0.len())?;
                }
                Ok(Event::End(end)) => self.close(end.name().0)?,
                Ok(Event::Text(chars)) => {
                    self.repairs.ampersands += usize::from(chars.starts_with('&'));
                    self.text(chars.into_inner());
                }
                Ok(Event::CData(chars)) => self.text(chars.into_inner()),
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
        self.draft = None;
        Ok(())
    }

    /// Opens an element. `tag` is the text between the brackets, of which the first `length` bytes are the
    /// name.
    fn open(&mut self, tag: &'t str, length: usize) -> Result<(), Unreadable> {
        let name = &tag[..length];
        if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            // `a < b` in text is not a tag. The reader consumed up to the next `>`.
            if self.in_field() {
                for part in ["<", tag, ">"] {
                    self.capture.push_copy(part);
                }
            }
            return Ok(());
        }
        self.count_element()?;
        if self.stack.len() >= MAX_DEPTH {
            return Err(Unreadable::TooComplex(format!("elements nested deeper than {MAX_DEPTH}")));
        }
        let (prefix, local) = split_name(name);
        if self.in_field() && !self.is_next_item(local) {
            self.markup = true;
            for part in ["<", tag, ">"] {
                self.capture.push_copy(part);
            }
            if !is_void(local) {
                self.push(name, Role::Inner, Space::Other);
            }
            return Ok(());
        }
        let attributes = (tag.len() > length).then(|| Attributes::of(tag, length, &mut self.prefixes));
        let xmlns = attributes.as_ref().and_then(|attributes| attributes.xmlns.as_deref());
        if self.stack.is_empty() {
            self.open_root(name, attributes.unwrap_or_default());
            return Ok(());
        }
        if self.draft.is_some() && self.is_next_item(local) {
            self.close_unclosed_item();
        }
        let (parent, inherited) =
            self.stack.last().map_or((Role::Ignored, Space::Core), |open| (open.role, open.default));
        let default = xmlns.map_or(inherited, Space::of_uri);
        let space = match prefix {
            Some(prefix) => self.prefixes.space(prefix),
            None => default,
        };
        let role = self.flavour.role(parent, space, &lower_case(local));
        self.push(name, role, default);
        let Some(mut attributes) = attributes else {
            self.begin(role, None);
            return Ok(());
        };
        self.add_base(attributes.base.as_deref());
        self.begin(role, attributes.about.take());
        self.attributes = Some(attributes);
        Ok(())
    }

    fn count_element(&mut self) -> Result<(), Unreadable> {
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            return Err(Unreadable::TooComplex(format!("more than {MAX_ELEMENTS} elements")));
        }
        Ok(())
    }

    /// Begins an item or a field. `about` is RSS 1.0's id for the item.
    fn begin(&mut self, role: Role, about: Option<Written<'t>>) {
        match role {
            Role::Item => self.draft = Some(Draft::new(about)),
            Role::Field(_) => {
                self.capture.clear();
                self.markup = false;
                self.attributes = None;
            }
            _ => {}
        }
    }

    fn open_root(&mut self, name: &'t str, attributes: Attributes<'t>) {
        let (_, local) = split_name(name);
        let local = lower_case(local);
        self.flavour = if matches!(&*local, "feed" | "entry") { Flavour::Atom } else { Flavour::Rss };
        self.repairs.no_version = *local == *"rss" && !attributes.version;
        // An unknown default namespace counts as the feed's own.
        let default = match attributes.xmlns.as_deref().map_or(Space::Core, Space::of_uri) {
            Space::Atom if self.flavour == Flavour::Rss => Space::Atom,
            _ => Space::Core,
        };
        let role = match &*local {
            "rss" | "rdf" => Role::Root,
            "entry" => Role::Item,
            _ => Role::Channel,
        };
        self.push(name, role, default);
        self.add_base(attributes.base.as_deref());
        self.begin(role, attributes.about);
    }

    fn push(&mut self, name: &'t str, role: Role, default: Space) {
        self.stack.push(OpenElement { name, role, default });
    }

    /// True inside a field.
    fn in_field(&self) -> bool {
        matches!(self.stack.last(), Some(OpenElement { role: Role::Field(_) | Role::Inner, .. }))
    }

    /// True if a tag starts the next item. An `item` cannot be inside an item, so the one before was not
    /// closed. An Atom entry may contain a foreign `entry` in its content.
    fn is_next_item(&self, local: &str) -> bool {
        self.flavour == Flavour::Rss && self.draft.is_some() && local.eq_ignore_ascii_case("item")
    }

    fn close(&mut self, name: &str) -> Result<(), Unreadable> {
        let name = name.trim();
        let Some(at) = self.stack.iter().rposition(|open| open.name.eq_ignore_ascii_case(name)) else {
            self.repairs.stray += usize::from(!is_void(split_name(name).1));
            return self.count_element();
        };
        if at + 1 < self.stack.len() && self.in_field() && is_void(split_name(name).1) {
            // `</link>` of an inline `<link/>` must not close the item's own link.
            return Ok(());
        }
        self.repairs.unclosed += self.stack.len() - at - 1;
        while self.stack.len() > at {
            self.close_top();
        }
        Ok(())
    }

    fn close_top(&mut self) {
        let Some(open) = self.stack.pop() else { return };
        match open.role {
            Role::Inner => {
                for part in ["</", open.name, ">"] {
                    self.capture.push_copy(part);
                }
            }
            Role::Field(field) => self.field(field),
            Role::Item if self.items.len() < self.limits.items => {
                self.items.extend(self.draft.take().map(Draft::finish));
            }
            Role::Item => self.repairs.left_out += usize::from(self.draft.take().is_some()),
            _ => {}
        }
        self.drop_bases();
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
        self.draft = None;
        if let Some(at) = self.stack.iter().position(|open| open.role == Role::Item) {
            self.stack.truncate(at);
        } else if let Some(at) =
            self.stack.iter().rposition(|open| matches!(open.role, Role::Channel | Role::Root))
        {
            self.stack.truncate(at + 1);
        }
        self.drop_bases();
    }

    /// Takes the field that was closed.
    fn field(&mut self, field: FeedField) {
        let text = self.capture.take();
        let attributes = self.attributes.take().unwrap_or_default();
        let text = match attributes.src {
            Some(src) if field == FeedField::Content && text.trim().is_empty() => src,
            _ => text,
        };
        let html = self.markup || attributes.media.as_deref().is_some_and(|media| media.contains("html"));
        // In RSS, titles are always markup.
        let markup = self.flavour == Flavour::Rss || html;
        match field {
            FeedField::FeedTitle => {
                if self.title.is_none() && !text.trim().is_empty() {
                    self.title = Some(WrittenTitle { text, markup });
                }
                return;
            }
            FeedField::Ttl => return self.hints.ttl(&text),
            FeedField::Hour => return self.hints.skip_hour(&text),
            FeedField::Day => return self.hints.skip_day(&text),
            FeedField::Period => return self.hints.update_period(&text),
            FeedField::Frequency => return self.hints.update_frequency(&text),
            _ => {}
        }
        let Some(draft) = self.draft.as_mut() else { return };
        match field {
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
                // The innermost `xml:base`. Without one, the document's address is used later.
                let base = self.bases.last().map(|(_, base)| base);
                draft.link(rank, written, |link| base?.join(link).ok().map(String::from));
            }
            FeedField::Id => {
                let denied =
                    attributes.permalink.is_some_and(|value| value.trim().eq_ignore_ascii_case("false"));
                draft.id(text, self.flavour == Flavour::Rss && !denied);
            }
            FeedField::Author => draft.author(text),
            FeedField::Category => draft.category(attributes.term.unwrap_or(text)),
            FeedField::Title => draft.title(WrittenTitle { text, markup }),
            _ => draft.text(field, text),
        }
    }

    fn text(&mut self, text: Written<'t>) {
        if self.in_field() {
            match text {
                Cow::Borrowed(text) => self.capture.push(text),
                Cow::Owned(text) => self.capture.push_copy(&text),
            }
        }
    }

    fn reference(&mut self, reference: &BytesRef<'_>) {
        let name: &str = reference;
        let mut buffer = [0; 4];
        let written;
        let decoded;
        let text = match reference.resolve_char_ref() {
            Ok(Some(c)) if c.is_control() && !matches!(c, '\t' | '\n' | '\r') => {
                self.repairs.controls += 1;
                return;
            }
            Ok(Some(c)) => c.encode_utf8(&mut buffer),
            Ok(None) if resolve_predefined_entity(name).is_some() => {
                resolve_predefined_entity(name).unwrap_or_default()
            }
            _ => {
                // Either an HTML entity without a declaration, or `AT&T; …`, which is no reference.
                written = format!("&{name};");
                decoded = html_escape::decode_html_entities(&written);
                if *decoded == *written {
                    self.repairs.ampersands += 1;
                } else {
                    self.repairs.entities += 1;
                }
                &decoded
            }
        };
        if self.in_field() {
            self.capture.push_copy(text);
        }
    }

    /// Notes the `xml:base` of the element just opened.
    fn add_base(&mut self, written: Option<&str>) {
        let Some(written) = written else { return };
        let outer = self.bases.last().map(|(_, base)| base).or(self.url);
        // It would be copied into each link.
        let written = Some(written.trim()).filter(|written| written.len() <= MAX_ADDRESS);
        let base = written.and_then(|written| Url::options().base_url(outer).parse(written).ok());
        if let Some(base) = base.filter(|base| base.as_str().len() <= MAX_ADDRESS) {
            self.bases.push((self.stack.len(), base));
        }
    }

    /// Forgets the `xml:base` of elements that were closed.
    fn drop_bases(&mut self) {
        while self.bases.last().is_some_and(|(depth, _)| *depth > self.stack.len()) {
            self.bases.pop();
        }
    }

    fn finish(self) -> WrittenFeed<'t> {
        WrittenFeed {
            title: self.title,
            items: self.items,
            hints: self.hints.finish(),
            repairs: self.repairs,
            edited_when_published: self.flavour == Flavour::Rss,
        }
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

/// A name's prefix, if any, and its last part.
fn split_name(name: &str) -> (Option<&str>, &str) {
    // Names are short: a loop over their bytes is faster than a search.
    let Some(colon) = name.bytes().position(|byte| byte == b':') else { return (None, name) };
    let last = name.bytes().rposition(|byte| byte == b':').unwrap_or(colon);
    (Some(&name[..colon]), &name[last + 1..])
}

fn lower_case(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

fn is_void(local: &str) -> bool {
    VOID.iter().any(|void| void.eq_ignore_ascii_case(local))
}
