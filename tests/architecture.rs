//! Holds the three packages to the design: no import cycles, no long functions, one home for SQL and
//! for requests, and a core that touches nothing outside itself.
//!
//! Files are read as tokens, without comments and texts. The reading is tested below on small bad
//! samples. Cargo.toml already keeps runtime, network and database out of the core.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

#[path = "architecture/reading.rs"]
mod reading;

use reading::{Mention, Place, Reading, read};

/// The packages: the name in paths, and the folder of the sources.
const PACKAGES: [(&str, &str); 3] =
    [("tidewatch", "src"), ("tidewatch_core", "crates/core/src"), ("tidewatch_lab", "crates/lab/src")];

const MOST_LINES: usize = 100;

/// Paths that the core may not name; a bare name is forbidden at any place of a path.
const IMPURE: [&str; 7] =
    ["std::env", "std::fs", "std::net", "std::process", "std::thread", "SystemTime", "Instant::now"];

/// Crates that only some files may use.
const HOMES: [(&str, &[&str]); 2] =
    [("sqlx", &["src/store/", "crates/lab/src/garden/cube"]), ("reqwest", &["src/fetch/"])];

const PRINTING: [&str; 5] = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];

/// Folders whose imports and long functions are not judged, each with the reason.
const EXCEPTIONS: [(&str, &str); 9] = [
    ("crates/core/src/engine/", "being rewritten"),
    ("crates/lab/src/", "being rewritten"),
    ("src/daemon/", "being rewritten"),
    ("src/cli/garden/", "being rewritten"),
    ("src/cli/picture.rs", "being rewritten"),
    ("src/cli/plan/", "being rewritten"),
    ("src/cli/replay.rs", "being rewritten"),
    ("src/cli/rhythm/", "being rewritten"),
    ("src/cli/simulate/", "being rewritten"),
];

/// The files of one package with their texts; names are relative to the repository.
type Files = BTreeMap<String, String>;

/// What one file imports from others, with the line of the first mention.
type Imports = BTreeMap<String, BTreeMap<String, usize>>;

fn excepted(file: &str) -> bool {
    EXCEPTIONS.iter().any(|(prefix, _)| file.starts_with(prefix))
}

/// The module that a file is. `main.rs` is one that nothing can import.
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
fn faults(file: &str, reading: &Reading) -> Vec<String> {
    let core = file.starts_with("crates/core/");
    let test_file = file.ends_with("tests.rs");
    let mut faults = Vec::new();
    let mut add = |line: usize, what: String| faults.push(format!("{file}:{line}: {what}"));
    for Mention { path, line, in_crate, in_tests } in &reading.paths {
        let written = path.join("::");
        if *in_crate {
            continue;
        }
        for (name, homes) in HOMES {
            if names(path, name) && !homes.iter().any(|home| file.starts_with(home)) {
                add(*line, format!("`{written}`: {name} is used only in {}", homes.join(", ")));
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
    for function in reading.functions.iter().filter(|_| !test_file && !excepted(file)) {
        if function.lines > MOST_LINES {
            let what = format!("`{}` has {} lines; at most {MOST_LINES}", function.name, function.lines);
            add(function.line, what);
        }
    }
    faults
}

/// Reads all files of a package: the faults of each, then the import cycles.
fn judge(crate_name: &str, folder: &str, files: &Files) -> Vec<String> {
    let by_module: BTreeMap<_, _> = files.keys().map(|file| (module(folder, file), file.clone())).collect();
    let modules: BTreeSet<_> = by_module.keys().cloned().collect();
    let mut all = Vec::new();
    let mut imports = Imports::new();
    for (file, text) in files {
        let module = module(folder, file);
        let reading = read(text, &Place { crate_name, module: &module, modules: &modules });
        all.extend(faults(file, &reading));
        if file.ends_with("tests.rs") || excepted(file) {
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

/// Every group of files that import each other, with one shortest cycle of each.
fn cycles(imports: &Imports) -> Vec<String> {
    let mut reported = BTreeSet::new();
    let mut found = Vec::new();
    for file in imports.keys().filter(|file| !excepted(file)) {
        let from_here = reached(imports, file);
        let group: BTreeSet<&String> =
            from_here.keys().copied().filter(|other| reached(imports, other).contains_key(file)).collect();
        if !from_here.contains_key(file) || !reported.insert(group.clone()) {
            continue;
        }
        let mut path = vec![file.clone()];
        let mut at = file;
        loop {
            let (before, line) = from_here[at];
            path.push(format!("{before}:{line}"));
            at = before;
            if at == file {
                break;
            }
        }
        path.reverse();
        let members: Vec<&str> = group.iter().map(|file| file.as_str()).collect();
        found.push(format!(
            "import cycle among {} files: {}\n    {}",
            group.len(),
            members.join(" "),
            path.join("\n    -> ")
        ));
    }
    found
}

/// The files reached from one by imports: for each the file before it, and the line there.
fn reached<'a>(imports: &'a Imports, start: &'a String) -> BTreeMap<&'a String, (&'a String, usize)> {
    let mut reached = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for (target, &line) in imports.get(file).into_iter().flatten() {
            reached.entry(target).or_insert_with(|| {
                queue.push_back(target);
                (file, line)
            });
        }
    }
    reached
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

#[test]
fn the_packages_keep_to_the_design() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    for (crate_name, folder) in PACKAGES {
        let mut files = Files::new();
        sources(root, folder, &mut files);
        assert!(files.len() > 20, "only {} sources in {folder}", files.len());
        all.extend(judge(crate_name, folder, &files));
    }
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
}

#[test]
fn exceptions_are_still_needed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (prefix, reason) in EXCEPTIONS {
        assert!(root.join(prefix).exists(), "{prefix} ({reason}) is gone");
    }
}

fn judged(files: &[(&str, &str)]) -> Vec<String> {
    let files: Files = files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
    let first = files.keys().next().expect("a sample");
    let (crate_name, folder) = PACKAGES
        .into_iter()
        .find(|(_, folder)| first.starts_with(&format!("{folder}/")))
        .expect("a package");
    judge(crate_name, folder, &files)
}

/// The one fault of a sample, which must contain these words.
#[track_caller]
fn one(file: &str, text: &str, line: usize, says: &str) {
    let found = judged(&[(file, text)]);
    assert_eq!(found.len(), 1, "{file}: {text:?} gives {found:#?}");
    assert!(found[0].starts_with(&format!("{file}:{line}: ")), "{}", found[0]);
    assert!(found[0].contains(says), "{} does not say {says:?}", found[0]);
}

#[track_caller]
fn none(file: &str, text: &str) {
    assert_eq!(judged(&[(file, text)]), Vec::<String>::new(), "{file}: {text:?}");
}

/// Whether `src/a/x.rs` with this text imports `target`: `target` imports it back, so it is a cycle.
fn imports(text: &str, target: &str) -> bool {
    let sample = |file: &str| {
        let own = if file == "src/a/x.rs" { text } else { "" };
        if file == target { format!("{own} use crate::a::x::Back;") } else { own.to_owned() }
    };
    let files = ["src/lib.rs", "src/a/mod.rs", "src/a/x.rs", "src/a/x/deep.rs", "src/a/y.rs", "src/b.rs"];
    let texts: Vec<String> = files.iter().map(|file| sample(file)).collect();
    let pairs: Vec<_> = files.iter().zip(&texts).map(|(file, text)| (*file, text.as_str())).collect();
    !judged(&pairs).is_empty()
}

#[test]
fn an_import_is_found_however_it_is_written() {
    for text in [
        "use crate::b::Item;",
        "use crate::{a::y, b};",
        "use crate::{\n    a::{self, y},\n    b::{One, Two as Other},\n};",
        "use super::super::b::Item;",
        "use super::super::{a, b as other};",
        "use tidewatch::b::Item;",
        "fn f() -> u8 { crate::b::g::<u8>(1) }",
        "fn f(x: crate::b::Item) {}",
        "mod inner { use super::super::super::b::Item; }",
        "macro_rules! m { () => { $crate::b::f() } }",
        "use crate as all; fn f() { all::b::g() }",
        "fn f() -> usize { 1 as crate::b::Number }",
        "#[cfg(test)] use std::fs; use crate::b::Item;",
        "#[cfg(test)] fn f(x: [u8; 2]) { {} } use crate::b::Item;",
    ] {
        assert!(imports(text, "src/b.rs"), "{text}");
    }
    for text in
        ["use super::y::Item;", "use super::{y}; fn f() { y::g() }", "use crate::a; fn f() { a::y::g() }"]
    {
        assert!(imports(text, "src/a/y.rs"), "{text}");
    }
    for text in ["use super::Item;", "use super::*;", "use crate::a::Item;", "fn f() { super::g() }"] {
        assert!(imports(text, "src/a/mod.rs"), "{text}");
    }
    for text in ["use deep::Item;", "mod deep; fn f() { deep::g() }", "pub use self::deep::Item;"] {
        assert!(imports(text, "src/a/x/deep.rs"), "{text}");
    }
    assert!(imports("use crate::Item;", "src/lib.rs"));
    assert!(imports("fn f() { crate::g() }", "src/lib.rs"));
}

#[test]
fn what_only_looks_like_an_import_is_none() {
    for text in [
        "mod deep; pub(crate) fn f() {} pub(super) fn g() {} pub(in crate::a) fn h() {}",
        "#[cfg(test)] mod tests { use crate::b::Item; use super::super::y; }",
        "#[cfg(test)] use crate::b::{Item, Other};",
        "//! [`crate::b::Item`]\n/// [`super::y`]\n/* use crate::b; */ fn f() {}",
        "fn f<'a>() { (\"use crate::b; \\\" x\", r#\"crate::b \" x\"#, b\"crate::b\", '\"', b'\\'') }",
        "use other::b::Item; use std::b; struct Y { b: u8 } fn f(y: Y) -> u8 { y.b }",
        "mod deep; fn f(deep: u8) -> u8 { deep + b }",
        "mod tests { use super::Own; } impl Own { fn f() { Self::g() } }",
    ] {
        for target in ["src/lib.rs", "src/a/mod.rs", "src/a/x/deep.rs", "src/a/y.rs", "src/b.rs"] {
            assert!(!imports(text, target), "{text}");
        }
    }
}

#[test]
fn a_cycle_is_shown_with_its_lines() {
    let found = judged(&[
        ("src/a.rs", "\nuse crate::b::B;"),
        ("src/b.rs", "use crate::{c::C, d::D};"),
        ("src/c.rs", "fn f() {\n    super::a::g()\n}"),
        ("src/d.rs", "use crate::c::C;"),
        ("src/e.rs", "use crate::a::A;"),
    ]);
    assert_eq!(
        found,
        ["import cycle among 4 files: src/a.rs src/b.rs src/c.rs src/d.rs\n    \
          src/a.rs:2\n    -> src/b.rs:1\n    -> src/c.rs:2\n    -> src/a.rs"]
    );
    let reexported = [
        ("src/a/mod.rs", "mod x; mod y; pub use x::X;"),
        ("src/a/x.rs", "use super::y::Y;"),
        ("src/a/y.rs", ""),
    ];
    assert_eq!(judged(&reexported), Vec::<String>::new());
    let found = judged(&[reexported[0], reexported[1], ("src/a/y.rs", "use super::X;")]);
    assert!(found.len() == 1 && found[0].contains("among 3 files"), "{found:?}");
}

#[test]
fn long_functions_are_found_outside_tests() {
    let long =
        |lines: usize| format!("impl X {{\n    fn long(x: [u8; 2]) {{{}}}\n}}", "\n".repeat(lines - 1));
    one("src/b.rs", &long(MOST_LINES + 1), 2, "`long` has 101 lines");
    none("src/b.rs", &long(MOST_LINES));
    none("src/b_tests.rs", &long(MOST_LINES + 1));
    none("src/b.rs", &format!("#[cfg(test)]\nmod tests {{ {} }}", long(MOST_LINES + 1)));
    let after =
        format!("trait T {{ fn f(); }}\n#[cfg(test)]\nmod tests {{ fn f() {{ {{}} }} }}\n{}", long(101));
    one("src/b.rs", &after, 5, "`long`");
}

#[test]
fn the_core_is_pure_outside_tests() {
    let file = "crates/core/src/model/fit.rs";
    one(file, "use std::{fmt, net::IpAddr};", 1, "`std::net::IpAddr`");
    one(file, "fn f() {\n    std::env::var(\"X\");\n}", 2, "`std::env::var`");
    one(file, "use std::time::{Duration, SystemTime};", 1, "SystemTime");
    one(file, "fn f() { let t = std::time::Instant::now(); }", 1, "Instant::now");
    one(file, "use std::thread;", 1, "std::thread");
    one(file, "async fn f() {}", 1, "`async`");
    one(file, "#[cfg(test)]\nmod tests;\nmod m { use std::fs; }", 3, "std::fs");
    one(file, "mod tests { use std::fs; }", 1, "std::fs");
    none(file, "#[cfg(test)]\nmod tests { use std::fs; }");
    none("crates/core/src/model/fit_tests.rs", "use std::fs;");
    none(file, "impl Clock for C { type Instant = Nanos; fn now(&self) -> Nanos { self.0 } }");
    none("src/clock.rs", "use std::time::SystemTime; async fn f() {}");
}

#[test]
fn sql_requests_and_printing_have_one_home() {
    none("src/store/open.rs", "use sqlx::Connection;");
    none("src/fetch/client.rs", "use reqwest::{Client, Response};");
    one("src/daemon/run.rs", "use sqlx::Connection;", 1, "sqlx is used only in src/store/");
    one("src/cli/probe.rs", "fn f(c: &reqwest::Client) {}", 1, "reqwest is used only in src/fetch/");
    one("src/cli/probe.rs", "fn f() { ::reqwest::get() }", 1, "reqwest is used only in src/fetch/");
    one("src/daemon/run.rs", "#[cfg(test)]\nmod tests { use sqlx::query; }", 2, "sqlx is used only");
    one("src/cli/status.rs", "fn f() {\n    println!(\"x\");\n}", 2, "`println!` outside main");
    one("crates/lab/src/score.rs", "fn f() { std::eprintln!(\"x\"); }", 1, "`eprintln!` outside main");
    none("src/main.rs", "fn f() { eprintln!(\"x\"); }");
    one("src/clock.rs", "fn f() { unsafe { g() } }", 1, "`unsafe`");
    none("src/clock.rs", "//! unsafe\nfn f() { \"unsafe\"; }");
}
