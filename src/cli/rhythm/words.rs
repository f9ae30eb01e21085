//! The evidence as text, for the terminal and the picture.

use jiff::tz::TimeZone;

use tidewatch_core::model::habits::named::PredictorShare;
use tidewatch_core::time::Timestamp;
use tidewatch_lab::words::{count, local};

use super::grid::NextHours;
use super::known::StoredRhythm;

/// The text if there is no rhythm to draw.
pub fn nothing(rhythm: &StoredRhythm) -> String {
    let rate = rhythm.rate.per_week();
    match rhythm.updates {
        0 if rate > 0.0 => {
            format!(
                "no updates seen yet, so no rhythm to show; until then {} a week are assumed.",
                count(rate)
            )
        }
        0 => "no updates seen yet, so no rhythm to show.".to_owned(),
        _ => "its updates have faded from the evidence, so there is no rhythm to show.".to_owned(),
    }
}

/// Regularity of a source, from its dispersion.
pub fn regularity(dispersion: f64) -> &'static str {
    match dispersion {
        d if d < 0.7 => "runs by the clock",
        d if d < 1.5 => "keeps its rhythm",
        d if d < 4.0 => "comes in flurries",
        _ => "erratic",
    }
}

/// Number of updates, and the time they cover.
pub fn seen(rhythm: &StoredRhythm) -> String {
    let plural = if rhythm.updates == 1 { "" } else { "s" };
    let mut text = format!("{} update{plural}", rhythm.updates);
    if let Some(since) = rhythm.since {
        let days = (rhythm.fitted_at - since).as_secs_f64().max(0.0) / 86_400.0;
        text += &match days {
            d if d < 1.0 => " in less than a day".to_owned(),
            d if d < 14.0 => format!(" in {d:.0} day{}", if d < 1.5 { "" } else { "s" }),
            d => format!(" in {:.0} weeks", d / 7.0),
        };
        text += &format!(", since {}", local(since, rhythm.rate.zone(), "%Y-%m-%d"));
    }
    text
}

/// Origin of the rate.
pub fn origin(rhythm: &StoredRhythm) -> &str {
    match rhythm.origin.as_str() {
        "individual" => "its own history",
        "aggregate" => "its group's history",
        "blend" => "its own history and its group's",
        other => other,
    }
}

/// Repeating pattern.
pub fn cycle(rhythm: &StoredRhythm) -> &str {
    match rhythm.cycle.as_str() {
        "none" => "no cycle",
        "day" => "every day alike",
        "work week" => "working days alike, weekends alike",
        "week" => "each day of the week its own",
        other => other,
    }
}

/// The evidence, as labelled lines.
pub fn evidence(rhythm: &StoredRhythm, now: Timestamp) -> Vec<(&'static str, String)> {
    let ago = match now - rhythm.fitted_at {
        age if age.as_millis() < 1000 => "just now".to_owned(),
        age => format!("{age} ago"),
    };
    let mut lines = vec![
        ("evidence", seen(rhythm)),
        ("fitted", format!("{ago}, from {}: {}", origin(rhythm), cycle(rhythm))),
    ];
    if let Some(dispersion) = rhythm.dispersion.filter(|value| value.is_finite()) {
        lines.push(("temper", format!("{} (dispersion {dispersion:.1})", regularity(dispersion))));
    }
    if let Some(habits) = rhythm.habits.as_ref().filter(|habits| !habits.is_empty()) {
        lines.push(("habits", believed(habits)));
    }
    lines
}

/// The predictors and their weights.
fn believed(habits: &[PredictorShare]) -> String {
    let texts: Vec<String> =
        habits.iter().map(|one| format!("{} {:.0} %", one.name, one.share * 100.0)).collect();
    texts.join(", ")
}

/// The next 24 hours in one phrase.
pub fn ahead(ahead: &NextHours, zone: &TimeZone) -> String {
    let expected = count(ahead.expected);
    let hour = |hour: usize| ahead.from + tidewatch_core::time::Span::from_hours(hour as i64);
    match ahead.likeliest() {
        _ if ahead.peak() <= 0.0 => "no updates expected".to_owned(),
        None => format!("{expected} expected, no hour likelier than another"),
        Some((first, last)) => {
            let (from, to) = (local(hour(first), zone, "%a %H:%M"), local(hour(last + 1), zone, "%H:%M"));
            format!("{expected} expected, most likely {from}-{to}")
        }
    }
}
