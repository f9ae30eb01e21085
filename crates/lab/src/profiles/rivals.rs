//! Policies without prediction: even gaps, equal for all or by rate, and time to live.
//!
//! Each has one knob. It is set in hindsight to the fewest probes that reach the required share, which is
//! better than any real policy could do. Must not know more of a rate than its mean.

use tidewatch_core::planning::ttl::{Ttl, TtlForm};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::sources::ProfileSource;
use super::{ProfileScore, Setting, score};

/// A policy without prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// Even gaps, by the square root of the rate.
    Uniform,
    /// One gap for all sources.
    Fixed,
    /// α times the age, at least Y and at most a day.
    Ttl,
}

impl Rival {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Fixed, Self::Ttl];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Fixed => "fixed",
            Self::Ttl => "ttl",
        }
    }

    /// Its probes. A higher knob gives fewer.
    fn probes(self, setting: &Setting, source: &ProfileSource, knob: f64) -> Vec<Timestamp> {
        let phase = Stream::new(1, format!("{} {}", self.name(), source.number)).unit();
        match self {
            Self::Uniform => {
                even(source, setting.window.scaled(knob / (source.per_week / 70.0).sqrt()), phase)
            }
            Self::Fixed => even(source, setting.window.scaled(knob), phase),
            Self::Ttl => by_age(source, setting.window, knob),
        }
    }

    /// The score with the fewest probes that find this share, of profiles or of all; `None` if it is out of
    /// reach.
    pub fn seeing(
        self,
        share: f64,
        of: fn(&ProfileScore) -> f64,
        setting: &Setting,
        sources: &[ProfileSource],
    ) -> Option<ProfileScore> {
        let at = |knob: f64| score(setting, sources, |source| self.probes(setting, source, knob));
        // The lowest setting leaves no gap longer than Y, so every update is found.
        let (mut low, mut high) = match self {
            Self::Uniform => (0.4_f64, 200.0_f64),
            Self::Fixed => (0.999, 200.0),
            Self::Ttl => (0.001, 200.0),
        };
        let mut best = at(low);
        if of(&best) < share {
            return None;
        }
        for _ in 0..16 {
            let middle = (low * high).sqrt();
            let score = at(middle);
            match of(&score) >= share {
                true => (low, best) = (middle, score),
                false => high = middle,
            }
        }
        Some(best)
    }
}

fn even(source: &ProfileSource, gap: Span, phase: f64) -> Vec<Timestamp> {
    let gap = gap.max(Span::from_secs(30));
    let first = source.from + gap.scaled(phase);
    std::iter::successors(Some(first), |&at| Some(at + gap)).take_while(|&at| at <= source.until).collect()
}

fn by_age(source: &ProfileSource, window: Span, factor: f64) -> Vec<Timestamp> {
    let most = Span::from_days(1);
    let ttl = Ttl { form: TtlForm::Caches, factor, freshness_threshold: 1.0, least: window, most };
    let mut probes = Vec::new();
    let mut at = source.from + window;
    while at <= source.until {
        probes.push(at);
        let seen = source.updates.partition_point(|&update| update <= at);
        let modified = seen.checked_sub(1).map_or(source.from, |last| source.updates[last]);
        at = ttl.next(at, modified, at);
    }
    probes
}
