//! Comparisons and explanations of policies.
//!
//! The crate has a simulator that drives the daemon's engine, other pollers' rules, rules of papers on
//! crawling, the papers' reference algorithms, gardens, and documents, tables and pictures of the results. Time
//! is the time of the next event. No network, no clock, no async runtime; only a garden's
//! [`cube`](garden::cube) is an SQLite file.
//! [`draw`] is shared by pictures, [`tables`] and [`words`] by texts.

pub mod calibration;
pub mod clairvoyant;
pub mod compare;
pub mod contest;
pub mod draw;
pub mod driver;
pub mod fleet;
pub mod garden;
pub mod learned_feed;
pub mod paper_rules;
pub mod parallel;
pub mod peers;
pub mod plans;
pub mod profiles;
pub mod replay;
pub mod resample;
pub mod score;
pub mod simulated_rules;
pub mod simulation;
pub mod stepper;
pub mod tables;
pub mod total_fleet;
pub mod trace;
pub mod words;
pub mod world;
