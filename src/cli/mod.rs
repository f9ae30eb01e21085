//! The commands, one file each. Results go to stdout, everything else to stderr.
//!
//! Knows options and output. Must not make decisions about sources.

pub mod backup;
pub mod calibrate;
pub mod check;
pub mod command_line;
mod configured;
pub mod deliveries;
pub mod demo;
pub mod error;
pub mod explain;
pub mod export;
mod files;
mod fleet_load;
pub mod garden;
pub mod import;
mod json_document;
mod lab_table;
pub mod log;
pub mod matches;
pub mod measures;
pub mod pardon;
pub mod plan;
pub mod probe;
mod process;
mod reasons;
pub mod replay;
pub mod restore;
pub mod rhythm;
pub mod run;
mod shades;
pub mod simulate;
mod spending;
pub mod status;
pub mod table;
