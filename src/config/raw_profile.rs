//! Stage one for profiles and targets: the written values of `[[profile]]` and `[deliver.NAME]`.
//!
//! Checks only the names of keys and TOML types.

use super::fault::{Faults, Spot};
use super::raw_header::{HeaderValue, read_headers, secret_value};
use super::raw_window::RawWindow;
use super::reader::{At, Either, TomlTable};

type Texts = Option<At<Vec<At<String>>>>;

/// `[[profile]]`
#[derive(Debug)]
pub struct Profile {
    pub name: Option<At<String>>,
    pub sources: Texts,
    pub rules: Vec<RawRule>,
    /// Where it starts.
    pub at: Spot,
}

/// `[[profile.rule]]`
#[derive(Debug)]
pub struct RawRule {
    pub name: Option<At<String>>,
    pub fields: Texts,
    pub condition: Option<At<String>>,
    pub trigger: Trigger,
    pub active: RawActive,
    pub life: Option<RawLife>,
    pub confidence: Option<At<f64>>,
    pub deliver: Texts,
    /// Where it starts.
    pub at: Spot,
}

/// `trigger = { … }`
#[derive(Debug, Default)]
pub struct Trigger {
    pub on: Option<At<String>>,
    pub of: Texts,
    pub every: Option<At<i64>>,
    pub condition: Option<At<String>>,
}

/// `active = { … }`
#[derive(Debug, Default)]
pub struct RawActive {
    pub from: Option<At<String>>,
    pub until: Option<At<String>>,
    pub time_zone: Option<At<String>>,
    pub windows: Vec<RawWindow>,
    /// Where it is written.
    pub at: Spot,
}

/// `life = "overwrite"` or `life = { window = … }`
#[derive(Debug)]
pub enum RawLife {
    Word(At<String>),
    Window(Option<At<String>>),
}

/// `[deliver.NAME]`
#[derive(Debug)]
pub struct RawTarget {
    pub name: At<String>,
    pub exec: Texts,
    pub webhook: Option<At<String>>,
    pub atom: Option<At<String>>,
    pub secret: Option<At<HeaderValue>>,
    pub headers: Vec<(At<String>, At<HeaderValue>)>,
    pub allow_private: Option<At<bool>>,
    pub timeout: Option<At<String>>,
    pub give_up: Option<At<String>>,
    pub entries: Option<At<i64>>,
}

impl Profile {
    /// Reads one profile.
    pub fn read(mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
        let at = table.at;
        let profile = Self {
            name: table.needed_text("name", faults),
            sources: table.texts("sources", faults),
            rules: table
                .tables("rule", "this rule", faults)
                .into_iter()
                .map(|rule| RawRule::read(rule, faults))
                .collect(),
            at,
        };
        table.finish(faults);
        profile
    }
}

impl RawRule {
    fn read(mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
        let at = table.at;
        let name = table.needed_text("name", faults);
        let (mut fields, mut condition) = (None, None);
        if let Some(mut query) = table.table("query", "this query", faults) {
            fields = query.texts("fields", faults);
            condition = query.text("where", faults);
            query.finish(faults);
        }
        let trigger = table.table("trigger", "this trigger", faults);
        let active = table.table("active", "`active`", faults);
        let life = match table.text_or_table("life", "`life`", faults) {
            None => None,
            Some(Either::Text(word)) => Some(RawLife::Word(word)),
            Some(Either::Table(mut table)) => {
                let window = table.needed_text("window", faults);
                table.finish(faults);
                Some(RawLife::Window(window))
            }
        };
        let rule = Self {
            name,
            fields,
            condition,
            trigger: trigger.map(|table| Trigger::read(table, faults)).unwrap_or_default(),
            active: active.map(|table| RawActive::read(table, faults)).unwrap_or_default(),
            life,
            confidence: table.number("confidence", faults),
            deliver: table.texts("deliver", faults),
            at,
        };
        table.finish(faults);
        rule
    }
}

impl Trigger {
    fn read(mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
        let trigger = Self {
            on: table.text("on", faults),
            of: table.texts("of", faults),
            every: table.whole("every", faults),
            condition: table.text("where", faults),
        };
        table.finish(faults);
        trigger
    }
}

impl RawActive {
    fn read(mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
        let active = Self {
            from: table.text("from", faults),
            until: table.text("until", faults),
            time_zone: table.text("time_zone", faults),
            windows: table
                .tables("windows", "this window", faults)
                .into_iter()
                .map(|window| RawWindow::read_unweighted(window, faults))
                .collect(),
            at: table.at,
        };
        table.finish(faults);
        active
    }
}

impl RawTarget {
    /// Reads one target.
    pub fn read(name: At<String>, mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
        let target = Self {
            exec: table.texts("exec", faults),
            webhook: table.text("webhook", faults),
            atom: table.text("atom", faults),
            secret: table
                .value("secret")
                .and_then(|(at, value)| secret_value("`secret`", at, value, &table, faults)),
            headers: read_headers(&mut table, faults),
            allow_private: table.flag("allow_private", faults),
            timeout: table.text("timeout", faults),
            give_up: table.text("give_up", faults),
            entries: table.whole("entries", faults),
            name,
        };
        table.finish(faults);
        target
    }
}
