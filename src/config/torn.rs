//! Which tables of a file a syntax error may have robbed of a key.
//!
//! Exists so that one slip is reported once: a `url` that could not be read is not missing as well.
//! Knows places only; must not know keys or tables.

use std::collections::HashSet;

use super::fault::Spot;

/// Where a file has syntax errors: what seems to be missing there may only be unreadable.
#[derive(Debug, Default)]
pub struct Torn {
    errors: Vec<usize>,
    headers: HashSet<usize>,
}

impl Torn {
    /// From the places of the errors, in order.
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

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// A table with this header, or all of it here, has one.
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
    fn only_the_table_around_an_error_is_touched() {
        let text = "[a]\nx = 1\n  [[b]]\ny = \n[c]\nw = [{ z }]\n";
        let starts = ["[a]", "[[b]]", "[c]"].map(|header| text.find(header).unwrap());
        let torn = Torn::new(text, vec![text.find("y =").unwrap() + 4]);
        let touched = starts.map(|start| torn.touches(Spot { file: 0, start, end: start + 3 }));
        assert_eq!(touched, [false, true, false]);
        let inline = text.find('{').unwrap();
        let torn = Torn::new(text, vec![inline + 3]);
        assert!(torn.touches(Spot { file: 0, start: inline, end: inline + 5 }));
    }

    #[test]
    fn an_error_at_the_very_end_belongs_to_the_last_table() {
        let text = "[a]\n[b]\nx = \"";
        let torn = Torn::new(text, vec![text.len()]);
        assert!(torn.touches(Spot { file: 0, start: 4, end: 7 }));
        assert!(!torn.touches(Spot { file: 0, start: 0, end: 3 }));
    }
}
