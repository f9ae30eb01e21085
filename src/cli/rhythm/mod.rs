//! `tidewatch rhythm`: shows the weekly rhythm of a source as a heat map, JSON or SVG.
//!
//! Lets users inspect the learned rhythm of a source. Knows how a weekly rate is shown. Except for the
//! command itself (`run`), must not know where the rate or the current time comes from.

mod document;
mod grid;
mod heat;
mod known;
pub mod run;
mod show;
mod stretches;
mod svg;
#[cfg(test)]
mod tests;
mod words;
