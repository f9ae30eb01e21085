//! What sources of one kind have in common, as somebody who watches them all would know it by and by.
//!
//! Each source is tried by itself, so what a group knows is gathered beforehand, week by week, by one
//! who looks at every source evenly: from what probes showed until then, and from nothing else.

use std::collections::HashMap;

use crate::rate::aggregate::{Aggregate, Gathered};
use crate::rate::history::Evidence;
use crate::schedule::policy::Policy;
use crate::sim::ours::{self, Setup, Watched};
use crate::sim::trace::Trace;
use crate::time::{Span, Timestamp};

use super::Rules;
use super::stage::on_all_cores;

/// A group is gathered so often.
const EVERY: Span = Span::from_days(7);

/// For each trace what its kind has in common, from when on.
pub(super) fn gather(traces: &[Trace], rules: &Rules) -> Vec<Vec<(Timestamp, Aggregate)>> {
    let all: Vec<Vec<(Timestamp, Evidence)>> = on_all_cores(traces.len(), |index| {
        let (trace, exam) = (&traces[index], rules.exam(&traces[index]));
        let source = Watched { events: &trace.events, budget: rules.budget(trace), kin: &[], truth: None };
        let setup = Setup { refit_every: EVERY, ..rules.setup(Policy::Uniform) };
        let mut evidence = Vec::new();
        ours::watch(&[source], &setup, (exam.begins, exam.to), |now, feeds| {
            evidence.extend(feeds.iter().map(|feed| (now, feed.evidence(now))));
        });
        evidence
    });
    let mut groups: HashMap<&str, Vec<Gathered>> = HashMap::new();
    for (trace, evidence) in traces.iter().zip(&all) {
        let group = groups.entry(&trace.kind).or_default();
        group.resize_with(group.len().max(evidence.len()), Gathered::default);
        group.iter_mut().zip(evidence).for_each(|(gathered, (_, evidence))| gathered.add(evidence));
    }
    let groups: HashMap<&str, Vec<Aggregate>> = groups
        .into_iter()
        .map(|(kind, weeks)| (kind, weeks.iter().map(Gathered::aggregate).collect()))
        .collect();
    let of = |(trace, evidence): (&Trace, &Vec<(Timestamp, Evidence)>)| {
        let weeks = groups.get(trace.kind.as_str()).into_iter().flatten().cloned();
        evidence.iter().map(|(at, _)| *at).zip(weeks).collect()
    };
    traces.iter().zip(&all).map(of).collect()
}
