//! The rate ahead, by what is believed of a source's habits.
//!
//! Builds each comb that counts as a table of minutes, once, instead of asking the diary at every
//! minute. An echo fades as what it echoes recedes, but what it brings about has echoes too: the rate
//! S_k that is to be expected of the echo k, of mean delay β_k and share ρ_k, follows
//!
//! dS_k/dt = −S_k/β_k + (ρ_k/β_k)·λ(t), λ(t) = λ_0(t) + Σ S_k,
//!
//! where λ_0 is what all other accounts say. That is solved piece by piece, by Euler's implicit rule,
//! which no piece is too long for.

use jiff::tz::TimeZone;

use crate::model::steps::Steps;
use crate::model::week::{local_millis, stretches};
use crate::time::{Span, Timestamp};

use super::diary::UpdateTimes;
use super::mixture::PredictorMix;
use super::predictors::{ACCOUNTS, ANYWHEN, Periodic, Predictor, PredictorMemory};
use super::regular::{Regularity, Stages};

const MINUTE_MS: i64 = 60_000;
const HOUR: usize = 60;
const DAY: usize = 1440;
const WEEK: usize = 7 * DAY;
const WORKING_DAYS: usize = 5;

/// An account that is believed less than this is left out.
const WORTH_IT: f32 = 0.004;

/// However much echoes, it dies away.
const MOST_ECHOING: f64 = 0.9;

/// Nothing is left of an echo after so many times its mean delay.
const FADED: f64 = 40.0;

/// What has been expected for longer than this has been expected long enough.
const LONGEST_PAST: Span = Span::from_days(35);

/// Updates per hour, of the source's local time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tables {
    flat: f64,
    /// What the rhythm counts, by minute of the hour.
    hour: CyclicPredictor<HOUR>,
    week: CyclicPredictor<WEEK>,
}

/// Values by the minute of a cycle, as sums from its beginning, so that a mean takes two of them.
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

    /// The sum over these minutes, which may be of several rounds.
    fn between(&self, minutes: &std::ops::Range<i64>) -> f64 {
        let cycle = CYCLE as i64;
        let start = minutes.start.rem_euclid(cycle);
        // From the round in which it begins, so that no digits are lost to those before.
        let mut end = start + (minutes.end - minutes.start);
        let mut rounds = 0;
        if end > cycle {
            (rounds, end) = (end / cycle, end % cycle);
        }
        rounds as f64 * self.sums[CYCLE] + self.sums[end as usize] - self.sums[start as usize]
    }
}

/// Tables in the making: the values themselves.
struct Values {
    flat: f64,
    hour: Vec<f64>,
    /// Of working days, and of weekends.
    days: [Vec<f64>; 2],
    week: Vec<f64>,
}

/// How finely a rate ahead is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// In pieces of about this length, a minute at least …
    pub fine: Span,
    /// … and from then on of that.
    pub coarser: Option<(Timestamp, Span)>,
}

impl Detail {
    /// Minute by minute.
    pub const MINUTES: Self = Self { fine: Span::from_mins(1), coarser: None };
}

/// What a source's updates so far foretell.
#[derive(Debug, Clone, PartialEq)]
pub struct Foresight {
    diary: UpdateTimes,
    habits: PredictorMix,
    tables: Tables,
}

impl Foresight {
    /// By its last updates and what is believed of them, as of `now`; it may be asked for a few hours.
    pub fn new(diary: UpdateTimes, habits: PredictorMix, zone: &TimeZone, now: Timestamp) -> Self {
        let tables = Tables::new(&diary, &habits, zone, now);
        Self { diary, habits, tables }
    }

    /// The pieces of the rate over [from, until), as [`Steps::over`] gives them, by what is known at
    /// `now`; `rhythm` is the weekly rate.
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
        self.echo(&mut ahead, now, from);
        ahead
    }

    /// Has regular updates wait for their time since the last that was known at `from`.
    fn pace(&self, ahead: &mut [(i64, f64)], rhythm: &Steps, from: Timestamp) {
        if self.habits.regularity == Regularity::NONE {
            return;
        }
        let Some(last) = self.diary.entries().map(|entry| entry.at).rfind(|&at| at <= from) else { return };
        let since = self.tables.expected(rhythm, &[last.max(from - LONGEST_PAST), from]);
        let mut stages = Stages::after(self.habits.regularity, since.first().copied().unwrap_or(0.0));
        let mut before = 0;
        for (end, rate) in ahead {
            let passed = (*end - before) as f64 / 3_600_000.0;
            before = *end;
            *rate *= stages.go_on(*rate * passed);
        }
    }

    /// Adds what the last updates bring about, and what that brings about in turn.
    fn echo(&self, ahead: &mut [(i64, f64)], now: Timestamp, from: Timestamp) {
        let echoing = self.habits.echoing();
        if echoing <= f64::from(WORTH_IT) {
            return;
        }
        // However much echoes, it dies away.
        let kept = (MOST_ECHOING / echoing).min(1.0);
        let hours = |span: Span| span.as_secs_f64() / 3600.0;
        let mut echoes: Vec<SelfExciting> = Vec::new();
        for (account, &share) in ACCOUNTS.iter().zip(&self.habits.shares) {
            if let Predictor::Echo(mean) = account {
                let (mean, share) = (f64::from(*mean) / 60.0, f64::from(share) * kept);
                let ages = self.diary.entries().rev().map(|entry| hours(now - entry.at) / mean);
                // What is older has faded to nothing.
                let ages = ages.skip_while(|&age| age < 0.0).take_while(|&age| age < FADED);
                let excited = ages.map(|age| (-age).exp() / mean).sum::<f64>();
                echoes.push(SelfExciting { mean, share, rate: share * excited, stays: 1.0, brings: 0.0 });
            }
        }
        let mut before = (now - from).as_millis().max(0);
        let mut length = 0;
        for (end, rate) in ahead {
            let passed = (*end - before).max(0);
            before = before.max(*end);
            // Most pieces are as long as the one before.
            if std::mem::replace(&mut length, passed) != passed {
                echoes.iter_mut().for_each(|echo| echo.lasts(hours(Span::from_millis(passed))));
            }
            let left = echoes.iter().map(|echo| echo.rate * echo.stays).sum::<f64>();
            let brought = echoes.iter().map(|echo| echo.brings).sum::<f64>();
            let all = (*rate + left) / (1.0 - brought);
            echoes.iter_mut().for_each(|echo| echo.rate = echo.rate * echo.stays + echo.brings * all);
            *rate = all;
        }
    }
}

/// One echo on its way ahead.
struct SelfExciting {
    /// β, in hours.
    mean: f64,
    /// ρ.
    share: f64,
    /// S.
    rate: f64,
    /// What stays of S over a piece …
    stays: f64,
    /// … and what each update an hour within it adds.
    brings: f64,
}

impl SelfExciting {
    /// For pieces of so many hours.
    fn lasts(&mut self, passed: f64) {
        self.stays = self.mean / (self.mean + passed);
        self.brings = self.share * passed / (self.mean + passed);
    }
}

impl Tables {
    /// By what is known at `now`.
    pub fn new(diary: &UpdateTimes, habits: &PredictorMix, zone: &TimeZone, now: Timestamp) -> Self {
        let shares = &habits.shares;
        let mut tables = Values {
            flat: 0.0,
            hour: vec![f64::from(shares[0]); HOUR],
            days: [vec![0.0; DAY], vec![0.0; DAY]],
            week: vec![0.0; WEEK],
        };
        let Some(since) = diary.since() else { return tables.tables() };
        let days = (now - since).as_secs_f64() / 86_400.0;
        let entries = || diary.entries().filter(|entry| entry.at <= now);
        for memory in PredictorMemory::ALL {
            let of = |account: &&(usize, &Predictor)| match account.1 {
                Predictor::Level(m) | Predictor::Comb(_, _, m) => {
                    *m == memory && shares[account.0] >= WORTH_IT
                }
                _ => false,
            };
            let accounts: Vec<(usize, &Predictor)> = ACCOUNTS.iter().enumerate().collect();
            let used: Vec<&(usize, &Predictor)> = accounts.iter().filter(of).collect();
            if used.is_empty() {
                continue;
            }
            // Ascending, so that what is too near for a comb is at the end.
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
            for &&(index, account) in &used {
                let share = f64::from(shares[index]);
                match *account {
                    Predictor::Level(_) => tables.flat += share * level,
                    Predictor::Comb(comb, width, _) => {
                        tables.flat += share * ANYWHEN * level;
                        let share = share * (1.0 - ANYWHEN);
                        let near = now - Span::from_millis(comb.period_ms() / 2);
                        let far = &weights[..weights.partition_point(|&(at, ..)| at <= near)];
                        let far: Vec<(usize, f64)> =
                            far.iter().map(|&(_, at, weight)| (at, weight)).collect();
                        tables.add_comb(comb, width, share, &far, comb.exposure_days(memory, days));
                    }
                    Predictor::Rhythm | Predictor::Echo(_) => {}
                }
            }
        }
        tables.tables()
    }

    /// How many updates were to be expected from each of these times to the next, echoes aside.
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
        // Rounding of sums must not make a rate negative.
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

    /// Adds the comb of updates at these minutes of the week.
    fn add_comb(
        &mut self,
        comb: Periodic,
        width: u16,
        share: f64,
        weights: &[(usize, f64)],
        exposure: f64,
    ) {
        let width = usize::from(width);
        match comb {
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

/// Adds so many times these values.
fn add(to: &mut [f64], times: f64, values: &[f64]) {
    to.iter_mut().zip(values).for_each(|(sum, value)| *sum += times * value);
}

/// Triangles of this width around these minutes of a cycle, in parts per hour.
fn spread(cycle: usize, at: impl Iterator<Item = (usize, f64)>, width: usize) -> Vec<f64> {
    let mut sums = vec![0.0; cycle];
    for (minute, weight) in at {
        sums[minute] += weight;
    }
    // A triangle is an even spread of an even spread.
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
