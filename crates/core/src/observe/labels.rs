//! The labels of an item: its authors and categories.
//!
//! Conditions can test them. The feed library does not get them, because crafted values could stall it. This
//! module parses names as RSS, Atom and JSON Feed write them. Count and length are bounded, so a hostile item
//! costs no more than a large one. Must not know the conditions.

use super::limits::MAX_LABELS;
use super::text;

/// An item's authors and categories, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Names as written, without mail addresses.
    pub authors: Vec<String>,
    /// Categories as written.
    pub categories: Vec<String>,
}

impl Labels {
    /// Adds an author: a name, `someone@example.org (A Name)`, or Atom's `<name>` within other markup.
    pub(super) fn author(&mut self, written: &str) {
        let named = written.split_once("<name>").and_then(|(_, rest)| rest.split_once("</name>"));
        let name = match (named, written.split_once('(')) {
            (Some((name, _)), _) => name,
            (None, Some((mail, name))) if mail.contains('@') => name.trim_end().trim_end_matches(')'),
            (None, _) => written,
        };
        note(&mut self.authors, name);
    }

    /// Adds a category.
    pub(super) fn category(&mut self, written: &str) {
        note(&mut self.categories, written);
    }
}

fn note(list: &mut Vec<String>, written: &str) {
    if list.len() < MAX_LABELS
        && let Some(label) = text::title(written, true)
        && !list.contains(&label)
    {
        list.push(label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_extracted_from_addresses_and_markup() {
        let mut labels = Labels::default();
        for written in [
            "ada@example.org (Ada Lovelace)",
            "<name>Grace Hopper</name><email>grace@example.org</email>",
            " Ada  Lovelace ",
            "Team (Research)",
            "",
        ] {
            labels.author(written);
        }
        assert_eq!(labels.authors, ["Ada Lovelace", "Grace Hopper", "Team (Research)"]);
    }

    #[test]
    fn number_and_length_of_labels_are_bounded() {
        let mut labels = Labels::default();
        (0..1000).for_each(|n| labels.category(&format!("{n} {}", "x".repeat(10_000))));
        assert_eq!(labels.categories.len(), MAX_LABELS);
        assert!(labels.categories.iter().all(|label| label.chars().count() <= 500));
    }
}
