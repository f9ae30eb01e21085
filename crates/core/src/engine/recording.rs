//! Recordings of an engine: a snapshot, then all its events and actions.
//!
//! A recording turns an incident on one machine into a test on another. Addresses and user-written texts
//! are replaced by numbers. The format is a sequence of frames, each preceded by its length; a truncated
//! last frame is ignored. Knows bytes; must not know files.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

use super::action::Action;
use super::event::EngineEvent;
use super::recording_redaction::Redaction;
use super::state::Engine;

/// The first bytes of every recording; the number is the format version.
const MAGIC: &[u8] = b"tidewatch recording 7\n";

/// An event and the actions that followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The time of the event.
    pub now: Timestamp,
    /// The event.
    pub event: EngineEvent,
    /// The actions.
    pub actions: Vec<Action>,
}

/// Why a recording cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRecording {
    /// Not a recording.
    #[error("is no recording that this version of tidewatch understands")]
    NotARecording,
    /// It ends before the snapshot is complete.
    #[error("ends before the snapshot does: nothing can be replayed")]
    NoSnapshot,
    /// A frame in the middle cannot be read.
    #[error("cannot be read from byte {0} on")]
    Damaged(usize),
}

/// Writes a recording frame by frame.
#[derive(Debug)]
pub struct Recorder {
    redaction: Redaction,
}

impl Recorder {
    /// Starts with a snapshot of the engine. Returns the first bytes.
    pub fn begin(engine: &Engine) -> (Self, Vec<u8>) {
        let mut redaction = Redaction::default();
        let mut snapshot = engine.clone();
        redaction.engine(&mut snapshot);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(frame(&snapshot));
        (Self { redaction }, bytes)
    }

    /// The bytes of the next exchange.
    pub fn exchange(
        &mut self,
        now: Timestamp,
        mut event: EngineEvent,
        mut actions: Vec<Action>,
    ) -> Vec<u8> {
        self.redaction.event(&mut event);
        actions.iter_mut().for_each(|action| self.redaction.action(action));
        frame(&Exchange { now, event, actions })
    }
}

fn frame(value: &impl Serialize) -> Vec<u8> {
    // All these types can be serialised: they have no unsupported map keys and no streams.
    let body = postcard::to_allocvec(value).unwrap_or_default();
    let mut bytes = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// The frame at an offset and the offset of the next; `None` if the bytes end before.
fn frame_at(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let length = bytes.get(at..at + 4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let end = at + 4 + length;
    Some((bytes.get(at + 4..end)?, end))
}

/// A difference between recorded and replayed actions.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The number of the exchange, from 0.
    pub exchange: usize,
    /// The recorded exchange.
    pub recorded: Exchange,
    /// The actions of the replay.
    pub replayed: Vec<Action>,
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// How many exchanges were replayed.
    pub exchanges: usize,
    /// How many actions were compared.
    pub actions: usize,
    /// The times of the first and the last exchange.
    pub span: Option<(Timestamp, Timestamp)>,
    /// The first difference; the replay stops there.
    pub difference: Option<Box<Difference>>,
}

/// The engine at the start of a recording, and the offset of its first exchange.
fn snapshot(bytes: &[u8]) -> Result<(Engine, usize), BadRecording> {
    if !bytes.starts_with(MAGIC) {
        return Err(BadRecording::NotARecording);
    }
    let (body, next) = frame_at(bytes, MAGIC.len()).ok_or(BadRecording::NoSnapshot)?;
    let engine = postcard::from_bytes(body).map_err(|_| BadRecording::Damaged(MAGIC.len()))?;
    Ok((engine, next))
}

/// The exchanges of a recording.
pub fn exchanges(bytes: &[u8]) -> Result<Vec<Exchange>, BadRecording> {
    let (_, mut at) = snapshot(bytes)?;
    let mut exchanges = Vec::new();
    while let Some((body, next)) = frame_at(bytes, at) {
        exchanges.push(postcard::from_bytes(body).map_err(|_| BadRecording::Damaged(at))?);
        at = next;
    }
    Ok(exchanges)
}

/// Replays a recording and compares every action.
pub fn replay(bytes: &[u8]) -> Result<Replayed, BadRecording> {
    let (mut engine, mut at) = snapshot(bytes)?;
    let mut done = Replayed { exchanges: 0, actions: 0, span: None, difference: None };
    let mut actions = Vec::new();
    while let Some((body, next)) = frame_at(bytes, at) {
        let recorded: Exchange = postcard::from_bytes(body).map_err(|_| BadRecording::Damaged(at))?;
        engine.handle(recorded.now, recorded.event.clone(), &mut actions);
        let replayed = std::mem::take(&mut actions);
        if replayed != recorded.actions {
            let difference = Difference { exchange: done.exchanges, recorded, replayed };
            done.difference = Some(Box::new(difference));
            return Ok(done);
        }
        done.exchanges += 1;
        done.actions += replayed.len();
        done.span = Some((done.span.map_or(recorded.now, |span| span.0), recorded.now));
        at = next;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::event::{KnownSource, Moved};
    use crate::engine::loading::Loader;
    use crate::engine::params::{FleetParams, HostGroup, SourcePrice, Terms};
    use crate::engine::source_memory::SourceMemory;
    use crate::planning::budget::Budget;
    use crate::planning::policy::Policy;
    use crate::source_id::SourceId;

    /// A field that is added to or removed from the engine, its settings or a source changes the length. Then
    /// raise the version in `MAGIC`, and set both numbers here.
    #[test]
    fn a_changed_layout_has_a_new_version() {
        let now = Timestamp::from_secs(1_794_787_200);
        let terms = Terms {
            budget: Budget::default(),
            policy: Policy::Auto,
            weight: 1.0,
            price: SourcePrice::Fleet,
            max_gap: None,
            cost: None,
            host: HostGroup { key: "a.example".into(), public: true },
        };
        let mut loader = Loader::new(FleetParams::default(), 7, now);
        loader.sources(vec![KnownSource {
            id: SourceId(1),
            terms,
            memory: SourceMemory::default(),
            probes: Vec::new(),
            answered_by: None,
            moved: Moved::Same,
        }]);
        let (_, bytes) = Recorder::begin(&loader.finish());
        let version = String::from_utf8_lossy(&MAGIC[20..MAGIC.len() - 1]).into_owned();
        assert_eq!((version.as_str(), bytes.len()), ("7", 12114));
    }
}
