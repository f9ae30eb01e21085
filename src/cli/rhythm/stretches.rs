//! The fitted segments as text. Similar neighbours and equal days are merged; all quiet hours are
//! summed in the last line.

use tidewatch_core::model::cyclic::{DAY_S, Rate};
use tidewatch_lab::words::{DAYS, count, number};

/// Largest number of lines.
const MOST: usize = 10;
/// Largest relative difference between neighbours that are merged.
const ALIKE: f64 = 0.1;
/// Hours below this share of the peak count as quiet, so that hours beside a busy one are not listed.
const QUIET: f64 = 0.15;

/// A period of the day, on consecutive days.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    first: usize,
    last: usize,
    from: u32,
    to: u32,
    /// Updates expected on each of the days.
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
    // Selects the busiest periods, then sorts them by day and time.
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

/// The periods of every day, with similar neighbours merged.
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

/// Merges the same period on consecutive days.
fn together(list: Vec<Stretch>) -> Vec<Stretch> {
    let mut merged: Vec<Stretch> = Vec::new();
    for stretch in list {
        let same = |other: &&mut Stretch| {
            (other.last + 1, other.from, other.to) == (stretch.first, stretch.from, stretch.to)
                && alike(other.updates, stretch.updates, ALIKE / 10.0)
        };
        match merged.iter_mut().find(same) {
            Some(other) => other.last = stretch.last,
            None => merged.push(stretch),
        }
    }
    merged
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
    fn different_days_have_different_lines() {
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
