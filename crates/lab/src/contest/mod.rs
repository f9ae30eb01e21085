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
pub mod entrant;
mod kin;
pub mod knobs;
pub mod lateness;
pub mod page;
pub mod question;
pub mod results;
pub mod rules;
mod stage;
pub mod tables;
pub mod who;

use crate::served_rules::{RuleService, SimulatedRules, SourceProbes};
use crate::trace::{Exam, Trace};

use entrant::Entrant;
use rules::Matching;
use stage::Stage;

pub use rules::Rules;
pub use who::Who;

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
/// # use tidewatch_lab::{contest::{Rules, Who, hold}, trace::Trace};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::peer::Peer;
    use tidewatch_core::planning::budget::Budget;
    use tidewatch_core::time::{Span, Timestamp};

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
