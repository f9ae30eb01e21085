//! What an item is labelled with: who wrote it, and what it is filed under.
//!
//! Exists because people ask for items by these, and because the feed library, which could be stalled by
//! them, does not get to see them. Knows how names are written in RSS, Atom and JSON Feed. Bounded: a
//! hostile item costs no more than a large one. Must not know who asks.

use super::text;

/// Of each kind, an item has so many at most.
const MOST: usize = 64;

/// Who wrote an item, and what it is filed under. None is there twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Names as written, without addresses of mail.
    pub authors: Vec<String>,
    /// As written.
    pub categories: Vec<String>,
}

impl Labels {
    /// An author: a name, `someone@example.org (A Name)`, or Atom's `<name>` within other markup.
    pub(super) fn author(&mut self, written: &str) {
        let named = written.split_once("<name>").and_then(|(_, rest)| rest.split_once("</name>"));
        let name = match (named, written.split_once('(')) {
            (Some((name, _)), _) => name,
            (None, Some((mail, name))) if mail.contains('@') => name.trim_end().trim_end_matches(')'),
            (None, _) => written,
        };
        note(&mut self.authors, name);
    }

    /// Something that it is filed under.
    pub(super) fn category(&mut self, written: &str) {
        note(&mut self.categories, written);
    }
}

fn note(list: &mut Vec<String>, written: &str) {
    if list.len() < MOST
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
    fn names_are_taken_out_of_what_surrounds_them() {
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
    fn there_is_an_end_to_them() {
        let mut labels = Labels::default();
        (0..1000).for_each(|n| labels.category(&format!("{n} {}", "x".repeat(10_000))));
        assert_eq!(labels.categories.len(), MOST);
        assert!(labels.categories.iter().all(|label| label.chars().count() <= 500));
    }
}
