//! What must survive a restart of one source.
//!
//! Plain values, stored with every probe and read back at a start. Knows no other source, nor what follows
//! from the values.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::model::estimate::ChangePointRate;
use crate::observe::FeedHints;
use crate::planning::policy::Policy;
use crate::time::{Span, Timestamp};

use super::reason::{Reason, SourceState};

/// Repeated proof that a source has moved for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveProof {
    /// Where to.
    pub target: String,
    /// How often in a row.
    pub times: u32,
    /// Since when.
    pub since: Timestamp,
}

/// When the next probe of a source is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Due {
    /// No time was set yet.
    #[default]
    Unscheduled,
    /// At this time.
    At(Timestamp),
    /// Not until someone requests a probe: it is gone.
    Stopped,
}

impl Due {
    /// The time, if there is one.
    pub fn at(self) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(at),
            Self::Unscheduled | Self::Stopped => None,
        }
    }
}

/// What must survive a restart.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SourceMemory {
    /// Its phase.
    pub state: SourceState,
    /// When its next probe is due.
    pub due: Due,
    /// Why then.
    pub reason: Reason,
    /// End of the last probe, good or bad.
    pub last_probe: Option<Timestamp>,
    /// End of the last probe that was answered.
    pub looked: Option<Timestamp>,
    /// What is believed of its rate by what its probes found.
    pub estimate: ChangePointRate,
    /// End of the last probe that found an update.
    pub last_update: Option<Timestamp>,
    /// Failures in a row.
    pub error_streak: u32,
    /// Updates known, those in its history at first contact included.
    pub known_updates: u64,
    /// `max-age` or `Expires`: not before.
    pub fresh_until: Option<Timestamp>,
    /// `Retry-After` and its kin: not before.
    pub retry_until: Option<Timestamp>,
    /// Our own backoff: not before.
    pub backoff_until: Option<Timestamp>,
    /// What its feed asks.
    pub hints: FeedHints,
    /// M: how many items its feed held when it was last read.
    pub holds: Option<u32>,
    /// Proof so far that it moved.
    pub moving: Option<Box<MoveProof>>,
    /// The address adopted after such proof.
    pub adopted_url: Option<Box<str>>,
    /// The rule behind the probe that is due, if one is.
    pub rule: Option<Arc<str>>,
    /// What its probes cost.
    pub toll: ProbeCost,
    /// The phases of its life.
    pub life: BurstState,
}

impl SourceMemory {
    /// Moves every instant when the clock was found to have been set.
    pub fn shift(&mut self, by: Span) {
        if let Due::At(at) = &mut self.due {
            *at += by;
        }
        for at in [
            &mut self.last_probe,
            &mut self.looked,
            &mut self.last_update,
            &mut self.fresh_until,
            &mut self.retry_until,
            &mut self.backoff_until,
        ]
        .into_iter()
        .flatten()
        {
            *at += by;
        }
        if let Some(moving) = &mut self.moving {
            moving.since += by;
        }
        self.life.shift(by);
    }
}

/// What of a source's life must survive a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstState {
    /// The policy that asked for the probe that is due.
    pub asked_by: Policy,
    /// The policy that `auto` follows: `adaptive` while nothing is known, `agg_hist` while its rhythm is
    /// its group's, `plan`, and `ttl` in a burst.
    pub follows: Policy,
    /// The latest update known: what an age is counted from.
    pub newest: Option<Timestamp>,
    /// A burst is on, since then.
    pub burst_since: Option<Timestamp>,
    /// Of its last updates, how many in a million came in bursts.
    pub in_bursts: u32,
    /// It should have updated and has not; noticed then.
    pub quiet_since: Option<Timestamp>,
    /// When the reserve will be whole again, if nothing more is taken from it.
    pub reserve_whole_at: Option<Timestamp>,
}

impl Default for BurstState {
    fn default() -> Self {
        Self {
            asked_by: Policy::Uniform,
            follows: Policy::Adaptive,
            newest: None,
            burst_since: None,
            in_bursts: 0,
            quiet_since: None,
            reserve_whole_at: None,
        }
    }
}

/// So many updates are its last ones.
const REMEMBERED: f64 = 300.0;

impl BurstState {
    /// Moves every instant when the clock was found to have been set.
    pub fn shift(&mut self, by: Span) {
        let instants =
            [&mut self.newest, &mut self.burst_since, &mut self.quiet_since, &mut self.reserve_whole_at];
        instants.into_iter().flatten().for_each(|at| *at += by);
    }

    /// Counts updates, in a burst or not.
    pub(super) fn count(&mut self, updates: u32, in_burst: bool) {
        let goal = if in_burst { 1e6 } else { 0.0 };
        let faded = (-f64::from(updates) / REMEMBERED).exp();
        self.in_bursts = (goal + (f64::from(self.in_bursts) - goal) * faded).round() as u32;
    }

    /// The share of its last updates that came in bursts.
    pub fn bursty(&self) -> f64 {
        f64::from(self.in_bursts) / 1e6
    }

    /// How much of a reserve of so many probes per T is used at `now`. It comes back evenly.
    pub(super) fn used(&self, reserve: u32, per: Span, now: Timestamp) -> f64 {
        let until_whole = self.reserve_whole_at.map_or(Span::ZERO, |whole| (whole - now).max(Span::ZERO));
        until_whole.as_secs_f64() / per.as_secs_f64().max(1e-3) * f64::from(reserve)
    }
}

/// What probes of a source cost lately: zero where nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ProbeCost {
    /// Bytes of a body in the mean.
    pub bytes: f32,
    /// How long one took in the mean.
    pub millis: f32,
}

/// Of what probes cost, the last ones count for so much.
const LATELY: f32 = 0.2;
/// A mean of nothing is unknown, so something is the least.
const LEAST: f32 = 1e-3;
impl ProbeCost {
    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        self.millis > 0.0
    }

    /// A probe cost so much.
    pub fn learn(&mut self, bytes: u64, took: Span) {
        let now = (bytes as f32, took.as_millis().max(0) as f32);
        let mix = |before: f32, now: f32| (before + (now - before) * LATELY).max(LEAST);
        *self = match self.is_known() {
            true => Self { bytes: mix(self.bytes, now.0), millis: mix(self.millis, now.1) },
            false => Self { bytes: now.0.max(LEAST), millis: now.1.max(LEAST) },
        };
    }
}
