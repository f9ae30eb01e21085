//! tidewatch watches many feeds and web pages from one machine, spends a stated politeness budget
//! where it helps most, and writes everything that it saw into one SQLite file.
//!
//! The crate is a row of rooms; a room may use only rooms above it in this list, and
//! `tests/architecture.rs` holds it to that:
//!
//! | room | what it knows |
//! |---|---|
//! | [`time`], [`rng`] | instants and spans in milliseconds; seeded random streams |
//! | [`rate`] | what we believe of one source |
//! | [`observe`] | bytes in, values out: feeds, pages, items, updates |
//! | [`schedule`] | when *one* source wants a probe |
//! | [`fleet`] | *all* sources under one limit, and the politeness gate's arithmetic |
//! | [`config`] | text to validated parameters, faults with line and column |
//! | [`clock`], [`fetch`], [`store`] | the shell: the only readers of wall time, network and SQL |
//! | [`sim`] | drives the same fleet without any of the shell |
//! | [`deliver`] | tells those who asked: programs, webhooks, feed files; at least once and in order |
//! | [`daemon`] | tokio lives here: owns the fleet and obeys it |
//! | [`cli`] | one file per subcommand |
//!
//! The first five are pure: no clock, no async, no I/O, no global. `now` is always passed in.

pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod deliver;
pub mod fetch;
pub mod store;
