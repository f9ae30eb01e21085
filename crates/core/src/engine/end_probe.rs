//! Processes the end of a probe.
//!
//! Takes a report, updates the source's state and next due time, and returns what must be stored. The probe
//! stays in progress until the store has committed the result, so no state depends on data that a crash
//! would lose.

use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::action::{Action, HostAsks, Persist, ProbeResult};
use super::event::{CrawlDelay, Failure, MovedTo, ProbeAnswer, ProbeReport};
use super::fleet_mean::FleetMean;
use super::hosts::{HostIx, Hosts};
use super::note::{Note, StopReason};
use super::outage::{LastResult, OutageChange};
use super::params::HostGroup;
use super::reason::{Reason, SourceState};
use super::rule_counts::{AnsweredProbe, RuleEffects};
use super::source::{ProbeProposal, Source};
use super::source_memory::{Due, MoveProof};
use super::state::Engine;
use super::urgent_cause::Urgency;
use super::wait_state::ProbeHosts;
use crate::model::hourly_profile;

const DAY: Span = Span::from_days(1);

/// Upper limit for the expected time until a source's next update, as rules see it.
const LONGEST_AGAIN_HOURS: f64 = 24.0 * 366.0;

/// The least backoff if the name does not exist or the certificate is not valid: a person has to mend that.
const MENDED_BY_HAND: Span = Span::from_hours(1);

/// The least pause after a 429 without `Retry-After`.
const BARE_THROTTLE: Span = Span::from_mins(15);

/// A source that was refused is put behind others of its site by this at most.
const LONGEST_BEHIND: Span = Span::from_hours(1);

/// A permanent redirect is adopted after this many in a row …
const MOVE_PROOFS: u32 = 5;
/// … over at least this long.
const MOVE_PROVEN_OVER: Span = Span::from_days(3);

/// The effects of one probe, as they are collected.
struct Consequences {
    proposal: ProbeProposal,
    notes: Vec<Note>,
    follows: RuleEffects,
    tardy: Option<Span>,
    adopted: Option<MovedTo>,
}

/// The host group that a report concerns.
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
    /// Processes a probe report. The probe stays in progress until the result is committed.
    pub(super) fn end_probe(&mut self, mut report: ProbeReport, actions: &mut Vec<Action>) {
        let (id, ended) = (report.source, report.finished);
        let Some(probe) = self.sources.get(&id).and_then(|source| source.condition().in_progress()) else {
            return;
        };
        if probe.moved {
            // The probe was sent and counts against the budget; its answer is from the old address.
            (report.answered_by, report.crawl_delays) = (None, Vec::new());
            report.result = Err(Failure::Interrupted);
        }
        let Some(answering_host) = self.answering_host(&report) else { return };
        let answering = report.answered_by.as_ref().map(|group| self.hosts.host(&group.key));
        let before = answering_host.asks(&self.hosts);
        for CrawlDelay { host, origin, delay } in &report.crawl_delays {
            let host = self.hosts.host(&host.key);
            self.hosts.set_crawl_delay(host, origin, *delay);
        }
        self.hosts.forget_refusal(probe.hosts.0, id);
        let outage = self.watch_network(&report, probe.hosts.0);
        let own = self.is_own_failure(&report);
        let uncharged = own && report.is_before_request();
        let Some(mut then) = self.learn_from(&report, answering, &answering_host, (own, uncharged)) else {
            return;
        };
        then.notes.splice(0..0, outage);
        let mut others = Vec::new();
        for &(rule, until) in &then.follows.triggered {
            others.extend(self.open_spans(rule, until, id, ended));
        }
        then.notes.extend(self.reserve_slot(id, ended));
        self.release_hosts(probe.hosts, answering, ended);
        let Some(source) = self.sources.get_mut(&id) else { return };
        if let Some(probe) = source.probe_mut() {
            probe.deliver = then.follows.notices.iter().any(|notice| notice.deliver_now);
        }
        let result = ProbeResult {
            source: id,
            discarded: probe.moved,
            own_failure: own,
            uncharged,
            memory: source.memory.clone(),
            deadline: source.deadline.as_ref().map(|deadline| deadline.by),
            host: Some(answering_host.asks(&self.hosts)).filter(|after| *after != before),
            notes: then.notes,
            tardy: then.tardy,
            rule_effects: then.follows,
        };
        if let Some(MovedTo { url, host }) = then.adopted {
            self.rehost(id, host);
            actions.push(Action::AdoptAddress { source: id, url });
        }
        let notes = result.notes.iter().cloned();
        actions.extend(notes.map(|note| Action::Log { source: id, note }));
        let due: Vec<SourceId> = others.iter().map(|&(other, _)| other).collect();
        for (other, notes) in others {
            self.persist_notes(other, ended, notes, actions);
        }
        self.persist_due(&due, actions);
        actions.push(Action::Persist(Persist::Ended(Box::new(result))));
        if self.crash_suspects.clear(id) {
            actions.push(Action::Persist(Persist::SuspicionOver(id)));
        }
    }

    /// A throttling answer concerns the host group that sent it; every other result the source's own group.
    fn answering_host(&mut self, report: &ProbeReport) -> Option<AnsweringHost> {
        let source = self.sources.get(&report.source)?;
        let throttled = matches!(report.result, Err(Failure::Throttled { .. }));
        Some(match report.answered_by.clone().filter(|_| throttled) {
            Some(group) => AnsweringHost { ix: self.hosts.host(&group.key), group },
            None => AnsweringHost { ix: source.host, group: self.hosts.group(source.host, source.public) },
        })
    }

    /// Detects an outage of our own network, which counts as no source's failure.
    fn watch_network(&mut self, report: &ProbeReport, host: HostIx) -> Option<Note> {
        let ended = report.finished;
        let change = match report.result {
            Err(Failure::NoDescriptors) => {
                return self.outage.no_descriptors(ended).then_some(Note::NoDescriptors);
            }
            Err(Failure::Interrupted) => None,
            // By a robots.txt that was stored before: no request was sent.
            Err(Failure::Forbidden | Failure::Refused) if report.answered_by.is_none() => None,
            Err(failure) if failure.may_be_outage() => {
                let answered = self.sources.get(&report.source).is_some_and(|it| it.memory.answers());
                let last = if answered { LastResult::Answered } else { LastResult::Failed };
                self.outage.unreachable(host, last, ended)
            }
            _ => self.outage.answered(host, ended),
        };
        change.map(|change| match change {
            OutageChange::Began { hosts } => Note::OutageBegan { hosts },
            OutageChange::Ended { lasted, failed } => Note::OutageEnded { lasted, failed },
        })
    }

    /// Whether this failure is our own: of our network, or of our descriptors.
    fn is_own_failure(&self, report: &ProbeReport) -> bool {
        match report.result {
            Err(Failure::NoDescriptors) => true,
            Err(failure) => self.outage.is_outage() && failure.may_be_outage(),
            Ok(_) => false,
        }
    }

    /// Updates the source's state after the probe and sets the next due time.
    fn learn_from(
        &mut self,
        report: &ProbeReport,
        answering: Option<HostIx>,
        answering_host: &AnsweringHost,
        (own, uncharged): (bool, bool),
    ) -> Option<Consequences> {
        let (seed, terms, ended) = (self.seed, self.params.burst, report.finished);
        let source = self.sources.get_mut(&report.source)?;
        let state_before = source.memory.state;
        source.revision.0 += 1;
        source.redirect_host =
            answering.map_or(source.redirect_host, |ix| (ix != source.host).then_some(ix));
        let (asked, last) = (source.asks(), source.spent.last());
        if !uncharged {
            if let Some(last) = last.filter(|_| source.memory.reason != Reason::Manual) {
                source.charge_reserve(
                    last,
                    source.proposal_without_burst(last, seed, &terms).at,
                    ended,
                    &terms,
                );
            }
            source.count_spending(&mut self.prices, last, ended);
            source.spent.note(ended, &source.terms.budget);
        }
        source.price = self.prices.of(source.terms.price);
        source.memory.last_probe = Some(ended);
        source.early_at = None;
        let was_stopped = std::mem::take(&mut source.urgency).was_stopped() && report.result.is_err();
        let mut then = match &report.result {
            Ok(answer) => self.take_answer(report, answer)?,
            Err(failure) => self.take_failure(report, *failure, answering_host, own)?,
        };
        self.reserve_early_probe(report, &mut then);
        let source = self.sources.get_mut(&report.source)?;
        source.outdate_plan_if_unfit(last, ended, asked, report.result.is_ok());
        let paused = self.hosts.paused_until(source.host);
        then.notes.extend(source.recompute_next(&self.rule_registry, ended, paused, self.params.step));
        let hosts = &self.hosts;
        let last_success =
            report.result.as_ref().map_or(source.memory.last_success, |_| Some(report.started));
        self.deadlines
            .reindex(source, &self.params, last_success, |source, at| source.ask_gate(hosts, at).at);
        let proposal = source.rule_proposal(then.proposal);
        // A failure without fault has no backoff; a deadline in the past would repeat the probe at once.
        let pauses = source.memory.backoff_until.max(source.memory.retry_until) > Some(ended);
        let proposal = if report.result.is_ok() || pauses { source.by_max_gap(proposal) } else { proposal };
        // A stopped source stays stopped until it answers: a requested probe that fails is not repeated.
        if was_stopped && source.memory.state != SourceState::Removed {
            source.memory.state = SourceState::Resting;
        }
        let gone = was_stopped || matches!(report.result, Err(Failure::Gone));
        if gone || source.memory.state == SourceState::Removed {
            source.stop();
            self.deadlines.forget(source);
        } else {
            source.set_due(&self.hosts, proposal);
            let throttled = matches!(report.result, Err(Failure::Throttled { .. }));
            if let (Due::At(due), Some(paused), true) = (source.memory.due, paused, throttled)
                && paused > ended
            {
                // The others of the site come first, so that one address does not silence its neighbours.
                let others = self.hosts.refuse(source.host, source.id, due, LONGEST_BEHIND);
                let each =
                    self.params.step.max(self.params.host_spacing).max(self.hosts.crawl_delay(source.host));
                let behind = each.scaled(others as f64).min(LONGEST_BEHIND);
                source.memory.due = Due::At(source.ask_gate(&self.hosts, due + behind).at);
            }
        }
        source.recount_demand(&mut self.prices);
        if source.memory.state != state_before {
            then.notes.push(Note::StateChanged { from: state_before, to: source.memory.state });
        }
        Some(then)
    }

    fn take_answer(&mut self, report: &ProbeReport, answer: &ProbeAnswer) -> Option<Consequences> {
        let (seed, terms, ended) = (self.seed, self.params.burst, report.finished);
        let source = self.sources.get_mut(&report.source)?;
        let mut notes = Vec::new();
        let undiscovered = source.learn(answer.updates, ended, &mut self.fleet_mean, self.params.step);
        self.slot_stats.undiscovered_hours += undiscovered;
        source.update_memory(answer, ended);
        self.deadlines.count_cost(source.memory.cost, false);
        source.memory.cost.learn(answer.bytes, ended - report.started);
        self.deadlines.count_cost(source.memory.cost, true);
        let tardy = self.deadlines.mark_seen(source, report.started);
        if let Some(late) = tardy.filter(|&late| late > Span::ZERO) {
            self.slot_stats.tardy(late);
            notes.push(Note::TardyEnded { late });
        }
        notes.extend(source.apply_model_update(&answer.model, answer.updates, ended, &terms));
        let mut proposal = source.policy_proposal(ended, seed, &terms);
        let pending_rules = source.rules_pending(report.started);
        notes.extend(source.close_satisfied(report.started, &self.rule_registry));
        let mut follows = RuleEffects::default();
        if let Some(asked) = &answer.rules {
            source.learn_drift(asked.found, asked.expected);
            let rate = source.memory.estimate.rate(self.fleet_mean.prior()).max(1e-6);
            let again_after = Span::from_hours(1).scaled(rate.recip().min(LONGEST_AGAIN_HOURS));
            let probe =
                AnsweredProbe { source: report.source, started: report.started, ended, again_after };
            follows = self
                .rule_registry
                .apply_matches(probe, &asked.matches, |rule| pending_rules.contains(&rule));
        }
        if answer.gap {
            source.urgency = Urgency::ItemsLost;
            proposal.at = ended + Span::from_millis((proposal.at - ended).as_millis() / 2);
            proposal.because = Reason::Gap;
        }
        let adopted = source.count_move_proof(answer.moved_to.as_ref(), ended);
        notes.extend(adopted.as_ref().map(|moved| Note::MoveAdopted { to: moved.url.clone() }));
        Some(Consequences { proposal, notes, follows, tardy, adopted })
    }

    /// Reserves the next early probe of a new source that answered, if it is sooner than the proposed probe.
    fn reserve_early_probe(&mut self, report: &ProbeReport, then: &mut Consequences) {
        let Some(source) = self.sources.get_mut(&report.source).filter(|_| report.result.is_ok()) else {
            return;
        };
        let Some(wait) = source.take_early_wait(report.finished) else { return };
        let within = (report.finished + wait, then.proposal.at);
        let spacing = self.params.host_spacing.max(self.hosts.crawl_delay(source.host));
        let at = self.early_probes.reserve((source.host, spacing), within, report.finished, &self.params);
        if let Some(at) = at {
            source.early_at = Some(at);
            then.proposal = ProbeProposal { at, because: Reason::Early, by: then.proposal.by };
        }
    }

    fn take_failure(
        &mut self,
        report: &ProbeReport,
        failure: Failure,
        answering_host: &AnsweringHost,
        own: bool,
    ) -> Option<Consequences> {
        let ended = report.finished;
        let source = self.sources.get_mut(&report.source)?;
        let proposal = source.policy_proposal(ended, self.seed, &self.params.burst);
        let mut notes = Vec::new();
        let pause = if own { None } else { source.fail(failure, ended, self.seed) };
        let throttled = matches!(failure, Failure::Throttled { .. });
        if let Some(until) = pause.filter(|_| throttled && answering_host.group.public) {
            self.hosts.pause(answering_host.ix, until);
            notes.push(Note::HostPaused { host: answering_host.group.key.to_string(), until });
        }
        if let (Some(until), Failure::Throttled { retry_after: Some(asked) }) = (pause, failure)
            && asked > DAY
        {
            notes.push(Note::LongPause { until });
        }
        if failure == Failure::Gone && source.memory.burst.burst_since.take().is_some() {
            notes.push(Note::BurstForgotten);
        }
        match failure {
            Failure::Gone => notes.push(Note::Rests { why: StopReason::Gone }),
            Failure::Forbidden => notes.push(Note::Rests { why: StopReason::Robots }),
            _ => {}
        }
        Some(Consequences { proposal, notes, follows: RuleEffects::default(), tardy: None, adopted: None })
    }

    fn release_hosts(&mut self, (host, also): ProbeHosts, answering: Option<HostIx>, ended: Timestamp) {
        for host in [Some(host), also, answering].into_iter().flatten() {
            // Spacing also counts from the end: the request reached the host at an unknown time before it.
            self.hosts.close_until(host, ended + self.params.host_spacing);
        }
        for host in [Some(host), also].into_iter().flatten() {
            self.hosts.release(host, ended);
        }
    }

    /// The end of a probe is committed: the source is queued for its next due time.
    pub(super) fn end_committed(&mut self, id: SourceId, actions: &mut Vec<Action>) {
        let Some(source) = self.sources.get_mut(&id) else { return };
        let Some(probe) = source.condition().in_progress() else { return };
        self.in_progress -= 1;
        self.crash_suspects.over(id);
        if probe.deliver {
            actions.push(Action::Deliver);
        }
        if source.memory.state == SourceState::Removed {
            self.drop_source(id);
            actions.push(Action::Forget(id));
        } else {
            source.leave();
            source.enqueue(&mut self.hosts);
            self.reindex_deadline(id);
            self.ask_for_plan(id, None);
        }
    }

    /// The start of a probe is committed: the probe is sent, unless the gate has closed since.
    pub(super) fn start_committed(&mut self, id: SourceId, now: Timestamp, actions: &mut Vec<Action>) {
        let Some(source) = self.sources.get_mut(&id) else { return };
        let allowed = source.ask_gate(&self.hosts, now).at <= now;
        let Some(probe) = source.probe_mut() else { return };
        if allowed {
            // The probe goes to the source's current address.
            probe.moved = false;
            actions.push(Action::Send(probe.attempt));
            return;
        }
        let hosts = probe.hosts;
        self.in_progress -= 1;
        for host in [Some(hosts.0), hosts.1].into_iter().flatten() {
            self.hosts.cancel(host);
        }
        self.crash_suspects.over(id);
        actions.push(Action::Persist(Persist::Cancelled(id)));
        if source.memory.state == SourceState::Removed {
            self.drop_source(id);
            actions.push(Action::Forget(id));
        } else {
            source.leave();
            source.enqueue(&mut self.hosts);
            self.reindex_deadline(id);
        }
    }
}

impl Source {
    /// Updates the rate estimate with the number of updates found. Returns the expected number of updates
    /// since the last answered probe, times half the time that they were undiscovered, in hours, times the
    /// weight.
    fn learn(&mut self, found: u32, ended: Timestamp, mean: &mut FleetMean, step: Span) -> f64 {
        let Some(last) = self.memory.last_success.replace(ended).filter(|&last| last < ended) else {
            return 0.0;
        };
        let prior = mean.prior();
        let hours = hourly_profile::hours(self.profile.as_deref(), last, ended);
        let expected = self.memory.estimate.rate(prior) * hours;
        self.memory.estimate.learn(u64::from(found), hours, prior);
        mean.learn(f64::from(found), hours);
        // A gap of ℓ steps costs π·ℓ(ℓ+1)/2: half of the updates, times the gap plus one step.
        let lasted = (ended - last + step).as_secs_f64() / 3600.0;
        f64::from(self.terms.weight) * expected * lasted / 2.0
    }

    fn update_memory(&mut self, answer: &ProbeAnswer, ended: Timestamp) {
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
            self.memory.state = self.state_when_well();
        }
    }

    /// Counts permanent redirects to the same address. Returns the address once there are enough.
    fn count_move_proof(&mut self, moved_to: Option<&MovedTo>, ended: Timestamp) -> Option<MovedTo> {
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

    /// Applies a failure. Returns the end of the pause if the source asked for one.
    pub(super) fn fail(&mut self, failure: Failure, ended: Timestamp, seed: u64) -> Option<Timestamp> {
        let state = match failure {
            Failure::Interrupted | Failure::NoDescriptors => return None,
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
            Failure::Throttled { retry_after: Some(pause) } => {
                self.memory.retry_until = Some(ended + pause);
                self.memory.retry_until
            }
            Failure::Throttled { retry_after: None } => {
                self.memory.backoff_until = Some(ended + self.backoff(seed, ended).max(BARE_THROTTLE));
                self.memory.backoff_until
            }
            Failure::NameUnknown | Failure::BadCertificate => {
                self.memory.backoff_until = Some(ended + self.backoff(seed, ended).max(MENDED_BY_HAND));
                None
            }
            Failure::ResolverFailed
            | Failure::PrivateAddress
            | Failure::Unreachable
            | Failure::Unanswered
            | Failure::Refused
            | Failure::Unreadable => {
                self.memory.backoff_until = Some(ended + self.backoff(seed, ended));
                None
            }
            Failure::Gone | Failure::Forbidden | Failure::Interrupted | Failure::NoDescriptors => None,
        }
    }

    /// The gap, doubled with every failure after the first, plus jitter; at most a day, or the gap itself
    /// if that is longer.
    fn backoff(&self, seed: u64, ended: Timestamp) -> Span {
        let gap = self.gap();
        let doublings = self.memory.error_streak.saturating_sub(1).min(24);
        let jitter = 1.0 + 0.25 * self.unit_random(seed, "backoff", ended);
        gap.scaled(f64::from(1_u32 << doublings) * jitter).min(DAY.max(gap))
    }
}
