//! The `tidewatch` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    match tidewatch::cli::command_line::main(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let message = error.to_string();
            if !message.is_empty() && error.code() != 0 {
                eprintln!("tidewatch: {message}");
            }
            ExitCode::from(error.code())
        }
    }
}
