//! Faults of a configuration and their places.
//!
//! A user sees every fault of every file at once, each with its line and the place underlined. This
//! module knows files, byte ranges and text layout in a terminal. It must not know the meaning of any
//! setting.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use unicode_width::UnicodeWidthStr;

/// Widest part of a line to show; longer lines are cut around the fault.
const WIDEST: usize = 160;
/// Replaces a tab, so that the caret fits whatever tab stops the terminal has.
const TAB: &str = "    ";

/// A byte range in one of the files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// Index of the file.
    pub file: usize,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub at: Spot,
    /// The problem.
    pub message: String,
    /// What was expected, or what to do.
    pub hint: Option<String>,
}

/// All faults of all files, with the texts to show them in.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    files: Vec<FaultyFile>,
    list: Vec<Fault>,
    secrets: Vec<Spot>,
    unreadable: BTreeSet<(usize, usize)>,
}

#[derive(Debug, Clone)]
struct FaultyFile {
    path: PathBuf,
    text: String,
    /// Byte offset of each line.
    starts: Vec<usize>,
}

impl Faults {
    /// An empty list for these files.
    pub fn new(files: &[(PathBuf, String)]) -> Self {
        let file = |(path, text): &(PathBuf, String)| FaultyFile {
            path: path.clone(),
            text: text.clone(),
            starts: line_starts(text),
        };
        Self { files: files.iter().map(file).collect(), ..Self::default() }
    }

    /// The place of a piece of the quoted text at `at`; `piece` counts bytes of the unquoted text.
    /// Returns `at` if the piece cannot be located.
    pub fn within(&self, at: Spot, piece: std::ops::Range<usize>) -> Spot {
        let written = self.files.get(at.file).and_then(|file| file.text.get(at.start..at.end));
        let place = written.and_then(|written| {
            let (from, to) = (unescaped(written, piece.start)?, unescaped(written, piece.end)?);
            Some(Spot { file: at.file, start: at.start + from, end: at.start + to.max(from) })
        });
        place.unwrap_or(at)
    }

    /// Adds a fault.
    pub fn add(&mut self, at: Spot, message: impl Into<String>) {
        self.push(at, message.into(), None);
    }

    /// Adds a fault with a hint: the expected value or a fix.
    pub fn add_with_hint(&mut self, at: Spot, message: impl Into<String>, hint: impl Into<String>) {
        self.push(at, message.into(), Some(hint.into()));
    }

    /// Adds an unreadable line, once per line. Later faults on that line are ignored as consequences.
    pub fn add_unreadable(&mut self, at: Spot, message: impl Into<String>, hint: Option<String>) {
        let line = (at.file, self.line(at));
        if !self.unreadable.contains(&line) {
            self.push(at, message.into(), hint);
            self.unreadable.insert(line);
        }
    }

    fn push(&mut self, at: Spot, message: String, hint: Option<String>) {
        if !self.unreadable.is_empty() && self.unreadable.contains(&(at.file, self.line(at))) {
            return;
        }
        self.list.push(Fault { at, message: one_line(message), hint: hint.map(one_line) });
    }

    /// Masks this place in all output, because faults may reach a log that others read.
    pub fn hide(&mut self, at: Spot) {
        self.secrets.push(at);
    }

    /// All faults; in file order after [`Faults::sort`].
    pub fn list(&self) -> &[Fault] {
        &self.list
    }

    /// Number of faults.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no faults.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Sorts the faults by file and position.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|fault| fault.at);
        self.secrets.sort_unstable();
    }

    /// The 1-based line in which a place starts.
    pub fn line(&self, at: Spot) -> usize {
        self.files.get(at.file).map_or(1, |file| line_of(&file.starts, at.start))
    }

    /// The place as `file:line:col`; line and column (in characters) count from 1.
    pub fn place(&self, at: Spot) -> String {
        let line = self.line(at);
        let (text, range) = self.line_text(at.file, line);
        let within = floor(text, at.start.saturating_sub(range.start));
        let before = text[..within].chars().filter(|&c| c != '\u{feff}').count();
        format!("{}:{line}:{}", self.path(at.file).display(), before + 1)
    }

    fn path(&self, file: usize) -> &Path {
        self.files.get(file).map_or(Path::new("?"), |file| &file.path)
    }

    /// The text of a line without its line end, and its byte range in the file.
    fn line_text(&self, file: usize, line: usize) -> (&str, Range<usize>) {
        let Some(FaultyFile { text, starts, .. }) = self.files.get(file) else { return ("", 0..0) };
        let start = starts.get(line - 1).copied().unwrap_or(text.len());
        let end = starts.get(line).copied().unwrap_or(text.len());
        let whole = &text[start..end];
        let shown = whole.strip_suffix('\n').unwrap_or(whole);
        let shown = shown.strip_suffix('\r').unwrap_or(shown);
        (shown, start..start + shown.len())
    }

    /// One fault as shown to the user: place and message, the line, the caret.
    pub fn render(&self, fault: &Fault) -> String {
        let line = self.line(fault.at);
        let (text, range) = self.line_text(fault.at.file, line);
        let from = floor(text, fault.at.start.saturating_sub(range.start));
        let to = floor(text, fault.at.end.saturating_sub(range.start)).max(from);
        let cut = cut_around(text, from);
        let to = to.min(cut.end);
        let hidden = self.secrets_in(fault.at.file, &range);
        let shown = |part: Range<usize>| show(text, part, &hidden);
        let (before, marked, after) = (shown(cut.start..from), shown(from..to), shown(to..cut.end));
        let lead = if cut.start > 0 { "…" } else { "" };
        let trail = if cut.end < text.len() { "…" } else { "" };
        let gutter = format!("{line:>5}");
        let mut out = format!("{}: {}\n", self.place(fault.at), fault.message);
        let line_shown = format!("{lead}{before}{marked}{after}{trail}");
        let _ = writeln!(out, "{}", format!("{gutter} | {line_shown}").trim_end());
        let pad = " ".repeat(lead.width() + before.width());
        let caret = "^".repeat(marked.width().max(1));
        let _ = write!(out, "{:width$} | {pad}{caret}", "", width = gutter.len());
        if let Some(hint) = &fault.hint {
            let _ = write!(out, " {hint}");
        }
        out
    }

    fn secrets_in(&self, file: usize, line: &Range<usize>) -> Vec<Range<usize>> {
        let from = self.secrets.partition_point(|spot| (spot.file, spot.end) <= (file, line.start));
        self.secrets[from..]
            .iter()
            .take_while(|spot| spot.file == file && spot.start < line.end)
            .map(|spot| spot.start.saturating_sub(line.start)..spot.end.saturating_sub(line.start))
            .collect()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.render(fault))?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

fn line_of(starts: &[usize], at: usize) -> usize {
    starts.partition_point(|&start| start <= at).max(1)
}

/// Replaces control characters. A message may quote user text, but must stay on one line and not
/// control the terminal.
fn one_line(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The last character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}

/// The part of a long line to show around the fault.
fn cut_around(text: &str, from: usize) -> Range<usize> {
    if text.len() <= WIDEST {
        return 0..text.len();
    }
    let start = if from < WIDEST / 2 { 0 } else { floor(text, from - WIDEST / 4) };
    let end = text.ceil_char_boundary((start + WIDEST).min(text.len()));
    start..end
}

/// Part of a line, safe to print and of known width; hidden ranges become stars.
fn show(text: &str, part: Range<usize>, hidden: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(part.len());
    for (at, c) in text[part.clone()].char_indices() {
        let at = at + part.start;
        match c {
            _ if hidden.iter().any(|range| range.contains(&at)) => out.push('*'),
            '\t' => out.push_str(TAB),
            '\u{feff}' => {}
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Byte offset, in a TOML string as written with quotation marks, at which `bytes` bytes of its value
/// end.
fn unescaped(written: &str, bytes: usize) -> Option<usize> {
    let (mark, escapes) = match written {
        _ if written.starts_with("\"\"\"") || written.starts_with("'''") => return None,
        _ if written.starts_with('\'') => (1, false),
        _ if written.starts_with('"') => (1, true),
        _ => return None,
    };
    let mut read = 0;
    let mut signs = written.get(mark..)?.char_indices();
    while let Some((at, sign)) = signs.next() {
        if read >= bytes {
            return Some(mark + at);
        }
        if sign != '\\' || !escapes {
            read += sign.len_utf8();
            continue;
        }
        read += match signs.next()?.1 {
            short @ ('u' | 'U' | 'x') => {
                let digits = match short {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let code: String = signs.by_ref().take(digits).map(|(_, digit)| digit).collect();
                char::from_u32(u32::from_str_radix(&code, 16).ok()?)?.len_utf8()
            }
            _ => 1,
        };
    }
    Some(written.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str, start: usize, end: usize, hint: Option<&str>) -> String {
        let mut faults = Faults::new(&[(PathBuf::from("t.toml"), text.to_owned())]);
        let fault =
            Fault { at: Spot { file: 0, start, end }, message: "bad".into(), hint: hint.map(Into::into) };
        faults.list.push(fault);
        faults.to_string()
    }

    #[test]
    fn line_column_and_caret() {
        assert_eq!(
            one("a = 1\nprobes = 0\n", 15, 16, Some("expected more")),
            "t.toml:2:10: bad\n    2 | probes = 0\n      |          ^ expected more"
        );
    }

    #[test]
    fn tabs_and_wide_characters_keep_the_caret_in_place() {
        let text = "\tname = \"日本\" # x";
        let at = text.find('#').unwrap();
        let shown = one(text, at, at + 1, None);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "t.toml:1:14: bad");
        let hash = lines[1].split('#').next().unwrap().width();
        let caret = lines[2].split('^').next().unwrap().width();
        assert_eq!(hash, caret);
    }

    #[test]
    fn an_empty_place_at_the_end_still_has_a_caret() {
        assert_eq!(one("a =\r\n", 3, 3, None), "t.toml:1:4: bad\n    1 | a =\n      |    ^");
        assert_eq!(one("", 0, 0, None), "t.toml:1:1: bad\n    1 |\n      | ^");
        assert_eq!(one("a\n", 2, 2, None), "t.toml:2:1: bad\n    2 |\n      | ^");
    }

    #[test]
    fn a_span_over_lines_is_underlined_to_the_end_of_the_first() {
        assert_eq!(one("a = [\n1,\n]", 4, 10, None), "t.toml:1:5: bad\n    1 | a = [\n      |     ^");
    }

    #[test]
    fn long_lines_are_cut_around_the_fault() {
        let text = format!("a = \"{}\" # {}", "x".repeat(5000), "y".repeat(5000));
        let shown = one(&text, 5007, 5008, None);
        assert!(shown.lines().all(|line| line.width() < 200), "{shown}");
        assert!(shown.starts_with("t.toml:1:5008:"));
        let lines: Vec<&str> = shown.lines().collect();
        let caret = lines[2].split('^').next().unwrap().chars().count();
        assert_eq!(lines[1].chars().nth(caret), Some('#'));
    }

    #[test]
    fn secrets_and_control_characters_are_not_shown() {
        let text = "h = \"token\u{1b}\" x";
        let mut faults = Faults::new(&[(PathBuf::from("t.toml"), text.to_owned())]);
        faults.hide(Spot { file: 0, start: 4, end: 10 });
        faults.add(Spot { file: 0, start: 13, end: 14 }, "bad");
        faults.sort();
        let shown = faults.to_string();
        assert!(shown.contains("h = ******\u{fffd}\" x"), "{shown}");
        assert!(!shown.contains("token"));
    }
}
