//! The input of contests: the sources, the policies and the rules.

use tidewatch_core::planning::budget::Budget;

use crate::trace::Trace;

use super::contest_terms::ContestTerms;
use super::entrant_policy::EntrantPolicy;

/// The input of contests.
#[derive(Debug)]
pub struct ContestQuestion {
    /// The name of the folder or the simulated world.
    pub title: String,
    /// The sources; each has updates.
    pub traces: Vec<Trace>,
    /// The policies.
    pub policies: Vec<EntrantPolicy>,
    /// How they are tested, except for the budget.
    pub rules: ContestTerms,
    /// The budgets, one contest each.
    pub budgets: Vec<Budget>,
    /// Further budgets, only for pictures.
    pub around: Vec<Budget>,
    /// Notes on the reliability of the results.
    pub notes: Vec<String>,
}
