//! A recording: an engine as it stood, then all that it was told and all that it asked for.
//!
//! An incident on one machine becomes a test on another. A recording holds numbers in place of addresses and of what
//! users wrote. It is a row of frames, each with its length before it; a last frame that is cut off is left out. Knows
//! bytes; must not know files.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

use super::action::Action;
use super::event::EngineEvent;
use super::redact::Redaction;
use super::state::Engine;

/// The first bytes of every recording; the number is the version of the format.
const MAGIC: &[u8] = b"tidewatch recording 1\n";

/// What an engine was told, and what it asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// When.
    pub now: Timestamp,
    /// What it was told.
    pub event: EngineEvent,
    /// What it asked for.
    pub actions: Vec<Action>,
}

/// Why there is no recording in some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRecording {
    /// Something else.
    #[error("is no recording that this version of tidewatch understands")]
    NotARecording,
    /// It ends before it begins.
    #[error("ends before the snapshot does: nothing can be replayed")]
    NoSnapshot,
    /// A frame in the middle cannot be read.
    #[error("cannot be read from byte {0} on")]
    Damaged(usize),
}

/// Makes a recording, frame by frame.
#[derive(Debug)]
pub struct Recorder {
    redaction: Redaction,
}

impl Recorder {
    /// Begins with an engine as it stands. Returns the first bytes.
    pub fn begin(engine: &Engine) -> (Self, Vec<u8>) {
        let mut redaction = Redaction::default();
        let mut snapshot = engine.clone();
        redaction.engine(&mut snapshot);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(frame(&snapshot));
        (Self { redaction }, bytes)
    }

    /// The next bytes. `event` is what the engine was told, `actions` what it asked for.
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
    // All of these types can be serialised: there is no map with keys that cannot, and no stream.
    let body = postcard::to_allocvec(value).unwrap_or_default();
    let mut bytes = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// The frame at some place, and where the next one begins; `None` if the bytes end before.
fn frame_at(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let length = bytes.get(at..at + 4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let end = at + 4 + length;
    Some((bytes.get(at + 4..end)?, end))
}

/// A difference between what was recorded and what an engine asks for now.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The number of the exchange, from 0 on.
    pub exchange: usize,
    /// What was recorded.
    pub recorded: Exchange,
    /// What the engine asks for now.
    pub replayed: Vec<Action>,
}

/// What came of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// The exchanges that were replayed.
    pub exchanges: usize,
    /// The actions that were compared.
    pub actions: usize,
    /// From when until when.
    pub span: Option<(Timestamp, Timestamp)>,
    /// The first difference; the replay ends there.
    pub difference: Option<Box<Difference>>,
}

/// The engine that a recording begins with, and where its exchanges begin.
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

/// Plays a recording through the engine and compares every action.
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
