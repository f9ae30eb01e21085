//! The SQLite file: the only module that speaks SQL.
//!
//! All writes of the daemon go through one task on one connection ([`writer`]), in batches that
//! commit whole or not at all; everything else reads through read-only connections ([`reader`]).
//! Must not decide anything: what is stored was decided elsewhere.

pub mod deliveries;
pub mod error;
mod events;
mod json_rows;
pub mod known_rate;
pub mod load;
pub mod lock;
pub mod measures;
pub mod open;
pub mod outbox;
pub mod past;
pub mod plans;
pub mod reader;
pub mod record;
pub mod report;
pub mod retention;
pub mod review;
pub mod rhythm;
pub mod rules;
mod source_row;
pub mod sync;
mod write;
pub mod writer;

pub use error::StoreError;
/// A connection, for whoever only hands it on.
pub use sqlx::SqliteConnection as Connection;
