//! The compared text of a page.
//!
//! A page changes in many ways that are no update: scripts, adverts, clocks, white space. This module applies
//! the selected parts, the removed parts and the ignored patterns. Must not know the page's earlier text.
//!
//! The HTML goes through a streaming rewriter, whose output is discarded. The rewriter reports which pieces
//! of text are inside the selected elements. The markup between two text nodes separates them and decides
//! whether words stay together (`<b>H</b>ello`) or not (`<p>a</p><p>b</p>`).

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use lol_html::html_content::{Element, TextChunk, TextType};
use lol_html::{
    DocumentContentHandlers, ElementContentHandlers, HtmlRewriter, MemorySettings, Selector, Settings,
};
use regex::Regex;

use super::limits::ReadingLimits;
use super::{FetchedDocument, PageText, Unreadable, encoding, markup, text};

/// Maximum length of the compared text, in bytes. Text beyond it is ignored.
const MAX_TEXT: usize = 1 << 20;
/// Memory limit of the rewriter, in bytes.
const MAX_MEMORY: usize = 32 << 20;
/// Elements with invisible text. Scripts and styles are also detected by their text type.
const UNSEEN: &str = "script, style, noscript, template";

/// Which part of a page is compared.
#[derive(Debug, Clone, Default)]
pub struct PageRules {
    /// CSS selectors; empty = the whole body.
    pub select: Vec<String>,
    /// CSS selectors of elements to leave out.
    pub remove: Vec<String>,
    /// Patterns in the text that may differ without a change.
    pub ignore: Vec<Regex>,
}

impl PageRules {
    /// Distinguishes the text that these rules read at an address from that of other rules and addresses.
    #[must_use]
    pub fn read_as(&self, url: &str) -> u64 {
        let counts = format!("{} {}", self.select.len(), self.remove.len());
        let (select, remove) = (self.select.iter(), self.remove.iter());
        let ignore = self.ignore.iter().map(Regex::as_str);
        let rules = select.chain(remove).map(String::as_str).chain(ignore);
        text::fingerprint([url, &counts].into_iter().chain(rules))
    }
}

/// Whether a selector can be used in [`PageRules`]; if not, why.
///
/// # Errors
/// The reason, for the author of the selector.
pub fn check_selector(selector: &str) -> Result<(), String> {
    selector.parse::<Selector>().map(drop).map_err(|error| error.to_string())
}

/// Reads a page's text.
///
/// Without selectors the body is taken, or the whole document if it has none. A document that is not HTML
/// (plain text, JSON) is then compared as it is.
///
/// # Errors
/// [`Unreadable::NothingSelected`] if no element matches or the document is empty; [`Unreadable::TooComplex`]
/// if the markup would take excessive time or memory.
pub fn read(document: &FetchedDocument<'_>, rules: &PageRules) -> Result<PageText, Unreadable> {
    let html = encoding::html(document.bytes, document.content_type).text;
    if html.trim().is_empty() {
        return Err(Unreadable::NothingSelected("anything: the document is empty".to_owned()));
    }
    if rules.select.is_empty() && !is_markup(document.content_type, &html) {
        return Ok(finished(None, &html, rules));
    }
    markup::refuse_excess(&html)?;
    let remove = parsed(&rules.remove)?;
    if rules.select.is_empty() {
        let body = parsed(&["body".to_owned()])?;
        let extract = match extract(&html, document.limits, Some(&body), &remove)? {
            found if found.matched => found,
            _ => extract(&html, document.limits, None, &remove)?,
        };
        return Ok(finished(extract.title(), &extract.text, rules));
    }
    let select = parsed(&rules.select)?;
    let found = extract(&html, document.limits, Some(&select), &remove)?;
    if !found.matched {
        let named: Vec<String> = rules.select.iter().map(|selector| format!("`{selector}`")).collect();
        return Err(Unreadable::NothingSelected(named.join(", ")));
    }
    Ok(finished(found.title(), &found.text, rules))
}

/// Removes the patterns and folds white space, both bounded. Patterns apply to folded text. The result is
/// folded again, so that a removed word does not leave two spaces.
fn finished(title: Option<String>, text: &str, rules: &PageRules) -> PageText {
    let mut text = text::folded(text::head(text, MAX_TEXT)).into_owned();
    for pattern in &rules.ignore {
        if let Cow::Owned(cut) = pattern.replace_all(&text, " ") {
            text = cut;
        }
    }
    let text = match text::folded(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(folded) => folded,
    };
    PageText { title, fingerprint: text::fingerprint([text.as_str()]), text }
}

fn is_markup(content_type: Option<&str>, document: &str) -> bool {
    let kind = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    kind.contains("html")
        || kind.contains("xml")
        || kind.is_empty() && document.trim_start().starts_with('<')
}

fn parsed(selectors: &[String]) -> Result<Vec<Selector>, Unreadable> {
    selectors
        .iter()
        .map(|selector| {
            selector
                .parse()
                .map_err(|_| Unreadable::NothingSelected(format!("`{selector}`: not a selector")))
        })
        .collect()
}

/// The property that one handler reports for a piece of text.
#[derive(Clone, Copy)]
enum PageMark {
    Selected,
    Removed,
    Title,
}

/// A run of text without markup, with its entities undecoded.
struct TextRun {
    range: Range<usize>,
    raw: String,
    entities: bool,
    visible: bool,
    selected: bool,
    removed: bool,
    title: bool,
}

struct Extract<'h> {
    html: &'h str,
    limits: ReadingLimits<'h>,
    chunks: usize,
    run: Option<TextRun>,
    /// End of the last run taken.
    taken_to: usize,
    text: String,
    page_title: String,
    matched: bool,
}

fn extract<'h>(
    html: &'h str,
    limits: ReadingLimits<'h>,
    select: Option<&[Selector]>,
    remove: &[Selector],
) -> Result<Extract<'h>, Unreadable> {
    let state = RefCell::new(Extract {
        html,
        limits,
        chunks: 0,
        run: None,
        taken_to: 0,
        text: String::new(),
        page_title: String::new(),
        matched: false,
    });
    let unseen: Vec<Selector> = UNSEEN.parse().into_iter().collect();
    let title: Vec<Selector> = "title".parse().into_iter().collect();
    let mut settings = Settings::new()
        .with_strict(false)
        .with_memory_settings(MemorySettings::new().with_max_allowed_memory_usage(MAX_MEMORY));
    let marks = |mark: PageMark| {
        let state = &state;
        move |chunk: &mut TextChunk<'_>| Ok(state.borrow_mut().see(chunk, mark)?)
    };
    match select {
        Some(select) => {
            for selector in select {
                let state = &state;
                let handlers = ElementContentHandlers::default().text(marks(PageMark::Selected)).element(
                    move |_: &mut Element<'_, '_>| {
                        state.borrow_mut().matched = true;
                        Ok(())
                    },
                );
                settings = settings.append_element_content_handler((Cow::Borrowed(selector), handlers));
            }
        }
        None => {
            settings = settings.append_document_content_handler(
                DocumentContentHandlers::default().text(marks(PageMark::Selected)),
            );
        }
    }
    for (selectors, mark) in
        [(remove, PageMark::Removed), (&unseen, PageMark::Removed), (&title, PageMark::Title)]
    {
        for selector in selectors {
            let handlers = ElementContentHandlers::default().text(marks(mark));
            settings = settings.append_element_content_handler((Cow::Borrowed(selector), handlers));
        }
    }
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    let refused = |error: lol_html::errors::RewritingError| Unreadable::TooComplex(error.to_string());
    rewriter.write(html.as_bytes()).map_err(refused)?;
    rewriter.end().map_err(refused)?;
    let mut extract = state.into_inner();
    extract.take_run();
    Ok(extract)
}

impl Extract<'_> {
    /// Handles one chunk for one handler. Each chunk passes all matching handlers, in any order. Adjacent
    /// chunks form one run, because entities may be split between them.
    fn see(&mut self, chunk: &TextChunk<'_>, mark: PageMark) -> Result<(), Unreadable> {
        self.chunks += 1;
        if self.limits.end_at(self.chunks) {
            return Err(Unreadable::too_slow());
        }
        let range = chunk.source_location().bytes();
        if chunk.as_str().is_empty() {
            return Ok(());
        }
        let known = self.run.as_ref().is_some_and(|run| range.end <= run.range.end);
        let touches = self.run.as_ref().is_some_and(|run| range.start == run.range.end);
        if !known && !touches {
            self.take_run();
        }
        let run = self.run.get_or_insert_with(|| TextRun {
            range: range.start..range.start,
            raw: String::new(),
            entities: chunk.text_type().allows_html_entities(),
            visible: !matches!(chunk.text_type(), TextType::ScriptData | TextType::RawText),
            selected: false,
            removed: false,
            title: false,
        });
        if !known {
            run.range.end = range.end;
            run.raw.push_str(chunk.as_str());
        }
        match mark {
            PageMark::Selected => run.selected = true,
            PageMark::Removed => run.removed = true,
            // The title of an SVG drawing is ordinary text; only the page's own has this text type.
            PageMark::Title => run.title = chunk.text_type() == TextType::RCData,
        }
        Ok(())
    }

    fn take_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        let words = if run.entities {
            html_escape::decode_html_entities(&run.raw)
        } else {
            Cow::Borrowed(run.raw.as_str())
        };
        if run.title && self.page_title.is_empty() {
            self.page_title.push_str(text::head(&words, MAX_TEXT));
        }
        if !run.selected || run.removed || !run.visible || self.text.len() > MAX_TEXT {
            return;
        }
        let between = self.html.get(self.taken_to..run.range.start).unwrap_or("<p>");
        if markup::separates(between) {
            self.text.push(' ');
        }
        self.text.push_str(&words);
        self.taken_to = run.range.end;
    }

    fn title(&self) -> Option<String> {
        text::title(&self.page_title, false)
    }
}
