//! One `[[source]]`, and stage two for it.
//!
//! Checks a source by itself and applies the defaults of its group. Must not know other sources; the
//! caller finds duplicate names.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use regex::Regex;

use tidewatch_core::observe::SourceKind;
use tidewatch_core::observe::page::PageRules;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;

use super::address::{self, SourceAddress};
use super::allowance::Allowance;
use super::fault::{Faults, Spot};
use super::raw;
use super::reader::At;
use super::source_settings::{Common, SourceSettings};
use super::values::{self, LowerBound};
use super::{header, spelling};

/// `[[source]]`. There is one per source, so all but the name and the address are shared.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// Unique name.
    pub name: Box<str>,
    /// Address to probe.
    pub url: SourceAddress,
    /// The other settings, which most sources have in common.
    pub settings: Arc<SourceSettings>,
}

/// The settings are read as if they were the source's own.
impl Deref for SourceConfig {
    type Target = SourceSettings;

    fn deref(&self) -> &SourceSettings {
        &self.settings
    }
}

impl SourceConfig {
    /// Distinguishes the text that is read of a page; `None` for feeds.
    pub fn page_read_as(&self) -> Option<u64> {
        (self.kind == SourceKind::Page).then(|| self.page.read_as(self.url.as_str()))
    }

    /// An address of this source as it may be shown, stored with updates and delivered: without user and password,
    /// and without the query if that is a secret.
    pub fn shown(&self, address: &str) -> String {
        address::shown(address, self.secret_url)
    }
}

/// Defaults of a group.
#[derive(Debug, Clone)]
pub struct GroupDefaults {
    /// Policy of the group.
    pub policy: Option<Policy>,
    /// `[budget]` with the group's budget on top.
    pub allowance: Allowance,
}

/// Everything that a source is checked against.
#[derive(Debug)]
pub struct Surroundings {
    /// `[budget]`.
    pub allowance: Allowance,
    /// `[group.…]`. If empty, any group label is allowed.
    pub groups: HashMap<String, GroupDefaults>,
    /// Whether a group's table may be unreadable or not yet read.
    pub incomplete: bool,
    /// Values shared by many sources.
    pub common: Common,
}

/// The policy with that name.
pub fn policy(word: &At<String>, faults: &mut Faults) -> Option<Policy> {
    let all = Policy::ALL.map(|policy| (policy.name(), policy));
    values::choice("policy", word, &all, faults)
}

/// Checks one source. `None` if its name or address is unusable; the faults are recorded.
pub fn check(
    raw: raw::RawSource,
    around: &Surroundings,
    faults: &mut Faults,
) -> Option<(SourceConfig, Allowance)> {
    let name = raw.name.and_then(|name| label("the name of this source", name, faults));
    let allow_private = raw.allow_private.is_some_and(|flag| flag.value);
    let secret_url = raw.secret_url.is_some_and(|flag| flag.value);
    if let Some(url) = raw.url.as_ref().filter(|_| secret_url) {
        faults.hide(url.at);
    }
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
    let kinds = [SourceKind::Feed, SourceKind::Page].map(|kind| (kind.name(), kind));
    let kind = match &raw.kind {
        Some(word) => values::choice("kind", word, &kinds, faults),
        None => Some(SourceKind::Feed),
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
    let page = page_rules([raw.select, raw.remove, raw.ignore], kind, faults);
    let headers = header::check(raw.headers, faults);
    let weight = raw.weight.and_then(|weight| values::weight("weight", weight, faults));
    let max_gap = raw.max_gap.and_then(|text| max_gap(&text, &allowance, faults));
    let cost = raw.cost.and_then(|cost| {
        values::number("cost", cost, |x| x > 0.0 && x <= 1e6, "above 0, up to a million", faults)
    });
    let kind = kind.unwrap_or_default();
    let settings = SourceSettings {
        kind,
        policy: own_policy.or(defaults.and_then(|defaults| defaults.policy)).unwrap_or_default(),
        group,
        budget: allowance.budget(),
        price: allowance.own_price(),
        headers,
        allow_private,
        secret_url,
        robots: raw.robots.map_or(kind == SourceKind::Page, |flag| flag.value),
        page,
        weight: weight.unwrap_or(1.0),
        max_gap,
        cost,
        time_zone: raw.time_zone.and_then(|name| values::time_zone(&name, faults)),
    };
    let settings = around.common.settings(settings);
    Some((SourceConfig { name: name?.into(), url: url?.into(), settings }, allowance))
}

/// Checks that the budget permits `max_gap`.
fn max_gap(text: &At<String>, allowance: &Allowance, faults: &mut Faults) -> Option<Span> {
    let gap = values::span("max_gap", text, LowerBound::Positive, faults)?;
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

/// Checks a name; `what` it names is for the message.
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
    if around.groups.is_empty() || around.incomplete || around.groups.contains_key(&group.value) {
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

/// A TOML key, quoted if necessary.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { format!("{name:?}") }
}

/// The place of `user:password` in a faulty URL; the whole URL if the place is uncertain.
fn userinfo(text: &At<String>) -> Option<Spot> {
    let to = text.value.rfind('@')?;
    let from = text.value.find("://").map_or(0, |at| at + 3).min(to);
    // The offset counts from the opening quote. Escapes would shift it; then the whole URL is masked.
    let plain = text.at.end - text.at.start == text.value.len() + 2;
    let within = Spot { file: text.at.file, start: text.at.start + 1 + from, end: text.at.start + 1 + to };
    Some(if plain { within } else { text.at })
}

fn page_rules(
    [select, remove, ignore]: [Option<At<Vec<At<String>>>>; 3],
    kind: Option<SourceKind>,
    faults: &mut Faults,
) -> PageRules {
    for (key, list) in [("select", &select), ("remove", &remove), ("ignore", &ignore)] {
        if let (Some(list), Some(SourceKind::Feed)) = (list, kind) {
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

/// Makes an error text of another crate fit the end of a sentence.
fn uncapped(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn pattern(text: &At<String>, faults: &mut Faults) -> Option<Regex> {
    match Regex::new(&text.value) {
        Ok(regex) => Some(regex),
        Err(error) => {
            // The regex crate prints several lines with its own caret; the last line has the reason.
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
