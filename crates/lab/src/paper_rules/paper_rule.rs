//! The rules and their names.

use tidewatch_core::rng::Stream;

use super::greedy_crawl::GreedyCrawl;
use super::schedule::{Even, Memoryless, PaperSchedule};
use super::sia_cho::SiaCho;
use super::{azar, lambda_crawl};

/// A paper's rule for probes at a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PaperRule {
    /// Sia, Cho and Cho: probes by the root of the rate, placed by the weekly rate.
    SiaCho,
    /// Azar et al.: rates for binary freshness, evenly spaced.
    Azar,
    /// LambdaCrawl: rates for the harmonic cost, memoryless.
    LambdaCrawl,
    /// The rates of LambdaCrawl, evenly spaced.
    LambdaCrawlEven,
    /// The largest gain of binary freshness first.
    GreedyCrawl,
}

impl PaperRule {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::SiaCho, Self::Azar, Self::LambdaCrawl, Self::LambdaCrawlEven, Self::GreedyCrawl];

    /// The name in tables and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::SiaCho => "sia_cho",
            Self::Azar => "azar",
            Self::LambdaCrawl => "lambda_crawl",
            Self::LambdaCrawlEven => "lambda_crawl_even",
            Self::GreedyCrawl => "greedy_crawl",
        }
    }

    /// The schedule of one source at a price in hours.
    pub(super) fn schedule(self, price: f64, chance: Stream) -> Box<dyn PaperSchedule> {
        match self {
            Self::SiaCho => Box::new(SiaCho::new(price)),
            Self::Azar => Box::new(Even { price, probe_rate: azar::probe_rate }),
            Self::LambdaCrawl => {
                Box::new(Memoryless { price, probe_rate: lambda_crawl::probe_rate, chance })
            }
            Self::LambdaCrawlEven => Box::new(Even { price, probe_rate: lambda_crawl::probe_rate }),
            Self::GreedyCrawl => Box::new(GreedyCrawl { price }),
        }
    }
}
