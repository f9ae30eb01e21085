//! Polite and optimal polling of many sources.
//!
//! Everything here is pure: no clock, no I/O, no async, no global state. The time is a parameter and random
//! numbers come from seeded streams. So equal inputs give equal outputs on any machine.
//!
//! | module | subject |
//! |---|---|
//! | [`time`], [`rng`], [`step`], [`source_id`], [`source_table`] | milliseconds, random streams, steps, source numbers, values by source |
//! | [`model`] | the update rate of one source |
//! | [`observe`] | parses responses: feeds, pages, items, updates |
//! | [`planning`] | the probe times of one source |
//! | [`engine`] | all sources under one limit, and the politeness gate |
//! | [`rule_matching`] | which updates the rules of profiles match |
//!
//! # Example
//!
//! Three sources with a budget of four probes a day each, polled for a day. The loop at the end is all that
//! a shell does: pass events to the engine and execute its actions. Here requests take no time, writes
//! succeed at once and the clock advances to the next relevant time. A program would wait, fetch and store.
//!
//! ```
//! use tidewatch_core::engine::action::{Action, Persist};
//! use tidewatch_core::engine::event::{Committed, EngineEvent, KnownSource, Moved, ProbeAnswer, ProbeReport};
//! use tidewatch_core::engine::loading::Loader;
//! use tidewatch_core::engine::source_memory::SourceMemory;
//! use tidewatch_core::engine::params::{FleetParams, HostGroup, SourcePrice, Terms};
//! use tidewatch_core::planning::{budget::Budget, policy::Policy};
//! use tidewatch_core::source_id::SourceId;
//! use tidewatch_core::time::{Span, Timestamp};
//!
//! let budget = Budget { probes: 4, per: Span::from_days(1), min_spacing: Span::from_hours(1) };
//! let source = |id: i64, host: &str| KnownSource {
//!     id: SourceId(id),
//!     terms: Terms {
//!         budget,
//!         policy: Policy::Uniform,
//!         weight: 1.0,
//!         price: SourcePrice::Own(0.0),
//!         max_gap: None,
//!         cost: None,
//!         host: HostGroup { key: host.into(), public: true },
//!     },
//!     memory: SourceMemory::default(),
//!     probes: Vec::new(),
//!     answered_by: None,
//!     moved: Moved::Same,
//! };
//! let mut now = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
//! let end = now + Span::from_days(1);
//! let mut loader = Loader::new(FleetParams::default(), 1, now);
//! loader.sources(vec![source(1, "a.example"), source(2, "b.example"), source(3, "b.example")]);
//! let mut engine = loader.finish();
//!
//! let (mut events, mut actions, mut sent) = (vec![EngineEvent::Tick], Vec::new(), 0);
//! while now < end {
//!     engine.handle(now, events.pop().unwrap_or(EngineEvent::Tick), &mut actions);
//!     for action in actions.drain(..) {
//!         events.extend(match action {
//!             Action::Persist(Persist::Started(probes)) => {
//!                 let sources = probes.iter().map(|probe| probe.source).collect();
//!                 Some(EngineEvent::Committed(Committed::Started(sources)))
//!             }
//!             Action::Send(probe) => {
//!                 sent += 1; // Here the source is fetched.
//!                 let result = Ok(ProbeAnswer { updates: 1, ..ProbeAnswer::default() });
//!                 let (source, answered_by, crawl_delays) = (probe.source, None, Vec::new());
//!                 let report =
//!                     ProbeReport { source, started: now, finished: now, answered_by, crawl_delays, result };
//!                 Some(EngineEvent::ProbeEnded(Box::new(report)))
//!             }
//!             Action::Persist(Persist::Ended(result)) => {
//!                 Some(EngineEvent::Committed(Committed::Ended(result.source)))
//!             }
//!             _ => None,
//!         });
//!     }
//!     if events.is_empty() {
//!         now = now.max(engine.wake_at().unwrap_or(end)); // Here the shell waits.
//!     }
//! }
//! assert_eq!(sent, 3 * 4);
//! ```

#![deny(clippy::iter_over_hash_type)]

pub mod engine;
pub mod model;
pub mod observe;
pub mod planning;
pub mod rng;
pub mod rule_matching;
pub mod source_id;
pub mod source_table;
pub mod step;
pub mod time;
