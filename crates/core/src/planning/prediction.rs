//! Predicts execution intervals from a rate λ(t).
//!
//! [`execution`](super::execution) finds the fewest probes for known intervals. Future updates are unknown
//! except for their rate and the last probe. So this module chooses cells of time that are likely to contain
//! a relevant update. A probe at the end of a cell finds each such update in time; that cell is its
//! interval. Takes the rate of one source and one rule. May not know limits, other rules, or the origin of
//! the rate.
//!
//! A *window* cell has the length of the window Y. An *overwrite* cell has the length of g expected updates:
//! an update at a uniform position in it survives until the end with probability (1 − e^−g)/g.
//!
//! Relevant is every X-th update, of which some have been counted; the density of the next ones is a sum of
//! Γ-densities (`nth`). The fewest cells with the share `confidence` of it are those worth a price z
//! (`cover`).
//!
//! - X = 1: updates are independent, and no probe informs about later ones. z follows from the week: the
//!   expected share is `confidence`, and quiet nights are skipped, since their cells are not worth z. At a
//!   constant rate all cells are equal and are spread evenly.
//! - X > 1, recomputed after every probe: the prediction is precise for the near future, and λ/X far ahead.
//!   The share of *one* prediction differs from the share that is found, because it includes distant cells
//!   that are never probed. So z is chosen such that probing, counting and recomputing finds the share
//!   (`feedback_model`), at each level of the rate in the week separately. A probe is also due when the next
//!   X-th update has arrived with probability 1 − confidence (at the latest at the median, the point
//!   prediction of the paper).
//! - X > 1, computed once ([`intervals_once`]): z from the share of the prediction. This is SUP without
//!   feedback.
//!
//! The tests compare the parts with sums, brute force and simulation; `crates/lab/tests/papers/profiles`
//! tests the whole.

use serde::{Deserialize, Serialize};

use crate::model::steps::Steps;
use crate::time::{Span, Timestamp};

use super::cover::{self, Choice, SLOTS, price_of};
use super::execution::{Interval, RuleId};
use super::expected::Forecast;
use super::feedback_model::FeedbackModel;
use super::nth::Nth;
use super::slot_grid::{MOST_SLOTS, Slot, SlotGrid};

/// The period of a rate.
const WEEK: Span = Span::from_days(7);

/// Maximum length of an overwrite cell.
const LONGEST: Span = Span::from_days(7);

/// Search range for overwrite cells.
const AHEAD: Span = Span::from_days(56);

/// Upper bound on X.
const MOST_EVERY: u32 = 1000;

/// The time within which a probe can find an update (the paper's *life*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// window(Y): until Y after the update.
    Window(Span),
    /// Until the next update.
    Overwrite,
}

/// The requirement of a rule on a source.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Want {
    /// The rule.
    pub rule: RuleId,
    /// X: a notification is due at every X-th update.
    pub every: u32,
    /// Updates since the last notification, as of the last probe.
    pub counted: u32,
    /// The time within which an update must be found.
    pub life: Lifetime,
    /// The share of X-th updates to find in time.
    pub confidence: f64,
}

impl Want {
    fn nth(&self) -> Nth {
        Nth::new(self.every.min(MOST_EVERY), self.counted)
    }

    /// The share of updates within cells, and the share of those that is found.
    fn shares(&self) -> (f64, f64) {
        let confidence = if self.confidence.is_nan() { 1.0 } else { self.confidence.clamp(1e-3, 1.0) };
        match (self.life, self.every) {
            (Lifetime::Window(_), _) => (confidence, 1.0),
            (Lifetime::Overwrite, 0 | 1) => (1.0, confidence),
            (Lifetime::Overwrite, _) => (confidence.sqrt(), confidence.sqrt()),
        }
    }

    fn slot(&self) -> Slot {
        let slots = SLOTS as f64;
        match self.life {
            Lifetime::Window(window) => Slot::Lasting(window.scaled(1.0 / slots)),
            Lifetime::Overwrite => {
                Slot::Expecting(updates_uncaught(self.shares().1) / slots, LONGEST.scaled(1.0 / slots))
            }
        }
    }

    /// Slots long enough for a grid of a whole week, and the share of their length that a slot of the rule
    /// has. A week of a window of few minutes has more slots than a grid.
    fn slot_of_a_week(&self) -> (Slot, f64) {
        match self.slot() {
            Slot::Lasting(span) => {
                let longer = span.max(WEEK.scaled(1.0 / (MOST_SLOTS - SLOTS) as f64));
                (Slot::Lasting(longer), span.as_secs_f64() / longer.as_secs_f64())
            }
            slot => (slot, 1.0),
        }
    }

    fn ahead(&self) -> Span {
        if self.life == Lifetime::Overwrite { AHEAD } else { WEEK }
    }

    /// The probability of being late at which a probe is due.
    fn patience(&self) -> f64 {
        (1.0 - self.shares().0).min(0.5)
    }
}

/// g with (1 − e^−g)/g = share: the expected updates between two probes at which this share is not
/// overwritten.
fn updates_uncaught(share: f64) -> f64 {
    let share = share.clamp(0.01, 0.999);
    let (mut low, mut high) = (0.0_f64, 1.0 / share);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if -(-middle).exp_m1() / middle > share { low = middle } else { high = middle }
    }
    high
}

/// The number of X-th updates that makes a cell worth a probe. It depends on the rate, its factor and the
/// rule, not on single probes, so it can be cached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RulePrice(cover::CellPrice);

/// The price that yields the confidence of a rule if [`intervals_at`] is recomputed after every probe. Uses
/// the week that begins at `from`, restricted to the `active` spans. `None` if no update is expected in it.
pub fn price(
    rate: &Steps,
    factor: f64,
    from: Timestamp,
    want: &Want,
    active: &[(Timestamp, Timestamp)],
) -> Option<RulePrice> {
    let until = from + want.ahead();
    let (slot, finer) = want.slot_of_a_week();
    let row = SlotGrid::new((from, &rate.over(from, until), factor), (from, until), slot, active);
    let (share, _) = want.shares();
    let every = want.nth().every();
    let levels: Vec<_> = levels(&row).into_iter().map(|(y, weight)| (y * finer, weight)).collect();
    let most = levels.iter().map(|level| level.0).fold(0.0, f64::max);
    match (every, want.life) {
        _ if most <= 0.0 => None,
        (1, Lifetime::Overwrite) => Some(RulePrice(cover::CellPrice::flat(0.0))),
        (1, Lifetime::Window(_)) => {
            Some(RulePrice(price_of(&row.held(Nth::new(1, 0)), share).scaled(finer)))
        }
        _ => {
            let all: f64 = levels.iter().map(|level| level.1).sum();
            let model = FeedbackModel::new(every, want.patience());
            let rates: Vec<_> = levels.iter().map(|&(y, weight)| (model.level(y), weight / all)).collect();
            let seen = |price: f64| {
                rates.iter().map(|(level, weight)| weight * level.share_seen(price)).sum::<f64>()
            };
            // To a precision of one percent.
            let (mut low, mut high) = (most * 1e-4, most);
            for _ in 0..10 {
                let middle = (low * high).sqrt();
                if seen(middle) >= share { low = middle } else { high = middle }
            }
            Some(RulePrice(cover::CellPrice::flat(low)))
        }
    }
}

/// Expected updates per cell, and the number of updates in such cells, grouped by similar values.
fn levels(row: &SlotGrid) -> Vec<(f64, f64)> {
    let mut levels: Vec<(i32, f64, f64)> = Vec::new();
    for slot in 0..row.len() {
        let ((_, y), weight) = (row.expected(slot), row.counting(slot));
        if weight <= 0.0 {
            continue;
        }
        // Two classes per factor of two.
        let class = (2.0 * y.log2()).round() as i32;
        match levels.iter_mut().find(|level| level.0 == class) {
            Some((_, sum, all)) => (*sum, *all) = (*sum + weight * y, *all + weight),
            None => levels.push((class, weight * y, weight)),
        }
    }
    levels.into_iter().map(|(_, sum, weight)| (sum / weight, weight)).collect()
}

/// The intervals of a rule up to `until`, ascending and disjoint, to be recomputed after the next probe. All
/// updates up to `known_until` are known. The expected rate is `factor` times the rate. Updates outside the
/// `active` spans, ascending and disjoint, are not relevant.
///
/// ```
/// # use tidewatch_core::model::steps::Steps;
/// # use tidewatch_core::planning::{execution::RuleId, prediction::{Lifetime, Want, intervals}};
/// # use tidewatch_core::time::{Span, Timestamp};
/// let (now, day) = (Timestamp::from_secs(0), Span::from_days(1));
/// let one_an_hour = Steps::constant(1.0).unwrap();
/// let life = Lifetime::Window(Span::from_mins(30));
/// let want = Want { rule: RuleId(1), every: 10, counted: 0, life, confidence: 0.9 };
/// let found = intervals(&one_an_hour, 1.0, now, &want, &[(now, now + day)], now + day);
/// // The tenth update is unlikely within five hours.
/// assert!(found[0].from > now + Span::from_hours(5));
/// // One is missing: the first cell is worth a probe.
/// let nearly = Want { counted: 9, ..want };
/// let found = intervals(&one_an_hour, 1.0, now, &nearly, &[(now, now + day)], now + day);
/// assert_eq!(found[0].until, now + Span::from_mins(30));
/// ```
pub fn intervals(
    rate: &Steps,
    factor: f64,
    known_until: Timestamp,
    want: &Want,
    active: &[(Timestamp, Timestamp)],
    until: Timestamp,
) -> Vec<Interval> {
    match price(rate, factor, known_until, want, active) {
        Some(price) => intervals_at(price, rate, factor, known_until, want, active, until),
        None => Vec::new(),
    }
}

/// The same at a known price; computing the price is most of the work. `until` should be some cells ahead:
/// if a share of equal cells is sufficient, it is spread over the visible ones.
pub fn intervals_at(
    price: RulePrice,
    rate: &Steps,
    factor: f64,
    known_until: Timestamp,
    want: &Want,
    active: &[(Timestamp, Timestamp)],
    until: Timestamp,
) -> Vec<Interval> {
    let (nth, RulePrice(price)) = (want.nth(), price);
    // Cells of negligible probability are skipped.
    let soonest = if nth.missing() == 1 { 0.0 } else { nth.comes_by(want.patience() / 1000.0) };
    let Some(begin) =
        Forecast::aggregate(rate, factor).reaches(soonest, known_until).filter(|&at| at < until)
    else {
        return Vec::new();
    };
    let until = until.min(begin + want.ahead());
    let pieces = rate.over(known_until, until);
    let mut begin = begin;
    loop {
        let row = SlotGrid::new((known_until, &pieces, factor), (begin, until), want.slot(), active);
        let held = cover::cells(&row.held(nth));
        let found = laid(&row, &held, &chosen(&row, &held, price, want), price, want.rule);
        let next = row.next_begin();
        // If short windows fill a grid of which no cell is worth a probe, the next grid is searched.
        if !found.is_empty() || next >= until || next <= begin {
            return found;
        }
        begin = next;
    }
}

/// The first slots of the cells that are worth a probe, to be recomputed after the next probe.
fn chosen(row: &SlotGrid, held: &[f64], price: cover::CellPrice, want: &Want) -> Vec<usize> {
    let nth = want.nth();
    let choice = Choice::new(held, price.least());
    let mut begins = choice.from(0);
    if nth.every() > 1 {
        let due = |slot: usize| {
            let (by, y) = row.expected(slot);
            let one_missing = Nth::new(nth.every(), nth.every() - 1);
            nth.has_come(by) >= want.patience()
                && one_missing.expected(y) >= price.least()
                && held[slot] > 0.0
        };
        let before = begins.first().copied().unwrap_or(held.len()).min(held.len());
        if let Some(due) = (0..before).find(|&slot| due(slot)) {
            begins = choice.from(due + SLOTS);
            begins.insert(0, due);
        }
    }
    begins
}

/// The intervals of a rule up to `until`, at most a week ahead, without feedback: the fewest that contain
/// the confidence of all expected X-th updates. This is SUP of the paper without feedback.
pub fn intervals_once(
    rate: &Steps,
    factor: f64,
    known_until: Timestamp,
    want: &Want,
    active: &[(Timestamp, Timestamp)],
    until: Timestamp,
) -> Vec<Interval> {
    let until = until.min(known_until + want.ahead());
    let row = SlotGrid::new(
        (known_until, &rate.over(known_until, until), factor),
        (known_until, until),
        want.slot(),
        active,
    );
    let slots = row.held(want.nth());
    let price = match (want.life, want.nth().every()) {
        (Lifetime::Overwrite, 1) => cover::CellPrice::flat(0.0),
        _ => price_of(&slots, want.shares().0),
    };
    let held = cover::cells(&slots);
    laid(&row, &held, &Choice::new(&held, price.least()).from(0), price, want.rule)
}

/// The intervals of the cells at these slots. If a share of equal cells is sufficient, they are spread
/// evenly over the time of all of them. The gap precedes each cell, so recomputing at its end yields the
/// same times. A cell is placed if at least a quarter of it lies within that time, so that the share is
/// reached.
fn laid(
    row: &SlotGrid,
    held: &[f64],
    begins: &[usize],
    price: cover::CellPrice,
    rule: RuleId,
) -> Vec<Interval> {
    let cell = SLOTS as f64;
    let mut laid: Vec<Interval> = Vec::new();
    let mut push = |from: f64, to: f64| {
        // An update at the start itself is known, or belongs to the previous cell.
        let from = row.at(from) + Span::from_millis(1);
        laid.push(Interval { rule, from, until: row.at(to).max(from) });
    };
    let mut rest = begins;
    while let Some(&first) = rest.first() {
        let share = price.share_of(held[first]);
        let alike = rest
            .iter()
            .enumerate()
            .take_while(|&(place, &slot)| {
                slot == first + place * SLOTS && price.share_of(held[slot]) == share
            })
            .count();
        let (end, next) = ((first + alike * SLOTS) as f64, rest.get(alike).map(|&slot| slot as f64));
        let gap = cell * (1.0 - share) / share;
        // A single cell may cover a peak and must not be moved off it.
        let movable =
            alike > 1 || held.get(first + gap.ceil() as usize).is_some_and(|&held| held >= price.least());
        let mut from = first as f64 + if movable { gap } else { 0.0 };
        while from + cell / 4.0 <= end + 1e-6 {
            push(from, (from + cell).min(next.unwrap_or(f64::INFINITY)));
            from += cell + gap;
        }
        rest = &rest[alike..];
    }
    if let (true, Some(best)) =
        (laid.is_empty(), begins.iter().max_by(|&&a, &&b| held[a].total_cmp(&held[b])))
    {
        let from = row.at(*best as f64) + Span::from_millis(1);
        laid.push(Interval { rule, from, until: row.at((best + SLOTS) as f64).max(from) });
    }
    laid
}
