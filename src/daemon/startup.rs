//! Configuration and store become an engine.
//!
//! Shared by the daemon at its start and by the commands that look at its store: so what
//! `explain` shows is what the daemon would do.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::tz::TimeZone;
use url::Url;

use crate::config::configuration::Config;
use crate::config::profile::Rules;
use crate::config::source::Source;
use crate::fetch::host_group::host_group;
use crate::store::load::{self, Remembered, Standing};
use crate::store::{Connection, StoreError, rules};
use tidewatch_core::engine::book::{RuleSet, RuleState};
use tidewatch_core::engine::event::{KnownSource, Moved};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::memory::Due;
use tidewatch_core::engine::params::Terms;
use tidewatch_core::engine::state::Engine;
use tidewatch_core::model::burst;
use tidewatch_core::model::history::History;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

/// A source as its probes need it. There are as many as sources, so what can be shared is.
#[derive(Debug, Clone)]
pub struct Spec {
    /// As configured.
    pub source: Arc<Source>,
    /// The address that was adopted since, if any.
    pub adopted: Option<Box<Url>>,
    /// How its rhythm is learned.
    pub learning: Arc<Learning>,
}

impl Spec {
    /// Where it is asked: the configured address, or the one adopted since.
    pub fn url(&self) -> &Url {
        self.adopted.as_deref().unwrap_or(&self.source.url)
    }
}

/// How a source's rhythm is learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Learning {
    /// Whose week it follows.
    pub zone: TimeZone,
    /// How fast old evidence fades.
    pub half_life: Span,
    /// How bursts are recognised.
    pub bursts: burst::BurstParams,
    /// What outlasts this is no burst.
    pub cycle: Span,
}

impl Learning {
    /// A source's history from stored bytes; a new one where there are none that can be read.
    pub fn history(&self, bytes: Option<&[u8]>, now: Timestamp) -> History {
        bytes
            .and_then(|bytes| History::from_bytes(bytes, self.zone.clone(), self.half_life))
            .unwrap_or_else(|| History::new(self.zone.clone(), self.half_life, now))
    }
}

/// Sources by number.
pub type Roster = HashMap<SourceId, Arc<Spec>>;

/// What the user grants a source that is asked at `url`.
pub fn terms(source: &Source, url: &Url) -> Terms {
    Terms {
        budget: source.budget,
        own_budget: source.own_budget,
        policy: source.policy,
        weight: source.weight as f32,
        price: (source.price.as_secs_f64() / 3600.0) as f32,
        max_gap: source.max_gap,
        cost: source.cost.map(|cost| cost as f32),
        host: host_group(url),
    }
}

/// The specification of a source whose adopted address, if any, is `adopted`.
pub fn spec(config: &Config, source: &Arc<Source>, adopted: Option<&str>) -> Spec {
    spec_by(&usual(config), source, adopted)
}

/// The same, where it is known how rhythms are usually learned.
pub fn spec_by(usual: &Arc<Learning>, source: &Arc<Source>, adopted: Option<&str>) -> Spec {
    let adopted = adopted.and_then(|url| Url::parse(url).ok()).map(Box::new);
    Spec { source: Arc::clone(source), adopted, learning: learning_of(usual, source) }
}

/// How the rhythm of a source is learned: as usual, but for its own week.
pub fn learning_of(usual: &Arc<Learning>, source: &Source) -> Arc<Learning> {
    match &source.time_zone {
        None => Arc::clone(usual),
        Some(zone) => Arc::new(Learning { zone: zone.clone(), ..(**usual).clone() }),
    }
}

/// How rhythms are learned, but for sources with a week of their own.
pub fn usual(config: &Config) -> Arc<Learning> {
    Arc::new(learning(config, config.importance.time_zone.clone()))
}

/// How the rhythm of a source in that zone is learned.
pub fn learning(config: &Config, zone: TimeZone) -> Learning {
    let (half_life, cycle) = (config.rate.half_life, config.rate.cycle);
    Learning { zone, half_life, bursts: config.burst, cycle }
}

/// How far back probes must be known for every budget to be counted.
pub fn look_back(config: &Config) -> Span {
    config.sources.iter().map(|source| source.budget.per).max().unwrap_or(Span::ZERO) + Span::from_hours(1)
}

/// An engine that is ready to run.
#[derive(Debug)]
pub struct Loaded {
    /// All configured sources that the store knows.
    pub engine: Engine,
    /// What their probes need.
    pub roster: Roster,
    /// Those that had no due time before.
    pub unscheduled: Vec<SourceId>,
}

/// An engine of all configured sources that the store knows.
pub async fn load_engine(
    config: &Config,
    connection: &mut Connection,
    now: Timestamp,
) -> Result<Loaded, StoreError> {
    let mut startup = Startup::new(config, load::standing(connection).await?, now);
    load::each(connection, now, now - look_back(config), |remembered| startup.take(remembered)).await?;
    let states = if config.rules.is_empty() { Vec::new() } else { rules::states(connection).await? };
    Ok(startup.done(&config.rules, &states))
}

/// The rules, and which of these sources concern them.
pub fn rule_set(rules: &Rules, roster: &Roster) -> RuleSet {
    let part = |(&id, spec): (&SourceId, &Arc<Spec>)| {
        let parts = rules.of(&spec.source);
        (!parts.is_empty()).then(|| (id, parts.into_boxed_slice()))
    };
    let terms = rules.all().iter().map(|rule| Arc::clone(&rule.terms)).collect();
    RuleSet { terms, parts: roster.iter().filter_map(part).collect() }
}

/// Sources that the engine takes in at a time. First contacts come at a pace by their number: of so
/// many it is longer than any spacing that they must keep within.
const AT_A_TIME: usize = 20_000;

/// An engine that is filled source by source, so that what the store gives need not be held for all.
#[derive(Debug)]
pub struct Startup<'c> {
    now: Timestamp,
    set_back: Span,
    usual: Arc<Learning>,
    sources: HashMap<&'c str, &'c Arc<Source>>,
    /// Names of host groups, each kept once.
    hosts: HashSet<Arc<str>>,
    known: Vec<KnownSource>,
    first: Vec<KnownSource>,
    loader: Loader,
    roster: Roster,
    unscheduled: Vec<SourceId>,
}

impl<'c> Startup<'c> {
    /// Nobody yet.
    pub fn new(config: &'c Config, standing: Standing, now: Timestamp) -> Self {
        let mut loader = Loader::new(config.fleet.clone(), standing.seed, now);
        // The store knows of a later time than now: the clock was set back while nobody watched.
        // Moving everything back with it keeps every promise and blocks nobody for years.
        let latest = standing.latest.filter(|&latest| latest > now);
        let set_back = latest.map_or(Span::ZERO, |latest| now - latest);
        for (host, paused_until, crawl_delay) in &standing.hosts {
            loader.host(host, paused_until.map(|until| until + set_back), *crawl_delay);
        }
        Self {
            now,
            set_back,
            usual: usual(config),
            sources: config.sources.iter().map(|source| (source.name.as_str(), source)).collect(),
            hosts: HashSet::new(),
            known: Vec::new(),
            first: Vec::new(),
            loader,
            roster: Roster::with_capacity(config.sources.len()),
            unscheduled: Vec::new(),
        }
    }

    /// Takes in a source, if it is configured.
    pub fn take(&mut self, remembered: Remembered) {
        let Remembered { id, name, mut memory, answered_at, mut probes } = remembered;
        let Some(source) = self.sources.get(name.as_str()) else { return };
        let spec = spec_by(&self.usual, source, memory.adopted_url.as_deref());
        let first = memory.due == Due::Unscheduled;
        if !first {
            memory.shift(self.set_back);
        }
        // Who was never asked is asked within its spacing. Later than that only a clock that was set says.
        let first = first
            || memory.last_probe.is_none()
                && memory.due.at().is_some_and(|due| due > self.now + source.budget.min_spacing);
        if first {
            memory.due = Due::Unscheduled;
        }
        probes.iter_mut().for_each(|at| *at += self.set_back);
        let mut terms = terms(source, spec.url());
        match self.hosts.get(&terms.host.key) {
            Some(key) => terms.host.key = Arc::clone(key),
            None => drop(self.hosts.insert(Arc::clone(&terms.host.key))),
        }
        let answered_by = answered_at.and_then(|url| Url::parse(&url).ok()).map(|url| host_group(&url));
        let answered_by = answered_by.filter(|group| group.key != terms.host.key);
        self.roster.insert(id, Arc::new(spec));
        let group = if first { &mut self.first } else { &mut self.known };
        group.push(KnownSource { id, terms, memory, probes, answered_by, moved: Moved::Same });
        if first {
            self.unscheduled.push(id);
        }
        if group.len() >= AT_A_TIME {
            self.loader.sources(std::mem::take(group));
        }
    }

    /// All are there; these rules have come this far.
    pub fn done(mut self, rules: &Rules, states: &[RuleState]) -> Loaded {
        self.loader.sources(self.known);
        self.loader.sources(self.first);
        if !rules.is_empty() {
            self.loader.rules(rule_set(rules, &self.roster), states);
        }
        Loaded { engine: self.loader.finish(), roster: self.roster, unscheduled: self.unscheduled }
    }
}
