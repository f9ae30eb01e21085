//! The history-based policies AggHist and IndHist: refresh when the expected updates since the last refresh
//! reach the freshness threshold θ (Bright, Gal, Raschid, §6.2 and §6.3).
//!
//! Expected updates are Λ(s, f) = ∫ λ (eq. 4), a sum over the pieces of constant rate. Its inverse is
//! computed the same way, to the millisecond. AggHist takes the rate of the group times the share f_o of the
//! group's updates that belong to this source. Takes a rate and one gap. May not know the origin of the rate
//! or the threshold.
//!
//! The paper states both that a refresh is due when Λ *exceeds* θ and as soon as Λ *is* θ. They differ if Λ
//! equals θ during hours without expected updates. A delay gains nothing then, so here a refresh is due when
//! θ is reached.

use crate::model::cyclic::Rate;
use crate::model::source_model::WELL_FOUNDED;
use crate::model::steps::Steps;
use crate::model::week::HOUR_MS;
use crate::time::{Span, Timestamp};

/// Range of forecasts.
const YEAR: Span = Span::from_days(366);

/// The expected updates of one source from a history.
#[derive(Debug, Clone, Copy)]
pub struct Forecast<'r> {
    /// Updates per hour.
    rate: &'r Steps,
    /// f_o; 1 for its own history.
    share: f64,
}

impl<'r> Forecast<'r> {
    /// IndHist: from the source's own rate.
    pub fn individual(rate: &'r Steps) -> Self {
        Self { rate, share: 1.0 }
    }

    /// AggHist: from the rate of the group and the share of the source.
    pub fn aggregate(group: &'r Steps, share: f64) -> Self {
        Self { rate: group, share }
    }

    /// Λ(from, until).
    pub fn expected(self, from: Timestamp, until: Timestamp) -> f64 {
        let mut begins = 0;
        let add = |(ends, per_hour)| {
            let updates = self.grown(per_hour, ends - begins);
            begins = ends;
            updates
        };
        self.rate.over(from, until).into_iter().map(add).sum()
    }

    /// Whether at least `threshold` updates are expected between the two.
    pub fn has_reached(self, threshold: f64, from: Timestamp, until: Timestamp) -> bool {
        until >= from && self.reached_within(threshold, from, until).is_some()
    }

    /// The time at which `threshold` updates are expected since `from`, rounded up to a millisecond; `None`
    /// if not within a year.
    ///
    /// ```
    /// # use tidewatch_core::{model::steps::Steps, planning::expected::Forecast};
    /// # use tidewatch_core::time::{Span, Timestamp};
    /// let two_an_hour = Steps::constant(2.0).unwrap();
    /// let from = Timestamp::from_secs(0);
    /// let next = Forecast::individual(&two_an_hour).reaches(0.5, from);
    /// assert_eq!(next, Some(from + Span::from_mins(15)));
    /// ```
    pub fn reaches(self, threshold: f64, from: Timestamp) -> Option<Timestamp> {
        // The pieces of a full year are rarely needed. Doubling the range evaluates each piece at most
        // twice.
        let mut ahead = Span::from_days(1);
        loop {
            if let Some(at) = self.reached_within(threshold, from, from + ahead.min(YEAR)) {
                return Some(at);
            }
            if ahead >= YEAR {
                return None;
            }
            ahead = ahead.scaled(2.0);
        }
    }

    /// The common computation of both functions, so that they agree to the last digit.
    fn reached_within(self, threshold: f64, from: Timestamp, until: Timestamp) -> Option<Timestamp> {
        if threshold <= 0.0 {
            return Some(from);
        }
        let (mut begins, mut missing) = (0, threshold);
        for (ends, per_hour) in self.rate.over(from, until) {
            let whole = self.grown(per_hour, ends - begins);
            if whole >= missing {
                // Rounding of the quotient may cause an error of a millisecond.
                let about = (missing / self.grown(per_hour, 1)).ceil() as i64;
                let into = (about - 1..=about)
                    .find(|&into| self.grown(per_hour, into) >= missing)
                    .unwrap_or(about + 1)
                    .min(ends - begins);
                return Some(from + Span::from_millis(begins + into));
            }
            missing -= whole;
            begins = ends;
        }
        None
    }

    fn grown(self, per_hour: f64, millis: i64) -> f64 {
        per_hour * self.share * (millis as f64 / HOUR_MS as f64)
    }
}

/// The expected updates since the last probe. `None` if there was none, or if the rate has too few updates.
pub fn since_last_probe(
    (rate, updates): (&Rate, u32),
    last: Option<Timestamp>,
    now: Timestamp,
) -> Option<f64> {
    let last = last.filter(|&last| updates >= WELL_FOUNDED && last < now)?;
    Some(Forecast::individual(&Steps::from(rate)).expected(last, now))
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::model::importance::WeekWindow;

    const DAILY: u8 = 0b111_1111;

    fn daily(rows: &[(u16, u16, f64)]) -> Steps {
        let rows: Vec<_> = rows
            .iter()
            .map(|&(from, until, per_hour)| {
                (WeekWindow { days: DAILY, from_minute: from * 60, until_minute: until * 60 }, per_hour)
            })
            .collect();
        Steps::windows(TimeZone::UTC, 0.0, &rows).unwrap()
    }

    /// A time on one day of the trace.
    fn at(hour: i64, minute: i64) -> Timestamp {
        let day = Timestamp::parse_iso("1998-06-18T00:00:00Z").unwrap();
        day + Span::from_hours(hour) + Span::from_mins(minute)
    }

    /// Table 2, all objects of the site.
    fn world_cup() -> Steps {
        daily(&[
            (0, 7, 23.81),
            (7, 10, 52.07),
            (10, 14, 83.40),
            (14, 15, 98.53),
            (15, 17, 65.23),
            (17, 19, 84.27),
            (19, 22, 35.40),
            (22, 23, 83.40),
            (23, 24, 35.40),
        ])
    }

    #[test]
    fn agg_hist_matches_the_example_of_the_paper() {
        let site = world_cup();
        let object = Forecast::aggregate(&site, 0.01);
        // 0.2381 · 6 + 0.5207 = 1.9493, in the paper 1.95.
        assert!((object.expected(at(1, 0), at(8, 0)) - 1.9493).abs() < 1e-12);
        // "if for example the threshold θ = 1, the object will be refreshed": it was due at 5:12.
        assert!(object.has_reached(1.0, at(1, 0), at(8, 0)));
        let due = object.reaches(1.0, at(1, 0)).unwrap();
        assert_eq!((due - at(1, 0)).as_millis(), (3_600_000.0_f64 / 0.2381).ceil() as i64);
        assert!(!object.has_reached(1.95, at(1, 0), at(8, 0)));
    }

    #[test]
    fn ind_hist_matches_the_example_of_the_paper() {
        let object = daily(&[(11, 13, 0.125), (13, 14, 0.375)]);
        let object = Forecast::individual(&object);
        assert_eq!(object.expected(at(11, 30), at(14, 0)), 0.5625);
        assert_eq!(object.reaches(0.5625, at(11, 30)), Some(at(14, 0)));
        // A little more is expected only after eleven on the next day.
        let next_day = at(24 + 11, 0);
        assert_eq!(object.reaches(0.5625 + 0.125, at(11, 30)), Some(next_day + Span::from_hours(1)));
    }

    #[test]
    fn forecasts_are_limited_to_a_year() {
        let (never, seldom) = (Steps::constant(0.0).unwrap(), Steps::constant(1.0 / 24.0).unwrap());
        assert_eq!(Forecast::individual(&never).reaches(0.5, at(0, 0)), None);
        assert_eq!(Forecast::individual(&never).reaches(0.0, at(0, 0)), Some(at(0, 0)));
        let seldom = Forecast::individual(&seldom);
        assert!(seldom.reaches(365.9, at(0, 0)).is_some());
        assert_eq!(seldom.reaches(366.1, at(0, 0)), None);
        assert_eq!(seldom.reaches(f64::NAN, at(0, 0)), None);
        assert_eq!(Forecast::aggregate(&world_cup(), 0.0).reaches(0.5, at(0, 0)), None);
    }
}
