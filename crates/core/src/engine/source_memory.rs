//! The state of one source that survives a restart.
//!
//! Plain values, stored with every probe and loaded at a start. Must not know other sources, nor how the
//! values are used.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::model::change_point_rate::ChangePointRate;
use crate::model::source_model::published_after;
use crate::observe::FeedHints;
use crate::planning::policy::Policy;
use crate::time::{Span, Timestamp};

use super::constraint::Constraint;
use super::reason::{Reason, SourceState};

/// Repeated permanent redirects of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveProof {
    /// The target address.
    pub target: String,
    /// How many in a row.
    pub times: u32,
    /// The first of them.
    pub since: Timestamp,
}

/// When the next probe of a source is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Due {
    /// Not set yet.
    #[default]
    Unscheduled,
    /// At this time.
    At(Timestamp),
    /// Not until a probe is requested: the source is gone.
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

/// The state of a source that survives a restart.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SourceMemory {
    /// Its phase.
    pub state: SourceState,
    /// When its next probe is due.
    pub due: Due,
    /// The reason for the due time.
    pub reason: Reason,
    /// End of the last probe, answered or failed.
    pub last_probe: Option<Timestamp>,
    /// End of the last answered probe.
    pub last_success: Option<Timestamp>,
    /// The rate estimate from its probes.
    pub estimate: ChangePointRate,
    /// End of the last probe that found an update.
    pub last_update: Option<Timestamp>,
    /// Failures in a row.
    pub error_streak: u32,
    /// Known updates, including its history at first contact.
    pub known_updates: u64,
    /// `max-age` or `Expires`: not before.
    pub fresh_until: Option<Timestamp>,
    /// `Retry-After` and similar headers: not before.
    pub retry_until: Option<Timestamp>,
    /// Backoff after failures: not before.
    pub backoff_until: Option<Timestamp>,
    /// The feed's hints.
    pub hints: FeedHints,
    /// M: how many items the feed held when it was last read.
    pub holds: Option<u32>,
    /// Permanent redirects so far.
    pub moving: Option<Box<MoveProof>>,
    /// The address adopted after enough of them.
    pub adopted_url: Option<Box<str>>,
    /// The rule that needs the due probe, if any.
    pub rule: Option<Arc<str>>,
    /// The cost of its probes.
    pub cost: ProbeCost,
    /// Mean over the week of the root of its rate per hour, from the last fit; 0 if unknown.
    pub root_rate: f32,
    /// How many of the early probes of a new source were sent or skipped.
    pub early_probes: u8,
    /// Burst and policy state.
    pub burst: BurstState,
}

impl SourceMemory {
    /// The limits of the last answers: no probe before any of these times.
    pub fn not_before(&self) -> [(Constraint, Option<Timestamp>); 3] {
        [
            (Constraint::MaxAge, self.fresh_until),
            (Constraint::RetryAfter, self.retry_until),
            (Constraint::Backoff, self.backoff_until),
        ]
    }

    /// Whether it answered its last probe.
    pub fn answers(&self) -> bool {
        self.error_streak == 0 && self.last_success.is_some()
    }

    /// The latest of these times, of `now` and of another limit.
    pub fn allowed_from(&self, now: Timestamp, other: Option<Timestamp>) -> Timestamp {
        let limits = self.not_before().map(|(_, until)| until);
        limits.into_iter().chain([other]).flatten().fold(now, Timestamp::max)
    }

    /// Moves all times after the clock was set to `now`.
    pub fn shift(&mut self, by: Span, now: Timestamp) {
        if let Due::At(at) = &mut self.due {
            *at += by;
        }
        for at in [
            &mut self.last_probe,
            &mut self.last_success,
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
        self.burst.shift(by, now);
    }
}

/// Burst and policy state that survives a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstState {
    /// The policy that requested the due probe.
    pub asked_by: Policy,
    /// The policy that `auto` follows: `adaptive` at first, `agg_hist` while it uses its group's pattern,
    /// `plan`, and `ttl` in a burst. Of an adaptive policy the half that decides, `uniform` at first.
    pub follows: Policy,
    /// The latest known update; ages count from it.
    pub newest: Option<Timestamp>,
    /// The start of the current burst, if there is one.
    pub burst_since: Option<Timestamp>,
    /// The share of its last updates that came in bursts, in millionths.
    pub in_bursts: u32,
    /// Since when an expected update is missing.
    pub quiet_since: Option<Timestamp>,
    /// When the reserve will be full again if no more is used.
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

/// The horizon of `in_bursts`, in updates.
const DECAY_UPDATES: f64 = 300.0;

impl BurstState {
    /// Moves all times after the clock was set to `now`.
    fn shift(&mut self, by: Span, now: Timestamp) {
        let instants = [&mut self.burst_since, &mut self.quiet_since, &mut self.reserve_whole_at];
        instants.into_iter().flatten().for_each(|at| *at += by);
        self.newest = self.newest.map(|at| published_after(at, by, now));
    }

    /// Counts updates, in a burst or not.
    pub(super) fn count(&mut self, updates: u32, in_burst: bool) {
        let goal = if in_burst { 1e6 } else { 0.0 };
        let faded = (-f64::from(updates) / DECAY_UPDATES).exp();
        self.in_bursts = (goal + (f64::from(self.in_bursts) - goal) * faded).round() as u32;
    }

    /// The share of its last updates that came in bursts.
    pub fn bursty(&self) -> f64 {
        f64::from(self.in_bursts) / 1e6
    }

    /// How much of a reserve of `reserve` probes per T is used at `now`. It is refunded evenly.
    pub(super) fn used(&self, reserve: u32, per: Span, now: Timestamp) -> f64 {
        let until_whole = self.reserve_whole_at.map_or(Span::ZERO, |whole| (whole - now).max(Span::ZERO));
        until_whole.as_secs_f64() / per.as_secs_f64().max(1e-3) * f64::from(reserve)
    }
}

/// The mean cost of a source's last probes; zero if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ProbeCost {
    /// Mean size of a body in bytes.
    pub bytes: f32,
    /// Mean duration.
    pub millis: f32,
}

/// The weight of the newest probe in the mean.
const LATELY: f32 = 0.2;
/// The least mean, because zero stands for unknown.
const LEAST: f32 = 1e-3;
impl ProbeCost {
    /// Whether there is a mean.
    pub fn is_known(&self) -> bool {
        self.millis > 0.0
    }

    /// Adds the cost of a probe.
    pub fn learn(&mut self, bytes: u64, took: Span) {
        let now = (bytes as f32, took.as_millis().max(0) as f32);
        let mix = |before: f32, now: f32| (before + (now - before) * LATELY).max(LEAST);
        *self = match self.is_known() {
            true => Self { bytes: mix(self.bytes, now.0), millis: mix(self.millis, now.1) },
            false => Self { bytes: now.0.max(LEAST), millis: now.1.max(LEAST) },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_dates_stay_when_the_clock_is_set() {
        let now = Timestamp::from_secs(1_800_000_000);
        let (hour, years) = (Span::from_hours(1), Span::from_days(20_000));
        assert_eq!(published_after(now - hour, hour, now), now - hour);
        assert_eq!(published_after(now - hour, -hour, now), now - hour);
        // Found by a clock that was ahead, or in 1970.
        assert_eq!(published_after(now + hour, -hour, now), now);
        assert_eq!(published_after(now - hour + years, -years, now), now - hour);
        assert_eq!(published_after(now - hour - years, years, now), now - hour);
        assert_eq!(published_after(now - hour, years, now), now - hour);
    }
}
