//! The command: reads the fitted rate and shows it.

use std::io::Write;
use std::path::Path;

use jiff::tz::TimeZone;

use crate::clock::Clock;
use crate::config::configuration::Config;
use crate::store::reader::Reader;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::habits::mixture::PredictorMix;
use tidewatch_core::planning::policy::Policy;

use super::super::configured::find_source;
use super::super::error::CliError;
use super::super::files::write_file;
use super::super::process::{colours, runtime};
use super::document::to_json;
use super::known::StoredRhythm;
use super::show::show;
use super::svg::to_svg;

/// Shows the rhythm of a source; with `svg`, also draws it into that file.
pub fn run(
    config: &Config,
    name: &str,
    as_json: bool,
    svg: Option<&Path>,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    find_source(config, name)?;
    let now = Clock::wall().now();
    let rhythm = runtime()?.block_on(read(config, name))?;
    if let Some(file) = svg {
        write_file(file, &to_svg(&rhythm, now))?;
    }
    match (as_json, svg) {
        (true, _) => writeln!(out, "{:#}", to_json(&rhythm, now))?,
        (false, Some(file)) => writeln!(out, "drawn into {}", file.display())?,
        (false, None) => show(&rhythm, now, colours(), out)?,
    }
    Ok(())
}

async fn read(config: &Config, name: &str) -> Result<StoredRhythm, CliError> {
    let reader = Reader::open(&config.daemon.store).await?;
    let unknown = || CliError::Refused(format!("nothing is known of `{name}` yet; is the daemon running?"));
    let row = reader.sources().await?.into_iter().find(|row| row.name == name).ok_or_else(unknown)?;
    let fit = reader.fits().await?.remove(&row.id).ok_or_else(unknown)?;
    let zone = TimeZone::get(&fit.time_zone).unwrap_or(TimeZone::UTC);
    let segments = reader.rate_segments(row.id).await?;
    let broken = |error| CliError::Refused(format!("the stored rate of `{name}` is broken: {error}"));
    let rate = Rate::new(zone, segments.into_iter().map(|(_, end, rate)| (end, rate))).map_err(broken)?;
    // After a change of policy, the store may hold predictors that are no longer used.
    let update_times = match Policy::from_name(&row.policy) {
        Some(Policy::Auto) => reader.update_times(&[row.id]).await?.remove(&row.id),
        _ => None,
    };
    let habits = update_times.and_then(|row| row.habits).and_then(|bytes| PredictorMix::from_bytes(&bytes));
    Ok(StoredRhythm {
        name: row.name,
        rate,
        origin: fit.origin,
        cycle: fit.cycle,
        updates: fit.updates,
        since: fit.since,
        fitted_at: fit.fitted_at,
        dispersion: fit.dispersion,
        habits: habits.map(|habits| habits.named_shares()),
    })
}
