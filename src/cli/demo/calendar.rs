//! The publication calendar: the truth that findings are compared with.
//!
//! Every run has the same publications, from rhythms and a fixed seed. Must not know how posts are
//! served or requested.

use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

/// Fixed, so that runs are comparable.
const SEED: u64 = 20_261_102;

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoPost {
    /// Time, to the second.
    pub at: Timestamp,
    /// Number from 1; used for its identifier and as the revision of a page.
    pub number: u32,
}

/// Publication pattern of a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DemoRhythm {
    /// Eight posts each weekday from 09:00 to 17:00.
    Office,
    /// One post at 02:30 every night.
    Nightly,
    /// This many posts every day from 07:00 to 19:00.
    Daytime(u32),
    /// This many posts per day, at any hour.
    Steady(f64),
    /// Ten posts per day, and sixty more in one afternoon in the middle of the run.
    Newsroom,
    /// No posts.
    Silent,
}

/// Time span of the run.
#[derive(Debug, Clone, Copy)]
pub struct DemoCalendar {
    /// Start of the run: a Monday, midnight UTC.
    pub origin: Timestamp,
    /// Length in days.
    pub days: u32,
}

const DAY: Span = Span::from_days(1);

/// Days of publications before the run, so that no feed starts empty.
const HISTORY_DAYS: i64 = 7;

impl DemoCalendar {
    /// The end of the run.
    pub fn end(&self) -> Timestamp {
        self.origin + Span::from_days(i64::from(self.days))
    }

    /// The time after that many sevenths of the run.
    pub fn share(&self, sevenths: u32) -> Timestamp {
        self.origin + DAY.scaled(f64::from(self.days) * f64::from(sevenths) / 7.0)
    }

    /// Burst of the newsroom: an afternoon in the middle of the run.
    pub fn afternoon(&self) -> (Timestamp, Timestamp) {
        let midnight = self.origin + Span::from_days(i64::from(self.days / 2));
        (midnight + Span::from_hours(13), midnight + Span::from_hours(17))
    }

    /// All publications of `name`, in order.
    pub fn posts(&self, name: &str, rhythm: DemoRhythm) -> Vec<DemoPost> {
        let mut times = Vec::new();
        for day in -HISTORY_DAYS..i64::from(self.days) {
            let midnight = self.origin + Span::from_days(day);
            let mut chance = Stream::new(SEED, format!("{name}/{day}"));
            let mut within = |from_hour: f64, hours: f64| {
                let secs = ((from_hour + hours * chance.unit()) * 3600.0) as i64;
                times.push(midnight + Span::from_secs(secs));
            };
            match rhythm {
                DemoRhythm::Office if midnight.utc_weekday() < 5 => {
                    (9..17).for_each(|hour| within(f64::from(hour), 1.0));
                }
                DemoRhythm::Office | DemoRhythm::Silent => {}
                DemoRhythm::Nightly => within(2.5, 0.0),
                DemoRhythm::Daytime(per_day) => (0..per_day).for_each(|_| within(7.0, 12.0)),
                DemoRhythm::Steady(per_day) => {
                    // Equal intervals with one random time in each, so that no day is empty.
                    let cuts = per_day.max(1.0) as i64;
                    let length = 24.0 / cuts as f64;
                    (0..cuts).for_each(|cut| within(cut as f64 * length, length));
                }
                DemoRhythm::Newsroom => {
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
        // Two posts in one second would have the same `Last-Modified`, and the second would stay
        // hidden.
        times.dedup();
        times.into_iter().zip(1..).map(|(at, number)| DemoPost { at, number }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_the_same_publications() {
        let origin = Timestamp::parse_iso("2026-11-02T00:00:00Z").unwrap();
        let week = DemoCalendar { origin, days: 7 };
        let office = week.posts("a", DemoRhythm::Office);
        assert_eq!(office, week.posts("a", DemoRhythm::Office));
        assert_ne!(office, week.posts("b", DemoRhythm::Office));
        assert_eq!(office.len(), 2 * 5 * 8);
        assert!(office.iter().all(|post| (9..17).contains(&post.at.utc_hour())));
        let burst = week.posts("n", DemoRhythm::Newsroom);
        let on_the_day = |post: &&DemoPost| post.at >= week.origin + Span::from_days(3);
        assert!(burst.iter().filter(on_the_day).count() > 60);
        let (from, until) = week.afternoon();
        assert_eq!((from.iso().as_str(), until - from), ("2026-11-05T13:00:00.000Z", Span::from_hours(4)));
        assert!(burst.iter().filter(|post| (from..until).contains(&post.at)).count() >= 60);
        // A shorter run is a prefix of a longer one, except for parts placed by its length.
        let short = DemoCalendar { origin, days: 2 };
        let steady = short.posts("s", DemoRhythm::Steady(6.0));
        assert_eq!(steady[..], week.posts("s", DemoRhythm::Steady(6.0))[..steady.len()]);
    }
}
