//! Refits the rate of every source in the background.
//!
//! Reads the evidence in batches: first to aggregate each group, then to fit each source and, under policy
//! `auto`, to weigh its predictors. Fitting runs on blocking threads, and other tasks run between batches,
//! so a refit of a million sources delays no probe. Refits at the start (evidence may be newer than the
//! last fit), then every `refit_every`, at once when settings of the fit changed, and at the end if time
//! allows. Evidence with other settings than configured is learned again first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::{mpsc, watch};

use crate::clock::{Clock, real_pause};
use crate::config::configuration::Config;
use crate::store::StoreError;
use crate::store::attempts::moved;
use crate::store::clock::ClockSeen;
use crate::store::reader::{FitScope, HistoryRow, Reader};
use crate::store::record::RateRecord;
use crate::store::rhythm::{BurstSpan, UpdateTimesRow};
use crate::store::writer::{Write, commit};
use tidewatch_core::engine::event::EngineEvent;
use tidewatch_core::model::aggregate::{Aggregate, Borrow, EvidenceSum, estimate};
use tidewatch_core::model::censored;
use tidewatch_core::model::habits::mixture::PredictorMix;
use tidewatch_core::model::habits::update_times::UpdateTimes;
use tidewatch_core::model::habits::weights::{FEW, WEIGHED_FOR};
use tidewatch_core::model::history::{History, WeeklyEvidence};
use tidewatch_core::model::residuals::dispersion;
use tidewatch_core::model::silence;
use tidewatch_core::model::source_model::model_shift;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::messages::Control;
use super::relearn::relearn;
use super::startup::{Learning, usual};

/// The refit parameters of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct RefitParams {
    every: Span,
    cycle: Span,
    resolution: Span,
    borrow: Borrow,
    individual_threshold: f64,
    echoes: bool,
    usual: Arc<Learning>,
    /// Time zones of the sources that have their own, by name.
    zones: HashMap<String, TimeZone>,
}

impl RefitParams {
    /// Takes the parameters from a configuration.
    pub fn new(config: &Config) -> Self {
        let zones = config
            .sources
            .iter()
            .filter_map(|s| Some((s.name.to_string(), s.time_zone.clone()?)))
            .collect();
        let usual = usual(config);
        let rate = &config.rate;
        Self {
            every: rate.refit_every,
            cycle: rate.cycle,
            resolution: rate.resolution,
            borrow: rate.borrow,
            individual_threshold: rate.individual_threshold,
            echoes: rate.echoes,
            usual,
            zones,
        }
    }

    /// What the rate of a source with this policy takes from its group.
    fn borrow(&self, policy: Policy) -> Borrow {
        policy.borrow(self.borrow, self.individual_threshold)
    }

    fn learning(&self, name: &str) -> Arc<Learning> {
        match self.zones.get(name) {
            None => Arc::clone(&self.usual),
            Some(zone) => Arc::new(self.usual.with(zone.clone(), self.usual.bursts)),
        }
    }

    /// Whether the fits of sources without their own time zone are the same with these parameters.
    fn fits_alike(&self, other: &Self) -> bool {
        let of_all = |params: &Self| {
            let Self { cycle, resolution, borrow, echoes, .. } = *params;
            (cycle, resolution, borrow, echoes, params.usual.half_life)
        };
        of_all(self) == of_all(other) && self.usual.zone == other.usual.zone
    }

    /// The sources whose own time zone is another one with these parameters.
    fn with_other_zone(&self, other: &Self) -> Vec<String> {
        let names =
            self.zones.keys().chain(other.zones.keys().filter(|name| !self.zones.contains_key(*name)));
        names.filter(|name| self.zones.get(*name) != other.zones.get(*name)).cloned().collect()
    }
}

/// Fits on a blocking thread. If a source panics, the sources of the batch are fitted one by one, and only that source
/// has no result.
async fn fit_each(
    batch: Arc<Vec<FitSubject>>,
    fit: Arc<impl Fn(&FitSubject) -> RateRecord + Send + Sync + 'static>,
) -> Vec<RateRecord> {
    let (all, fit_one) = (Arc::clone(&batch), Arc::clone(&fit));
    if let Ok(rates) = tokio::task::spawn_blocking(move || all.iter().map(&*fit_one).collect()).await {
        return rates;
    }
    let mut rates = Vec::new();
    for index in 0..batch.len() {
        let (all, fit_one) = (Arc::clone(&batch), Arc::clone(&fit));
        match tokio::task::spawn_blocking(move || fit_one(&all[index])).await {
            Ok(rate) => rates.push(rate),
            Err(_) => {
                tracing::error!(
                    source = batch[index].id.0,
                    "the fit of this source's rate panicked; please report it"
                );
            }
        }
    }
    rates
}

/// Refits rates until it is dropped.
#[derive(Debug, Clone)]
pub struct Refitter {
    /// Source of the evidence.
    pub reader: Reader,
    /// Stores the rates.
    pub writes: mpsc::UnboundedSender<Write>,
    /// Receives an event for each batch of new rates.
    pub control: mpsc::UnboundedSender<Control>,
    /// The clock.
    pub clock: Clock,
    /// The current parameters.
    pub params: watch::Receiver<Arc<RefitParams>>,
}

/// Sources per batch.
const BATCH: u32 = 500;

/// Sources whose rates one transaction stores: each has up to 168 segments.
const STORED_AT_A_TIME: usize = 50;

/// Interval between searches for sources without a rate.
const NEW_SOURCES_EVERY: Span = Span::from_mins(10);

/// The aggregated evidence of each group, by name.
type FitGroups = Arc<HashMap<String, Aggregate>>;

impl Refitter {
    /// Refits at the start, every `refit_every`, when settings of the fit change, and when the clock was set so far
    /// that models move. In between, fits new sources soon after their first probe, and sources whose own time zone
    /// changed.
    pub async fn run(mut self) {
        let mut groups = FitGroups::default();
        // Time and parameters of the last refit.
        let mut last: Option<(Timestamp, Arc<RefitParams>)> = None;
        let mut alarm = self.clock.alarm();
        let mut clock_watch = self.clock.watch(None);
        loop {
            let (now, set_by) = clock_watch.read();
            let set_by = set_by.unwrap_or(Span::ZERO);
            if let Some((at, _)) = &mut last {
                *at += set_by;
            }
            let moved = model_shift(set_by) != Span::ZERO;
            if moved {
                self.correction_is_stored().await;
            }
            let params = Arc::clone(&self.params.borrow_and_update());
            let due = |at: Timestamp| at + params.every;
            let last_refit = match last.take() {
                Some((at, before)) if !moved && now < due(at) && params.fits_alike(&before) => {
                    let rezoned = params.with_other_zone(&before);
                    if !rezoned.is_empty() {
                        self.fit_some(&groups, now, FitScope::Named(&rezoned)).await;
                    }
                    self.fit_some(&groups, now, FitScope::WithoutRate).await;
                    at
                }
                _ => {
                    match self.aggregate_groups(now).await {
                        Ok(aggregated) => groups = aggregated,
                        Err(error) => tracing::warn!(%error, "the evidence of groups cannot be read now"),
                    }
                    self.fit_some(&groups, now, FitScope::All).await;
                    now
                }
            };
            alarm.set(Some(due(last_refit).min(now + NEW_SOURCES_EVERY)));
            last = Some((last_refit, params));
            tokio::select! {
                () = alarm.wait() => {}
                () = has_changed(&mut self.params) => {}
            }
        }
    }

    /// Returns when the correction of the clock is stored, by which the log is read; after a minute in any case.
    async fn correction_is_stored(&self) {
        for _ in 0..600 {
            let seen = ClockSeen::now(&self.clock);
            if let (Ok(stored), Ok(corrected)) =
                (self.reader.corrected().await, self.reader.corrected_at(&seen).await)
                && stored == corrected
            {
                return;
            }
            real_pause(Duration::from_millis(100)).await;
        }
    }

    /// Fits every source that has evidence. Returns their number.
    pub async fn refit(&self, now: Timestamp) -> Result<usize, StoreError> {
        let groups = self.aggregate_groups(now).await?;
        self.fit_all(&groups, now, FitScope::All).await
    }

    async fn fit_some(&self, groups: &FitGroups, now: Timestamp, scope: FitScope<'_>) {
        match self.fit_all(groups, now, scope).await {
            Ok(fitted) => tracing::debug!(fitted, "rates fitted"),
            Err(error) => tracing::warn!(%error, "rates cannot be fitted now; trying again later"),
        }
    }

    /// The aggregated evidence of each group, by name.
    async fn aggregate_groups(&self, now: Timestamp) -> Result<FitGroups, StoreError> {
        let mut groups: HashMap<String, EvidenceSum> = HashMap::new();
        let mut after = SourceId(i64::MIN);
        loop {
            let batch = self.batch(after, now, FitScope::All).await?;
            let Some(last) = batch.last() else { break };
            after = last.id;
            for source in batch {
                if let Some(group) = source.group {
                    groups.entry(group).or_default().add(&source.evidence);
                }
            }
        }
        Ok(Arc::new(groups.into_iter().map(|(name, evidence)| (name, evidence.aggregate())).collect()))
    }

    async fn fit_all(
        &self,
        groups: &FitGroups,
        now: Timestamp,
        scope: FitScope<'_>,
    ) -> Result<usize, StoreError> {
        let params = Arc::clone(&self.params.borrow());
        let echoes = params.echoes;
        let mut fitted = 0;
        let mut after = SourceId(i64::MIN);
        loop {
            let batch = self.batch(after, now, scope).await?;
            let Some(last) = batch.last() else { break };
            after = last.id;
            // Plans of `auto` use predictors, and the tests for bursts and silence of every source.
            let ids: Vec<SourceId> = batch.iter().map(|source| source.id).collect();
            let update_times = self.reader.update_times(&ids).await?;
            let (groups, params) = (Arc::clone(groups), Arc::clone(&params));
            let fit_one = move |source: &FitSubject| {
                let (record, rhythm) = fit(source, &groups, params.borrow(source.policy), now);
                let weighed = update_times.get(&source.id).and_then(|row| weigh(row, &rhythm, now, echoes));
                RateRecord { habits: weighed.map(|habits| habits.to_bytes()), ..record }
            };
            let rates = fit_each(Arc::new(batch), Arc::new(fit_one)).await;
            fitted += rates.len();
            let ids = rates.iter().map(|rate| rate.source).collect();
            self.publish(rates).await?;
            // If the scheduler has ended, no plan needs the rates.
            let _ = self.control.send(Control::Event(EngineEvent::RatesFitted(ids)));
        }
        Ok(fitted)
    }

    /// Stores rates, and returns when they can be read. Writes small parts, so that records of probes are
    /// not delayed.
    async fn publish(&self, mut rates: Vec<RateRecord>) -> Result<(), StoreError> {
        while !rates.is_empty() {
            let some = rates.split_off(rates.len().saturating_sub(STORED_AT_A_TIME));
            commit(&self.writes, Write::Rates(some)).await?;
        }
        Ok(())
    }

    /// The next batch of sources, with their evidence as of `now` by the current settings.
    async fn batch(
        &self,
        after: SourceId,
        now: Timestamp,
        scope: FitScope<'_>,
    ) -> Result<Vec<FitSubject>, StoreError> {
        let params = Arc::clone(&self.params.borrow());
        let histories = self.reader.histories(after, BATCH, scope).await?;
        let with_settings = |row: HistoryRow| {
            let learning = params.learning(&row.name);
            (row, learning)
        };
        let mut histories: Vec<_> = histories.into_iter().map(with_settings).collect();
        let corrected = self.reader.corrected_at(&ClockSeen::now(&self.clock)).await?;
        relearn(&self.reader, &self.writes, &mut histories, (now, corrected)).await?;
        let mut rows = Vec::new();
        for (row, learning) in histories {
            let gaps = if row.blind { self.calm_gaps(row.id).await? } else { Vec::new() };
            rows.push((row, gaps, learning));
        }
        let (cycle, resolution) = (params.cycle, params.resolution);
        let read = move || -> Vec<FitSubject> {
            rows.into_iter()
                .map(|(row, gaps, learning)| {
                    FitSubject::read(row, &gaps, &learning, (now, corrected)).coarsened(cycle, resolution)
                })
                .collect()
        };
        // A panic while decoding evidence is a bug; it loses one refit.
        Ok(tokio::task::spawn_blocking(read).await.unwrap_or_default())
    }

    /// The intervals between consecutive probes of a source, and whether it changed in each. Leaves out the
    /// intervals within bursts and those before the last change of rhythm.
    async fn calm_gaps(&self, id: SourceId) -> Result<Vec<ProbeGap>, StoreError> {
        let probes = self.reader.probe_times(id).await?;
        let bursts = self.reader.burst_spans(id).await?;
        // The start of the last run of bursts that became the rhythm.
        let last_change = bursts.iter().rposition(|burst| burst.for_good);
        let since = last_change.map_or(Timestamp::MIN, |last| {
            let first = bursts[..=last].iter().rposition(|burst| !burst.for_good).map_or(0, |at| at + 1);
            bursts[first].began
        });
        let during = |from: Timestamp, until: Timestamp, burst: &BurstSpan| {
            !burst.for_good && burst.began < until && burst.ended.is_none_or(|ended| from < ended)
        };
        let since = self.reader.rhythm_since(id).await?.map_or(since, |changed| changed.max(since));
        let gaps = probes.windows(2).map(|pair| (pair[0].0, pair[1].0, pair[1].1));
        let calm = |&(from, until, _): &ProbeGap| {
            from >= since && !bursts.iter().any(|burst| during(from, until, burst))
        };
        Ok(gaps.filter(calm).collect())
    }
}

/// Returns when the parameters were set again; never if they cannot be.
async fn has_changed(params: &mut watch::Receiver<Arc<RefitParams>>) {
    if params.changed().await.is_err() {
        std::future::pending().await
    }
}

/// From one probe to the next, and whether the source changed in between.
type ProbeGap = (Timestamp, Timestamp, bool);

/// A source with the evidence for its fit.
#[derive(Debug)]
struct FitSubject {
    id: SourceId,
    policy: Policy,
    group: Option<String>,
    history: History,
    evidence: WeeklyEvidence,
}

impl FitSubject {
    /// By a clock that shows `now` and has these corrections.
    fn read(
        row: HistoryRow,
        gaps: &[ProbeGap],
        learning: &Learning,
        (now, corrected): (Timestamp, Span),
    ) -> Self {
        // If a page shows only whether it changed, all logged intervals together give more evidence than
        // the stored history.
        let history = match gaps.is_empty() {
            true => {
                let mut history = learning.history(Some(&row.bytes), now);
                history.shift(model_shift(corrected - row.model_corrected));
                let behind = corrected - row.corrected;
                let learned = row.learned.map(|learned| moved(learned, behind));
                silence::with_pending(history, learned, row.last_answer.map(|at| at + behind))
            }
            false => censored::from_probes(gaps, &learning.zone, learning.half_life, now),
        };
        let evidence = history.evidence(now);
        let policy = Policy::from_name(&row.policy).unwrap_or_default();
        Self { id: row.id, policy, group: row.group, history, evidence }
    }

    fn coarsened(self, cycle: Span, resolution: Span) -> Self {
        Self { evidence: self.evidence.coarsened(cycle, resolution), ..self }
    }
}

/// Fits a source's rate. Returns the record for the store, and the rate as steps.
fn fit(
    source: &FitSubject,
    groups: &HashMap<String, Aggregate>,
    borrow: Borrow,
    now: Timestamp,
) -> (RateRecord, Steps) {
    let zone = source.history.zone();
    let group = source.group.as_ref().and_then(|group| groups.get(group));
    let (fitted, origin) = estimate(&source.evidence, group, borrow, zone);
    let record = RateRecord {
        source: source.id,
        fitted_at: now,
        origin: origin.name(),
        cycle: fitted.cycle.name(),
        time_zone: zone.iana_name().unwrap_or("UTC").to_owned(),
        segments: fitted.rate.segments(),
        per_week: fitted.rate.per_week(),
        dispersion: dispersion(&source.evidence, &fitted.rate),
        updates: source.history.seen(),
        since: source.history.span().map(|(since, _)| since),
        habits: None,
    };
    (record, Steps::from(&fitted.rate))
}

/// Weighs the predictors on the stored update times. `None` if there are too few, or if current weights
/// exist.
fn weigh(row: &UpdateTimesRow, rhythm: &Steps, now: Timestamp, echoes: bool) -> Option<PredictorMix> {
    let before = row.habits.as_deref().and_then(PredictorMix::from_bytes);
    let recently = row.weighed_at.is_some_and(|at| at <= now && now - at < WEIGHED_FOR);
    if recently && before.is_some_and(|habits| echoes || habits.triggered_per_update() == 0.0) {
        return None;
    }
    let times = UpdateTimes::from_bytes(&row.update_times).filter(|times| times.entries().len() >= FEW)?;
    Some(PredictorMix::fit_weights(&times, rhythm, now, echoes))
}
