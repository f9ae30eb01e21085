//! tidewatch polls many feeds and web pages from one machine. It spends a configured probe budget where it
//! reduces delay most, and stores all updates in one SQLite file.
//!
//! This package is built around the pure core (`tidewatch-core`). Only it uses wall time, network,
//! SQL and signals. `tests/architecture.rs` checks that, and that imports have no cycles.
//!
//! | module | subject |
//! |---|---|
//! | [`config`] | text to validated parameters, errors with line and column |
//! | [`clock`], [`fetch`], [`store`] | wall time, network and SQL |
//! | [`deliver`] | delivers matches to programs, webhooks and feed files, at least once and in order |
//! | [`daemon`] | the process that owns the engine and runs its probes |
//! | [`cli`] | one file per subcommand |

pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod deliver;
pub mod fetch;
mod pace;
pub mod store;
