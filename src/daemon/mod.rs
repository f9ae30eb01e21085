//! The long-running process: tokio lives here.
//!
//! One task owns the fleet and obeys it ([`pilot`]); others fetch ([`prober`]), write (the
//! store's writer), fit rates ([`refit`]), plan by them ([`planner`]), and re-read the configuration
//! ([`reload`]). They exchange messages; nobody
//! shares state. A task that ends before it was told to is a crash, and the process says so.

mod catch;
pub mod landing;
mod mind;
pub mod muster;
pub mod notify;
pub mod once;
pub mod orders;
pub mod pilot;
pub mod planner;
pub mod probe;
pub mod prober;
pub mod refit;
pub mod reload;
pub mod run;
pub mod signals;
