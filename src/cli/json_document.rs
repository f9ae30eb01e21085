//! Output of a command as one JSON document.

use std::io::{self, Write};

use serde::Serialize;

/// Writes it indented, with the keys of every object in alphabetical order.
pub(super) fn write(out: &mut dyn Write, document: &impl Serialize) -> io::Result<()> {
    let document = serde_json::to_value(document)?;
    writeln!(out, "{document:#}")
}
