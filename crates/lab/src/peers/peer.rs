//! The peers and their knobs.

use tidewatch_core::time::Span;

use super::rule::{Every, PeerRule};
use super::{commafeed, miniflux, nutch};

/// The polling rule of another poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A fixed interval. The knob is the interval in seconds.
    Fixed,
    /// Miniflux with `POLLING_SCHEDULER=round_robin`, its default. The knob is the interval in
    /// seconds, `SCHEDULER_ROUND_ROBIN_MIN_INTERVAL`.
    MinifluxRoundRobin,
    /// Miniflux with `POLLING_SCHEDULER=entry_frequency`. The knob is
    /// `SCHEDULER_ENTRY_FREQUENCY_FACTOR`.
    Miniflux,
    /// CommaFeed with `interval-empirical`, its default. The knob multiplies its intervals.
    Commafeed,
    /// Nutch with `AdaptiveFetchSchedule`. The knob multiplies its shortest and longest interval.
    Nutch,
}

/// The range of a peer's knob.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knob {
    /// The setting with the fewest probes: about one a week, or less.
    pub fewest: f64,
    /// The setting with the most probes: thousands a week, where spacing allows them.
    pub most: f64,
}

impl Knob {
    /// A setting between the ends: 0 for the fewest probes, 1 for the most. The steps are equal ratios,
    /// because the ends are several powers of ten apart.
    ///
    /// ```
    /// # use tidewatch_lab::peers::peer::Knob;
    /// let knob = Knob { fewest: 10_000.0, most: 1.0 };
    /// assert_eq!(knob.at(0.0), 10_000.0);
    /// assert!((knob.at(0.5) - 100.0).abs() < 1e-9);
    /// ```
    pub fn at(self, share: f64) -> f64 {
        self.fewest * (self.most / self.fewest).powf(share.clamp(0.0, 1.0))
    }
}

impl Peer {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Fixed, Self::MinifluxRoundRobin, Self::Miniflux, Self::Commafeed, Self::Nutch];

    /// The name in tables and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::MinifluxRoundRobin => "miniflux_round_robin",
            Self::Miniflux => "miniflux",
            Self::Commafeed => "commafeed",
            Self::Nutch => "nutch",
        }
    }

    /// The peer of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.name() == name)
    }

    /// The knob's documented default.
    pub fn usual(self) -> f64 {
        match self {
            Self::Fixed | Self::MinifluxRoundRobin => 3600.0,
            Self::Miniflux | Self::Commafeed | Self::Nutch => 1.0,
        }
    }

    /// The range of its knob, wide enough for slow and for fast feeds.
    pub fn knob(self) -> Knob {
        match self {
            Self::Fixed | Self::MinifluxRoundRobin => Knob { fewest: 1_209_600.0, most: 60.0 },
            // From 5 minutes scaled to a week, to 24 hours scaled to 2.4 minutes.
            Self::Miniflux => Knob { fewest: 1.0 / 2016.0, most: 600.0 },
            // From 5 minutes scaled to a week, to 4 hours scaled to 2.4 minutes.
            Self::Commafeed => Knob { fewest: 2016.0, most: 0.01 },
            // From a minute scaled to a week, to 90 days scaled to 78 seconds.
            Self::Nutch => Knob { fewest: 10_080.0, most: 1e-5 },
        }
    }

    /// A rule before its first probe; the documented one without a knob.
    pub(super) fn rule(self, tuned: Option<f64>) -> Box<dyn PeerRule> {
        let tuned = tuned.filter(|knob| knob.is_finite() && *knob > 0.0);
        let knob = tuned.unwrap_or(self.usual());
        match self {
            Self::Fixed | Self::MinifluxRoundRobin => Box::new(Every(Span::from_secs(1).scaled(knob))),
            Self::Miniflux => Box::new(miniflux::EntryFrequency::new(knob)),
            Self::Commafeed => Box::new(commafeed::Empirical::new(knob)),
            Self::Nutch => Box::new(tuned.map_or_else(nutch::Adaptive::usual, nutch::Adaptive::tuned)),
        }
    }
}
