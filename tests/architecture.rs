//! Checks the three packages against the design: no import cycles, no long functions, SQL and requests
//! only in their folders, and a core without input and output.
//!
//! Files are read as tokens, without comments and texts. The reader is tested on small bad samples.
//! Cargo.toml already keeps runtime, network and database out of the core.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[path = "architecture/cycles.rs"]
mod cycles;
#[path = "architecture/names.rs"]
mod names;
#[path = "architecture/reading.rs"]
mod reading;
#[path = "architecture/samples.rs"]
mod samples;

use cycles::{Imports, cycles};
use reading::{Mention, Place, Reading, read};

/// The packages: the name in paths, and the folder of the sources.
const PACKAGES: [(&str, &str); 4] = [
    ("tidewatch", "src"),
    ("tidewatch_core", "crates/core/src"),
    ("tidewatch_fixtures", "crates/fixtures/src"),
    ("tidewatch_lab", "crates/lab/src"),
];

const MOST_LINES: usize = 100;

/// Paths that the core may not name; a bare name is forbidden anywhere in a path.
const IMPURE: [&str; 7] =
    ["std::env", "std::fs", "std::net", "std::process", "std::thread", "SystemTime", "Instant::now"];

/// Crates that only some files may use.
const ALLOWED_IN: [(&str, &[&str]); 2] =
    [("sqlx", &["src/store/", "crates/lab/src/garden/cube"]), ("reqwest", &["src/fetch/"])];

const PRINTING: [&str; 5] = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];

/// Folders whose imports and long functions are not checked, each with the reason.
const EXCEPTIONS: [(&str, &str); 0] = [];

/// The files of one package with their texts; names are relative to the repository.
type Files = BTreeMap<String, String>;

/// Prefixes of files, each with the reason.
type Exceptions = [(&'static str, &'static str)];

fn excepted(file: &str, exceptions: &Exceptions) -> bool {
    exceptions.iter().any(|(prefix, _)| file.starts_with(prefix))
}

/// The module of a file. Nothing can import `main.rs`.
fn module(folder: &str, file: &str) -> Vec<String> {
    let inside = file.strip_prefix(folder).unwrap_or(file).trim_start_matches('/');
    let mut parts: Vec<String> =
        inside.strip_suffix(".rs").unwrap_or(inside).split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] {
        parts.pop();
    }
    parts
}

/// Whether the path begins with this one, or (for a type) has it as a part.
fn names(path: &[String], forbidden: &str) -> bool {
    let wanted: Vec<&str> = forbidden.split("::").collect();
    let is_type = forbidden.starts_with(|c: char| c.is_ascii_uppercase());
    let mut places = path.windows(wanted.len()).map(|parts| parts == wanted);
    if is_type { places.any(|found| found) } else { places.next() == Some(true) }
}

/// The faults of one file by itself.
fn faults(file: &str, reading: &Reading, exceptions: &Exceptions) -> Vec<String> {
    let core = file.starts_with("crates/core/");
    let test_file = file.ends_with("tests.rs");
    let mut faults = Vec::new();
    let mut add = |line: usize, what: String| faults.push(format!("{file}:{line}: {what}"));
    for Mention { path, line, in_crate, in_tests } in &reading.paths {
        let written = path.join("::");
        if *in_crate {
            continue;
        }
        for (name, folders) in ALLOWED_IN {
            if names(path, name) && !folders.iter().any(|folder| file.starts_with(folder)) {
                add(*line, format!("`{written}`: {name} is used only in {}", folders.join(", ")));
            }
        }
        if core && !in_tests && !test_file && IMPURE.iter().any(|name| names(path, name)) {
            add(*line, format!("`{written}`: the core is pure"));
        }
    }
    for word in &reading.words {
        let text = word.text.as_str();
        if text == "unsafe" {
            add(word.line, "`unsafe` is not used here".to_owned());
        } else if PRINTING.contains(&text) && file != "src/main.rs" {
            add(word.line, format!("`{text}` outside main: write to a given output, or log"));
        } else if core && !word.in_tests && !test_file && ["async", "await"].contains(&text) {
            add(word.line, format!("`{text}`: the core is pure"));
        }
    }
    for function in reading.functions.iter().filter(|_| !test_file && !excepted(file, exceptions)) {
        if function.lines > MOST_LINES {
            let what = format!("`{}` has {} lines; at most {MOST_LINES}", function.name, function.lines);
            add(function.line, what);
        }
    }
    faults
}

/// Reads all files of a package: the faults of each, then the import cycles.
fn check(crate_name: &str, folder: &str, files: &Files, exceptions: &Exceptions) -> Vec<String> {
    let by_module: BTreeMap<_, _> = files.keys().map(|file| (module(folder, file), file.clone())).collect();
    let modules: BTreeSet<_> = by_module.keys().cloned().collect();
    let mut all = Vec::new();
    let mut imports = Imports::new();
    for (file, text) in files {
        let module = module(folder, file);
        let reading = read(text, &Place { crate_name, module: &module, modules: &modules });
        all.extend(faults(file, &reading, exceptions));
        if file.ends_with("tests.rs") || excepted(file, exceptions) {
            continue;
        }
        for mention in reading.paths.iter().filter(|mention| mention.in_crate && !mention.in_tests) {
            // The longest part of the path that is a file; the rest is an item in it.
            let parts = &mention.path;
            let target = (0..=parts.len()).rev().find_map(|length| by_module.get(&parts[..length]));
            if let Some(target) = target.filter(|target| *target != file) {
                imports.entry(file.clone()).or_default().entry(target.clone()).or_insert(mention.line);
            }
        }
    }
    all.extend(cycles(&imports));
    all
}

fn sources(root: &Path, folder: &str, files: &mut Files) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder of sources") {
        let entry = entry.expect("an entry");
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            sources(root, &name, files);
        } else if name.ends_with(".rs") {
            files.insert(name, fs::read_to_string(entry.path()).expect("UTF-8 text"));
        }
    }
}

fn check_all(exceptions: &Exceptions) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    for (crate_name, folder) in PACKAGES {
        let mut files = Files::new();
        sources(root, folder, &mut files);
        assert!(files.len() > 3, "only {} sources in {folder}", files.len());
        all.extend(check(crate_name, folder, &files, exceptions));
    }
    all
}

#[test]
fn the_packages_follow_the_design() {
    let all = check_all(&EXCEPTIONS);
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
}

#[test]
fn every_exception_is_needed() {
    let all = check_all(&[]);
    for (prefix, reason) in EXCEPTIONS {
        assert!(
            all.iter().any(|fault| fault.contains(prefix)),
            "{prefix} ({reason}) has no faults any more"
        );
    }
}
