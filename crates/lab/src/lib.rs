//! What compares and explains: a simulator that drives the daemon's engine, other pollers' rules, the papers'
//! reference algorithms, gardens, and the documents, tables and pictures that tell the results.
//!
//! Time is whatever the next event says. No network, no clock, no async runtime; only a garden's
//! [`cube`](garden::cube) is an SQLite file. [`draw`] has what pictures share, [`tables`] and [`words`] what
//! texts share.

pub mod by_hand;
pub mod clairvoyant;
pub mod compare;
pub mod contest;
pub mod draw;
pub mod driver;
pub mod feed;
pub mod fleet;
pub mod garden;
pub mod ours;
pub mod parallel;
pub mod peers;
pub mod plans;
pub mod profiles;
pub mod replay;
pub mod score;
pub mod served_rules;
pub mod tables;
pub mod trace;
pub mod words;
pub mod world;
