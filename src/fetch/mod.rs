//! The network.
//!
//! Exists so that one probe is one polite, bounded, conditional GET, one delivery is one guarded
//! POST, and nothing else in the crate opens a socket. Knows HTTP: validators, redirects, encodings,
//! freshness, throttling, robots.txt, which addresses are private. Must not know when to probe, nor
//! what a body means, nor keep anything between two requests but idle connections.

mod address;
pub mod answer;
pub mod body;
pub mod client;
pub mod decode;
pub mod error;
mod failure;
pub mod freshness;
pub mod guard;
pub mod host_group;
pub mod post;
pub mod request;
pub mod robots;
pub mod secret;
