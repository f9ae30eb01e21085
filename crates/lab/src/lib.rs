//! Drives the same fleet as the daemon does, without clock, network or store.
//!
//! Time is whatever the next event says. Exists so that schedules can be judged in seconds instead
//! of weeks, and so that a test can hold the daemon to the same probes. Must not know tokio, the
//! network or SQL.

pub mod clairvoyant;
pub mod compare;
pub mod contest;
pub mod draw;
pub mod driver;
pub mod feed;
pub mod fleet;
pub mod garden;
pub mod ours;
pub mod peers;
pub mod plans;
pub mod profiles;
pub mod replay;
pub mod score;
pub mod tables;
pub mod trace;
pub mod words;
pub mod world;
