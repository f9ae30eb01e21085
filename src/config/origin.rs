//! Origin of the sources of a configuration: the files, and the defaults at the time of reading.

use std::collections::HashMap;

use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;

use super::allowance::Allowance;
use super::source::{GroupDefaults, Surroundings};

/// Origin of the sources, for the next reload.
#[derive(Debug, Clone, Default)]
pub struct ConfigOrigin {
    pub(super) defaults: Defaults,
    pub(super) parts: Vec<ReadPart>,
}

/// Defaults that sources fall back on. While they are equal, equal text gives equal sources.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Defaults {
    pub spends: Spends,
    groups: HashMap<String, (Option<Policy>, Spends, bool)>,
}

/// Budget and own price, and whether the file sets a price or a total.
pub(super) type Spends = (Budget, Option<Span>, bool);

/// Budget and own price of an allowance, and whether the file sets a price or a total.
pub(super) fn spends(allowance: &Allowance) -> Spends {
    (allowance.budget(), allowance.own_price(), allowance.priced)
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

/// A part of a file that was read.
#[derive(Debug, Clone)]
pub(super) struct ReadPart {
    /// Digest of the text. `None` for the settings of the main file and for parts with groups; these are always
    /// parsed again.
    pub digest: Option<[u8; 32]>,
    pub sources: usize,
}
