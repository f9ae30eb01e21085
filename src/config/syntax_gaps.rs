//! Tables that a syntax error may have deprived of a key.
//!
//! One mistake is reported once: a `url` that cannot be parsed is not also reported as missing. This
//! module knows places only; it must not know keys or tables.

use std::collections::HashSet;

use super::fault::Spot;

/// Syntax errors of a file. A key that seems missing near one may only be unreadable.
#[derive(Debug, Default)]
pub struct SyntaxGaps {
    errors: Vec<usize>,
    headers: HashSet<usize>,
}

impl SyntaxGaps {
    /// From the byte offsets of the errors, in ascending order.
    pub fn new(text: &str, errors: Vec<usize>) -> Self {
        let mut headers = HashSet::new();
        let mut last = None;
        let mut at = 0;
        let mut left = errors.iter().copied().peekable();
        for line in text.split_inclusive('\n') {
            let blank = line.len() - line.trim_start().len();
            if line[blank..].starts_with('[') {
                last = Some(at + blank);
            }
            at += line.len();
            while left.next_if(|&error| error < at || at == text.len()).is_some() {
                headers.extend(last);
            }
        }
        Self { errors, headers }
    }

    /// Whether the file has no syntax errors.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Whether the table with its header, or an inline table, at this place contains a syntax error.
    pub fn touches(&self, table: Spot) -> bool {
        let next = self.errors.partition_point(|&error| error < table.start);
        self.headers.contains(&table.start)
            || self.errors.get(next).is_some_and(|&error| error <= table.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_table_around_an_error_is_affected() {
        let text = "[a]\nx = 1\n  [[b]]\ny = \n[c]\nw = [{ z }]\n";
        let starts = ["[a]", "[[b]]", "[c]"].map(|header| text.find(header).unwrap());
        let gaps = SyntaxGaps::new(text, vec![text.find("y =").unwrap() + 4]);
        let touched = starts.map(|start| gaps.touches(Spot { file: 0, start, end: start + 3 }));
        assert_eq!(touched, [false, true, false]);
        let inline = text.find('{').unwrap();
        let gaps = SyntaxGaps::new(text, vec![inline + 3]);
        assert!(gaps.touches(Spot { file: 0, start: inline, end: inline + 5 }));
    }

    #[test]
    fn an_error_at_the_very_end_belongs_to_the_last_table() {
        let text = "[a]\n[b]\nx = \"";
        let gaps = SyntaxGaps::new(text, vec![text.len()]);
        assert!(gaps.touches(Spot { file: 0, start: 4, end: 7 }));
        assert!(!gaps.touches(Spot { file: 0, start: 0, end: 3 }));
    }
}
