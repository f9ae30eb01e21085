//! Those who can take part in a contest.

use crate::peers::peer::Peer;
use tidewatch_core::planning::policy::Policy;

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// One of our policies.
    Ours(Policy),
    /// Sampled, with the `index` allocator.
    Index,
    /// Another poller's rule.
    Peer(Peer),
    /// The best plan for the true rate, where that is known.
    Oracle,
    /// The best times, had one known the updates: a bound.
    Clairvoyant,
}

impl Who {
    /// Everybody.
    pub fn all() -> Vec<Self> {
        // Without rules nobody asks by `profile`.
        let ours = Policy::ALL.into_iter().filter(|&policy| policy != Policy::Profile).map(Self::Ours);
        let peers = Peer::ALL.into_iter().map(Self::Peer);
        ours.chain([Self::Index]).chain(peers).chain([Self::Oracle, Self::Clairvoyant]).collect()
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours(policy) => policy.name(),
            Self::Index => "index",
            Self::Peer(peer) => peer.name(),
            Self::Oracle => "oracle",
            Self::Clairvoyant => "clairvoyant",
        }
    }

    /// Who has that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|who| who.name() == name)
    }
}
