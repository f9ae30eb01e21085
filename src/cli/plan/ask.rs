//! Builds the planning problem from files, or from the configuration and the store. Options override
//! both.
//!
//! Knows defaults and the origin of each part. Must not know how a schedule is searched or shown.

use std::path::Path;

use jiff::tz::TimeZone;

use crate::cli::configured::{find_source, load};
use crate::cli::error::CliError;
use crate::cli::process::runtime;
use crate::clock::Clock;
use crate::config::configuration::Config;
use crate::config::curves::Curve;
use crate::config::load::curves;
use crate::config::source::SourceConfig;
use crate::store::load::remembered;
use crate::store::reader::Reader;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::obsolescence::Obsolescence;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::horizon::{Horizon, HorizonEnd};
use tidewatch_core::planning::plan_input;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::plans::problem::Problem;
use tidewatch_lab::words::{cut, exact};

use super::args::Args;
use super::closed::{self, skipped};

/// Longest horizon.
const LONGEST: Span = Span::from_days(3660);
/// Largest number of probes.
const MOST_PROBES: u32 = 1_000_000;

/// Inputs before options apply.
struct PlanSubject {
    title: String,
    rate: Steps,
    importance: Steps,
    /// Hints of the feed: skipped times and ttl.
    hints: FeedHints,
    notes: Vec<String>,
}

/// Builds the planning problem.
pub fn problem(arguments: &Args, config: Option<&Path>, now: Timestamp) -> Result<Problem, CliError> {
    if arguments.source.is_none() && arguments.rate.is_none() {
        let what = "name a source to plan for, or give a rate with --rate FILE";
        return Err(CliError::Usage(what.to_owned()));
    }
    if arguments.source.is_none() && arguments.probes.is_none() {
        return Err(CliError::Usage("say how many probes to plan, with --probes COUNT".to_owned()));
    }
    let config = arguments.source.as_ref().map(|_| load(config)).transpose()?;
    let source = match (&config, &arguments.source) {
        (Some(config), Some(name)) => Some((config, &**find_source(config, name)?)),
        _ => None,
    };
    let mut known = known(arguments, source)?;
    let zone = known.rate.zone().clone();
    let start = match &arguments.start {
        Some(text) => read_start(text, &zone)?,
        None if source.is_some() => rounded_up(now, arguments.grid),
        None => next_monday(now, &zone).unwrap_or(now),
    };
    let budget = source.map(|(_, source)| source.budget);
    let mut length = arguments.horizon.or(budget.map(|budget| budget.per)).unwrap_or(Span::from_days(7));
    if length > LONGEST {
        return Err(CliError::Refused(format!("--horizon can be at most {LONGEST}, and this is {length}")));
    }
    let year = Span::from_days(366);
    if jiff::Timestamp::from_millisecond((start + length + year).as_millis()).is_err() {
        return Err(CliError::Usage("--start is too far away to be planned for".to_owned()));
    }
    let mut windows: Vec<_> = skipped(&known.hints).into_iter().map(|w| (TimeZone::UTC, vec![w])).collect();
    windows.extend(arguments.closed.iter().map(|window| (zone.clone(), vec![window.0])));
    let mut closed = closed::times(&windows, start, start + length);
    if let Some(&(from, until)) = closed.last()
        && source.is_some()
        && arguments.horizon.is_none()
        && from > Span::ZERO
        && (from..until).contains(&length)
    {
        length = until;
        closed = closed::times(&windows, start, start + length);
        let note =
            format!("its end would be closed to probes, so the plan reaches further: {}", exact(until));
        known.notes.push(note);
    }
    let probes = match (arguments.probes, budget) {
        (Some(probes), _) => probes,
        (None, Some(budget)) if arguments.horizon.is_some() && length != budget.per => {
            let share = length.as_millis() as f64 / budget.per.as_millis().max(1) as f64;
            let probes = ((f64::from(budget.probes) * share + 1e-9).floor() as u32).max(1);
            let note = format!(
                "{probes} probes, because its budget is {} in {}; --probes changes that",
                budget.probes, budget.per
            );
            known.notes.push(note);
            probes
        }
        (None, budget) => budget.map_or(0, |budget| budget.probes),
    };
    if probes > MOST_PROBES {
        return Err(CliError::Refused(format!("--probes can be at most {MOST_PROBES}")));
    }
    let granted = budget.map_or(Span::ZERO, |budget| budget.min_spacing);
    let asked = plan_input::apart(granted, &known.hints, Span::ZERO);
    if arguments.min_spacing.is_none() && asked > granted {
        known
            .notes
            .push(format!("{asked} apart, because its feed asks for that; --min-spacing changes it"));
    }
    let min_spacing = arguments.min_spacing.unwrap_or(asked);
    let cost = Obsolescence::new(&known.rate, &known.importance, start, start + length);
    let horizon = Horizon {
        cost,
        probes,
        min_spacing,
        closed,
        allowance: Vec::new(),
        longest_gap: None,
        end: HorizonEnd::Probed,
    };
    let mut problem =
        Problem { title: known.title, start, zone, horizon, step: arguments.grid, notes: known.notes };
    if problem.updates() <= 0.0 {
        problem
            .notes
            .push("no updates are expected in this time, so every schedule costs nothing".to_owned());
    }
    Ok(problem)
}

fn known(arguments: &Args, source: Option<(&Config, &SourceConfig)>) -> Result<PlanSubject, CliError> {
    let files: Vec<(Curve, &Path)> = [
        arguments.rate.as_deref().map(|path| (Curve::Rate, path)),
        arguments.importance.as_deref().map(|path| (Curve::Importance, path)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut read = curves(&files)?.into_iter();
    let rate = arguments.rate.as_ref().and_then(|_| read.next());
    let importance = arguments.importance.as_ref().and_then(|_| read.next());
    let bad = |error| CliError::Refused(format!("the importance: {error}"));
    let mut known = match source {
        Some((config, source)) => {
            let stored = match &rate {
                // A given rate needs no store.
                Some(_) if !config.daemon.store.exists() => StoredSubject::default(),
                _ => runtime()?.block_on(stored(config, &source.name))?,
            };
            let fitted = match (&rate, stored.rate) {
                (Some(given), _) => given.clone(),
                (None, Some(rate)) => Steps::from(&rate),
                (None, None) => return Err(no_rate(&source.name)),
            };
            PlanSubject {
                title: cut(&source.name, 60),
                rate: fitted,
                importance: Steps::try_from(&config.importance).map_err(bad)?,
                hints: stored.hints,
                notes: Vec::new(),
            }
        }
        None => PlanSubject {
            title: file_name(arguments.rate.as_deref().unwrap_or(Path::new(""))),
            rate: rate.unwrap_or(Steps::constant(0.0).map_err(bad)?),
            importance: Steps::constant(1.0).map_err(bad)?,
            hints: FeedHints::default(),
            notes: Vec::new(),
        },
    };
    if known.hints.skip_hours != 0 || known.hints.skip_days != 0 {
        known.notes.push("the hours and days that its feed asks to skip are kept free".to_owned());
    }
    known.importance = importance.unwrap_or(known.importance);
    Ok(known)
}

fn file_name(path: &Path) -> String {
    cut(&path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()), 60)
}

fn no_rate(name: &str) -> CliError {
    CliError::Refused(format!(
        "no rate is known of `{name}` yet, so there is nothing to plan by: let the daemon probe it for a \
         while, or give a rate with --rate FILE"
    ))
}

/// Stored values of a source.
#[derive(Default)]
struct StoredSubject {
    rate: Option<Rate>,
    hints: FeedHints,
}

async fn stored(config: &Config, name: &str) -> Result<StoredSubject, CliError> {
    let reader = Reader::open(&config.daemon.store).await?;
    let Some(row) = reader.sources().await?.into_iter().find(|row| row.name == name) else {
        return Ok(StoredSubject::default());
    };
    let hints = remembered(&mut *reader.connection().await?, row.id, Clock::wall().now()).await?.hints;
    let segments = reader.rate_segments(row.id).await?;
    let Some(fit) = reader.fits().await?.remove(&row.id).filter(|_| !segments.is_empty()) else {
        return Ok(StoredSubject { rate: None, hints });
    };
    let zone = TimeZone::get(&fit.time_zone).unwrap_or(TimeZone::UTC);
    let broken = |error| CliError::Refused(format!("the stored rate of `{name}` is broken: {error}"));
    let rate = Rate::new(zone, segments.into_iter().map(|(_, end, rate)| (end, rate))).map_err(broken)?;
    Ok(StoredSubject { rate: Some(rate), hints })
}

/// Parses an instant with offset, or a local date or time.
fn read_start(text: &str, zone: &TimeZone) -> Result<Timestamp, CliError> {
    let local = || {
        let at: jiff::civil::DateTime = text.parse().ok()?;
        let at = at.to_zoned(zone.clone()).ok()?.timestamp();
        Some(Timestamp::from_millis(at.as_millisecond()))
    };
    Timestamp::parse_iso(text).or_else(local).ok_or_else(|| {
        CliError::Usage(format!(
            "--start: `{}` is not a time; write it like 2026-11-16T00:00:00Z",
            cut(text, 60)
        ))
    })
}

fn rounded_up(now: Timestamp, step: Span) -> Timestamp {
    let step = step.as_millis().max(1);
    let over = now.as_millis().rem_euclid(step);
    if over == 0 { now } else { now + Span::from_millis(step - over) }
}

/// Start of the next Monday.
fn next_monday(now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let today = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?.to_zoned(zone.clone()).date();
    let monday = today.nth_weekday(1, jiff::civil::Weekday::Monday).ok()?;
    let midnight = monday.to_zoned(zone.clone()).ok()?.timestamp();
    Some(Timestamp::from_millis(midnight.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    #[test]
    fn start_times_are_computed_and_parsed() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let monday = at("2026-11-16T00:00:00Z");
        assert_eq!(next_monday(monday, &TimeZone::UTC), Some(at("2026-11-23T00:00:00Z")));
        assert_eq!(next_monday(at("2026-11-15T22:59:00Z"), &berlin), Some(at("2026-11-15T23:00:00Z")));
        assert_eq!(rounded_up(monday, Span::from_mins(1)), monday);
        assert_eq!(
            rounded_up(monday + Span::from_millis(1), Span::from_mins(1)),
            monday + Span::from_mins(1)
        );
        assert_eq!(rounded_up(monday, Span::ZERO), monday);
        assert_eq!(read_start("2026-11-16T00:00:00Z", &berlin).unwrap(), monday);
        assert_eq!(read_start("2026-11-16T01:00:00+01:00", &berlin).unwrap(), monday);
        assert_eq!(read_start("2026-11-16T01:00", &berlin).unwrap(), monday);
        assert_eq!(read_start("2026-11-16", &TimeZone::UTC).unwrap(), monday);
        assert!(matches!(read_start("soon", &berlin), Err(CliError::Usage(_))));
    }
}
