//! A log played again: what the last weeks would have been like with other budgets or policies.
//!
//! Takes what sources published and tries policies on it with as many probes as were really sent, then with more
//! and with fewer, and finds how many it takes for half the delay. Must not know where the log comes from.

use std::io;

use serde::Serialize;

use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::time::{Span, Timestamp};

use crate::compare::{Pair, compare};
use crate::contest::document::{Deadlines, Rule, deadlines, rule_documents};
use crate::contest::entrant::Entrant;
use crate::contest::lateness::Lateness;
use crate::contest::results::lateness;
use crate::contest::rules::Rules;
use crate::contest::tables::{self, LATE, late};
use crate::contest::who::Who;
use crate::contest::{Contest, hold};
use crate::score::{Score, Trial};
use crate::served_rules::{RuleService, SourceProbes};
use crate::tables::{Emphasis, Entry, Table, entry};
use crate::trace::{Exam, Trace};
use crate::words::{delay, number};

/// A log must be this long to tell anything.
const SHORTEST: Span = Span::from_hours(1);

/// How many numbers of probes are tried to find half the delay.
pub const HALVINGS: usize = 6;

/// The fewest times the probes with which half the delay is looked for.
const FEWEST: f64 = 0.05;

/// The most.
const MOST: f64 = 50.0;

/// One source in the log.
#[derive(Debug, Clone)]
pub struct Logged {
    /// Its name.
    pub name: String,
    /// What kind it is of.
    pub kind: String,
    /// It is a page: a probe sees that something changed, not when.
    pub page: bool,
    /// When it published.
    pub published: Vec<Timestamp>,
    /// Of these, those that are only known to lie between two probes.
    pub guessed: Vec<Timestamp>,
    /// When it was probed.
    pub probed: Vec<Timestamp>,
    /// Of these, those that were answered.
    pub answered: Vec<Timestamp>,
    /// What may be spent on it.
    pub budget: Budget,
    /// What a probe must be worth.
    pub price: Span,
    /// It must be probed at least this often.
    pub max_gap: Option<Span>,
}

/// Why a log cannot be played again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooShort {
    /// There are no probes.
    Empty,
    /// It is only this long.
    Only(Span),
}

/// The log of some sources, and what may be tried on it.
#[derive(Debug)]
pub struct Log {
    traces: Vec<Trace>,
    /// What was really done, judged.
    really: Vec<Score>,
    /// When sources were really probed, and answered.
    probed: Vec<(Vec<Timestamp>, Vec<Timestamp>)>,
    since: Timestamp,
    until: Timestamp,
    /// Sources in the store.
    sources: usize,
    /// How many of them published something.
    judged: usize,
    /// Updates that are judged, of which it is only guessed when they were.
    guessed: usize,
}

/// One policy with one number of probes.
#[derive(Debug)]
pub struct Row {
    name: String,
    factor: f64,
    /// As if all sources were one.
    score: Score,
    /// How many times the log's delay, over sources.
    ratio: Option<f64>,
    /// How well deadlines were kept, where there are any.
    lateness: Option<Lateness>,
    /// How well each rule was served.
    rules: Vec<RuleService>,
}

/// What it takes for half the delay of the log.
#[derive(Debug)]
pub struct Half {
    who: Who,
    factor: f64,
    probes_per_day: f64,
}

/// The keys are in the order of the alphabet.
#[derive(Serialize)]
struct Document<'l> {
    guessed: usize,
    half_the_delay: Option<HalfDocument>,
    policies: Vec<RowDocument<'l>>,
    /// Only where there are profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<Rule<'l>>,
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
    deadlines: Option<Deadlines>,
}

impl Log {
    /// The log of these sources, out of so many: the last `test` of it, at most half.
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
        let mut log = Self { traces, really, probed, since, until, sources, judged: 0, guessed: 0 };
        for one in logged {
            let first = one.probed.first().copied().unwrap_or(begins);
            // What came before the first probe could not be found.
            let from = since.max(first);
            if until - from >= SHORTEST.min(test) {
                log.add(one, Exam { begins: first.min(from), from, to: until }, importance);
            }
        }
        Ok(log)
    }

    fn add(&mut self, one: Logged, exam: Exam, importance: &Steps) {
        let score = really(&one, &exam, importance);
        // As many probes as were sent, in the time in which they were.
        let per = (exam.to - exam.from).scaled(f64::from(one.budget.probes) / score.probes.max(1) as f64);
        self.judged += usize::from(score.updates > 0);
        self.guessed += one.guessed.iter().filter(|&&at| at > exam.from && at <= exam.to).count();
        self.really.push(score);
        self.probed.push((one.probed, one.answered));
        self.traces.push(Trace {
            page: one.page,
            budget: Some(Budget { per, ..one.budget }),
            price: Some((one.price.as_secs_f64() / 3600.0) as f32),
            max_gap: one.max_gap,
            tried: Some(exam),
            ..Trace::new(one.name, one.kind, one.published)
        });
    }

    /// How many sources are played again.
    pub fn len(&self) -> usize {
        self.traces.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// What was really done, and each of these policies with as many probes.
    pub fn rows(&self, policies: &[Who], rules: &Rules, tick: &(dyn Fn() + Sync)) -> Vec<Row> {
        let was = self.row("as it was".to_owned(), 1.0, self.really.iter().map(Some).collect());
        let mut rows = vec![Row { lateness: self.lateness(), rules: self.served(rules), ..was }];
        rows.extend(self.rows_of(&hold(&self.traces, policies, rules, tick), 1.0, rules));
        rows
    }

    /// A row per policy of a contest.
    fn rows_of(&self, contest: &Contest, factor: f64, rules: &Rules) -> Vec<Row> {
        let row = |entrant: &Entrant| {
            let scores = entrant.runs.iter().map(|run| run.as_ref().map(|run| &run.score)).collect();
            let profiles = rules.profiles.as_ref();
            Row {
                lateness: lateness(entrant),
                rules: profiles
                    .map(|rules| contest.served(entrant, &self.traces, rules))
                    .unwrap_or_default(),
                ..self.row(entrant.who.name().to_owned(), factor, scores)
            }
        };
        contest.entrants.iter().map(row).collect()
    }

    /// How well deadlines were really kept.
    fn lateness(&self) -> Option<Lateness> {
        let each = self.traces.iter().zip(&self.probed).filter_map(|(trace, (probed, _))| {
            Some(Lateness::of(probed, trace.tried.as_ref()?, trace.max_gap?))
        });
        let all: Vec<Lateness> = each.collect();
        (!all.is_empty()).then(|| Lateness::pooled(&all))
    }

    /// How well rules were really served: a probe that failed served none. For which rule a probe was sent is
    /// not in the log.
    fn served(&self, rules: &Rules) -> Vec<RuleService> {
        let Some(rules) = &rules.profiles else { return Vec::new() };
        let exams: Option<Vec<Exam>> = self.traces.iter().map(|trace| trace.tried).collect();
        let answered = self.probed.iter().map(|(_, answered)| &answered[..]);
        let probes: Vec<SourceProbes<'_>> =
            answered.map(|times| SourceProbes { times, for_rules: None }).collect();
        exams.map(|exams| rules.served(&self.traces, &exams, &probes)).unwrap_or_default()
    }

    fn row(&self, name: String, factor: f64, scores: Vec<Option<&Score>>) -> Row {
        let pairs: Vec<Pair> = scores
            .iter()
            .zip(&self.really)
            .filter_map(|(score, really)| Pair::of((*score)?, really))
            .collect();
        let ratio = compare(&pairs, 1).map(|compared| compared.geometric.value);
        let score = Score::pooled(scores.into_iter().flatten());
        Row { name, factor, score, ratio, lateness: None, rules: Vec::new() }
    }

    /// One policy with so many times the probes.
    pub fn tried(&self, who: Who, factor: f64, rules: &Rules, tick: &(dyn Fn() + Sync)) -> Row {
        let scaled = |trace: &Trace| {
            let budget =
                trace.budget.map(|budget| Budget { per: budget.per.scaled(1.0 / factor), ..budget });
            Trace { budget, ..trace.clone() }
        };
        let traces: Vec<Trace> = self.traces.iter().map(scaled).collect();
        let mut rows = self.rows_of(&hold(&traces, &[who], rules, tick), factor, rules);
        rows.pop().unwrap_or_else(|| self.row(who.name().to_owned(), factor, Vec::new()))
    }

    /// How many times the probes would give half of the delay that the log has, between what was tried
    /// already.
    pub fn half(&self, who: Who, rows: &[Row], rules: &Rules, tick: &(dyn Fn() + Sync)) -> Option<Half> {
        let goal = rows.first()?.score.mean_delay()? / 2.0;
        let reached = |row: &Row| row.score.mean_delay().is_some_and(|delay| delay <= goal);
        let half = |row: &Row| Half { who, factor: row.factor, probes_per_day: per_day(&row.score) };
        let tried = || rows.iter().skip(1).filter(|row| row.name == who.name());
        let least = tried().filter(|row| reached(row)).min_by(|a, b| a.factor.total_cmp(&b.factor));
        let mut found = least.map(half);
        let mut high = least.map_or(MOST, |row| row.factor);
        let below = tried().map(|row| row.factor).filter(|&factor| factor < high);
        let mut low = below.fold(FEWEST.min(high), f64::max);
        for _ in 0..HALVINGS {
            let row = self.tried(who, (low * high).sqrt(), rules, tick);
            if reached(&row) {
                (high, found) = (row.factor, Some(half(&row)));
            } else {
                low = row.factor;
            }
        }
        found
    }

    /// What was played again, line by line.
    pub fn head(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "from {} to {}: {} of {} sources, of which {} published something",
            self.since,
            self.until,
            self.traces.len(),
            self.sources,
            self.judged
        )];
        if self.guessed > 0 {
            lines.push(format!(
                "of {} of the {} updates it is only known between which looks they came; the middle is taken",
                self.guessed,
                self.updates()
            ));
        }
        lines
    }

    /// What half the delay would take.
    pub fn foot(&self, half: Option<&Half>) -> String {
        match half {
            Some(half) => format!(
                "half the delay would take {} {} times the probes: {} a day for a source",
                half.who.name(),
                number(half.factor),
                number(half.probes_per_day)
            ),
            None if self.judged == 0 => {
                "nothing was published in that time, so there is no delay to compare".to_owned()
            }
            None => format!("half the delay is out of reach of {MOST} times the probes"),
        }
    }

    /// Updates that are judged.
    fn updates(&self) -> usize {
        self.really.iter().map(|score| score.updates).sum()
    }

    /// The document for programs.
    pub fn to_json(&self, rows: &[Row], half: Option<&Half>) -> io::Result<String> {
        let document = Document {
            guessed: self.guessed,
            half_the_delay: half.map(|half| HalfDocument {
                factor: half.factor,
                policy: half.who.name(),
                probes_per_source_and_day: half.probes_per_day,
            }),
            policies: rows.iter().map(Row::document).collect(),
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

impl Row {
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

    fn entries(&self) -> Vec<Entry> {
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

/// A row per policy and number of probes.
pub fn table(rows: &[Row]) -> Table {
    let heads =
        ["policy", "probes", "probes/day", "mean", "median", "p95", "worst", "useful", "× as it was"];
    let mut table = Table::new(heads, rows.iter().map(Row::entries).collect());
    if rows.iter().any(|row| row.lateness.is_some()) {
        table.heads.extend(LATE.map(str::to_owned));
        for (cells, row) in table.rows.iter_mut().zip(rows) {
            cells.extend(late(row.lateness.as_ref()));
        }
    }
    table
}

/// How well rules were served, by policies with as many probes as were sent; `None` without rules.
pub fn rules_table(rows: &[Row]) -> Option<Table> {
    let served = || first_of_each(rows).map(|row| (row.name.as_str(), &row.rules[..]));
    served().any(|(_, rules)| !rules.is_empty()).then(|| tables::rules(served()))
}

/// The rows with as many probes as were sent.
fn first_of_each(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.factor == 1.0)
}

/// What was really done: a probe that failed found nothing, and was spent all the same.
fn really(one: &Logged, exam: &Exam, importance: &Steps) -> Score {
    let by = |probes: &[Timestamp]| {
        let Exam { from, to, .. } = *exam;
        Score::of(&Trial { events: &one.published, probes, from, to, importance, holds: usize::MAX })
    };
    Score { probes: by(&one.probed).probes, ..by(&one.answered) }
}

/// Probes of a source and day.
fn per_day(score: &Score) -> f64 {
    // The spans of all sources that were tried, one after another.
    let days = score.span.as_secs_f64() / 86_400.0;
    score.probes as f64 / days.max(1e-9)
}
