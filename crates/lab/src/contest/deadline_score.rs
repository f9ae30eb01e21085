//! How late probes were for sources with a maximum interval.

use tidewatch_core::time::{Span, Timestamp};

use crate::trace::TestSpan;

/// How well deadlines were met, on one source or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeadlineScore {
    /// Number of probes with a deadline, including the one at the end of the test span.
    pub deadlines: usize,
    /// Number of late ones.
    pub missed: usize,
    /// Total lateness.
    pub late: Span,
    /// The longest lateness.
    pub worst: Span,
}

impl DeadlineScore {
    /// Lateness of probes at these times, ascending, with a maximum interval of `max_gap`.
    pub fn of(probes: &[Timestamp], test_span: &TestSpan, max_gap: Span) -> Self {
        let TestSpan { begins, from, to } = *test_span;
        let before = probes.partition_point(|&at| at <= from);
        let mut last = before.checked_sub(1).map_or(begins, |at| probes[at]);
        let mut lateness = Self::default();
        let within = probes[before..].iter().copied().take_while(|&at| at < to);
        for at in within.chain([to]) {
            // Lateness before the test span is not scored.
            let late = at - (last + max_gap).max(from);
            lateness.deadlines += 1;
            if late > Span::ZERO {
                lateness.missed += 1;
                lateness.late = lateness.late + late;
                lateness.worst = lateness.worst.max(late);
            }
            last = at;
        }
        lateness
    }

    /// Pooled over several sources.
    pub fn pooled<'l>(all: impl IntoIterator<Item = &'l Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, one| Self {
            deadlines: sum.deadlines + one.deadlines,
            missed: sum.missed + one.missed,
            late: sum.late + one.late,
            worst: sum.worst.max(one.worst),
        })
    }

    /// Mean lateness of the late ones.
    pub fn mean_late(&self) -> Option<Span> {
        (self.missed > 0).then(|| self.late.scaled(1.0 / self.missed as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_above_the_maximum_are_counted() {
        let at = |hours: i64| Timestamp::from_secs(0) + Span::from_hours(hours);
        let test_span = TestSpan { begins: at(0), from: at(10), to: at(20) };
        let scored = |hours: &[i64]| {
            let probes: Vec<Timestamp> = hours.iter().map(|&hour| at(hour)).collect();
            DeadlineScore::of(&probes, &test_span, Span::from_hours(3))
        };
        let kept = scored(&[1, 9, 12, 15, 18]);
        assert_eq!((kept.deadlines, kept.missed, kept.mean_late()), (4, 0, None));
        let late = scored(&[9, 13, 18]);
        assert_eq!((late.deadlines, late.missed), (3, 2));
        assert_eq!((late.worst, late.mean_late()), (Span::from_hours(2), Some(Span::from_mins(90))));
        // The last probe was long before: only the time in the test span counts.
        assert_eq!(scored(&[1, 11]).worst, Span::from_hours(6));
        let both = DeadlineScore::pooled([&kept, &late]);
        assert_eq!((both.deadlines, both.missed, both.worst), (7, 2, late.worst));
    }
}
