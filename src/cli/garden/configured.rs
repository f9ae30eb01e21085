//! A garden of the configured sources: every one that states a `max_gap`.
//!
//! Knows which settings make a plant of a source. Must not know what is done with it.

use crate::cli::CliError;
use crate::config::Config;
use crate::sim::garden::Instance;

/// Every configured source that has to be looked at within some time.
pub fn instance(_config: &Config) -> Result<Instance, CliError> {
    Err(CliError::Refused(
        "no source states a max_gap; give it one, or try --instance FILE or --generate N".to_owned(),
    ))
}

/// The capacity that is configured.
pub fn capacity(_config: &Config) -> Option<f64> {
    None
}
