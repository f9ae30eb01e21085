//! The predicted rate ahead from the mix of predictors.
//!
//! Builds each periodic predictor as a table of minutes once, instead of evaluating all updates at every
//! minute. The effect of an update on a self-exciting predictor decays, but triggered updates trigger
//! others. The expected rate S_k of predictor k, with mean delay β_k and share ρ_k, follows
//!
//! dS_k/dt = −S_k/β_k + (ρ_k/β_k)·λ(t), λ(t) = λ_0(t) + Σ S_k,
//!
//! where λ_0 is the rate of all other predictors. The implicit Euler method solves it piece by piece and is
//! stable for pieces of any length.

use jiff::tz::TimeZone;

use crate::model::steps::Steps;
use crate::model::week::{local_millis, stretches};
use crate::time::{Span, Timestamp};

use super::mixture::{FADED, MOST_TRIGGERED, PredictorMix};
use super::predictors::{ANYWHEN, PREDICTORS, Periodic, Predictor, PredictorMemory};
use super::regular::{Regularity, Stages};
use super::update_times::UpdateTimes;

const MINUTE_MS: i64 = 60_000;
const HOUR: usize = 60;
const DAY: usize = 1440;
const WEEK: usize = 7 * DAY;
const WORKING_DAYS: usize = 5;

/// Predictors with a smaller weight are omitted.
const WORTH_IT: f32 = 0.004;

/// Upper bound on the time since the last update.
const LONGEST_PAST: Span = Span::from_days(35);

/// Updates per hour by the source's local time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tables {
    flat: f64,
    /// The factor on the weekly rate, by minute of the hour.
    hour: CyclicPredictor<HOUR>,
    week: CyclicPredictor<WEEK>,
}

/// Values by minute of a cycle, as prefix sums, so that a mean takes two of them.
#[derive(Debug, Clone, PartialEq)]
struct CyclicPredictor<const CYCLE: usize> {
    sums: Vec<f64>,
}

impl<const CYCLE: usize> CyclicPredictor<CYCLE> {
    fn new(values: &[f64]) -> Self {
        debug_assert_eq!(values.len(), CYCLE);
        let mut sum = 0.0;
        let sums = std::iter::once(0.0).chain(values.iter().map(|value| {
            sum += value;
            sum
        }));
        Self { sums: sums.collect() }
    }

    /// The sum over these minutes, which may span several cycles.
    fn between(&self, minutes: &std::ops::Range<i64>) -> f64 {
        let cycle = CYCLE as i64;
        let start = minutes.start.rem_euclid(cycle);
        // Counted from the cycle of the start, which preserves precision.
        let mut end = start + (minutes.end - minutes.start);
        let mut rounds = 0;
        if end > cycle {
            (rounds, end) = (end / cycle, end % cycle);
        }
        rounds as f64 * self.sums[CYCLE] + self.sums[end as usize] - self.sums[start as usize]
    }
}

/// The values from which tables are built.
struct Values {
    flat: f64,
    hour: Vec<f64>,
    /// Working days and weekends.
    days: [Vec<f64>; 2],
    week: Vec<f64>,
}

/// The resolution of a predicted rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// Length of the pieces, at least a minute …
    pub fine: Span,
    /// … and the length from a later time on.
    pub coarser: Option<(Timestamp, Span)>,
}

impl Detail {
    /// Minute by minute.
    pub const MINUTES: Self = Self { fine: Span::from_mins(1), coarser: None };
}

/// The prediction from the updates of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateForecast {
    update_times: UpdateTimes,
    habits: PredictorMix,
    tables: Tables,
}

impl UpdateForecast {
    /// From the last updates and their mix of predictors as of `now`; valid for a few hours.
    pub fn new(update_times: UpdateTimes, habits: PredictorMix, zone: &TimeZone, now: Timestamp) -> Self {
        let tables = Tables::new(&update_times, &habits, zone, now);
        Self { update_times, habits, tables }
    }

    /// The pieces of the rate over [from, until), as [`Steps::over`] returns them, as of `now`. `rhythm` is
    /// the weekly rate.
    pub fn over(
        &self,
        rhythm: &Steps,
        now: Timestamp,
        (from, until): (Timestamp, Timestamp),
        detail: Detail,
    ) -> Vec<(i64, f64)> {
        let tables = &self.tables;
        let minutes = |length: Span| (length.as_millis() / MINUTE_MS).max(1);
        let fine = minutes(detail.fine);
        let coarse_from = detail.coarser.map_or(i64::MAX, |(at, _)| (at - from).as_millis());
        let coarse = detail.coarser.map_or(fine, |(_, length)| minutes(length).max(fine));
        let rhythms = rhythm.over(from, until);
        let mut rhythm_at = 0;
        let (mut ahead, mut passed) = (Vec::new(), 0);
        for (start, end) in stretches(rhythm.zone(), from, until) {
            let mut local = start;
            while local < end {
                let minute = local.div_euclid(MINUTE_MS);
                let length = if passed >= coarse_from { coarse } else { fine };
                let next = (minute.div_euclid(length) + 1) * length;
                let next = (next * MINUTE_MS).min(end);
                passed += next - local;
                while rhythms[rhythm_at].0 < passed && rhythm_at + 1 < rhythms.len() {
                    rhythm_at += 1;
                }
                let minutes = minute..next.div_euclid(MINUTE_MS).max(minute + 1);
                ahead.push((passed, tables.mean(minutes, rhythms[rhythm_at].1)));
                local = next;
            }
        }
        self.pace(&mut ahead, rhythm, from);
        self.add_triggered(&mut ahead, now, from);
        ahead
    }

    /// Applies the renewal correction since the last update known at `from`.
    fn pace(&self, ahead: &mut [(i64, f64)], rhythm: &Steps, from: Timestamp) {
        if self.habits.regularity == Regularity::NONE {
            return;
        }
        let Some(last) = self.update_times.entries().map(|entry| entry.at).rfind(|&at| at <= from) else {
            return;
        };
        let since = self.tables.expected(rhythm, &[last.max(from - LONGEST_PAST), from]);
        let mut stages = Stages::after(self.habits.regularity, since.first().copied().unwrap_or(0.0));
        let mut before = 0;
        for (end, rate) in ahead {
            let passed = (*end - before) as f64 / 3_600_000.0;
            before = *end;
            *rate *= stages.go_on(*rate * passed);
        }
    }

    /// Adds the updates triggered by the last updates, and those triggered by them in turn.
    fn add_triggered(&self, ahead: &mut [(i64, f64)], now: Timestamp, from: Timestamp) {
        let triggered = self.habits.triggered_per_update();
        if triggered <= f64::from(WORTH_IT) {
            return;
        }
        // Upper bound on the triggered updates per update, so that the process is stable.
        let kept = (MOST_TRIGGERED / triggered).min(1.0);
        let hours = |span: Span| span.as_secs_f64() / 3600.0;
        let mut self_exciting: Vec<SelfExciting> = Vec::new();
        for (predictor, &share) in PREDICTORS.iter().zip(&self.habits.shares) {
            if let Predictor::SelfExciting(mean) = predictor {
                let (mean, share) = (f64::from(*mean) / 60.0, f64::from(share) * kept);
                let ages = self.update_times.entries().rev().map(|entry| hours(now - entry.at) / mean);
                // Older updates have no effect.
                let ages = ages.skip_while(|&age| age < 0.0).take_while(|&age| age < FADED);
                let excited = ages.map(|age| (-age).exp() / mean).sum::<f64>();
                self_exciting.push(SelfExciting {
                    mean,
                    share,
                    rate: share * excited,
                    stays: 1.0,
                    brings: 0.0,
                });
            }
        }
        let mut before = (now - from).as_millis().max(0);
        let mut length = 0;
        for (end, rate) in ahead {
            let passed = (*end - before).max(0);
            before = before.max(*end);
            // Most pieces have the length of the previous one.
            if std::mem::replace(&mut length, passed) != passed {
                self_exciting.iter_mut().for_each(|one| one.lasts(hours(Span::from_millis(passed))));
            }
            let left = self_exciting.iter().map(|one| one.rate * one.stays).sum::<f64>();
            let brought = self_exciting.iter().map(|one| one.brings).sum::<f64>();
            let all = (*rate + left) / (1.0 - brought);
            self_exciting.iter_mut().for_each(|one| one.rate = one.rate * one.stays + one.brings * all);
            *rate = all;
        }
    }
}

/// State of one self-exciting predictor.
struct SelfExciting {
    /// β, in hours.
    mean: f64,
    /// ρ.
    share: f64,
    /// S.
    rate: f64,
    /// The factor on S over a piece …
    stays: f64,
    /// … and the increase of S per update per hour within it.
    brings: f64,
}

impl SelfExciting {
    /// Sets the factors for pieces of `passed` hours.
    fn lasts(&mut self, passed: f64) {
        self.stays = self.mean / (self.mean + passed);
        self.brings = self.share * passed / (self.mean + passed);
    }
}

impl Tables {
    /// From the updates known at `now`.
    pub fn new(update_times: &UpdateTimes, habits: &PredictorMix, zone: &TimeZone, now: Timestamp) -> Self {
        let shares = &habits.shares;
        let mut tables = Values {
            flat: 0.0,
            hour: vec![f64::from(shares[0]); HOUR],
            days: [vec![0.0; DAY], vec![0.0; DAY]],
            week: vec![0.0; WEEK],
        };
        let Some(since) = update_times.since() else { return tables.tables() };
        let days = (now - since).as_secs_f64() / 86_400.0;
        let entries = || update_times.entries().filter(|entry| entry.at <= now);
        for memory in PredictorMemory::ALL {
            let of = |predictor: &&(usize, &Predictor)| match predictor.1 {
                Predictor::Level(m) | Predictor::Periodic(_, _, m) => {
                    *m == memory && shares[predictor.0] >= WORTH_IT
                }
                _ => false,
            };
            let predictors: Vec<(usize, &Predictor)> = PREDICTORS.iter().enumerate().collect();
            let used: Vec<&(usize, &Predictor)> = predictors.iter().filter(of).collect();
            if used.is_empty() {
                continue;
            }
            // Ascending, so that the updates within half a period are at the end.
            let weights: Vec<(Timestamp, usize, f64)> = entries()
                .map(|entry| {
                    let minute = local_millis(zone, entry.at).div_euclid(MINUTE_MS);
                    let of_week = minute.rem_euclid(WEEK as i64) as usize;
                    (entry.at, of_week, memory.weight(entry.at, now))
                })
                .collect();
            let total: f64 = weights.iter().map(|&(.., weight)| weight).sum();
            let exposure = memory.exposure_days(days);
            let level = (total + 0.5) / (exposure * 24.0 + 1.0);
            for &&(index, predictor) in &used {
                let share = f64::from(shares[index]);
                match *predictor {
                    Predictor::Level(_) => tables.flat += share * level,
                    Predictor::Periodic(periodic, width, _) => {
                        tables.flat += share * ANYWHEN * level;
                        let share = share * (1.0 - ANYWHEN);
                        let near = now - Span::from_millis(periodic.period_ms() / 2);
                        let far = &weights[..weights.partition_point(|&(at, ..)| at <= near)];
                        let far: Vec<(usize, f64)> =
                            far.iter().map(|&(_, at, weight)| (at, weight)).collect();
                        tables.add_periodic(
                            periodic,
                            width,
                            share,
                            &far,
                            periodic.exposure_days(memory, days),
                        );
                    }
                    Predictor::Rhythm | Predictor::SelfExciting(_) => {}
                }
            }
        }
        tables.tables()
    }

    /// The expected updates from each of these times to the next, without self-exciting predictors.
    pub fn expected(&self, rhythm: &Steps, times: &[Timestamp]) -> Vec<f64> {
        let (Some(&first), Some(&last)) = (times.first(), times.last()) else { return Vec::new() };
        let ends: Vec<i64> = times[1..].iter().map(|&at| (at - first).as_millis()).collect();
        let mut sums = vec![0.0; ends.len()];
        let rhythms = rhythm.over(first, last);
        let (mut passed, mut piece, mut gap) = (0, 0, 0);
        for (start, end) in stretches(rhythm.zone(), first, last) {
            let mut local = start;
            while local < end {
                while rhythms[piece].0 <= passed && piece + 1 < rhythms.len() {
                    piece += 1;
                }
                while ends[gap] <= passed && gap + 1 < ends.len() {
                    gap += 1;
                }
                let step = (rhythms[piece].0.min(ends[gap]) - passed).min(end - local).max(1);
                let minute = local.div_euclid(MINUTE_MS);
                let minutes = minute..(local + step).div_euclid(MINUTE_MS).max(minute + 1);
                sums[gap] += self.mean(minutes, rhythms[piece].1) * step as f64 / 3_600_000.0;
                (local, passed) = (local + step, passed + step);
            }
        }
        sums
    }

    /// The mean over these local minutes.
    fn mean(&self, minutes: std::ops::Range<i64>, rhythm: f64) -> f64 {
        let sum = self.week.between(&minutes) + rhythm * self.hour.between(&minutes);
        // Clamped because rounding could make it negative.
        self.flat + sum.max(0.0) / (minutes.end - minutes.start) as f64
    }
}

impl Values {
    fn tables(mut self) -> Tables {
        for (number, day) in self.week.chunks_exact_mut(DAY).enumerate() {
            add(day, 1.0, &self.days[usize::from(number >= WORKING_DAYS)]);
        }
        Tables {
            flat: self.flat,
            hour: CyclicPredictor::new(&self.hour),
            week: CyclicPredictor::new(&self.week),
        }
    }

    /// Adds a periodic predictor from updates at these minutes of the week.
    fn add_periodic(
        &mut self,
        periodic: Periodic,
        width: u16,
        share: f64,
        weights: &[(usize, f64)],
        exposure: f64,
    ) {
        let width = usize::from(width);
        match periodic {
            Periodic::Hour => {
                let total: f64 = weights.iter().map(|&(_, weight)| weight).sum();
                if total <= 0.0 {
                    self.hour.iter_mut().for_each(|sum| *sum += share);
                    return;
                }
                let near = spread(HOUR, weights.iter().map(|&(at, weight)| (at % HOUR, weight)), width);
                add(&mut self.hour, share / total, &near);
            }
            Periodic::Day => {
                let near = spread(DAY, weights.iter().map(|&(at, weight)| (at % DAY, weight)), width);
                self.days.iter_mut().for_each(|day| add(day, share / exposure, &near));
            }
            Periodic::WorkWeek => {
                for (weekend, periods) in [(false, 5.0 / 7.0), (true, 2.0 / 7.0)] {
                    let alike = weights.iter().filter(|&&(at, _)| (at / DAY >= WORKING_DAYS) == weekend);
                    let near = spread(DAY, alike.map(|&(at, weight)| (at % DAY, weight)), width);
                    add(&mut self.days[usize::from(weekend)], share / (exposure * periods), &near);
                }
            }
            Periodic::Week => {
                let near = spread(WEEK, weights.iter().copied(), width);
                add(&mut self.week, share * 7.0 / exposure, &near);
            }
        }
    }
}

/// Adds `times` times these values.
fn add(to: &mut [f64], times: f64, values: &[f64]) {
    to.iter_mut().zip(values).for_each(|(sum, value)| *sum += times * value);
}

/// Triangular kernels of this width around these minutes of a cycle, in shares per hour.
fn spread(cycle: usize, at: impl Iterator<Item = (usize, f64)>, width: usize) -> Vec<f64> {
    let mut sums = vec![0.0; cycle];
    for (minute, weight) in at {
        sums[minute] += weight;
    }
    // A triangle is the convolution of two uniform kernels.
    let half = width / 2;
    let wide = 2 * half + 1;
    let even = |from: &[f64], times: f64| -> Vec<f64> {
        let mut sum: f64 = (0..wide).map(|k| from[(cycle + k - half) % cycle]).sum();
        let around = |first: usize| from[first..].iter().chain(&from[..first]);
        let moves = around((half + 1) % cycle).zip(around((cycle - half) % cycle));
        moves
            .map(|(comes, goes)| {
                let mean = sum.max(0.0) * times;
                sum += comes - goes;
                mean
            })
            .collect()
    };
    let mean = (wide as f64).recip();
    even(&even(&sums, mean), 60.0 * mean)
}
