//! The documentation agrees with the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use sqlx::{AssertSqlSafe, Row, SqliteConnection};
use tidewatch::cli::command_line::Cli;
use tidewatch::config::load;
use tidewatch::config::valid;
use tidewatch::store::open;
use tidewatch_core::planning::policy::Policy;

fn shipped(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The code of a folder, without the folders in it.
fn code_in(folder: &str) -> String {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.map(|path| fs::read_to_string(path).expect("UTF-8 text")).collect()
}

/// The fenced blocks of a language, their indentation taken off.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(fence) = line.trim_start().strip_prefix("```") else { continue };
        let indent = line.len() - line.trim_start().len();
        let inside = lines.by_ref().take_while(|line| line.trim_start() != "```");
        let block: Vec<&str> = inside.map(|line| line.get(indent..).unwrap_or_default()).collect();
        if fence == language {
            found.push(block.join("\n"));
        }
    }
    found
}

/// The cells of the table under this head, row by row.
fn table(text: &str, head: &str) -> Vec<Vec<String>> {
    let rows = text.lines().skip_while(|line| *line != head).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let found: Vec<Vec<String>> = rows
        .map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert!(!found.is_empty(), "there is no table under {head:?}");
    found
}

/// The texts between backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

async fn empty_store(folder: &tempfile::TempDir) -> SqliteConnection {
    open::for_writing(&folder.path().join("tidewatch.db")).await.expect("a new store")
}

async fn names(store: &mut SqliteConnection, kind: &'static str) -> BTreeSet<String> {
    let rows =
        sqlx::query("SELECT name FROM sqlite_schema WHERE type = ?").bind(kind).fetch_all(store).await;
    let names = rows.expect("a schema").into_iter().map(|row| row.get::<String, _>(0));
    names.filter(|name| !name.starts_with("sqlite_") && !name.starts_with("_sqlx")).collect()
}

#[test]
fn blocks_and_tables_are_found() {
    let text = "a\n```sh\none\n```\n  ```sh\n  two\n    in\n  ```\n```sql\nno\n```\n";
    assert_eq!(blocks(text, "sh"), ["one", "two\n  in"]);
    let rows = table("x\n| a | b |\n|---|---|\n| `c` | d, `e` |\n\n| f |\n", "| a | b |");
    assert_eq!(rows, [["`c`", "d, `e`"]]);
    assert_eq!(quoted("`c` d, `e f`"), ["c", "e f"]);
}

/// The front page and the manual, by path.
fn pages() -> Vec<(String, String)> {
    let folder = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")).expect("a folder");
    let mut names: Vec<String> = folder
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"))
        .collect();
    names.sort();
    names.insert(0, "README.md".to_owned());
    names.into_iter().map(|name| (name.clone(), shipped(&name))).collect()
}

#[test]
fn the_front_page_is_short() {
    assert!(shipped("README.md").lines().count() <= 200);
}

#[test]
fn configurations_in_the_manual_are_valid() {
    let mut found = 0;
    for (page, text) in pages() {
        for snippet in blocks(&text, "toml") {
            found += 1;
            if let Err(faults) = valid::parse(&[(page.clone().into(), snippet.clone())]) {
                panic!("{faults}\nin\n{snippet}");
            }
        }
    }
    assert!(found >= 8, "only {found} snippets");
}

#[test]
fn the_manual_lists_all_keys() {
    let page = shipped("docs/configuration.md");
    let listed: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| quoted(line.split(" | ").next().unwrap_or_default()))
        .collect();
    // The shipped configuration shows every key, set or commented out.
    let shown = shipped("config/tidewatch.toml");
    let keys = shown.lines().filter_map(|line| line.trim_start_matches(['#', ' ']).split_once(" = "));
    let keys: BTreeSet<&str> = keys
        .map(|(key, _)| key)
        .filter(|key| key.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'))
        .collect();
    assert!(keys.len() > 50, "only {} keys", keys.len());
    for key in keys {
        let is_listed = listed.iter().any(|cell| cell.split(['.', ' ']).any(|word| word == key));
        assert!(is_listed, "docs/configuration.md has no row for the key {key}");
    }
}

#[test]
fn shipped_configurations_load() {
    for name in ["tidewatch.toml", "minimal.toml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name);
        if let Err(error) = load::load(&path) {
            panic!("{error}");
        }
    }
}

#[test]
fn the_readme_lists_all_commands() {
    let readme = shipped("README.md");
    let mut cli = Cli::command();
    cli.build();
    let mut listed = BTreeSet::new();
    for row in table(&readme, "| command | what it does |") {
        let Some(usage) = quoted(&row[0]).first().and_then(|usage| usage.strip_prefix("tidewatch ")) else {
            continue;
        };
        let name = usage.split(' ').next().expect("a word");
        let command = cli.find_subcommand(name).unwrap_or_else(|| panic!("there is no command {name}"));
        // Some are groups of commands.
        let within = usage.split(' ').nth(1).and_then(|word| command.find_subcommand(word));
        let command = within.unwrap_or(command);
        let help = command.clone().render_long_help().to_string();
        for flag in quoted(&row[1]).into_iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(flag), "{name} has no {flag}:\n{help}");
        }
        let arguments =
            usage.split(' ').skip(1).filter(|word| word.chars().all(|c| c.is_ascii_uppercase()));
        for argument in arguments {
            assert!(help.contains(&format!("<{argument}>")), "{name} takes no {argument}:\n{help}");
        }
        listed.insert(name.to_owned());
    }
    let there =
        cli.get_subcommands().filter(|command| !command.is_hide_set()).map(|c| c.get_name().to_owned());
    let there: BTreeSet<String> = there.filter(|name| name != "help").collect();
    assert_eq!(listed, there, "README and --help differ");
}

#[test]
fn the_manual_lists_all_policies() {
    let rows = table(&shipped("docs/scheduling.md"), "| policy | when it wants a probe |");
    let listed: BTreeSet<String> = rows.iter().flat_map(|row| quoted(&row[0])).map(str::to_owned).collect();
    assert_eq!(listed, Policy::ALL.map(|policy| policy.name().to_owned()).into_iter().collect());
}

/// The code has the kinds of events as literals.
#[test]
fn the_manual_lists_all_events() {
    let rows = table(&shipped("docs/store.md"), "| kind | what happened |");
    let listed: BTreeSet<String> = rows.iter().flat_map(|row| quoted(&row[0])).map(str::to_owned).collect();
    let folders = ["src/daemon", "src/deliver", "src/store", "crates/core/src/engine"];
    let code: String = folders.into_iter().map(code_in).collect();
    for kind in &listed {
        assert!(code.contains(&format!("\"{kind}\"")), "there is no event {kind}");
    }
    let made = shipped("src/daemon/notes.rs");
    let kinds =
        made.split("(\"").skip(1).filter(|rest| rest.contains("\", Some(") || rest.contains("\", None"));
    for kind in kinds.filter_map(|rest| rest.split('"').next()) {
        assert!(listed.contains(kind), "docs/store.md lists no event {kind}");
    }
}

#[tokio::test]
async fn the_manual_lists_all_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = empty_store(&folder).await;
    let tables = names(&mut store, "table").await;
    let page = shipped("docs/store.md");
    let rows = table(&page, "| table | one row is |");
    let listed: BTreeSet<String> = rows.iter().flat_map(|row| quoted(&row[0])).map(str::to_owned).collect();
    assert_eq!(listed, tables, "docs/store.md and migrations differ");
    let rows = table(&page, "| view | one row is |");
    let others: BTreeSet<String> = rows.iter().flat_map(|row| quoted(&row[0])).map(str::to_owned).collect();
    let readable = tables.union(&others).map(|name| format!("readable_{name}"));
    let wanted: BTreeSet<String> = readable.chain(others.iter().cloned()).collect();
    let views = names(&mut store, "view").await;
    assert_eq!(views, wanted, "docs/store.md lists the views, and everything has its readable one");
}

#[tokio::test]
async fn queries_in_the_manual_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = empty_store(&folder).await;
    let mut found = 0;
    for (page, text) in pages() {
        for query in blocks(&text, "sql") {
            found += 1;
            if let Err(error) = sqlx::query(AssertSqlSafe(query.clone())).fetch_all(&mut store).await {
                panic!("{page}: {error}\nin\n{query}");
            }
        }
    }
    assert!(found >= 5, "only {found} queries");
}

/// The program accepts every command line of the manual.
#[test]
fn command_lines_in_the_manual_are_accepted() {
    let mut found = 0;
    for (page, text) in pages() {
        let joined = blocks(&text, "sh").join("\n").replace("\\\n", " ");
        for line in joined.lines().flat_map(|line| line.split(['|', ';', '&'])) {
            let words: Vec<&str> =
                line.split_whitespace().take_while(|word| !word.starts_with('>')).collect();
            if words.first() != Some(&"tidewatch") || line.contains(['$', '"', '\'']) {
                continue;
            }
            found += 1;
            if let Err(error) = Cli::command().try_get_matches_from(&words) {
                assert!(!error.use_stderr(), "{page}: {line}\n{error}");
            }
        }
    }
    assert!(found >= 20, "only {found} command lines");
}

#[test]
fn ci_runs_the_readmes_test_command() {
    let readme = shipped("README.md");
    let commands = blocks(&readme, "sh").join("\n");
    let command = commands.lines().find(|line| line.starts_with("cargo test")).expect("a test command");
    let ci = shipped(".ci/run");
    let stage = format!("stage \"tests\" {command}");
    assert!(ci.lines().any(|line| line == stage), ".ci/run has no line {stage:?}");
}

#[test]
fn the_unit_names_the_places_of_the_readme() {
    let unit = shipped("systemd/tidewatch.service");
    let readme = shipped("README.md");
    let set = |key: &str| {
        let prefix = format!("{key}=");
        unit.lines()
            .find_map(|line| line.strip_prefix(prefix.as_str()))
            .unwrap_or_else(|| panic!("no {key}="))
    };
    let mut start = set("ExecStart").split(' ');
    let (program, command) = (start.next().expect("a program"), start.next().expect("a command"));
    assert!(readme.contains(&format!("target/release/tidewatch {program}")), "README installs {program}");
    assert!(Cli::command().find_subcommand(command).is_some(), "there is no command {command}");
    assert_eq!(start.next(), Some("--config"));
    let config = start.next().expect("a configuration");
    assert!(
        readme.contains(&format!("install -m 0644 config/minimal.toml {config}")),
        "README installs {config}"
    );
    assert_eq!(config, format!("/etc/{}/tidewatch.toml", set("ConfigurationDirectory")));
    let state = set("StateDirectory");
    assert_eq!(set("WorkingDirectory"), format!("%S/{state}"));
    assert!(
        readme.contains(&format!("store = \"/var/lib/{state}/")),
        "README keeps the store in /var/lib/{state}"
    );
    assert!(readme.contains("systemd/tidewatch.service /etc/systemd/system/tidewatch.service"));
    // The exit codes that keep systemd from trying again are those that only an operator can help with.
    let codes = set("RestartPreventExitStatus");
    let rows = table(&shipped("docs/service.md"), "| exit code | meaning |");
    let meanings =
        ["the store is damaged", "a file of the store belongs to another user", "the configuration is bad"];
    assert_eq!(codes.split(' ').count(), meanings.len());
    for (code, meaning) in codes.split(' ').zip(meanings) {
        assert!(rows.iter().any(|row| row[0] == code && row[1].starts_with(meaning)), "{code}");
    }
}

#[test]
fn files_named_in_the_documents_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let contributing = ("CONTRIBUTING.md".to_owned(), shipped("CONTRIBUTING.md"));
    for (document, text) in pages().into_iter().chain([contributing]) {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let links = links.filter(|link| !link.is_empty() && !link.contains("://"));
        let folder = root.join(&document).parent().expect("a folder").to_owned();
        for link in links {
            assert!(folder.join(link).exists(), "{document} links to {link}, which is not there");
        }
        let named =
            |word: &&str| ["tests/", "crates/", "src/", "benches/"].iter().any(|top| word.starts_with(top));
        let paths = quoted(&text).into_iter().filter(|word| named(word) && !word.contains([' ', '*', '…']));
        for path in paths {
            assert!(root.join(path).exists(), "{document} names {path}, which is not there");
        }
    }
}
