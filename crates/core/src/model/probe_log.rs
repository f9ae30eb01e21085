//! The log of one source, from which its evidence is learned again when settings changed.
//!
//! The weights and hours of a history follow from its half-life and zone, so a history cannot be converted.
//! The log holds the times of updates, of items at first contact, of gaps and of bursts. Probes that found
//! nothing need not be in it: the time between two others is exposure. Only the probe before a gap or a page's
//! change is needed, because the time since then is not. Uses the same [`learn`] as a probe. May not know the
//! store.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use crate::observe::{ItemChange, Observation, Occurred, Present, SourceKind, Update, UpdateKind};
use crate::time::{Span, Timestamp};

use super::history::History;
use super::learn::{ProbedUpdates, count_burst, learn};

/// The logged observations of one source, by the time of their probes.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeLog {
    kind: SourceKind,
    /// Since when the source is known. Earlier evidence comes from the items at first contact.
    added: Timestamp,
    probes: BTreeMap<Timestamp, LoggedProbe>,
    /// The intervals between the probes of a page.
    intervals: Option<LoggedIntervals>,
    bursts: Vec<(Timestamp, Timestamp)>,
    /// The start of the present rhythm, if a change was found: older evidence is not learned again.
    rhythm_since: Option<Timestamp>,
}

/// Intervals between logged probes. Older probes are deleted.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LoggedIntervals {
    since: Timestamp,
    until: Timestamp,
    /// Sum of the squared lengths, in seconds.
    squares: f64,
}

impl LoggedIntervals {
    /// The mean length of the interval in which a change lies: long ones have more of them.
    fn with_a_change(&self) -> Span {
        let sum = (self.until - self.since).as_secs_f64();
        Span::from_secs(1).scaled(if sum > 0.0 { self.squares / sum } else { 0.0 })
    }
}

/// The log of one probe.
#[derive(Debug, Clone, Default, PartialEq)]
struct LoggedProbe {
    updates: Vec<Occurred>,
    /// Dates of the items that it was the first to see.
    items: Vec<Timestamp>,
    /// Items may have been lost before it.
    gap: bool,
}

impl LoggedProbe {
    /// At first contact, items are history and none is an update.
    fn is_first_contact(&self) -> bool {
        self.updates.is_empty() && !self.items.is_empty()
    }

    /// The observation, without updates from before `since`.
    fn observation(&self, since: Timestamp) -> Observation {
        let known = |occurred: &&Occurred| match **occurred {
            Occurred::At(at) => at >= since,
            Occurred::Between(..) => true,
        };
        let update = |&occurred: &Occurred| Update::bare(UpdateKind::New, occurred, "");
        let dates = self.updates.iter().filter_map(|occurred| match *occurred {
            Occurred::At(at) => Some(at),
            Occurred::Between(..) => None,
        });
        let present =
            |dated| Present { key_hash: 0, fingerprint: 0, change: ItemChange::New, dated: Some(dated) };
        let items = self.items.iter().copied().filter(|&dated| dated >= since);
        Observation {
            updates: self.updates.iter().filter(known).map(update).collect(),
            present: items.chain(dates).map(present).collect(),
            gap: self.gap,
            first_contact: self.is_first_contact(),
            ..Observation::default()
        }
    }
}

impl ProbeLog {
    /// An empty log of a source that is known since `added`.
    pub fn new(kind: SourceKind, added: Timestamp) -> Self {
        Self {
            kind,
            added,
            probes: BTreeMap::new(),
            intervals: None,
            bursts: Vec::new(),
            rhythm_since: None,
        }
    }

    /// Adds a probe of a page, in order of time.
    pub fn probe(&mut self, at: Timestamp) {
        self.probes.entry(at).or_default();
        let begun = LoggedIntervals { since: at, until: at, squares: 0.0 };
        let LoggedIntervals { since, until, squares } = self.intervals.unwrap_or(begun);
        let squares = squares + (at - until).as_secs_f64().powi(2);
        self.intervals = Some(LoggedIntervals { since, until: at, squares });
    }

    /// The latest publisher's date of an update or an item.
    pub fn latest_date(&self) -> Option<Timestamp> {
        let dates = |probe: &LoggedProbe| {
            let updates = probe.updates.iter().filter_map(|occurred| match *occurred {
                Occurred::At(at) => Some(at),
                Occurred::Between(..) => None,
            });
            updates.chain(probe.items.iter().copied()).max()
        };
        self.probes.values().filter_map(dates).max()
    }

    /// Adds an update that the probe at `found` found.
    pub fn update(&mut self, found: Timestamp, occurred: Occurred) {
        if let Occurred::Between(from, _) = occurred {
            // The probe before.
            self.probes.entry(from).or_default();
        }
        self.probes.entry(found).or_default().updates.push(occurred);
    }

    /// Adds an item with a date that the probe at `first_seen` was the first to see.
    pub fn item(&mut self, first_seen: Timestamp, dated: Timestamp) {
        self.probes.entry(first_seen).or_default().items.push(dated);
    }

    /// Adds a gap: items may have been lost before the probe at `at`, since the `last` one, if that is known.
    pub fn gap(&mut self, at: Timestamp, last: Option<Timestamp>) {
        if let Some(last) = last {
            self.probes.entry(last).or_default();
        }
        self.probes.entry(at).or_default().gap = true;
    }

    /// Adds a burst, in order of time; `None` if it has not ended.
    pub fn burst(&mut self, began: Timestamp, ended: Option<Timestamp>) {
        self.bursts.push((began, ended.unwrap_or(Timestamp::MAX)));
    }

    /// Leaves out what was before the present rhythm of the source.
    pub fn rhythm_since(&mut self, since: Timestamp) {
        self.rhythm_since = Some(since);
    }

    /// The same log without bursts: their updates count like others.
    pub fn without_bursts(&self) -> Self {
        Self { bursts: Vec::new(), ..self.clone() }
    }

    /// The evidence of the span of `old`, learned with this zone and half-life.
    pub fn history(&self, old: &History, zone: &TimeZone, half_life: Span, now: Timestamp) -> History {
        let mut history = History::new(zone.clone(), half_life, now);
        let Some((since, until)) = old.span() else { return history };
        let since = self.rhythm_since.map_or(since, |changed| changed.clamp(since, until));
        let probes = self.with_ends_of_bursts();
        let mut probes = probes.range(since..).peekable();
        let begins_with_contact = probes.peek().is_some_and(|(_, probe)| probe.is_first_contact());
        let mut last = (!begins_with_contact).then(|| since.max(self.added).min(until));
        for (&at, probe) in probes {
            if let Some(before) =
                self.unlogged_probe_before(at, probe).filter(|&before| last < Some(before))
            {
                self.learn_probe(&mut history, last, before, None);
                last = Some(before);
            }
            self.learn_probe(&mut history, last, at, Some(&probe.observation(since)));
            last = Some(at);
        }
        self.learn_probe(&mut history, last, until, None);
        history
    }

    fn learn_probe(
        &self,
        history: &mut History,
        last: Option<Timestamp>,
        now: Timestamp,
        seen: Option<&Observation>,
    ) {
        let overlaps = |&&(began, ended): &&(Timestamp, Timestamp)| {
            began < now && last.is_some_and(|last| last < ended)
        };
        let except = self.bursts.iter().find(overlaps).copied();
        let probe = ProbedUpdates { kind: self.kind, last, now, seen, except };
        learn(history, &probe);
        count_burst(history, &probe);
    }

    /// The probes, with one at the end of each burst of a feed, so that no interval has parts of two bursts.
    /// None divides an interval with updates of the burst.
    fn with_ends_of_bursts(&self) -> BTreeMap<Timestamp, LoggedProbe> {
        let mut probes = self.probes.clone();
        if self.kind == SourceKind::Page {
            return probes;
        }
        for &(_, ended) in &self.bursts {
            let next = self.probes.range(ended..).next();
            let divides = |occurred: &Occurred| match *occurred {
                Occurred::At(at) => at <= ended,
                Occurred::Between(from, _) => from < ended,
            };
            if next.is_some_and(|(_, probe)| !probe.updates.iter().any(divides)) {
                probes.entry(ended).or_default();
            }
        }
        probes
    }

    /// The probe before one that found a dated change of a page, if it is no longer logged: as long before as
    /// is usual in the log.
    fn unlogged_probe_before(&self, at: Timestamp, probe: &LoggedProbe) -> Option<Timestamp> {
        let dated = probe.updates.iter().any(|occurred| matches!(occurred, Occurred::At(_)));
        let intervals = self.intervals.filter(|intervals| dated && at < intervals.since)?;
        Some(at - intervals.with_a_change())
    }
}
