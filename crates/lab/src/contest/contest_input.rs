//! Runs policies on sources with a given knob, one by one or all together.
//!
//! It defines how each kind of entrant is run and how many probes it should send. Must not know how a knob is
//! tuned, nor the meaning of a score.

use crate::clairvoyant;
use crate::learned_feed::Watching;
use crate::paper_rules::crawled_feed::{self, CrawledFeed};
use crate::paper_rules::paper_rule::PaperRule;
use crate::parallel::on_all_cores;
use crate::peers;
use crate::peers::peer_feed::UNLIMITED;
use crate::score::{Score, ScoredProbes};
use crate::simulation::{self, SimulatedFeed, SimulationSetup, SourceProbeTimes};
use crate::trace::{TestSpan, Trace};
use tidewatch_core::engine::params::Allocator;
use tidewatch_core::model::aggregate::Aggregate;
use tidewatch_core::model::burst::BurstParams;
use tidewatch_core::observe::SourceKind;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::contest_terms::{ContestTerms, Matching};
use super::deadline_score::DeadlineScore;
use super::entrant::{Entrant, SourceRun};
use super::entrant_policy::EntrantPolicy;
use super::knobs::{self, KnobQuantity, tune};

/// Traces, rules, and the aggregates of each trace's kind.
pub(super) struct ContestInput<'s> {
    pub traces: &'s [Trace],
    pub rules: &'s ContestTerms,
    pub group_rates: Vec<Vec<(Timestamp, Aggregate)>>,
}

/// A budget multiplied by this does not bind a policy with a threshold.
const UNBOUND: u32 = 50;

/// A policy that spends more than this multiple of the probes wanted does not respond to its knob.
const OUT_OF_HAND: f64 = 1.2;

impl ContestInput<'_> {
    /// Each source separately.
    pub fn one_by_one(&self, entrants: &[EntrantPolicy], done: &(dyn Fn() + Sync)) -> Vec<Entrant> {
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
        let runs =
            |&policy: &EntrantPolicy| Entrant { policy, runs: runs.by_ref().take(sources).collect() };
        entrants.iter().map(runs).collect()
    }

    /// Each source separately, or all in one engine if the policy has rules.
    fn with_rules(&self, policy: EntrantPolicy, done: &(dyn Fn() + Sync)) -> Entrant {
        let sources = self.traces.len();
        let budgets: Vec<Budget> = self.traces.iter().map(|trace| self.rules.budget(trace)).collect();
        let runs = match engine_policy(policy) {
            Some(by) => self.in_one_engine(by, usual(policy), &budgets, true),
            None => (0..sources).map(|source| self.matched(policy, source)).collect(),
        };
        (0..sources).for_each(|_| done());
        Entrant { policy, runs }
    }

    /// One source, with the knob at its default or tuned to the number of probes wanted.
    fn matched(&self, policy: EntrantPolicy, source: usize) -> Option<SourceRun> {
        let (usual, budget) = (usual(policy), self.rules.budget(&self.traces[source]));
        if self.rules.matching == Matching::Nothing {
            return self.run(policy, source, usual, budget, true);
        }
        let wanted = self.rules.wanted(&self.traces[source]);
        let (_, run) = tune(wanted, ends(policy), usual, |knob| {
            let run = self.run(policy, source, knob, budget, false);
            (run.as_ref().map_or(wanted as usize, |run| run.score.probes), run)
        });
        let lost = |run: &SourceRun| {
            matches!(policy, EntrantPolicy::Ours(_)) && run.score.probes as f64 > OUT_OF_HAND * wanted + 1.0
        };
        match run.as_ref().is_some_and(lost) {
            // It does not use its threshold, because its input is missing; its probes are spread evenly.
            true => self.run(policy, source, usual, budget, true),
            false => run,
        }
    }

    /// All sources with one knob, tuned to the total number of probes wanted.
    pub fn together(&self, policy: EntrantPolicy, done: &(dyn Fn() + Sync)) -> Entrant {
        let sources = self.traces.len();
        let wanted: f64 = self.traces.iter().map(|trace| self.rules.wanted(trace)).sum();
        let budgets = self.shares(policy);
        let run_all = |knob: f64| -> Vec<Option<SourceRun>> {
            match (allocator(policy), engine_policy(policy).filter(|_| self.rules.profiles.is_some())) {
                (Some(allocator), _) => self.by_slots(knob, allocator).into_iter().map(Some).collect(),
                (None, Some(by)) => self.in_one_engine(by, knob, &budgets, false),
                (None, None) => {
                    on_all_cores(sources, |source| self.run(policy, source, knob, budgets[source], false))
                }
            }
        };
        let (_, runs) = tune(wanted, ends(policy), usual(policy), |knob| {
            let runs = run_all(knob);
            let spent: usize = runs.iter().flatten().map(|run| run.score.probes).sum();
            (if runs.iter().any(Option::is_some) { spent } else { wanted as usize }, runs)
        });
        (0..sources).for_each(|_| done());
        Entrant { policy, runs }
    }

    /// The share of each source in the total budget. A policy that plans a budget has it split by the square
    /// roots of the sources' updates in training. That is the best split for even spacing, and within half a
    /// percent of it for plans. The other policies do not use it.
    fn shares(&self, policy: EntrantPolicy) -> Vec<Budget> {
        let plans = match policy {
            EntrantPolicy::Ours(policy) => {
                knobs::of(policy) == KnobQuantity::Budget && policy != Policy::Uniform
            }
            EntrantPolicy::Oracle | EntrantPolicy::Clairvoyant => true,
            EntrantPolicy::Index | EntrantPolicy::Peer(_) | EntrantPolicy::Paper(_) => false,
        };
        if !plans {
            return self.traces.iter().map(|trace| self.rules.budget(trace)).collect();
        }
        let root = |trace: &Trace| {
            let test_span = self.rules.test_span(trace);
            let days = |at: Timestamp| (test_span.from - at).as_secs_f64() / 86_400.0;
            let learned = trace.events.iter().filter(|&&at| at > test_span.begins && at <= test_span.from);
            (0.5 + learned.map(|&at| (-days(at) / COUNTS_HALF_AFTER).exp2()).sum::<f64>()).sqrt()
        };
        let roots: Vec<f64> = self.traces.iter().map(root).collect();
        let mean = roots.iter().sum::<f64>() / roots.len().max(1) as f64;
        let Budget { probes, per, min_spacing } = self.rules.budget;
        roots.iter().map(|root| Budget { probes, per: per.scaled(mean / root), min_spacing }).collect()
    }

    /// One source, one knob. With `bound`, our policies respect the budget at every knob.
    fn run(
        &self,
        policy: EntrantPolicy,
        source: usize,
        knob: f64,
        budget: Budget,
        bound: bool,
    ) -> Option<SourceRun> {
        let (trace, rules) = (&self.traces[source], self.rules);
        let test_span = rules.test_span(trace);
        let probed = match policy {
            EntrantPolicy::Ours(_) | EntrantPolicy::Oracle | EntrantPolicy::Index => {
                let (policy, knows_rate) = engine_policy(policy)?;
                self.ours(policy, source, knob, budget, bound, knows_rate)?
            }
            EntrantPolicy::Peer(peer) => {
                let spaced = Budget { min_spacing: budget.min_spacing, ..UNLIMITED };
                let caps = if rules.as_shipped { UNLIMITED } else { rules.caps.unwrap_or(spaced) };
                let watched = peers::peer_feed::PeerFeed {
                    events: &trace.events,
                    holds: rules.holds,
                    from: test_span.begins,
                    until: test_span.to,
                    caps,
                    phase: Stream::new(rules.seed, format!("phase/{}", trace.name)).unit(),
                };
                let knob = (rules.matching != Matching::Nothing).then_some(knob);
                SourceProbeTimes::at(peers::peer_feed::watch(peer, knob, &watched))
            }
            EntrantPolicy::Paper(rule) => {
                let price = self.shown_knob(KnobQuantity::Price, source, knob, bound);
                let free = Budget { min_spacing: budget.min_spacing, ..UNLIMITED };
                let caps = if bound { budget } else { rules.caps.unwrap_or(free) };
                SourceProbeTimes::at(self.by_paper(rule, source, price, (budget, caps)))
            }
            EntrantPolicy::Clairvoyant => {
                let share =
                    (test_span.to - test_span.from).as_secs_f64() / budget.per.as_secs_f64().max(1e-3);
                let most = (f64::from(budget.probes) * share * knob).round().max(1.0) as usize;
                let (from, to) = (test_span.from, test_span.to);
                SourceProbeTimes::at(
                    clairvoyant::best(&trace.events, &rules.importance, from, to, most).times,
                )
            }
        };
        let knob = self.shown_knob(knob_quantity(policy), source, knob, bound);
        Some(self.scored(source, test_span, knob, probed))
    }

    /// One source by a paper's rule, with the budget until its rate is known, and the caps.
    fn by_paper(
        &self,
        rule: PaperRule,
        source: usize,
        price: f64,
        (budget, caps): (Budget, Budget),
    ) -> Vec<Timestamp> {
        let (trace, rules) = (&self.traces[source], self.rules);
        let test_span = rules.test_span(trace);
        let mut watching = rules.setup(Policy::Plan).watching;
        if trace.page {
            watching.kind = SourceKind::Page;
        }
        let feed = CrawledFeed {
            events: &trace.events,
            watching,
            group_rates: &self.group_rates[source],
            refit_every: rules.refit_every,
            from: test_span.begins,
            until: test_span.to,
            first_gap: budget.even_gap(),
            caps,
            chance: Stream::new(rules.seed, format!("{}/{}", rule.name(), trace.name)),
        };
        crawled_feed::watch(rule, price, &feed)
    }

    /// The knob as it is reported.
    fn shown_knob(&self, quantity: KnobQuantity, source: usize, knob: f64, bound: bool) -> f64 {
        match quantity {
            KnobQuantity::Price if bound => {
                f64::from(self.traces[source].price.unwrap_or(self.rules.price))
            }
            KnobQuantity::Price => self.price(source) / knob / knob,
            _ => knob,
        }
    }

    fn scored(&self, source: usize, test_span: TestSpan, knob: f64, probed: SourceProbeTimes) -> SourceRun {
        let SourceProbeTimes { times: probes, for_rules, calibration } = probed;
        let TestSpan { from, to, .. } = test_span;
        let (events, rules) = (&self.traces[source].events, self.rules);
        let (importance, holds) = (&rules.importance, rules.holds);
        let score = Score::of(&ScoredProbes { events, probes: &probes, from, to, importance, holds });
        let max_gap = rules.max_gap(&self.traces[source]);
        let lateness = max_gap.map(|max_gap| DeadlineScore::of(&probes, &test_span, max_gap));
        SourceRun { knob, probes, score, lateness, for_rules, calibration }
    }

    /// One source separately; `None` if it needs the true rate and that is unknown.
    fn ours(
        &self,
        policy: Policy,
        source: usize,
        knob: f64,
        budget: Budget,
        bound: bool,
        knows_rate: bool,
    ) -> Option<SourceProbeTimes> {
        let test_span = self.rules.test_span(&self.traces[source]);
        let watched = self.watched((policy, knows_rate), source, knob, budget, bound)?;
        let setup = self.rules.tuned_setup(policy, knob);
        let probed =
            simulation::watch(&[watched], &setup, (test_span.begins, test_span.to), |_, _| {}).pop();
        Some(probed.unwrap_or_default())
    }

    /// All sources in one engine, at their own times, because a rule may request several of them. A source
    /// whose span begins later is present from the start, and not scored before.
    fn in_one_engine(
        &self,
        (policy, knows_rate): (Policy, bool),
        knob: f64,
        budgets: &[Budget],
        bound: bool,
    ) -> Vec<Option<SourceRun>> {
        let test_spans: Vec<TestSpan> =
            self.traces.iter().map(|trace| self.rules.test_span(trace)).collect();
        let from = test_spans.iter().map(|test_span| test_span.begins).min().unwrap_or_default();
        let until = test_spans.iter().map(|test_span| test_span.to).max().unwrap_or_default();
        let each = budgets.iter().enumerate();
        let watched: Option<Vec<SimulatedFeed<'_>>> = each
            .map(|(source, &budget)| self.watched((policy, knows_rate), source, knob, budget, bound))
            .collect();
        let Some(watched) = watched else { return vec![None; self.traces.len()] };
        let sent =
            simulation::watch(&watched, &self.rules.tuned_setup(policy, knob), (from, until), |_, _| {});
        let scored = |(source, mut probed): (usize, SourceProbeTimes)| {
            let test_span = test_spans[source];
            probed.times.retain(|&at| at >= test_span.begins && at < test_span.to);
            let knob = self.shown_knob(knobs::of(policy), source, knob, bound);
            Some(self.scored(source, test_span, knob, probed))
        };
        sent.into_iter().enumerate().map(scored).collect()
    }

    /// A source with its settings for that knob; `None` if it needs the true rate and that is unknown.
    fn watched(
        &self,
        (policy, knows_rate): (Policy, bool),
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
        let free = self.unbound(budget);
        let budget = match knobs::of(policy) {
            KnobQuantity::Budget => self.capped(Budget { per: budget.per.scaled(1.0 / knob), ..budget }),
            KnobQuantity::Freshness | KnobQuantity::Ttl | KnobQuantity::Price if bound => budget,
            KnobQuantity::Freshness | KnobQuantity::Ttl => free,
            KnobQuantity::Price => {
                price = (self.price(source) / knob / knob) as f32;
                free
            }
        };
        let truth = match knows_rate {
            true => Some(trace.truth.as_ref()?),
            false => None,
        };
        let (group_rates, parts) = (&self.group_rates[source][..], rules.parts(trace));
        let (page, max_gap) = (trace.page, rules.max_gap(trace));
        Some(SimulatedFeed {
            events: &trace.events,
            budget,
            group_rates,
            truth,
            page,
            price,
            max_gap,
            parts,
        })
    }

    /// The limits of a source whose policy spends by a price or a threshold: the caps, or practically none.
    fn unbound(&self, budget: Budget) -> Budget {
        self.rules.caps.unwrap_or(Budget { probes: budget.probes.saturating_mul(UNBOUND), ..budget })
    }

    /// A share of the total within the caps.
    fn capped(&self, share: Budget) -> Budget {
        let Some(caps) = self.rules.caps else { return share };
        let min_spacing = share.min_spacing.max(caps.min_spacing);
        let share = Budget { min_spacing, ..share };
        if share.even_gap() < caps.even_gap() { caps } else { share }
    }

    /// The price of a probe before the knob is applied. With a shared total it is the same for all. Otherwise
    /// it is the value of a source's mean probe if the budget is spread evenly.
    fn price(&self, source: usize) -> f64 {
        let (trace, rules) = (&self.traces[source], self.rules);
        if rules.matching == Matching::Total {
            return 0.5;
        }
        let (test_span, gap) = (rules.test_span(trace), rules.budget(trace).even_gap());
        let hours = |span: Span| span.as_secs_f64() / 3600.0;
        let learned =
            trace.events.iter().filter(|&&at| at > test_span.begins && at <= test_span.from).count();
        let rate = (learned as f64 + 0.5) / hours(test_span.from - test_span.begins).max(1.0);
        rate * hours(gap).powi(2) / 2.0
    }

    /// All sources in one engine with few slots, which the allocator assigns. Sources are shifted by whole
    /// weeks, so that all are present at the same time and weekly rhythms stay intact.
    fn by_slots(&self, knob: f64, allocator: Allocator) -> Vec<SourceRun> {
        let test_spans: Vec<TestSpan> =
            self.traces.iter().map(|trace| self.rules.test_span(trace)).collect();
        let Some(base) = test_spans.iter().map(|test_span| test_span.begins).max() else {
            return Vec::new();
        };
        let week = Span::from_days(7).as_millis();
        let shift =
            |test_span: &TestSpan| Span::from_millis((base - test_span.begins).as_millis() / week * week);
        let moved: Vec<Vec<Timestamp>> = self
            .traces
            .iter()
            .zip(&test_spans)
            .map(|(trace, test_span)| trace.events.iter().map(|&at| at + shift(test_span)).collect())
            .collect();
        let Budget { probes, per, .. } = self.rules.budget;
        let free = self.unbound(self.rules.budget);
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
        let from =
            test_spans.iter().map(|test_span| test_span.begins + shift(test_span)).min().unwrap_or(base);
        let until =
            test_spans.iter().map(|test_span| test_span.to + shift(test_span)).max().unwrap_or(base);
        let sent = simulation::watch(&watched, &setup, (from, until), |_, _| {});
        let back = |(source, mut probed): (usize, SourceProbeTimes)| {
            let (test_span, by) = (test_spans[source], shift(&test_spans[source]));
            probed.times.iter_mut().for_each(|at| *at = *at - by);
            probed.times.retain(|&at| at < test_span.to);
            probed.for_rules.iter_mut().for_each(|(at, _)| *at = *at - by);
            self.scored(source, test_span, knob, probed)
        };
        sent.into_iter().enumerate().map(back).collect()
    }
}

impl ContestTerms {
    /// The setup of one of our policies.
    pub(super) fn setup(&self, policy: Policy) -> SimulationSetup<'_> {
        SimulationSetup {
            policy,
            burst: self.burst,
            freshness_threshold: self.freshness_threshold,
            importance: &self.importance,
            watching: Watching {
                kind: if self.pages { SourceKind::Page } else { SourceKind::Feed },
                holds: self.holds,
                borrow: policy.borrow(self.watching.borrow, self.individual_threshold),
                bursts: BurstParams { with_ratio: policy.goes_by_ratio(), ..self.watching.bursts },
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
    fn tuned_setup(&self, policy: Policy, knob: f64) -> SimulationSetup<'_> {
        let mut setup = self.setup(policy);
        match knobs::of(policy) {
            KnobQuantity::Freshness => setup.freshness_threshold = knob,
            KnobQuantity::Ttl => setup.burst.ttl_factor = knob,
            KnobQuantity::Budget | KnobQuantity::Price => {}
        }
        setup
    }
}

/// The half-life of an update, in days, when a budget is split.
const COUNTS_HALF_AFTER: f64 = 28.0;

/// The allocator of an entrant, if all sources share slots.
fn allocator(policy: EntrantPolicy) -> Option<Allocator> {
    match policy {
        EntrantPolicy::Index => Some(Allocator::Index),
        EntrantPolicy::Ours(Policy::Adaptive) => Some(Allocator::Adaptive),
        _ => None,
    }
}

/// The policy of an entrant that runs in an engine, and whether it gets the true rate.
fn engine_policy(policy: EntrantPolicy) -> Option<(Policy, bool)> {
    match policy {
        EntrantPolicy::Ours(policy) => Some((policy, false)),
        EntrantPolicy::Oracle => Some((Policy::Plan, true)),
        EntrantPolicy::Index => Some((Policy::Adaptive, false)),
        EntrantPolicy::Peer(_) | EntrantPolicy::Paper(_) | EntrantPolicy::Clairvoyant => None,
    }
}

fn knob_quantity(policy: EntrantPolicy) -> KnobQuantity {
    match policy {
        EntrantPolicy::Ours(policy) => knobs::of(policy),
        EntrantPolicy::Paper(_) => KnobQuantity::Price,
        _ => KnobQuantity::Budget,
    }
}

fn usual(policy: EntrantPolicy) -> f64 {
    match policy {
        EntrantPolicy::Peer(peer) => peer.usual(),
        _ => knob_quantity(policy).usual(),
    }
}

fn ends(policy: EntrantPolicy) -> (f64, f64) {
    match policy {
        EntrantPolicy::Peer(peer) => (peer.knob().fewest, peer.knob().most),
        _ => knob_quantity(policy).ends(),
    }
}
