//! The configuration that a command works on.

use std::path::Path;
use std::sync::Arc;

use crate::config;
use crate::config::configuration::Config;
use crate::config::load::LoadError;

use super::error::CliError;

/// Loads the named file, or the first that is found.
pub(super) fn load(explicit: Option<&Path>) -> Result<Config, LoadError> {
    config::load::load(&config::load::find(explicit)?)
}

/// The configured source of that name, or a word about the names there are.
pub(super) fn find_source<'a>(
    config: &'a Config,
    name: &str,
) -> Result<&'a Arc<config::source::Source>, CliError> {
    config.sources.iter().find(|source| source.name == name).ok_or_else(|| {
        let near =
            config::spelling::closest(name, config.sources.iter().map(|source| source.name.as_str()));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        CliError::Refused(format!("no source is called `{name}`{hint}"))
    })
}
