//! Network access; the only module that opens network sockets.
//!
//! A probe is one bounded, conditional GET; a delivery is one guarded POST. Handles validators, redirects,
//! encodings, freshness, throttling, robots.txt and private addresses. Must not know when to probe, nor
//! what a body means. Keeps only idle connections between requests.

mod address;
pub mod answer;
pub mod body;
pub mod body_memory;
pub mod client;
mod connections;
pub mod decode;
pub mod error;
mod failure;
pub mod freshness;
pub mod guard;
pub mod host_group;
mod kept_hosts;
mod known_addresses;
mod name_lookups;
mod own_waits;
pub mod post;
pub mod request;
mod resolving;
pub mod robots;
pub mod secret;
