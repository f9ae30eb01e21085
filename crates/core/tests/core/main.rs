//! Properties of the core, from outside.

mod any_policy;
mod observe_compare;
mod observe_feeds;
mod observe_older;
mod observe_pages;
mod plan;
mod policies;
mod rate;
