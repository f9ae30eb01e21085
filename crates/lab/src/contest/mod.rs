//! Policies tried on the same sources, with the same number of probes, and judged alike.
//!
//! Exists because a policy that probes more finds more: only at equal expense does it mean anything who
//! is sooner. So each has a knob of its own (a budget, a threshold, a factor) that is turned until it
//! spends what all spend. Knows who may take part and how they are matched. Must not know how traces are
//! read.
//!
//! A [`question`] has [`results`]; [`tables`], [`document`], [`curve`] and [`page`] tell them, [`emit`] writes
//! the times of all probes.

pub mod curve;
pub mod document;
pub mod emit;
mod kin;
pub mod knobs;
pub mod lateness;
pub mod page;
pub mod question;
pub mod results;
mod stage;
pub mod tables;

use std::sync::Arc;

use tidewatch_core::engine::params::BurstTerms;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::rule::Part;
use tidewatch_core::time::{Span, Timestamp};

use super::feed::Watching;
use super::peers::Peer;
use super::rules::{RuleService, SimulatedRules, SourceProbes};
use super::score::Score;
use super::trace::{Exam, Trace};
use lateness::Lateness;
use stage::Stage;
pub use stage::on_all_cores;

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// One of our policies.
    Ours(Policy),
    /// Sampled, with the `index` allocator.
    Index,
    /// Another poller's rule.
    Peer(Peer),
    /// The best plan for the true rate, where that is known.
    Oracle,
    /// The best times, had one known the updates: a bound.
    Clairvoyant,
}

impl Who {
    /// Everybody.
    pub fn all() -> Vec<Self> {
        // Without rules nobody asks by `profile`.
        let ours = Policy::ALL.into_iter().filter(|&policy| policy != Policy::Profile).map(Self::Ours);
        let peers = Peer::ALL.into_iter().map(Self::Peer);
        ours.chain([Self::Index]).chain(peers).chain([Self::Oracle, Self::Clairvoyant]).collect()
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours(policy) => policy.name(),
            Self::Index => "index",
            Self::Peer(peer) => peer.name(),
            Self::Oracle => "oracle",
            Self::Clairvoyant => "clairvoyant",
        }
    }

    /// Who has that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|who| who.name() == name)
    }
}

/// What all are matched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matching {
    /// Nothing: each as it is by default, ours with the budget.
    #[default]
    Nothing,
    /// Each spends the budget's probes on each source.
    Probes,
    /// Each spends as many in all as the budgets of all sources amount to.
    Total,
}

/// How they are tried.
#[derive(Debug, Clone)]
pub struct Rules {
    /// What may be spent on a source.
    pub budget: Budget,
    /// How long it is learned.
    pub train: Span,
    /// How long it is judged, after that.
    pub test: Span,
    /// When it matters that news is fresh.
    pub importance: Steps,
    /// M: how many items a feed shows.
    pub holds: usize,
    /// Sources are pages: they show neither dates nor counts.
    pub pages: bool,
    /// How long an answer takes.
    pub latency: Span,
    /// The share of probes that fail.
    pub errors: f64,
    /// What all are matched by.
    pub matching: Matching,
    /// How often rates are fitted.
    pub refit_every: Span,
    /// What is done about bursts.
    pub burst: BurstTerms,
    /// z: what a probe must be worth, in hours that an update would wait, where no knob turns it.
    pub price: f32,
    /// θ of the policies that go by one, where no knob turns it.
    pub freshness_threshold: f64,
    /// How sources are watched, but for what the other rules say of it: kind, `holds`, `echoes`, and what
    /// a policy brings with it.
    pub watching: Watching,
    /// Whether updates are taken to bring others.
    pub echoes: bool,
    /// Our policies must probe each source at least this often, unless it has a deadline of its own.
    pub max_gap: Option<Span>,
    /// The rules that our policies serve beside; they watch all sources in one engine then.
    pub profiles: Option<Arc<SimulatedRules>>,
    /// Equal seeds give equal runs.
    pub seed: u64,
}

/// One policy on one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Where its knob ended up; what that means is the policy's own. For `auto` it is the price of a probe,
    /// in hours that an update would wait.
    pub knob: f64,
    /// When it probed, training included.
    pub probes: Vec<Timestamp>,
    /// What that was worth.
    pub score: Score,
    /// How well its deadlines were kept, if it has any.
    pub lateness: Option<Lateness>,
    /// Probes that were sent because of rules, with their names.
    pub for_rules: Vec<(Timestamp, Arc<str>)>,
}

/// One policy on all sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Entrant {
    /// Which.
    pub who: Who,
    /// In the order of the traces; `None` where it cannot take part, as the oracle without the truth.
    pub runs: Vec<Option<Run>>,
}

/// How it went.
#[derive(Debug, Clone, PartialEq)]
pub struct Contest {
    /// What each source was tried in, in the order of the traces.
    pub exams: Vec<Exam>,
    /// In the order that was asked for.
    pub entrants: Vec<Entrant>,
}

/// Tries everybody on every source, on all cores. `done` hears of every source that somebody is through
/// with, on any thread.
///
/// ```
/// # use tidewatch_core::planning::{budget::Budget, policy::Policy};
/// # use tidewatch_lab::{contest::{Matching, Rules, Who, hold}, trace::Trace};
/// # use tidewatch_core::time::{Span, Timestamp};
/// let daily = (0..30).map(|day| Timestamp::from_secs(86_400 * day + 40_000)).collect();
/// let traces = [Trace::new("a", "all", daily)];
/// let budget = Budget { probes: 4, per: Span::from_days(1), min_spacing: Span::ZERO };
/// let rules = Rules { train: Span::from_days(14), test: Span::from_days(7), ..Rules::new(budget) };
/// let contest = hold(&traces, &[Who::Ours(Policy::Auto), Who::Ours(Policy::Uniform)], &rules, &|| {});
/// let delay = |n: usize| contest.entrants[n].runs[0].as_ref().unwrap().score.mean_delay().unwrap();
/// assert!(delay(0) < delay(1));
/// ```
pub fn hold(traces: &[Trace], entrants: &[Who], rules: &Rules, done: &(dyn Fn() + Sync)) -> Contest {
    let kin = kin::gather(traces, rules);
    let stage = Stage { traces, rules, kin };
    let entrants = match rules.matching {
        Matching::Nothing | Matching::Probes => stage.one_by_one(entrants, done),
        Matching::Total => entrants.iter().map(|&who| stage.together(who, done)).collect(),
    };
    Contest { exams: traces.iter().map(|trace| rules.exam(trace)).collect(), entrants }
}

impl Contest {
    /// How well an entrant's probes served each rule; nothing where it could not take part.
    pub fn served(&self, entrant: &Entrant, traces: &[Trace], rules: &SimulatedRules) -> Vec<RuleService> {
        let knows_rules = !matches!(entrant.who, Who::Peer(_) | Who::Clairvoyant);
        let probes: Option<Vec<SourceProbes<'_>>> = entrant
            .runs
            .iter()
            .map(|run| {
                let run = run.as_ref()?;
                let for_rules = knows_rules.then_some(&run.for_rules[..]);
                Some(SourceProbes { times: &run.probes, for_rules })
            })
            .collect();
        probes.map(|probes| rules.served(traces, &self.exams, &probes)).unwrap_or_default()
    }
}

impl Rules {
    /// The usual rules with this budget.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            train: Span::from_days(56),
            test: Span::from_days(28),
            importance: Steps::from(&Rate::constant(1.0)),
            holds: 50,
            pages: false,
            latency: Span::ZERO,
            errors: 0.0,
            matching: Matching::default(),
            refit_every: Span::from_days(1),
            burst: BurstTerms::default(),
            price: 0.0,
            freshness_threshold: 1.0,
            watching: Watching::default(),
            echoes: true,
            max_gap: None,
            profiles: None,
            seed: 1,
        }
    }

    /// How often a source must be probed.
    fn max_gap(&self, trace: &Trace) -> Option<Span> {
        trace.max_gap.or(self.max_gap)
    }

    /// What a source is to rules.
    fn parts(&self, trace: &Trace) -> &[Part] {
        self.profiles.as_ref().map_or(&[], |rules| rules.parts(&trace.name))
    }

    /// When a source is judged; one that never published, at the beginning of time.
    fn exam(&self, trace: &Trace) -> Exam {
        let never = Timestamp::default();
        trace.exam(self.train, self.test).unwrap_or(Exam { begins: never, from: never, to: never })
    }

    /// What may be spent on a source.
    fn budget(&self, trace: &Trace) -> Budget {
        trace.budget.unwrap_or(self.budget)
    }

    /// Probes of a source in the time that is judged.
    fn wanted(&self, trace: &Trace) -> f64 {
        let (Budget { probes, per, .. }, Exam { from, to, .. }) = (self.budget(trace), self.exam(trace));
        f64::from(probes) * (to - from).as_secs_f64() / per.as_secs_f64().max(1e-3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Matched is only who is: also where the usual setting is far off, in either direction.
    #[test]
    fn every_peer_spends_what_is_wanted_on_fast_sources_and_slow_ones() {
        let every = |name: &str, mins: i64| {
            let last = Span::from_days(56).as_millis() / Span::from_mins(mins).as_millis();
            let at = |n: i64| Timestamp::from_secs(0) + Span::from_mins(n * mins + n * n % 17);
            Trace::new(name, "all", (0..last).map(at).collect())
        };
        let traces = [every("fast", 20), every("slow", 4000)];
        let entrants: Vec<Who> = Peer::ALL.into_iter().map(Who::Peer).collect();
        for probes in [14, 168] {
            let budget = Budget { probes, per: Span::from_days(7), min_spacing: Span::ZERO };
            let rules =
                Rules { train: Span::from_days(28), matching: Matching::Probes, ..Rules::new(budget) };
            for entrant in hold(&traces, &entrants, &rules, &|| {}).entrants {
                for run in entrant.runs.iter().flatten() {
                    let (spent, wanted) = (run.score.probes as f64, 4.0 * f64::from(probes));
                    let off = (spent / wanted - 1.0).abs();
                    assert!(off < 0.1, "{}: {spent} instead of {wanted}", entrant.who.name());
                }
            }
        }
    }
}
