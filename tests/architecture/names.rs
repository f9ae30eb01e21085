//! Names and words: a type name is defined once in the workspace, and comments and pages use plain words.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Files, PACKAGES, sources};

/// Names that every program uses in many places.
const CONVENTIONAL: [&str; 4] = ["Args", "Error", "Result", "Command"];

/// Words that say less than a plain one, with what to say instead.
const EXCLUDED: [(&str, &str); 56] = [
    ("whoever", "name the part"),
    ("nobody", "say that something is not done, or name the part"),
    ("somebody", "name the part"),
    ("anybody", "name the part"),
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
    ("flight", "attempt"),
    ("flights", "attempts"),
    ("pilot", "scheduler"),
    ("courier", "dispatcher"),
    ("lane", "target worker"),
    ("purse", "reserve"),
    ("look", "probe"),
    ("looks", "probes"),
    ("looked", "probed"),
    ("told", "given, reported, configured"),
    ("tells", "reports"),
    ("heard", "observed"),
    ("said", "reported, printed"),
    ("serving", "pending intervals"),
    ("book", "registry"),
    ("turns", "slot queue"),
    ("diary", "update times"),
    ("kin", "related"),
    ("exam", "test span"),
    ("aside", "post-burst evidence"),
    ("desk", "writer handle"),
    ("bed", "deadline, task"),
    ("beds", "deadlines, tasks"),
    ("plant", "task"),
    ("plants", "tasks"),
    ("sown", "counted on"),
    ("watered", "served"),
    ("ripest", "largest index"),
    ("rota", "round robin"),
    ("toll", "cost of a probe"),
    ("muster", "startup"),
    ("mind", "stored model"),
    ("minds", "stored models"),
    ("house", "server state"),
    ("pulse", "hourly profile"),
    ("comb", "periodic predictor"),
    ("echo", "self-exciting predictor"),
    ("pile", "cost accumulator"),
    ("pursuit", "feedback model"),
    ("torn", "incomplete"),
    ("caught", "matched"),
    ("rests", "is paused, is stopped"),
];

/// Places that keep such words, each with the reason: the start of the file's name, a part of the line, and
/// the words (all, if none is listed).
const KEPT: [(&str, &str, &[&str], &str); 30] = [
    ("tests/architecture/names.rs", "", &[], "the list itself"),
    ("crates/lab/src/garden", "", &["plant", "plants", "watered", "bed", "beds"], "the paper's problem"),
    (
        "crates/lab/tests/papers/garden",
        "",
        &["plant", "plants", "watered", "bed", "beds"],
        "the paper's problem",
    ),
    ("src/cli/garden", "", &["plant", "plants", "watered", "beds"], "the paper's problem"),
    ("tests/commands/garden.rs", "", &["plant", "plants", "beds"], "the paper's problem"),
    ("benches/garden.rs", "", &["plant", "plants"], "the paper's problem"),
    ("docs/", "plant", &["plant", "plants"], "the paper's problem"),
    ("docs/simulate-replay-garden.md", "`beds`", &["beds"], "a table of the cube"),
    (
        "crates/core/src/engine/garden",
        "",
        &["plant", "plants", "serving", "watered"],
        "the paper's problem",
    ),
    ("", "flights", &["flight", "flights"], "a table of the store"),
    ("", "in flight", &["flight"], "the field's term for an unanswered request"),
    ("", "in_flight", &["flight"], "the field's term for an unanswered request"),
    ("", "InFlight", &["flight"], "the field's term for an unanswered request"),
    ("", "_look_at", &["look"], "a column of the store"),
    ("", "look_by", &["look"], "a column of the store and a field in JSON"),
    ("", "look_up", &["look"], "the field's term for name resolution"),
    ("src/", "looked for {}", &["looked"], "said of files"),
    ("src/", "looks like a decompression bomb", &["looks"], "the plain word"),
    ("", "diary", &["diary", "aside"], "a column of the store"),
    ("src/store/", "aside = ", &["aside"], "a column of the store"),
    ("src/store/", "histories.aside", &["aside"], "a column of the store"),
    ("", "urns ", &["turns"], "turns one thing into another"),
    ("", "caught", &["caught"], "a field in JSON"),
    ("src/cli/simulate/recorded.rs", "told", &["told"], "a field in JSON"),
    ("crates/core/src/model/habits/named.rs", "an echo", &["echo"], "a text that users know"),
    ("", "echo $!", &["echo"], "a command of the shell"),
    ("", "ests", &["rests"], "an event of the store"),
    ("crates/core/src/engine/allocate/weighted_sampler.rs", "lane", &["lane"], "the field's term for SIMD"),
    (
        "crates/core/src/planning/feedback_model.rs",
        "Stream::new",
        &["pursuit"],
        "the name of a random stream",
    ),
    ("crates/core/src/planning/prediction.rs", "has_come(by)", &["come by"], "two names"),
];

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

/// The words of a line in lower case, each between spaces; parts of names are words.
fn words(line: &str) -> String {
    let mut words = String::from(" ");
    let mut before = ' ';
    for letter in line.chars() {
        if letter.is_uppercase() && before.is_lowercase() {
            words.push(' ');
        }
        words.extend(if letter.is_alphanumeric() { letter } else { ' ' }.to_lowercase());
        before = letter;
    }
    words.push(' ');
    words
}

fn reason_to_keep(file: &str, line: &str, word: &str) -> Option<usize> {
    KEPT.iter().position(|&(start, part, words, _)| {
        file.starts_with(start) && line.contains(part) && (words.is_empty() || words.contains(&word))
    })
}

/// The text files of the repository that people read and write.
fn all_texts() -> Files {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = all_sources();
    for folder in
        ["tests", "benches", "examples", "crates/core/tests", "crates/lab/tests", "crates/lab/examples"]
    {
        sources(root, folder, &mut texts);
    }
    let names = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).expect("a folder");
        let names =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        names.map(|name| format!("{folder}/{name}")).collect::<Vec<_>>()
    };
    let others = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(str::to_owned);
    let pages = [names("docs"), names("config"), names("systemd"), others.to_vec()].concat();
    let kinds = [".md", ".toml", ".service"];
    for page in pages.into_iter().filter(|page| kinds.iter().any(|kind| page.ends_with(kind))) {
        let text = fs::read_to_string(root.join(&page)).expect("UTF-8 text");
        texts.insert(page, text);
    }
    texts
}

/// `cargo test --test architecture plain_words -- --nocapture` prints what is left, with reasons.
#[test]
fn code_comments_and_pages_use_plain_words() {
    let mut left = Vec::new();
    let mut kept = [0; KEPT.len()];
    for (file, text) in all_texts() {
        for (number, line) in (1..).zip(text.lines()) {
            let words = words(line);
            for (word, instead) in EXCLUDED {
                if words.contains(&format!(" {word} ")) {
                    match reason_to_keep(&file, line, word) {
                        Some(reason) => kept[reason] += 1,
                        None => left.push(format!("{file}:{number}: {word} ({instead}): {}", line.trim())),
                    }
                }
            }
        }
    }
    for ((start, part, _, reason), count) in KEPT.iter().zip(kept) {
        println!("{count:>5}  {start} {part:?}: {reason}");
    }
    assert!(left.is_empty(), "{} places:\n{}", left.len(), left.join("\n"));
    let unused: Vec<_> =
        KEPT.iter().zip(kept).filter(|(_, count)| *count == 0).map(|(kept, _)| kept).collect();
    assert!(unused.is_empty(), "needed no longer: {unused:?}");
}
