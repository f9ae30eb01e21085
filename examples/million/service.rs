//! The environment that the systemd unit sets. The bench `throughput` uses this file too.

/// The text of the unit.
const UNIT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/tidewatch.service"));

/// The variables of the unit's `Environment=` lines. The unit quotes none of them.
pub fn environment() -> impl Iterator<Item = (&'static str, &'static str)> {
    let values = UNIT.lines().filter_map(|line| line.strip_prefix("Environment="));
    values.flat_map(str::split_whitespace).filter_map(|variable| variable.split_once('='))
}
