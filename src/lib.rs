//! tidewatch watches many feeds and web pages from one machine, spends a stated politeness budget
//! where it helps most, and writes everything that it saw into one SQLite file.
//!
//! This package is the product around the pure core (`tidewatch-core`). It alone reads wall time, network,
//! SQL and signals. `tests/architecture.rs` holds it to that, and to imports without cycles.
//!
//! | module | subject |
//! |---|---|
//! | [`config`] | text to validated parameters, faults with line and column |
//! | [`clock`], [`fetch`], [`store`] | wall time, network and SQL |
//! | [`deliver`] | programs, webhooks and feed files are told of matches, at least once and in order |
//! | [`daemon`] | the process that owns the engine and runs its probes |
//! | [`cli`] | one file per subcommand |

pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod deliver;
pub mod fetch;
pub mod store;
