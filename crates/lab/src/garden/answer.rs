//! What is asked of a garden, and what came of it.
//!
//! Every policy is tried with many capacities (MMEDD). Of the alternatives only those count that no other beats in
//! both tardiness and work. Must not know where plants come from nor how an answer is shown.

use tidewatch_core::time::Span;

use super::cube::{BedRow, RunRow};
use super::instance::{Bed, Instance};
use super::outcome::Outcome;
use super::policy::Policy;
use super::walk::Trial;
use super::{front, sweep, walk};

/// Some steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// How many.
    pub steps: u32,
    /// How long each is.
    pub step: Span,
}

/// What is tried out.
#[derive(Debug)]
pub struct Question {
    /// The plants.
    pub instance: Instance,
    /// The largest capacity.
    pub capacity: f64,
    /// How long.
    pub days: u32,
    /// What a day is, of configured sources.
    pub day: Option<Day>,
    /// Every policy with every capacity.
    pub trials: Vec<Trial>,
}

/// Every policy with every capacity; who keeps to none once, with its busiest day.
pub fn trials(instance: &Instance, policies: &[Policy], most: u64, count: usize, days: u32) -> Vec<Trial> {
    let capacities = sweep::capacities(instance, most, count);
    let mut trials = Vec::new();
    for &policy in policies {
        if policy.keeps_to_capacity() {
            trials.extend(capacities.iter().map(|&capacity| Trial { policy, capacity, days }));
        } else {
            let trial = Trial { policy, capacity: most, days };
            let busiest =
                walk::walk(instance, trial, &mut |_| true).map_or(0.0, |outcome| outcome.capacity);
            trials.push(Trial { capacity: sweep::work(busiest), ..trial });
        }
    }
    trials
}

/// What came of a question.
#[derive(Debug)]
pub struct Answer {
    /// The question.
    pub question: Question,
    /// Every alternative.
    pub outcomes: Vec<Outcome>,
    /// The places of those that none dominates, by work.
    pub front: Vec<usize>,
    /// Of these the one at the knee, within the largest capacity.
    pub knee: usize,
    /// How much the front bends there.
    pub bend: f64,
}

impl Answer {
    /// What the outcomes say.
    pub fn new(question: Question, outcomes: Vec<Outcome>) -> Self {
        let front = front::front(&outcomes);
        // Whoever keeps to no capacity may need more than there is.
        let within = |&index: &usize| outcomes[index].capacity <= question.capacity;
        let allowed: Vec<usize> = front.iter().copied().filter(within).collect();
        let of = if allowed.is_empty() { &front } else { &allowed };
        let knee = front::knee(&outcomes, of).unwrap_or(0);
        let bend = front::bend(&outcomes, of, knee);
        Self { question, outcomes, front, knee, bend }
    }

    /// The alternative at the knee.
    pub fn knee(&self) -> &Outcome {
        &self.outcomes[self.knee]
    }

    /// The rows of the cube's `runs`.
    pub fn runs(&self) -> Vec<RunRow> {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let row = |(index, outcome): (usize, &Outcome)| RunRow {
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
