//! One line of the log: its text, and its fields for the journal.
//!
//! The text alone says which source and why. Values come from strangers, so control characters are removed and
//! lengths are bounded.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};

use tidewatch_core::time::Timestamp;

/// Longest text and longest value of a field, in characters.
const LONGEST_TEXT: usize = 2_000;
const LONGEST_VALUE: usize = 500;

/// Fields that begin the text: what it is about.
const SUBJECTS: [&str; 3] = ["source", "host", "to"];

/// A line to be written.
#[derive(Debug)]
pub(super) struct LogLine {
    pub(super) at: Timestamp,
    pub(super) level: Level,
    pub(super) target: String,
    /// The file and line of the program.
    pub(super) place: Option<(&'static str, u32)>,
    pub(super) text: String,
    pub(super) fields: Vec<(&'static str, String)>,
}

/// Reads the fields of an event.
#[derive(Debug, Default)]
pub(super) struct LineFields {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for LineFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = plain(value, LONGEST_TEXT),
            // Of the bridge from the `log` crate.
            name if name.starts_with("log.") => {}
            name => self.fields.push((name, plain(value, LONGEST_VALUE))),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl LogLine {
    pub(super) fn new(at: Timestamp, metadata: &Metadata<'static>, fields: LineFields) -> Self {
        let place = metadata.file().zip(metadata.line());
        let target = metadata.target().to_owned();
        Self { at, level: *metadata.level(), target, place, text: text(&fields), fields: fields.fields }
    }

    /// A line of the log about itself.
    pub(super) fn of_log(at: Timestamp, text: String) -> Self {
        let target = module_path!().to_owned();
        Self { at, level: Level::WARN, target, place: None, text, fields: Vec::new() }
    }
}

/// The message, with the fields that it does not mention: subjects before it, the error and others after it.
fn text(LineFields { message, fields }: &LineFields) -> String {
    let mut text = String::new();
    let is_name = |value: &str| !value.is_empty() && value.parse::<f64>().is_err();
    for subject in SUBJECTS {
        let value = fields.iter().find(|(name, _)| *name == subject);
        if let Some((_, value)) = value.filter(|(_, value)| is_name(value) && !mentions(message, value)) {
            let _ = write!(text, "{value}: ");
        }
    }
    text.push_str(message);
    if let Some((_, error)) = fields.iter().find(|(name, _)| *name == "error")
        && !text.contains(error.as_str())
    {
        let _ = write!(text, ": {error}");
    }
    let written = text.len();
    for (name, value) in fields {
        if !mentions(&text[..written], value) {
            let _ = write!(text, " {name}={value}");
        }
    }
    plain(&text, LONGEST_TEXT)
}

/// Whether the text contains the value as a word of its own.
fn mentions(text: &str, value: &str) -> bool {
    let part_of_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(value).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + value.len()..]);
        !part_of_word(before.chars().next_back()) && !part_of_word(after.chars().next())
    })
}

/// The text as one line of bounded length, without characters that a terminal or a reader obeys.
fn plain(text: &str, longest: usize) -> String {
    let directs =
        |c: &char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let mut plain: String = text
        .chars()
        .filter(|c| !directs(c))
        .map(|c| if breaks(c) { ' ' } else { c })
        .take(longest + 1)
        .collect();
    if let Some((end, _)) = plain.char_indices().nth(longest) {
        plain.truncate(end);
        plain.push('…');
    }
    plain.truncate(plain.trim_end().len());
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str, fields: &[(&'static str, &str)]) -> String {
        let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        text(&LineFields { message: message.to_owned(), fields })
    }

    #[test]
    fn the_text_says_which_source_and_why() {
        let failed = line("probe failed", &[("source", "lwn"), ("error", "HTTP 500"), ("failures", "4")]);
        assert_eq!(failed, "lwn: probe failed: HTTP 500 failures=4");
        let complete =
            line("lwn: HTTP 500, 4 times", &[("source", "lwn"), ("error", "HTTP 500"), ("failures", "4")]);
        assert_eq!(complete, "lwn: HTTP 500, 4 times");
        assert_eq!(line("14 times", &[("failures", "4")]), "14 times failures=4", "a part of a number");
        assert_eq!(line("broken", &[("source", "7")]), "broken source=7");
        assert_eq!(line("not taken", &[("to", "exec:a")]), "exec:a: not taken");
    }

    #[test]
    fn values_are_one_line_that_no_terminal_obeys() {
        assert_eq!(plain("a\r\n\u{1b}[31mb\u{9b}2J\u{7f}\u{202e}c\0", 100), "a   [31mb 2J c");
        assert_eq!(plain(&"ü".repeat(10), 4), "üüüü…");
        assert_eq!(plain("abcd", 4), "abcd");
    }
}
