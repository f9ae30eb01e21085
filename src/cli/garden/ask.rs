//! Options of `tidewatch garden`, and their checks.
//!
//! Knows the options and their defaults. Must not simulate.

use std::path::{Path, PathBuf};

use crate::cli::configured::load;
use crate::cli::error::CliError;
use tidewatch_lab::garden::answer::{GardenQuestion, trials};
use tidewatch_lab::garden::cube::slice::Dim;
use tidewatch_lab::garden::instance::units;
use tidewatch_lab::garden::policy::GardenPolicy;
use tidewatch_lab::garden::{made_up, sweep};

use super::configured::Configured;
use super::{configured, file};

/// Largest number of generated plants.
const MOST_PLANTS: u32 = 1_000_000;

/// Largest number of simulated days.
const MOST_DAYS: u32 = 100_000;

/// Default length: this many times the longest window, within these bounds.
const WINDOWS: u32 = 4;
const USUAL_DAYS: (u32, u32) = (400, 4000);
/// Upper bound for configured sources, whose days are short.
const LONGEST_CONFIGURED: u32 = 40_000;

/// Options of `garden`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read the garden from FILE (`-`: standard input): a header `cost,window` or `cost,window,group`,
    /// then one plant per line, windows in days. Default: every configured source with a max_gap.
    #[arg(long, value_name = "FILE", conflicts_with = "generate")]
    instance: Option<PathBuf>,
    /// Generate this many sources instead: windows of 2 to 200 days, costs of 0.5 to 2, four groups.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_PLANTS)))]
    generate: Option<u32>,
    /// Seed of the generator; equal seeds give equal gardens.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "1",
        requires = "generate",
        allow_negative_numbers = true
    )]
    seed: u64,
    /// Largest capacity (work per day). Default: the configured one, else a quarter more than Ω.
    #[arg(long, value_name = "WORK", allow_negative_numbers = true, value_parser = capacity)]
    capacity: Option<f64>,
    /// Number of capacities to try, evenly spaced from half of Ω to the largest.
    #[arg(long, value_name = "COUNT", default_value = "24", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    capacities: u32,
    /// Policies to try: medd, edd, medd_printed or power_of_two, which ignores the capacity and is
    /// tried once.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "medd,edd,power_of_two",
        value_parser = policy)]
    policy: Vec<GardenPolicy>,
    /// Days to simulate per trial. Default: four times the longest window, from 400 to 4000.
    #[arg(long, value_name = "DAYS", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DAYS)))]
    days: Option<u32>,
    /// Store all measures in this SQLite file, by capacity, policy, group, window and day. With --by
    /// and without a garden, slice an existing file.
    #[arg(long, value_name = "FILE")]
    pub(super) cube: Option<PathBuf>,
    /// Sum the measures by some of capacity, policy, group, window and day.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = dimension)]
    by: Vec<Dim>,
    /// Restrict the sums to one value, such as capacity=20 or group=news; may be repeated.
    #[arg(long = "where", value_name = "DIM=VALUE", requires = "by", value_parser = held)]
    pub(super) held: Vec<(Dim, String)>,
    /// Draw the Pareto front into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub(super) json: bool,
}

fn capacity(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(capacity) if capacity > 0.0 && capacity <= 1e9 => Ok(capacity),
        _ => Err("a capacity is a number above 0, such as 18.4".to_owned()),
    }
}

fn policy(text: &str) -> Result<GardenPolicy, String> {
    GardenPolicy::from_name(text).ok_or_else(|| {
        format!(
            "there is no such policy; there are {}",
            GardenPolicy::ALL.map(GardenPolicy::name).join(", ")
        )
    })
}

fn dimension(text: &str) -> Result<Dim, String> {
    Dim::from_name(text).ok_or_else(|| {
        format!("there is no dimension `{text}`; there are {}", Dim::ALL.map(Dim::name).join(", "))
    })
}

fn held(text: &str) -> Result<(Dim, String), String> {
    let (dim, value) = text.split_once('=').ok_or("write DIM=VALUE, such as capacity=20")?;
    Ok((dimension(dim)?, value.to_owned()))
}

/// Removes duplicates and keeps the order.
fn once<T: Copy + PartialEq>(list: &[T]) -> Vec<T> {
    let mut kept = Vec::new();
    for item in list {
        if !kept.contains(item) {
            kept.push(*item);
        }
    }
    kept
}

impl Args {
    /// The requested dimensions, without duplicates.
    pub fn by(&self) -> Vec<Dim> {
        once(&self.by)
    }

    /// The existing cube to slice, if no trial is requested.
    pub fn only_sliced(&self) -> Option<&Path> {
        let asked = !self.by.is_empty() && self.instance.is_none() && self.generate.is_none();
        self.cube.as_deref().filter(|file| asked && file.exists())
    }

    /// Checks the options and builds the question for the lab.
    pub fn question(&self, config: Option<&Path>) -> Result<GardenQuestion, CliError> {
        let (instance, configured, day) = match (&self.instance, self.generate) {
            (Some(file), _) => (file::read(file)?, None, None),
            (None, Some(plants)) => (made_up::instance(plants as usize, self.seed), None, None),
            (None, None) => {
                let Configured { instance, capacity, day } = configured::read(&load(config)?)?;
                (instance, capacity, Some(day))
            }
        };
        let asked = self.capacity.or(configured);
        let most = asked.map_or_else(|| sweep::usual(&instance), sweep::work);
        if most < instance.dearest() {
            return Err(CliError::Refused(format!(
                "a capacity of {} is less than the dearest plant costs, {}: it could never be watered, nor \
                 whatever waits behind it",
                units(most),
                units(instance.dearest())
            )));
        }
        let longest = if day.is_some() { LONGEST_CONFIGURED } else { USUAL_DAYS.1 };
        let usual = instance.longest().saturating_mul(WINDOWS).clamp(USUAL_DAYS.0, longest);
        let days = self.days.unwrap_or(usual);
        let trials = trials(&instance, &once(&self.policy), most, self.capacities as usize, days);
        Ok(GardenQuestion { capacity: units(most), days, trials, instance, day })
    }
}
