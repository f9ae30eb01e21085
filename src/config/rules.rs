//! Stage two for `[[profile]]`: checks the rules.
//!
//! Knows the conditions between a rule, the sources and the targets. A rule that no probe could satisfy
//! is a fault, with the reason. A rule that a budget may only hinder is not, since that depends on
//! future updates.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::query::{QueryCondition, QueryField};
use tidewatch_core::planning::active::ActiveHours;
use tidewatch_core::planning::prediction::Lifetime;
use tidewatch_core::planning::rule::RuleTerms;
use tidewatch_core::time::{Span, Timestamp};

use super::fault::Faults;
use super::profile::{Domain, RuleConfig, RulesConfig, Where};
use super::reader::At;
use super::source::{SourceConfig, label};
use super::target::TargetConfig;
use super::values::{self, LowerBound};
use super::{raw_profile, spelling, week};

/// Default probability that a match is delivered in time.
const CONFIDENCE: f64 = 0.9;

/// Largest value of `every` (X).
const MOST_EVERY: i64 = 1000;

/// Everything that a rule is checked against.
pub struct Around<'c> {
    /// All sources.
    pub sources: &'c KnownNames<'c>,
    /// All targets; `None`: `deliver` is not checked.
    pub targets: Option<&'c [Arc<TargetConfig>]>,
    /// Time zone of days and hours, unless a rule sets its own.
    pub zone: &'c TimeZone,
    /// Length of a step, the shortest possible delay.
    pub step: Span,
    /// Whether a file has syntax errors. A name that seems missing may then only be unreadable.
    pub incomplete: bool,
}

/// Checks all profiles.
pub fn check(raw: Vec<raw_profile::Profile>, around: &Around<'_>, faults: &mut Faults) -> RulesConfig {
    if raw.is_empty() {
        return RulesConfig::default();
    }
    let known = around.sources;
    let mut taken: HashMap<String, String> = HashMap::new();
    let mut rules = Vec::new();
    for profile in raw {
        let name = profile.name.and_then(|name| label("the name of this profile", name, faults));
        let sources = match &profile.sources {
            Some(list) => known.domain(list, around, faults),
            None => {
                let hint = "add `sources = [\"name\", \"group:name\"]`";
                faults.add_with_hint(profile.at, "this profile has no `sources`", hint);
                None
            }
        };
        if profile.rules.is_empty() {
            let hint = "add a `[[profile.rule]]`, or take the profile out";
            faults.add_with_hint(profile.at, "this profile has no rule", hint);
        }
        for rule in profile.rules {
            let place = rule.name.as_ref().map(|name| faults.place(name.at));
            if let (Some(profile), Some(own), Some(place)) = (&name, &rule.name, place)
                && let Some(first) = taken.insert(format!("{profile}/{}", own.value), place)
            {
                faults.add_with_hint(
                    own.at,
                    format!("a rule `{profile}/{}` is already there at {first}", own.value),
                    "give each rule of a profile a name of its own",
                );
            }
            let rule = one(rule, around, faults);
            if let (Some(profile), Some(rule), Some(sources)) = (&name, rule, &sources) {
                let profile: Arc<str> = profile.as_str().into();
                let name = format!("{profile}/{}", rule.name).into();
                let terms = Arc::new(RuleTerms { name, ..(*rule.terms).clone() });
                rules.push(Arc::new(RuleConfig { profile, sources: sources.clone(), terms, ..rule }));
            }
        }
    }
    RulesConfig::new(rules)
}

/// Checks one rule. The caller adds the profile's name and sources.
fn one(raw: raw_profile::RawRule, around: &Around<'_>, faults: &mut Faults) -> Option<RuleConfig> {
    let name = raw.name.and_then(|name| label("the name of this rule", name, faults));
    let fields = match raw.fields {
        None => vec![QueryField::Title, QueryField::Link],
        Some(list) => list.value.iter().filter_map(|word| field(word, faults)).collect(),
    };
    let wanted = raw.condition.and_then(|text| condition(text, faults));
    let trigger = raw.trigger;
    if let Some(on) = trigger.on.as_ref() {
        values::choice("on", on, &[("update", ())], faults);
    }
    let every = trigger.every.and_then(|every| match u32::try_from(every.value) {
        Ok(count) if (1..=MOST_EVERY).contains(&every.value) => Some(count),
        _ => {
            let hint = format!("expected a whole number from 1 to {MOST_EVERY}");
            faults.add_with_hint(every.at, format!("`every` can't be {}", every.value), hint);
            None
        }
    });
    let of = trigger.of.as_ref().map(|list| around.sources.domain(list, around, faults));
    let counts = trigger.condition.and_then(|text| condition(text, faults));
    let life = life(raw.life, around.step, faults);
    let share = |x: f64| x > 0.0 && x < 1.0;
    let confidence = raw
        .confidence
        .and_then(|value| values::number("confidence", value, share, "above 0 and below 1", faults));
    let active = active(raw.active, around.zone, faults);
    let deliver = match &raw.deliver {
        _ if around.targets.is_none() => Vec::new(),
        Some(list) if !list.value.is_empty() => {
            list.value.iter().filter_map(|word| target(word, around, faults)).collect()
        }
        _ => {
            let hint = "add `deliver = [\"exec:name\"]`, and a `[deliver.name]` that says how";
            faults.add_with_hint(raw.at, "this rule has no `deliver`", hint);
            Vec::new()
        }
    };
    let own = of.is_none();
    let terms = RuleTerms {
        name: "".into(),
        own,
        every: every.unwrap_or(1),
        life: life?,
        confidence: confidence.unwrap_or(CONFIDENCE),
        active: active?,
    };
    Some(RuleConfig {
        profile: "".into(),
        name: name?.into(),
        sources: Domain::default(),
        fields,
        wanted,
        of: match of {
            None => None,
            Some(domain) => Some(domain?),
        },
        counts,
        terms: Arc::new(terms),
        deliver,
    })
}

fn field(word: &At<String>, faults: &mut Faults) -> Option<QueryField> {
    let field = QueryField::from_name(&word.value);
    if field.is_none() {
        let hint = "there are title, link, id, authors, categories and text";
        faults.add_with_hint(word.at, format!("there is no field `{}`", word.value), hint);
    }
    field
}

fn condition(text: At<String>, faults: &mut Faults) -> Option<Where> {
    match QueryCondition::parse(&text.value) {
        Ok(condition) => Some(Where { text: text.value, condition }),
        Err(error) => {
            let Range { start, end } = error.at.clone();
            let at = faults.within(text.at, start..end.max(start));
            faults.add(at, format!("`where`: {error}"));
            None
        }
    }
}

fn life(raw: Option<raw_profile::RawLife>, step: Span, faults: &mut Faults) -> Option<Lifetime> {
    let window = match raw {
        None => return Some(Lifetime::Window(Span::from_hours(1))),
        Some(raw_profile::RawLife::Word(word)) => {
            if word.value != "overwrite" {
                let hint = "expected \"overwrite\", or { window = \"30m\" }";
                faults.add_with_hint(word.at, format!("unknown life `{}`", word.value), hint);
            }
            return Some(Lifetime::Overwrite);
        }
        Some(raw_profile::RawLife::Window(text)) => text?,
    };
    let span = values::span("window", &window, LowerBound::Positive, faults)?;
    if span < step {
        faults.add_with_hint(
            window.at,
            format!("this rule can't be satisfied: its `window` ({span}) is shorter than a step ({step})"),
            format!("allow at least {step}, or set a shorter `step` in [fleet]"),
        );
        return None;
    }
    Some(Lifetime::Window(span))
}

fn active(raw: raw_profile::RawActive, zone: &TimeZone, faults: &mut Faults) -> Option<ActiveHours> {
    let zone = raw.time_zone.map_or(Some(zone.clone()), |name| values::time_zone(&name, faults))?;
    let from = raw.from.as_ref().map(|text| instant("from", text, &zone, faults));
    let until = raw.until.as_ref().map(|text| instant("until", text, &zone, faults));
    let mut windows: Vec<(WeekWindow, f64)> = Vec::with_capacity(raw.windows.len());
    for window in raw.windows {
        let days = values::week_part(window.days, week::days, week::ALL_DAYS, faults)?;
        let (from_minute, until_minute) =
            values::week_part(window.hours, week::hours, (0, week::DAY_MINUTES), faults)?;
        windows.push((WeekWindow { days, from_minute, until_minute }, 1.0));
    }
    let from = match from {
        Some(from) => Some(from?),
        None => None,
    };
    let until = match until {
        Some(until) => Some(until?),
        None => None,
    };
    let week = (!windows.is_empty()).then(|| Steps::windows(zone, 0.0, &windows)).and_then(Result::ok);
    let active = ActiveHours { from, until, week };
    if let (Some(from), Some(until)) = (from, until) {
        // Windows repeat each week; nine days cover a week and any clock change.
        let spans = active.spans(from, until.min(from + Span::from_days(9)));
        let (why, hint) = match until <= from {
            true => ("it ends before it begins", "`until` must be later than `from`"),
            false => ("no hour of its `windows` lies within", "widen `windows`, or `from` and `until`"),
        };
        if spans.is_empty() {
            faults.add_with_hint(raw.at, format!("this rule can't be satisfied: {why}"), hint);
            return None;
        }
    }
    Some(active)
}

/// Parses a day, which means its midnight, or an instant.
fn instant(key: &str, text: &At<String>, zone: &TimeZone, faults: &mut Faults) -> Option<Timestamp> {
    let written = text.value.trim();
    let at = Timestamp::parse_iso(written).or_else(|| {
        let civil: DateTime = written.parse().ok()?;
        let at = civil.to_zoned(zone.clone()).ok()?.timestamp();
        Some(Timestamp::from_millis(at.as_millisecond()))
    });
    if at.is_none() {
        faults.add_with_hint(
            text.at,
            format!("`{key}`: `{written}` is neither a day nor an instant"),
            "expected one such as 2026-12-01, 2026-12-01T08:00 or 2026-12-01T08:00:00Z",
        );
    }
    at
}

fn target(word: &At<String>, around: &Around<'_>, faults: &mut Faults) -> Option<Arc<str>> {
    let targets = around.targets.unwrap_or_default();
    if let Some(target) = targets.iter().find(|target| *target.name == *word.value) {
        return Some(Arc::clone(&target.name));
    }
    if around.incomplete {
        return None;
    }
    let bare = word.value.rsplit(':').next().unwrap_or_default();
    let named = targets.iter().find(|target| target.name.ends_with(&format!(":{bare}")));
    let close = || spelling::closest(&word.value, targets.iter().map(|target| &*target.name));
    let hint = match named.map(|target| &*target.name).or_else(close) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("add a `[deliver.{bare}]` with `exec`, `webhook` or `atom`"),
    };
    faults.add_with_hint(word.at, format!("there is no target `{}`", word.value), hint);
    None
}

/// Names and groups of all sources.
pub struct KnownNames<'c> {
    names: HashSet<&'c str>,
    groups: HashSet<&'c str>,
}

impl<'c> KnownNames<'c> {
    /// From configured sources.
    pub fn new(sources: &'c [Arc<SourceConfig>]) -> Self {
        let names = sources.iter().map(|source| &*source.name).collect();
        Self { names, groups: sources.iter().filter_map(|source| source.group.as_deref()).collect() }
    }

    /// From pairs of name and group.
    pub fn named(sources: impl IntoIterator<Item = (&'c str, &'c str)>) -> Self {
        let (names, groups) = sources.into_iter().unzip();
        Self { names, groups }
    }

    fn domain(
        &self,
        list: &At<Vec<At<String>>>,
        around: &Around<'_>,
        faults: &mut Faults,
    ) -> Option<Domain> {
        let mut domain = Domain::default();
        for word in &list.value {
            let (name, all, kind, into) = match word.value.strip_prefix("group:") {
                Some(group) => (group, &self.groups, "group", &mut domain.groups),
                None => (word.value.as_str(), &self.names, "source", &mut domain.names),
            };
            if all.contains(name) {
                into.insert(name.to_owned());
            } else if !around.incomplete {
                let hint = match spelling::closest(name, all.iter().copied()) {
                    Some(meant) if kind == "group" => format!("did you mean `group:{meant}`?"),
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "expected a source's name, or `group:` and a group's".to_owned(),
                };
                faults.add_with_hint(word.at, format!("there is no {kind} `{name}`"), hint);
            }
        }
        if list.value.is_empty() {
            faults.add_with_hint(list.at, "an empty list asks for nothing", "name a source or a group");
        }
        (!domain.names.is_empty() || !domain.groups.is_empty()).then_some(domain)
    }
}
