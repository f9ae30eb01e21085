//! Runs policies on sources with a given knob, one by one or all together.
//!
//! It defines how each kind of entrant is run and how many probes it should send. Must not know how a knob is
//! tuned, nor the meaning of a score.

use crate::clairvoyant;
use crate::learned_feed::Watching;
use crate::parallel::on_all_cores;
use crate::peers;
use crate::score::{Score, ScoredProbes};
use crate::simulation::{self, SimulatedFeed, SimulationSetup, SourceProbeTimes};
use crate::trace::{TestSpan, Trace};
use tidewatch_core::engine::params::Allocator;
use tidewatch_core::model::aggregate::{Aggregate, Borrow};
use tidewatch_core::observe::SourceKind;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::contest_terms::{ContestTerms, Matching};
use super::deadline_score::DeadlineScore;
use super::entrant::{Entrant, SourceRun};
use super::knobs::{self, Turned, turn};
use super::who::Who;

/// Traces, rules, and the aggregates of each trace's kind.
pub(super) struct ContestInput<'s> {
    pub traces: &'s [Trace],
    pub rules: &'s ContestTerms,
    pub kin: Vec<Vec<(Timestamp, Aggregate)>>,
}

/// A budget multiplied by this does not bind a policy with a threshold.
const UNBOUND: u32 = 50;

/// A policy that spends more than this multiple of the probes wanted does not respond to its knob.
const OUT_OF_HAND: f64 = 1.2;

impl ContestInput<'_> {
    /// Each source separately.
    pub fn one_by_one(&self, entrants: &[Who], done: &(dyn Fn() + Sync)) -> Vec<Entrant> {
        let sources = self.traces.len();
        if self.rules.profiles.is_some() {
            return on_all_cores(entrants.len(), |job| self.with_rules(entrants[job], done));
        }
        let mut runs = on_all_cores(entrants.len() * sources, |job| {
            let run = self.matched(entrants[job / sources.max(1)], job % sources.max(1));
            done();
            run
        })
        .into_iter();
        let runs = |&who: &Who| Entrant { who, runs: runs.by_ref().take(sources).collect() };
        entrants.iter().map(runs).collect()
    }

    /// Each source separately, or all in one engine if the policy serves rules.
    fn with_rules(&self, who: Who, done: &(dyn Fn() + Sync)) -> Entrant {
        let sources = self.traces.len();
        let budgets: Vec<Budget> = self.traces.iter().map(|trace| self.rules.budget(trace)).collect();
        let runs = match engine_policy(who) {
            Some(by) => self.in_one_engine(by, usual(who), &budgets, true),
            None => (0..sources).map(|source| self.matched(who, source)).collect(),
        };
        (0..sources).for_each(|_| done());
        Entrant { who, runs }
    }

    /// One source, with the knob at its default or tuned to the number of probes wanted.
    fn matched(&self, who: Who, source: usize) -> Option<SourceRun> {
        let (usual, budget) = (usual(who), self.rules.budget(&self.traces[source]));
        if self.rules.matching == Matching::Nothing {
            return self.run(who, source, usual, budget, true);
        }
        let wanted = self.rules.wanted(&self.traces[source]);
        let (_, run) = turn(wanted, ends(who), usual, |knob| {
            let run = self.run(who, source, knob, budget, false);
            (run.as_ref().map_or(wanted as usize, |run| run.score.probes), run)
        });
        let lost = |run: &SourceRun| {
            matches!(who, Who::Ours(_)) && run.score.probes as f64 > OUT_OF_HAND * wanted + 1.0
        };
        match run.as_ref().is_some_and(lost) {
            // It does not use its threshold, because its input is missing; its probes are spread evenly.
            true => self.run(who, source, usual, budget, true),
            false => run,
        }
    }

    /// All sources with one knob, tuned to the total number of probes wanted.
    pub fn together(&self, who: Who, done: &(dyn Fn() + Sync)) -> Entrant {
        let sources = self.traces.len();
        let wanted: f64 = self.traces.iter().map(|trace| self.rules.wanted(trace)).sum();
        let budgets = self.shares(who);
        let run_all = |knob: f64| -> Vec<Option<SourceRun>> {
            match (allocator(who), engine_policy(who).filter(|_| self.rules.profiles.is_some())) {
                (Some(allocator), _) => self.by_slots(knob, allocator).into_iter().map(Some).collect(),
                (None, Some(by)) => self.in_one_engine(by, knob, &budgets, false),
                (None, None) => {
                    on_all_cores(sources, |source| self.run(who, source, knob, budgets[source], false))
                }
            }
        };
        let (_, runs) = turn(wanted, ends(who), usual(who), |knob| {
            let runs = run_all(knob);
            let spent: usize = runs.iter().flatten().map(|run| run.score.probes).sum();
            (if runs.iter().any(Option::is_some) { spent } else { wanted as usize }, runs)
        });
        (0..sources).for_each(|_| done());
        Entrant { who, runs }
    }

    /// The share of each source in the total budget. A policy that plans a budget has it split by the square
    /// roots of the sources' updates in training. That is the best split for even spacing, and within half a
    /// percent of it for plans. The other policies do not use it.
    fn shares(&self, who: Who) -> Vec<Budget> {
        let plans = match who {
            Who::Ours(policy) => knobs::of(policy) == Turned::Budget && policy != Policy::Uniform,
            Who::Oracle | Who::Clairvoyant => true,
            Who::Index | Who::Peer(_) => false,
        };
        if !plans {
            return self.traces.iter().map(|trace| self.rules.budget(trace)).collect();
        }
        let root = |trace: &Trace| {
            let exam = self.rules.exam(trace);
            let days = |at: Timestamp| (exam.from - at).as_secs_f64() / 86_400.0;
            let learned = trace.events.iter().filter(|&&at| at > exam.begins && at <= exam.from);
            (0.5 + learned.map(|&at| (-days(at) / COUNTS_HALF_AFTER).exp2()).sum::<f64>()).sqrt()
        };
        let roots: Vec<f64> = self.traces.iter().map(root).collect();
        let mean = roots.iter().sum::<f64>() / roots.len().max(1) as f64;
        let Budget { probes, per, min_spacing } = self.rules.budget;
        roots.iter().map(|root| Budget { probes, per: per.scaled(mean / root), min_spacing }).collect()
    }

    /// One source, one knob. With `bound`, our policies respect the budget at every knob.
    fn run(&self, who: Who, source: usize, knob: f64, budget: Budget, bound: bool) -> Option<SourceRun> {
        let (trace, rules) = (&self.traces[source], self.rules);
        let exam = rules.exam(trace);
        let probes = match who {
            Who::Ours(_) | Who::Oracle | Who::Index => {
                let (policy, told) = engine_policy(who)?;
                self.ours(policy, source, knob, budget, bound, told)?
            }
            Who::Peer(peer) => {
                let watched = peers::peer_feed::PeerFeed {
                    events: &trace.events,
                    holds: rules.holds,
                    from: exam.begins,
                    until: exam.to,
                    min_spacing: budget.min_spacing,
                    phase: Stream::new(rules.seed, format!("phase/{}", trace.name)).unit(),
                };
                peers::peer_feed::watch(
                    peer,
                    (rules.matching != Matching::Nothing).then_some(knob),
                    &watched,
                )
            }
            Who::Clairvoyant => {
                let share = (exam.to - exam.from).as_secs_f64() / budget.per.as_secs_f64().max(1e-3);
                let most = (f64::from(budget.probes) * share * knob).round().max(1.0) as usize;
                clairvoyant::best(&trace.events, &rules.importance, exam.from, exam.to, most).times
            }
        };
        let knob = self.shown_knob(turned(who), source, knob, bound);
        Some(self.judged(source, exam, knob, SourceProbeTimes { times: probes, for_rules: Vec::new() }))
    }

    /// The knob as it is reported.
    fn shown_knob(&self, turned: Turned, source: usize, knob: f64, bound: bool) -> f64 {
        match turned {
            Turned::Price if bound => f64::from(self.traces[source].price.unwrap_or(self.rules.price)),
            Turned::Price => self.price(source) / knob / knob,
            _ => knob,
        }
    }

    fn judged(&self, source: usize, exam: TestSpan, knob: f64, probed: SourceProbeTimes) -> SourceRun {
        let SourceProbeTimes { times: probes, for_rules } = probed;
        let TestSpan { from, to, .. } = exam;
        let (events, rules) = (&self.traces[source].events, self.rules);
        let (importance, holds) = (&rules.importance, rules.holds);
        let score = Score::of(&ScoredProbes { events, probes: &probes, from, to, importance, holds });
        let max_gap = rules.max_gap(&self.traces[source]);
        let lateness = max_gap.map(|max_gap| DeadlineScore::of(&probes, &exam, max_gap));
        SourceRun { knob, probes, score, lateness, for_rules }
    }

    /// One source separately; `None` if it needs the true rate and that is unknown.
    fn ours(
        &self,
        policy: Policy,
        source: usize,
        knob: f64,
        budget: Budget,
        bound: bool,
        told: bool,
    ) -> Option<Vec<Timestamp>> {
        let exam = self.rules.exam(&self.traces[source]);
        let watched = self.watched((policy, told), source, knob, budget, bound)?;
        let setup = self.rules.turned_setup(policy, knob);
        let probed = simulation::watch(&[watched], &setup, (exam.begins, exam.to), |_, _| {}).pop();
        Some(probed.unwrap_or_default().times)
    }

    /// All sources in one engine, at their own times, because a rule may request several of them. A source
    /// whose span begins later is present from the start, and not scored before.
    fn in_one_engine(
        &self,
        (policy, told): (Policy, bool),
        knob: f64,
        budgets: &[Budget],
        bound: bool,
    ) -> Vec<Option<SourceRun>> {
        let exams: Vec<TestSpan> = self.traces.iter().map(|trace| self.rules.exam(trace)).collect();
        let from = exams.iter().map(|exam| exam.begins).min().unwrap_or_default();
        let until = exams.iter().map(|exam| exam.to).max().unwrap_or_default();
        let each = budgets.iter().enumerate();
        let watched: Option<Vec<SimulatedFeed<'_>>> = each
            .map(|(source, &budget)| self.watched((policy, told), source, knob, budget, bound))
            .collect();
        let Some(watched) = watched else { return vec![None; self.traces.len()] };
        let sent =
            simulation::watch(&watched, &self.rules.turned_setup(policy, knob), (from, until), |_, _| {});
        let judged = |(source, mut probed): (usize, SourceProbeTimes)| {
            let exam = exams[source];
            probed.times.retain(|&at| at >= exam.begins && at < exam.to);
            let knob = self.shown_knob(knobs::of(policy), source, knob, bound);
            Some(self.judged(source, exam, knob, probed))
        };
        sent.into_iter().enumerate().map(judged).collect()
    }

    /// A source with its settings for that knob; `None` if it needs the true rate and that is unknown.
    fn watched(
        &self,
        (policy, told): (Policy, bool),
        source: usize,
        knob: f64,
        budget: Budget,
        bound: bool,
    ) -> Option<SimulatedFeed<'_>> {
        let (trace, rules) = (&self.traces[source], self.rules);
        let mut price = match rules.matching {
            Matching::Nothing => trace.price.unwrap_or(rules.price),
            _ => 0.0,
        };
        let free = Budget { probes: budget.probes.saturating_mul(UNBOUND), ..budget };
        let budget = match knobs::of(policy) {
            Turned::Budget => Budget { per: budget.per.scaled(1.0 / knob), ..budget },
            Turned::Freshness | Turned::Ttl | Turned::Price if bound => budget,
            Turned::Freshness | Turned::Ttl => free,
            Turned::Price => {
                price = (self.price(source) / knob / knob) as f32;
                free
            }
        };
        let truth = match told {
            true => Some(trace.truth.as_ref()?),
            false => None,
        };
        let (kin, parts) = (&self.kin[source][..], rules.parts(trace));
        let (page, max_gap) = (trace.page, rules.max_gap(trace));
        Some(SimulatedFeed { events: &trace.events, budget, kin, truth, page, price, max_gap, parts })
    }

    /// The price of a probe before the knob is applied. With a shared total it is the same for all. Otherwise
    /// it is the value of a source's mean probe if the budget is spread evenly.
    fn price(&self, source: usize) -> f64 {
        let (trace, rules) = (&self.traces[source], self.rules);
        if rules.matching == Matching::Total {
            return 0.5;
        }
        let (exam, gap) = (rules.exam(trace), rules.budget(trace).even_gap());
        let hours = |span: Span| span.as_secs_f64() / 3600.0;
        let learned = trace.events.iter().filter(|&&at| at > exam.begins && at <= exam.from).count();
        let rate = (learned as f64 + 0.5) / hours(exam.from - exam.begins).max(1.0);
        rate * hours(gap).powi(2) / 2.0
    }

    /// All sources in one engine with few slots, which the allocator assigns. Sources are shifted by whole
    /// weeks, so that all are present at the same time and weekly rhythms stay intact.
    fn by_slots(&self, knob: f64, allocator: Allocator) -> Vec<SourceRun> {
        let exams: Vec<TestSpan> = self.traces.iter().map(|trace| self.rules.exam(trace)).collect();
        let Some(base) = exams.iter().map(|exam| exam.begins).max() else { return Vec::new() };
        let week = Span::from_days(7).as_millis();
        let shift = |exam: &TestSpan| Span::from_millis((base - exam.begins).as_millis() / week * week);
        let moved: Vec<Vec<Timestamp>> = self
            .traces
            .iter()
            .zip(&exams)
            .map(|(trace, exam)| trace.events.iter().map(|&at| at + shift(exam)).collect())
            .collect();
        let Budget { probes, per, min_spacing } = self.rules.budget;
        let free = Budget { probes: probes.saturating_mul(UNBOUND), per, min_spacing };
        let watched: Vec<SimulatedFeed<'_>> = moved
            .iter()
            .zip(self.traces)
            .map(|(events, trace)| {
                let (max_gap, parts) = (self.rules.max_gap(trace), self.rules.parts(trace));
                SimulatedFeed { max_gap, parts, ..SimulatedFeed::new(events, free) }
            })
            .collect();
        let slots = (self.traces.len() as u32 / 8).max(1);
        let all = f64::from(probes) * self.traces.len() as f64 * knob;
        let step = per.scaled(f64::from(slots) / all).max(Span::from_millis(1));
        let setup =
            SimulationSetup { slots: Some((slots, step, allocator)), ..self.rules.setup(Policy::Adaptive) };
        let from = exams.iter().map(|exam| exam.begins + shift(exam)).min().unwrap_or(base);
        let until = exams.iter().map(|exam| exam.to + shift(exam)).max().unwrap_or(base);
        let sent = simulation::watch(&watched, &setup, (from, until), |_, _| {});
        let back = |(source, mut probed): (usize, SourceProbeTimes)| {
            let (exam, by) = (exams[source], shift(&exams[source]));
            probed.times.iter_mut().for_each(|at| *at = *at - by);
            probed.times.retain(|&at| at < exam.to);
            probed.for_rules.iter_mut().for_each(|(at, _)| *at = *at - by);
            self.judged(source, exam, knob, probed)
        };
        sent.into_iter().enumerate().map(back).collect()
    }
}

impl ContestTerms {
    /// The setup of one of our policies.
    pub(super) fn setup(&self, policy: Policy) -> SimulationSetup<'_> {
        let borrow = match policy {
            Policy::IndHist => Borrow::Never,
            Policy::AggHist => Borrow::Always,
            _ => self.watching.borrow,
        };
        SimulationSetup {
            policy,
            burst: self.burst,
            freshness_threshold: self.freshness_threshold,
            importance: &self.importance,
            watching: Watching {
                kind: if self.pages { SourceKind::Page } else { SourceKind::Feed },
                holds: self.holds,
                borrow,
                habits: policy == Policy::Auto,
                echoes: self.echoes,
                ..self.watching.clone()
            },
            refit_every: self.refit_every,
            latency: self.latency,
            errors: self.errors,
            slots: None,
            rules: self.profiles.as_ref(),
            seed: self.seed,
        }
    }

    /// The same with the knobs that are common to all sources.
    fn turned_setup(&self, policy: Policy, knob: f64) -> SimulationSetup<'_> {
        let mut setup = self.setup(policy);
        match knobs::of(policy) {
            Turned::Freshness => setup.freshness_threshold = knob,
            Turned::Ttl => setup.burst.ttl_factor = knob,
            Turned::Budget | Turned::Price => {}
        }
        setup
    }
}

/// The half-life of an update, in days, when a budget is split.
const COUNTS_HALF_AFTER: f64 = 28.0;

/// The allocator of an entrant, if all sources share slots.
fn allocator(who: Who) -> Option<Allocator> {
    match who {
        Who::Index => Some(Allocator::Index),
        Who::Ours(Policy::Adaptive) => Some(Allocator::Adaptive),
        _ => None,
    }
}

/// The policy of an entrant that runs in an engine, and whether it gets the true rate.
fn engine_policy(who: Who) -> Option<(Policy, bool)> {
    match who {
        Who::Ours(policy) => Some((policy, false)),
        Who::Oracle => Some((Policy::Plan, true)),
        Who::Index => Some((Policy::Adaptive, false)),
        Who::Peer(_) | Who::Clairvoyant => None,
    }
}

fn turned(who: Who) -> Turned {
    match who {
        Who::Ours(policy) => knobs::of(policy),
        _ => Turned::Budget,
    }
}

fn usual(who: Who) -> f64 {
    match who {
        Who::Peer(peer) => peer.usual(),
        _ => turned(who).usual(),
    }
}

fn ends(who: Who) -> (f64, f64) {
    match who {
        Who::Peer(peer) => (peer.knob().fewest, peer.knob().most),
        _ => turned(who).ends(),
    }
}
