//! Text to validated parameters.
//!
//! Stage one records the written values with their places; stage two checks them and gives them
//! meaning. A [`Config`](configuration::Config) never holds an invalid value. All faults of all files
//! are reported together. Must not know how parameters are used, nor open files other than
//! configuration files.

pub mod address;
mod allowance;
pub mod configuration;
pub mod curves;
pub mod diff;
pub mod doubt;
pub mod fault;
mod header;
pub mod load;
pub mod merge;
mod origin;
pub mod params;
mod parts;
pub mod profile;
mod raw;
mod raw_header;
mod raw_profile;
mod raw_window;
mod reader;
pub mod renames;
mod rules;
pub mod secret;
pub mod source;
pub mod source_settings;
pub mod spelling;
mod syntax_gaps;
pub mod target;
mod targets;
pub mod valid;
mod values;
pub mod week;
