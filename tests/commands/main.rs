//! The commands as a user calls them, and the manual that describes them.

mod check;
mod demo;
#[path = "../desk/mod.rs"]
mod desk;
mod docs;
mod garden;
mod plan;
mod replay;
mod simulate;
mod traces;
