//! Holds the sources to the design: which room may use which, and what pure rooms may not touch.
//!
//! Reads `src/**/*.rs` as tokens, without comments and texts; no compiler is asked, so it is quick
//! and names the line. Its own reading is tested below on small bad samples: a check that cannot
//! fail proves nothing.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "architecture/reading.rs"]
mod reading;

use reading::{Mention, Reading, read};

/// The rooms, row by row from the top. A room may use the rows above its own.
const ROWS: [&[&str]; 12] = [
    &["time", "rng"],
    &["rate"],
    &["observe"],
    &["schedule"],
    &["fleet"],
    &["config"],
    &["clock", "fetch", "store"],
    &["sim"],
    &["deliver"],
    &["daemon"],
    &["cli"],
    &["main"],
];

/// Rooms without clock, async, I/O or globals.
const PURE: [&str; 6] = ["time", "rng", "rate", "observe", "schedule", "fleet"];

/// What pure rooms may not name: paths, as they would be written in full.
const IMPURE: [&str; 10] = [
    "tokio",
    "reqwest",
    "sqlx",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant::now",
];

/// Nor as bare words and signs.
const IMPURE_WORDS: [&str; 4] = ["async", "await", "static mut", "Arc<Mutex"];

/// What the simulator may not name, besides the rooms of the shell.
const NOT_IN_SIM: [&str; 5] = ["tokio", "reqwest", "sqlx", "std::net", "std::fs"];

/// Crates that live in one room.
const HOMES: [(&str, &str); 2] = [("sqlx", "store"), ("reqwest", "fetch")];

/// Files near 300 lines are the habit; this is where it ends.
const MOST_LINES: usize = 600;

/// Macros that write where only main may.
const PRINTING: [&str; 5] = ["println", "eprintln", "print", "eprint", "dbg"];

fn row(room: &str) -> Option<usize> {
    ROWS.iter().position(|rooms| rooms.contains(&room))
}

/// Why `user` may not use `used`, if so.
fn forbidden(user: &str, used: &str) -> Option<String> {
    if user == used {
        return None;
    }
    let Some(below) = row(used) else {
        return Some(format!("`{used}` is no room; name a room, and list new rooms in this test"));
    };
    let Some(above) = row(user) else {
        return Some(format!("`{user}` is not in the list of rooms; only rooms may use rooms"));
    };
    match (user, used) {
        ("fetch" | "store", "clock") => None,
        ("sim", "clock" | "fetch" | "store") => Some("the simulator runs without the shell".to_owned()),
        _ if below < above => None,
        _ if below == above => Some("they are of one row and do not know each other".to_owned()),
        _ => Some("a room may use only rooms above it".to_owned()),
    }
}

/// The room a file belongs to, and its module path.
fn place(file: &str) -> (String, Vec<String>) {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut modules: Vec<String> = stem.split('/').map(str::to_owned).collect();
    if modules.last().is_some_and(|last| last == "mod") {
        modules.pop();
    }
    let room = modules.first().cloned().unwrap_or_default();
    if room == "lib" || room == "main" {
        modules.clear();
    }
    (room, modules)
}

/// Whether the path, written in full, begins with this one, or (for a bare name) has it as a part.
fn names(path: &[String], banned: &str) -> bool {
    let wanted: Vec<&str> = banned.split("::").collect();
    let starts_high = banned.starts_with(|c: char| c.is_ascii_uppercase());
    let at = |from: usize| {
        path.len() >= from + wanted.len() && path[from..].iter().zip(&wanted).all(|(a, b)| a == b)
    };
    if starts_high { (0..path.len()).any(at) } else { at(0) }
}

/// Everything that is wrong with one file. `file` is relative to `src`, with `/`.
fn faults(file: &str, text: &str) -> Vec<String> {
    let (room, modules) = place(file);
    let Reading { paths, words } = read(text, &modules);
    let mut faults = Vec::new();
    let mut say = |line: usize, what: String| faults.push(format!("src/{file}:{line}: {what}"));

    let lines = text.lines().count();
    if lines > MOST_LINES {
        say(lines, format!("{lines} lines; a file has at most {MOST_LINES}: split it by subject"));
    }
    if room != "lib" && row(&room).is_none() {
        say(1, format!("`{room}` is no room that this test knows; put it in its row"));
    }
    let all_tests = file.ends_with("tests.rs");
    for Mention { path, line, rooted, in_tests } in &paths {
        if *rooted {
            let used = path.first().map_or("*", String::as_str);
            if used == "*" {
                say(*line, format!("`{room}` uses the whole crate; name the room"));
            } else if let Some(why) = forbidden(&room, used) {
                say(*line, format!("`{room}` uses `{used}`: {why}"));
            }
            continue;
        }
        let written = path.join("::");
        for (name, home) in HOMES {
            if names(path, name) && room != home {
                say(*line, format!("`{room}` uses `{written}`: {name} lives in `{home}` only"));
            }
        }
        let exempt = *in_tests || all_tests;
        if PURE.contains(&room.as_str()) && !exempt && IMPURE.iter().any(|banned| names(path, banned)) {
            say(*line, format!("`{room}` is pure and may not use `{written}`"));
        }
        if room == "sim" && !exempt && NOT_IN_SIM.iter().any(|banned| names(path, banned)) {
            say(*line, format!("`sim` may not use `{written}`"));
        }
    }
    for word in &words {
        let exempt = word.in_tests || all_tests;
        if word.text == "unsafe" {
            say(word.line, "`unsafe` has no place here".to_owned());
        } else if PRINTING.iter().any(|name| word.text == format!("{name}!")) && room != "main" {
            say(word.line, format!("`{}` outside main: write to what was handed in, or log", word.text));
        } else if PURE.contains(&room.as_str()) && !exempt && IMPURE_WORDS.contains(&word.text.as_str()) {
            say(word.line, format!("`{room}` is pure and may not use `{}`", word.text));
        }
    }
    faults.dedup();
    faults
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_room_keeps_to_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.sort();
    assert!(files.len() > 50, "only {} sources were found", files.len());
    let mut all = Vec::new();
    for path in &files {
        let relative = path.strip_prefix(&root).expect("below src");
        let name: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
        all.extend(faults(&name.join("/"), &fs::read_to_string(path).expect("UTF-8 text")));
    }
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
}

/// The one fault of a sample, which must contain these words.
#[track_caller]
fn one(file: &str, text: &str, line: usize, says: &str) {
    let found = faults(file, text);
    assert_eq!(found.len(), 1, "{file}: {text:?} gives {found:#?}");
    assert!(found[0].starts_with(&format!("src/{file}:{line}: ")), "{}", found[0]);
    assert!(found[0].contains(says), "{} does not say {says:?}", found[0]);
}

#[track_caller]
fn none(file: &str, text: &str) {
    assert_eq!(faults(file, text), Vec::<String>::new(), "{file}: {text:?}");
}

#[test]
fn a_room_below_is_found_however_it_is_named() {
    let says = "`fleet` uses `store`: a room may use only rooms above it";
    one("fleet/state.rs", "use crate::store::StoreError;", 1, says);
    one(
        "fleet/state.rs",
        "use tidewatch_core::time::Span;\n\nuse crate::{time::Timestamp, store};",
        3,
        says,
    );
    one(
        "fleet/state.rs",
        "use crate::{\n    time::{self, Span},\n    store::{load, open},\n};",
        3,
        "`store`",
    );
    one("fleet/state.rs", "fn f() -> u8 { crate::store::open::x::<u8>(1) }", 1, says);
    one("fleet/state.rs", "use super::super::store::Row;", 1, says);
    one("fleet/state.rs", "use super::super::{time, store as s};", 1, says);
    one("fleet/mod.rs", "use super::store::Row;", 1, says);
    one("fleet/state.rs", "mod inner { use super::super::super::store::Row; }", 1, says);
    one("fleet/state.rs", "#[cfg(test)]\nmod tests { use crate::store::Row; }", 2, says);
    one("fleet/state.rs", "macro_rules! m { () => { $crate::store::f() } }", 1, says);
    one("clock.rs", "use super::daemon::run;", 1, "`clock` uses `daemon`");
    one("fleet/state.rs", "use crate::*;", 1, "the whole crate");
    one("fleet/state.rs", "use crate as all;", 1, "the whole crate");
    one("fleet/state.rs", "use crate::Span;", 1, "`Span` is no room");
    one("helpers.rs", "fn f() {}", 1, "`helpers` is no room");
    one("lib.rs", "pub use tidewatch_core::time::Span;", 1, "only rooms may use rooms");
    one("cli/mod.rs", "fn f() { tidewatch::main::go() }", 1, "`cli` uses `main`");
}

#[test]
fn rooms_above_and_the_room_itself_are_free() {
    none("fleet/state.rs", "use super::source::Member;\nuse crate::{fleet::gate, time::Span};");
    none("fleet/state.rs", "mod tests { use super::super::gate::*; use super::*; }");
    none(
        "fleet/mod.rs",
        "pub(crate) fn f() {}\npub(in tidewatch_core::engine) fn g() {}\npub(super) fn h() {}",
    );
    none("daemon/run.rs", "use crate::{clock::Clock, fetch, store::{open, load}, sim::driver};");
    none("main.rs", "fn main() { tidewatch::cli::main(std::env::args_os()); }");
    none("lib.rs", "//! [`crate::store`]\npub mod time;\npub mod store;");
}

#[test]
fn within_the_shell_only_the_clock_is_shared() {
    none("fetch/client.rs", "use crate::clock::Clock;");
    none("store/writer.rs", "use crate::clock::real_pause;");
    one("fetch/client.rs", "use crate::store::open;", 1, "one row");
    one("store/writer.rs", "use crate::fetch::Answer;", 1, "one row");
    one("clock.rs", "use crate::fetch::Answer;", 1, "one row");
    one("time.rs", "use tidewatch_core::rng::Stream;", 1, "one row");
}

#[test]
fn the_simulator_has_no_shell() {
    for room in ["clock", "fetch", "store"] {
        one("sim/driver.rs", &format!("use crate::{room}::x;"), 1, "without the shell");
    }
    one("sim/driver.rs", "use tokio::sync::mpsc;", 1, "`sim` may not use `tokio::sync::mpsc`");
    one("sim/driver.rs", "use std::{collections::HashMap, fs::File};", 1, "`std::fs::File`");
    none(
        "sim/driver.rs",
        "use tidewatch_core::engine::Fleet; use crate::config::Config; use std::io::Write;",
    );
}

#[test]
fn pure_rooms_touch_nothing() {
    one("rate/fit.rs", "use tokio::time;", 1, "`rate` is pure");
    one("rate/fit.rs", "fn f() { ::tokio::spawn(g()); }", 1, "`tokio::spawn`");
    one("observe/feed.rs", "use std::{fmt, net::IpAddr};", 1, "`std::net::IpAddr`");
    one("observe/feed.rs", "fn f() {\n    std::env::var(\"X\");\n}", 2, "`std::env::var`");
    one("schedule/plan.rs", "use std::time::{Duration, SystemTime};", 1, "SystemTime");
    one("schedule/plan.rs", "fn f() { let t = std::time::Instant::now(); }", 1, "Instant::now");
    one("rng.rs", "use std::thread;", 1, "std::thread");
    one("rng.rs", "static mut SEED: u64 = 0;", 1, "`static mut`");
    one("fleet/state.rs", "struct S { x: Arc<std::sync::Mutex<u8>> }", 1, "`Arc<Mutex`");
    one("fleet/state.rs", "async fn f() {}", 1, "`async`");
    none(
        "fleet/spacing.rs",
        "impl Clock for C { type Instant = Nanos; fn now(&self) -> Nanos { self.0 } }",
    );
    none("fleet/state.rs", "use std::time::Duration; static SEED: u64 = 0; struct S { x: Arc<u8> }");
}

#[test]
fn tests_of_pure_rooms_may_read_files_and_nothing_after_them_may() {
    none("rate/fit.rs", "#[cfg(test)]\nmod tests { use std::fs; }");
    none("rate/fit_tests.rs", "use std::fs;");
    one("rate/fit.rs", "#[cfg(test)]\nmod tests { fn f() { {} } }\nuse std::fs;", 3, "std::fs");
    one("rate/fit.rs", "#[cfg(test)]\nmod tests;\nmod m { use std::fs; }", 3, "std::fs");
    one("rate/fit.rs", "mod tests { use std::fs; }", 1, "std::fs");
}

#[test]
fn sql_and_requests_have_one_home() {
    none("store/open.rs", "use sqlx::Connection;");
    none("fetch/client.rs", "use reqwest::{Client, Response};");
    one("daemon/run.rs", "use sqlx::Connection;", 1, "sqlx lives in `store` only");
    one("cli/probe.rs", "fn f(c: &reqwest::Client) {}", 1, "reqwest lives in `fetch` only");
    one("daemon/run.rs", "#[cfg(test)]\nmod tests { use sqlx::query; }", 2, "sqlx lives in `store` only");
}

#[test]
fn printing_unsafe_and_long_files_are_found() {
    one("cli/status.rs", "fn f() {\n    println!(\"x\");\n}", 2, "`println!` outside main");
    one("daemon/run.rs", "fn f() { std::eprintln!(\"x\"); }", 1, "`eprintln!` outside main");
    none("main.rs", "fn f() { eprintln!(\"x\"); }");
    one("time.rs", "fn f() { unsafe { g() } }", 1, "`unsafe`");
    one("time.rs", &"\n".repeat(MOST_LINES + 1), MOST_LINES + 1, "601 lines");
    none("time.rs", &"\n".repeat(MOST_LINES));
}

#[test]
fn comments_and_texts_are_not_code() {
    let text = r##"
//! use crate::store;
/* unsafe /* nested */ println!("x"); use crate::store::Row; */
/// [`crate::daemon::run`]
fn f<'a>(x: &'a str) -> char {
    let _ = ("use crate::store; \" unsafe", r#"crate::store " unsafe"#, b"unsafe", '"', b'\'', '\u{22}');
    'u'
}
"##;
    none("fleet/state.rs", text);
    // Whatever comes after them is read again.
    let end = text.lines().count() + 1;
    one("fleet/state.rs", &format!("{text}use crate::store::Row;"), end, "`store`");
}
