//! Replays a log with other budgets or policies.
//!
//! It takes the updates that sources published and runs policies on them with the logged number of probes,
//! then with more and fewer. It also finds how many probes halve the delay. Must not know the origin of the
//! log.

use std::io;

use serde::Serialize;

use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::time::{Span, Timestamp};

use crate::compare::{Pair, compare};
use crate::contest::contest_terms::ContestTerms;
use crate::contest::deadline_score::DeadlineScore;
use crate::contest::document::{DeadlineEntry, RuleEntry, deadlines, rule_documents};
use crate::contest::entrant::Entrant;
use crate::contest::entrant_policy::EntrantPolicy;
use crate::contest::results::lateness;
use crate::contest::tables::{self, LATE, late};
use crate::contest::{Contest, hold};
use crate::score::{Score, ScoredProbes};
use crate::simulated_rules::{RuleScore, SourceProbes};
use crate::tables::{Emphasis, ResultTable, TableEntry, entry};
use crate::trace::{TestSpan, Trace};
use crate::words::{delay, number};

/// Minimum length of a log.
const SHORTEST: Span = Span::from_hours(1);

/// Number of bisection steps in the search for half the delay.
pub const HALVINGS: usize = 6;

/// The smallest factor on the number of probes in that search.
const FEWEST: f64 = 0.05;

/// The largest factor.
const MOST: f64 = 50.0;

/// One source in the log.
#[derive(Debug, Clone)]
pub struct Logged {
    /// Its name.
    pub name: String,
    /// Its group.
    pub kind: String,
    /// True if it is a page: a probe shows that something changed, not when.
    pub page: bool,
    /// Update times.
    pub published: Vec<Timestamp>,
    /// The update times that are only known to lie between two probes.
    pub guessed: Vec<Timestamp>,
    /// Probe times.
    pub probed: Vec<Timestamp>,
    /// The times of probes that succeeded.
    pub answered: Vec<Timestamp>,
    /// Its probe budget.
    pub budget: Budget,
    /// The minimum value of a probe.
    pub price: Span,
    /// The maximum interval between probes.
    pub max_gap: Option<Span>,
}

/// The reason why a log cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooShort {
    /// There are no probes.
    Empty,
    /// The log is only this long.
    Only(Span),
}

/// The log of some sources, prepared for runs of policies.
#[derive(Debug)]
pub struct Log {
    traces: Vec<Trace>,
    /// The scores of the logged probes.
    really: Vec<Score>,
    /// The logged probe times of each source: all, and those that succeeded.
    probed: Vec<(Vec<Timestamp>, Vec<Timestamp>)>,
    since: Timestamp,
    until: Timestamp,
    /// Sources in the store.
    sources: usize,
    /// Number of them with updates.
    with_updates: usize,
    /// Number of scored updates whose time is estimated.
    guessed: usize,
}

/// One policy with one number of probes.
#[derive(Debug)]
pub struct ReplayRow {
    name: String,
    factor: f64,
    /// Pooled over all sources.
    score: Score,
    /// The delay relative to the log's, as a geometric mean over sources.
    ratio: Option<f64>,
    /// How well deadlines were met, if there are any.
    lateness: Option<DeadlineScore>,
    /// How well each rule was met.
    rules: Vec<RuleScore>,
}

/// The number of probes that halves the log's delay.
#[derive(Debug)]
pub struct Half {
    policy: EntrantPolicy,
    factor: f64,
    probes_per_day: f64,
}

/// The keys are in alphabetical order.
#[derive(Serialize)]
struct ReplayDocument<'l> {
    guessed: usize,
    half_the_delay: Option<HalfDocument>,
    policies: Vec<RowDocument<'l>>,
    /// Only where there are profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<RuleEntry<'l>>,
    since: String,
    sources: usize,
    sources_in_all: usize,
    until: String,
    updates: usize,
}

#[derive(Serialize)]
struct HalfDocument {
    factor: f64,
    policy: &'static str,
    probes_per_source_and_day: f64,
}

#[derive(Serialize)]
struct RowDocument<'l> {
    factor: f64,
    mean_delay_s: Option<f64>,
    missed: f64,
    obsolescence: f64,
    p50_delay_s: Option<f64>,
    p95_delay_s: Option<f64>,
    policy: &'l str,
    probes: usize,
    probes_per_source_and_day: f64,
    ratio: Option<f64>,
    updates: usize,
    useful: f64,
    worst_delay_s: Option<f64>,
    #[serde(flatten)]
    deadlines: Option<DeadlineEntry>,
}

impl Log {
    /// Prepares the log of these sources, out of `sources` in the store. The last `test` of it is scored, at
    /// most half.
    pub fn new(
        logged: Vec<Logged>,
        sources: usize,
        test: Span,
        importance: &Steps,
    ) -> Result<Self, TooShort> {
        let begins = logged.iter().filter_map(|one| one.probed.first()).min();
        let ends = logged.iter().filter_map(|one| one.probed.last()).max();
        let (Some(&begins), Some(&until)) = (begins, ends) else { return Err(TooShort::Empty) };
        if until - begins < SHORTEST {
            return Err(TooShort::Only(until - begins));
        }
        let test = test.min(Span::from_millis((until - begins).as_millis() / 2));
        let since = until - test;
        let (traces, really, probed) = (vec![], vec![], vec![]);
        let mut log = Self { traces, really, probed, since, until, sources, with_updates: 0, guessed: 0 };
        for one in logged {
            let first = one.probed.first().copied().unwrap_or(begins);
            // Updates before the first probe could not be found.
            let from = since.max(first);
            if until - from >= SHORTEST.min(test) {
                log.add(one, TestSpan { begins: first.min(from), from, to: until }, importance);
            }
        }
        Ok(log)
    }

    fn add(&mut self, one: Logged, test_span: TestSpan, importance: &Steps) {
        let score = really(&one, &test_span, importance);
        // As many probes as were sent, in the same time.
        let per = (test_span.to - test_span.from)
            .scaled(f64::from(one.budget.probes) / score.probes.max(1) as f64);
        self.with_updates += usize::from(score.updates > 0);
        self.guessed += one.guessed.iter().filter(|&&at| at > test_span.from && at <= test_span.to).count();
        self.really.push(score);
        self.probed.push((one.probed, one.answered));
        self.traces.push(Trace {
            page: one.page,
            budget: Some(Budget { per, ..one.budget }),
            price: Some((one.price.as_secs_f64() / 3600.0) as f32),
            max_gap: one.max_gap,
            tried: Some(test_span),
            ..Trace::new(one.name, one.kind, one.published)
        });
    }

    /// Number of replayed sources.
    pub fn len(&self) -> usize {
        self.traces.len()
    }

    /// Whether no source is replayed.
    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// The logged result, and each of these policies with as many probes.
    pub fn rows(
        &self,
        policies: &[EntrantPolicy],
        rules: &ContestTerms,
        tick: &(dyn Fn() + Sync),
    ) -> Vec<ReplayRow> {
        let was = self.row("as it was".to_owned(), 1.0, self.really.iter().map(Some).collect());
        let mut rows = vec![ReplayRow { lateness: self.lateness(), rules: self.rule_scores(rules), ..was }];
        rows.extend(self.rows_of(&hold(&self.traces, policies, rules, tick), 1.0, rules));
        rows
    }

    /// A row per policy of a contest.
    fn rows_of(&self, contest: &Contest, factor: f64, rules: &ContestTerms) -> Vec<ReplayRow> {
        let row = |entrant: &Entrant| {
            let scores = entrant.runs.iter().map(|run| run.as_ref().map(|run| &run.score)).collect();
            let profiles = rules.profiles.as_ref();
            ReplayRow {
                lateness: lateness(entrant),
                rules: profiles
                    .map(|rules| contest.rule_scores(entrant, &self.traces, rules))
                    .unwrap_or_default(),
                ..self.row(entrant.policy.name().to_owned(), factor, scores)
            }
        };
        contest.entrants.iter().map(row).collect()
    }

    /// How well deadlines were met in the log.
    fn lateness(&self) -> Option<DeadlineScore> {
        let each = self.traces.iter().zip(&self.probed).filter_map(|(trace, (probed, _))| {
            Some(DeadlineScore::of(probed, trace.tried.as_ref()?, trace.max_gap?))
        });
        let all: Vec<DeadlineScore> = each.collect();
        (!all.is_empty()).then(|| DeadlineScore::pooled(&all))
    }

    /// How well rules were met in the log. A failed probe meets none. The log does not state the rule
    /// that a probe was sent for.
    fn rule_scores(&self, rules: &ContestTerms) -> Vec<RuleScore> {
        let Some(rules) = &rules.profiles else { return Vec::new() };
        let test_spans: Option<Vec<TestSpan>> = self.traces.iter().map(|trace| trace.tried).collect();
        let answered = self.probed.iter().map(|(_, answered)| &answered[..]);
        let probes: Vec<SourceProbes<'_>> =
            answered.map(|times| SourceProbes { times, for_rules: None }).collect();
        test_spans.map(|test_spans| rules.scores(&self.traces, &test_spans, &probes)).unwrap_or_default()
    }

    fn row(&self, name: String, factor: f64, scores: Vec<Option<&Score>>) -> ReplayRow {
        let pairs: Vec<Pair> = scores
            .iter()
            .zip(&self.really)
            .filter_map(|(score, really)| Pair::of((*score)?, really))
            .collect();
        let ratio = compare(&pairs, 1).map(|compared| compared.geometric.value);
        let score = Score::pooled(scores.into_iter().flatten());
        ReplayRow { name, factor, score, ratio, lateness: None, rules: Vec::new() }
    }

    /// Runs one policy with `factor` times the probes.
    pub fn tried(
        &self,
        policy: EntrantPolicy,
        factor: f64,
        rules: &ContestTerms,
        tick: &(dyn Fn() + Sync),
    ) -> ReplayRow {
        let scaled = |trace: &Trace| {
            let budget =
                trace.budget.map(|budget| Budget { per: budget.per.scaled(1.0 / factor), ..budget });
            Trace { budget, ..trace.clone() }
        };
        let traces: Vec<Trace> = self.traces.iter().map(scaled).collect();
        let mut rows = self.rows_of(&hold(&traces, &[policy], rules, tick), factor, rules);
        rows.pop().unwrap_or_else(|| self.row(policy.name().to_owned(), factor, Vec::new()))
    }

    /// Finds the factor on the number of probes that halves the log's delay, starting from the rows already
    /// computed.
    pub fn half(
        &self,
        policy: EntrantPolicy,
        rows: &[ReplayRow],
        rules: &ContestTerms,
        tick: &(dyn Fn() + Sync),
    ) -> Option<Half> {
        let goal = rows.first()?.score.mean_delay()? / 2.0;
        let reached = |row: &ReplayRow| row.score.mean_delay().is_some_and(|delay| delay <= goal);
        let half =
            |row: &ReplayRow| Half { policy, factor: row.factor, probes_per_day: per_day(&row.score) };
        let tried = || rows.iter().skip(1).filter(|row| row.name == policy.name());
        let least = tried().filter(|row| reached(row)).min_by(|a, b| a.factor.total_cmp(&b.factor));
        let mut found = least.map(half);
        let mut high = least.map_or(MOST, |row| row.factor);
        let below = tried().map(|row| row.factor).filter(|&factor| factor < high);
        let mut low = below.fold(FEWEST.min(high), f64::max);
        for _ in 0..HALVINGS {
            let row = self.tried(policy, (low * high).sqrt(), rules, tick);
            if reached(&row) {
                (high, found) = (row.factor, Some(half(&row)));
            } else {
                low = row.factor;
            }
        }
        found
    }

    /// A description of the replay, line by line.
    pub fn head(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "from {} to {}: {} of {} sources, of which {} published something",
            self.since,
            self.until,
            self.traces.len(),
            self.sources,
            self.with_updates
        )];
        if self.guessed > 0 {
            lines.push(format!(
                "of {} of the {} updates it is only known between which probes they came; the middle is \
                 taken",
                self.guessed,
                self.updates()
            ));
        }
        lines
    }

    /// A sentence on the probes for half the delay.
    pub fn foot(&self, half: Option<&Half>) -> String {
        match half {
            Some(half) => format!(
                "half the delay would take {} {} times the probes: {} a day for a source",
                half.policy.name(),
                number(half.factor),
                number(half.probes_per_day)
            ),
            None if self.with_updates == 0 => {
                "nothing was published in that time, so there is no delay to compare".to_owned()
            }
            None => format!("half the delay is out of reach of {MOST} times the probes"),
        }
    }

    /// Number of scored updates.
    fn updates(&self) -> usize {
        self.really.iter().map(|score| score.updates).sum()
    }

    /// The JSON document.
    pub fn to_json(&self, rows: &[ReplayRow], half: Option<&Half>) -> io::Result<String> {
        let document = ReplayDocument {
            guessed: self.guessed,
            half_the_delay: half.map(|half| HalfDocument {
                factor: half.factor,
                policy: half.policy.name(),
                probes_per_source_and_day: half.probes_per_day,
            }),
            policies: rows.iter().map(ReplayRow::document).collect(),
            rules: first_of_each(rows).flat_map(|row| rule_documents(&row.name, &row.rules)).collect(),
            since: self.since.iso(),
            sources: self.traces.len(),
            sources_in_all: self.sources,
            until: self.until.iso(),
            updates: self.updates(),
        };
        Ok(serde_json::to_string_pretty(&document)?)
    }
}

impl ReplayRow {
    fn document(&self) -> RowDocument<'_> {
        let score = &self.score;
        RowDocument {
            factor: self.factor,
            mean_delay_s: score.mean_delay(),
            missed: score.missed(),
            obsolescence: score.obsolescence,
            p50_delay_s: score.quantile(0.5),
            p95_delay_s: score.quantile(0.95),
            policy: &self.name,
            probes: score.probes,
            probes_per_source_and_day: per_day(score),
            ratio: self.ratio,
            updates: score.updates,
            useful: score.useful as f64 / score.probes.max(1) as f64,
            worst_delay_s: score.worst(),
            deadlines: self.lateness.as_ref().map(deadlines),
        }
    }

    fn entries(&self) -> Vec<TableEntry> {
        let score = &self.score;
        let emphasis = |ratio: f64| if ratio < 0.98 { Emphasis::Good } else { Emphasis::Plain };
        vec![
            entry(&self.name),
            entry(format!("× {}", number(self.factor))),
            entry(number(per_day(score))),
            entry(delay(score.mean_delay())),
            entry(delay(score.quantile(0.5))),
            entry(delay(score.quantile(0.95))),
            entry(delay(score.worst())),
            entry(format!("{:.0} %", 100.0 * score.useful as f64 / score.probes.max(1) as f64)),
            self.ratio.map_or(entry("–"), |ratio| entry(format!("{ratio:.2}")).marked(emphasis(ratio))),
        ]
    }
}

/// The table with a row per policy and number of probes.
pub fn table(rows: &[ReplayRow]) -> ResultTable {
    let heads =
        ["policy", "probes", "probes/day", "mean", "median", "p95", "worst", "useful", "× as it was"];
    let mut table = ResultTable::new(heads, rows.iter().map(ReplayRow::entries).collect());
    if rows.iter().any(|row| row.lateness.is_some()) {
        table.heads.extend(LATE.map(str::to_owned));
        for (cells, row) in table.rows.iter_mut().zip(rows) {
            cells.extend(late(row.lateness.as_ref()));
        }
    }
    table
}

/// How well policies with the logged number of probes met rules; `None` without rules.
pub fn rules_table(rows: &[ReplayRow]) -> Option<ResultTable> {
    let scores = || first_of_each(rows).map(|row| (row.name.as_str(), &row.rules[..]));
    scores().any(|(_, rules)| !rules.is_empty()).then(|| tables::rules(scores()))
}

/// The rows with the logged number of probes.
fn first_of_each(rows: &[ReplayRow]) -> impl Iterator<Item = &ReplayRow> {
    rows.iter().filter(|row| row.factor == 1.0)
}

/// The score of the log. A failed probe finds nothing and still counts as a probe.
fn really(one: &Logged, test_span: &TestSpan, importance: &Steps) -> Score {
    let by = |probes: &[Timestamp]| {
        let TestSpan { from, to, .. } = *test_span;
        Score::of(&ScoredProbes { events: &one.published, probes, from, to, importance, holds: usize::MAX })
    };
    Score { probes: by(&one.probed).probes, ..by(&one.answered) }
}

/// Probes per source and day.
fn per_day(score: &Score) -> f64 {
    // The sum of the scored spans of all sources.
    let days = score.span.as_secs_f64() / 86_400.0;
    score.probes as f64 / days.max(1e-9)
}
