//! What follows from the end of a probe.
//!
//! Takes a report, decides when the source is due again and in what state it is, and says what is
//! to be remembered. The probe stays in progress until it is known that this *was* remembered, so nothing
//! is built on what a crash would undo.

use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::action::{Action, HostAsks, Persist, ProbeResult};
use super::book::{AnsweredProbe, RuleEffects};
use super::condition::ProbeHosts;
use super::event::{Failure, MovedTo, ProbeAnswer, ProbeReport};
use super::hosts::{HostIx, Hosts};
use super::mean::FleetMean;
use super::memory::MoveProof;
use super::note::{Note, StopReason};
use super::outage::OutageChange;
use super::params::HostGroup;
use super::reason::{Reason, SourceState};
use super::source::{ProbeWish, Source};
use super::state::Engine;
use super::urgency::Urgency;
use crate::model::pulse;

const DAY: Span = Span::from_days(1);

/// However seldom a source is updated, rules that wait for it expect it again within this time.
const LONGEST_AGAIN_HOURS: f64 = 24.0 * 366.0;

/// The least pause after a 429 that does not say how long.
const BARE_THROTTLE: Span = Span::from_mins(15);

/// A permanent redirect is adopted after this many in a row …
const MOVE_PROOFS: u32 = 5;
/// … over at least this long.
const MOVE_PROVEN_OVER: Span = Span::from_days(3);

/// What is known so far of what follows from a probe.
struct Consequences {
    wish: ProbeWish,
    notes: Vec<Note>,
    follows: RuleEffects,
    tardy: Option<Span>,
    adopted: Option<MovedTo>,
}

/// The host group that a report speaks for.
struct AnsweringHost {
    group: HostGroup,
    ix: HostIx,
}

impl AnsweringHost {
    fn asks(&self, hosts: &Hosts) -> HostAsks {
        HostAsks {
            host: self.group.clone(),
            paused_until: hosts.paused_until(self.ix),
            crawl_delay: hosts.crawl_delay(self.ix),
        }
    }
}

impl Engine {
    /// Takes in how a probe ended. It stays in progress until that is committed.
    pub(super) fn end_probe(&mut self, mut report: ProbeReport, actions: &mut Vec<Action>) {
        let (id, ended) = (report.source, report.finished);
        let Some(probe) = self.members.get(&id).and_then(|member| member.condition().in_progress()) else {
            return;
        };
        if probe.moved {
            // It was sent and counts; what it brought belongs to the old address.
            (report.answered_by, report.crawl_delay) = (None, None);
            report.result = Err(Failure::Interrupted);
        }
        let Some(speaker) = self.speaker(&report) else { return };
        let answering = report.answered_by.as_ref().map(|group| self.hosts.host(&group.key));
        let before = speaker.asks(&self.hosts);
        if let Some(delay) = report.crawl_delay {
            self.hosts.set_crawl_delay(probe.hosts.0, delay);
        }
        let outage = self.watch_network(&report, probe.hosts.0);
        let Some(mut then) = self.learn_from(&report, answering, &speaker) else { return };
        then.notes.splice(0..0, outage);
        let mut others = Vec::new();
        for &(rule, until) in &then.follows.triggered {
            others.extend(self.open_spans(rule, until, id, ended));
        }
        then.notes.extend(self.reserve_slot(id, ended));
        self.release_hosts(probe.hosts, answering, ended);
        let Some(member) = self.members.get_mut(&id) else { return };
        if let Some(probe) = member.probe_mut() {
            probe.deliver = then.follows.notices.iter().any(|notice| notice.tells);
        }
        let result = ProbeResult {
            source: id,
            discarded: probe.moved,
            memory: member.memory.clone(),
            look_by: member.bed.as_ref().map(|bed| bed.by),
            host: Some(speaker.asks(&self.hosts)).filter(|after| *after != before),
            notes: then.notes,
            tardy: then.tardy,
            follows: then.follows,
        };
        if let Some(MovedTo { url, host }) = then.adopted {
            self.rehost(id, host);
            actions.push(Action::AdoptAddress { source: id, url });
        }
        let notes = result.notes.iter().cloned();
        actions.extend(notes.map(|note| Action::Log { source: id, note }));
        let due: Vec<SourceId> = others.iter().map(|&(other, _)| other).collect();
        for (other, notes) in others {
            self.tell(other, ended, notes, actions);
        }
        self.persist_due(&due, actions);
        actions.push(Action::Persist(Persist::Ended(Box::new(result))));
    }

    /// A plea for a pause is meant by the host group that answered; everything else concerns the source's own.
    fn speaker(&mut self, report: &ProbeReport) -> Option<AnsweringHost> {
        let own = &self.members.get(&report.source)?.terms.host;
        let throttled = matches!(report.result, Err(Failure::Throttled { .. }));
        let group = report.answered_by.as_ref().filter(|_| throttled).unwrap_or(own).clone();
        Some(AnsweringHost { ix: self.hosts.host(&group.key), group })
    }

    /// Whether our own network is down: that is no source's fault.
    fn watch_network(&mut self, report: &ProbeReport, host: HostIx) -> Option<Note> {
        let change = match report.result {
            Err(Failure::Unreachable) => self.outage.unreachable(host, self.hosts.hosts()),
            Err(Failure::Interrupted) => None,
            _ => self.outage.answered(),
        };
        change.map(|change| match change {
            OutageChange::Began => Note::OutageBegan,
            OutageChange::Ended => Note::OutageEnded,
        })
    }

    /// What the source's state is after the probe, and when the next one is due.
    fn learn_from(
        &mut self,
        report: &ProbeReport,
        answering: Option<HostIx>,
        speaker: &AnsweringHost,
    ) -> Option<Consequences> {
        let (seed, terms, ended) = (self.seed, self.params.burst, report.finished);
        let member = self.members.get_mut(&report.source)?;
        let state_before = member.memory.state;
        member.revision.0 += 1;
        member.also = answering.map_or(member.also, |ix| (ix != member.host).then_some(ix));
        let (asked, last) = (member.asks(), member.spent.last());
        if let Some(last) = last.filter(|_| member.memory.reason != Reason::Manual) {
            member.pay(last, member.calm_wish(last, seed, &terms).at, ended, &terms);
        }
        member.spent.note(ended, &member.terms.budget);
        member.memory.last_probe = Some(ended);
        let was_stopped = std::mem::take(&mut member.urgency).was_stopped() && report.result.is_err();
        let mut then = match &report.result {
            Ok(answer) => self.take_answer(report, answer)?,
            Err(failure) => self.take_failure(report, *failure, speaker)?,
        };
        let member = self.members.get_mut(&report.source)?;
        member.weigh_plan(last, ended, asked, report.result.is_ok());
        let paused = self.hosts.paused_until(member.host);
        then.notes.extend(member.settle(&self.book, ended, paused, self.params.step));
        let hosts = &self.hosts;
        let looked = report.result.as_ref().map_or(member.memory.looked, |_| Some(report.started));
        self.tardiness.tend(member, &self.params, looked, |member, at| member.ask_gate(hosts, at).at);
        let wish = member.rule_wish(then.wish);
        // A failure that is no fault has no backoff: a deadline that is past would ask again and again.
        let pauses = member.memory.backoff_until.max(member.memory.retry_until) > Some(ended);
        let wish = if report.result.is_ok() || pauses { member.by_max_gap(wish) } else { wish };
        // Stopped until it answers: a requested probe that failed is sent once, and no more.
        if was_stopped && member.memory.state != SourceState::Removed {
            member.memory.state = SourceState::Resting;
        }
        let gone = was_stopped || matches!(report.result, Err(Failure::Gone));
        if gone || member.memory.state == SourceState::Removed {
            member.stop();
            self.tardiness.forget(member);
        } else {
            member.set_due(&self.hosts, wish);
        }
        if member.memory.state != state_before {
            then.notes.push(Note::StateChanged { from: state_before, to: member.memory.state });
        }
        Some(then)
    }

    fn take_answer(&mut self, report: &ProbeReport, answer: &ProbeAnswer) -> Option<Consequences> {
        let (seed, terms, ended) = (self.seed, self.params.burst, report.finished);
        let member = self.members.get_mut(&report.source)?;
        let mut notes = Vec::new();
        let undiscovered = member.learn(answer.updates, ended, &mut self.mean, self.params.step);
        self.load.undiscovered_hours += undiscovered;
        member.remember(answer, ended);
        self.tardiness.count_toll(member.memory.toll, false);
        member.memory.toll.learn(answer.bytes, ended - report.started);
        self.tardiness.count_toll(member.memory.toll, true);
        let tardy = self.tardiness.seen(member, report.started);
        if let Some(late) = tardy.filter(|&late| late > Span::ZERO) {
            self.load.tardy(late);
            notes.push(Note::TardyEnded { late });
        }
        notes.extend(member.hear(&answer.heard, answer.updates, ended, &terms));
        let mut wish = member.own_wish(ended, seed, &terms);
        let owed = member.owed(report.started);
        notes.extend(member.serve(report.started, &self.book));
        let mut follows = RuleEffects::default();
        if let Some(asked) = &answer.asked {
            member.drifts(asked.found, asked.expected);
            let rate = member.memory.estimate.rate(self.mean.prior()).max(1e-6);
            let again_after = Span::from_hours(1).scaled(rate.recip().min(LONGEST_AGAIN_HOURS));
            let look = AnsweredProbe { source: report.source, started: report.started, ended, again_after };
            follows = self.book.hear(look, &asked.told, |rule| owed.contains(&rule));
        }
        if answer.gap {
            member.urgency = Urgency::ItemsLost;
            wish.at = ended + Span::from_millis((wish.at - ended).as_millis() / 2);
            wish.because = Reason::Gap;
        }
        let adopted = member.weigh_move(answer.moved_to.as_ref(), ended);
        notes.extend(adopted.as_ref().map(|moved| Note::MoveAdopted { to: moved.url.clone() }));
        Some(Consequences { wish, notes, follows, tardy, adopted })
    }

    fn take_failure(
        &mut self,
        report: &ProbeReport,
        failure: Failure,
        speaker: &AnsweringHost,
    ) -> Option<Consequences> {
        let (ended, blameless) = (report.finished, self.outage.is_on());
        let member = self.members.get_mut(&report.source)?;
        let wish = member.own_wish(ended, self.seed, &self.params.burst);
        let mut notes = Vec::new();
        let pause = member.fail(failure, ended, blameless, self.seed);
        let throttled = matches!(failure, Failure::Throttled { .. });
        if let Some(until) = pause.filter(|_| throttled && speaker.group.public) {
            self.hosts.pause(speaker.ix, until);
            notes.push(Note::HostPaused { host: speaker.group.key.to_string(), until });
        }
        if failure == Failure::Gone && member.memory.life.burst_since.take().is_some() {
            notes.push(Note::BurstForgotten);
        }
        match failure {
            Failure::Gone => notes.push(Note::Rests { why: StopReason::Gone }),
            Failure::Forbidden => notes.push(Note::Rests { why: StopReason::Robots }),
            _ => {}
        }
        Some(Consequences { wish, notes, follows: RuleEffects::default(), tardy: None, adopted: None })
    }

    fn release_hosts(&mut self, (host, also): ProbeHosts, answering: Option<HostIx>, ended: Timestamp) {
        for host in [Some(host), also, answering].into_iter().flatten() {
            // From the end, too: the request reached the host at some time before it, not at the step.
            self.hosts.hold(host, ended + self.params.host_spacing);
        }
        for host in [Some(host), also].into_iter().flatten() {
            self.hosts.release(host, ended);
        }
    }

    /// The end of a probe is committed: the next one may start when it is due.
    pub(super) fn end_committed(&mut self, id: SourceId, actions: &mut Vec<Action>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(probe) = member.condition().in_progress() else { return };
        self.in_progress -= 1;
        if probe.deliver {
            actions.push(Action::Deliver);
        }
        if member.memory.state == SourceState::Removed {
            self.let_go(id);
            actions.push(Action::Forget(id));
        } else {
            member.leave();
            member.enqueue(&mut self.hosts);
            self.tend(id);
            self.ask_for_plan(id, None);
        }
    }

    /// The start of a probe is committed: it is sent, unless what was allowed no longer is.
    pub(super) fn start_committed(&mut self, id: SourceId, now: Timestamp, actions: &mut Vec<Action>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let allowed = member.ask_gate(&self.hosts, now).at <= now;
        let Some(probe) = member.probe_mut() else { return };
        if allowed {
            // It goes to the address that the source has now.
            probe.moved = false;
            actions.push(Action::Send(probe.attempt));
            return;
        }
        let hosts = probe.hosts;
        self.in_progress -= 1;
        for host in [Some(hosts.0), hosts.1].into_iter().flatten() {
            self.hosts.cancel(host);
        }
        actions.push(Action::Persist(Persist::Cancelled(id)));
        if member.memory.state == SourceState::Removed {
            self.let_go(id);
            actions.push(Action::Forget(id));
        } else {
            member.leave();
            member.enqueue(&mut self.hosts);
            self.tend(id);
        }
    }
}

impl Source {
    /// Learns from a probe and the number of updates it found. Returns the expected number of updates that lay
    /// undiscovered until it, times the hours that each did, times its weight.
    fn learn(&mut self, found: u32, ended: Timestamp, mean: &mut FleetMean, step: Span) -> f64 {
        let Some(looked) = self.memory.looked.replace(ended).filter(|&looked| looked < ended) else {
            return 0.0;
        };
        let prior = mean.prior();
        let hours = pulse::hours(self.pulse.as_deref(), looked, ended);
        let expected = self.memory.estimate.rate(prior) * hours;
        self.memory.estimate.learn(u64::from(found), hours, prior);
        mean.learn(f64::from(found), hours);
        // A gap of ℓ steps costs π·ℓ(ℓ+1)/2: half of what came, over one step more than it lasted.
        let lasted = (ended - looked + step).as_secs_f64() / 3600.0;
        f64::from(self.terms.weight) * expected * lasted / 2.0
    }

    fn remember(&mut self, answer: &ProbeAnswer, ended: Timestamp) {
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
        if memory.state != SourceState::Removed {
            self.memory.state = self.settled();
        }
    }

    /// Counts proof that the source has moved for good; enough of it is adopted.
    fn weigh_move(&mut self, moved_to: Option<&MovedTo>, ended: Timestamp) -> Option<MovedTo> {
        let before = self.memory.moving.take();
        let moved = moved_to?;
        let proof = match before {
            Some(mut proof) if proof.target == moved.url => {
                proof.times = proof.times.saturating_add(1);
                proof
            }
            _ => Box::new(MoveProof { target: moved.url.clone(), times: 1, since: ended }),
        };
        if proof.times >= MOVE_PROOFS && ended - proof.since >= MOVE_PROVEN_OVER {
            self.memory.adopted_url = Some(moved.url.as_str().into());
            return Some(moved.clone());
        }
        self.memory.moving = Some(proof);
        None
    }

    /// Takes a failure. Returns until when the source itself asked for a pause, if it did.
    fn fail(
        &mut self,
        failure: Failure,
        ended: Timestamp,
        blameless: bool,
        seed: u64,
    ) -> Option<Timestamp> {
        let state = match failure {
            Failure::Interrupted => return None,
            Failure::Unreachable if blameless => return None,
            Failure::Gone => SourceState::Resting,
            Failure::Forbidden => {
                self.memory.backoff_until = Some(ended + DAY);
                SourceState::Resting
            }
            _ => SourceState::Backoff,
        };
        self.memory.error_streak = self.memory.error_streak.saturating_add(1);
        if self.memory.state != SourceState::Removed {
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
