//! Files named on the command line.

use std::path::Path;

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
