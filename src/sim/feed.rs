//! A feed that publishes at known times, and what its watcher makes of what it shows.
//!
//! Exists so that a simulated source is watched as a real one is: a probe sees the newest items, with
//! their dates, and nothing else; beliefs, bursts and rates follow from that alone, by the code that the
//! daemon runs. Must not know when it will be looked at, nor tell its future to anyone.

use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::fleet::Answered;
use crate::fleet::beliefs::{Beliefs, Foretold};
use crate::fleet::learn::Look;
use crate::fleet::making::{Rhythm, WELL_FOUNDED};
use crate::observe::{Kind, Observation, Occurred, Present, Update, UpdateKind};
use crate::rate::aggregate::{Borrow, Origin, estimate};
use crate::rate::burst::Params;
use crate::rate::cyclic::Rate;
use crate::rate::habits::{Foresight, Habits};
use crate::rate::history::History;
use crate::rate::steps::Steps;
use crate::time::{Span, Timestamp};

/// How a feed is watched.
#[derive(Debug, Clone, PartialEq)]
pub struct Watching {
    /// Whose week its rhythm follows.
    pub zone: TimeZone,
    /// How fast old evidence fades.
    pub half_life: Span,
    /// What its rhythm repeats in.
    pub cycle: Span,
    /// How bursts are recognised.
    pub bursts: Params,
    /// M: how many items it shows.
    pub holds: usize,
    /// Whether updates are taken to bring others.
    pub echoes: bool,
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            zone: TimeZone::UTC,
            half_life: Span::from_days(56),
            cycle: Span::from_days(7),
            bursts: Params::default(),
            holds: 50,
            echoes: true,
        }
    }
}

/// A feed and its watcher.
#[derive(Debug, Clone)]
pub struct Feed {
    watching: Watching,
    /// When it publishes, ascending.
    items: Vec<Timestamp>,
    beliefs: Beliefs,
    rate: Option<(Rate, Origin, u32)>,
    noted: usize,
    habits: Option<(Habits, usize, Timestamp)>,
    foresight: Option<Arc<Foresight>>,
    last: Option<Timestamp>,
    newest: Option<Timestamp>,
}

impl Feed {
    /// One that publishes at these times, ascending, and has not been looked at.
    pub fn new(items: Vec<Timestamp>, watching: Watching, now: Timestamp) -> Self {
        let history = History::new(watching.zone.clone(), watching.half_life, now);
        Self {
            watching,
            items,
            beliefs: Beliefs::new(history),
            rate: None,
            noted: 0,
            habits: None,
            foresight: None,
            last: None,
            newest: None,
        }
    }

    /// What a probe at `now` finds, learned from.
    pub fn look(&mut self, now: Timestamp) -> Answered {
        let there = self.items.partition_point(|&at| at <= now);
        let shown = &self.items[there.saturating_sub(self.watching.holds)..there];
        let last = self.last;
        let news = last.map_or(&[][..], |last| &shown[shown.partition_point(|&at| at <= last)..]);
        let seen = Observation {
            updates: news.iter().map(|&at| item(at)).collect(),
            present: shown.iter().map(|&at| present(at)).collect(),
            gap: last.is_some() && news.len() == shown.len() && shown.len() == self.watching.holds,
            first_contact: last.is_none(),
            ..Observation::default()
        };
        let found = news.len();
        self.noted += found;
        let look = Look { kind: Kind::Feed, last, now, seen: Some(&seen), except: None };
        let foretold = self.rate.as_ref().filter(|(_, _, updates)| *updates >= WELL_FOUNDED);
        let (params, cycle) = (self.watching.bursts, self.watching.cycle);
        let foretold = foretold.map(|(rate, ..)| Foretold { rate, params, cycle });
        let heard = self.beliefs.look(&look, foretold.as_ref(), self.newest);
        let count = |list: &[Timestamp]| u32::try_from(list.len()).unwrap_or(u32::MAX);
        let answered = Answered {
            updates: count(news),
            history: if last.is_none() { count(shown) } else { 0 },
            gap: seen.gap,
            holds: Some(count(shown)).filter(|&items| items > 0),
            heard,
            ..Answered::default()
        };
        (self.last, self.newest) = (Some(now), answered.heard.newest);
        if answered.heard.for_good.is_some() {
            self.refit(now);
        } else if found > 0 {
            self.foresee(now);
        }
        answered
    }

    /// Its rate is fitted anew, from what has been seen.
    pub fn refit(&mut self, now: Timestamp) {
        let evidence = self.beliefs.history.evidence(now);
        let (fitted, origin) = estimate(&evidence, None, Borrow::Never, &self.watching.zone);
        self.rate = Some((fitted.rate, origin, self.beliefs.history.seen()));
        let stale = self
            .habits
            .as_ref()
            .is_none_or(|(_, noted, at)| *noted != self.noted || now - *at >= Span::from_days(1));
        if stale {
            self.habits = Some((
                Habits::weigh(&self.beliefs.diary, &self.watching.zone, now, self.watching.echoes),
                self.noted,
                now,
            ));
        }
        self.foresee(now);
    }

    fn foresee(&mut self, now: Timestamp) {
        self.foresight = self.habits.as_ref().map(|(habits, ..)| {
            Arc::new(Foresight::new(self.beliefs.diary.clone(), habits.clone(), &self.watching.zone, now))
        });
    }

    /// Its rhythm as it was last fitted.
    pub fn rhythm(&self) -> Option<Rhythm> {
        let (rate, origin, updates) = self.rate.as_ref()?;
        let foresight = self.foresight.clone();
        Some(Rhythm { rate: Steps::from(rate), origin: *origin, updates: *updates, foresight })
    }
}

fn item(at: Timestamp) -> Update {
    let key = at.as_millis().to_string();
    Update { kind: UpdateKind::New, occurred: Occurred::At(at), key, title: None, link: None }
}

fn present(at: Timestamp) -> Present {
    Present { key_hash: at.as_millis().unsigned_abs(), fingerprint: 0, dated: Some(at) }
}
