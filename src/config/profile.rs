//! Profiles after validation: the rules and their sources.
//!
//! The language of Venu Gopal et al. in TOML. Their *domain* is `sources`. Their *notification rule*
//! ⟨Q, Tr, 𝒯, U⟩ is `[[profile.rule]]` with `query`, `trigger`, `active` and `life`. Their *users* are
//! the targets in `deliver`. Utility is strict: a match is delivered in time or not. `COUNT(*) % X = 0`
//! is `every = X`.
//!
//! Knows the meaning of a rule and the rules of each source. Must not know observations.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidewatch_core::observe::query::{QueryCondition, QueryField};
use tidewatch_core::planning::execution::RuleId;
use tidewatch_core::planning::rule::{RulePart, RuleTerms};
use tidewatch_core::rule_matching::RuleQuery;

use super::source::SourceConfig;

/// Sources by their names and groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Domain {
    /// By name.
    pub names: HashSet<String>,
    /// By group.
    pub groups: HashSet<String>,
}

/// A condition and its text.
#[derive(Debug, Clone)]
pub struct Where {
    /// As written.
    pub text: String,
    /// Parsed.
    pub condition: QueryCondition,
}

impl PartialEq for Where {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// `[[profile.rule]]`
#[derive(Debug, Clone, PartialEq)]
pub struct RuleConfig {
    /// Name of the profile.
    pub profile: Arc<str>,
    /// Name of the rule within the profile.
    pub name: Arc<str>,
    /// Sources whose updates are queried.
    pub sources: Domain,
    /// Fields that a delivery contains.
    pub fields: Vec<QueryField>,
    /// Which updates match; `None`: all.
    pub wanted: Option<Where>,
    /// Sources whose updates trigger the rule; `None`: each queried source triggers for itself.
    pub of: Option<Domain>,
    /// Which updates count for the trigger; `None`: all.
    pub counts: Option<Where>,
    /// The terms that scheduling uses.
    pub terms: Arc<RuleTerms>,
    /// Delivery targets, as in [`super::target::TargetConfig::name`].
    pub deliver: Vec<Arc<str>>,
}

impl RuleConfig {
    /// The part of the rule that is evaluated on updates.
    pub fn query(&self) -> RuleQuery<'_> {
        RuleQuery {
            terms: &self.terms,
            wanted: self.wanted.as_ref().map(|wanted| &wanted.condition),
            counts: self.counts.as_ref().map(|counts| &counts.condition),
        }
    }
}

/// All rules, indexed by the sources they use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RulesConfig {
    all: Vec<Arc<RuleConfig>>,
    by_name: HashMap<String, Vec<RulePart>>,
    by_group: HashMap<String, Vec<RulePart>>,
}

impl RulesConfig {
    /// Indexes the rules; a rule's number is its position.
    pub fn new(all: Vec<Arc<RuleConfig>>) -> Self {
        let (mut by_name, mut by_group) = (HashMap::new(), HashMap::new());
        for (index, rule) in all.iter().enumerate() {
            let number = RuleId(u32::try_from(index).unwrap_or(u32::MAX));
            // Without `of`, the queried sources also trigger the rule.
            let own = RulePart { rule: number, asked: true, triggers: rule.of.is_none() };
            let others = RulePart { rule: number, asked: false, triggers: true };
            for (domain, part) in [(Some(&rule.sources), own), (rule.of.as_ref(), others)] {
                let Some(domain) = domain else { continue };
                domain.names.iter().for_each(|name| note(&mut by_name, name, part));
                domain.groups.iter().for_each(|group| note(&mut by_group, group, part));
            }
        }
        Self { all, by_name, by_group }
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All rules, by number.
    pub fn all(&self) -> &[Arc<RuleConfig>] {
        &self.all
    }

    /// The rule with that number.
    pub fn get(&self, id: RuleId) -> Option<&Arc<RuleConfig>> {
        self.all.get(id.0 as usize)
    }

    /// The rule with that name, written `profile/rule`.
    pub fn named(&self, name: &str) -> Option<&Arc<RuleConfig>> {
        self.all.iter().find(|rule| *rule.terms.name == *name)
    }

    /// The names of all rules.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.all.iter().map(|rule| Arc::clone(&rule.terms.name)).collect()
    }

    /// The parts that a source has in rules, by rule number.
    pub fn of(&self, source: &SourceConfig) -> Vec<RulePart> {
        self.parts(&source.name, source.group.as_deref())
    }

    /// Like [`Self::of`], for a source given by name and group.
    pub fn parts(&self, name: &str, group: Option<&str>) -> Vec<RulePart> {
        let by_name = self.by_name.get(name);
        let by_group = group.and_then(|group| self.by_group.get(group));
        let mut parts: Vec<RulePart> = Vec::new();
        for &part in by_name.into_iter().chain(by_group).flatten() {
            add(&mut parts, part);
        }
        parts.sort_by_key(|part| part.rule);
        parts
    }
}

fn note(by: &mut HashMap<String, Vec<RulePart>>, name: &str, part: RulePart) {
    add(by.entry(name.to_owned()).or_default(), part);
}

/// Adds a part, or merges it into the part of the same rule.
fn add(parts: &mut Vec<RulePart>, part: RulePart) {
    match parts.iter_mut().find(|known| known.rule == part.rule) {
        Some(known) => {
            known.asked |= part.asked;
            known.triggers |= part.triggers;
        }
        None => parts.push(part),
    }
}
