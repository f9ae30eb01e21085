//! The long-running process: tokio lives here.
//!
//! One task owns the engine and obeys it ([`scheduler`]); others fetch ([`prober`]), write (the
//! store's writer), fit rates ([`refit`]), plan by them ([`planner`]), and re-read the configuration
//! ([`reload`]). They exchange messages and share no state. A task that ends before it was told to is a
//! crash, and the process says so.

mod catch;
mod caught;
pub mod landing;
pub mod messages;
mod mind;
mod notes;
pub mod notify;
pub mod once;
pub mod planner;
pub mod probe;
pub mod prober;
pub mod record;
pub mod refit;
pub mod reload;
mod retention;
pub mod run;
pub mod scheduler;
pub mod signals;
pub mod startup;
