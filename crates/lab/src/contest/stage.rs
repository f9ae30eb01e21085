//! Who watches which source with what knob, one by one or all together.
//!
//! Knows how each kind of entrant is run and what it is wanted to spend. Must not know how a knob is
//! turned, nor what a score means.

use crate::clairvoyant;
use crate::feed::Watching;
use crate::ours::{self, Setup, Watched};
use crate::parallel::on_all_cores;
use crate::peers;
use crate::score::{Score, Trial};
use crate::trace::{Exam, Trace};
use tidewatch_core::engine::params::Allocator;
use tidewatch_core::model::aggregate::{Aggregate, Borrow};
use tidewatch_core::observe::Kind;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::entrant::{Entrant, Run};
use super::knobs::{self, Turned, turn};
use super::rules::{Matching, Rules};
use super::who::Who;

/// Traces, rules, and what each trace's kind has in common.
pub(super) struct Stage<'s> {
    pub traces: &'s [Trace],
    pub rules: &'s Rules,
    pub kin: Vec<Vec<(Timestamp, Aggregate)>>,
}

/// A budget of so many times as much binds nobody who goes by a threshold.
const UNBOUND: u32 = 50;

/// Who spends so much more than is wanted goes by no knob.
const OUT_OF_HAND: f64 = 1.2;

impl Stage<'_> {
    /// Each source by itself.
    pub fn one_by_one(&self, entrants: &[Who], done: &(dyn Fn() + Sync)) -> Vec<Entrant> {
        let sources = self.traces.len();
        let mut runs = on_all_cores(entrants.len() * sources, |job| {
            let run = self.matched(entrants[job / sources.max(1)], job % sources.max(1));
            done();
            run
        })
        .into_iter();
        entrants.iter().map(|&who| Entrant { who, runs: runs.by_ref().take(sources).collect() }).collect()
    }

    /// One source, with the knob where it usually stands or where as much is spent as is wanted.
    fn matched(&self, who: Who, source: usize) -> Option<Run> {
        let (usual, budget) = (usual(who), self.rules.budget(&self.traces[source]));
        if self.rules.matching == Matching::Nothing {
            return self.run(who, source, usual, budget, true);
        }
        let wanted = self.rules.wanted(&self.traces[source]);
        let (_, run) = turn(wanted, ends(who), usual, |knob| {
            let run = self.run(who, source, knob, budget, false);
            (run.as_ref().map_or(wanted as usize, |run| run.score.probes), run)
        });
        let lost =
            |run: &Run| matches!(who, Who::Ours(_)) && run.score.probes as f64 > OUT_OF_HAND * wanted + 1.0;
        match run.as_ref().is_some_and(lost) {
            // It goes by no threshold: it lacks what it would go by, and is spread evenly.
            true => self.run(who, source, usual, budget, true),
            false => run,
        }
    }

    /// All sources with one knob, which is where as much is spent in all as is wanted.
    pub fn together(&self, who: Who, done: &(dyn Fn() + Sync)) -> Entrant {
        let sources = self.traces.len();
        let wanted: f64 = self.traces.iter().map(|trace| self.rules.wanted(trace)).sum();
        let budgets = self.shares(who);
        let everybody = |knob: f64| -> Vec<Option<Run>> {
            match allocator(who) {
                Some(allocator) => self.by_slots(knob, allocator).into_iter().map(Some).collect(),
                None => on_all_cores(sources, |source| self.run(who, source, knob, budgets[source], false)),
            }
        };
        let (_, runs) = turn(wanted, ends(who), usual(who), |knob| {
            let runs = everybody(knob);
            let spent: usize = runs.iter().flatten().map(|run| run.score.probes).sum();
            (if runs.iter().any(Option::is_some) { spent } else { wanted as usize }, runs)
        });
        (0..sources).for_each(|_| done());
        Entrant { who, runs }
    }

    /// What each source may spend of what all may: a policy that plans a budget has it split by the roots of what
    /// the sources published while it learned, which is the best split of even spreads and within half a
    /// percent of it for plans; the others have no part in it.
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

    /// One source, one knob. `bound` if our policies are to keep the budget whatever their knob is.
    fn run(&self, who: Who, source: usize, knob: f64, budget: Budget, bound: bool) -> Option<Run> {
        let (trace, rules) = (&self.traces[source], self.rules);
        let exam = rules.exam(trace);
        let probes = match who {
            Who::Ours(policy) => self.ours(policy, source, knob, budget, bound, false),
            Who::Oracle => {
                trace.truth.as_ref()?;
                self.ours(Policy::Plan, source, knob, budget, bound, true)
            }
            Who::Index => self.ours(Policy::Adaptive, source, knob, budget, bound, false),
            Who::Peer(peer) => {
                let watched = peers::watch::Watched {
                    events: &trace.events,
                    holds: rules.holds,
                    from: exam.begins,
                    until: exam.to,
                    min_spacing: budget.min_spacing,
                    phase: Stream::new(rules.seed, format!("phase/{}", trace.name)).unit(),
                };
                peers::watch::watch(peer, (rules.matching != Matching::Nothing).then_some(knob), &watched)
            }
            Who::Clairvoyant => {
                let share = (exam.to - exam.from).as_secs_f64() / budget.per.as_secs_f64().max(1e-3);
                let most = (f64::from(budget.probes) * share * knob).round().max(1.0) as usize;
                clairvoyant::best(&trace.events, &rules.importance, exam.from, exam.to, most).times
            }
        };
        let knob = match turned(who) {
            Turned::Price if bound => f64::from(trace.price.unwrap_or(rules.price)),
            Turned::Price => self.price(source) / knob / knob,
            _ => knob,
        };
        Some(self.judged(source, exam, knob, probes))
    }

    fn judged(&self, source: usize, exam: Exam, knob: f64, probes: Vec<Timestamp>) -> Run {
        let Exam { from, to, .. } = exam;
        let (events, rules) = (&self.traces[source].events, self.rules);
        let (importance, holds) = (&rules.importance, rules.holds);
        let score = Score::of(&Trial { events, probes: &probes, from, to, importance, holds });
        Run { knob, probes, score }
    }

    fn ours(
        &self,
        policy: Policy,
        source: usize,
        knob: f64,
        budget: Budget,
        bound: bool,
        told: bool,
    ) -> Vec<Timestamp> {
        let (trace, rules) = (&self.traces[source], self.rules);
        let exam = rules.exam(trace);
        let mut setup = rules.setup(policy);
        if trace.page {
            setup.watching.kind = Kind::Page;
        }
        if rules.matching == Matching::Nothing {
            setup.price = trace.price.unwrap_or(rules.price);
        }
        let free = Budget { probes: budget.probes.saturating_mul(UNBOUND), ..budget };
        let budget = match knobs::of(policy) {
            Turned::Budget => Budget { per: budget.per.scaled(1.0 / knob), ..budget },
            Turned::Freshness => {
                setup.freshness_threshold = knob;
                if bound { budget } else { free }
            }
            Turned::Ttl => {
                setup.burst.ttl_factor = knob;
                if bound { budget } else { free }
            }
            Turned::Price if bound => budget,
            Turned::Price => {
                setup.price = (self.price(source) / knob / knob) as f32;
                free
            }
        };
        let truth = trace.truth.as_ref().filter(|_| told);
        let watched = Watched { events: &trace.events, budget, kin: &self.kin[source], truth };
        ours::watch(&[watched], &setup, (exam.begins, exam.to), |_, _| {}).pop().unwrap_or_default()
    }

    /// The price of a probe before a knob is turned: where all share, the same for all, else what the mean
    /// probe of a source is worth if the budget is spread evenly.
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

    /// All sources in one fleet, where slots are short and the allocator decides. Sources are moved by
    /// whole weeks, so that all are there at the same time and no rhythm is broken.
    fn by_slots(&self, knob: f64, allocator: Allocator) -> Vec<Run> {
        let exams: Vec<Exam> = self.traces.iter().map(|trace| self.rules.exam(trace)).collect();
        let Some(base) = exams.iter().map(|exam| exam.begins).max() else { return Vec::new() };
        let week = Span::from_days(7).as_millis();
        let shift = |exam: &Exam| Span::from_millis((base - exam.begins).as_millis() / week * week);
        let moved: Vec<Vec<Timestamp>> = self
            .traces
            .iter()
            .zip(&exams)
            .map(|(trace, exam)| trace.events.iter().map(|&at| at + shift(exam)).collect())
            .collect();
        let Budget { probes, per, min_spacing } = self.rules.budget;
        let free = Budget { probes: probes.saturating_mul(UNBOUND), per, min_spacing };
        let watched: Vec<Watched<'_>> =
            moved.iter().map(|events| Watched { events, budget: free, kin: &[], truth: None }).collect();
        let slots = (self.traces.len() as u32 / 8).max(1);
        let all = f64::from(probes) * self.traces.len() as f64 * knob;
        let step = per.scaled(f64::from(slots) / all).max(Span::from_millis(1));
        let setup = Setup { slots: Some((slots, step, allocator)), ..self.rules.setup(Policy::Adaptive) };
        let from = exams.iter().map(|exam| exam.begins + shift(exam)).min().unwrap_or(base);
        let until = exams.iter().map(|exam| exam.to + shift(exam)).max().unwrap_or(base);
        let sent = ours::watch(&watched, &setup, (from, until), |_, _| {});
        let back = |(source, probes): (usize, Vec<Timestamp>)| {
            let (exam, by) = (exams[source], shift(&exams[source]));
            let probes = probes.into_iter().map(|at| at - by).filter(|&at| at < exam.to).collect();
            self.judged(source, exam, knob, probes)
        };
        sent.into_iter().enumerate().map(back).collect()
    }
}

impl Rules {
    /// How one of our policies watches.
    pub(super) fn setup(&self, policy: Policy) -> Setup<'_> {
        let borrow = match policy {
            Policy::IndHist => Borrow::Never,
            Policy::AggHist => Borrow::Always,
            _ => self.watching.borrow,
        };
        Setup {
            policy,
            burst: self.burst,
            freshness_threshold: self.freshness_threshold,
            importance: &self.importance,
            watching: Watching {
                kind: if self.pages { Kind::Page } else { Kind::Feed },
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
            price: 0.0,
            seed: self.seed,
        }
    }
}

/// An update counts half as much after so many days when a budget is split.
const COUNTS_HALF_AFTER: f64 = 28.0;

/// Whose turns an allocator decides, where all share.
fn allocator(who: Who) -> Option<Allocator> {
    match who {
        Who::Index => Some(Allocator::Index),
        Who::Ours(Policy::Adaptive) => Some(Allocator::Adaptive),
        _ => None,
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
