//! How the sources of a configuration came about: the files, and the defaults at that time.

use std::collections::HashMap;

use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;

use super::allowance::Allowance;
use super::source::{GroupDefaults, Surroundings};

/// How the sources of a configuration came about, for whoever reads it again.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    pub(super) defaults: Defaults,
    pub(super) files: Vec<File>,
}

/// What sources fall back on: as long as it is the same, equal text means equal sources.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Defaults {
    pub spends: Spends,
    groups: HashMap<String, (Option<Policy>, Spends, bool)>,
}

/// What may be spent, and for what.
pub(super) type Spends = (Budget, Span);

/// Of an allowance.
pub(super) fn spends(allowance: &Allowance) -> Spends {
    (allowance.budget(), allowance.price())
}

impl Defaults {
    pub fn new(around: &Surroundings) -> Self {
        let group = |(name, group): (&String, &GroupDefaults)| {
            let GroupDefaults { policy, allowance } = group;
            (name.clone(), (*policy, spends(allowance), allowance.own))
        };
        Self { spends: spends(&around.allowance), groups: around.groups.iter().map(group).collect() }
    }
}

/// A file that was read, in the order of the sources.
#[derive(Debug, Clone)]
pub(super) struct File {
    /// Of its text; `None` where it held more than sources, and must be read.
    pub digest: Option<[u8; 32]>,
    pub sources: usize,
}
