//! Policies tried on the same sources, with the same number of probes, and judged alike.
//!
//! Exists because a policy that probes more finds more: only at equal expense does it mean anything who
//! is sooner. So each has a knob of its own (a budget, a threshold, a factor) that is turned until it
//! spends what all spend. Knows who may take part and how they are matched. Must not know how traces are
//! read, nor how results are shown.

use crate::fleet::BurstTerms;
use crate::rate::steps::Steps;
use crate::schedule::budget::Budget;
use crate::schedule::policy::Policy;
use crate::time::{Span, Timestamp};

use super::peers::Peer;
use super::score::Score;
use super::trace::{Exam, Trace};

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
        let ours = Policy::ALL.into_iter().map(Self::Ours);
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
#[derive(Debug, Clone, PartialEq)]
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
    /// Whether updates are taken to bring others.
    pub echoes: bool,
    /// Equal seeds give equal runs.
    pub seed: u64,
}

/// One policy on one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Where its knob ended up; what that means is the policy's own.
    pub knob: f64,
    /// When it probed, training included.
    pub probes: Vec<Timestamp>,
    /// What that was worth.
    pub score: Score,
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

/// Tries everybody on every source. `done` hears of every run that is over, on any thread.
pub fn hold(traces: &[Trace], entrants: &[Who], rules: &Rules, done: &(dyn Fn() + Sync)) -> Contest {
    let _ = (entrants, rules, done);
    Contest {
        exams: traces.iter().filter_map(|trace| trace.exam(rules.train, rules.test)).collect(),
        entrants: Vec::new(),
    }
}
