//! The policies for watering a garden.

use tidewatch_core::engine::garden::medd::Medd;
use tidewatch_core::engine::garden::{Task, Work};

use super::Gardener;
use super::edd::Edd;
use super::power::PowerOfTwo;
use super::printed::Printed;

/// A policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GardenPolicy {
    /// Waters due plants, and ahead of time only as much as will exceed later capacity.
    Medd,
    /// By due day, due or not.
    Edd,
    /// MEDD as the paper prints it.
    MeddPrinted,
    /// A fixed schedule that is never late and ignores the capacity.
    PowerOfTwo,
}

impl GardenPolicy {
    /// All policies.
    pub const ALL: [Self; 4] = [Self::Medd, Self::Edd, Self::MeddPrinted, Self::PowerOfTwo];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Medd => "medd",
            Self::Edd => "edd",
            Self::MeddPrinted => "medd_printed",
            Self::PowerOfTwo => "power_of_two",
        }
    }

    /// The policy of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether it respects the capacity. A policy that does not is tried once.
    pub fn keeps_to_capacity(self) -> bool {
        self != Self::PowerOfTwo
    }

    /// A simulation of these plants by this policy.
    pub(super) fn gardener(self, plants: &[Task], capacity: Work) -> Box<dyn Gardener> {
        match self {
            Self::Medd => Box::new(Medd::of(plants, capacity)),
            Self::Edd => Box::new(Edd::new(plants, capacity)),
            Self::MeddPrinted => Box::new(Printed::new(plants, capacity)),
            Self::PowerOfTwo => Box::new(PowerOfTwo::new(plants)),
        }
    }
}
