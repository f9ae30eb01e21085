//! The rhythm as one JSON document.

use serde_json::{Value, json};

use tidewatch_core::time::Timestamp;
use tidewatch_lab::words::zone;

use super::grid::{NextHours, hours};
use super::known::StoredRhythm;

/// The rhythm as one JSON document. `hours` has expected updates by day (Monday first) and hour of the
/// local week. `by_hour` has whole clock hours, starting with the current one.
pub fn to_json(rhythm: &StoredRhythm, now: Timestamp) -> Value {
    let rate = &rhythm.rate;
    let segments: Vec<Value> = rate
        .segments()
        .into_iter()
        .map(|(starts, ends, per_hour)| json!({ "starts_s": starts, "ends_s": ends, "per_hour": per_hour }))
        .collect();
    let habits = rhythm.habits.as_ref().map(|habits| -> Vec<Value> {
        habits.iter().map(|one| json!({ "account": one.name, "share": one.share })).collect()
    });
    let ahead = NextHours::of(rate, now);
    json!({
        "source": rhythm.name, "time_zone": zone(rate.zone()), "origin": rhythm.origin,
        "cycle": rhythm.cycle, "updates": rhythm.updates, "since": rhythm.since.map(Timestamp::iso),
        "fitted_at": rhythm.fitted_at.iso(), "dispersion": rhythm.dispersion, "habits": habits,
        "per_week": rate.per_week(), "segments": segments, "hours": hours(rate),
        "next_24h": { "expected": ahead.expected, "by_hour": ahead.by_hour },
    })
}
