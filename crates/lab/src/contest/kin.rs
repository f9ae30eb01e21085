//! What sources of one kind have in common, as somebody who watches them all would know it by and by.
//!
//! Each source is tried by itself, so what a group knows is gathered beforehand, week by week, by one
//! who looks at every source evenly: from what probes showed until then, and from nothing else.

use std::collections::HashMap;

use crate::ours::{self, Setup, Watched};
use crate::parallel::on_all_cores;
use crate::trace::Trace;
use tidewatch_core::model::aggregate::{Aggregate, Gathered};
use tidewatch_core::model::history::WeeklyEvidence;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::{Span, Timestamp};

use super::rules::Rules;

/// A group is gathered so often.
const EVERY: Span = Span::from_days(7);

/// For each trace what its kind has in common, from when on. Times are told by how many weeks are left
/// until a source's end: what others had shown a week before that is known for certain.
pub(super) fn gather(traces: &[Trace], rules: &Rules) -> Vec<Vec<(Timestamp, Aggregate)>> {
    let all: Vec<Vec<(Timestamp, WeeklyEvidence)>> = on_all_cores(traces.len(), |index| {
        let (trace, exam) = (&traces[index], rules.exam(&traces[index]));
        let source = Watched { page: trace.page, ..Watched::new(&trace.events, rules.budget(trace)) };
        let setup = Setup { refit_every: EVERY, rules: None, ..rules.setup(Policy::Uniform) };
        let mut evidence = Vec::new();
        ours::watch(&[source], &setup, (exam.begins, exam.to), |now, feeds| {
            evidence.extend(feeds.iter().map(|feed| (now, feed.evidence(now))));
        });
        evidence
    });
    let left = |trace: &Trace, at: Timestamp| (rules.exam(trace).to - at).as_millis() / EVERY.as_millis();
    let mut groups: HashMap<(&str, i64), Gathered> = HashMap::new();
    for (trace, evidence) in traces.iter().zip(&all) {
        for (at, evidence) in evidence {
            groups.entry((&trace.kind, left(trace, *at))).or_default().add(evidence);
        }
    }
    let groups: HashMap<(&str, i64), Aggregate> =
        groups.into_iter().map(|(when, gathered)| (when, gathered.aggregate())).collect();
    let of = |(trace, evidence): (&Trace, &Vec<(Timestamp, WeeklyEvidence)>)| {
        let known = |at: Timestamp| groups.get(&(trace.kind.as_str(), left(trace, at) + 1)).cloned();
        evidence.iter().filter_map(|&(at, _)| Some((at, known(at)?))).collect()
    };
    traces.iter().zip(&all).map(of).collect()
}
