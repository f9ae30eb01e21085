//! One `[[source]]`, and stage two for it.
//!
//! Knows what makes a source sound on its own and how it takes defaults from its group. Must not
//! know other sources: names used twice are found by whoever holds them all.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::tz::TimeZone;
use regex::Regex;
use url::Url;

use tidewatch_core::observe::Kind;
use tidewatch_core::observe::page::PageRules;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;

use super::address;
use super::allowance::Allowance;
use super::fault::{Faults, Spot};
use super::raw;
use super::reader::At;
use super::secret::Secret;
use super::values::{self, Least};
use super::{header, spelling};

/// `[[source]]`.
#[derive(Debug, Clone)]
pub struct Source {
    /// Unique name.
    pub name: String,
    /// Where it is.
    pub url: Url,
    /// Feed or page.
    pub kind: Kind,
    /// Who decides when it is probed.
    pub policy: Policy,
    /// Whose aggregate history it may borrow.
    pub group: Option<Arc<str>>,
    /// Its budget, defaults filled in.
    pub budget: Budget,
    /// How long an update's wait a probe must spare to be worth sending; zero if the budget is to be spent
    /// whole.
    pub price: Span,
    /// Its section (or its group's) set a budget itself, so the cautious hourly start is waived.
    pub own_budget: bool,
    /// Extra request headers. Those of all sources that have none are the same.
    pub headers: Arc<Vec<(String, Secret)>>,
    /// It may live at, or redirect to, private addresses.
    pub allow_private: bool,
    /// Obey robots.txt. Pages: on unless said otherwise; feeds: off unless said otherwise.
    pub robots: bool,
    /// For pages: what is compared. Those of all sources that have none are the same.
    pub page: Arc<PageRules>,
    /// Importance across sources.
    pub weight: f64,
    /// It is to be looked at at least so often.
    pub max_gap: Option<Span>,
    /// What a probe of it costs beside a mean one; `None`: what its probes have shown.
    pub cost: Option<f64>,
    /// Whose week its rhythm follows; `None`: that of `[importance]`.
    pub time_zone: Option<TimeZone>,
}

/// What a source falls back on.
#[derive(Debug, Clone)]
pub struct GroupDefaults {
    /// Its policy.
    pub policy: Option<Policy>,
    /// `[budget]` with the group's laid over it.
    pub allowance: Allowance,
}

/// What sources are checked against.
#[derive(Debug)]
pub struct Surroundings {
    /// `[budget]`.
    pub allowance: Allowance,
    /// `[group.…]`; when empty, labels are free.
    pub groups: HashMap<String, GroupDefaults>,
    /// A group's table may have been unreadable, or is yet to be read.
    pub torn: bool,
    /// What many sources have in common, kept once.
    pub common: Common,
}

/// What many sources have in common: of a million, few have headers or rules of their own.
#[derive(Debug, Default)]
pub struct Common {
    no_rules: Arc<PageRules>,
    no_headers: Arc<Vec<(String, Secret)>>,
    labels: RefCell<HashSet<Arc<str>>>,
}

impl Common {
    fn rules(&self, rules: PageRules) -> Arc<PageRules> {
        let PageRules { select, remove, ignore } = &rules;
        let none = select.is_empty() && remove.is_empty() && ignore.is_empty();
        if none { Arc::clone(&self.no_rules) } else { Arc::new(rules) }
    }

    fn headers(&self, headers: Vec<(String, Secret)>) -> Arc<Vec<(String, Secret)>> {
        if headers.is_empty() { Arc::clone(&self.no_headers) } else { Arc::new(headers) }
    }

    fn label(&self, label: String) -> Arc<str> {
        let mut labels = self.labels.borrow_mut();
        if let Some(known) = labels.get(label.as_str()) {
            return Arc::clone(known);
        }
        let label: Arc<str> = label.into();
        labels.insert(Arc::clone(&label));
        label
    }
}

/// The policy of that name.
pub fn policy(word: &At<String>, faults: &mut Faults) -> Option<Policy> {
    let all = Policy::ALL.map(|policy| (policy.name(), policy));
    values::choice("policy", word, &all, faults)
}

/// Checks one source. `None` when it has no usable name or address; its faults are noted.
pub fn check(raw: raw::Source, around: &Surroundings, faults: &mut Faults) -> Option<(Source, Allowance)> {
    let name = raw.name.and_then(|name| label("the name of this source", name, faults));
    let allow_private = raw.allow_private.is_some_and(|flag| flag.value);
    let url = raw.url.and_then(|text| match address::read(&text.value, allow_private) {
        Ok(url) => Some(url),
        Err(error) => {
            if let Some(secret) = userinfo(&text) {
                faults.hide(secret);
            }
            faults.add_with_hint(text.at, error.to_string(), error.hint());
            None
        }
    });
    let kinds = [Kind::Feed, Kind::Page].map(|kind| (kind.name(), kind));
    let kind = match &raw.kind {
        Some(word) => values::choice("kind", word, &kinds, faults),
        None => Some(Kind::Feed),
    };
    let group = raw.group.and_then(|group| {
        known_group(&group, around, faults);
        label("the group of this source", group, faults)
    });
    let group = group.map(|group| around.common.label(group));
    let defaults = group.as_ref().and_then(|group| around.groups.get(&**group));
    let own_policy = raw.policy.as_ref().and_then(|word| policy(word, faults));
    let base = defaults.map_or(around.allowance, |defaults| defaults.allowance);
    let allowance = base.overlaid(&raw.budget, faults);
    let page = around.common.rules(page_rules([raw.select, raw.remove, raw.ignore], kind, faults));
    let headers = around.common.headers(header::check(raw.headers, faults));
    let weight = raw.weight.and_then(|weight| values::weight("weight", weight, faults));
    let max_gap = raw.max_gap.and_then(|text| max_gap(&text, &allowance, faults));
    let cost = raw.cost.and_then(|cost| {
        values::number("cost", cost, |x| x > 0.0 && x <= 1e6, "above 0, up to a million", faults)
    });
    let kind = kind.unwrap_or_default();
    let source = Source {
        name: name?,
        url: url?,
        kind,
        policy: own_policy.or(defaults.and_then(|defaults| defaults.policy)).unwrap_or_default(),
        group,
        budget: allowance.budget(),
        price: allowance.price(),
        own_budget: allowance.own,
        headers,
        allow_private,
        robots: raw.robots.map_or(kind == Kind::Page, |flag| flag.value),
        page,
        weight: weight.unwrap_or(1.0),
        max_gap,
        cost,
        time_zone: raw.time_zone.and_then(|name| values::time_zone(&name, faults)),
    };
    Some((source, allowance))
}

/// The longest that a source may go unseen, which its budget must allow.
fn max_gap(text: &At<String>, allowance: &Allowance, faults: &mut Faults) -> Option<Span> {
    let gap = values::span("max_gap", text, Least::Positive, faults)?;
    let Budget { probes, per, min_spacing } = allowance.budget();
    let least = allowance.budget().even_gap().max(min_spacing);
    if gap >= least {
        return Some(gap);
    }
    let needed = (per.as_secs_f64() / gap.as_secs_f64()).ceil();
    let hint = match min_spacing > gap {
        true => format!(
            "`min_spacing` ({min_spacing}) must be no longer than it, and {needed:.0} probes per {per} granted"
        ),
        false => {
            format!("a budget of {needed:.0} probes per {per} would allow it, or a `max_gap` of {least}")
        }
    };
    faults.add_with_hint(
        text.at,
        format!("`max_gap` ({gap}) can't be kept: the budget grants {probes} probes per {per}, {min_spacing} apart"),
        hint,
    );
    None
}

/// A name that may be used.
pub fn label(what: &str, name: At<String>, faults: &mut Faults) -> Option<String> {
    match values::bad_name(&name.value) {
        None => Some(name.value),
        Some((wrong, hint)) => {
            faults.add_with_hint(name.at, format!("{what} {wrong}"), hint);
            None
        }
    }
}

fn known_group(group: &At<String>, around: &Surroundings, faults: &mut Faults) {
    if around.groups.is_empty() || around.torn || around.groups.contains_key(&group.value) {
        return;
    }
    let mut names: Vec<&str> = around.groups.keys().map(String::as_str).collect();
    names.sort_unstable();
    let hint = match spelling::closest(&group.value, names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("add `[group.{}]`, or take out all `[group.…]` tables", key(&group.value)),
    };
    faults.add_with_hint(group.at, format!("there is no group `{}`", group.value), hint);
}

/// A TOML key, in quotes if it needs them.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { format!("{name:?}") }
}

/// Where `user:password` stands, or may stand, within a URL at fault.
fn userinfo(text: &At<String>) -> Option<Spot> {
    let to = text.value.rfind('@')?;
    let from = text.value.find("://").map_or(0, |at| at + 3).min(to);
    // Counted from the opening quote. Escapes would shift it, so then everything is hidden.
    let plain = text.at.end - text.at.start == text.value.len() + 2;
    let within = Spot { file: text.at.file, start: text.at.start + 1 + from, end: text.at.start + 1 + to };
    Some(if plain { within } else { text.at })
}

fn page_rules(
    [select, remove, ignore]: [Option<At<Vec<At<String>>>>; 3],
    kind: Option<Kind>,
    faults: &mut Faults,
) -> PageRules {
    for (key, list) in [("select", &select), ("remove", &remove), ("ignore", &ignore)] {
        if let (Some(list), Some(Kind::Feed)) = (list, kind) {
            faults.add_with_hint(
                list.at,
                format!("`{key}` means nothing for a feed"),
                "take it out, or set `kind = \"page\"`",
            );
        }
    }
    PageRules {
        select: selectors("select", select, faults),
        remove: selectors("remove", remove, faults),
        ignore: ignore
            .map(|list| list.value)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|text| pattern(&text, faults))
            .collect(),
    }
}

fn selectors(key: &str, list: Option<At<Vec<At<String>>>>, faults: &mut Faults) -> Vec<String> {
    let texts = list.map(|list| list.value).unwrap_or_default();
    texts
        .into_iter()
        .filter_map(|text| match text.value.parse::<lol_html::Selector>() {
            Ok(_) => Some(text.value),
            Err(error) => {
                let why = error.to_string();
                faults.add_with_hint(
                    text.at,
                    format!("`{key}` holds a selector that can't be used: {}", uncapped(&why)),
                    "expected a CSS selector such as main, #news, .item > a or div[class~=x]",
                );
                None
            }
        })
        .collect()
}

/// An error of another crate as the end of a sentence of ours.
fn uncapped(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn pattern(text: &At<String>, faults: &mut Faults) -> Option<Regex> {
    match Regex::new(&text.value) {
        Ok(regex) => Some(regex),
        Err(error) => {
            // The crate draws a caret of its own over several lines; the last one says what it is.
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default();
            let why = why.strip_prefix("error: ").unwrap_or(why);
            faults.add_with_hint(
                text.at,
                format!("`ignore` holds a regular expression that can't be used: {}", uncapped(why)),
                "to mean one of ( [ { . * + ? itself, put a backslash before it",
            );
            None
        }
    }
}
