//! The evidence on one source: updates and exposure for each hour of the local week, with old
//! evidence fading.
//!
//! Everything is kept in about 700 bytes and updated in O(1) per event: an event at time t weighs
//! 2^((t − reference)/half-life), so fading costs nothing until the numbers grow too large. Knows
//! nothing of how evidence becomes a rate.

use jiff::tz::TimeZone;

use crate::time::{Span, Timestamp};

use super::week::{WEEK_MS, local_millis, stretches};

/// Hours in a week.
pub const CELLS: usize = 168;
const HOUR_MS: i64 = 3_600_000;

/// Small numbers with a common unit: 16 bits each, relative error below a hundredth of a percent
/// of the largest.
#[derive(Debug, Clone, PartialEq)]
struct Tally {
    units: Box<[u16; CELLS]>,
    unit: f32,
}

impl Tally {
    fn new(unit: f32) -> Self {
        Self { units: Box::new([0; CELLS]), unit }
    }

    fn add(&mut self, cell: usize, amount: f64) {
        loop {
            let units = f64::from(self.units[cell]) + amount / f64::from(self.unit);
            if units < f64::from(u16::MAX) {
                self.units[cell] = units.round() as u16;
                return;
            }
            self.unit *= 2.0;
            self.units.iter_mut().for_each(|units| *units = (*units).div_ceil(2));
        }
    }

    fn get(&self, cell: usize) -> f64 {
        f64::from(self.units[cell]) * f64::from(self.unit)
    }
}

/// Updates and exposure by hour of the local week.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    zone: TimeZone,
    half_life: Span,
    /// Where the weight of an event is 1.
    reference: Timestamp,
    updates: Tally,
    exposure_hours: Tally,
    /// The day that is being counted, its number of updates, and the faded sums over days of the
    /// count and its square: they tell flurries from a steady flow.
    day: (i64, f32),
    days: [f32; 3],
    /// Updates seen in all, and since when.
    seen: u32,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

/// Evidence as of one instant: faded updates and exposure in hours, by hour of the week.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Faded number of updates.
    pub updates: Vec<f64>,
    /// Faded hours of exposure.
    pub hours: Vec<f64>,
    /// Variance over mean of the daily counts, at least 1: so many updates count as one.
    pub clumping: f64,
}

impl Evidence {
    /// No evidence at all.
    pub fn none() -> Self {
        Self { updates: vec![0.0; CELLS], hours: vec![0.0; CELLS], clumping: 1.0 }
    }

    /// Faded updates in all.
    pub fn total_updates(&self) -> f64 {
        self.updates.iter().sum()
    }

    /// Faded hours in all.
    pub fn total_hours(&self) -> f64 {
        self.hours.iter().sum()
    }
}

impl History {
    /// No evidence yet. Weights are 1 at `now` and fade with the half-life.
    pub fn new(zone: TimeZone, half_life: Span, now: Timestamp) -> Self {
        Self {
            zone,
            half_life,
            reference: now,
            updates: Tally::new(1.0 / 512.0),
            exposure_hours: Tally::new(1.0 / 4096.0),
            day: (i64::MIN, 0.0),
            days: [0.0; 3],
            seen: 0,
            since: None,
            until: None,
        }
    }

    fn weight(&self, at: Timestamp) -> f64 {
        ((at - self.reference).as_secs_f64() / self.half_life.as_secs_f64().max(1.0)).exp2()
    }

    /// An update at a known time, or a share of one.
    pub fn update(&mut self, at: Timestamp, share: f64) {
        let local = local_millis(&self.zone, at);
        let cell = (local.rem_euclid(WEEK_MS) / HOUR_MS) as usize;
        let weight = self.weight(at);
        self.updates.add(cell, weight * share);
        let day = local.div_euclid(86_400_000);
        if day != self.day.0 {
            self.close_day(weight);
            self.day = (day, 0.0);
        }
        self.day.1 += share as f32;
        if share >= 1.0 {
            self.seen = self.seen.saturating_add(1);
        }
    }

    fn close_day(&mut self, weight: f64) {
        let count = f64::from(self.day.1);
        self.days[1] += (weight * count) as f32;
        self.days[2] += (weight * count * count) as f32;
    }

    /// The source was watched from `from` until `until`: whatever happened there is known.
    pub fn exposed(&mut self, from: Timestamp, until: Timestamp) {
        if until <= from {
            return;
        }
        // Beyond this, evidence has faded to a thousandth.
        let from = from.max(until - self.half_life.scaled(10.0));
        let mut at = from;
        for (start, end) in stretches(&self.zone.clone(), from, until) {
            let mut local = start;
            while local < end {
                let next = ((local.div_euclid(HOUR_MS) + 1) * HOUR_MS).min(end);
                let cell = (local.rem_euclid(WEEK_MS) / HOUR_MS) as usize;
                let length = Span::from_millis(next - local);
                let weight = self.weight(at + Span::from_millis(length.as_millis() / 2));
                self.exposure_hours.add(cell, weight * length.as_secs_f64() / 3600.0);
                self.days[0] += (weight * length.as_secs_f64() / 86_400.0) as f32;
                at += length;
                local = next;
            }
        }
        self.since = Some(self.since.map_or(from, |since| since.min(from)));
        self.until = Some(self.until.map_or(until, |last| last.max(until)));
    }

    /// Updates seen in all.
    pub fn seen(&self) -> u32 {
        self.seen
    }

    /// From when to when there is evidence.
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.since.zip(self.until)
    }

    /// The zone whose week it follows.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The evidence as of `now`.
    pub fn evidence(&self, now: Timestamp) -> Evidence {
        let fade = 1.0 / self.weight(now);
        let [days, counts, squares] = {
            let open = f64::from(self.day.1);
            let weight = self.weight(now);
            [
                f64::from(self.days[0]),
                f64::from(self.days[1]) + weight * open,
                f64::from(self.days[2]) + weight * open * open,
            ]
        };
        let clumping = if counts > 0.0 && days > 0.0 { squares / counts - counts / days } else { 1.0 };
        Evidence {
            updates: (0..CELLS).map(|cell| self.updates.get(cell) * fade).collect(),
            hours: (0..CELLS).map(|cell| self.exposure_hours.get(cell) * fade).collect(),
            clumping: clumping.max(1.0),
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        2 * CELLS * size_of::<u16>()
    }
}
