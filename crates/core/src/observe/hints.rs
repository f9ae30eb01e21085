//! The polling hints of a feed.
//!
//! The feed library drops `skipHours`, `skipDays` and the syndication module, and is strict about `ttl`. This
//! module parses them as publishers write them and drops invalid values. Must not know where in a document
//! they are, nor how the scheduler uses them.

use super::FeedHints;
use crate::time::Span;

/// Upper limit of every interval in a hint. A longer one is a typing error.
const LONGEST: Span = Span::from_days(30);

const ALL_HOURS: u32 = (1 << 24) - 1;
const ALL_DAYS: u8 = (1 << 7) - 1;

/// Collects the hints of one feed.
#[derive(Debug, Default)]
pub(super) struct Hints {
    ttl: Option<Span>,
    hours: u32,
    days: u8,
    period: Option<Span>,
    frequency: Option<f64>,
}

impl Hints {
    /// RSS `ttl`, in minutes.
    pub(super) fn ttl(&mut self, text: &str) {
        if let Some(minutes) = positive(text) {
            self.ttl = self.ttl.or(Some(Span::from_mins(1).scaled(minutes).min(LONGEST)));
        }
    }

    /// One `hour` of `skipHours`. RSS 0.91 counted 1 to 24, later versions 0 to 23.
    pub(super) fn skip_hour(&mut self, text: &str) {
        match text.trim().parse::<u32>() {
            Ok(hour @ 0..=23) => self.hours |= 1 << hour,
            Ok(24) => self.hours |= 1,
            _ => {}
        }
    }

    /// One `day` of `skipDays`.
    pub(super) fn skip_day(&mut self, text: &str) {
        let day = match text.trim().to_ascii_lowercase().as_str() {
            "monday" => 0,
            "tuesday" => 1,
            "wednesday" => 2,
            "thursday" => 3,
            "friday" => 4,
            "saturday" => 5,
            "sunday" => 6,
            _ => return,
        };
        self.days |= 1 << day;
    }

    /// `sy:updatePeriod`.
    pub(super) fn update_period(&mut self, text: &str) {
        self.period = match text.trim().to_ascii_lowercase().as_str() {
            "hourly" => Some(Span::from_hours(1)),
            "daily" => Some(Span::from_days(1)),
            "weekly" => Some(Span::from_days(7)),
            "monthly" => Some(Span::from_days(30)),
            "yearly" => Some(Span::from_days(365)),
            _ => self.period,
        };
    }

    /// `sy:updateFrequency`: how many times in a period.
    pub(super) fn update_frequency(&mut self, text: &str) {
        self.frequency = positive(text).or(self.frequency);
    }

    /// The collected hints. A mask that excludes every hour or every day would mean "never". It is a mistake
    /// of the publisher and is ignored.
    pub(super) fn finish(self) -> FeedHints {
        let update_period = match (self.period, self.frequency) {
            (None, None) => None,
            // The module's defaults: daily, once.
            (period, times) => {
                let period = period.unwrap_or(Span::from_days(1));
                Some(period.scaled(1.0 / times.unwrap_or(1.0).max(1.0)).min(LONGEST))
            }
        };
        FeedHints {
            ttl: self.ttl,
            skip_hours: if self.hours == ALL_HOURS { 0 } else { self.hours },
            skip_days: if self.days == ALL_DAYS { 0 } else { self.days },
            update_period: update_period.filter(|period| *period > Span::ZERO),
        }
    }
}

/// A positive finite number, with or without fraction and surrounding space.
fn positive(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ttl(text: &str) -> Option<Span> {
        let mut hints = Hints::default();
        hints.ttl(text);
        hints.finish().ttl
    }

    #[test]
    fn ttl_is_parsed_and_bounded() {
        assert_eq!(ttl(" 60 "), Some(Span::from_hours(1)));
        assert_eq!(ttl("60.0"), Some(Span::from_hours(1)));
        assert_eq!(ttl("99999999999"), Some(LONGEST));
        for nonsense in ["", "0", "-5", "soon", "NaN", "inf", "1e400"] {
            assert_eq!(ttl(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn skips_are_masks_and_a_full_mask_is_ignored() {
        let mut hints = Hints::default();
        for hour in ["0", " 5", "24", "25", "-1", "noon"] {
            hints.skip_hour(hour);
        }
        for day in ["Monday", "SUNDAY ", "Caturday"] {
            hints.skip_day(day);
        }
        let read = hints.finish();
        assert_eq!((read.skip_hours, read.skip_days), (0b10_0001, 0b100_0001));

        let mut always = Hints::default();
        (0..24).for_each(|hour| always.skip_hour(&hour.to_string()));
        for day in ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] {
            always.skip_day(day);
        }
        assert_eq!(always.finish(), FeedHints::default());
    }

    #[test]
    fn update_period_is_divided_by_frequency() {
        let read = |period: &str, frequency: &str| {
            let mut hints = Hints::default();
            hints.update_period(period);
            hints.update_frequency(frequency);
            hints.finish().update_period
        };
        assert_eq!(read("hourly", "2"), Some(Span::from_mins(30)));
        assert_eq!(read("Daily", ""), Some(Span::from_days(1)));
        assert_eq!(read("", "4"), Some(Span::from_hours(6)));
        assert_eq!(read("weekly", "0"), Some(Span::from_days(7)));
        assert_eq!(read("yearly", "1"), Some(LONGEST));
        assert_eq!(read("whenever", "x"), None);
    }
}
