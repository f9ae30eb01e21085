//! Pictures as SVG: shapes, text, colours and axes.
//!
//! [`svg`] writes shapes into a picture and escapes all text. [`colour`] has the shared colours, [`chart`]
//! has axes, lines and bars, [`labels`] places names without overlap. Must not know what is drawn, nor where it is written.

pub mod chart;
pub mod colour;
pub mod labels;
pub mod svg;
