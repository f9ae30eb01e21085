//! Checks the options and builds the question: traces, policies and rules.
//!
//! Knows limits and defaults. Must not run or show comparisons.

use std::sync::Arc;

use crate::cli::error::CliError;
use crate::config::curves::Curve;
use crate::config::load::{self, curves};
use tidewatch_core::engine::params::BurstTerms;
use tidewatch_core::model::burst::BurstParams;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::{Budget, PRICE};
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::contest::contest_terms::{ContestTerms, Matching};
use tidewatch_lab::contest::entrant_policy::EntrantPolicy;
use tidewatch_lab::contest::question::ContestQuestion;
use tidewatch_lab::learned_feed::Watching;
use tidewatch_lab::resample::resampled;
use tidewatch_lab::simulated_rules::SimulatedRules;
use tidewatch_lab::trace::Trace;
use tidewatch_lab::world::world;

use super::args::{Args, MatchArg};
use super::{read, rules};

/// Longest simulated time.
const LONGEST: Span = Span::from_days(3660);

const WEEK: Span = Span::from_days(7);

/// Extra weeks of a generated world. Each source is measured up to the day of its own last update,
/// which may be earlier than the end.
const OLDER_WEEKS: i64 = 4;

/// Factors of the extra budgets for a picture.
const AROUND: [f64; 3] = [0.25, 0.5, 2.0];

/// Checks the options and builds the question for the lab.
pub fn question(arguments: &Args) -> Result<ContestQuestion, CliError> {
    let policies = arguments.policies.clone();
    if let Some(twice) = (1..policies.len()).find(|&at| policies[..at].contains(&policies[at])) {
        return Err(CliError::Usage(format!("--policies names `{}` twice", policies[twice].name())));
    }
    rules::check_policies(&policies, arguments.profiles.is_some(), "give --profiles FILE")?;
    check_papers(&policies, arguments)?;
    let length = arguments.train + arguments.test;
    if length > LONGEST {
        return Err(CliError::Refused(format!(
            "--train and --test can be {LONGEST} together at most, and these are {length}"
        )));
    }
    let budgets = budgets(arguments)?;
    // Policies as shipped have one setting each.
    let around = match (&budgets[..], arguments.is_drawn() && !arguments.as_shipped) {
        (&[only], true) => around(only),
        _ => Vec::new(),
    };
    let Some(&budget) = budgets.first() else {
        return Err(CliError::Usage("--budgets names none".to_owned()));
    };
    let (title, mut traces) = sources(arguments, length)?;
    let notes = notes(&traces, arguments);
    traces.retain(|trace| !trace.events.is_empty());
    if traces.is_empty() {
        return Err(CliError::Refused(format!("{title}: no source has published anything")));
    }
    let profiles = profiles(arguments, &mut traces)?;
    let rules = ContestTerms {
        train: arguments.train,
        test: arguments.test,
        importance: importance(arguments)?,
        holds: arguments.items as usize,
        pages: arguments.pages,
        latency: arguments.latency,
        errors: arguments.errors,
        matching: match arguments.matching {
            None => Matching::Nothing,
            Some(MatchArg::Probes) => Matching::Probes,
            Some(MatchArg::Total) => Matching::Total,
        },
        caps: arguments.caps,
        as_shipped: arguments.as_shipped,
        refit_every: arguments.refit_every,
        burst: BurstTerms::default(),
        individual_threshold: arguments.individual_threshold,
        watching: Watching {
            bursts: BurstParams {
                window: arguments.burst_window,
                threshold: arguments.burst_threshold,
                ..BurstParams::default()
            },
            ..Watching::default()
        },
        price: (if arguments.as_shipped { PRICE } else { arguments.price }.as_secs_f64() / 3600.0) as f32,
        echoes: !arguments.no_echoes,
        max_gap: arguments.max_gap,
        profiles,
        seed: arguments.seed,
        ..ContestTerms::new(budget)
    };
    Ok(ContestQuestion { title, traces, policies, rules, budgets, around, notes })
}

/// Refuses rules of papers without a price: they are parts of no program, and have no default.
fn check_papers(policies: &[EntrantPolicy], arguments: &Args) -> Result<(), CliError> {
    let is_paper = |policy: &&EntrantPolicy| matches!(policy, EntrantPolicy::Paper(_));
    let Some(paper) = policies.iter().find(is_paper) else { return Ok(()) };
    let has_price = arguments.matching.is_some() || arguments.price > Span::ZERO;
    let message = match (arguments.as_shipped, has_price) {
        (true, _) => "is a rule of a paper that no program ships; leave it out, or give --match",
        (false, false) => "has no default price; give --match or --price",
        (false, true) => return Ok(()),
    };
    Err(CliError::Usage(format!("`{}` {message}", paper.name())))
}

fn budgets(arguments: &Args) -> Result<Vec<Budget>, CliError> {
    if arguments.as_shipped {
        return Ok(vec![Budget::default()]);
    }
    let counts = match &arguments.budgets[..] {
        [] => &[arguments.probes][..],
        several => several,
    };
    let mut budgets: Vec<Budget> = Vec::with_capacity(counts.len());
    for &probes in counts {
        let budget = Budget { probes, per: arguments.per, min_spacing: arguments.min_spacing };
        if budget.even_gap() < Span::from_secs(1) {
            let per = arguments.per;
            return Err(CliError::Refused(format!("{probes} probes in {per} are more than one a second")));
        }
        let least = budget.even_gap().max(budget.min_spacing);
        if let Some(gap) = arguments.max_gap.filter(|&gap| gap < least) {
            return Err(CliError::Refused(format!(
                "--max-gap {gap} can't be kept with {probes} probes in {}, {} apart; allow at least {least}",
                arguments.per, arguments.min_spacing
            )));
        }
        if budgets.contains(&budget) {
            return Err(CliError::Usage(format!("--budgets names {probes} twice")));
        }
        budgets.push(budget);
    }
    Ok(budgets)
}

fn around(budget: Budget) -> Vec<Budget> {
    let times = |factor: f64| (f64::from(budget.probes) * factor).round().max(1.0) as u32;
    let mut counts: Vec<u32> = AROUND.into_iter().map(times).filter(|&n| n != budget.probes).collect();
    counts.dedup();
    counts.into_iter().map(|probes| Budget { probes, ..budget }).collect()
}

/// Reads the rules. A rule may depend on several sources, so all sources are then measured in the same
/// span.
fn profiles(arguments: &Args, traces: &mut [Trace]) -> Result<Option<Arc<SimulatedRules>>, CliError> {
    let Some(file) = &arguments.profiles else { return Ok(None) };
    let test_spans = traces.iter().filter_map(|trace| trace.test_span(arguments.train, arguments.test));
    let last = test_spans.max_by_key(|test_span| test_span.to);
    traces.iter_mut().for_each(|trace| trace.tried = last);
    let named: Vec<(&str, &str)> = traces.iter().map(|trace| (&*trace.name, &*trace.kind)).collect();
    let read = load::profiles(file, &named)?;
    Ok(rules::simulated(&read, named.into_iter().map(|(name, kind)| (name, Some(kind)))))
}

fn importance(arguments: &Args) -> Result<Steps, CliError> {
    let files: Vec<_> =
        arguments.importance.iter().map(|file| (Curve::Importance, file.as_path())).collect();
    let bad = |error| CliError::Refused(format!("the importance: {error}"));
    curves(&files)?.pop().map_or_else(|| Steps::constant(1.0).map_err(bad), Ok)
}

fn sources(arguments: &Args, length: Span) -> Result<(String, Vec<Trace>), CliError> {
    match (&arguments.traces, arguments.world) {
        (Some(folder), _) => {
            let kinds = arguments.kinds.as_deref().map(read::kinds).transpose()?;
            let mut traces = read::traces(folder, kinds.as_ref())?;
            if !arguments.resample {
                return Ok((folder.display().to_string(), traces));
            }
            for trace in &mut traces {
                if let Some(span) = trace.test_span(arguments.train, arguments.test) {
                    *trace = resampled(trace, span, arguments.seed);
                }
            }
            Ok((format!("{}, drawn anew", folder.display()), traces))
        }
        (None, Some(count)) => {
            let weeks = (length.as_millis() + WEEK.as_millis() - 1) / WEEK.as_millis() + OLDER_WEEKS;
            Ok(("a made-up world".to_owned(), world(count as usize, weeks, arguments.seed)))
        }
        (None, None) => Err(CliError::Usage("give --traces DIR or --world COUNT".to_owned())),
    }
}

/// A note on sources that cannot be measured, or not fairly.
fn notes(traces: &[Trace], arguments: &Args) -> Vec<String> {
    let (mut empty, mut silent, mut late) = (0, 0, 0);
    for trace in traces {
        let Some(test_span) = trace.test_span(arguments.train, arguments.test) else {
            empty += 1;
            continue;
        };
        let by = |at: Timestamp| trace.events.partition_point(|&event| event <= at);
        silent += usize::from(by(test_span.from) == by(test_span.to));
        late += usize::from(by(test_span.from) == 0);
    }
    let counted: Vec<String> = [
        (empty, "never published and left out"),
        (silent, "without an update in the test span, which cannot be measured"),
        (late, "without an update before the test span, of which nothing could be learned"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    if counted.is_empty() {
        Vec::new()
    } else {
        vec![format!("of {} sources, {}", traces.len(), counted.join(", "))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_budgets_differ_from_the_given_one() {
        let counts = |probes| {
            let budget = Budget { probes, ..Budget::default() };
            around(budget).iter().map(|budget| budget.probes).collect::<Vec<_>>()
        };
        assert_eq!(counts(24), [6, 12, 48]);
        assert_eq!(counts(2), [1, 4]);
        assert_eq!(counts(1), [2]);
    }
}
