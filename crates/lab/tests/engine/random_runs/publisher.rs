//! A simulated source with random updates, hints and failures.

use std::collections::VecDeque;

use tidewatch_core::engine::event::{Failure, ProbeAnswer};
use tidewatch_core::engine::params::HostGroup;
use tidewatch_core::observe::{
    FeedHints, ItemChange, Observation, Occurred, PageText, Present, SourceKind, Update, UpdateKind,
};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

/// A source as its publisher knows it. All instants are real time.
#[derive(Debug)]
pub struct Publisher {
    pub kind: SourceKind,
    /// Updates carry their dates.
    pub dated: bool,
    pub per_hour: f64,
    /// Start, end and factor of changes of its rate.
    pub rate_changes: Vec<(Timestamp, Timestamp, f64)>,
    pub hints: FeedHints,
    pub max_age: Option<Span>,
    /// Failures of its next answers.
    pub failures: VecDeque<Failure>,
    /// Its next answer has no item in common with the one before.
    pub gap: bool,
    /// Another host answers for it.
    pub redirects_to: Option<HostGroup>,
    updates: Vec<Timestamp>,
    drawn_until: Timestamp,
    chance: Stream,
}

/// The state of the previous probe, for comparison.
#[derive(Debug, Clone, Copy)]
pub struct PreviousProbe {
    /// The time of the previous probe, by the engine's clock.
    pub last_probe: Option<Timestamp>,
    /// The same in real time.
    pub seen_until: Timestamp,
    /// The document is not the one before.
    pub strange: bool,
}

/// The maximum number of updates, to limit the run time.
const MOST: usize = 3_000;
/// Items that its feed holds.
const HOLDS: usize = 12;

impl Publisher {
    pub fn new(seed: u64, kind: SourceKind, dated: bool, per_hour: f64, now: Timestamp) -> Self {
        Self {
            kind,
            dated,
            per_hour,
            rate_changes: Vec::new(),
            hints: FeedHints::default(),
            max_age: None,
            failures: VecDeque::new(),
            gap: false,
            redirects_to: None,
            updates: Vec::new(),
            drawn_until: now,
            chance: Stream::new(seed, "publisher"),
        }
    }

    /// Its rate at that time, and the time of the next change.
    fn rate(&self, at: Timestamp) -> (f64, Timestamp) {
        let changes = self.rate_changes.iter().flat_map(|&(from, until, _)| [from, until]);
        let until = changes.filter(|&change| change > at).min().unwrap_or(Timestamp::MAX);
        let factor = self.rate_changes.iter().rev().find(|change| change.0 <= at && at < change.1);
        (self.per_hour * factor.map_or(1.0, |change| change.2), until)
    }

    /// Draws its updates until `now`.
    fn publish(&mut self, now: Timestamp) {
        let mut at = self.drawn_until;
        while at < now && self.updates.len() < MOST {
            let (per_hour, until) = self.rate(at);
            let hours = -(1.0 - self.chance.unit()).ln() / per_hour.max(1e-9);
            let next = at + Span::from_millis((hours * 3.6e6).min(1e12) as i64 + 1);
            at = next.min(until).min(now);
            if at == next {
                self.updates.push(at);
            }
        }
        self.drawn_until = now;
    }

    /// Its answer at `now`, if the engine's clock is ahead by `ahead`. The observation is `None` if the
    /// document is not modified.
    pub fn answer(
        &mut self,
        now: Timestamp,
        ahead: Span,
        before: &PreviousProbe,
    ) -> Result<(ProbeAnswer, Option<Observation>), Failure> {
        self.publish(now);
        if let Some(failure) = self.failures.pop_front() {
            return Err(failure);
        }
        match self.chance.unit() {
            draw if draw < 0.01 => return Err(Failure::Refused),
            draw if draw < 0.02 => return Err(Failure::Unreachable),
            draw if draw < 0.03 => return Err(Failure::Interrupted),
            _ => {}
        }
        let answered = ProbeAnswer { fresh_for: self.max_age, ..ProbeAnswer::default() };
        let seen = self.observe(now, ahead, before);
        let Some(seen) = seen else { return Ok((answered, None)) };
        let dated = seen.present.iter().filter(|item| item.dated.is_some()).count();
        let answered = ProbeAnswer {
            updates: seen.updates.len() as u32,
            history: if seen.first_contact { dated as u32 } else { 0 },
            gap: seen.gap,
            holds: (self.kind == SourceKind::Feed).then_some(HOLDS as u32),
            hints: Some(seen.hints),
            ..answered
        };
        Ok((answered, Some(seen)))
    }

    fn observe(&mut self, now: Timestamp, ahead: Span, before: &PreviousProbe) -> Option<Observation> {
        let by_clock = |at: Timestamp| at + ahead;
        let there = self.updates.iter().rev().take(HOLDS);
        let present: Vec<Present> = there
            .filter(|_| self.kind == SourceKind::Feed)
            .map(|&at| Present {
                key_hash: at.as_millis().unsigned_abs(),
                fingerprint: 0,
                change: ItemChange::New,
                dated: self.dated.then_some(by_clock(at)),
            })
            .collect();
        let mut seen = Observation { hints: self.hints, present, ..Observation::default() };
        if self.kind == SourceKind::Page {
            seen.page = Some(PageText { title: None, text: String::new(), fingerprint: 0 });
        }
        let Some(last_probe) = before.last_probe.filter(|_| !before.strange) else {
            seen.first_contact = true;
            return Some(seen);
        };
        let begun = self.updates.partition_point(|&at| at <= before.seen_until);
        let news = &self.updates[begun..];
        let shown = match self.kind {
            SourceKind::Feed => HOLDS,
            SourceKind::Page => 1,
        };
        let shown = &news[news.len().saturating_sub(shown)..];
        seen.gap = self.kind == SourceKind::Feed && std::mem::take(&mut self.gap) && !shown.is_empty();
        // As in `observe::compare`: a date counts if it lies between the two probes.
        let (from, until) = (last_probe.min(by_clock(now)), by_clock(now));
        for &at in shown {
            let date = by_clock(at);
            let good = self.dated && from <= date && date <= until && self.chance.unit() < 0.95;
            let kind = if self.kind == SourceKind::Feed { UpdateKind::New } else { UpdateKind::Changed };
            let occurred = if good { Occurred::At(date) } else { Occurred::Between(from, until) };
            seen.updates.push(Update::bare(kind, occurred, at.to_string()));
        }
        if self.kind == SourceKind::Feed && self.chance.unit() < 0.1 {
            let occurred = Occurred::Between(from, until);
            seen.updates.push(Update::bare(UpdateKind::Edited, occurred, "an old one"));
        }
        let not_modified = seen.updates.is_empty() && self.chance.unit() < 0.5;
        (!not_modified).then_some(seen)
    }
}
