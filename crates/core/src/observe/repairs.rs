//! The faults of a document, in one short sentence.
//!
//! The sentence makes repairs visible: it can be reported to a publisher and explains an odd result. Must not
//! know how anything is repaired.

/// Counted repairs of one document.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Repairs {
    pub(super) encoding: Option<String>,
    pub(super) junk: bool,
    pub(super) no_version: bool,
    pub(super) ampersands: usize,
    pub(super) entities: usize,
    pub(super) controls: usize,
    pub(super) unclosed: usize,
    pub(super) stray: usize,
    pub(super) skipped: usize,
    pub(super) odd_values: usize,
    pub(super) truncated: bool,
    /// Items beyond the limit, which were left out.
    pub(super) left_out: usize,
}

impl Repairs {
    /// The sentence, or `None` if nothing was repaired. `items` is the number of items read.
    pub(super) fn sentence(&self, items: usize) -> Option<String> {
        let mut parts: Vec<String> = Vec::new();
        if self.truncated {
            parts.push(format!("truncated after {}", counted(items, "item")));
        }
        if self.left_out > 0 {
            parts.push(format!(
                "only the first {items} of {} items are read (`max_items`)",
                items.saturating_add(self.left_out)
            ));
        }
        parts.extend(self.encoding.clone());
        if self.junk {
            parts.push("junk before the feed".to_owned());
        }
        if self.no_version {
            parts.push("no version".to_owned());
        }
        for (count, what) in [
            (self.ampersands, "bare ampersand"),
            (self.entities, "undeclared entity"),
            (self.controls, "control character"),
            (self.unclosed, "unclosed element"),
            (self.stray, "stray end tag"),
            (self.skipped, "unreadable part"),
            (self.odd_values, "value of the wrong type"),
        ] {
            if count > 0 {
                parts.push(counted(count, what));
            }
        }
        if parts.is_empty() { None } else { Some(parts.join(", ")) }
    }
}

fn counted(count: usize, what: &str) -> String {
    match (count, what) {
        (1, _) => format!("1 {what}"),
        (_, "undeclared entity") => format!("{count} undeclared entities"),
        (_, "value of the wrong type") => format!("{count} values of the wrong type"),
        _ => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_lists_the_repairs_with_counts() {
        assert_eq!(Repairs::default().sentence(3), None);
        let cut = Repairs { truncated: true, ampersands: 2, entities: 1, ..Repairs::default() };
        assert_eq!(
            cut.sentence(12).as_deref(),
            Some("truncated after 12 items, 2 bare ampersands, 1 undeclared entity")
        );
    }
}
