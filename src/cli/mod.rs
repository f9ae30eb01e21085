//! cli

pub mod check;
pub mod export;
pub mod import;
