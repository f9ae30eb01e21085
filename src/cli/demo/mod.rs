//! demo
use super::CliError;
use std::io::Write;
/// What `demo` is asked.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One JSON document.
    #[arg(long)]
    json: bool,
}
/// Runs the demo.
pub fn run(_arguments: &Args, _out: &mut dyn Write) -> Result<(), CliError> {
    Err(CliError::Refused("not yet".to_owned()))
}
