//! `tidewatch calibrate`: stated probabilities against what came of them.

mod document;
pub mod run;
mod show;
mod svg;
#[cfg(test)]
mod tests;
pub mod verdicts;
