//! The configuration that a command uses.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::config;
use crate::config::configuration::Config;
use crate::config::load::LoadError;
use crate::store::report::SourceReportRow;

use super::error::CliError;

/// Loads the given file, or the first one at a default path.
pub(super) fn load(explicit: Option<&Path>) -> Result<Config, LoadError> {
    config::load::load(&config::load::find(explicit)?)
}

/// Removes secrets from the addresses of these sources, which are to be shown.
pub(super) fn hide_secrets(config: &Config, rows: &mut [SourceReportRow]) {
    let secret: HashMap<&str, _> =
        config.sources.iter().filter(|it| it.secret_url).map(|it| (&*it.name, it)).collect();
    for row in rows {
        if let Some(source) = secret.get(row.name.as_str()) {
            row.url = source.shown(&row.url);
            row.adopted_url = row.adopted_url.as_deref().map(|url| source.shown(url));
        }
    }
}

/// The configured source with that name, or an error that suggests a similar name.
pub(super) fn find_source<'a>(
    config: &'a Config,
    name: &str,
) -> Result<&'a Arc<config::source::SourceConfig>, CliError> {
    config.sources.iter().find(|source| *source.name == *name).ok_or_else(|| {
        let near = config::spelling::closest(name, config.sources.iter().map(|source| &*source.name));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        CliError::Refused(format!("no source is called `{name}`{hint}"))
    })
}
