//! Options of `tidewatch simulate traces`.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::measures::length;
use crate::cli::simulate::fleet::share;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;
use tidewatch_lab::contest::entrant_policy::EntrantPolicy;

/// Largest number of generated sources.
const MOST_SOURCES: i64 = 10_000;

/// Options of `simulate traces`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["traces", "world"])))]
pub struct Args {
    /// Folder of traces: one file NAME.csv per source, with a header `unix_time`, then one update per
    /// line in whole seconds. `index.csv` is ignored.
    #[arg(long, value_name = "DIR")]
    pub(super) traces: Option<PathBuf>,
    /// Generate this many sources instead: office, newsroom, nightly, hourly, flurries and seldom in
    /// turn.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=MOST_SOURCES))]
    pub(super) world: Option<u32>,
    /// CSV file with the columns `name` and `kind`. Sources of a kind learn from each other and are
    /// shown together. Default: one kind.
    #[arg(long, value_name = "FILE", conflicts_with = "world")]
    pub(super) kinds: Option<PathBuf>,
    /// Replace every source by one drawn anew with --seed: flurries as recorded, as often and at the same
    /// times of the week, but independent of each other. It has no bursts, silences or changes of rhythm
    /// beyond chance, so every alarm is false.
    #[arg(long, conflicts_with = "world")]
    pub(super) resample: bool,
    /// Policies to compare, separated by commas: our policies, index, fixed, miniflux_round_robin,
    /// miniflux, commafeed, nutch, sia_cho, azar, lambda_crawl, lambda_crawl_even and greedy_crawl
    /// (rules of papers, at a price), oracle (by the true rate, only with --world) and clairvoyant (a
    /// bound).
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = policy,
        default_value = "auto,plan,ttl,uniform,fixed,miniflux,commafeed,nutch")]
    pub(super) policies: Vec<EntrantPolicy>,
    /// Largest number of probes of a source in --per.
    #[arg(long, value_name = "COUNT", default_value = "24", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) probes: u32,
    /// Several numbers of probes, such as 14,56,168; the policies are compared at each.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', conflicts_with = "probes",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) budgets: Vec<u32>,
    /// Time span of the budget.
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = length)]
    pub(super) per: Span,
    /// Least time between two probes of a source.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = Span::parse)]
    pub(super) min_spacing: Span,
    /// Longest time between two probes of a source, for our policies; shows how often and by how much
    /// each policy exceeds it.
    #[arg(long, value_name = "DURATION", value_parser = length)]
    pub(super) max_gap: Option<Span>,
    /// TOML file with `[[profile]]` sections as in the configuration; our policies also follow these
    /// rules. Sources have the names of the traces, groups those of their kinds. All sources are then
    /// measured in one span. Updates of traces have no title or text: a rule without `where` matches
    /// all updates, a `where` on words matches none. `deliver` is ignored.
    #[arg(long, value_name = "FILE")]
    pub(super) profiles: Option<PathBuf>,
    /// Waiting time that a probe of auto and plan must save to be sent, and the price of the rules of
    /// papers; --match sets this price itself.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = Span::parse,
        conflicts_with = "matching")]
    pub(super) price: Span,
    /// Adjust every policy to equal cost: equal probes per source, or equal probes in total. Default:
    /// no adjustment.
    #[arg(long = "match", value_name = "HOW")]
    pub(super) matching: Option<MatchArg>,
    /// With --match total: the limits of a source that every policy keeps, as probes/time/spacing.
    #[arg(long, value_name = "LIMITS", num_args = 0..=1, default_missing_value = "48/1d/15m",
        value_parser = caps, requires = "matching")]
    pub(super) caps: Option<Budget>,
    /// Run every policy as its users get it: ours with the default budget and price, the others with
    /// their default rules.
    #[arg(long, conflicts_with_all = ["probes", "budgets", "per", "min_spacing", "price", "matching"])]
    pub(super) as_shipped: bool,
    /// Time that a source is watched before it counts.
    #[arg(long, value_name = "DURATION", default_value = "8w", value_parser = Span::parse)]
    pub(super) train: Span,
    /// Time that counts after that, up to the end of the day (UTC) of the source's last update.
    #[arg(long, value_name = "DURATION", default_value = "4w", value_parser = length)]
    pub(super) test: Span,
    /// File with the importance of delays, by day and hour. Default: all times are equal.
    #[arg(long, value_name = "FILE")]
    pub(super) importance: Option<PathBuf>,
    /// M: the number of items in a feed.
    #[arg(long, value_name = "COUNT", default_value = "50", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) items: u32,
    /// Treat sources as pages: a probe shows that something changed, not when or how often.
    #[arg(long)]
    pub(super) pages: bool,
    /// Duration of a probe.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = Span::parse)]
    pub(super) latency: Span,
    /// Share of probes that fail, such as 0.02.
    #[arg(long, value_name = "SHARE", default_value = "0", allow_negative_numbers = true,
        value_parser = share)]
    pub(super) errors: f64,
    /// T_burst of ind_hist_ttl: from 0, which is ttl, to inf, which is ind_hist.
    #[arg(long, value_name = "RATIO", default_value = "2", value_parser = burst_threshold)]
    pub(super) burst_threshold: f64,
    /// Window of ind_hist_ttl, in which updates are counted and expected.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = length)]
    pub(super) burst_window: Span,
    /// T_ind of ind_hist_agg_hist: from 0, which is agg_hist, to 1, which is ind_hist.
    #[arg(long, value_name = "RATIO", default_value = "0.5", value_parser = share)]
    pub(super) individual_threshold: f64,
    /// Use no self-exciting term in the predictions.
    #[arg(long)]
    pub(super) no_echoes: bool,
    /// Time between two fits of the rates.
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = length)]
    pub(super) refit_every: Span,
    /// Random seed; equal seeds give equal runs.
    #[arg(long, value_name = "NUMBER", default_value = "1", allow_negative_numbers = true)]
    pub(super) seed: u64,
    /// Write the times of all probes to DIR/POLICY/SOURCE.csv, training included; with several budgets
    /// to DIR/PROBES/POLICY/SOURCE.csv.
    #[arg(long, value_name = "DIR")]
    pub(super) emit: Option<PathBuf>,
    /// Write a page with pictures and tables into this file. A single budget is also tried with a
    /// quarter, half and twice the probes.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Draw delays against probes into this SVG file, with the same budgets; with --as-shipped a point
    /// for each policy.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub(super) json: bool,
}

/// How policies are adjusted to equal cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MatchArg {
    /// Each policy spends the budget on each source.
    Probes,
    /// Each policy spends the same total on all sources together.
    Total,
}

/// The policy with that name, or a message with all names.
pub(in crate::cli) fn policy(text: &str) -> Result<EntrantPolicy, String> {
    let by_rules = EntrantPolicy::Ours(Policy::Profile);
    EntrantPolicy::from_name(text).or((text == by_rules.name()).then_some(by_rules)).ok_or_else(|| {
        let names: Vec<&str> = EntrantPolicy::all().into_iter().map(EntrantPolicy::name).collect();
        format!("there is no such policy; there are {}", names.join(", "))
    })
}

fn caps(text: &str) -> Result<Budget, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let &[probes, per, spacing] = &parts[..] else {
        return Err("limits are written as 48/1d/15m: probes, time and least spacing".to_owned());
    };
    let probes: u32 = probes.parse().map_err(|_| format!("`{probes}` is not a number of probes"))?;
    if probes == 0 {
        return Err("at least one probe must be allowed".to_owned());
    }
    let per = length(per).map_err(|error| error.to_string())?;
    let min_spacing = Span::parse(spacing).map_err(|error| error.to_string())?;
    Ok(Budget { probes, per, min_spacing })
}

fn burst_threshold(text: &str) -> Result<f64, String> {
    let wrong = || "a number from 0, or inf".to_owned();
    text.trim().parse().ok().filter(|threshold: &f64| *threshold >= 0.0).ok_or_else(wrong)
}

impl Args {
    /// Whether a picture is requested.
    pub(super) fn is_drawn(&self) -> bool {
        self.html.is_some() || self.svg.is_some()
    }
}
