//! Profiles: who asks to be told of every X-th update within Y, and how many probes that takes.
//!
//! Exists to repeat the experiments of Venu Gopal et al. on sources whose rates are known: their SUP and its
//! variants with feedback ([`policies`]) against [`rivals`] that look evenly or by a source's age, on made-up
//! [`sources`]. Every source has one profile, and each counts alike, because the confidence is promised to each.
//! Must not know how intervals are derived.

pub mod intervals;
pub mod policies;
pub mod rivals;
pub mod sources;

use tidewatch_core::time::{Span, Timestamp};

use sources::Source;

/// What every profile wants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// X.
    pub every: u32,
    /// Y.
    pub window: Span,
    /// The share that is to be seen in time.
    pub confidence: f64,
}

impl Setting {
    /// When the X-th updates came, as far as their windows end before the source does.
    pub fn wanted(&self, source: &Source) -> Vec<Timestamp> {
        let every = self.every.max(1) as usize;
        let all = source.updates.iter().copied().skip(every - 1).step_by(every);
        all.take_while(|&at| at + self.window <= source.until).collect()
    }

    /// How many of them probes at these times, ascending, see in time; and how many there are.
    pub fn seen(&self, source: &Source, probes: &[Timestamp]) -> (usize, usize) {
        let wanted = self.wanted(source);
        let in_time = |&&at: &&Timestamp| {
            let next = probes.partition_point(|&probe| probe < at);
            probes.get(next).is_some_and(|&probe| probe <= at + self.window)
        };
        (wanted.iter().filter(in_time).count(), wanted.len())
    }
}

/// What came of probing all sources.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Score {
    /// The share that was seen in time, in the mean over profiles.
    pub share: f64,
    /// The same of all X-th updates together, whose profile they are of.
    pub of_all: f64,
    /// Probes of all sources.
    pub probes: usize,
}

/// What comes of probing each source at the times that this function says, ascending.
pub fn score(
    setting: &Setting,
    sources: &[Source],
    mut probes: impl FnMut(&Source) -> Vec<Timestamp>,
) -> Score {
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
    Score { share: shares / f64::max(profiles, 1.0), of_all, probes: count }
}
