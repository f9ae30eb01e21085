//! A garden of the configured sources that have a `max_gap`.
//!
//! A day of the garden is one or more steps, because a capacity below one probe per step could not be
//! tried with single steps. Costs are the configured ones, else learned ones from the store, else 1.
//! Must not know the use of the garden.

use std::collections::HashMap;

use crate::cli::error::CliError;
use crate::cli::process::runtime;
use crate::cli::status::load_sources;
use crate::clock::Clock;
use crate::config::configuration::Config;
use tidewatch_core::engine::garden::Task;
use tidewatch_lab::garden::answer::GardenDay;
use tidewatch_lab::garden::instance::Instance;

/// The garden from the configuration.
#[derive(Debug)]
pub struct Configured {
    /// One plant for every source with a `max_gap`.
    pub instance: Instance,
    /// Configured capacity of a day, if any.
    pub capacity: Option<f64>,
    /// Length of a day.
    pub day: GardenDay,
}

/// A day has room for this many of the dearest probes …
const ROOM: f64 = 8.0;
/// … and the shortest window has at least this many days.
const SHORTEST: u32 = 4;

/// Builds the garden from the configuration.
pub fn read(config: &Config) -> Result<Configured, CliError> {
    let step = config.fleet.step;
    let learned = learned(config);
    let bound = config.sources.iter().filter_map(|source| {
        let gap = source.max_gap?;
        // As in the engine: the last whole step before the gap ends.
        let steps =
            u32::try_from((gap.as_millis() / step.as_millis().max(1)).max(2)).unwrap_or(u32::MAX) - 1;
        let known = learned.get(&*source.name).copied();
        let cost = source.cost.or(known).unwrap_or(1.0);
        Some((cost, steps, source.group.as_deref().unwrap_or_default().to_owned()))
    });
    let all: Vec<(f64, u32, String)> = bound.collect();
    let Some(shortest) = all.iter().map(|&(_, steps, _)| steps).min() else {
        return Err(CliError::Refused(
            "no source states a max_gap; give it one, or try --instance FILE or --generate N".to_owned(),
        ));
    };
    let omega: f64 = all.iter().map(|&(cost, steps, _)| cost / f64::from(steps)).sum();
    let dearest = all.iter().map(|&(cost, ..)| cost).fold(0.0, f64::max);
    let steps = ((ROOM * dearest / omega).ceil() as u32).clamp(1, (shortest / SHORTEST).max(1));
    let plant =
        |(cost, window, group): (f64, u32, String)| (Task::new(cost, (window / steps).max(1)), group);
    Ok(Configured {
        instance: Instance::new(all.into_iter().map(plant).collect()),
        capacity: config.fleet.capacity.map(|capacity| capacity * f64::from(steps)),
        day: GardenDay { steps, step },
    })
}

/// Learned probe costs by source name; empty without a store.
fn learned(config: &Config) -> HashMap<String, f64> {
    let loaded = runtime().and_then(|runtime| runtime.block_on(load_sources(config, &Clock::wall())));
    let Ok((rows, fleet)) = loaded else { return HashMap::new() };
    rows.into_iter().filter_map(|row| Some((row.name, fleet.cost(row.id)?))).collect()
}
