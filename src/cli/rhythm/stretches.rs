//! The fitted segments as people would tell them: nearly equal neighbours told as one, equal days
//! told together, the quiet hours told last and all at once.

use tidewatch_core::model::cyclic::{DAY_S, Rate};
use tidewatch_lab::words::{DAYS, count, number};

/// More lines than this are not read.
const MOST: usize = 10;
/// Neighbours whose rates differ by less than this share are told as one.
const ALIKE: f64 = 0.1;
/// Hours below this share of the busiest are quiet: what leaks from a busy hour to those beside it is
/// not told apart.
const QUIET: f64 = 0.15;

/// A stretch of the day, on some days that follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    first: usize,
    last: usize,
    from: u32,
    to: u32,
    /// Expected on each of the days.
    updates: f64,
}

impl Stretch {
    fn hours(&self) -> f64 {
        f64::from(self.to - self.from) / 3600.0
    }

    fn per_hour(&self) -> f64 {
        self.updates / self.hours()
    }

    fn days(&self) -> usize {
        self.last - self.first + 1
    }

    fn total(&self) -> f64 {
        self.updates * self.days() as f64
    }

    fn line(&self) -> String {
        let days = match (self.first, self.last) {
            (0, 6) => "daily".to_owned(),
            (first, last) if first == last => DAYS[first].to_owned(),
            (first, last) => format!("{}-{}", DAYS[first], DAYS[last]),
        };
        let scope = if self.days() > 1 { "a day" } else { "in it" };
        let (rate, updates) = (number(self.per_hour()), count(self.updates));
        format!(
            "{days:<7}  {}-{}  {rate:>5} an hour  ({updates} {scope})",
            clock(self.from),
            clock(self.to)
        )
    }
}

fn clock(second: u32) -> String {
    format!("{:02}:{:02}", second / 3600, second / 60 % 60)
}

/// The rate in at most a dozen lines.
pub fn lines(rate: &Rate) -> Vec<String> {
    let top = rate.segments().iter().map(|segment| segment.2).fold(0.0, f64::max);
    let (quiet, busy): (Vec<_>, Vec<_>) =
        all(rate).into_iter().partition(|stretch| stretch.per_hour() < QUIET * top);
    let mut busy = together(busy);
    if let [one] = busy[..]
        && (one.days(), one.to - one.from) == (7, DAY_S)
    {
        return vec![format!(
            "always   {} an hour  ({} a day)",
            number(one.per_hour()),
            count(one.updates)
        )];
    }
    // The busiest are worth the lines; the week's order is how they are read.
    busy.sort_by(|a, b| b.total().total_cmp(&a.total()));
    let more = busy.len().saturating_sub(MOST);
    busy.truncate(MOST);
    busy.sort_by_key(|stretch| (stretch.first, stretch.from));
    let mut lines: Vec<String> = busy.iter().map(Stretch::line).collect();
    if more > 0 {
        lines.push(format!("… and {more} more"));
    }
    if !quiet.is_empty() {
        let updates: f64 = quiet.iter().map(Stretch::total).sum();
        let hours: f64 = quiet.iter().map(|stretch| stretch.hours() * stretch.days() as f64).sum();
        lines.push(match updates > 0.0 {
            true => {
                format!(
                    "otherwise             {:>5} an hour  ({} a week)",
                    number(updates / hours),
                    count(updates)
                )
            }
            false => "otherwise             nothing".to_owned(),
        });
    }
    lines
}

/// Every day's stretches, nearly equal neighbours as one.
fn all(rate: &Rate) -> Vec<Stretch> {
    let mut list: Vec<Stretch> = Vec::new();
    for (start, end, per_hour) in rate.segments() {
        let mut from = start;
        while from < end {
            let day = from / DAY_S;
            let to = end.min((day + 1) * DAY_S);
            let updates = per_hour * f64::from(to - from) / 3600.0;
            let piece = Stretch {
                first: day as usize,
                last: day as usize,
                from: from - day * DAY_S,
                to: to - day * DAY_S,
                updates,
            };
            match list.last_mut() {
                Some(last) if last.first == piece.first && alike(last.per_hour(), per_hour, ALIKE) => {
                    last.to = piece.to;
                    last.updates += updates;
                }
                _ => list.push(piece),
            }
            from = to;
        }
    }
    list
}

/// The same stretch on days that follow each other, told once.
fn together(list: Vec<Stretch>) -> Vec<Stretch> {
    let mut told: Vec<Stretch> = Vec::new();
    for stretch in list {
        let same = |other: &&mut Stretch| {
            (other.last + 1, other.from, other.to) == (stretch.first, stretch.from, stretch.to)
                && alike(other.updates, stretch.updates, ALIKE / 10.0)
        };
        match told.iter_mut().find(same) {
            Some(other) => other.last = stretch.last,
            None => told.push(stretch),
        }
    }
    told
}

fn alike(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * a.max(b)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn one_rate_is_one_line() {
        assert_eq!(lines(&Rate::constant(0.5)), ["always   0.50 an hour  (12.0 a day)"]);
    }

    #[test]
    fn days_that_are_not_alike_are_told_apart() {
        let nine = |day: u32, rate| [(day * DAY_S + 9 * 3600, 0.0), (day * DAY_S + 10 * 3600, rate)];
        let mut segments: Vec<(u32, f64)> =
            (0..7).flat_map(|day| nine(day, if day == 2 { 4.0 } else { 2.0 })).collect();
        segments.push((7 * DAY_S, 0.0));
        let rate = Rate::new(TimeZone::UTC, segments).unwrap();
        assert_eq!(
            lines(&rate),
            [
                "Mon-Tue  09:00-10:00   2.00 an hour  (2.0 a day)",
                "Wed      09:00-10:00   4.00 an hour  (4.0 in it)",
                "Thu-Sun  09:00-10:00   2.00 an hour  (2.0 a day)",
                "otherwise             nothing",
            ]
        );
    }

    #[test]
    fn many_stretches_are_cut_and_counted() {
        let segments = (1..=168).map(|hour| (hour * 3600, f64::from(2 + hour * 37 % 11)));
        let lines = lines(&Rate::new(TimeZone::UTC, segments).unwrap());
        assert_eq!(lines.len(), 11);
        assert!(lines[10].starts_with("… and 1"), "{}", lines[10]);
    }
}
