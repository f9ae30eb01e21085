//! Profiles, sound: who asked for what.
//!
//! The language of Venu Gopal et al. in this file's syntax. Their *domain* is `sources`, their *notification
//! rule* ⟨Q, Tr, 𝒯, U⟩ is `[[profile.rule]]` with `query`, `trigger`, `active` and `life`; utility is strict:
//! told in time or not. Their *users* are those named by `deliver`. `COUNT(*) % X = 0` is `every = X`.
//!
//! Knows what a rule means, and which rules a source has to do with. Must not know what was seen.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidewatch_core::observe::query::{Condition, Field};
use tidewatch_core::planning::execution::RuleId;
use tidewatch_core::planning::rule::{Part, RuleTerms};
use tidewatch_core::rule_matching::RuleQuery;

use super::source::Source;

/// Sources by their names and groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Domain {
    /// By name.
    pub names: HashSet<String>,
    /// By group.
    pub groups: HashSet<String>,
}

/// A condition as it was written.
#[derive(Debug, Clone)]
pub struct Where {
    /// The text.
    pub text: String,
    /// What it means.
    pub condition: Condition,
}

impl PartialEq for Where {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// `[[profile.rule]]`
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The profile's name.
    pub profile: Arc<str>,
    /// Its own.
    pub name: Arc<str>,
    /// Whose updates are asked for.
    pub sources: Domain,
    /// What is told of each.
    pub fields: Vec<Field>,
    /// Which of them; `None`: all.
    pub wanted: Option<Where>,
    /// Whose updates it waits for; `None`: those of each of its sources by itself.
    pub of: Option<Domain>,
    /// Which of these count; `None`: all.
    pub counts: Option<Where>,
    /// When it wants probes.
    pub terms: Arc<RuleTerms>,
    /// Who is told, as in [`super::target::Target::name`].
    pub deliver: Vec<Arc<str>>,
}

impl Rule {
    /// What it asks of updates.
    pub fn query(&self) -> RuleQuery<'_> {
        RuleQuery {
            terms: &self.terms,
            wanted: self.wanted.as_ref().map(|wanted| &wanted.condition),
            counts: self.counts.as_ref().map(|counts| &counts.condition),
        }
    }
}

/// All rules, and which sources they have to do with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    all: Vec<Arc<Rule>>,
    by_name: HashMap<String, Vec<Part>>,
    by_group: HashMap<String, Vec<Part>>,
}

impl Rules {
    /// All of these; each is numbered by its place.
    pub fn new(all: Vec<Arc<Rule>>) -> Self {
        let (mut by_name, mut by_group) = (HashMap::new(), HashMap::new());
        for (index, rule) in all.iter().enumerate() {
            let number = RuleId(u32::try_from(index).unwrap_or(u32::MAX));
            // A rule that waits for its own sources is triggered by those that it asks about.
            let own = Part { rule: number, asked: true, triggers: rule.of.is_none() };
            let others = Part { rule: number, asked: false, triggers: true };
            for (domain, part) in [(Some(&rule.sources), own), (rule.of.as_ref(), others)] {
                let Some(domain) = domain else { continue };
                domain.names.iter().for_each(|name| note(&mut by_name, name, part));
                domain.groups.iter().for_each(|group| note(&mut by_group, group, part));
            }
        }
        Self { all, by_name, by_group }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them, by number.
    pub fn all(&self) -> &[Arc<Rule>] {
        &self.all
    }

    /// The rule of that number.
    pub fn get(&self, id: RuleId) -> Option<&Arc<Rule>> {
        self.all.get(id.0 as usize)
    }

    /// The rule of that name: `profile/rule`.
    pub fn named(&self, name: &str) -> Option<&Arc<Rule>> {
        self.all.iter().find(|rule| *rule.terms.name == *name)
    }

    /// The names of all rules.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.all.iter().map(|rule| Arc::clone(&rule.terms.name)).collect()
    }

    /// What a source is to rules, in the order of those.
    pub fn of(&self, source: &Source) -> Vec<Part> {
        self.parts(&source.name, source.group.as_deref())
    }

    /// The same for the source of that name and group.
    pub fn parts(&self, name: &str, group: Option<&str>) -> Vec<Part> {
        let by_name = self.by_name.get(name);
        let by_group = group.and_then(|group| self.by_group.get(group));
        let mut parts: Vec<Part> = Vec::new();
        for &part in by_name.into_iter().chain(by_group).flatten() {
            add(&mut parts, part);
        }
        parts.sort_by_key(|part| part.rule);
        parts
    }
}

fn note(by: &mut HashMap<String, Vec<Part>>, name: &str, part: Part) {
    add(by.entry(name.to_owned()).or_default(), part);
}

/// Named twice is the same as once.
fn add(parts: &mut Vec<Part>, part: Part) {
    match parts.iter_mut().find(|known| known.rule == part.rule) {
        Some(known) => {
            known.asked |= part.asked;
            known.triggers |= part.triggers;
        }
        None => parts.push(part),
    }
}
