//! `tidewatch simulate fleet`: allocators in the paper's model, against its bound and a tighter one.
//!
//! Knows the options and their checks, and measures the run time. Must not know how an allocator
//! selects or how a table is laid out.

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::error::CliError;
use crate::cli::lab_table::print;
use crate::cli::process::colours;
use crate::clock::Stopwatch;
use tidewatch_core::engine::params::Allocator;
use tidewatch_core::engine::undiscovered_lower_bounds::{SourceRate, theorem_1, tight};
use tidewatch_lab::fleet::estimators::Estimate;
use tidewatch_lab::fleet::report::{self, FleetOutcome, FleetQuestion};
use tidewatch_lab::fleet::shapes::FleetShape;
use tidewatch_lab::fleet::{AllocatorTrial, FleetWorld, MOST_STEPS, RateChange, Sim};

use super::progress::Bar;
use super::rates;

/// Largest number of sources.
const MOST_SOURCES: u32 = 10_000_000;

/// Steps between two updates of the progress bar.
const EVERY: u64 = 1000;

/// Options of `simulate fleet`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("world").required(true).args(["rates", "shape"])))]
pub struct Args {
    /// File with the rates in updates per step: a header `per_step`, then one number per line; `-`
    /// reads standard input.
    #[arg(long, value_name = "FILE")]
    rates: Option<PathBuf>,
    /// Generate rates of this shape instead: powers (1/2, 1/4, …), equal, uniform, zipf:1 or
    /// pareto:1.2.
    #[arg(long, value_name = "SHAPE", requires = "sources")]
    shape: Option<FleetShape>,
    /// Number of sources of that shape.
    #[arg(long, value_name = "COUNT", conflicts_with = "rates", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SOURCES)))]
    sources: Option<u32>,
    /// Allocator: adaptive, index, memoryless, cyclic, round_robin or greedy. Default: each in turn.
    #[arg(long, value_name = "NAME", value_parser = allocator)]
    allocator: Option<Allocator>,
    /// c: the number of sources probed in a step.
    #[arg(long, value_name = "COUNT", default_value = "1", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..))]
    probes_per_step: u32,
    /// Number of steps to simulate.
    #[arg(long, value_name = "STEPS", default_value = "20000", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(1..=MOST_STEPS))]
    steps: u64,
    /// Steps before the cost is counted. Default: half of all; 0 with --unknown or --change-at, where
    /// learning is measured.
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true)]
    warm_up: Option<u64>,
    /// Random seed; equal seeds give equal runs.
    #[arg(long, value_name = "NUMBER", default_value = "1", allow_negative_numbers = true)]
    seed: u64,
    /// Hide the rates, so that they are learned from the findings; compares the cost with an index that
    /// has the true rates. (Adaptive never has them.)
    #[arg(long)]
    unknown: bool,
    /// Estimator of the rates. Default: counted for adaptive, as in its paper; forgetting for the
    /// others.
    #[arg(long, value_name = "HOW")]
    estimate: Option<How>,
    /// Permute the rates at this step; allocators with true rates get the new ones.
    #[arg(long, value_name = "STEP", allow_negative_numbers = true)]
    change_at: Option<u64>,
    /// Permute only this share of the rates, such as 0.2.
    #[arg(long, value_name = "SHARE", default_value = "1", requires = "change_at",
        allow_negative_numbers = true, value_parser = share)]
    change_share: f64,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Estimator of the rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// max(1, found)/t: the published Algorithm 1, which never forgets.
    Counted,
    /// A mixture over the possible times of the last change of the rate.
    Forgetting,
}

fn allocator(text: &str) -> Result<Allocator, String> {
    Allocator::from_name(text).ok_or_else(|| {
        let names = Allocator::ALL.map(Allocator::name).join(", ");
        format!("there is no such allocator; there are {names}")
    })
}

/// Parses a share from 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".to_owned()),
    }
}

/// Simulates and shows the results.
pub fn run(arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    let mut question = question(arguments)?;
    let list = arguments.allocator.map_or(Allocator::ALL.to_vec(), |allocator| vec![allocator]);
    let bar = Bar::new((list.len() + usize::from(arguments.unknown)) as u64 * question.steps);
    if arguments.unknown {
        question.oracle = Some(try_out(&question, Allocator::Index, None, &bar).cost);
    }
    let outcome = |allocator| {
        let learns = arguments.unknown || allocator == Allocator::Adaptive;
        let estimate = arguments.estimate().unwrap_or(Estimate::usual(allocator));
        try_out(&question, allocator, learns.then_some(estimate), &bar)
    };
    let outcomes: Vec<FleetOutcome> = list.into_iter().map(outcome).collect();
    drop(bar);
    match (arguments.json, arguments.allocator, &outcomes[..]) {
        (true, Some(_), [only]) => writeln!(out, "{}", report::one_as_json(&question, only)?)?,
        (true, ..) => writeln!(out, "{}", report::all_as_json(&question, &outcomes)?)?,
        (false, ..) => {
            for line in report::head(&question) {
                writeln!(out, "{line}")?;
            }
            writeln!(out)?;
            print(&report::table(&question, &outcomes), colours(), out)?;
        }
    }
    Ok(())
}

impl Args {
    fn estimate(&self) -> Option<Estimate> {
        self.estimate.map(|how| match how {
            How::Counted => Estimate::Counted,
            How::Forgetting => Estimate::Forgetting,
        })
    }
}

/// Checks the options and builds the question for the lab.
fn question(arguments: &Args) -> Result<FleetQuestion, CliError> {
    let (title, rates) = match (&arguments.rates, arguments.shape) {
        (Some(file), _) => (file.display().to_string(), rates::read(file)?),
        (None, Some(shape)) => {
            (shape.to_string(), shape.rates(arguments.sources.unwrap_or(1) as usize, arguments.seed))
        }
        (None, None) => return Err(CliError::Usage("give --rates FILE or --shape SHAPE".to_owned())),
    };
    let (sources, per_step, steps) = (rates.len(), arguments.probes_per_step as usize, arguments.steps);
    let refuse = |why: String| Err(CliError::Refused(why));
    if sources > MOST_SOURCES as usize {
        return refuse(format!("{title}: {sources} rates; at most {MOST_SOURCES} sources are simulated"));
    }
    if per_step > sources {
        let plural = if sources == 1 { "" } else { "s" };
        return refuse(format!(
            "--probes-per-step is {per_step}, and there are {sources} source{plural}: a step probes each at most once"
        ));
    }
    if let Some(at) = arguments.change_at.filter(|at| !(1..=steps).contains(at)) {
        return refuse(format!("--change-at {at} never comes: steps are counted from 1 to {steps}"));
    }
    let learning = arguments.unknown || arguments.change_at.is_some();
    let warm_up = arguments.warm_up.unwrap_or(if learning { 0 } else { steps / 2 });
    if warm_up >= steps {
        return refuse(format!("--warm-up {warm_up} leaves none of {steps} steps to be counted"));
    }
    let sources: Vec<SourceRate> = rates.iter().copied().map(SourceRate::of).collect();
    Ok(FleetQuestion {
        title,
        lower_bound: theorem_1(rates.iter().copied(), per_step as f64),
        tight_bound: tight(&sources, per_step as f64).cost,
        steps,
        warm_up,
        seed: arguments.seed,
        unknown: arguments.unknown,
        oracle: None,
        world: FleetWorld {
            rates,
            per_step,
            change: arguments.change_at.map(|at| RateChange { at, share: arguments.change_share }),
        },
    })
}

/// One complete run.
fn try_out(
    question: &FleetQuestion,
    allocator: Allocator,
    learns: Option<Estimate>,
    bar: &Bar,
) -> FleetOutcome {
    bar.name(allocator.name());
    let trial = AllocatorTrial { allocator, learns, warm_up: question.warm_up, seed: question.seed };
    let mut sim = Sim::new(&question.world, trial);
    let stopwatch = Stopwatch::start();
    while sim.steps() < question.steps {
        let some = EVERY.min(question.steps - sim.steps());
        sim.advance(some);
        bar.forward(some);
    }
    let elapsed = stopwatch.elapsed();
    FleetOutcome { allocator, learned: learns, cost: sim.cost(), probes: sim.probes(), elapsed }
}
