//! Builds an engine from the configuration and the store.
//!
//! Used by the daemon at its start and by the commands that read its store, so `explain` shows the schedule
//! that the daemon would compute.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::tz::TimeZone;
use tokio::sync::mpsc;
use url::Url;

use crate::clock::Clock;
use crate::config::address::SourceAddress;
use crate::config::configuration::Config;
use crate::config::profile::RulesConfig;
use crate::config::source::SourceConfig;
use crate::fetch::host_group::host_group;
use crate::store::clock::{ClockSeen, StoredClock};
use crate::store::clock_set::correct_at_start;
use crate::store::load::{self, Remembered, StoredState};
use crate::store::writer::Write;
use crate::store::{Connection, StoreError, crashes, rules};
use tidewatch_core::engine::event::{CrashSuspect, KnownSource, Moved};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::params::{SourcePrice, Terms};
use tidewatch_core::engine::rule_counts::{RuleSet, RuleState};
use tidewatch_core::engine::source_memory::Due;
use tidewatch_core::engine::state::Engine;
use tidewatch_core::model::burst;
use tidewatch_core::model::history::History;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::source_table::SourceTable;
use tidewatch_core::time::{Span, Timestamp};

/// The settings that a probe needs. There is one per source, so parts are shared.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The configured source.
    pub source: Arc<SourceConfig>,
    /// The URL adopted after a permanent redirect, if any.
    pub adopted: Option<Box<SourceAddress>>,
    /// Learning parameters.
    pub learning: Arc<Learning>,
}

impl Spec {
    /// The address to probe: the adopted one, else the configured one.
    pub fn address(&self) -> &SourceAddress {
        self.adopted.as_deref().unwrap_or(&self.source.url)
    }

    /// The URL to probe.
    pub fn url(&self) -> Url {
        self.address().parsed()
    }
}

/// Parameters of learning a source's rate and bursts.
#[derive(Debug, Clone, PartialEq)]
pub struct Learning {
    /// The time zone of its week.
    pub zone: TimeZone,
    /// Half-life of the evidence.
    pub half_life: Span,
    /// Parameters of burst detection.
    pub bursts: burst::BurstParams,
    /// The longest burst; a longer one becomes the rhythm.
    pub cycle: Span,
    settings_hash: u64,
}

impl Learning {
    /// These parameters.
    pub fn new(zone: TimeZone, half_life: Span, bursts: burst::BurstParams, cycle: Span) -> Self {
        let mut hasher = DefaultHasher::new();
        let settings = (env!("CARGO_PKG_VERSION"), zone.iana_name(), half_life, bursts, cycle);
        format!("{settings:?}").hash(&mut hasher);
        Self { zone, half_life, bursts, cycle, settings_hash: hasher.finish() }
    }

    /// The same, for another time zone and other parameters of burst detection.
    pub fn with(&self, zone: TimeZone, bursts: burst::BurstParams) -> Self {
        Self::new(zone, self.half_life, bursts, self.cycle)
    }

    /// A hash of the parameters, and of the version of the program, with which their meaning may change.
    pub fn settings_hash(&self) -> u64 {
        self.settings_hash
    }

    /// Decodes a source's history; returns a new one if there are no readable bytes.
    pub fn history(&self, bytes: Option<&[u8]>, now: Timestamp) -> History {
        bytes
            .and_then(|bytes| History::from_bytes(bytes, self.zone.clone(), self.half_life))
            .unwrap_or_else(|| History::new(self.zone.clone(), self.half_life, now))
    }
}

/// The sources by number.
pub type Roster = SourceTable<Spec>;

/// The configured limits of a source that is probed at `url`.
pub fn terms(source: &SourceConfig, url: &Url) -> Terms {
    Terms {
        budget: source.budget,
        policy: source.policy,
        weight: source.weight as f32,
        price: source
            .price
            .map_or(SourcePrice::Fleet, |price| SourcePrice::Own((price.as_secs_f64() / 3600.0) as f32)),
        max_gap: source.max_gap,
        cost: source.cost.map(|cost| cost as f32),
        host: host_group(url),
    }
}

/// The spec of a source with this adopted URL, if any.
pub fn spec(config: &Config, source: &Arc<SourceConfig>, adopted: Option<&str>) -> Spec {
    spec_by(&usual(config), source, adopted)
}

/// The same, with the default learning parameters already computed.
pub fn spec_by(usual: &Arc<Learning>, source: &Arc<SourceConfig>, adopted: Option<&str>) -> Spec {
    let adopted = adopted.and_then(|url| Url::parse(url).ok()).map(|url| Box::new(url.into()));
    Spec { source: Arc::clone(source), adopted, learning: learning_of(usual, source) }
}

/// The learning parameters of a source: the default ones with its own time zone, if any, and with the ratio
/// test if its policy goes by it.
pub fn learning_of(usual: &Arc<Learning>, source: &SourceConfig) -> Arc<Learning> {
    let with_ratio = source.policy.goes_by_ratio();
    match &source.time_zone {
        None if !with_ratio => Arc::clone(usual),
        zone => {
            let zone = zone.as_ref().unwrap_or(&usual.zone).clone();
            let bursts = burst::BurstParams { with_ratio, ..usual.bursts };
            Arc::new(usual.with(zone, bursts))
        }
    }
}

/// The default learning parameters, for sources without their own time zone.
pub fn usual(config: &Config) -> Arc<Learning> {
    Arc::new(learning(config, config.importance.time_zone.clone()))
}

/// The learning parameters for a time zone.
pub fn learning(config: &Config, zone: TimeZone) -> Learning {
    let (half_life, cycle) = (config.rate.half_life, config.rate.cycle);
    Learning::new(zone, half_life, config.burst, cycle)
}

/// The age up to which probes count for some budget.
pub fn longest_budget_span(config: &Config) -> Span {
    config.sources.iter().map(|source| source.budget.per).max().unwrap_or(Span::ZERO) + Span::from_hours(1)
}

/// An engine that is ready to run, with the specs of its sources.
#[derive(Debug)]
pub struct Loaded {
    /// Contains all configured sources that are stored.
    pub engine: Engine,
    /// The specs of these sources.
    pub roster: Roster,
    /// Sources without a stored due time.
    pub unscheduled: Vec<SourceId>,
    /// The corrections of the clock so far.
    pub clock: StoredClock,
    /// Sources that may have ended an earlier daemon.
    pub suspects: Vec<CrashSuspect>,
    /// The time of the boot by the clock that all times are of.
    pub booted_at: Option<Timestamp>,
}

impl Loaded {
    /// Has the times of sources corrected that do not include all corrections of the clock. Before other writes.
    pub(super) fn correct_sources(&self, writes: &mpsc::UnboundedSender<Write>) {
        if self.clock.sources_behind() {
            // The task that joins the writer notices its end.
            let _ = writes.send(Write::CorrectSources { after: 0 });
        }
    }
}

/// Brings a store up to date that no other process writes, and builds an engine from it.
pub(super) async fn begin(
    config: &Config,
    connection: &mut Connection,
    clock: &Clock,
) -> Result<Loaded, StoreError> {
    let seen = ClockSeen::now(clock);
    if let Some(correction) = correct_at_start(connection, &seen).await? {
        tracing::warn!("the clock was {correction}; the schedule moves with it");
    }
    load::begin(connection, &config.sources, seen.reading.now, seen.boot.as_deref()).await?;
    let loaded = load_engine(config, connection, &seen).await?;
    Ok(Loaded { suspects: crashes::suspects(connection).await?, ..loaded })
}

/// Builds an engine with all configured sources that are stored.
pub async fn load_engine(
    config: &Config,
    connection: &mut Connection,
    seen: &ClockSeen,
) -> Result<Loaded, StoreError> {
    let now = seen.reading.now;
    let stored = load::stored_state(connection, seen).await?;
    let clock = stored.clock.clone();
    let mut startup = Startup::new(config, stored, now);
    let since = now - longest_budget_span(config);
    load::each(connection, &clock, now, since, |remembered| startup.take(remembered)).await?;
    let mut states = if config.rules.is_empty() { Vec::new() } else { rules::states(connection).await? };
    states.iter_mut().for_each(|state| state.shift(clock.unrecorded()));
    let loaded = startup.done(&config.rules, &states);
    Ok(Loaded { booted_at: Some(seen.reading.booted_at), ..loaded })
}

/// The rules, with the sources that each applies to.
pub fn rule_set(rules: &RulesConfig, roster: &Roster) -> RuleSet {
    let part = |(id, spec): (SourceId, &Spec)| {
        let parts = rules.of(&spec.source);
        (!parts.is_empty()).then(|| (id, parts.into_boxed_slice()))
    };
    let terms = rules.all().iter().map(|rule| Arc::clone(&rule.terms)).collect();
    RuleSet { terms, parts: roster.iter().filter_map(part).collect() }
}

/// Sources passed to the engine in one call. The engine spreads the first probes of a call over 3 s per
/// source, at most over the minimum spacing; this size allows more than 16 h.
const AT_A_TIME: usize = 20_000;

/// An engine that is filled source by source, so that the stored rows need not all be in memory.
#[derive(Debug)]
pub struct Startup<'c> {
    now: Timestamp,
    clock: StoredClock,
    /// After a restore each source may have been probed until now; that is counted as one probe.
    restored: Option<Timestamp>,
    usual: Arc<Learning>,
    sources: HashMap<&'c str, &'c Arc<SourceConfig>>,
    known: Vec<KnownSource>,
    first: Vec<KnownSource>,
    loader: Loader,
    roster: Roster,
    unscheduled: Vec<SourceId>,
}

impl<'c> Startup<'c> {
    /// Starts without sources.
    pub fn new(config: &'c Config, stored: StoredState, now: Timestamp) -> Self {
        let mut loader = Loader::new(config.fleet.clone(), stored.seed, now);
        for (host, paused_until, crawl_delay) in &stored.hosts {
            loader.host(host, *paused_until, *crawl_delay);
        }
        for (origin, delay) in &stored.crawl_delays {
            if let Ok(url) = Url::parse(origin) {
                loader.crawl_delay(&host_group(&url), origin, *delay);
            }
        }
        if let Some(price) = stored.price {
            loader.price(price);
        }
        // Before the first start that is now.
        let first_start = |at: Timestamp| if at.as_millis() == 0 { now } else { at.min(now) };
        Self {
            now,
            clock: stored.clock,
            restored: stored.restored.map(first_start),
            usual: usual(config),
            sources: config.sources.iter().map(|source| (&*source.name, source)).collect(),
            known: Vec::new(),
            first: Vec::new(),
            loader,
            roster: Roster::default(),
            unscheduled: Vec::new(),
        }
    }

    /// Adds a stored source, if it is configured.
    pub fn take(&mut self, remembered: Remembered) {
        let Remembered { id, name, mut memory, answered_at, mut probes } = remembered;
        let Some(source) = self.sources.get(name.as_str()) else { return };
        let spec = spec_by(&self.usual, source, memory.adopted_url.as_deref());
        // The first probe is due within the minimum spacing. A later due time results from a changed clock.
        let first = memory.due == Due::Unscheduled
            || memory.last_probe.is_none()
                && memory.due.at().is_some_and(|due| due > self.now + source.budget.min_spacing);
        if first {
            memory.due = Due::Unscheduled;
        }
        probes.extend(self.restored);
        let terms = terms(source, &spec.url());
        let answered_by = answered_at.and_then(|url| Url::parse(&url).ok()).map(|url| host_group(&url));
        let answered_by = answered_by.filter(|group| group.key != terms.host.key);
        self.roster.insert(id, spec);
        let group = if first { &mut self.first } else { &mut self.known };
        group.push(KnownSource { id, terms, memory, probes, answered_by, moved: Moved::Same });
        if first {
            self.unscheduled.push(id);
        }
        if group.len() >= AT_A_TIME {
            self.loader.sources(std::mem::take(group));
        }
    }

    /// Completes the engine with the rules and their stored states.
    pub fn done(mut self, rules: &RulesConfig, states: &[RuleState]) -> Loaded {
        self.loader.sources(self.known);
        self.loader.sources(self.first);
        if !rules.is_empty() {
            self.loader.rules(rule_set(rules, &self.roster), states);
        }
        Loaded {
            engine: self.loader.finish(),
            roster: self.roster,
            unscheduled: self.unscheduled,
            clock: self.clock,
            suspects: Vec::new(),
            booted_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the daemon keeps of a source beside the engine, without its name and address. Each byte that is added
    /// costs a megabyte for a million sources.
    #[test]
    fn a_source_takes_few_bytes() {
        assert_eq!(size_of::<Option<Spec>>(), 24);
        assert_eq!(size_of::<SourceConfig>(), 40);
    }
}
