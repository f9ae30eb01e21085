//! Tables with aligned columns.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// Colour of a cell, if colours are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// No colour.
    #[default]
    Plain,
    /// Less visible.
    Faint,
    /// Good value.
    Good,
    /// Value that needs attention.
    Warn,
    /// Bad value.
    Bad,
    /// Heading.
    Head,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Faint => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Warn => "\x1b[33m",
            Self::Bad => "\x1b[31m",
            Self::Head => "\x1b[1m",
        }
    }
}

/// One cell.
#[derive(Debug, Clone, Default)]
pub struct TableCell {
    text: String,
    tone: Tone,
}

/// A cell with that text.
pub fn cell(text: impl Into<String>) -> TableCell {
    TableCell { text: text.into(), tone: Tone::Plain }
}

impl TableCell {
    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its colour.
    pub fn colour(&self) -> Tone {
        self.tone
    }

    /// Sets the colour.
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

/// Prints rows in aligned columns, two spaces apart.
pub fn print(out: &mut dyn Write, head: &[&str], rows: &[Vec<TableCell>], colours: bool) -> io::Result<()> {
    let head: Vec<TableCell> = head.iter().map(|text| cell(*text).tone(Tone::Head)).collect();
    let all = || std::iter::once(&head).filter(|head| !head.is_empty()).chain(rows);
    let columns = all().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|i| all().filter_map(|row| row.get(i)).map(|c| c.text.width()).max().unwrap_or(0))
        .collect();
    for row in all() {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let last = i + 1 == row.len();
            let padding = if last { 0 } else { width - cell.text.width() + 2 };
            match (colours, cell.tone.code()) {
                (true, code) if !code.is_empty() => line.push_str(&format!("{code}{}\x1b[0m", cell.text)),
                _ => line.push_str(&cell.text),
            }
            line.extend(std::iter::repeat_n(' ', padding));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_whatever_the_script() {
        let rows = vec![
            vec![cell("a"), cell("1").tone(Tone::Bad)],
            vec![cell("日本"), cell("2")],
            vec![cell("long name"), cell("3")],
        ];
        let mut out = Vec::new();
        print(&mut out, &["name", "n"], &rows, false).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "name       n\na          1\n日本       2\nlong name  3\n");
    }
}
