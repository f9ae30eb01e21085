//! The policies that a garden can be watered by.

use tidewatch_core::engine::garden::medd::Medd;
use tidewatch_core::engine::garden::{Task, Work};

use super::Gardener;
use super::edd::Edd;
use super::power::PowerOfTwo;
use super::printed::Printed;

/// Who waters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// What is due, and ahead of time only what would be missing.
    Medd,
    /// By due day, due or not.
    Edd,
    /// MEDD as the paper prints it.
    MeddPrinted,
    /// A fixed schedule that is never late, whatever the capacity.
    PowerOfTwo,
}

impl Policy {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Medd, Self::Edd, Self::MeddPrinted, Self::PowerOfTwo];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Medd => "medd",
            Self::Edd => "edd",
            Self::MeddPrinted => "medd_printed",
            Self::PowerOfTwo => "power_of_two",
        }
    }

    /// The one that is called so.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether it keeps to a capacity. Who does not is tried once.
    pub fn keeps_to_capacity(self) -> bool {
        self != Self::PowerOfTwo
    }

    /// One who waters these plants by it.
    pub(super) fn gardener(self, plants: &[Task], capacity: Work) -> Box<dyn Gardener> {
        match self {
            Self::Medd => Box::new(Medd::of(plants, capacity)),
            Self::Edd => Box::new(Edd::new(plants, capacity)),
            Self::MeddPrinted => Box::new(Printed::new(plants, capacity)),
            Self::PowerOfTwo => Box::new(PowerOfTwo::new(plants)),
        }
    }
}
