//! Small bad samples: a check that cannot fail proves nothing.

use super::{Files, MOST_LINES, PACKAGES, check};

fn checked(files: &[(&str, &str)]) -> Vec<String> {
    let files: Files = files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
    let first = files.keys().next().expect("a sample");
    let (crate_name, folder) = PACKAGES
        .into_iter()
        .find(|(_, folder)| first.starts_with(&format!("{folder}/")))
        .expect("a package");
    check(crate_name, folder, &files, &[])
}

/// The one fault of a sample, which must contain these words.
#[track_caller]
fn one(file: &str, text: &str, line: usize, says: &str) {
    let found = checked(&[(file, text)]);
    assert_eq!(found.len(), 1, "{file}: {text:?} gives {found:#?}");
    assert!(found[0].starts_with(&format!("{file}:{line}: ")), "{}", found[0]);
    assert!(found[0].contains(says), "{} does not say {says:?}", found[0]);
}

#[track_caller]
fn none(file: &str, text: &str) {
    assert_eq!(checked(&[(file, text)]), Vec::<String>::new(), "{file}: {text:?}");
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
    !checked(&pairs).is_empty()
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
fn text_similar_to_an_import_is_none() {
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
    let found = checked(&[
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
    assert_eq!(checked(&reexported), Vec::<String>::new());
    let found = checked(&[reexported[0], reexported[1], ("src/a/y.rs", "use super::X;")]);
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
fn sql_requests_and_printing_stay_in_their_folders() {
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
