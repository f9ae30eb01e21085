//! Rules of papers on crawling, as entrants beside our policies.
//!
//! Each rule takes our learned weekly rate of a source and a price ν per probe, in hours. The price is the
//! only knob. Weights (w, μ) are 1, and importance is not used. The model of a source learns from the probes
//! of the rule alone. Must not know future updates, nor how a schedule is scored.
//!
//! All rules have three additions. A rate above the limit of a source is lowered to it. A source is probed at
//! least once a day, as under our own price. Until the first fit of its rate, its budget is spread evenly.
//! Failures, latencies and deadlines are not modelled.

mod azar;
pub mod crawled_feed;
mod greedy_crawl;
mod lambda_crawl;
pub mod paper_rule;
mod schedule;
mod sia_cho;
