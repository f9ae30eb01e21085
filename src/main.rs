//! The `tidewatch` command.

fn main() {}
