//! The settings of a source apart from its name and address, kept once for all sources that have the same.
//!
//! A million sources seldom have more than some dozen different settings. Must not know where a setting is written.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jiff::tz::TimeZone;
use regex::Regex;

use tidewatch_core::observe::SourceKind;
use tidewatch_core::observe::page::PageRules;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;

use super::secret::Secret;

/// The settings of a source apart from its name and address.
#[derive(Debug, Clone)]
pub struct SourceSettings {
    /// Feed or page.
    pub kind: SourceKind,
    /// Policy that decides the times of its probes.
    pub policy: Policy,
    /// Group whose aggregate history the source may use.
    pub group: Option<Arc<str>>,
    /// Budget, with defaults filled in.
    pub budget: Budget,
    /// The least waiting time that a probe must save to be sent, if it is not that of all sources. Zero: the
    /// whole budget is spent.
    pub price: Option<Span>,
    /// Extra request headers.
    pub headers: Vec<(String, Secret)>,
    /// Whether it may be at, or redirect to, private addresses.
    pub allow_private: bool,
    /// Whether the query of its address is a secret.
    pub secret_url: bool,
    /// Whether robots.txt applies. Default: yes for pages, no for feeds.
    pub robots: bool,
    /// For pages: which parts are compared.
    pub page: PageRules,
    /// Weight relative to other sources.
    pub weight: f64,
    /// Longest allowed time between two probes.
    pub max_gap: Option<Span>,
    /// Cost of a probe relative to a mean probe; `None`: learned from its probes.
    pub cost: Option<f64>,
    /// Time zone of its rhythm; `None`: that of `[importance]`.
    pub time_zone: Option<TimeZone>,
}

/// By value: regular expressions are equal if their texts are. The destructuring makes the compiler reject a forgotten
/// field.
impl PartialEq for SourceSettings {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            kind,
            policy,
            group,
            budget,
            price,
            headers,
            allow_private,
            secret_url,
            robots,
            page: PageRules { select, remove, ignore },
            weight,
            max_gap,
            cost,
            time_zone,
        } = other;
        self.kind == *kind
            && self.policy == *policy
            && self.group == *group
            && self.budget == *budget
            && self.price == *price
            && self.headers == *headers
            && self.allow_private == *allow_private
            && self.secret_url == *secret_url
            && self.robots == *robots
            && self.page.select == *select
            && self.page.remove == *remove
            && self.page.ignore.iter().map(Regex::as_str).eq(ignore.iter().map(Regex::as_str))
            && self.weight == *weight
            && self.max_gap == *max_gap
            && self.cost == *cost
            && self.time_zone == *time_zone
    }
}

/// Numbers are finite, so every value equals itself.
impl Eq for SourceSettings {}

/// Of all that may differ from source to source. Equal values have equal hashes.
impl Hash for SourceSettings {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Budget { probes, per, min_spacing } = self.budget;
        (self.kind.name(), self.policy.name(), &self.group).hash(state);
        (probes, per, min_spacing, self.price, self.max_gap).hash(state);
        (self.allow_private, self.secret_url, self.robots).hash(state);
        // Zero and minus zero are equal.
        [self.weight, self.cost.unwrap_or(0.0)].map(|number| (number + 0.0).to_bits()).hash(state);
        (&self.page.select, &self.page.remove).hash(state);
        self.page.ignore.iter().for_each(|pattern| pattern.as_str().hash(state));
        self.headers.hash(state);
        self.time_zone.as_ref().and_then(TimeZone::iana_name).hash(state);
    }
}

/// Values shared by many sources.
#[derive(Debug, Default)]
pub struct Common {
    settings: RefCell<HashSet<Arc<SourceSettings>>>,
    labels: RefCell<HashSet<Arc<str>>>,
}

impl Common {
    /// These settings, shared with the sources that have the same.
    pub fn settings(&self, settings: SourceSettings) -> Arc<SourceSettings> {
        let mut known = self.settings.borrow_mut();
        if let Some(known) = known.get(&settings) {
            return Arc::clone(known);
        }
        let settings = Arc::new(settings);
        known.insert(Arc::clone(&settings));
        settings
    }

    /// This group, shared with the sources that have the same.
    pub fn label(&self, label: String) -> Arc<str> {
        let mut labels = self.labels.borrow_mut();
        if let Some(known) = labels.get(label.as_str()) {
            return Arc::clone(known);
        }
        let label: Arc<str> = label.into();
        labels.insert(Arc::clone(&label));
        label
    }
}
