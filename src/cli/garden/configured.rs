//! A garden of the configured sources: every one that states a `max_gap`.
//!
//! Days are steps, or several of them: a gardener who may do less than one look a step could not be tried out step by
//! step. Costs are those that sources state, else what their probes have shown, if there is a store. Knows which
//! settings make a plant of a source. Must not know what is done with it.

use std::collections::HashMap;

use crate::cli::error::CliError;
use crate::cli::process::runtime;
use crate::cli::status::look;
use crate::clock::Clock;
use crate::config::configuration::Config;
use tidewatch_core::engine::garden::Task;
use tidewatch_lab::garden::answer::Day;
use tidewatch_lab::garden::instance::Instance;

/// What is configured.
#[derive(Debug)]
pub struct Configured {
    /// Every source that has to be looked at within some time.
    pub instance: Instance,
    /// What a day has, where that is configured.
    pub capacity: Option<f64>,
    /// What a day is.
    pub day: Day,
}

/// A day is to have room for so many of the dearest looks, …
const ROOM: f64 = 8.0;
/// … and the shortest window at least so many days.
const SHORTEST: u32 = 4;

/// The garden that is configured.
pub fn read(config: &Config) -> Result<Configured, CliError> {
    let step = config.fleet.step;
    let learned = learned(config);
    let bound = config.sources.iter().filter_map(|source| {
        let gap = source.max_gap?;
        // As the fleet has it: the last whole step before the gap is over.
        let steps =
            u32::try_from((gap.as_millis() / step.as_millis().max(1)).max(2)).unwrap_or(u32::MAX) - 1;
        let known = learned.get(source.name.as_str()).copied();
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
        day: Day { steps, step },
    })
}

/// What probes have shown of their costs, by name; nothing where there is no store yet.
fn learned(config: &Config) -> HashMap<String, f64> {
    let now = Clock::wall().now();
    let looked = runtime().and_then(|runtime| runtime.block_on(look(config, now)));
    let Ok((rows, fleet)) = looked else { return HashMap::new() };
    rows.into_iter().filter_map(|row| Some((row.name, fleet.cost(row.id)?))).collect()
}
