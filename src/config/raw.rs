//! Stage one: the written values.
//!
//! Mirrors the files key by key; every value has its place. Checks only the names of keys and TOML
//! types. Must not know the meaning of values; that is stage two.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use toml::de::{DeTable, DeValue};

use super::fault::{Faults, Spot};
use super::raw_header::{HeaderValue, read_headers};
use super::raw_profile::{Profile, RawTarget};
use super::raw_window::RawWindow;
use super::reader::{At, Size, TomlTable, wrong_type};
use super::syntax_gaps::SyntaxGaps;

/// The content of all files.
#[derive(Debug, Default)]
pub struct Raw {
    pub daemon: Daemon,
    pub fleet: Fleet,
    pub fetch: Fetch,
    pub budget: Budget,
    pub importance: RawImportance,
    pub rate: Rate,
    pub burst: Burst,
    pub sources: Vec<RawSource>,
    pub groups: Vec<RawGroup>,
    pub profiles: Vec<Profile>,
    pub targets: Vec<RawTarget>,
    /// Whether a file has syntax errors. A key that seems missing may then only be unreadable.
    pub incomplete: bool,
}

macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($field:ident : $kind:ty = $take:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $name { $(pub $field: Option<At<$kind>>),* }

        impl $name {
            fn read(mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
                let section = Self { $($field: table.$take(stringify!($field), faults)),* };
                table.finish(faults);
                section
            }
        }
    };
}

section! {
    /// `[daemon]`
    Daemon {
        store: String = text,
        contact: String = text,
        retain_probes: String = text,
        retain_updates: String = text,
        retain_events: String = text,
    }
}
section! {
    /// `[fleet]`
    Fleet {
        step: String = text,
        probes_per_step: i64 = whole,
        allocator: String = text,
        host_spacing: String = text,
        capacity: f64 = number,
        cost_by: String = text,
        probes: i64 = whole,
        per: String = text,
    }
}
section! {
    /// `[budget]`, also inside a source or group.
    Budget { probes: i64 = whole, per: String = text, min_spacing: String = text, price: String = text }
}
section! {
    /// `[rate]`
    Rate {
        cycle: String = text,
        resolution: String = text,
        refit_every: String = text,
        half_life: String = text,
        borrow: String = text,
        individual_threshold: f64 = number,
        freshness_threshold: f64 = number,
        echoes: bool = flag,
    }
}
section! {
    /// `[burst]`
    Burst {
        test: String = text,
        window: String = text,
        threshold: f64 = number,
        false_alarms: f64 = number,
        response: String = text,
        ttl_form: String = text,
        ttl_factor: f64 = number,
        reserve: f64 = number,
    }
}
/// `[fetch]`
#[derive(Debug, Default)]
pub struct Fetch {
    pub max_body: Option<At<Size>>,
    pub max_items: Option<At<i64>>,
    pub connect_timeout: Option<At<String>>,
    pub read_timeout: Option<At<String>>,
    pub total_timeout: Option<At<String>>,
    pub resolve: Vec<(At<String>, At<String>)>,
}

/// `[importance]`
#[derive(Debug, Default)]
pub struct RawImportance {
    pub time_zone: Option<At<String>>,
    pub baseline: Option<At<f64>>,
    pub windows: Vec<RawWindow>,
}

/// `[group.NAME]`
#[derive(Debug)]
pub struct RawGroup {
    pub name: At<String>,
    pub policy: Option<At<String>>,
    pub budget: Budget,
}

/// `[[source]]`
#[derive(Debug)]
pub struct RawSource {
    pub name: Option<At<String>>,
    pub url: Option<At<String>>,
    pub kind: Option<At<String>>,
    pub policy: Option<At<String>>,
    pub group: Option<At<String>>,
    pub budget: Budget,
    pub headers: Vec<(At<String>, At<HeaderValue>)>,
    pub allow_private: Option<At<bool>>,
    pub secret_url: Option<At<bool>>,
    pub robots: Option<At<bool>>,
    pub select: Option<At<Vec<At<String>>>>,
    pub remove: Option<At<Vec<At<String>>>>,
    pub ignore: Option<At<Vec<At<String>>>>,
    pub weight: Option<At<f64>>,
    pub max_gap: Option<At<String>>,
    pub cost: Option<At<f64>>,
    pub time_zone: Option<At<String>>,
}

impl Raw {
    /// Reads all files. The first is the main file; the others may hold only sources and groups.
    pub fn read(files: &[(PathBuf, String)], faults: &mut Faults) -> Self {
        let mut raw = Self::default();
        let main = files.first().map_or(Path::new(""), |(path, _)| path);
        for (index, (_, text)) in files.iter().enumerate() {
            raw.read_file(index, text, main, faults);
        }
        raw
    }

    /// Reads one more file.
    pub fn read_file(&mut self, index: usize, text: &str, main: &Path, faults: &mut Faults) {
        let (document, errors) = DeTable::parse_recoverable(text);
        let gaps = Rc::new(syntax(index, text, &errors, faults));
        self.incomplete |= !gaps.is_empty();
        let mut table = TomlTable::new(index, 0..0, gaps, "this file", document.into_inner());
        if index == 0 {
            self.read_settings(&mut table, faults);
        }
        self.read_sources(&mut table, faults);
        table.refuse_rest(faults, |key| (index > 0).then(|| only_sources(key, main)).flatten());
    }

    fn read_settings(&mut self, top: &mut TomlTable<'_>, faults: &mut Faults) {
        if let Some(table) = top.table("daemon", "[daemon]", faults) {
            self.daemon = Daemon::read(table, faults);
        }
        if let Some(table) = top.table("fleet", "[fleet]", faults) {
            self.fleet = Fleet::read(table, faults);
        }
        if let Some(table) = top.table("fetch", "[fetch]", faults) {
            self.fetch = Fetch::read(table, faults);
        }
        if let Some(table) = top.table("budget", "[budget]", faults) {
            self.budget = Budget::read(table, faults);
        }
        if let Some(table) = top.table("importance", "[importance]", faults) {
            self.importance = RawImportance::read(table, faults);
        }
        if let Some(table) = top.table("rate", "[rate]", faults) {
            self.rate = Rate::read(table, faults);
        }
        if let Some(table) = top.table("burst", "[burst]", faults) {
            self.burst = Burst::read(table, faults);
        }
        for table in top.tables("profile", "this profile", faults) {
            self.profiles.push(Profile::read(table, faults));
        }
        if let Some(mut targets) = top.table("deliver", "[deliver]", faults) {
            for (name, table) in targets.take_tables(|name| format!("[deliver.{name}]"), faults) {
                self.targets.push(RawTarget::read(name, table, faults));
            }
        }
    }

    fn read_sources(&mut self, top: &mut TomlTable<'_>, faults: &mut Faults) {
        if let Some(mut groups) = top.table("group", "[group]", faults) {
            for (name, mut table) in groups.take_tables(|name| format!("[group.{name}]"), faults) {
                let title = format!("the budget of group `{}`", name.value);
                self.groups.push(RawGroup {
                    name,
                    policy: table.text("policy", faults),
                    budget: budget_of(&mut table, &title, faults),
                });
                table.finish(faults);
            }
        }
        for table in top.tables("source", "this source", faults) {
            self.sources.push(RawSource::read(table, faults));
        }
    }
}

const SETTINGS: [&str; 9] =
    ["daemon", "fleet", "fetch", "budget", "importance", "rate", "burst", "profile", "deliver"];

fn only_sources(key: &str, main: &Path) -> Option<(String, String)> {
    SETTINGS.contains(&key).then(|| {
        (
            format!("[{key}] can't be set in a file of sources.d"),
            format!("move it to {}; here only [[source]] and [group.…] may stand", main.display()),
        )
    })
}

fn budget_of(table: &mut TomlTable<'_>, title: &str, faults: &mut Faults) -> Budget {
    table.table("budget", title, faults).map(|table| Budget::read(table, faults)).unwrap_or_default()
}

/// Adds syntax errors to the faults, at most one per line.
pub(super) fn syntax(
    file: usize,
    text: &str,
    errors: &[toml::de::Error],
    faults: &mut Faults,
) -> SyntaxGaps {
    let mut places: Vec<_> = errors
        .iter()
        .map(|error| (error.span().unwrap_or(text.len()..text.len()), error.message()))
        .collect();
    places.sort_by_key(|(span, _)| span.start);
    for (span, message) in &places {
        let at = Spot { file, start: span.start.min(text.len()), end: span.end.min(text.len()) };
        let written = text.get(at.start..at.end).unwrap_or("").trim();
        let (message, hint) = match message.split_once(", expected ") {
            Some(("string values must be quoted", _)) if written.is_empty() => {
                ("a value is missing", Some("write a value after the `=`".to_owned()))
            }
            Some(("string values must be quoted", _)) => {
                ("a text must be in quotes", Some("put \" before and after it".to_owned()))
            }
            Some((what, expected)) => (what, Some(format!("expected {expected}"))),
            None => (*message, None),
        };
        faults.add_unreadable(at, message, hint);
    }
    SyntaxGaps::new(text, places.into_iter().map(|(span, _)| span.start).collect())
}

impl Fetch {
    fn read(mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
        let mut fetch = Self {
            max_body: table.size("max_body", faults),
            max_items: table.whole("max_items", faults),
            connect_timeout: table.text("connect_timeout", faults),
            read_timeout: table.text("read_timeout", faults),
            total_timeout: table.text("total_timeout", faults),
            resolve: Vec::new(),
        };
        if let Some(mut names) = table.table("resolve", "fetch.resolve", faults) {
            for (name, at, value) in names.take_values() {
                match value {
                    DeValue::String(text) => {
                        fetch.resolve.push((name, At { value: text.into_owned(), at }));
                    }
                    other => wrong_type(&name.value, at, &other, "an IP address in quotes", faults),
                }
            }
        }
        table.finish(faults);
        fetch
    }
}

impl RawImportance {
    fn read(mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
        let importance = Self {
            time_zone: table.text("time_zone", faults),
            baseline: table.number("baseline", faults),
            windows: table
                .tables("windows", "this window", faults)
                .into_iter()
                .map(|window| RawWindow::read(window, faults))
                .collect(),
        };
        table.finish(faults);
        importance
    }
}

impl RawSource {
    fn read(mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
        let source = Self {
            name: table.needed_text("name", faults),
            url: table.needed_text("url", faults),
            kind: table.text("kind", faults),
            policy: table.text("policy", faults),
            group: table.text("group", faults),
            budget: budget_of(&mut table, "the budget of this source", faults),
            headers: read_headers(&mut table, faults),
            allow_private: table.flag("allow_private", faults),
            secret_url: table.flag("secret_url", faults),
            robots: table.flag("robots", faults),
            select: table.texts("select", faults),
            remove: table.texts("remove", faults),
            ignore: table.texts("ignore", faults),
            weight: table.number("weight", faults),
            max_gap: table.text("max_gap", faults),
            cost: table.number("cost", faults),
            time_zone: table.text("time_zone", faults),
        };
        table.finish(faults);
        source
    }
}
