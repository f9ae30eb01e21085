//! Files named on the command line, and the store of a configuration in another folder.

use std::path::Path;

use crate::config::configuration::Config;
use crate::store::StoreError;

use super::error::CliError;

/// The bytes of a file; `-` reads standard input.
pub(super) fn read_input(file: &Path) -> Result<Vec<u8>, CliError> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes)?;
        return Ok(bytes);
    }
    std::fs::read(file).map_err(|error| CliError::Refused(format!("{}: {error}", file.display())))
}

/// Writes the text to a file, replacing its content.
pub(super) fn write_file(file: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(file, text).map_err(|error| CliError::Refused(format!("{}: {error}", file.display())))
}

/// Refuses to make a store in this folder if the configuration is in another one: the daemon's store is probably elsewhere,
/// and its probes count against the budgets.
pub(super) fn refuse_new_store_elsewhere(config: &Config) -> Result<(), CliError> {
    let store = &config.daemon.store;
    let beside = config.files.first().and_then(|file| {
        file.parent().and_then(|folder| {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            folder.canonicalize().ok()
        })
    });
    let here = Path::new(".").canonicalize().ok();
    match store.is_relative() && !store.exists() && beside != here {
        true => Err(StoreError::Missing(store.clone()).into()),
        false => Ok(()),
    }
}
