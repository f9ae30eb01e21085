//! When updates are foretold: execution intervals from a rate λ(t).
//!
//! [`execution`](super::execution) has the fewest probes for intervals that are known. Updates are not known before they come,
//! only their rate is, and what the last look showed. So here a cell of time is chosen where an update that
//! somebody wants to hear of is likely: a probe at its end serves each such update within it in time, and that
//! is its interval. A *window* cell is as long as the window Y. An *overwrite* cell is as long as updates last:
//! one at an even place among g expected updates is not overwritten by the end with the chance (1 − e^−g)/g.
//!
//! Wanted is every X-th update, of which some have come already; the density of the next ones is a sum of
//! Γ-densities (`nth`). The fewest cells that hold the share `confidence` of it are those worth a price z (`cover`).
//!
//! - X = 1: updates are independent, and no look tells of those to come. z follows from the week: the share is
//!   kept in the mean, because it is held by the expectation, and quiet nights are skipped, since their cells
//!   are not worth z. At an even rate all cells are worth the same, and they are spread evenly.
//! - X > 1, asked anew after every look: what was counted makes the forecast sharp, and far ahead it is blunt:
//!   λ/X everywhere. The share that *one* forecast holds then says little of the share that is seen, which may
//!   be more or less: blunt cells that will never be looked at count in it. So z is such that looking, counting
//!   and deriving anew sees the share (`pursuit`), at every level that the rate has in the week, taken by itself.
//!   A look also comes when the next one is due with the chance 1 − confidence (at least at the median, the
//!   paper's prediction of a point), because it tells how many are missing.
//! - X > 1, asked once ([`intervals_once`]): z from the share that the forecast holds. This is SUP without feedback.
//!
//! Tests hold the parts against sums, brute force and simulation; `crates/lab/tests/profiles` the whole against a world.
//!
//! Knows one source's rate and one rule. Must not know limits, other rules, or where the rate comes from.

use serde::{Deserialize, Serialize};

use crate::model::steps::Steps;
use crate::time::{Span, Timestamp};

use super::cover::{self, Choice, SLOTS, price_of};
use super::execution::{Interval, RuleId};
use super::expected::Forecast;
use super::nth::Nth;
use super::pursuit::Pursuit;
use super::row::{Row, Slot};

/// A rate repeats after this.
const WEEK: Span = Span::from_days(7);

/// No overwrite cell is longer.
const LONGEST: Span = Span::from_days(7);

/// So far overwrite cells are looked for.
const AHEAD: Span = Span::from_days(56);

/// Of more, every so many-th is wanted.
const MOST_EVERY: u32 = 1000;

/// How long an update can be caught (the paper's *life*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Life {
    /// window(Y): until Y after it.
    Window(Span),
    /// Until the next update.
    Overwrite,
}

/// What a rule wants of a source.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Want {
    /// Whose wish it is.
    pub rule: RuleId,
    /// X: every so many updates it is to be told.
    pub every: u32,
    /// Updates since it was last told, as the last look showed.
    pub counted: u32,
    /// How soon.
    pub life: Life,
    /// What share of the X-th updates is to be caught in time.
    pub confidence: f64,
}

impl Want {
    fn nth(&self) -> Nth {
        Nth::new(self.every.min(MOST_EVERY), self.counted)
    }

    /// What share cells hold, and what share of that is caught.
    fn shares(&self) -> (f64, f64) {
        let confidence = if self.confidence.is_nan() { 1.0 } else { self.confidence.clamp(1e-3, 1.0) };
        match (self.life, self.every) {
            (Life::Window(_), _) => (confidence, 1.0),
            (Life::Overwrite, 0 | 1) => (1.0, confidence),
            (Life::Overwrite, _) => (confidence.sqrt(), confidence.sqrt()),
        }
    }

    fn slot(&self) -> Slot {
        let slots = SLOTS as f64;
        match self.life {
            Life::Window(window) => Slot::Lasting(window.scaled(1.0 / slots)),
            Life::Overwrite => {
                Slot::Expecting(updates_uncaught(self.shares().1) / slots, LONGEST.scaled(1.0 / slots))
            }
        }
    }

    fn ahead(&self) -> Span {
        if self.life == Life::Overwrite { AHEAD } else { WEEK }
    }

    /// The chance of being late at which a look is due.
    fn patience(&self) -> f64 {
        (1.0 - self.shares().0).min(0.5)
    }
}

/// g with (1 − e^−g)/g = share: how many updates a probe may be apart so that this share is not overwritten.
fn updates_uncaught(share: f64) -> f64 {
    let share = share.clamp(0.01, 0.999);
    let (mut low, mut high) = (0.0_f64, 1.0 / share);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if -(-middle).exp_m1() / middle > share { low = middle } else { high = middle }
    }
    high
}

/// What a cell must hold to be worth a look, in X-th updates. It changes with the rate, its factor and the
/// rule, but not from look to look, so that it may be kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price(cover::Price);

/// The price at which a rule's confidence is kept when [`intervals_at`] is asked after every look; from a week
/// that begins at `from`, of which only the `active` spans count. `None` if no update is expected in it.
pub fn price(
    rate: &Steps,
    factor: f64,
    from: Timestamp,
    want: &Want,
    active: &[(Timestamp, Timestamp)],
) -> Option<Price> {
    let until = from + want.ahead();
    let row = Row::new((from, &rate.over(from, until), factor), (from, until), want.slot(), active);
    let (share, _) = want.shares();
    let every = want.nth().every();
    let levels = levels(&row);
    let most = levels.iter().map(|level| level.0).fold(0.0, f64::max);
    match (every, want.life) {
        _ if most <= 0.0 => None,
        (1, Life::Overwrite) => Some(Price(cover::Price::flat(0.0))),
        (1, Life::Window(_)) => Some(Price(price_of(&row.held(Nth::new(1, 0)), share))),
        _ => {
            let all: f64 = levels.iter().map(|level| level.1).sum();
            let pursuit = Pursuit::new(every, want.patience());
            let rates: Vec<_> =
                levels.iter().map(|&(y, weight)| (pursuit.level(y), weight / all)).collect();
            let seen = |price: f64| {
                rates.iter().map(|(level, weight)| weight * level.share_seen(price)).sum::<f64>()
            };
            // To a hundredth.
            let (mut low, mut high) = (most * 1e-4, most);
            for _ in 0..10 {
                let middle = (low * high).sqrt();
                if seen(middle) >= share { low = middle } else { high = middle }
            }
            Some(Price(cover::Price::flat(low)))
        }
    }
}

/// How many updates cells expect, and how many updates have such a cell: alike ones together.
fn levels(row: &Row) -> Vec<(f64, f64)> {
    let mut levels: Vec<(i32, f64, f64)> = Vec::new();
    for slot in 0..row.len() {
        let ((_, y), weight) = (row.expected(slot), row.counting(slot));
        if weight <= 0.0 {
            continue;
        }
        // Two to a doubling.
        let class = (2.0 * y.log2()).round() as i32;
        match levels.iter_mut().find(|level| level.0 == class) {
            Some((_, sum, all)) => (*sum, *all) = (*sum + weight * y, *all + weight),
            None => levels.push((class, weight * y, weight)),
        }
    }
    levels.into_iter().map(|(_, sum, weight)| (sum / weight, weight)).collect()
}

/// The intervals of a rule until then, ascending and apart, to be derived anew after the next look. Everything
/// up to `looked` is known; updates come at `factor` times the rate; those outside the `active` spans,
/// ascending and apart, are not wanted.
///
/// ```
/// # use tidewatch_core::model::steps::Steps;
/// # use tidewatch_core::planning::{execution::RuleId, prediction::{Life, Want, intervals}};
/// # use tidewatch_core::time::{Span, Timestamp};
/// let (now, day) = (Timestamp::from_secs(0), Span::from_days(1));
/// let one_an_hour = Steps::constant(1.0).unwrap();
/// let life = Life::Window(Span::from_mins(30));
/// let want = Want { rule: RuleId(1), every: 10, counted: 0, life, confidence: 0.9 };
/// let found = intervals(&one_an_hour, 1.0, now, &want, &[(now, now + day)], now + day);
/// // The tenth is hardly there within five hours.
/// assert!(found[0].from > now + Span::from_hours(5));
/// // One is missing: nothing is to be gained by waiting.
/// let nearly = Want { counted: 9, ..want };
/// let found = intervals(&one_an_hour, 1.0, now, &nearly, &[(now, now + day)], now + day);
/// assert_eq!(found[0].until, now + Span::from_mins(30));
/// ```
pub fn intervals(
    rate: &Steps,
    factor: f64,
    looked: Timestamp,
    want: &Want,
    active: &[(Timestamp, Timestamp)],
    until: Timestamp,
) -> Vec<Interval> {
    match price(rate, factor, looked, want, active) {
        Some(price) => intervals_at(price, rate, factor, looked, want, active, until),
        None => Vec::new(),
    }
}

/// The same at a price that is known, which is most of the work. `until` is best some cells ahead: where a share
/// of equal cells is enough, it is spread over those that are in sight.
pub fn intervals_at(
    price: Price,
    rate: &Steps,
    factor: f64,
    looked: Timestamp,
    want: &Want,
    active: &[(Timestamp, Timestamp)],
    until: Timestamp,
) -> Vec<Interval> {
    let (nth, Price(price)) = (want.nth(), price);
    // What comes with next to no chance need not be looked through.
    let soonest = if nth.missing() == 1 { 0.0 } else { nth.comes_by(want.patience() / 1000.0) };
    let Some(begin) = Forecast::aggregate(rate, factor).reaches(soonest, looked).filter(|&at| at < until)
    else {
        return Vec::new();
    };
    let until = until.min(begin + want.ahead());
    let row = Row::new((looked, &rate.over(looked, until), factor), (begin, until), want.slot(), active);
    let held = cover::cells(&row.held(nth));
    let choice = Choice::new(&held, price.least());
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
    laid(&row, &held, &begins, price, want.rule)
}

/// The intervals of a rule until then, at most a week ahead, if nothing will be learned in between: as few as
/// hold the confidence of all X-th updates that are expected. The paper's SUP without feedback.
pub fn intervals_once(
    rate: &Steps,
    factor: f64,
    looked: Timestamp,
    want: &Want,
    active: &[(Timestamp, Timestamp)],
    until: Timestamp,
) -> Vec<Interval> {
    let until = until.min(looked + want.ahead());
    let row = Row::new((looked, &rate.over(looked, until), factor), (looked, until), want.slot(), active);
    let slots = row.held(want.nth());
    let price = match (want.life, want.nth().every()) {
        (Life::Overwrite, 1) => cover::Price::flat(0.0),
        _ => price_of(&slots, want.shares().0),
    };
    let held = cover::cells(&slots);
    laid(&row, &held, &Choice::new(&held, price.least()).from(0), price, want.rule)
}

/// The intervals of cells that begin with these slots. Where a share of equal cells is enough, they are spread
/// evenly over the time that all would fill: their gaps are before them, so that it is the same when asked anew
/// at the end of each. A cell that would lie within that time by a quarter is laid, so that the share is had.
fn laid(row: &Row, held: &[f64], begins: &[usize], price: cover::Price, rule: RuleId) -> Vec<Interval> {
    let cell = SLOTS as f64;
    let mut laid: Vec<Interval> = Vec::new();
    let mut push = |from: f64, to: f64| {
        // What came at the beginning itself is known, or the cell's before.
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
        // One by itself may lie around a peak, off which it must not be moved.
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
