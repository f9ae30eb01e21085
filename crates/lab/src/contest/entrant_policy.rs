//! The possible entrants of a contest.

use crate::paper_rules::paper_rule::PaperRule;
use crate::peers::peer::Peer;
use tidewatch_core::planning::policy::Policy;

/// An entrant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntrantPolicy {
    /// One of our policies.
    Ours(Policy),
    /// The `adaptive` policy with the `index` allocator.
    Index,
    /// Another poller's rule.
    Peer(Peer),
    /// A rule of a paper on crawling, at a price.
    Paper(PaperRule),
    /// The best plan for the true rate, if that is known.
    Oracle,
    /// The best times in hindsight: a bound.
    Clairvoyant,
}

impl EntrantPolicy {
    /// All entrants.
    pub fn all() -> Vec<Self> {
        // `profile` needs rules, so it is left out.
        let ours = Policy::ALL.into_iter().filter(|&policy| policy != Policy::Profile).map(Self::Ours);
        let peers = Peer::ALL.into_iter().map(Self::Peer);
        let papers = PaperRule::ALL.into_iter().map(Self::Paper);
        let bounds = [Self::Oracle, Self::Clairvoyant];
        ours.chain([Self::Index]).chain(peers).chain(papers).chain(bounds).collect()
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours(policy) => policy.name(),
            Self::Index => "index",
            Self::Peer(peer) => peer.name(),
            Self::Paper(rule) => rule.name(),
            Self::Oracle => "oracle",
            Self::Clairvoyant => "clairvoyant",
        }
    }

    /// Whether it is one of our policies that learn or plan, not the even schedule.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Ours(policy) if policy != Policy::Uniform) || self == Self::Index
    }

    /// The entrant of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|policy| policy.name() == name)
    }
}
