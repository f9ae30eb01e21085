//! Output of `garden` at a terminal.

use std::io::{self, Write};

use crate::cli::lab_table::print;
use tidewatch_lab::garden::answer::GardenAnswer;
use tidewatch_lab::garden::cube::slice::Slice;
use tidewatch_lab::garden::{scatter, text};

/// Prints everything.
pub fn all(answer: &GardenAnswer, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}\n{}\n", text::title(answer), text::summary(answer))?;
    print(&text::front(answer), colours, out)?;
    writeln!(out)?;
    for line in scatter::lines(answer) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    for line in text::knee(answer) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Prints a slice of the cube.
pub fn slice(slice: &Slice, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}\n", text::slice_title(slice))?;
    print(&text::slice(slice), colours, out)
}
