//! Profiles: requests for every X-th update within Y, and the probes that they need.
//!
//! This repeats the experiments of Venu Gopal et al. on sources with known rates. SUP and its variants with
//! feedback ([`policies`]) are compared with [`rivals`] that probe evenly or by a source's age, on simulated
//! [`sources`]. Every source has one profile, and all have equal weight, because the confidence applies
//! to each. Must not know how intervals are derived.

pub mod intervals;
pub mod policies;
pub mod rivals;
pub mod sources;

use tidewatch_core::time::{Span, Timestamp};

use sources::ProfileSource;

/// The parameters of every profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// X: every X-th update counts.
    pub every: u32,
    /// Y: the time within which it must be found.
    pub window: Span,
    /// The share to be found in time.
    pub confidence: f64,
}

impl Setting {
    /// The times of the X-th updates whose windows end before the source does.
    pub fn wanted(&self, source: &ProfileSource) -> Vec<Timestamp> {
        let every = self.every.max(1) as usize;
        let all = source.updates.iter().copied().skip(every - 1).step_by(every);
        all.take_while(|&at| at + self.window <= source.until).collect()
    }

    /// How many of them probes at these times, ascending, find in time, and how many there are.
    pub fn seen(&self, source: &ProfileSource, probes: &[Timestamp]) -> (usize, usize) {
        let wanted = self.wanted(source);
        let in_time = |&&at: &&Timestamp| {
            let next = probes.partition_point(|&probe| probe < at);
            probes.get(next).is_some_and(|&probe| probe <= at + self.window)
        };
        (wanted.iter().filter(in_time).count(), wanted.len())
    }
}

/// The result of probing all sources.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ProfileScore {
    /// The share found in time, as a mean over profiles.
    pub share: f64,
    /// The share found in time of all X-th updates together, regardless of profile.
    pub of_all: f64,
    /// Number of probes of all sources.
    pub probes: usize,
}

/// The score of probing each source at the times that `probes` returns, ascending.
pub fn score(
    setting: &Setting,
    sources: &[ProfileSource],
    mut probes: impl FnMut(&ProfileSource) -> Vec<Timestamp>,
) -> ProfileScore {
    let (mut shares, mut profiles, mut seen, mut all) = (0.0, 0.0, 0, 0);
    let mut count = 0;
    for source in sources {
        let times = probes(source);
        count += times.len();
        let (here, of) = setting.seen(source, &times);
        (seen, all) = (seen + here, all + of);
        if of > 0 {
            shares += here as f64 / of as f64;
            profiles += 1.0;
        }
    }
    let of_all = if all == 0 { 0.0 } else { seen as f64 / all as f64 };
    ProfileScore { share: shares / f64::max(profiles, 1.0), of_all, probes: count }
}
