//! Cuts the text of a file with many sources into parts that can be parsed one after another.
//!
//! A parsed text takes many times its length, and a reload need not parse the parts that it already knows. The hash of
//! a source decides whether a part begins with it. So a change in one place moves no cut elsewhere. A text that may
//! mean something else in parts is left whole.

use std::hash::{DefaultHasher, Hasher};

/// The mean number of sources in a part.
const SOURCES: u64 = 256;

/// The parts of a text, in order. All but the first begin with `[[source]]` and hold nothing but sources.
pub(super) fn parts(text: &str) -> Vec<&str> {
    let Some(first) = lines(text).find(|(_, line)| is_source(line)).map(|(at, _)| at) else {
        return vec![text];
    };
    // In a text of several lines, a line need not mean what it says.
    let several_lines = ["\"\"\"", "'''"].iter().any(|quotes| text.contains(quotes));
    let (before, sources) = text.split_at(first);
    // A list that was begun otherwise cannot be continued.
    let begun =
        lines(before).any(|(_, line)| line.trim_start_matches(['[', ' ', '"', '\'']).starts_with("source"));
    if several_lines || begun || !lines(sources).all(|(_, line)| belongs_to_sources(line)) {
        return vec![text];
    }
    let mut parts = Vec::from_iter(Some(before).filter(|before| !before.is_empty()));
    let (mut part, mut source) = (0, 0);
    for (next, _) in lines(sources).filter(|(at, line)| *at > 0 && is_source(line)) {
        if begins_part(&sources[source..next]) && source > part {
            parts.push(&sources[part..source]);
            part = source;
        }
        source = next;
    }
    parts.push(&sources[part..]);
    parts
}

/// Each line with its place.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |next, line| {
        let at = *next;
        *next += line.len();
        Some((at, line.trim()))
    })
}

fn is_source(line: &str) -> bool {
    line.strip_prefix("[[source]]")
        .is_some_and(|rest| rest.is_empty() || rest.trim_start().starts_with('#'))
}

/// Whether a line cannot end the list of sources.
fn belongs_to_sources(line: &str) -> bool {
    !line.starts_with('[')
        || is_source(line)
        || line.starts_with("[source.")
        || line.starts_with("[[source.")
}

fn begins_part(source: &str) -> bool {
    let mut hasher = DefaultHasher::new();
    hasher.write(source.as_bytes());
    hasher.finish().is_multiple_of(SOURCES)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn sources(numbers: impl Iterator<Item = usize>) -> String {
        let source = |n| format!("[[source]]\nname = \"{n}\"\nurl = \"https://example.org/{n}\"\n");
        numbers.map(source).collect()
    }

    #[test]
    fn parts_together_are_the_text_and_each_begins_with_a_source() {
        let text = format!("[budget]\nprobes = 9\n{}", sources(0..3000));
        let parts = parts(&text);
        assert_eq!(parts.concat(), text);
        assert!((6..30).contains(&parts.len()), "{}", parts.len());
        assert_eq!(parts[0], "[budget]\nprobes = 9\n");
        assert!(parts[1..].iter().all(|part| part.starts_with("[[source]]")));
    }

    #[test]
    fn a_change_leaves_most_parts_as_they_are() {
        let (before, after) = (sources(0..3000), sources((0..40).chain(41..3000)));
        let known: HashSet<_> = parts(&before).into_iter().collect();
        let new = parts(&after).into_iter().filter(|part| !known.contains(part)).count();
        assert!(new <= 2, "{new}");
    }

    #[test]
    fn a_text_that_may_mean_something_else_in_parts_is_left_whole() {
        let many = sources(0..3000);
        for more in ["[budget]\nprobes = 9\n", "[[ source ]]\n", "ignore = '''\n[[source]]\n'''\n", "[\n"] {
            let text = format!("{many}{more}");
            assert_eq!(parts(&text), [&text]);
        }
        for before in ["source = []\n", "[ source ]\nname = 'x'\n", " [[ \"source\" ]]\n"] {
            let text = format!("{before}{many}");
            assert_eq!(parts(&text), [&text]);
        }
        for text in ["", "[budget]\nprobes = 9\n"] {
            assert_eq!(parts(text), [text]);
        }
        let nested = format!("{many}[source.budget]\nprobes = 9\n[[source.x]]\n");
        assert!(parts(&nested).len() > 1);
    }
}
