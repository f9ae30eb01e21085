//! `tidewatch garden`: lateness and work as functions of the capacity.
//!
//! Sources with a `max_gap` are the plants of B. J. Gao et al., *The Gardener's Problem* (2009). Every
//! policy is tried with many capacities (MMEDD). The Pareto front keeps each trial unless another is
//! better in both tardiness and work. This module runs the steps in order. It must not simulate or lay out
//! text.

use std::io::Write;
use std::path::Path;

use crate::store::StoreError;
use tidewatch_lab::garden::answer::{GardenAnswer, beds};
use tidewatch_lab::garden::cube::{Cube, CubeError};
use tidewatch_lab::garden::{document, picture};

use super::error::CliError;
use super::files::write_file;
use super::process::{colours, runtime};

pub mod ask;
mod configured;
mod file;
mod run;
mod show;

use ask::Args;

impl From<CubeError> for CliError {
    fn from(error: CubeError) -> Self {
        match error {
            CubeError::Sql(error) => Self::Store(StoreError::Sql(error)),
            error => Self::Refused(error.to_string()),
        }
    }
}

/// Runs the trials and shows them, or slices an existing cube.
pub fn run(arguments: &Args, config: Option<&Path>, out: &mut dyn Write) -> Result<(), CliError> {
    let (runtime, by) = (runtime()?, arguments.by());
    if let Some(file) = arguments.only_sliced() {
        if arguments.svg.is_some() {
            return Err(CliError::Usage("--svg draws a garden that is tried out; name one".to_owned()));
        }
        let slice =
            runtime.block_on(async { Cube::open(file).await?.slice(&by, &arguments.held).await })?;
        match arguments.json {
            true => writeln!(out, "{}", document::slice(&slice)?)?,
            false => show::slice(&slice, colours(), out)?,
        }
        return Ok(());
    }
    let question = arguments.question(config)?;
    let mut cube = match arguments.cube.is_some() || !by.is_empty() {
        true => Some(runtime.block_on(Cube::begin(arguments.cube.as_deref(), &beds(&question.instance)))?),
        false => None,
    };
    let outcomes = match (run::all(&question, cube.as_mut(), &runtime), cube.take()) {
        (Err(error), Some(cube)) => {
            runtime.block_on(cube.discard())?;
            return Err(error);
        }
        (outcomes, untouched) => {
            cube = untouched;
            outcomes?
        }
    };
    let answer = GardenAnswer::new(question, outcomes);
    let slice = match cube {
        Some(mut cube) => runtime.block_on(async {
            cube.conclude(&answer.runs()).await?;
            let slice = if by.is_empty() { None } else { Some(cube.slice(&by, &arguments.held).await) };
            // Keeps the measures even if the slice fails.
            cube.keep().await?;
            slice.transpose()
        })?,
        None => None,
    };
    if let Some(file) = &arguments.svg {
        write_file(file, &picture::to_svg(&answer))?;
    }
    if arguments.json {
        writeln!(out, "{}", document::document(&answer, slice.as_ref())?)?;
    } else {
        show::all(&answer, colours(), out)?;
        if let Some(slice) = &slice {
            writeln!(out)?;
            show::slice(slice, colours(), out)?;
        }
    }
    Ok(())
}
