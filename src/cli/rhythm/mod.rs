//! `tidewatch rhythm`: when in the week a source is updated, as a heat map for people, as JSON for
//! programs, as SVG for pages.
//!
//! Exists so that what was learned of a source can be looked at before it is believed. Knows how a
//! weekly rate is shown. Must not know where the rate comes from, nor what time it is: both are
//! handed in.

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
