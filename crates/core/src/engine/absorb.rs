//! What follows from a probe's answer.
//!
//! Takes a report, decides when the source is due again and in what state it is, and says what is
//! to be remembered. The source stays in flight until [`Fleet::landed`] hears that it *was*
//! remembered, so nothing is built on what a crash would undo.

use std::sync::Arc;

use crate::model::burst;
use crate::observe::FeedHints;
use crate::planning::execution::Obstacle;
use crate::planning::policy::Policy;
use crate::time::{Span, Timestamp};

use super::book::{Follows, Look, Told};
use super::frontier::Frontier;
use super::gate::Constraint;
use super::life::Why;
use super::outage::Change;
use super::params::HostGroup;
use super::source::{Member, Memory, MoveProof, Reason, State};
use super::state::Fleet;
use crate::model::beliefs::Heard;
use crate::source_id::SourceId;

/// How a probe went.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Whose.
    pub source: SourceId,
    /// When the request was sent.
    pub started: Timestamp,
    /// When it ended; the budget counts from here.
    pub finished: Timestamp,
    /// Who answered, if anyone: the source's own host group, or the one that redirects led to.
    pub answered_by: Option<HostGroup>,
    /// What robots.txt asks to keep between requests, when it was read.
    pub crawl_delay: Option<Span>,
    /// What came of it.
    pub result: Result<Answered, Failure>,
}

/// The source answered, and the answer could be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answered {
    /// Updates found.
    pub updates: u32,
    /// Dated items found at first contact: history, not news.
    pub history: u32,
    /// Items may have been lost since the last look.
    pub gap: bool,
    /// How many items the document holds, when a feed was read whole.
    pub holds: Option<u32>,
    /// What the feed asks of us; `None` when the answer said nothing (not modified).
    pub hints: Option<FeedHints>,
    /// Not before this long.
    pub fresh_for: Option<Span>,
    /// Permanently redirected to.
    pub moved_to: Option<String>,
    /// Bytes of the body.
    pub bytes: u64,
    /// What the look said of its rhythm.
    pub heard: Heard,
    /// What it means to rules, where they have to do with the source.
    pub asked: Option<Box<Asked>>,
}

/// What a look means to rules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// To each.
    pub told: Vec<Told>,
    /// How many updates it found, edits of known items apart: those the rate foretells.
    pub found: u32,
    /// How many updates its rate foretold since the look before.
    pub expected: Option<f64>,
}

/// The probe failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// 410: for good.
    Gone,
    /// It, or its host, asks for rest.
    Throttled {
        /// For how long, if it said so.
        retry_after: Option<Span>,
    },
    /// Any other answer that is none.
    Refused,
    /// No answer.
    Unreachable,
    /// An answer that could not be read, or that broke a cap.
    Unreadable,
    /// robots.txt closes it to us.
    Forbidden,
    /// We were stopped before the answer was in: nobody's fault.
    Interrupted,
}

/// What is to be stored, and said.
#[derive(Debug, Clone, PartialEq)]
pub struct Absorbed {
    /// What must survive a restart.
    pub memory: Memory,
    /// What a host group asks, when that changed.
    pub host: Option<HostAsks>,
    /// What is worth an event.
    pub notes: Vec<Note>,
    /// How late it was seen, where it has a deadline.
    pub tardy: Option<Span>,
    /// By when it must be seen next, where that is bound.
    pub look_by: Option<Timestamp>,
    /// What rules caught, and how far they are.
    pub follows: Follows,
    /// Sources that are due at another time because of it, and what is worth an event about them.
    pub others: Vec<(SourceId, Vec<Note>)>,
}

/// What a host group asks of us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAsks {
    /// Which.
    pub host: HostGroup,
    /// Not before.
    pub paused_until: Timestamp,
    /// Between requests.
    pub crawl_delay: Span,
}

/// Something worth an event in the log.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// The source's new address was adopted after repeated proof.
    MoveAdopted {
        /// Where it is now.
        to: String,
    },
    /// The source rests.
    Rests {
        /// Why.
        why: &'static str,
    },
    /// A host group is paused.
    HostPaused {
        /// Its name.
        host: String,
        /// Until when.
        until: Timestamp,
    },
    /// Our own network is down.
    OutageBegan,
    /// It is up again.
    OutageEnded,
    /// The source went from one state to another.
    StateChanged {
        /// Before.
        from: State,
        /// Now.
        to: State,
    },
    /// A burst began, ended or passed.
    Burst(burst::Change),
    /// A burst is no longer known to be on: nothing is known of the rhythm that it would break.
    BurstForgotten,
    /// A burst has become the rhythm: what was known before is forgotten.
    RhythmChanged,
    /// `auto` goes over to another policy.
    PolicySwitched {
        /// Before.
        from: Policy,
        /// Now.
        to: Policy,
        /// The reason.
        why: Why,
    },
    /// It should have updated and has not.
    WentQuiet {
        /// The last update known.
        since: Option<Timestamp>,
        /// How many were expected since.
        expected: f64,
    },
    /// It updated again.
    SpokeAgain,
    /// A span of a rule that no probe will serve.
    RuleUnmet {
        /// Whose.
        rule: Arc<str>,
        /// It ends then.
        until: Timestamp,
        /// What is in the way.
        why: Obstacle,
    },
    /// It has gone unseen for longer than it may.
    Tardy {
        /// It was to be looked at by then.
        by: Timestamp,
        /// What forbids it; nothing: there were no slots, or no capacity.
        why: Option<Constraint>,
    },
    /// It was looked at, too late.
    TardyEnded {
        /// By so much.
        late: Span,
    },
    /// A span of a rule was over when the probe came.
    RuleMissed {
        /// Whose.
        rule: Arc<str>,
        /// It ended then.
        until: Timestamp,
    },
}

const DAY: Span = Span::from_days(1);

/// However seldom a source is updated, rules that wait for it expect it again within so long.
const LONGEST_AGAIN_HOURS: f64 = 24.0 * 366.0;

/// The least rest after a 429 that does not say how long.
const BARE_THROTTLE: Span = Span::from_mins(15);

/// A permanent redirect is adopted after this many in a row …
const MOVE_PROOFS: u32 = 5;
/// … over at least this long.
const MOVE_PROVEN_OVER: Span = Span::from_days(3);

impl Fleet {
    /// Takes in how a probe went. The source stays in flight until [`Fleet::landed`].
    /// `None` for a source that is not known.
    pub fn absorb(&mut self, report: &Report) -> Option<Absorbed> {
        let (seed, terms) = (self.seed, self.params.burst);
        let ended = report.finished;
        let mut notes = Vec::new();
        let ((host, also), own) = {
            let member = self.members.get(&report.source)?;
            (member.in_flight.unwrap_or(member.hosts()), member.terms.host.clone())
        };
        let answering = report.answered_by.as_ref().map(|group| self.frontier.host(&group.key));
        // A plea for rest is meant by whoever answered; everything else concerns the source's own host.
        let throttled = matches!(report.result, Err(Failure::Throttled { .. }));
        let asking = report.answered_by.clone().filter(|_| throttled).unwrap_or(own);
        let asking_ix = self.frontier.host(&asking.key);
        let asks = |frontier: &Frontier| HostAsks {
            host: asking.clone(),
            paused_until: frontier.paused_until(asking_ix),
            crawl_delay: frontier.crawl_delay(asking_ix),
        };
        let before = asks(&self.frontier);
        if let Some(delay) = report.crawl_delay {
            self.frontier.set_crawl_delay(host, delay);
        }

        let outage = match report.result {
            Err(Failure::Unreachable) => self.outage.unreachable(host, self.frontier.hosts()),
            Err(Failure::Interrupted) => None,
            _ => self.outage.answered(),
        };
        notes.extend(outage.map(|change| match change {
            Change::Began => Note::OutageBegan,
            Change::Ended => Note::OutageEnded,
        }));
        let blameless = self.outage.is_on();

        let member = self.members.get_mut(&report.source)?;
        let state_before = member.memory.state;
        member.revision.0 += 1;
        member.also = answering.map_or(member.also, |ix| (ix != member.host).then_some(ix));
        let (asked, last) = (member.asks(), member.spent.last().unwrap_or(Timestamp::MIN));
        if last > Timestamp::MIN && member.memory.reason != Reason::Manual {
            member.pay(last, member.calm_wish(last, seed).at, ended, &terms);
        }
        member.spent.note(ended, &member.terms.budget);
        member.memory.last_probe = Some(ended);
        member.hurried = false;
        let mut wish = member.own_wish(ended, seed, &terms);
        let mut follows = Follows::default();
        let mut tardy = None;
        match &report.result {
            Ok(answer) => {
                let undiscovered = member.learn(answer.updates, ended, &mut self.mean, self.params.step);
                self.load.undiscovered_hours += undiscovered;
                member.take_answer(answer, ended);
                self.tardiness.count_toll(member.memory.toll, false);
                member.memory.toll.learn(answer.bytes, ended - report.started);
                self.tardiness.count_toll(member.memory.toll, true);
                tardy = self.tardiness.seen(member, report.started);
                if let Some(late) = tardy.filter(|&late| late > Span::ZERO) {
                    self.load.tardy(late);
                    notes.push(Note::TardyEnded { late });
                }
                notes.extend(member.hear(&answer.heard, answer.updates, ended, &terms));
                wish = member.own_wish(ended, seed, &terms);
                let owed = member.owed(report.started);
                notes.extend(member.serve(report.started, &self.book));
                if let Some(asked) = &answer.asked {
                    member.drifts(asked.found, asked.expected);
                    let rate = member.memory.estimate.rate(self.mean.prior()).max(1e-6);
                    let again_after = Span::from_hours(1).scaled(rate.recip().min(LONGEST_AGAIN_HOURS));
                    let (source, started) = (report.source, report.started);
                    let look = Look { source, started, ended, again_after };
                    follows = self.book.hear(look, &asked.told, |rule| owed.contains(&rule));
                }
                if answer.gap {
                    member.hurried = true;
                    wish.at = ended + Span::from_millis((wish.at - ended).as_millis() / 2);
                    wish.because = Reason::Gap;
                }
                notes.extend(member.weigh_move(answer.moved_to.as_deref(), ended));
            }
            Err(failure) => {
                let rest = member.take_failure(*failure, ended, blameless, seed);
                if let Some(until) = rest.filter(|_| throttled && asking.public) {
                    self.frontier.pause(asking_ix, until);
                    notes.push(Note::HostPaused { host: asking.key.to_string(), until });
                }
                if *failure == Failure::Gone && member.memory.life.burst_since.take().is_some() {
                    notes.push(Note::BurstForgotten);
                }
                match failure {
                    Failure::Gone => notes.push(Note::Rests { why: "410 Gone" }),
                    Failure::Forbidden => notes.push(Note::Rests { why: "robots.txt" }),
                    _ => {}
                }
            }
        }
        member.weigh_plan(last, ended, asked, report.result.is_ok());
        let paused = self.frontier.paused_until(member.host);
        notes.extend(member.settle(&self.book, ended, paused, self.params.step));
        let frontier = &self.frontier;
        let looked = report.result.as_ref().map_or(member.memory.looked, |_| Some(report.started));
        self.tardiness
            .tend(member, &self.params, looked, |member, at| Self::ask_gate(member, frontier, at).at);
        let wish = member.rule_wish(wish);
        // A failure that is nobody's fault has no backoff: a deadline that is past would ask again and again.
        let rests = member.memory.backoff_until.max(member.memory.retry_until) > Some(ended);
        let wish = if report.result.is_ok() || rests { member.by_max_gap(wish) } else { wish };
        // Gone until it answers: a probe by hand that came to nothing asks once, and for no more.
        let was_gone = std::mem::take(&mut member.was_gone) && report.result.is_err();
        if was_gone && member.memory.state != State::Removed {
            member.memory.state = State::Resting;
        }
        let gone = was_gone || matches!(report.result, Err(Failure::Gone));
        if gone || member.memory.state == State::Removed {
            member.memory.due = Timestamp::MAX;
            member.memory.reason = Reason::Constraint(super::gate::Constraint::Resting);
            self.tardiness.forget(member);
        } else {
            Self::set_due(member, &self.frontier, wish);
        }
        if member.memory.state != state_before {
            notes.push(Note::StateChanged { from: state_before, to: member.memory.state });
        }
        let mut others = Vec::new();
        for &(rule, until) in &follows.triggered {
            others.extend(self.open_spans(rule, until, report.source, ended));
        }
        notes.extend(self.keep_slot(report.source, ended));
        let look_by = self.look_by(report.source);
        let memory = self.members.get(&report.source)?.memory.clone();
        for host in [Some(host), also, answering].into_iter().flatten() {
            // From the end, too: the request reached the host at some time before it, not at the step.
            self.frontier.hold(host, ended + self.params.host_spacing);
        }
        for host in [Some(host), also].into_iter().flatten() {
            self.frontier.release(host, ended);
        }
        let host = Some(asks(&self.frontier)).filter(|after| *after != before);
        Some(Absorbed { memory, host, notes, tardy, look_by, follows, others })
    }

    /// What was absorbed is stored: the source may be probed again when it is due.
    pub fn landed(&mut self, id: SourceId) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.in_flight = None;
        if member.memory.state == State::Removed {
            self.let_go(id);
        } else {
            Self::queue(member, &mut self.frontier);
            self.tend(id);
            self.ask_for_plan(id, Timestamp::MIN);
        }
    }
}

impl Member {
    fn take_answer(&mut self, answer: &Answered, ended: Timestamp) {
        let memory = &mut self.memory;
        memory.error_streak = 0;
        memory.backoff_until = None;
        memory.retry_until = None;
        memory.fresh_until = answer.fresh_for.map(|span| ended + span);
        memory.known_updates += u64::from(answer.updates) + u64::from(answer.history);
        if answer.updates > 0 {
            memory.last_update = Some(ended);
        }
        if let Some(hints) = answer.hints {
            memory.hints = hints;
        }
        memory.holds = answer.holds.or(memory.holds);
        if memory.state != State::Removed {
            self.memory.state = self.settled();
        }
    }

    /// Counts proof that the source has moved for good; enough of it is adopted.
    fn weigh_move(&mut self, moved_to: Option<&str>, ended: Timestamp) -> Option<Note> {
        let Some(target) = moved_to else {
            self.memory.moving = None;
            return None;
        };
        let proof = match self.memory.moving.take() {
            Some(mut proof) if proof.target == target => {
                proof.times = proof.times.saturating_add(1);
                proof
            }
            _ => Box::new(MoveProof { target: target.to_owned(), times: 1, since: ended }),
        };
        if proof.times >= MOVE_PROOFS && ended - proof.since >= MOVE_PROVEN_OVER {
            self.memory.adopted_url = Some(target.into());
            return Some(Note::MoveAdopted { to: target.to_owned() });
        }
        self.memory.moving = Some(proof);
        None
    }

    /// Takes a failure; says until when the source itself asked for rest, if it did.
    fn take_failure(
        &mut self,
        failure: Failure,
        ended: Timestamp,
        blameless: bool,
        seed: u64,
    ) -> Option<Timestamp> {
        let state = match failure {
            Failure::Interrupted => return None,
            Failure::Unreachable if blameless => return None,
            Failure::Gone => State::Resting,
            Failure::Forbidden => {
                self.memory.backoff_until = Some(ended + DAY);
                State::Resting
            }
            _ => State::Backoff,
        };
        self.memory.error_streak = self.memory.error_streak.saturating_add(1);
        if self.memory.state != State::Removed {
            self.memory.state = state;
        }
        match failure {
            Failure::Throttled { retry_after: Some(rest) } => {
                self.memory.retry_until = Some(ended + rest);
                self.memory.retry_until
            }
            Failure::Throttled { retry_after: None } => {
                self.memory.backoff_until = Some(ended + self.backoff(seed, ended).max(BARE_THROTTLE));
                self.memory.backoff_until
            }
            Failure::Refused | Failure::Unreachable | Failure::Unreadable => {
                self.memory.backoff_until = Some(ended + self.backoff(seed, ended));
                None
            }
            Failure::Gone | Failure::Forbidden | Failure::Interrupted => None,
        }
    }

    /// The gap doubled with every failure after the first, jittered upwards, at most a day (or
    /// the gap itself, where that is longer).
    fn backoff(&self, seed: u64, ended: Timestamp) -> Span {
        // However short a time it may go unseen: who fails is not asked the more for it.
        let gap = self.patient_gap();
        let doublings = self.memory.error_streak.saturating_sub(1).min(24);
        let jitter = 1.0 + 0.25 * self.chance(seed, "backoff", ended);
        gap.scaled(f64::from(1_u32 << doublings) * jitter).min(DAY.max(gap))
    }
}
