//! What probes see of a source with known updates.

use tidewatch_core::observe::{ItemChange, Observation, Occurred, Present, SourceKind, Update, UpdateKind};
use tidewatch_core::time::Timestamp;

/// How a source shows its updates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shows {
    pub kind: SourceKind,
    pub dated: bool,
    /// Items in the document of a feed.
    pub holds: usize,
    /// Older probes are deleted from the log.
    pub logged_since: Timestamp,
}

pub const FEED: Shows =
    Shows { kind: SourceKind::Feed, dated: true, holds: 40, logged_since: Timestamp::MIN };
pub const SHORT_FEED: Shows = Shows { holds: 3, ..FEED };
pub const UNDATED_FEED: Shows = Shows { dated: false, ..FEED };
pub const PAGE: Shows = Shows { kind: SourceKind::Page, dated: false, holds: 1, ..FEED };
pub const DATED_PAGE: Shows = Shows { dated: true, ..PAGE };

/// What the probe at `now` sees of a source that was published at these times.
pub fn observe(
    shows: Shows,
    published: &[Timestamp],
    last: Option<Timestamp>,
    now: Timestamp,
) -> Observation {
    let there = &published[..published.partition_point(|&at| at <= now)];
    let document = &there[there.len().saturating_sub(shows.holds)..];
    let known = |at: Timestamp| last.is_some_and(|last| at <= last);
    let dated = |at: Timestamp| shows.dated.then_some(at);
    let present = |&at: &Timestamp| Present {
        key_hash: 0,
        fingerprint: 0,
        change: ItemChange::New,
        dated: dated(at),
    };
    let mut seen = Observation { first_contact: last.is_none(), ..Observation::default() };
    if shows.kind == SourceKind::Feed {
        seen.present = document.iter().map(present).collect();
        seen.gap = last.is_some() && !document.is_empty() && document.iter().all(|&at| !known(at));
    }
    if let Some(last) = last {
        let occurred = |at| if shows.dated { Occurred::At(at) } else { Occurred::Between(last, now) };
        let news = document.iter().filter(|&&at| !known(at));
        seen.updates = news.map(|&at| Update::bare(UpdateKind::New, occurred(at), "")).collect();
    }
    seen
}
