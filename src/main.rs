//! The `tidewatch` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    match tidewatch::cli::command_line::main(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let said = error.to_string();
            if !said.is_empty() && error.code() != 0 {
                eprintln!("tidewatch: {said}");
            }
            ExitCode::from(error.code())
        }
    }
}
