//! Options of `tidewatch plan`.

use std::path::PathBuf;

use clap::ValueEnum;

use tidewatch_core::time::Span;
use tidewatch_lab::plans::search;

use super::closed;

/// Options of `plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan for this source, with its budget, learned rate and skipped hours; options override these.
    /// Without a source, --rate and --probes are required and no configuration is read.
    pub(super) source: Option<String>,
    /// File with updates per day, by day and hour; see config/examples.
    #[arg(long, value_name = "FILE")]
    pub(super) rate: Option<PathBuf>,
    /// File with the importance of delays, by day and hour. Default: all times are equal.
    #[arg(long, value_name = "FILE")]
    pub(super) importance: Option<PathBuf>,
    /// Start of the plan, such as 2026-11-16T00:00:00Z; without an offset, in the rate's time zone.
    /// Default: now for a source, next Monday for files.
    #[arg(long, value_name = "TIME")]
    pub(super) start: Option<String>,
    /// Length of the plan, which ends with a probe. Default: the budget's `per` for a source, 7d for
    /// files.
    #[arg(long, value_name = "DURATION", value_parser = Span::parse)]
    pub(super) horizon: Option<Span>,
    /// Largest number of probes, including the one at the end. Default: that of the budget, for a source.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(super) probes: Option<u32>,
    /// Least time between two probes, and before the first. Default: that of the budget for a source,
    /// 0s for files.
    #[arg(long, value_name = "DURATION", value_parser = Span::parse)]
    pub(super) min_spacing: Option<Span>,
    /// Search the best times on a grid of this width.
    #[arg(long, value_name = "DURATION", value_parser = Span::parse, default_value = "1m")]
    pub(super) grid: Span,
    /// Search method.
    #[arg(long, value_name = "METHOD", default_value = "optimal")]
    pub(super) method: MethodArg,
    /// Then improve the times off the grid.
    #[arg(long)]
    pub(super) improve: bool,
    /// Method of improvement. Default: exact for optimal, moves for the other methods.
    #[arg(long, value_name = "HOW")]
    pub(super) improver: Option<ImproverArg>,
    /// Time without probes, such as "daily 22:00-06:00" or "sat,sun", in the rate's time zone; may be
    /// repeated.
    #[arg(long, value_name = "WINDOW", value_parser = closed::window)]
    pub(super) closed: Vec<closed::ClosedWindow>,
    /// Print one JSON document.
    #[arg(long)]
    pub(super) json: bool,
    /// Draw rate, importance and probes into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
}

/// Search method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum MethodArg {
    /// The best on the grid, by a fast algorithm.
    Optimal,
    /// The same by the published Algorithms 1, 2 and 4, with corrections; slow on fine grids.
    Paper,
    /// Equal time between probes.
    Uniform,
    /// Equal obsolescence between probes.
    Threshold,
    /// Equal probability of an update between probes.
    FirstArrival,
}

impl From<MethodArg> for search::Method {
    fn from(method: MethodArg) -> Self {
        match method {
            MethodArg::Optimal => Self::Optimal,
            MethodArg::Paper => Self::Paper,
            MethodArg::Uniform => Self::Uniform,
            MethodArg::Threshold => Self::Threshold,
            MethodArg::FirstArrival => Self::FirstArrival,
        }
    }
}

/// Method of improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ImproverArg {
    /// Descent to the nearest optimum in continuous time.
    Exact,
    /// The published Algorithm 10.
    Moves,
}

impl From<ImproverArg> for search::Improver {
    fn from(improver: ImproverArg) -> Self {
        match improver {
            ImproverArg::Exact => Self::Exact,
            ImproverArg::Moves => Self::Moves,
        }
    }
}

impl Args {
    /// The method of improvement, if one is requested.
    pub(super) fn improver(&self) -> Option<ImproverArg> {
        let usual = match self.method {
            MethodArg::Optimal => ImproverArg::Exact,
            _ => ImproverArg::Moves,
        };
        self.improver.or(self.improve.then_some(usual))
    }
}
