//! What is believed of one source's rhythm, and what a look makes of it.
//!
//! Three things that are carried from look to look and stored with each: the evidence behind the
//! rhythm, the watch for bursts, and, once a burst has begun, all that has been seen since, set
//! aside. A burst is kept out of the evidence. One that does not end within a cycle is no burst but a
//! change, and then what was set aside *is* the evidence: the memory is as short as that. As a new
//! rhythm has its quiet nights and Sundays too, in which a burst seems to be over, it counts on how
//! many sevenths of the cycle one was on. Must not know when the next probe is, nor who fits rates.

use serde::{Deserialize, Serialize};

use crate::model::burst::excess::Excess;
use crate::model::burst::watch::BurstDetector;
use crate::model::burst::{self, BurstChange, BurstEvidence, BurstParams, WindowUpdates, is_quiet};
use crate::model::cyclic::Rate;
use crate::model::habits::diary::UpdateTimes;
use crate::model::history::History;
use crate::observe::{Kind, Observation, Occurred, UpdateKind};
use crate::time::{Span, Timestamp};

use super::learn::{ProbedUpdates, learn};

/// What is carried from look to look.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceModel {
    /// The evidence behind the rhythm.
    pub history: History,
    /// The watch for bursts.
    pub watch: BurstDetector,
    /// What is to be learned if the rhythm is another since the last burst began.
    pub aside: Option<PostBurstEvidence>,
    /// The last updates, where their times are known.
    pub diary: UpdateTimes,
}

/// What has been seen since a burst began.
#[derive(Debug, Clone, PartialEq)]
pub struct PostBurstEvidence {
    history: History,
    /// The sevenths of the cycle that a burst was on.
    sevenths: u8,
}

/// A burst that was on in so many sevenths of a cycle is the rhythm: a working week's days.
const FOR_GOOD: u32 = 5;

impl PostBurstEvidence {
    /// Since when.
    fn since(&self) -> Option<Timestamp> {
        self.history.span().map(|(since, _)| since)
    }

    /// As bytes, to be kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.sevenths];
        bytes.extend(self.history.to_bytes());
        bytes
    }

    /// From [`Aside::to_bytes`], with the settings of the evidence that it lies beside; `None` when they
    /// are not such bytes.
    pub fn from_bytes(bytes: &[u8], beside: &History) -> Option<Self> {
        let (&sevenths, rest) = bytes.split_first()?;
        Some(Self { history: beside.from_bytes_alike(rest)?, sevenths })
    }
}

/// A rate that rests on fewer updates than this is not planned by, unless others lend theirs, and no probe is
/// judged by it: too much would surprise it.
pub const WELL_FOUNDED: u32 = 10;

/// What is known of a source before a probe of it is learned from.
#[derive(Debug, Clone, Copy)]
pub struct PriorKnowledge<'r> {
    /// λ(t), and how many updates it rests on.
    pub rate: Option<(&'r Rate, u32)>,
    /// How bursts are recognised.
    pub bursts: BurstParams,
    /// The cycle that the rate repeats in.
    pub cycle: Span,
    /// The latest update known.
    pub newest: Option<Timestamp>,
}

/// Learns from one probe. `modified` is when the server says that the document last changed: where the document
/// holds no dates, that is its age.
pub fn learn_from_probe(
    beliefs: &mut SourceModel,
    look: &ProbedUpdates<'_>,
    prior: &PriorKnowledge<'_>,
    modified: Option<Timestamp>,
) -> ModelUpdate {
    let PriorKnowledge { rate, bursts: params, cycle, newest } = *prior;
    let founded = rate.filter(|&(_, updates)| updates >= WELL_FOUNDED);
    let foretold = founded.map(|(rate, _)| ExpectedRate { rate, params, cycle });
    let mut heard = beliefs.look(look, foretold.as_ref(), newest);
    heard.newest = heard.newest.or(modified.filter(|&at| at <= look.now));
    heard
}

/// What a look is held against: the rhythm that was believed before it.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedRate<'r> {
    /// λ(t).
    pub rate: &'r Rate,
    /// How bursts are recognised.
    pub params: BurstParams,
    /// The cycle that the rhythm repeats in.
    pub cycle: Span,
}

/// What a look says of the rhythm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelUpdate {
    /// The burst that is on since or over with this look.
    pub burst: Option<BurstChange>,
    /// The burst that is on, so far.
    pub on: Option<BurstEvidence>,
    /// What it adds to the rhythm.
    pub excess: Option<Excess>,
    /// A burst outlasted a cycle: it is the rhythm, since then.
    pub for_good: Option<Timestamp>,
    /// It should have updated by now: so many updates were expected since the last one.
    pub overdue: Option<f64>,
    /// The latest update known.
    pub newest: Option<Timestamp>,
}

impl SourceModel {
    /// Nothing yet but the evidence.
    pub fn new(history: History) -> Self {
        Self { history, watch: BurstDetector::default(), aside: None, diary: UpdateTimes::default() }
    }

    /// Takes in a look. `newest` is the latest update that was known before it; without a rhythm to
    /// hold it against, it is learned from and nothing else.
    pub fn look(
        &mut self,
        look: &ProbedUpdates<'_>,
        foretold: Option<&ExpectedRate<'_>>,
        newest: Option<Timestamp>,
    ) -> ModelUpdate {
        let newest = latest(look).max(newest);
        let first_contact = look.last.is_none() || look.seen.is_some_and(|seen| seen.first_contact);
        self.diary.not_after(look.now);
        self.write_down(look, first_contact, foretold.map(|foretold| foretold.rate));
        let Some(foretold) = foretold.filter(|_| !first_contact) else {
            // Another document: what was thought of the one before says nothing about it.
            (self.watch, self.aside) = (BurstDetector::default(), None);
            learn(&mut self.history, look);
            return ModelUpdate { newest, ..ModelUpdate::default() };
        };
        let mut change = self.watch_over(look, foretold);
        let on = self.watch.so_far(foretold.rate);
        let mut heard = ModelUpdate {
            on,
            newest,
            excess: self.excess(look.now, on, &foretold.params),
            ..ModelUpdate::default()
        };
        let burst = match change {
            // Until its end: what is published while the answer travels may be in it.
            Some(BurstChange::Began(evidence)) => Some((evidence.since, Timestamp::MAX)),
            Some(BurstChange::Passed(evidence)) => Some((evidence.since, evidence.at)),
            Some(BurstChange::Ended(evidence)) => Some((Timestamp::MIN, evidence.at)),
            None => on.map(|_| (Timestamp::MIN, Timestamp::MAX)),
        };
        learn(&mut self.history, &ProbedUpdates { except: burst, ..*look });
        heard.for_good = self.set_aside(look, burst, on.is_some(), foretold.cycle);
        if let Some(since) = heard.for_good {
            self.diary.forget_before(since);
            (heard.on, heard.excess) = (None, None);
            change = match change {
                // The last of several, which nobody has heard of yet.
                Some(BurstChange::Began(evidence)) => Some(BurstChange::Passed(evidence)),
                change => on.map(BurstChange::Ended).or(change),
            };
        }
        heard.burst = change;
        heard.overdue = newest
            .filter(|_| heard.on.is_none() && heard.for_good.is_none())
            .map(|newest| foretold.rate.expected(newest, look.now))
            .filter(|&expected| is_quiet(expected, foretold.params.false_alarms));
        heard
    }

    /// Notes the times of updates, where a feed tells them all.
    fn write_down(&mut self, look: &ProbedUpdates<'_>, first_contact: bool, rate: Option<&Rate>) {
        let Some(seen) = look.seen.filter(|_| look.kind == Kind::Feed) else { return };
        if first_contact {
            self.diary = UpdateTimes::default();
            let mut dates: Vec<Timestamp> =
                seen.present.iter().filter_map(|item| item.dated).filter(|&at| at <= look.now).collect();
            dates.sort_unstable();
            if let Some((&oldest, later)) = dates.split_first() {
                // The oldest only says since when the feed is complete.
                self.diary.watched_since(oldest);
                later.iter().for_each(|&at| self.diary.note(at, None));
            }
            return;
        }
        if seen.gap {
            // What was before the oldest item shown is lost, and the diary is not complete.
            let oldest = seen.present.iter().filter_map(|item| item.dated).min().unwrap_or(look.now);
            self.diary.forget_before(oldest);
        }
        for update in seen.updates.iter().filter(|update| update.kind != UpdateKind::Edited) {
            match update.occurred {
                Occurred::At(at) => self.diary.note(at, rate.map(|rate| rate.at(at) as f32)),
                // When it came is not known to the minute: who is looked at by such times would be looked at
                // when it was looked at before.
                Occurred::Between(..) => {}
            }
        }
    }

    /// Goes on with what is set aside, from the burst on. Says since when it is the rhythm, if it is.
    fn set_aside(
        &mut self,
        look: &ProbedUpdates<'_>,
        burst: Option<(Timestamp, Timestamp)>,
        on: bool,
        cycle: Span,
    ) -> Option<Timestamp> {
        let mut except = None;
        let mut aside = match self.aside.take() {
            Some(aside) => aside,
            None if !on => return None,
            None => {
                except = burst.map(|(from, _)| (Timestamp::MIN, from - Span::from_millis(1)));
                PostBurstEvidence { history: self.history.afresh(look.now), sevenths: 0 }
            }
        };
        learn(&mut aside.history, &ProbedUpdates { except, ..*look });
        let since = aside.since().unwrap_or(look.now);
        let sevenths = (look.now - since).as_secs_f64() / cycle.as_secs_f64() * 7.0;
        if on {
            aside.sevenths |= 1 << (sevenths as u32).min(6);
        }
        if sevenths < 7.0 {
            self.aside = Some(aside);
            return None;
        }
        let for_good = aside.sevenths.count_ones() >= FOR_GOOD;
        for_good.then(|| {
            (self.history, self.watch) = (aside.history, BurstDetector::default());
            since
        })
    }

    fn watch_over(&mut self, look: &ProbedUpdates<'_>, foretold: &ExpectedRate<'_>) -> Option<BurstChange> {
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
            Kind::Page if count > 0 => WindowUpdates::Changed,
            _ if times.len() == count => WindowUpdates::Dated(&times),
            _ => WindowUpdates::Counted(u32::try_from(count).unwrap_or(u32::MAX)),
        };
        // What is published while an answer travels may be in it.
        let until = times.iter().copied().fold(look.now, Timestamp::max);
        self.watch.not_after(look.now);
        self.watch.look(&burst::ProbeWindow { from, until, seen }, foretold.rate, &foretold.params)
    }

    fn excess(&self, at: Timestamp, on: Option<BurstEvidence>, params: &BurstParams) -> Option<Excess> {
        // Not before it is on: a source that keeps its rhythm is under some suspicion after every few
        // updates, and planning for that cost it 2 %.
        let lasted = (at - on?.since).max(Span::ZERO);
        let (probability, per_hour) = (self.watch.probability(params.test), self.watch.excess_rate());
        (per_hour > 0.0).then_some(Excess { at, probability, per_hour, lasted })
    }
}

/// The latest update that a look shows; at first contact, the latest that was there.
fn latest(look: &ProbedUpdates<'_>) -> Option<Timestamp> {
    let seen: &Observation = look.seen?;
    let updates = seen.updates.iter().filter(|update| update.kind != UpdateKind::Edited);
    let occurred = updates.map(|update| match update.occurred {
        Occurred::At(at) | Occurred::Between(_, at) => at,
    });
    let there = seen.present.iter().filter(|_| seen.first_contact).filter_map(|item| item.dated);
    // What has no date came by the end of the look, which is later than what is called its time.
    occurred.chain(there).map(|at| at.min(look.now)).max()
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::observe::Update;

    fn hour(n: i64) -> Timestamp {
        Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap() + Span::from_hours(n)
    }

    fn beliefs() -> SourceModel {
        SourceModel::new(History::new(TimeZone::UTC, Span::from_days(56), hour(0)))
    }

    fn update(occurred: Occurred) -> Update {
        Update::bare(UpdateKind::New, occurred, "k")
    }

    fn look<'s>(from: i64, now: i64, seen: &'s Observation) -> ProbedUpdates<'s> {
        ProbedUpdates {
            kind: Kind::Feed,
            last: Some(hour(from)),
            now: hour(now),
            seen: Some(seen),
            except: None,
        }
    }

    fn seen(updates: Vec<Update>) -> Observation {
        Observation { updates, ..Observation::default() }
    }

    /// An answer takes its time, and what has no date is as late as its end.
    #[test]
    fn what_has_no_date_is_as_new_as_the_look() {
        let (mut beliefs, rate) = (beliefs(), Rate::constant(1.0));
        let foretold =
            ExpectedRate { rate: &rate, params: BurstParams::default(), cycle: Span::from_days(7) };
        let mut newest = Some(hour(0));
        for n in 0..30 {
            let late = hour(n + 1) + Span::from_secs(3);
            let undated = seen(vec![update(Occurred::Between(hour(n), late))]);
            let heard = beliefs.look(&look(n, n + 1, &undated), Some(&foretold), newest);
            assert_eq!((heard.newest, heard.overdue), (Some(hour(n + 1)), None));
            newest = heard.newest;
        }
        let nothing = seen(Vec::new());
        assert_eq!(beliefs.look(&look(30, 36, &nothing), Some(&foretold), newest).overdue, None);
        let silent = beliefs.look(&look(36, 38, &nothing), Some(&foretold), newest).overdue;
        assert!(silent.is_some_and(|expected| expected > 7.0), "{silent:?}");
    }

    #[test]
    fn a_thin_rate_is_held_against_nobody_and_a_document_without_dates_is_as_old_as_the_server_says() {
        let rate = Rate::constant(0.1);
        let at = |n: i64| update(Occurred::At(hour(1) + Span::from_mins(5 * n)));
        let many = seen((1..12).map(at).collect());
        let learned = |updates: u32, look: &ProbedUpdates<'_>, modified| {
            let (bursts, cycle) = (BurstParams::default(), Span::from_days(7));
            let prior = PriorKnowledge { rate: Some((&rate, updates)), bursts, cycle, newest: None };
            learn_from_probe(&mut beliefs(), look, &prior, modified)
        };
        assert!(learned(WELL_FOUNDED, &look(1, 2, &many), None).burst.is_some());
        assert_eq!(learned(WELL_FOUNDED - 1, &look(1, 2, &many), None).burst, None);
        let nothing = seen(Vec::new());
        let newest = |modified: i64| learned(0, &look(1, 4, &nothing), Some(hour(modified))).newest;
        assert_eq!((newest(3), newest(5)), (Some(hour(3)), None), "no server knows the future");
    }

    #[test]
    fn a_burst_ends_with_what_is_known_of_the_rhythm() {
        let (mut beliefs, rate) = (beliefs(), Rate::constant(0.1));
        let foretold =
            ExpectedRate { rate: &rate, params: BurstParams::default(), cycle: Span::from_days(7) };
        let at = |n: i64| update(Occurred::At(hour(1) + Span::from_mins(5 * n)));
        let many = seen((1..12).map(at).collect());
        let heard = beliefs.look(&look(1, 2, &many), Some(&foretold), None);
        assert!(matches!(heard.burst, Some(BurstChange::Began(_))) && heard.on.is_some());
        assert!(heard.excess.is_some_and(|excess| excess.per_hour > 1.0 && excess.probability > 0.8));
        // Each is evidence or aside, and none is both. The first may well have been the rhythm's.
        assert_eq!((beliefs.history.seen(), beliefs.aside.as_ref().unwrap().history.seen()), (1, 10));
        let stored = beliefs.aside.as_ref().unwrap().to_bytes();
        assert_eq!(PostBurstEvidence::from_bytes(&stored, &beliefs.history), beliefs.aside);
        assert_eq!(PostBurstEvidence::from_bytes(&[], &beliefs.history), None);
        let heard = beliefs.look(&look(2, 3, &seen(Vec::new())), None, None);
        assert_eq!((heard.on, heard.burst), (None, None));
        assert_eq!((beliefs.aside, beliefs.watch), (None, BurstDetector::default()));
    }
}
