//! The claims of the papers, and the algorithms beside those that the product uses.

mod bursts;
mod garden;
mod plans;
mod profiles;
mod responses;
