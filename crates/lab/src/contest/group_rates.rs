//! The aggregate rates of each kind of source, as they become known over time.
//!
//! Each source is tested separately, so the aggregates of its group are computed beforehand, week by week,
//! with evenly spaced probes. They use the results of probes up to that time only.

use std::collections::HashMap;

use crate::parallel::on_all_cores;
use crate::simulation::{self, SimulatedFeed, SimulationSetup};
use crate::trace::Trace;
use tidewatch_core::model::aggregate::{Aggregate, EvidenceSum};
use tidewatch_core::model::history::WeeklyEvidence;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::{Span, Timestamp};

use super::contest_terms::ContestTerms;

/// The interval between two aggregates of a group.
const EVERY: Span = Span::from_days(7);

/// For each trace the aggregates of its kind, each with the time from which it is valid. Times are compared
/// by the number of weeks left until a source's end. A source gets the aggregate of the week before, which is
/// certainly known by then.
pub(super) fn over_time(traces: &[Trace], rules: &ContestTerms) -> Vec<Vec<(Timestamp, Aggregate)>> {
    let all: Vec<Vec<(Timestamp, WeeklyEvidence)>> = on_all_cores(traces.len(), |index| {
        let (trace, test_span) = (&traces[index], rules.test_span(&traces[index]));
        let source =
            SimulatedFeed { page: trace.page, ..SimulatedFeed::new(&trace.events, rules.budget(trace)) };
        let setup = SimulationSetup { refit_every: EVERY, rules: None, ..rules.setup(Policy::Uniform) };
        let mut evidence = Vec::new();
        simulation::watch(&[source], &setup, (test_span.begins, test_span.to), |now, feeds| {
            evidence.extend(feeds.iter().map(|feed| (now, feed.evidence(now))));
        });
        evidence
    });
    let left =
        |trace: &Trace, at: Timestamp| (rules.test_span(trace).to - at).as_millis() / EVERY.as_millis();
    let mut groups: HashMap<(&str, i64), EvidenceSum> = HashMap::new();
    for (trace, evidence) in traces.iter().zip(&all) {
        for (at, evidence) in evidence {
            groups.entry((&trace.kind, left(trace, *at))).or_default().add(evidence);
        }
    }
    let groups: HashMap<(&str, i64), Aggregate> =
        groups.into_iter().map(|(when, sum)| (when, sum.aggregate())).collect();
    let of = |(trace, evidence): (&Trace, &Vec<(Timestamp, WeeklyEvidence)>)| {
        let known = |at: Timestamp| groups.get(&(trace.kind.as_str(), left(trace, at) + 1)).cloned();
        evidence.iter().filter_map(|&(at, _)| Some((at, known(at)?))).collect()
    };
    traces.iter().zip(&all).map(of).collect()
}
