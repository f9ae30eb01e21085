//! `tidewatch replay`: estimates the last weeks with other budgets or policies.
//!
//! Runs policies on the stored publications with the same number of probes, and compares them with the
//! real probes. Then runs one policy with more and fewer probes, and estimates the number for half the
//! delay. Knows options and output. Must not know how a policy is simulated.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use crate::config::configuration::Config;
use crate::daemon::startup::usual;
use crate::store::past::{Past, Pasts};
use crate::store::reader::Reader;
use tidewatch_core::engine::params::Pricing;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::{Budget, PRICE};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;
use tidewatch_lab::contest::contest_terms::{ContestTerms, Matching};
use tidewatch_lab::contest::entrant_policy::EntrantPolicy;
use tidewatch_lab::contest::tables::BY_RULE;
use tidewatch_lab::learned_feed::Watching;
use tidewatch_lab::replay::{HALVINGS, Log, Logged, TooShort, rules_table, table};
use tidewatch_lab::simulated_rules::SimulatedRules;

use super::error::CliError;
use super::lab_table::print;
use super::measures::length;
use super::process::{colours, runtime};
use super::simulate::progress::Bar;
use super::simulate::traces::args::policy;
use super::simulate::traces::rules::{check_policies, simulated};

/// Options of `replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Length of the replay, up to the last probe; at most half of the log.
    #[arg(long, value_name = "DURATION", default_value = "4w", value_parser = length)]
    test: Span,
    /// Policies to compare with the log, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = policy,
        default_value = "auto,plan,uniform,ttl")]
    policies: Vec<EntrantPolicy>,
    /// Extra budgets for the first policy, as multiples of the probes that were sent.
    #[arg(long, value_name = "FACTORS", value_delimiter = ',', default_value = "0.5,2,4",
        value_parser = factor)]
    budgets: Vec<f64>,
    /// Largest number of sources, spread evenly over all of them by name.
    #[arg(long, value_name = "COUNT", default_value = "200",
        value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,
    /// Random seed; equal seeds give equal runs.
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn factor(text: &str) -> Result<f64, String> {
    let wrong = || "a number above 0, such as 0.5 or 2".to_owned();
    text.trim().parse().ok().filter(|factor| (0.001..=1000.0).contains(factor)).ok_or_else(wrong)
}

/// Shortest time between two fits. A replay fits rates for many sources and policies, and a fit some
/// hours old differs little.
const FITTED_AT_MOST_EVERY: Span = Span::from_hours(6);

/// Replays the log.
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
    let profiles = profiles(config);
    check_policies(policies, profiles.is_some(), "add a `[[profile]]`")?;
    let log = log(config, pasts, arguments, &importance)?;
    let rules = ContestTerms { profiles, ..rules(config, importance, arguments.seed) };
    let contests = arguments.policies.len() + arguments.budgets.len() + HALVINGS;
    let bar = Bar::new((contests * log.len()) as u64);
    let tick = || bar.forward(1);
    let mut rows = log.rows(&arguments.policies, &rules, &tick);
    let first = arguments.policies.first().copied().unwrap_or(EntrantPolicy::Ours(Policy::Auto));
    for &factor in &arguments.budgets {
        rows.push(log.tried(first, factor, &rules, &tick));
    }
    let half = log.half(first, &rows, &rules, &tick);
    drop(bar);
    if arguments.json {
        writeln!(out, "{}", log.to_json(&rows, half.as_ref())?)?;
        return Ok(());
    }
    for line in log.head() {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    print(&table(&rows), colours(), out)?;
    if let Some(rules) = rules_table(&rows) {
        writeln!(out, "\n{BY_RULE}:")?;
        print(&rules, colours(), out)?;
    }
    writeln!(out, "\n{}", log.foot(half.as_ref()))?;
    Ok(())
}

/// Settings as in the daemon, except for time zones of single sources.
fn rules(config: &Config, importance: Steps, seed: u64) -> ContestTerms {
    let (learning, rate) = (usual(config), &config.rate);
    ContestTerms {
        importance,
        matching: Matching::Probes,
        burst: config.fleet.burst,
        freshness_threshold: rate.freshness_threshold,
        individual_threshold: rate.individual_threshold,
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
        ..ContestTerms::new(Budget::default())
    }
}

/// The configured rules, for the configured sources.
fn profiles(config: &Config) -> Option<Arc<SimulatedRules>> {
    let sources = config.sources.iter().map(|source| (&*source.name, source.group.as_deref()));
    simulated(&config.rules, sources)
}

fn log(config: &Config, pasts: Pasts, arguments: &Args, importance: &Steps) -> Result<Log, CliError> {
    let Pasts { pasts, sources } = pasts;
    // With a total the price varies; the default stands for it.
    let common = match config.fleet.pricing {
        Pricing::Price(hours) => Span::from_hours(1).scaled(f64::from(hours)),
        Pricing::Total { .. } => PRICE,
    };
    let terms: HashMap<&str, (Budget, Span, Option<Span>)> = config
        .sources
        .iter()
        .map(|source| (&*source.name, (source.budget, source.price.unwrap_or(common), source.max_gap)))
        .collect();
    let logged = |past: Past| {
        let (budget, price, max_gap) = terms.get(past.name.as_str()).copied().unwrap_or_default();
        Logged {
            name: past.name,
            kind: past.group.unwrap_or_else(|| "all".to_owned()),
            page: past.page,
            published: past.published,
            guessed: past.guessed,
            probed: past.probed,
            answered: past.answered,
            budget,
            price,
            max_gap,
        }
    };
    let store = config.daemon.store.display();
    Log::new(pasts.into_iter().map(logged).collect(), sources, arguments.test, importance).map_err(|error| {
        CliError::Refused(match error {
            TooShort::Empty => {
                format!("{store} holds too few probes to be played again; let the daemon run for a day or two")
            }
            TooShort::Only(length) => format!(
                "the log in {store} is only {length} long, too short to be played again; let the daemon run \
                 for a day or two"
            ),
        })
    })
}
