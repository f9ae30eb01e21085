//! Names and words: a type name is defined once in the workspace, and comments and pages use plain words.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Files, PACKAGES, sources};

/// Names that every program uses in many places.
const CONVENTIONAL: [&str; 4] = ["Args", "Error", "Result", "Command"];

/// Words that say less than a plain one, with what to say instead.
const EXCLUDED: [(&str, &str); 15] = [
    ("whoever", "name the part"),
    ("nobody", "say that something is not done, or name the part"),
    ("somebody", "name the part"),
    ("everybody", "name the part"),
    ("so many", "a number, or `count`"),
    ("so much", "an amount"),
    ("come by", "name the act"),
    ("in vain", "without result"),
    ("heed", "obey"),
    ("foretell", "predict"),
    ("foretold", "predicted"),
    ("dossier", "inputs of a probe"),
    ("landing", "record of a probe"),
    ("courier", "dispatcher"),
    ("purse", "reserve"),
];

/// Texts that keep such a word, each with the reason.
const KEPT: [(&str, &str); 0] = [];

fn all_sources() -> Files {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Files::new();
    for (_, folder) in PACKAGES {
        sources(root, folder, &mut files);
    }
    files
}

/// The type that a line defines at the top of a file.
fn defined(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(super) ")).unwrap_or(line);
    let rest = rest.strip_prefix("pub(crate) ").unwrap_or(rest);
    let name = ["struct ", "enum ", "trait ", "type "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    name.split(|letter: char| !letter.is_alphanumeric()).next()
}

#[test]
fn a_type_name_is_defined_once() {
    let mut files_by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in all_sources() {
        for name in text.lines().filter_map(defined).filter(|name| !CONVENTIONAL.contains(name)) {
            files_by_name.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(files_by_name.len() > 500, "only {} types", files_by_name.len());
    let several: Vec<String> = files_by_name
        .iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| format!("{name}: {}", files.join(", ")))
        .collect();
    assert!(
        several.is_empty(),
        "{} names are defined several times:\n{}",
        several.len(),
        several.join("\n")
    );
}

#[test]
fn comments_and_pages_use_plain_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = all_sources();
    let pages = fs::read_dir(root.join("docs")).expect("a folder");
    let pages =
        pages.map(|entry| format!("docs/{}", entry.expect("an entry").file_name().to_string_lossy()));
    let others = ["README.md", "CONTRIBUTING.md", "config/tidewatch.toml", "config/minimal.toml"];
    for page in pages.chain(others.map(str::to_owned)).filter(|page| page.contains('.')) {
        let text = fs::read_to_string(root.join(&page)).expect("UTF-8 text");
        texts.insert(page, text);
    }
    let mut left = Vec::new();
    for (file, text) in texts {
        for (number, line) in (1..).zip(text.lines()) {
            let lower = format!(" {} ", line.to_lowercase());
            let kept = KEPT.iter().any(|(text, _)| line.contains(text));
            let found = EXCLUDED.iter().filter(|(word, _)| {
                lower.match_indices(word).any(|(at, _)| {
                    let letter = |at: usize| lower.as_bytes()[at].is_ascii_alphabetic();
                    !letter(at - 1) && !letter(at + word.len())
                })
            });
            left.extend(
                found
                    .filter(|_| !kept)
                    .map(|(word, instead)| format!("{file}:{number}: {word} ({instead}): {}", line.trim())),
            );
        }
    }
    assert!(left.is_empty(), "{} places:\n{}", left.len(), left.join("\n"));
}
