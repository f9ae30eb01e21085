//! Text to validated parameters.
//!
//! Two stages: what the user wrote, with its place in the file, and what it means. A [`Config`](configuration::Config)
//! cannot hold a bad value; every fault of all files is found in one go and shown where it is.
//! Must not know how parameters are used, nor open anything but configuration files.

pub mod address;
mod allowance;
pub mod configuration;
pub mod curves;
pub mod diff;
pub mod fault;
pub mod gather;
mod header;
pub mod load;
mod origin;
pub mod params;
pub mod profile;
mod raw;
mod raw_header;
mod raw_profile;
mod raw_window;
mod reader;
mod rules;
pub mod secret;
pub mod source;
pub mod spelling;
pub mod target;
mod tell;
mod torn;
pub mod valid;
mod values;
pub mod week;
