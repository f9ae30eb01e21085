//! What is believed of one source's rhythm, and what a look makes of it.
//!
//! Three things that are carried from look to look and stored with each: the evidence behind the
//! rhythm, the watch for bursts, and, while a burst is on, what it would teach if it were the rhythm.
//! A burst is kept out of the evidence; one that outlasts a whole cycle is no burst but a change, and
//! then what was set aside *is* the evidence: the memory is as short as that. Must not know when the
//! next probe is, nor who fits rates.

use crate::observe::{Kind, Observation, Occurred, UpdateKind};
use crate::rate::burst::excess::Excess;
use crate::rate::burst::watch::Watch;
use crate::rate::burst::{self, Change, Evidence, Params, Seen, is_quiet};
use crate::rate::cyclic::Rate;
use crate::rate::history::History;
use crate::time::{Span, Timestamp};

use super::learn::{Look, learn};

/// What is carried from look to look.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    /// The evidence behind the rhythm.
    pub history: History,
    /// The watch for bursts.
    pub watch: Watch,
    /// What the burst that is on would teach.
    pub aside: Option<History>,
}

/// What a look is held against: the rhythm that was believed before it.
#[derive(Debug, Clone, Copy)]
pub struct Foretold<'r> {
    /// λ(t).
    pub rate: &'r Rate,
    /// How bursts are recognised.
    pub params: Params,
    /// The cycle that the rhythm repeats in.
    pub cycle: Span,
}

/// What a look says of the rhythm.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Heard {
    /// The burst that is on since or over with this look.
    pub burst: Option<Change>,
    /// The burst that is on, so far.
    pub on: Option<Evidence>,
    /// What it adds to the rhythm.
    pub excess: Option<Excess>,
    /// The burst outlasted a cycle: it is the rhythm from now on.
    pub for_good: bool,
    /// It should have updated by now: so many updates were expected since the last one.
    pub overdue: Option<f64>,
    /// The latest update known.
    pub newest: Option<Timestamp>,
}

impl Beliefs {
    /// Nothing yet but the evidence.
    pub fn new(history: History) -> Self {
        Self { history, watch: Watch::default(), aside: None }
    }

    /// Takes in a look. `newest` is the latest update that was known before it; without a rhythm to
    /// hold it against, it is learned from and nothing else.
    pub fn look(
        &mut self,
        look: &Look<'_>,
        foretold: Option<&Foretold<'_>>,
        newest: Option<Timestamp>,
    ) -> Heard {
        let newest = latest(look).max(newest);
        let first_contact = look.last.is_none() || look.seen.is_some_and(|seen| seen.first_contact);
        let Some(foretold) = foretold.filter(|_| !first_contact) else {
            // Another document: what was thought of the one before says nothing about it.
            (self.watch, self.aside) = (Watch::default(), None);
            learn(&mut self.history, look);
            return Heard { newest, ..Heard::default() };
        };
        let mut change = self.watch_over(look, foretold);
        let on = self.watch.so_far(foretold.rate);
        let mut heard =
            Heard { on, newest, excess: self.excess(look.now, on, &foretold.params), ..Heard::default() };
        let burst = match change {
            Some(Change::Began(evidence)) => Some((evidence.since, look.now)),
            Some(Change::Passed(evidence)) => Some((evidence.since, evidence.at)),
            Some(Change::Ended(evidence)) => Some((Timestamp::MIN, evidence.at)),
            None => on.map(|_| (Timestamp::MIN, look.now)),
        };
        learn(&mut self.history, &Look { except: burst, ..*look });
        if let (Some(evidence), Some((from, _))) = (on, burst) {
            let aside = self.aside.get_or_insert_with(|| self.history.afresh(look.now));
            learn(aside, &Look { except: Some((Timestamp::MIN, from)), ..*look });
            if aside.span().is_some_and(|(since, _)| look.now - since >= foretold.cycle) {
                self.history = self.aside.take().unwrap_or_else(|| self.history.afresh(look.now));
                self.watch = Watch::default();
                change = Some(Change::Ended(evidence));
                heard = Heard { on: None, excess: None, for_good: true, ..heard };
            }
        } else {
            self.aside = None;
        }
        heard.burst = change;
        heard.overdue = newest
            .filter(|_| heard.on.is_none() && !heard.for_good)
            .map(|newest| foretold.rate.expected(newest, look.now))
            .filter(|&expected| is_quiet(expected, foretold.params.false_alarms));
        heard
    }

    fn watch_over(&mut self, look: &Look<'_>, foretold: &Foretold<'_>) -> Option<Change> {
        let mut from = look.last?;
        if let Some(seen) = look.seen.filter(|seen| seen.gap) {
            let oldest = seen.present.iter().filter_map(|item| item.dated).min();
            from = oldest.unwrap_or(look.now).max(from);
        }
        let updates = look.seen.map_or(&[][..], |seen| &seen.updates);
        let news = || updates.iter().filter(|update| update.kind != UpdateKind::Edited);
        let times: Vec<Timestamp> = news()
            .filter_map(|update| match update.occurred {
                Occurred::At(at) => Some(at),
                Occurred::Between(..) => None,
            })
            .collect();
        let count = news().count();
        let seen = match look.kind {
            // Only the last change shows.
            Kind::Page if count > 0 => Seen::Changed,
            _ if times.len() == count => Seen::Dated(&times),
            _ => Seen::Counted(u32::try_from(count).unwrap_or(u32::MAX)),
        };
        // What is published while an answer travels may be in it.
        let until = times.iter().copied().fold(look.now, Timestamp::max);
        self.watch.not_after(look.now);
        self.watch.look(&burst::Look { from, until, seen }, foretold.rate, &foretold.params)
    }

    fn excess(&self, at: Timestamp, on: Option<Evidence>, params: &Params) -> Option<Excess> {
        // Not before it is on: a source that keeps its rhythm is under some suspicion after every few
        // updates, and planning for that cost it 2 %.
        let lasted = (at - on?.since).max(Span::ZERO);
        let (probability, per_hour) = (self.watch.probability(params.test), self.watch.excess_rate());
        (per_hour > 0.0).then_some(Excess { at, probability, per_hour, lasted })
    }
}

/// The latest update that a look shows; at first contact, the latest that was there.
fn latest(look: &Look<'_>) -> Option<Timestamp> {
    let seen: &Observation = look.seen?;
    let updates = seen.updates.iter().filter(|update| update.kind != UpdateKind::Edited);
    let occurred = updates.map(|update| match update.occurred {
        Occurred::At(at) | Occurred::Between(_, at) => at,
    });
    let there = seen.present.iter().filter(|_| seen.first_contact).filter_map(|item| item.dated);
    occurred.chain(there).filter(|&at| at <= look.now).max()
}
