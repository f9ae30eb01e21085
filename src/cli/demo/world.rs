//! What is published when: the truth that the daemon's findings are held against.
//!
//! Exists so that every run of the demo meets the same week. Knows rhythms and a fixed seed. Must
//! not know how posts are served, nor what was asked.

use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

/// Runs are comparable because this never changes.
const SEED: u64 = 20_261_102;

/// Something that was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// When, to the second.
    pub at: Timestamp,
    /// Its number, from 1: what its identity and a page's revision are made of.
    pub number: u32,
}

/// When a source publishes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rhythm {
    /// Eight posts each weekday between nine and five.
    Office,
    /// One post at 02:30 every night.
    Nightly,
    /// So many every day between seven and seven.
    Daytime(u32),
    /// So many a day at any hour.
    Steady(f64),
    /// A trickle of ten a day, and sixty more in one afternoon in the middle of the run.
    Newsroom,
    /// Nothing.
    Silent,
}

/// The run's span, and what came before it.
#[derive(Debug, Clone, Copy)]
pub struct Calendar {
    /// Where the run begins: a Monday, midnight UTC.
    pub origin: Timestamp,
    /// How many days it takes.
    pub days: u32,
}

const DAY: Span = Span::from_days(1);

/// Sources have published for a week when the run begins: nobody starts with an empty feed.
const HISTORY_DAYS: i64 = 7;

impl Calendar {
    /// The end of the run.
    pub fn end(&self) -> Timestamp {
        self.origin + Span::from_days(i64::from(self.days))
    }

    /// That share of the run: day three of seven is day three sevenths of any other.
    pub fn share(&self, sevenths: u32) -> Timestamp {
        self.origin + DAY.scaled(f64::from(self.days) * f64::from(sevenths) / 7.0)
    }

    /// When the newsroom publishes more than it does on other days: an afternoon in the middle.
    pub fn afternoon(&self) -> (Timestamp, Timestamp) {
        let midnight = self.origin + Span::from_days(i64::from(self.days / 2));
        (midnight + Span::from_hours(13), midnight + Span::from_hours(17))
    }

    /// Everything that `name` publishes, in order.
    pub fn posts(&self, name: &str, rhythm: Rhythm) -> Vec<Post> {
        let mut times = Vec::new();
        for day in -HISTORY_DAYS..i64::from(self.days) {
            let midnight = self.origin + Span::from_days(day);
            let mut chance = Stream::new(SEED, format!("{name}/{day}"));
            let mut within = |from_hour: f64, hours: f64| {
                let secs = ((from_hour + hours * chance.unit()) * 3600.0) as i64;
                times.push(midnight + Span::from_secs(secs));
            };
            match rhythm {
                Rhythm::Office if midnight.utc_weekday() < 5 => {
                    (9..17).for_each(|hour| within(f64::from(hour), 1.0));
                }
                Rhythm::Office | Rhythm::Silent => {}
                Rhythm::Nightly => within(2.5, 0.0),
                Rhythm::Daytime(per_day) => (0..per_day).for_each(|_| within(7.0, 12.0)),
                Rhythm::Steady(per_day) => {
                    // Evenly cut, randomly placed within each cut: no day is empty by chance.
                    let cuts = per_day.max(1.0) as i64;
                    let length = 24.0 / cuts as f64;
                    (0..cuts).for_each(|cut| within(cut as f64 * length, length));
                }
                Rhythm::Newsroom => {
                    (0..10).for_each(|_| within(0.0, 24.0));
                    let (from, until) = self.afternoon();
                    if (midnight..midnight + DAY).contains(&from) {
                        let hours = |span: Span| span.as_secs_f64() / 3600.0;
                        (0..60).for_each(|_| within(hours(from - midnight), hours(until - from)));
                    }
                }
            }
        }
        times.sort_unstable();
        // Two posts of one second would share a `Last-Modified`, and the second would never show.
        times.dedup();
        times.into_iter().zip(1..).map(|(at, number)| Post { at, number }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_meets_the_same_week() {
        let origin = Timestamp::parse_iso("2026-11-02T00:00:00Z").unwrap();
        let week = Calendar { origin, days: 7 };
        let office = week.posts("a", Rhythm::Office);
        assert_eq!(office, week.posts("a", Rhythm::Office));
        assert_ne!(office, week.posts("b", Rhythm::Office));
        assert_eq!(office.len(), 2 * 5 * 8);
        assert!(office.iter().all(|post| (9..17).contains(&post.at.utc_hour())));
        let burst = week.posts("n", Rhythm::Newsroom);
        let on_the_day = |post: &&Post| post.at >= week.origin + Span::from_days(3);
        assert!(burst.iter().filter(on_the_day).count() > 60);
        let (from, until) = week.afternoon();
        assert_eq!((from.iso().as_str(), until - from), ("2026-11-05T13:00:00.000Z", Span::from_hours(4)));
        assert!(burst.iter().filter(|post| (from..until).contains(&post.at)).count() >= 60);
        // A shorter run is the beginning of the longer one, but for what is placed by its length.
        let short = Calendar { origin, days: 2 };
        let steady = short.posts("s", Rhythm::Steady(6.0));
        assert_eq!(steady[..], week.posts("s", Rhythm::Steady(6.0))[..steady.len()]);
    }
}
