//! What is asked of contests: which sources, which policies, under which rules.

use tidewatch_core::planning::budget::Budget;

use crate::trace::Trace;

use super::rules::Rules;
use super::who::Who;

/// What is asked.
#[derive(Debug)]
pub struct Question {
    /// The folder or the world.
    pub title: String,
    /// The sources; each has published something.
    pub traces: Vec<Trace>,
    /// Who takes part.
    pub policies: Vec<Who>,
    /// How they are tried, but for the budget.
    pub rules: Rules,
    /// The budgets, one contest each.
    pub budgets: Vec<Budget>,
    /// Further budgets, for pictures alone.
    pub around: Vec<Budget>,
    /// What should be known before results are believed.
    pub notes: Vec<String>,
}
