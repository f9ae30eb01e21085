//! Configuration and memory become a fleet.
//!
//! Shared by the daemon at its start and by the commands that look at its store: so what
//! `explain` shows is what the daemon would do.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use url::Url;

use crate::config::{Config, Source};
use crate::fetch::host_group::host_group;
use crate::fleet::params::{SourceId, Terms};
use crate::fleet::{Fleet, Known};
use crate::rate::burst;
use crate::rate::history::History;
use crate::store::load::{Loaded, Remembered};
use crate::store::sync::Listed;
use crate::time::{Span, Timestamp};

/// A source as its probes need it.
#[derive(Debug, Clone)]
pub struct Spec {
    /// As configured.
    pub source: Source,
    /// Where it is asked: the configured address, or the one adopted since.
    pub url: Url,
    /// How its rhythm is learned.
    pub learning: Learning,
}

/// How a source's rhythm is learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Learning {
    /// Whose week it follows.
    pub zone: TimeZone,
    /// How fast old evidence fades.
    pub half_life: Span,
    /// How bursts are recognised.
    pub bursts: burst::Params,
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

/// The list as the store wants it.
pub fn listed(config: &Config) -> Vec<Listed> {
    config
        .sources
        .iter()
        .map(|source| Listed {
            name: source.name.clone(),
            url: source.url.to_string(),
            kind: source.kind.name(),
            policy: source.policy.name(),
            group: source.group.clone(),
        })
        .collect()
}

/// What the user grants a source that is asked at `url`.
pub fn terms(source: &Source, url: &Url) -> Terms {
    Terms {
        budget: source.budget,
        own_budget: source.own_budget,
        policy: source.policy,
        weight: source.weight as f32,
        host: host_group(url),
    }
}

/// The specification of a source whose adopted address, if any, is `adopted`.
pub fn spec(config: &Config, source: &Source, adopted: Option<&str>) -> Spec {
    let url = adopted.and_then(|url| Url::parse(url).ok()).unwrap_or_else(|| source.url.clone());
    let zone = source.time_zone.clone().unwrap_or_else(|| config.importance.time_zone.clone());
    let learning = learning(config, zone);
    Spec { source: source.clone(), url, learning }
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

/// A fleet of all configured sources that the store knows.
pub fn muster(config: &Config, mut loaded: Loaded, now: Timestamp) -> (Fleet, Roster) {
    let mut fleet = Fleet::new(config.fleet.clone(), loaded.seed, now);
    let mut roster = Roster::with_capacity(config.sources.len());
    // The store knows of a later time than now: the clock was set back while nobody watched.
    // Moving everything back with it keeps every promise and blocks nobody for years.
    let set_back = loaded.latest.filter(|&latest| latest > now).map_or(Span::ZERO, |latest| now - latest);
    for (host, paused_until, crawl_delay) in &loaded.hosts {
        fleet.load_host(host, *paused_until + set_back, *crawl_delay);
    }
    let mut known = Vec::with_capacity(config.sources.len());
    for source in &config.sources {
        let Some(Remembered { id, mut memory, answered_at }) = loaded.sources.remove(&source.name) else {
            continue;
        };
        let spec = spec(config, source, memory.adopted_url.as_deref());
        if memory.due != Timestamp::default() {
            memory.shift(set_back);
        }
        let mut probes = loaded.probes.remove(&id).unwrap_or_default();
        probes.iter_mut().for_each(|at| *at += set_back);
        let terms = terms(source, &spec.url);
        let answered_by = answered_at.and_then(|url| Url::parse(&url).ok()).map(|url| host_group(&url));
        let answered_by = answered_by.filter(|group| group.key != terms.host.key);
        known.push(Known { id, terms, memory, probes, answered_by });
        roster.insert(id, Arc::new(spec));
    }
    fleet.load(known, now);
    (fleet, roster)
}
