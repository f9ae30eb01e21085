//! The SQLite file; the only module with SQL.
//!
//! The daemon writes through one task on one connection ([`writer`]), in batches that commit completely or
//! not at all. All other access uses read-only connections ([`reader`]). Must not decide anything: it
//! stores the decisions of other modules.

pub mod attempts;
pub mod backup;
mod batch;
pub mod clock;
pub mod clock_set;
pub mod crashes;
pub mod deliveries;
mod delivery_key;
mod ended;
pub mod error;
mod events;
pub mod files;
mod finite;
mod fleet_prices;
mod json_rows;
mod known_items;
pub mod known_rate;
pub mod load;
pub mod lock;
pub mod measures;
pub mod migrations;
pub mod open;
pub mod outbox;
pub mod past;
pub mod plans;
pub mod predictions;
pub mod probe_inputs;
mod probe_log;
mod read_queue;
pub mod reader;
pub mod record;
pub mod report;
pub mod restore;
pub mod retention;
pub mod review;
pub mod rhythm;
pub mod rules;
mod source_row;
pub mod sync;
mod write;
pub mod writer;

pub use error::StoreError;
/// A connection, for callers that only pass it on.
pub use sqlx::SqliteConnection as Connection;
