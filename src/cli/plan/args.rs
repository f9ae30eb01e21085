//! The options of `tidewatch plan`.

use std::path::PathBuf;

use clap::ValueEnum;

use tidewatch_core::time::Span;
use tidewatch_lab::plans::search;

use super::closed;

/// What `plan` is asked.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan for this source, with its budget, its learned rate and the hours its feed asks to skip;
    /// options override these. Without it, --rate and --probes are needed, and no configuration.
    pub(super) source: Option<String>,
    /// Updates per day, by day and hour: see config/examples.
    #[arg(long, value_name = "FILE")]
    pub(super) rate: Option<PathBuf>,
    /// How much a delay matters, by day and hour; without it all times are alike.
    #[arg(long, value_name = "FILE")]
    pub(super) importance: Option<PathBuf>,
    /// When the plan begins, such as 2026-11-16T00:00:00Z; without offset it is in the rate's time
    /// zone. Default: now for a source, next Monday for files.
    #[arg(long, value_name = "TIME")]
    pub(super) start: Option<String>,
    /// How long it is; it ends with a probe. Default: the budget's `per` for a source, 7d for files.
    #[arg(long, value_name = "DURATION", value_parser = Span::parse)]
    pub(super) horizon: Option<Span>,
    /// At most so many probes, the one at the end included. Default: the budget's, for a source.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(super) probes: Option<u32>,
    /// The least time between two of them, and before the first. Default: the budget's for a
    /// source, 0s for files.
    #[arg(long, value_name = "DURATION", value_parser = Span::parse)]
    pub(super) min_spacing: Option<Span>,
    /// Look for the best times on a grid as fine as this.
    #[arg(long, value_name = "DURATION", value_parser = Span::parse, default_value = "1m")]
    pub(super) grid: Span,
    /// How to look for them.
    #[arg(long, value_name = "METHOD", default_value = "optimal")]
    pub(super) method: Method,
    /// Then move them off the grid to where they are better still.
    #[arg(long)]
    pub(super) improve: bool,
    /// How to improve. Default: exact for optimal, moves for the other methods.
    #[arg(long, value_name = "HOW")]
    pub(super) improver: Option<Improver>,
    /// When not to probe, such as "daily 22:00-06:00" or "sat,sun", in the rate's time zone. May be
    /// given several times.
    #[arg(long, value_name = "WINDOW", value_parser = closed::window)]
    pub(super) closed: Vec<closed::Window>,
    /// One JSON document.
    #[arg(long)]
    pub(super) json: bool,
    /// Draw rate, importance and probes into this file.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
}

/// How a schedule is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Method {
    /// The best on the grid, found fast.
    Optimal,
    /// The same by the published Algorithms 1, 2 and 4, as corrected; slow on fine grids.
    Paper,
    /// Evenly in time.
    Uniform,
    /// Whenever equally much obsolescence has gathered.
    Threshold,
    /// Whenever an update is equally likely to have come.
    FirstArrival,
}

impl From<Method> for search::Method {
    fn from(method: Method) -> Self {
        match method {
            Method::Optimal => Self::Optimal,
            Method::Paper => Self::Paper,
            Method::Uniform => Self::Uniform,
            Method::Threshold => Self::Threshold,
            Method::FirstArrival => Self::FirstArrival,
        }
    }
}

/// How a schedule is improved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Improver {
    /// Descent to the nearest optimum in continuous time.
    Exact,
    /// The published Algorithm 10.
    Moves,
}

impl From<Improver> for search::Improver {
    fn from(improver: Improver) -> Self {
        match improver {
            Improver::Exact => Self::Exact,
            Improver::Moves => Self::Moves,
        }
    }
}

impl Args {
    /// How to improve, if it is wanted.
    pub(super) fn improver(&self) -> Option<Improver> {
        let usual = match self.method {
            Method::Optimal => Improver::Exact,
            _ => Improver::Moves,
        };
        self.improver.or(self.improve.then_some(usual))
    }
}
