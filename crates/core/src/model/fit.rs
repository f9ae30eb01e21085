//! Fits a rate to evidence: the number of segments it supports, and the rate in each.
//!
//! Maximum likelihood per segment is updates/exposure (Eckstein, Gal, Reiner §5.1). Here exposure is
//! measured in updates that a *prior* expects (a level with a shape, flat or from a group). So the rate of a
//! segment is the prior times (a + updates)/(a + expected): the Gamma posterior mean. Penalised likelihood
//! determines which hours share a factor, exactly, by dynamic programming over the hours. The candidates are
//! no cycle, a day, a week of working days and weekends, and a full week; the best one is the fit.
//!
//! Two properties of real sources are built in. Updates cluster, so evidence is divided by the clumping
//! first. Update times shift, by an hour when clocks change, or entirely. So a share of every rate is moved
//! to the adjacent hours, and a share is spread over the whole week.

use jiff::tz::TimeZone;

use super::cyclic::{DAY_S, Rate};
use super::history::{CELLS, WeeklyEvidence};

/// The cycle of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cycle {
    /// Nothing: one rate.
    None,
    /// Every day is alike.
    Day,
    /// Monday to Friday are alike, and so are Saturday and Sunday.
    WorkWeek,
    /// Each day of the week is its own.
    Week,
}

impl Cycle {
    /// Every cycle, simplest first.
    pub const ALL: [Self; 4] = [Self::None, Self::Day, Self::WorkWeek, Self::Week];

    /// The displayed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Day => "day",
            Self::WorkWeek => "work week",
            Self::Week => "week",
        }
    }

    /// The profile of each day.
    fn days(self) -> [u8; 7] {
        match self {
            Self::None | Self::Day => [0; 7],
            Self::WorkWeek => [0, 0, 0, 0, 0, 1, 1],
            Self::Week => [0, 1, 2, 3, 4, 5, 6],
        }
    }

    fn bins(self) -> usize {
        match self {
            Self::None => 1,
            Self::Day => 24,
            Self::WorkWeek => 48,
            Self::Week => CELLS,
        }
    }

    fn bin(self, cell: usize) -> usize {
        match self {
            Self::None => 0,
            _ => usize::from(self.days()[cell / 24]) * 24 + cell % 24,
        }
    }
}

/// The prior: a rate per hour for each hour of the week.
#[derive(Debug, Clone, PartialEq)]
pub struct WeeklyPrior {
    /// Updates per hour, by hour of the local week.
    pub per_hour: Vec<f64>,
}

impl WeeklyPrior {
    /// The same rate at all hours.
    pub fn flat(level: f64) -> Self {
        Self { per_hour: vec![level.max(LEAST_RATE); CELLS] }
    }

    /// A level times a shape with mean 1.
    pub fn shaped(level: f64, shape: &[f64]) -> Self {
        let level = level.max(LEAST_RATE);
        Self { per_hour: shape.iter().map(|share| (level * share).max(LEAST_RATE)).collect() }
    }
}

/// Lower bound on rates, one update in about a hundred years: no rate is zero.
const LEAST_RATE: f64 = 1e-6;

/// Weight of the prior in each segment, in updates.
const PRIOR_UPDATES: f64 = 1.0;

/// The share of a rate that is moved to the two adjacent hours.
const LEAK: f64 = 0.2;

/// The share of a rate that is spread over the whole week.
const ANYWHEN: f64 = 0.05;

/// A fitted rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// λ(t).
    pub rate: Rate,
    /// The cycle, relative to the prior.
    pub cycle: Cycle,
    /// Number of segments within the cycle.
    pub segments: usize,
    /// Gain in penalised log-likelihood over the prior at the right level, in nats.
    pub gain: f64,
}

/// The mean rate per hour of the evidence, bursts included. Adds half an update, so the rate is never zero.
pub fn level(evidence: &WeeklyEvidence) -> f64 {
    let (updates, hours) = evidence.bursts;
    ((evidence.total_updates() + updates + 0.5) / (evidence.total_hours() + hours + 1.0)).max(LEAST_RATE)
}

/// The partition of the week into hours that share a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Division {
    /// The cycle of a rate.
    pub cycle: Cycle,
    /// Number of segments within the cycle.
    pub segments: usize,
    /// The segment of each hour of the week.
    pub segment_of: Vec<usize>,
    /// Updates per hour, by hour of the week, without smoothing.
    pub per_hour: Vec<f64>,
    gain: f64,
}

/// The best division for the evidence, given a prior.
pub fn divide(evidence: &WeeklyEvidence, prior: &WeeklyPrior) -> Division {
    let (flat, one) = partition(Cycle::None, evidence, prior);
    let mut best = (flat, Cycle::None, one);
    for cycle in [Cycle::Day, Cycle::WorkWeek, Cycle::Week] {
        let (score, pieces) = partition(cycle, evidence, prior);
        if pieces.len() > 1 && score > best.0 {
            best = (score, cycle, pieces);
        }
    }
    let (score, cycle, pieces) = best;
    let segment = |cell: usize| pieces.partition_point(|&(end, _)| end <= cycle.bin(cell));
    let segment_of: Vec<usize> = (0..CELLS).map(segment).collect();
    let factor = |cell: usize| pieces.get(segment_of[cell]).map_or(1.0, |&(_, factor)| factor);
    let mut per_hour: Vec<f64> = (0..CELLS).map(|cell| prior.per_hour[cell] * factor(cell)).collect();
    // The prior shifts the sum of the segments away from the observed total. The total is better known than
    // any segment, so the rates are rescaled to it.
    let fitted: f64 = per_hour.iter().zip(&evidence.hours).map(|(rate, hours)| rate * hours).sum();
    let seen = level(evidence) * evidence.total_hours();
    if fitted > 0.0 {
        per_hour.iter_mut().for_each(|rate| *rate *= seen / fitted);
    }
    Division { cycle, segments: pieces.len(), segment_of, per_hour, gain: score - flat }
}

/// The best rate for the evidence, given a prior.
pub fn fit(evidence: &WeeklyEvidence, prior: &WeeklyPrior, zone: &TimeZone) -> Fitted {
    let Division { cycle, segments, per_hour, gain, .. } = divide(evidence, prior);
    Fitted { rate: to_rate(&per_hour, zone), cycle, segments, gain }
}

/// A rate from hours of the week. Moves a share to the adjacent hours and spreads a share over the week; the
/// mean is preserved.
pub fn to_rate(cells: &[f64], zone: &TimeZone) -> Rate {
    let mean = cells.iter().sum::<f64>() / CELLS as f64;
    let robust = |cell: usize| {
        let leaked = 0.5 * (cells[(cell + 1) % CELLS] + cells[(cell + CELLS - 1) % CELLS]);
        (1.0 - ANYWHEN) * ((1.0 - LEAK) * cells[cell] + LEAK * leaked) + ANYWHEN * mean
    };
    let hours: Vec<f64> = (0..CELLS).map(robust).collect();
    // Equal days share a profile, which keeps the rate small.
    let day = |d: usize| &hours[d * 24..(d + 1) * 24];
    let alike = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(x, y)| (x - y).abs() <= 1e-6 * mean);
    let mut profiles: Vec<usize> = Vec::new();
    let mut days = [0; 7];
    for (d, profile) in days.iter_mut().enumerate() {
        let known = profiles.iter().position(|&p| alike(day(p), day(d)));
        *profile = known.unwrap_or_else(|| {
            profiles.push(d);
            profiles.len() - 1
        }) as u8;
    }
    let line = profiles.iter().flat_map(|&d| day(d)).copied();
    let segments = line.enumerate().map(|(hour, rate)| ((hour as u32 + 1) * DAY_S / 24, rate));
    Rate::of_days(zone.clone(), days, segments).unwrap_or_else(|_| Rate::constant(mean))
}

/// The best division of a cycle's bins into segments: its score, and each segment's end and factor
/// on the prior.
///
/// f(j) = max over i < j of f(i) + likelihood(i..j) − penalty: the usual exact recursion, O(bins²).
fn partition(cycle: Cycle, evidence: &WeeklyEvidence, prior: &WeeklyPrior) -> (f64, Vec<(usize, f64)>) {
    let bins = cycle.bins();
    let mut updates = vec![0.0; bins + 1];
    let mut expected = vec![0.0; bins + 1];
    for cell in 0..CELLS {
        let bin = cycle.bin(cell) + 1;
        updates[bin] += evidence.updates[cell] / evidence.clumping;
        expected[bin] += evidence.hours[cell] * prior.per_hour[cell] / evidence.clumping;
    }
    for bin in 0..bins {
        updates[bin + 1] += updates[bin];
        expected[bin + 1] += expected[bin];
    }
    let factor = |from: usize, to: usize| {
        (PRIOR_UPDATES + updates[to] - updates[from]) / (PRIOR_UPDATES + expected[to] - expected[from])
    };
    let likelihood = |from: usize, to: usize| {
        let factor = factor(from, to);
        (updates[to] - updates[from]) * factor.ln() - factor * (expected[to] - expected[from])
    };
    // By Schwarz's criterion an additional segment costs half a log of the evidence for its factor and as
    // much for its position, which is one of the bins.
    let penalty = (1.0 + updates[bins]).ln() + (bins as f64).ln();
    let mut score = vec![f64::NEG_INFINITY; bins + 1];
    let mut from = vec![0; bins + 1];
    score[0] = 0.0;
    for to in 1..=bins {
        for start in 0..to {
            let candidate = score[start] + likelihood(start, to) - penalty;
            if candidate > score[to] {
                score[to] = candidate;
                from[to] = start;
            }
        }
    }
    let mut pieces = Vec::new();
    let mut to = bins;
    while to > 0 {
        pieces.push((to, factor(from[to], to)));
        to = from[to];
    }
    pieces.reverse();
    // The first segment has no penalty.
    (score[bins] + penalty, pieces)
}
