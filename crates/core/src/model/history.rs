//! The evidence on one source: updates and exposure by hour of the local week, with exponential decay.
//!
//! Takes about 700 bytes and O(1) time per event. An event at time t has weight
//! 2^((t − reference)/half-life), so decay costs nothing until the weights grow too large. May not know how
//! evidence becomes a rate.

use jiff::tz::TimeZone;

use crate::time::{Span, Timestamp};

use super::cyclic::Rate;
use super::evidence_totals::{EvidenceSums, EvidenceTotals};
use super::week::{DAY_MS, HOUR_MS, WEEK_MS, local_millis, stretches};

const HOUR: Span = Span::from_hours(1);

/// Hours in a week.
pub const CELLS: usize = 168;

/// Weights are rebased after this many half-lives: 2^16 is far from any limit.
const REBASE_AFTER: f64 = 16.0;

/// More time than this does not pass between two probes.
const FAR: Span = Span::from_days(3650);

/// Bounds weights, so that their sums stay finite.
const MOST_HALF_LIVES: f64 = 60.0;

/// The initial and smallest unit. It is small because an old update spread over many hours adds little per
/// cell, and amounts that round to zero are lost. The unit doubles when a cell overflows.
const LEAST_UNIT: f32 = 1.0 / (1 << 24) as f32;

/// The weight that evidence keeps when the source has changed.
const KEPT_AFTER_CHANGE: f64 = 0.5;

/// Marks the layout of [`History::to_bytes`]. The first one had no bursts, and the first two no settings.
const LAYOUT: u8 = 3;
const LAYOUT_WITHOUT_SETTINGS: u8 = 2;
const LAYOUT_WITHOUT_BURSTS: u8 = 1;

/// Small numbers with a common unit: 16 bits each, with an error below a hundredth of a percent of the
/// largest.
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

    /// Multiplies all numbers by a factor. If the unit becomes too small, resets to zero with the least
    /// unit: a unit of 0 could never grow.
    fn fade(&mut self, factor: f32) {
        self.unit *= factor;
        if self.unit < LEAST_UNIT {
            *self = Self::new(LEAST_UNIT);
        }
    }

    fn take(&mut self, cell: usize, amount: f64) {
        let units = (amount / f64::from(self.unit)).round() as u64;
        self.units[cell] = self.units[cell].saturating_sub(u16::try_from(units).unwrap_or(u16::MAX));
    }

    fn get(&self, cell: usize) -> f64 {
        f64::from(self.units[cell]) * f64::from(self.unit)
    }

    /// The sum of a day of the week.
    fn day(&self, day: usize) -> f64 {
        let units: u32 = self.units[day * 24..(day + 1) * 24].iter().map(|&units| u32::from(units)).sum();
        f64::from(units) * f64::from(self.unit)
    }
}

/// Updates and exposure by hour of the local week.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    zone: TimeZone,
    half_life: Span,
    /// The time at which an event has weight 1.
    reference: Timestamp,
    updates: Tally,
    exposure_hours: Tally,
    /// The current day and its number of updates. `days` holds sums with decay of the days, counts and
    /// squared counts, which measure clumping.
    day: (i64, f32),
    days: [f32; 3],
    /// Updates and hours of bursts, with decay. They count for the mean rate and not for its shape.
    bursts: [f32; 2],
    /// Total number of updates, without decay.
    seen: u32,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

/// Evidence as of one instant: updates and hours of exposure with decay, by hour of the week.
#[derive(Debug, Clone, PartialEq)]
pub struct WeeklyEvidence {
    /// Number of updates, with decay.
    pub updates: Vec<f64>,
    /// Hours of exposure, with decay.
    pub hours: Vec<f64>,
    /// Variance over mean of the daily counts, at least 1. This many updates count as one independent event.
    pub clumping: f64,
    /// Means over days of the count and of its square, with decay.
    pub daily: (f64, f64),
    /// Updates and hours of bursts, with decay.
    pub bursts: (f64, f64),
    /// How many hours of the week form one interval of the cycle and share its mean values.
    pub hours_per_interval: u8,
}

impl WeeklyEvidence {
    /// No evidence at all.
    pub fn none() -> Self {
        Self {
            updates: vec![0.0; CELLS],
            hours: vec![0.0; CELLS],
            clumping: 1.0,
            daily: (0.0, 0.0),
            bursts: (0.0, 0.0),
            hours_per_interval: 1,
        }
    }

    /// The same evidence at no finer resolution than `resolution` (whole hours that divide a day) and no
    /// longer cycle than `cycle` (a day or a week). Hours that are merged share the mean of their values.
    pub fn coarsened(&self, cycle: Span, resolution: Span) -> Self {
        let block = (resolution.as_millis() / HOUR_MS).clamp(1, 24) as usize;
        let day_only = cycle <= Span::from_days(1);
        let place = |cell: usize| (if day_only { cell % 24 } else { cell }) / block;
        let shared = |cells: &[f64]| -> Vec<f64> {
            let mut sums = vec![(0.0, 0.0); CELLS];
            for (cell, value) in cells.iter().enumerate() {
                let sum = &mut sums[place(cell)];
                *sum = (sum.0 + value, sum.1 + 1.0);
            }
            (0..CELLS).map(|cell| sums[place(cell)].0 / sums[place(cell)].1).collect()
        };
        let (updates, hours) = (shared(&self.updates), shared(&self.hours));
        let hours_per_interval = (block * if day_only { 7 } else { 1 }) as u8;
        Self { updates, hours, hours_per_interval, ..self.clone() }
    }

    /// The number of intervals of the cycle with updates. An interval with less than one update, because it
    /// is old or its time is known only roughly, counts by that weight.
    pub fn intervals_with_updates(&self) -> f64 {
        let hours = f64::from(self.hours_per_interval);
        self.updates.iter().map(|updates| updates.min(1.0 / hours)).sum()
    }

    /// Total updates, with decay.
    pub fn total_updates(&self) -> f64 {
        self.updates.iter().sum()
    }

    /// Total hours, with decay.
    pub fn total_hours(&self) -> f64 {
        self.hours.iter().sum()
    }
}

impl History {
    /// Empty evidence. Weights are 1 at `now` and decay with the half-life.
    pub fn new(zone: TimeZone, half_life: Span, now: Timestamp) -> Self {
        Self {
            zone,
            half_life,
            reference: now,
            updates: Tally::new(LEAST_UNIT),
            exposure_hours: Tally::new(LEAST_UNIT),
            day: (i64::MIN, 0.0),
            days: [0.0; 3],
            bursts: [0.0; 2],
            seen: 0,
            since: None,
            until: None,
        }
    }

    /// Empty evidence with the same zone and half-life.
    pub fn afresh(&self, now: Timestamp) -> Self {
        Self::new(self.zone.clone(), self.half_life, now)
    }

    /// Decodes [`History::to_bytes`]; the zone and half-life of `self` apply to bytes that state none.
    pub fn from_bytes_alike(&self, bytes: &[u8]) -> Option<Self> {
        Self::from_bytes(bytes, self.zone.clone(), self.half_life)
    }

    /// Moves the reference to `at` before weights grow too large.
    fn rebase(&mut self, at: Timestamp) {
        if at - self.reference < self.half_life.scaled(REBASE_AFTER) && !self.is_far(at) {
            return;
        }
        let fade = (1.0 / self.weight(at)) as f32;
        self.updates.fade(fade);
        self.exposure_hours.fade(fade);
        self.days.iter_mut().chain(&mut self.bursts).for_each(|sum| *sum *= fade);
        self.reference = at;
    }

    /// The weight of an update at this time. A clock that was set by decades lets no evidence decay.
    fn weight(&self, at: Timestamp) -> f64 {
        if self.is_far(at) {
            return 1.0;
        }
        let half_lives = (at - self.reference).as_secs_f64() / self.half_life.as_secs_f64().max(1.0);
        half_lives.clamp(-MOST_HALF_LIVES, MOST_HALF_LIVES).exp2()
    }

    /// Whether only a clock that is or was wrong explains the time since the reference.
    fn is_far(&self, at: Timestamp) -> bool {
        let far = FAR.max(self.half_life.scaled(2.0 * REBASE_AFTER));
        at - self.reference > far || self.reference - at > far
    }

    /// Moves all evidence by this span, after the clock was set. The hours of the week stay: they are those that the
    /// clock showed.
    pub fn shift(&mut self, by: Span) {
        self.reference += by;
        self.since = self.since.map(|at| at + by);
        self.until = self.until.map(|at| at + by);
        if self.day.0 != i64::MIN {
            let days = (by.as_millis() as f64 / DAY_MS as f64).round() as i64;
            self.day.0 = self.day.0.saturating_add(days);
        }
    }

    /// Adds an update at a known time.
    pub fn update(&mut self, at: Timestamp) {
        self.add(at, 1.0);
        self.seen = self.seen.saturating_add(1);
    }

    fn add(&mut self, at: Timestamp, share: f64) {
        self.rebase(at);
        let weight = self.weight(at);
        self.updates.add(self.cell(at), weight * share);
        let day = local_millis(&self.zone, at).div_euclid(DAY_MS);
        if day != self.day.0 {
            self.close_day();
            self.day = (day, 0.0);
        }
        self.day.1 += share as f32;
    }

    /// The hour of the local week of an instant.
    fn cell(&self, at: Timestamp) -> usize {
        (local_millis(&self.zone, at).rem_euclid(WEEK_MS) / HOUR_MS) as usize
    }

    /// The weight of the current day, by its own date.
    fn day_weight(&self) -> f64 {
        // Its noon in UTC; a zone's offset is negligible against a half-life.
        let noon = self.day.0.saturating_mul(DAY_MS).saturating_sub(5 * DAY_MS / 2);
        self.weight(Timestamp::from_millis(noon))
    }

    fn close_day(&mut self) {
        let (count, weight) = (f64::from(self.day.1), self.day_weight());
        self.days[1] += (weight * count) as f32;
        self.days[2] += (weight * count * count) as f32;
    }

    /// Adds exposure: all updates in [from, until) are known.
    pub fn exposed(&mut self, from: Timestamp, until: Timestamp) {
        if until <= from {
            return;
        }
        self.rebase(until);
        let (zone, longest) = (self.zone.clone(), self.longest_interval());
        for piece in pieces(&zone, (from.max(until - longest), until), |_| HOUR) {
            let weight = self.weight(piece.middle());
            self.exposure_hours.add(piece.cell(), weight * piece.hours());
            self.days[0] += (weight * piece.hours() / 24.0) as f32;
        }
        self.since = Some(self.since.map_or(from, |since| since.min(from)));
        self.until = Some(self.until.map_or(until, |last| last.max(until)));
    }

    /// Adds updates of a burst in [from, until): they count for the mean rate and not for its shape.
    pub fn burst(&mut self, from: Timestamp, until: Timestamp, updates: u32) {
        self.rebase(until);
        let weight = self.weight(until);
        let hours = (until - from).max(Span::ZERO).as_secs_f64() / 3600.0;
        self.bursts[0] += (weight * f64::from(updates)) as f32;
        self.bursts[1] += (weight * hours) as f32;
    }

    /// Moves an update that was added before to the burst that it began.
    pub fn move_to_burst(&mut self, at: Timestamp) {
        let (weight, cell) = (self.weight(at), self.cell(at));
        self.updates.take(cell, weight);
        self.bursts[0] += weight as f32;
    }

    /// Adds updates of which only the interval [from, until) is known. Distributes them like the rate, or
    /// evenly where the rate expects none.
    pub fn spread(&mut self, from: Timestamp, until: Timestamp, updates: f64, rate: &Rate) {
        let from = from.min(until);
        let total = rate.expected(from, until);
        let length = (until - from).as_secs_f64();
        let zone = self.zone.clone();
        for piece in pieces(&zone, (from.max(until - self.longest_interval()), until), |_| HOUR) {
            let share = match total > 0.0 {
                true => rate.expected(piece.from, piece.until) / total,
                false => (piece.until - piece.from).as_secs_f64() / length,
            };
            self.add(piece.middle(), updates * share);
        }
        if from == until {
            self.add(until, updates);
        }
        self.seen = self.seen.saturating_add(updates.round() as u32);
    }

    /// The level of the source fell to this share: updates so far count less, and all evidence has half of
    /// its weight. The shape is kept.
    pub fn lower_level(&mut self, factor: f64) {
        let lowered = |tally: &Tally, factor: f64| {
            let mut lowered = Tally::new(LEAST_UNIT);
            (0..CELLS).for_each(|cell| lowered.add(cell, factor * tally.get(cell)));
            lowered
        };
        self.updates = lowered(&self.updates, factor * KEPT_AFTER_CHANGE);
        self.exposure_hours = lowered(&self.exposure_hours, KEPT_AFTER_CHANGE);
        let [days, counts, squares] = self.days.map(f64::from);
        let mean_square = if days > 0.0 { counts * counts / days } else { 0.0 };
        // The variance stays in proportion to the mean.
        let squares = factor * (squares - mean_square).max(0.0) + factor * factor * mean_square;
        self.days = [days, factor * counts, squares].map(|sum| (KEPT_AFTER_CHANGE * sum) as f32);
        self.bursts[0] *= factor as f32;
        self.bursts.iter_mut().for_each(|sum| *sum *= KEPT_AFTER_CHANGE as f32);
    }

    /// The hours of the source changed at `since`, and these are its updates since then. The evidence before
    /// keeps half of its weight, for the mean rate only.
    pub fn relearn_hours(
        &mut self,
        since: Timestamp,
        now: Timestamp,
        updates: impl IntoIterator<Item = Timestamp>,
    ) {
        let evidence = self.evidence(now);
        let fade = KEPT_AFTER_CHANGE / self.weight(now);
        let (in_bursts, burst_hours) = evidence.bursts;
        let level = [evidence.total_updates() + in_bursts, evidence.total_hours() + burst_hours];
        let mut relearned = self.afresh(now);
        relearned.bursts = level.map(|sum| (KEPT_AFTER_CHANGE * sum) as f32);
        relearned.days = self.days.map(|sum| (fade * f64::from(sum)) as f32);
        relearned.seen = self.seen;
        relearned.exposed(since, now);
        for at in updates.into_iter().filter(|at| (since..=now).contains(at)) {
            relearned.add(at, 1.0);
        }
        *self = relearned;
    }

    /// The longest interval that [`History::exposed`] adds as a whole: ten half-lives.
    pub fn longest_interval(&self) -> Span {
        self.half_life.scaled(10.0)
    }

    /// Total number of updates, without decay.
    pub fn seen(&self) -> u32 {
        self.seen
    }

    /// Start and end of the evidence.
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.since.zip(self.until)
    }

    /// The zone whose week it follows.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Whether the evidence was weighed with this half-life and divided by the hours of this zone.
    pub fn is_learned_with(&self, zone: &TimeZone, half_life: Span) -> bool {
        self.half_life == half_life && zone_name(&self.zone) == zone_name(zone)
    }

    /// The evidence as of `now`.
    pub fn evidence(&self, now: Timestamp) -> WeeklyEvidence {
        let weight = self.weight(now);
        let (sums, fade) = (self.sums(), 1.0 / weight);
        let EvidenceTotals { clumping, bursts, .. } = sums.totals(weight);
        let updates: Vec<f64> = (0..CELLS).map(|cell| self.updates.get(cell) * fade).collect();
        let hours: Vec<f64> = (0..CELLS).map(|cell| self.exposure_hours.get(cell) * fade).collect();
        WeeklyEvidence { daily: sums.daily(), updates, hours, clumping, bursts, hours_per_interval: 1 }
    }

    /// The totals of the evidence as of `now`.
    pub fn totals(&self, now: Timestamp) -> EvidenceTotals {
        self.sums().totals(self.weight(now))
    }

    fn sums(&self) -> EvidenceSums {
        let open = f64::from(self.day.1);
        let weight = self.day_weight();
        let days = [
            f64::from(self.days[0]),
            f64::from(self.days[1]) + weight * open,
            f64::from(self.days[2]) + weight * open * open,
        ];
        let of_day = std::array::from_fn(|day| (self.updates.day(day), self.exposure_hours.day(day)));
        EvidenceSums { of_day, days, bursts: self.bursts.map(f64::from).into() }
    }

    /// The parts of an interval without updates, each with the totals of the evidence at its start. `part` returns
    /// the length of the part that begins then, which divides an hour.
    pub fn through_silence(
        &self,
        (from, until): (Timestamp, Timestamp),
        part: impl Fn(Timestamp) -> Span,
    ) -> impl Iterator<Item = ((Timestamp, Timestamp), EvidenceTotals)> {
        let mut sums = self.sums();
        pieces(&self.zone, (from, until), part).map(move |piece| {
            let totals = sums.totals(self.weight(piece.from));
            sums.expose(piece.cell() / 24, self.weight(piece.middle()), piece.hours());
            ((piece.from, piece.until), totals)
        })
    }

    /// The same evidence, and besides that no updates in [from, until).
    pub fn with_silence(&self, from: Timestamp, until: Timestamp) -> Self {
        let mut history = self.clone();
        history.exposed(from, until);
        history
    }

    /// Encodes the evidence, with the zone and the half-life that it was learned with.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * 2 * CELLS + 128);
        bytes.push(LAYOUT);
        let instant = |at: Option<Timestamp>| at.map_or(i64::MIN, Timestamp::as_millis).to_le_bytes();
        bytes.extend(self.reference.as_millis().to_le_bytes());
        bytes.extend(instant(self.since));
        bytes.extend(instant(self.until));
        bytes.extend(self.day.0.to_le_bytes());
        bytes.extend(self.seen.to_le_bytes());
        for number in [
            self.day.1,
            self.days[0],
            self.days[1],
            self.days[2],
            self.updates.unit,
            self.exposure_hours.unit,
            self.bursts[0],
            self.bursts[1],
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.half_life.as_millis().to_le_bytes());
        let zone = zone_name(&self.zone).as_bytes();
        bytes.push(zone.len() as u8);
        bytes.extend(zone);
        for units in self.updates.units.iter().chain(self.exposure_hours.units.iter()) {
            bytes.extend(units.to_le_bytes());
        }
        bytes
    }

    /// Decodes [`History::to_bytes`]; `None` if the bytes are invalid. The given zone and half-life apply to
    /// bytes of older versions, which state none. Others keep those that they were learned with.
    pub fn from_bytes(bytes: &[u8], zone: TimeZone, half_life: Span) -> Option<Self> {
        let (&layout, rest) = bytes.split_first()?;
        if !matches!(layout, LAYOUT | LAYOUT_WITHOUT_SETTINGS | LAYOUT_WITHOUT_BURSTS) {
            return None;
        }
        let mut rest = Bytes(rest);
        let reference = Timestamp::from_millis(rest.wide()?);
        let instant = |millis: i64| (millis != i64::MIN).then(|| Timestamp::from_millis(millis));
        let (since, until, day) = (instant(rest.wide()?), instant(rest.wide()?), rest.wide()?);
        let seen = u32::from_le_bytes(rest.array()?);
        let (today, days) = (rest.number()?, [rest.number()?, rest.number()?, rest.number()?]);
        let units = [rest.number()?, rest.number()?];
        let bursts = match layout {
            LAYOUT_WITHOUT_BURSTS => [0.0; 2],
            _ => [rest.number()?, rest.number()?],
        };
        let (zone, half_life) = match layout {
            LAYOUT => rest.settings(zone)?,
            _ => (zone, half_life),
        };
        if bursts.iter().any(|sum| *sum < 0.0) {
            return None;
        }
        let Bytes(cells) = rest;
        if cells.len() != 2 * 2 * CELLS || units.iter().any(|unit| *unit <= 0.0) {
            return None;
        }
        let mut tallies = units.into_iter().zip(cells.chunks_exact(2 * CELLS)).map(|(unit, cells)| {
            let mut tally = Tally::new(unit);
            for (units, pair) in tally.units.iter_mut().zip(cells.chunks_exact(2)) {
                *units = u16::from_le_bytes([pair[0], pair[1]]);
            }
            tally
        });
        let (updates, exposure_hours) = (tallies.next()?, tallies.next()?);
        Some(Self {
            zone,
            half_life,
            reference,
            updates,
            exposure_hours,
            day: (day, today),
            days,
            bursts,
            seen,
            since,
            until,
        })
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        2 * CELLS * size_of::<u16>()
    }
}

/// A part of an interval within one local hour.
#[derive(Debug, Clone, Copy)]
struct HourPiece {
    from: Timestamp,
    until: Timestamp,
    /// Its start in local milliseconds.
    local: i64,
}

impl HourPiece {
    fn middle(&self) -> Timestamp {
        self.from + Span::from_millis((self.until - self.from).as_millis() / 2)
    }

    fn hours(&self) -> f64 {
        (self.until - self.from).as_secs_f64() / 3600.0
    }

    /// The hour of the local week.
    fn cell(&self) -> usize {
        (self.local.rem_euclid(WEEK_MS) / HOUR_MS) as usize
    }
}

/// The pieces of an interval in local time. `length` returns the length of the piece that begins then, which divides
/// an hour.
fn pieces(
    zone: &TimeZone,
    (from, until): (Timestamp, Timestamp),
    length: impl Fn(Timestamp) -> Span,
) -> impl Iterator<Item = HourPiece> {
    let (mut at, mut stretches) = (from, stretches(zone, from, until));
    let (mut local, mut end) = (0, 0);
    std::iter::from_fn(move || {
        if local >= end {
            (local, end) = stretches.next()?;
        }
        let length = length(at).as_millis();
        let next = ((local.div_euclid(length) + 1) * length).min(end);
        let until = at + Span::from_millis(next - local);
        let piece = HourPiece { from: at, until, local };
        (at, local) = (until, next);
        Some(piece)
    })
}

/// The stored name of a zone.
fn zone_name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("UTC")
}

/// Bytes yet to be decoded.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn wide(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn number(&mut self) -> Option<f32> {
        self.array().map(f32::from_le_bytes).filter(|number| number.is_finite())
    }

    /// Zone and half-life. The zone is usually the `expected` one, which is then shared. A zone that is no
    /// longer known is read as UTC.
    fn settings(&mut self, expected: TimeZone) -> Option<(TimeZone, Span)> {
        let half_life = Span::from_millis(self.wide()?);
        let [length] = self.array()?;
        let (name, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        let name = std::str::from_utf8(name).ok()?;
        let zone = match name == zone_name(&expected) {
            true => expected,
            false => TimeZone::get(name).unwrap_or(TimeZone::UTC),
        };
        (half_life > Span::ZERO).then_some((zone, half_life))
    }
}
