//! Rate and importance files: a weekly curve, row by row, for plans and simulations.
//!
//! A schedule can thus be computed for a given rhythm, without a configuration or a store. This module
//! knows the keys and limits of both files and reports the faults of all files together. It must not
//! read files, nor know the use of the curves.

use std::path::PathBuf;
use std::rc::Rc;

use jiff::tz::TimeZone;
use toml::de::DeTable;

use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;

use super::fault::{Faults, Spot};
use super::raw::syntax;
use super::reader::{At, TomlTable};
use super::{values, week};

/// The quantity that a file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// λ(t): written in updates per day, returned in updates per hour.
    Rate,
    /// a(t), the importance.
    Importance,
}

/// Keys and limits of one kind of file.
struct Words {
    row: &'static str,
    default: &'static str,
    otherwise: f64,
    most: f64,
    expected: &'static str,
    per: f64,
}

impl Curve {
    fn words(self) -> Words {
        match self {
            // The limit is one update per millisecond, the resolution of timestamps.
            Self::Rate => Words {
                row: "per_day",
                default: "default_per_day",
                otherwise: 0.0,
                most: 86_400_000.0,
                expected: "of updates a day, from 0 to 86400000",
                per: 24.0,
            },
            Self::Importance => Words {
                row: "weight",
                default: "default_weight",
                otherwise: 1.0,
                most: 1e9,
                expected: "from 0 to 1000000000",
                per: 1.0,
            },
        }
    }
}

/// Parses files, each with its kind of curve. The result has the same order.
///
/// ```
/// # use tidewatch::config::curves::{Curve, parse};
/// # use tidewatch_core::time::{Span, Timestamp};
/// let text = "segments = [ { hours = \"09:00-18:00\", per_day = 24 } ]\ndefault_per_day = 12\n";
/// let curves = parse(&[(Curve::Rate, "rate.toml".into(), text.into())]).expect("no faults");
/// let monday = Timestamp::parse_iso("2026-11-16T00:00:00Z").expect("a time");
/// let pieces = curves[0].over(monday, monday + Span::from_hours(10));
/// assert_eq!(pieces, [(9 * 3_600_000, 0.5), (10 * 3_600_000, 1.0)]);
/// ```
pub fn parse(files: &[(Curve, PathBuf, String)]) -> Result<Vec<Steps>, Faults> {
    let texts: Vec<_> = files.iter().map(|(_, path, text)| (path.clone(), text.clone())).collect();
    let mut faults = Faults::new(&texts);
    let read: Vec<Option<Steps>> = files
        .iter()
        .enumerate()
        .map(|(index, (curve, _, text))| one(index, curve.words(), text, &mut faults))
        .collect();
    match read.into_iter().collect() {
        Some(curves) if faults.is_empty() => Ok(curves),
        _ => {
            faults.sort();
            Err(faults)
        }
    }
}

fn one(file: usize, words: Words, text: &str, faults: &mut Faults) -> Option<Steps> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let gaps = Rc::new(syntax(file, text, &errors, faults));
    let (sound, before) = (gaps.is_empty(), faults.len());
    let mut table = TomlTable::new(file, 0..0, gaps, "this file", document.into_inner());
    let zone = match table.text("time_zone", faults) {
        Some(name) => values::time_zone(&name, faults),
        None => Some(TimeZone::UTC),
    };
    let is_set = table.has("segments") || table.has(words.default);
    let default = table.number(words.default, faults);
    let rows: Vec<Option<(WeekWindow, f64)>> = table
        .tables("segments", "this segment", faults)
        .into_iter()
        .map(|row| segment(row, &words, faults))
        .collect();
    table.finish(faults);
    let outside = match default {
        Some(number) => value(words.default, number, &words, faults),
        None => Some(words.otherwise / words.per),
    };
    if !is_set && sound && faults.len() == before {
        let nothing = Spot { file, start: 0, end: 0 };
        faults.add_with_hint(
            nothing,
            "this file holds no curve",
            format!("add `segments = [ … ]` or `{} = …`", words.default),
        );
    }
    let rows: Vec<(WeekWindow, f64)> = rows.into_iter().collect::<Option<_>>()?;
    Steps::windows(zone?, outside?, &rows).ok()
}

fn segment(mut row: TomlTable<'_>, words: &Words, faults: &mut Faults) -> Option<(WeekWindow, f64)> {
    let (days, hours) = (row.text("days", faults), row.text("hours", faults));
    let number = row.needed_number(words.row, faults);
    row.finish(faults);
    let days = values::week_part(days, week::days, week::ALL_DAYS, faults);
    let hours = values::week_part(hours, week::hours, (0, week::DAY_MINUTES), faults);
    let value = number.and_then(|number| value(words.row, number, words, faults));
    let (from_minute, until_minute) = hours?;
    Some((WeekWindow { days: days?, from_minute, until_minute }, value?))
}

fn value(key: &str, number: At<f64>, words: &Words, faults: &mut Faults) -> Option<f64> {
    let good = |value: f64| (0.0..=words.most).contains(&value);
    values::number(key, number, good, words.expected, faults).map(|value| value / words.per)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewatch_core::time::{Span, Timestamp};

    fn read(curve: Curve, text: &str) -> Result<Steps, Faults> {
        parse(&[(curve, "curve.toml".into(), text.to_owned())]).map(|mut curves| curves.remove(0))
    }

    /// The curve over one Monday, in hours.
    fn monday(steps: &Steps) -> Vec<(f64, f64)> {
        let from = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
        let pieces = steps.over(from, from + Span::from_days(1));
        pieces.into_iter().map(|(end, value)| (end as f64 / 3_600_000.0, value)).collect()
    }

    fn messages(curve: Curve, text: &str) -> Vec<String> {
        let faults = read(curve, text).expect_err("a fault");
        faults.list().iter().map(|fault| fault.message.clone()).collect()
    }

    #[test]
    fn later_rows_override_and_days_and_hours_may_be_left_out() {
        let text = "segments = [ { per_day = 24 }, { hours = \"06:00-12:00\", per_day = 48.0 },\n\
                    { days = \"mon\", hours = \"09:00-10:00\", per_day = 0 } ]\ndefault_per_day = 7\n";
        let rate = read(Curve::Rate, text).unwrap();
        assert_eq!(monday(&rate), [(6.0, 1.0), (9.0, 2.0), (10.0, 0.0), (12.0, 2.0), (24.0, 1.0)]);
    }

    #[test]
    fn rows_and_default_weights_fill_the_whole_day() {
        let rate = read(Curve::Rate, "segments = [ { hours = \"06:00-12:00\", per_day = 6 } ]").unwrap();
        assert_eq!(monday(&rate), [(6.0, 0.0), (12.0, 0.25), (24.0, 0.0)]);
        let weight =
            read(Curve::Importance, "[[segments]]\nhours = \"06:00-12:00\"\nweight = 3\n").unwrap();
        assert_eq!(monday(&weight), [(6.0, 1.0), (12.0, 3.0), (24.0, 1.0)]);
        let zoned = read(Curve::Importance, "time_zone = \"Asia/Tokyo\"\ndefault_weight = 0.5\n").unwrap();
        assert_eq!((monday(&zoned), zoned.zone().iana_name()), (vec![(24.0, 0.5)], Some("Asia/Tokyo")));
    }

    #[test]
    fn every_value_is_checked() {
        for (text, expected) in [
            ("default_per_day = nan", "`default_per_day` can't be NaN"),
            ("default_per_day = -inf", "`default_per_day` can't be -inf"),
            ("default_per_day = -0.5", "`default_per_day` can't be -0.5"),
            ("default_per_day = 1e300", "`default_per_day` can't be 1000"),
            ("default_per_day = \"2\"", "`default_per_day` can't be a text"),
            ("segments = [ { per_day = true } ]", "`per_day` can't be true or false"),
            ("segments = [ {} ]", "this segment has no `per_day`"),
            ("segments = [ { per_dya = 1 } ]", "unknown key `per_dya` in this segment"),
            ("segments = [ { weight = 1, per_day = 1 } ]", "unknown key `weight` in this segment"),
            ("segments = [ 3 ]", "`segments` can't be a whole number"),
            ("segments = [ { days = \"mo\", per_day = 1 } ]", "`mo` is not a day of the week"),
            ("segments = [ { hours = \"9-5\", per_day = 1 } ]", "`9` is not a time of day"),
            ("time_zone = \"Mars\"\ndefault_per_day = 1", "unknown time zone `Mars`"),
            ("", "this file holds no curve"),
            ("default_per_day = ", "a value is missing"),
        ] {
            let found = messages(Curve::Rate, text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with(expected), "{text}: {found:?}");
        }
    }

    #[test]
    fn faults_of_both_files_are_reported_together() {
        let files = [
            (Curve::Rate, "r.toml".into(), "default_per_day = -1\nsegments = [ { days = 1 } ]\n".into()),
            (Curve::Importance, "i.toml".into(), "segments = [ { weight = nan } ]\nper_day = 1\n".into()),
        ];
        let faults = parse(&files).unwrap_err();
        let places: Vec<String> = faults.list().iter().map(|fault| faults.place(fault.at)).collect();
        assert_eq!(places, ["r.toml:1:19", "r.toml:2:14", "r.toml:2:23", "i.toml:1:25", "i.toml:2:1"]);
    }
}
