//! The options of `tidewatch simulate traces`.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::measures::length;
use crate::cli::simulate::fleet::share;
use tidewatch_core::engine::params::Response;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;
use tidewatch_lab::contest::who::Who;

/// The most sources that are made up.
const MOST_SOURCES: i64 = 10_000;

/// What `simulate traces` is asked.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["traces", "world"])))]
pub struct Args {
    /// A folder of traces: a file NAME.csv for each source, a line `unix_time`, then the time of an
    /// update a line, in whole seconds. `index.csv` is no trace.
    #[arg(long, value_name = "DIR")]
    pub(super) traces: Option<PathBuf>,
    /// So many made-up sources instead: office, newsroom, nightly, hourly, flurries and seldom in turn.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=MOST_SOURCES))]
    pub(super) world: Option<u32>,
    /// What kind each source is of: a CSV file with the columns `name` and `kind`, maybe among others.
    /// Sources of a kind learn from each other, and are shown by kind. Default: all are of one kind.
    #[arg(long, value_name = "FILE", conflicts_with = "world")]
    pub(super) kinds: Option<PathBuf>,
    /// Who takes part, with commas between: our policies, index, fixed, miniflux_round_robin, miniflux,
    /// commafeed, nutch, oracle (by the true rate, which --world has) and clairvoyant (a bound).
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = policy,
        default_value = "auto,plan,ttl,uniform,fixed,miniflux,commafeed,nutch")]
    pub(super) policies: Vec<Who>,
    /// How many probes a source may get in --per.
    #[arg(long, value_name = "COUNT", default_value = "24", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) probes: u32,
    /// Several numbers of probes, such as 14,56,168: a contest at each of them.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', conflicts_with = "probes",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) budgets: Vec<u32>,
    /// The span that a budget is for.
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = length)]
    pub(super) per: Span,
    /// The least time between two probes of a source.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = Span::parse)]
    pub(super) min_spacing: Span,
    /// Our policies must probe every source at least this often; it is told how often and how late anybody
    /// missed that.
    #[arg(long, value_name = "DURATION", value_parser = length)]
    pub(super) max_gap: Option<Span>,
    /// A TOML file with `[[profile]]` sections as in the configuration: our policies serve these rules beside.
    /// Sources are named as the traces are, groups as their kinds. All sources are judged in one span then. An
    /// update of a trace has neither title nor text: a rule without `where` matches all updates, and a `where`
    /// that asks for words holds for none. `deliver` is not looked at.
    #[arg(long, value_name = "FILE")]
    pub(super) profiles: Option<PathBuf>,
    /// What a probe of auto and plan must be worth: how long it spares updates in waiting. Where auto is
    /// matched, that is its knob.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = Span::parse,
        conflicts_with = "matching")]
    pub(super) price: Span,
    /// What all are matched by, each by the knob it has: every source gets as many probes, or all of
    /// them together. Default: not at all, each is as it is.
    #[arg(long = "match", value_name = "HOW")]
    pub(super) matching: Option<Match>,
    /// How long a source is watched before it counts.
    #[arg(long, value_name = "DURATION", default_value = "8w", value_parser = Span::parse)]
    pub(super) train: Span,
    /// How long it counts after that, up to the end of the day (UTC) of its last update.
    #[arg(long, value_name = "DURATION", default_value = "4w", value_parser = length)]
    pub(super) test: Span,
    /// How much a delay matters, by day and hour; without it all times are alike.
    #[arg(long, value_name = "FILE")]
    pub(super) importance: Option<PathBuf>,
    /// M: how many items a source shows.
    #[arg(long, value_name = "COUNT", default_value = "50", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) items: u32,
    /// Sources are pages: a probe sees that something changed, not when nor how often.
    #[arg(long)]
    pub(super) pages: bool,
    /// How long an answer takes.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = Span::parse)]
    pub(super) latency: Span,
    /// The share of probes that fail, such as 0.02.
    #[arg(long, value_name = "SHARE", default_value = "0", allow_negative_numbers = true,
        value_parser = share)]
    pub(super) errors: f64,
    /// What auto does about a burst: ttl or replan. Default: as the daemon does.
    #[arg(long, value_name = "HOW", value_parser = response)]
    pub(super) burst_response: Option<Response>,
    /// Updates are not taken to bring others.
    #[arg(long)]
    pub(super) no_echoes: bool,
    /// How often rates are fitted.
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = length)]
    pub(super) refit_every: Span,
    /// Equal seeds give equal runs.
    #[arg(long, value_name = "NUMBER", default_value = "1", allow_negative_numbers = true)]
    pub(super) seed: u64,
    /// Write the times of all probes to DIR/POLICY/SOURCE.csv, training included; with several budgets
    /// to DIR/PROBES/POLICY/SOURCE.csv.
    #[arg(long, value_name = "DIR")]
    pub(super) emit: Option<PathBuf>,
    /// Write a page with pictures and tables into this file. A single budget is tried at a quarter,
    /// half and twice as many probes too.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Draw delays against probes into this file, with the same budgets.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// One JSON document.
    #[arg(long)]
    pub(super) json: bool,
}

/// What policies are matched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Match {
    /// Each spends the budget on each source.
    Probes,
    /// Each spends as much on all sources together.
    Total,
}

/// Who has that name, or who there is.
pub(in crate::cli) fn policy(text: &str) -> Result<Who, String> {
    let by_rules = Who::Ours(Policy::Profile);
    Who::from_name(text).or((text == by_rules.name()).then_some(by_rules)).ok_or_else(|| {
        let names: Vec<&str> = Who::all().into_iter().map(Who::name).collect();
        format!("there is no such policy; there are {}", names.join(", "))
    })
}

fn response(text: &str) -> Result<Response, String> {
    Response::ALL.into_iter().find(|response| response.name() == text).ok_or_else(|| {
        let names = Response::ALL.map(Response::name).join(" and ");
        format!("there is no such response; there are {names}")
    })
}

impl Args {
    /// A picture is wanted.
    pub(super) fn is_drawn(&self) -> bool {
        self.html.is_some() || self.svg.is_some()
    }
}
