//! Sia, Cho and Cho: the mean delay at a price, with probes placed by the weekly rate.
//!
//! K. C. Sia, J. Cho and H.-K. Cho, "Efficient monitoring algorithm for fast news alerts" (2007). The number
//! of probes of a source is proportional to √(wλ). Evenly spaced probes at the rate ρ cause wλ/(2ρ) of delay
//! an hour, so that at the price ν their rate is ρ = √(wλ/(2ν)). The probes τ₁, τ₂, … of a week satisfy
//!
//! λ(τⱼ)·(τⱼ₊₁ − τⱼ) = ∫λ over (τⱼ₋₁, τⱼ).
//!
//! That is where moving one probe between its neighbours gains nothing. One probe after the other is moved to
//! its best place until none moves, for a limited number of rounds. Where λ steps down, the two sides of a step may enclose the equation.

use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::plan_input::AT_LEAST_EVERY;
use tidewatch_core::time::{Span, Timestamp};

use super::schedule::{PaperInput, PaperSchedule, WEEK_HOURS, hours};

const WEEK: Span = Span::from_days(7);

/// Probes that move by less, in hours, stay.
const STILL: f64 = 1e-4;

/// Maximum number of rounds in which every probe is moved once.
const ROUNDS: usize = 200;

/// ρ = √(λ/(2ν)), per hour.
fn probe_rate(change_rate: f64, price: f64) -> f64 {
    (change_rate / (2.0 * price)).sqrt()
}

/// The weekly schedule of one source, made anew after every fit.
pub(super) struct SiaCho {
    price: f64,
    week: Option<ProbeWeek>,
}

/// A schedule and what it was made from.
struct ProbeWeek {
    fitted: Timestamp,
    begins: Timestamp,
    count: usize,
    /// Hours into the week, ascending.
    probes: Vec<f64>,
}

impl SiaCho {
    pub(super) fn new(price: f64) -> Self {
        Self { price, week: None }
    }

    /// The number of probes in a week, within the limit and at least once a day.
    fn count(&self, known: &PaperInput<'_>) -> usize {
        let least = WEEK.as_millis() as f64 / AT_LEAST_EVERY.as_millis() as f64;
        let most = WEEK.as_millis() as f64 / known.least_gap.as_millis().max(1) as f64;
        let wanted = WEEK_HOURS * probe_rate(known.change_rate(), self.price);
        wanted.min(most).max(least).round() as usize
    }

    /// The schedule of the week in which the last probe was.
    fn week(&mut self, known: &PaperInput<'_>) -> &ProbeWeek {
        let (count, fitted) = (self.count(known), known.fitted);
        let last = known.last.as_millis();
        let begins = Timestamp::from_millis(last - last.rem_euclid(WEEK.as_millis()));
        let is_current =
            |week: &ProbeWeek| (week.fitted, week.begins, week.count) == (fitted, begins, count);
        let current = self.week.take().filter(is_current);
        self.week.insert(current.unwrap_or_else(|| {
            let probes = RateSums::of(known.rate, begins).place(count);
            ProbeWeek { fitted, begins, count, probes }
        }))
    }
}

impl PaperSchedule for SiaCho {
    /// The next probe of the week. One that is nearer to the last probe than to its own neighbour is left
    /// out: after a fit, it is the last probe at a slightly different place.
    fn next(&mut self, known: &PaperInput<'_>) -> Option<Timestamp> {
        let last = known.last;
        let week = self.week(known);
        let into = (last - week.begins).as_secs_f64() / 3600.0;
        let count = week.probes.len();
        let at = |index: usize| week.probes[index % count] + (index / count) as f64 * WEEK_HOURS;
        let mut index = week.probes.partition_point(|&probe| probe <= into);
        // Counted from a week before, so that the first has a neighbour.
        let gap = |index: usize| at(index + count) - at(index + count - 1);
        if at(index) - into < 0.5 * gap(index) {
            index += 1;
        }
        Some(week.begins + hours(at(index)))
    }
}

/// λ of one week as steps, with its integral, both continued periodically.
struct RateSums {
    /// The end of each step, in hours into the week.
    ends: Vec<f64>,
    /// λ in each step.
    per_hour: Vec<f64>,
    /// ∫λ up to the end of each step.
    sums: Vec<f64>,
}

impl RateSums {
    /// The week from `begins` on.
    fn of(rate: &Rate, begins: Timestamp) -> Self {
        Self::new(Steps::from(rate).over(begins, begins + WEEK).into_iter().map(|(end_ms, per_hour)| {
            let end = end_ms as f64 / 3_600_000.0;
            (end, per_hour)
        }))
    }

    fn new(steps: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let (ends, per_hour): (Vec<f64>, Vec<f64>) = steps.into_iter().unzip();
        let mut sum = 0.0;
        let mut from = 0.0;
        let sums = ends.iter().zip(&per_hour).map(|(&end, &value)| {
            sum += value * (end - from);
            from = end;
            sum
        });
        let sums = sums.collect();
        Self { ends, per_hour, sums }
    }

    /// The start of a step.
    fn start(&self, step: usize) -> f64 {
        step.checked_sub(1).map_or(0.0, |before| self.ends[before])
    }

    /// The step that contains this time of the week.
    fn step(&self, into: f64) -> usize {
        self.ends.partition_point(|&end| end <= into).min(self.ends.len() - 1)
    }

    /// ∫λ from the week's beginning to any time.
    fn sum(&self, at: f64) -> f64 {
        let (weeks, into) = ((at / WEEK_HOURS).floor(), at.rem_euclid(WEEK_HOURS));
        let step = self.step(into);
        let total = self.sums.last().copied().unwrap_or(0.0);
        weeks * total + self.sums[step] - self.per_hour[step] * (self.ends[step] - into)
    }

    /// The places of `count` probes, at least two.
    fn place(&self, count: usize) -> Vec<f64> {
        let mut probes = self.by_roots(count.max(2));
        let count = probes.len();
        for _ in 0..ROUNDS {
            let mut largest = 0.0_f64;
            for index in 0..count {
                let left = match index {
                    0 => probes[count - 1] - WEEK_HOURS,
                    _ => probes[index - 1],
                };
                let right = match index + 1 {
                    next if next == count => probes[0] + WEEK_HOURS,
                    next => probes[next],
                };
                let best = self.best_between(left, probes[index], right);
                largest = largest.max((best - probes[index]).abs());
                probes[index] = best;
            }
            if largest < STILL {
                break;
            }
        }
        probes.iter_mut().for_each(|probe| *probe = probe.rem_euclid(WEEK_HOURS));
        probes.sort_unstable_by(f64::total_cmp);
        probes
    }

    /// The first approximation: probes as dense as √λ, evenly without any rate.
    fn by_roots(&self, count: usize) -> Vec<f64> {
        let steps = || {
            let step = |index: usize| (self.start(index), self.ends[index], self.per_hour[index].sqrt());
            (0..self.ends.len()).map(step)
        };
        let total: f64 = steps().map(|(start, end, root)| root * (end - start)).sum();
        let share = |index: usize| (index as f64 + 0.5) / count as f64;
        if total <= 0.0 {
            return (0..count).map(|index| share(index) * WEEK_HOURS).collect();
        }
        let mut probes = Vec::with_capacity(count);
        let mut sum = 0.0;
        for (start, end, root) in steps() {
            let until = sum + root * (end - start);
            while probes.len() < count && share(probes.len()) * total <= until && root > 0.0 {
                probes.push(start + (share(probes.len()) * total - sum) / root);
            }
            sum = until;
        }
        // Rounding may leave the last ones.
        probes.resize(count, WEEK_HOURS);
        probes
    }

    /// The place of a probe between its neighbours that saves most delay: it saves
    /// ∫λ over (left, τ) times (right − τ). Within a step the best place solves the equation.
    fn best_between(&self, left: f64, present: f64, right: f64) -> f64 {
        let before = self.sum(left);
        let saved = |at: f64| (self.sum(at) - before) * (right - at);
        let mut best = (present, saved(present) * (1.0 + 1e-12));
        let mut from = left;
        while from < right {
            let into = from.rem_euclid(WEEK_HOURS);
            let step = self.step(into);
            // At least a little, so that rounding does not stop it.
            let until = (from + (self.ends[step] - into).max(1e-9)).min(right);
            let rate = self.per_hour[step];
            let solved = 0.5 * (from + right - (self.sum(from) - before) / rate);
            let inside = Some(solved).filter(|solved| (from..until).contains(solved));
            for at in inside.into_iter().chain([until]) {
                let value = saved(at);
                if value > best.1 {
                    best = (at, value);
                }
            }
            from = until;
        }
        best.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// λ just before and after a time of the week.
    fn sides(rate: &RateSums, at: f64) -> (f64, f64) {
        let value = |at: f64| rate.per_hour[rate.step(at.rem_euclid(WEEK_HOURS))];
        (value(at - 1e-6), value(at + 1e-6))
    }

    /// Checks the equation at every probe; at a step down, that both sides enclose it.
    fn check(rate: &RateSums, probes: &[f64], tolerance: f64) {
        let count = probes.len();
        let at = |index: usize| probes[index % count] + (index / count) as f64 * WEEK_HOURS;
        for index in count..2 * count {
            let (before, now, after) = (at(index - 1), at(index), at(index + 1));
            let expected = rate.sum(now) - rate.sum(before);
            let (left, right) = sides(rate, now);
            let (most, least) = (left.max(right) * (after - now), left.min(right) * (after - now));
            let rounding = tolerance * expected.max(most) + 1e-9;
            assert!(
                least - rounding <= expected && expected <= most + rounding,
                "{now}: {expected} not in {least}..{most}"
            );
            assert!(left >= right, "a probe at a step up: {now}");
        }
    }

    fn day_and_night(day: f64, night: f64) -> RateSums {
        let days = (0..7).map(f64::from);
        RateSums::new(
            days.flat_map(|n| [(24.0 * n + 9.0, night), (24.0 * n + 18.0, day), (24.0 * n + 24.0, night)]),
        )
    }

    #[test]
    fn rate_follows_the_root_and_its_saved_delay_equals_the_price() {
        assert!((probe_rate(2.0, 1.0) - 1.0).abs() < 1e-12);
        assert!((probe_rate(8.0, 1.0) / probe_rate(2.0, 1.0) - 2.0).abs() < 1e-12);
        let (change_rate, price) = (0.3, 0.02);
        let delay = |rate: f64| change_rate / (2.0 * rate);
        let rate = probe_rate(change_rate, price);
        let step = rate * 1e-4;
        let saved = (delay(rate - step) - delay(rate + step)) / (2.0 * step);
        assert!((saved / price - 1.0).abs() < 1e-6, "{saved}");
    }

    #[test]
    fn constant_rate_gives_even_gaps() {
        let probes = RateSums::new([(WEEK_HOURS, 0.7)]).place(12);
        for pair in probes.windows(2) {
            assert!((pair[1] - pair[0] - 14.0).abs() < 0.01, "{probes:?}");
        }
        assert_eq!(RateSums::new([(WEEK_HOURS, 0.0)]).place(7).len(), 7);
    }

    #[test]
    fn equation_holds_for_a_day_and_night_rate() {
        for count in [7, 14, 28, 56] {
            let rate = day_and_night(1.0, 0.1);
            let probes = rate.place(count);
            assert_eq!(probes.len(), count);
            check(&rate, &probes, 1e-3);
        }
        // One probe a day at a rate by day alone: it is at the end of the day.
        let probes = day_and_night(1.0, 0.0).place(7);
        for (day, probe) in probes.iter().enumerate() {
            assert!((probe - (24.0 * day as f64 + 18.0)).abs() < 0.01, "{probes:?}");
        }
    }

    #[test]
    fn first_probe_after_a_fit_is_not_the_last_one_again() {
        let rate = Rate::constant(1.0);
        let price = 1.0 / 32.0;
        // Four an hour: 15 minutes apart.
        let mut rule = SiaCho::new(price);
        let least_gap = Span::ZERO;
        let begins = Timestamp::from_millis(10 * WEEK.as_millis());
        let next = |rule: &mut SiaCho, last: Timestamp| {
            rule.next(&PaperInput { last, rate: &rate, fitted: begins, least_gap }).unwrap()
        };
        let first = next(&mut rule, begins);
        let second = next(&mut rule, first);
        let gap = second - first;
        assert!((gap.as_secs_f64() - 900.0).abs() < 5.0, "{gap}");
        // A minute early: the probe at `second` is the same one. Ten minutes early: it is another.
        assert!(next(&mut rule, second - Span::from_mins(1)) > second + Span::from_mins(10));
        assert_eq!(next(&mut rule, second - Span::from_mins(10)), second);
        // At the end of the week the schedule goes on.
        let last = begins + WEEK - Span::from_mins(1);
        assert!(next(&mut rule, last) - last < Span::from_mins(24));
        // The limit and the daily probe bound the number.
        let known = |least_gap: Span| PaperInput { last: begins, rate: &rate, fitted: begins, least_gap };
        assert_eq!(rule.count(&known(Span::from_mins(30))), 336);
        assert_eq!(SiaCho::new(1e9).count(&known(Span::ZERO)), 7);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equation_holds_for_stepwise_rates(
            values in prop::collection::vec(0.05_f64..4.0, 1..12),
            count in 2_usize..30,
        ) {
            let length = WEEK_HOURS / values.len() as f64;
            let steps = values.iter().enumerate();
            let rate = RateSums::new(steps.map(|(index, &value)| {
                let end = if index + 1 == values.len() { WEEK_HOURS } else { (index + 1) as f64 * length };
                (end, value)
            }));
            let probes = rate.place(count);
            prop_assert_eq!(probes.len(), count);
            prop_assert!(probes.is_sorted());
            // A rate with hardly any shape moves all probes together, slowly.
            check(&rate, &probes, 1e-2);
        }
    }
}
