//! The rules of polite polling, each against a server that records what it is asked.
//!
//! The whole daemon runs here, as it does in service, on a clock that runs hundreds or thousands
//! of times as fast: so hours of manners are seen in seconds. Nothing is judged by how fast this
//! machine is: limits are lower bounds that the daemon counts from the end of a request, which a
//! server cannot see earlier than its beginning.

mod changes;
mod deadlines;
mod hosts;
mod manners;
mod redirects;
mod rules;
mod timing;
mod validators;
mod world;
