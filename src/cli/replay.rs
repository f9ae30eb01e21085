//! `tidewatch replay`: what the last weeks would have been like with other budgets or policies.
//!
//! Takes what the store says was published and tries policies on it, with as many probes as were really
//! sent, beside the probes that were; then with more and with fewer; and says how many it would take for
//! half the delay. Knows what is asked and told. Must not know how a policy is tried.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::config::Config;
use crate::daemon::startup::usual;
use crate::store::past::{Past, Pasts};
use crate::store::reader::Reader;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::compare::{Pair, compare};
use tidewatch_lab::contest::{Matching, Rules, Who, hold};
use tidewatch_lab::feed::Watching;
use tidewatch_lab::score::{Score, Trial};
use tidewatch_lab::trace::{Exam, Trace};

use super::measures::length;
use super::simulate::progress::Bar;
use super::simulate::traces::{policy, show::delay};
use super::table::{Cell, Tone, cell, print};
use super::words::number;
use super::{CliError, colours, runtime};

/// What `replay` is asked.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The time up to the last probe that is played again, at most half of what the log holds.
    #[arg(long, value_name = "DURATION", default_value = "4w", value_parser = length)]
    test: Span,
    /// Who takes part beside the log, by names with commas between them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = policy,
        default_value = "auto,plan,uniform,ttl")]
    policies: Vec<Who>,
    /// What the first of them is tried with besides: so many times the probes that were sent.
    #[arg(long, value_name = "FACTORS", value_delimiter = ',', default_value = "0.5,2,4",
        value_parser = factor)]
    budgets: Vec<f64>,
    /// Only so many sources, spread evenly over all of them by name.
    #[arg(long, value_name = "COUNT", default_value = "200",
        value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,
    /// Equal seeds give equal runs.
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// One JSON document.
    #[arg(long)]
    json: bool,
}

fn factor(text: &str) -> Result<f64, String> {
    let wrong = || "a number above 0, such as 0.5 or 2".to_owned();
    text.trim().parse().ok().filter(|factor| (0.001..=1000.0).contains(factor)).ok_or_else(wrong)
}

/// The log of some sources, and what may be tried on it.
struct Log {
    traces: Vec<Trace>,
    /// What was really done, judged.
    really: Vec<Score>,
    since: Timestamp,
    until: Timestamp,
    /// Sources in the store, and how many of them have something to be judged by.
    sources: usize,
    judged: usize,
    /// Updates that are judged, of which it is only guessed when they were.
    guessed: usize,
}

/// A row of the table.
struct Row {
    name: String,
    factor: f64,
    /// As if all sources were one.
    score: Score,
    /// How many times the log's delay, over sources.
    ratio: Option<f64>,
}

/// Half the delay of the log.
struct Half {
    who: Who,
    factor: f64,
    probes_per_day: f64,
}

/// Rates are fitted no more often than this. It is played for many sources and policies, and a fit that
/// is some hours old is hardly another.
const FITTED_AT_MOST_EVERY: Span = Span::from_hours(6);

/// A log must be this long to tell anything.
const SHORTEST: Span = Span::from_hours(1);

/// Plays the log again.
pub fn run(config: &Config, arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    let policies = &arguments.policies;
    if let Some(twice) = (1..policies.len()).find(|&at| policies[..at].contains(&policies[at])) {
        return Err(CliError::Usage(format!("--policies names `{}` twice", policies[twice].name())));
    }
    let sample = arguments.sample as usize;
    let pasts =
        runtime()?.block_on(async { Reader::open(&config.daemon.store).await?.pasts(sample).await })?;
    let importance = Steps::try_from(&config.importance)
        .map_err(|error| CliError::Refused(format!("importance: {error}")))?;
    let log = log(config, pasts, arguments, &importance)?;
    let rules = rules(config, importance, arguments.seed);
    let contests = arguments.policies.len() + arguments.budgets.len() + HALVINGS;
    let bar = Bar::new((contests * log.traces.len()) as u64);
    let tick = || bar.forward(1);
    let mut rows = vec![log.row("as it was".to_owned(), 1.0, log.really.iter().map(Some).collect())];
    let contest = hold(&log.traces, &arguments.policies, &rules, &tick);
    for entrant in &contest.entrants {
        let scores = entrant.runs.iter().map(|run| run.as_ref().map(|run| &run.score)).collect();
        rows.push(log.row(entrant.who.name().to_owned(), 1.0, scores));
    }
    let first = arguments.policies.first().copied().unwrap_or(Who::Ours(Policy::Auto));
    for &factor in &arguments.budgets {
        rows.push(log.tried(first, factor, &rules, &tick));
    }
    let half = log.half(first, &rows, &rules, &tick);
    drop(bar);
    match arguments.json {
        true => writeln!(out, "{:#}", log.document(&rows, half.as_ref()))?,
        false => log.show(&rows, half.as_ref(), out)?,
    }
    Ok(())
}

/// Tries at which number of probes the delay is half.
const HALVINGS: usize = 6;

/// The fewest times the probes with which half the delay is looked for.
const FEWEST: f64 = 0.05;

/// The most.
const MOST: f64 = 50.0;

/// Sources are watched as the daemon would, but for those that have a time zone of their own.
fn rules(config: &Config, importance: Steps, seed: u64) -> Rules {
    let (learning, rate) = (usual(config), &config.rate);
    Rules {
        importance,
        matching: Matching::Probes,
        burst: config.fleet.burst,
        freshness_threshold: rate.freshness_threshold,
        refit_every: rate.refit_every.max(FITTED_AT_MOST_EVERY),
        echoes: rate.echoes,
        watching: Watching {
            zone: learning.zone.clone(),
            half_life: learning.half_life,
            cycle: learning.cycle,
            bursts: learning.bursts,
            borrow: rate.borrow,
            ..Watching::default()
        },
        seed,
        ..Rules::new(Budget::default())
    }
}

fn log(config: &Config, pasts: Pasts, arguments: &Args, importance: &Steps) -> Result<Log, CliError> {
    let Pasts { pasts, sources } = pasts;
    let begins = pasts.iter().filter_map(|past| past.probed.first()).min();
    let ends = pasts.iter().filter_map(|past| past.probed.last()).max();
    let store = config.daemon.store.display();
    let (Some(&begins), Some(&until)) = (begins, ends) else {
        return Err(CliError::Refused(format!(
            "{store} holds too few probes to be played again; let the daemon run for a day or two"
        )));
    };
    if until - begins < SHORTEST {
        return Err(CliError::Refused(format!(
            "the log in {store} is only {} long, too short to be played again; let the daemon run for a \
             day or two",
            until - begins
        )));
    }
    let test = arguments.test.min(Span::from_millis((until - begins).as_millis() / 2));
    let since = until - test;
    let terms: HashMap<&str, (Budget, Span)> =
        config.sources.iter().map(|source| (source.name.as_str(), (source.budget, source.price))).collect();
    let mut log = Log { traces: vec![], really: vec![], since, until, sources, judged: 0, guessed: 0 };
    for past in pasts {
        let first = past.probed.first().copied().unwrap_or(begins);
        // Nobody could have found what came before it was watched.
        let from = since.max(first);
        if until - from < SHORTEST.min(test) {
            continue;
        }
        let score = really(&past, from, until, importance);
        let (granted, price) = terms.get(past.name.as_str()).copied().unwrap_or_default();
        // As many probes as were sent, in the time in which they were.
        let per = (until - from).scaled(f64::from(granted.probes) / score.probes.max(1) as f64);
        log.judged += usize::from(score.updates > 0);
        log.guessed += past.guessed.iter().filter(|&&at| at > from && at <= until).count();
        log.really.push(score);
        log.traces.push(Trace {
            page: past.page,
            budget: Some(Budget { per, ..granted }),
            price: Some((price.as_secs_f64() / 3600.0) as f32),
            tried: Some(Exam { begins: first.min(from), from, to: until }),
            ..Trace::new(past.name, past.group.as_deref().unwrap_or("all"), past.published)
        });
    }
    Ok(log)
}

/// What was really done: a probe that failed found nothing, and was spent all the same.
fn really(past: &Past, from: Timestamp, to: Timestamp, importance: &Steps) -> Score {
    let by = |probes: &[Timestamp]| {
        Score::of(&Trial { events: &past.published, probes, from, to, importance, holds: usize::MAX })
    };
    Score { probes: by(&past.probed).probes, ..by(&past.answered) }
}

impl Log {
    fn row(&self, name: String, factor: f64, scores: Vec<Option<&Score>>) -> Row {
        let pairs: Vec<Pair> = scores
            .iter()
            .zip(&self.really)
            .filter_map(|(score, really)| Pair::of((*score)?, really))
            .collect();
        let ratio = compare(&pairs, 1).map(|compared| compared.geometric.value);
        Row { name, factor, score: Score::pooled(scores.into_iter().flatten()), ratio }
    }

    /// One policy with so many times the probes.
    fn tried(&self, who: Who, factor: f64, rules: &Rules, tick: &(dyn Fn() + Sync)) -> Row {
        let scaled = |trace: &Trace| {
            let budget =
                trace.budget.map(|budget| Budget { per: budget.per.scaled(1.0 / factor), ..budget });
            Trace { budget, ..trace.clone() }
        };
        let traces: Vec<Trace> = self.traces.iter().map(scaled).collect();
        let contest = hold(&traces, &[who], rules, tick);
        let runs = contest.entrants.iter().flat_map(|entrant| &entrant.runs);
        self.row(
            who.name().to_owned(),
            factor,
            runs.map(|run| run.as_ref().map(|run| &run.score)).collect(),
        )
    }

    /// How many times the probes would give half of the delay that the log has, between what was tried
    /// already.
    fn half(&self, who: Who, rows: &[Row], rules: &Rules, tick: &(dyn Fn() + Sync)) -> Option<Half> {
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

    fn show(&self, rows: &[Row], half: Option<&Half>, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "from {} to {}: {} of {} sources, of which {} published something",
            self.since,
            self.until,
            self.traces.len(),
            self.sources,
            self.judged
        )?;
        if self.guessed > 0 {
            writeln!(
                out,
                "of {} of the {} updates it is only known between which looks they came; the middle is taken",
                self.guessed,
                self.updates()
            )?;
        }
        writeln!(out)?;
        let heads =
            ["policy", "probes", "probes/day", "mean", "median", "p95", "worst", "useful", "× as it was"];
        let table = rows.iter().map(|row| self.cells(row)).collect::<Vec<_>>();
        print(out, &heads, &table, colours())?;
        match half {
            Some(half) => writeln!(
                out,
                "\nhalf the delay would take {} {} times the probes: {} a day for a source",
                half.who.name(),
                number(half.factor),
                number(half.probes_per_day)
            ),
            None if self.judged == 0 => {
                writeln!(out, "\nnothing was published in that time, so there is no delay to compare")
            }
            None => writeln!(out, "\nhalf the delay is out of reach of {MOST} times the probes"),
        }
    }

    /// Updates that are judged.
    fn updates(&self) -> usize {
        self.really.iter().map(|score| score.updates).sum()
    }

    fn cells(&self, row: &Row) -> Vec<Cell> {
        let score = &row.score;
        let tone = |ratio: f64| if ratio < 0.98 { Tone::Good } else { Tone::Plain };
        vec![
            cell(&row.name),
            cell(format!("× {}", number(row.factor))),
            cell(number(per_day(score))),
            cell(delay(score.mean_delay())),
            cell(delay(score.quantile(0.5))),
            cell(delay(score.quantile(0.95))),
            cell(delay(score.worst())),
            cell(format!("{:.0} %", 100.0 * score.useful as f64 / score.probes.max(1) as f64)),
            row.ratio.map_or(cell("–"), |ratio| cell(format!("{ratio:.2}")).tone(tone(ratio))),
        ]
    }

    fn document(&self, rows: &[Row], half: Option<&Half>) -> Value {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                let score = &row.score;
                json!({
                    "policy": row.name,
                    "factor": row.factor,
                    "updates": score.updates,
                    "probes": score.probes,
                    "probes_per_source_and_day": per_day(score),
                    "mean_delay_s": score.mean_delay(),
                    "p50_delay_s": score.quantile(0.5),
                    "p95_delay_s": score.quantile(0.95),
                    "worst_delay_s": score.worst(),
                    "obsolescence": score.obsolescence,
                    "useful": score.useful as f64 / score.probes.max(1) as f64,
                    "missed": score.missed(),
                    "ratio": row.ratio,
                })
            })
            .collect();
        json!({
            "since": self.since.iso(),
            "until": self.until.iso(),
            "sources": self.traces.len(),
            "sources_in_all": self.sources,
            "updates": self.updates(),
            "guessed": self.guessed,
            "policies": rows,
            "half_the_delay": half.map(|half| json!({
                "policy": half.who.name(),
                "factor": half.factor,
                "probes_per_source_and_day": half.probes_per_day,
            })),
        })
    }
}

/// Probes of a source and day.
fn per_day(score: &Score) -> f64 {
    // The spans of all sources that were tried, one after another.
    let days = score.span.as_secs_f64() / 86_400.0;
    score.probes as f64 / days.max(1e-9)
}
