//! The problem of a garden, and its results.
//!
//! Every policy is tried with many capacities (MMEDD). The front has the alternatives that no other improves
//! on in both tardiness and work. Must not know the origin of plants, nor how an answer is shown.

use tidewatch_core::time::Span;

use super::cube::{BedRow, RunRow};
use super::instance::{Bed, Instance};
use super::outcome::GardenOutcome;
use super::policy::GardenPolicy;
use super::walk::GardenTrial;
use super::{front, sweep, walk};

/// The length of a day in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GardenDay {
    /// Number of steps.
    pub steps: u32,
    /// Length of each step.
    pub step: Span,
}

/// The trials to be run.
#[derive(Debug)]
pub struct GardenQuestion {
    /// The plants.
    pub instance: Instance,
    /// The largest capacity.
    pub capacity: f64,
    /// Number of days.
    pub days: u32,
    /// The length of a day, for configured sources.
    pub day: Option<GardenDay>,
    /// The trials: every policy with every capacity.
    pub trials: Vec<GardenTrial>,
}

/// Every policy with every capacity. A policy that ignores the capacity is tried once, with its busiest day.
pub fn trials(
    instance: &Instance,
    policies: &[GardenPolicy],
    most: u64,
    count: usize,
    days: u32,
) -> Vec<GardenTrial> {
    let capacities = sweep::capacities(instance, most, count);
    let mut trials = Vec::new();
    for &policy in policies {
        if policy.keeps_to_capacity() {
            trials.extend(capacities.iter().map(|&capacity| GardenTrial { policy, capacity, days }));
        } else {
            let trial = GardenTrial { policy, capacity: most, days };
            let busiest =
                walk::walk(instance, trial, &mut |_| true).map_or(0.0, |outcome| outcome.capacity);
            trials.push(GardenTrial { capacity: sweep::work(busiest), ..trial });
        }
    }
    trials
}

/// The results of a question.
#[derive(Debug)]
pub struct GardenAnswer {
    /// The question.
    pub question: GardenQuestion,
    /// Every alternative.
    pub outcomes: Vec<GardenOutcome>,
    /// Indices of the alternatives that no other dominates, by work.
    pub front: Vec<usize>,
    /// The one at the knee, within the largest capacity.
    pub knee: usize,
    /// The bend of the front there.
    pub bend: f64,
}

impl GardenAnswer {
    /// Computes the front and the knee from the outcomes.
    pub fn new(question: GardenQuestion, outcomes: Vec<GardenOutcome>) -> Self {
        let front = front::front(&outcomes);
        // A policy that ignores the capacity may need more than is available.
        let within = |&index: &usize| outcomes[index].capacity <= question.capacity;
        let allowed: Vec<usize> = front.iter().copied().filter(within).collect();
        let of = if allowed.is_empty() { &front } else { &allowed };
        let knee = front::knee(&outcomes, of).unwrap_or(0);
        let bend = front::bend(&outcomes, of, knee);
        Self { question, outcomes, front, knee, bend }
    }

    /// The alternative at the knee.
    pub fn knee(&self) -> &GardenOutcome {
        &self.outcomes[self.knee]
    }

    /// The rows of the cube's `runs`.
    pub fn runs(&self) -> Vec<RunRow> {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let row = |(index, outcome): (usize, &GardenOutcome)| RunRow {
            capacity: outcome.capacity,
            policy: outcome.policy.name().to_owned(),
            days: i64::from(self.question.days),
            mean_tardiness: outcome.mean_tardiness,
            mean_workload: outcome.mean_work,
            most_tardiness: signed(outcome.most_tardiness),
            most_workload: outcome.most_work,
            probes: signed(outcome.probes),
            missed: signed(outcome.missed),
            on_front: self.front.contains(&index),
        };
        self.outcomes.iter().enumerate().map(row).collect()
    }
}

/// The rows of the cube's `beds`.
pub fn beds(instance: &Instance) -> Vec<BedRow> {
    let row = |bed: &Bed| BedRow {
        group: bed.group.clone(),
        window_class: bed.window_class(),
        plants: i64::try_from(bed.plants).unwrap_or(i64::MAX),
        omega: bed.omega,
    };
    instance.beds().iter().map(row).collect()
}
