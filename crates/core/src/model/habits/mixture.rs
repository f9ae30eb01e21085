//! The weight of each predictor, and the stored form.

use super::predictors::{COUNT, PREDICTORS, Predictor, PredictorMemory};
use super::regular::{self, Regularity};
use super::update_times::UpdateTimes;
use crate::time::Timestamp;

/// Upper bound on the triggered updates per update, so that the process is stable.
pub(super) const MOST_TRIGGERED: f64 = 0.9;

/// Updates older than this many mean delays are ignored.
pub(super) const FADED: f64 = 40.0;

/// The weight of each predictor, and the renewal correction.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictorMix {
    pub(super) shares: [f32; COUNT],
    pub(super) regularity: Regularity,
}

impl PredictorMix {
    /// ρ: expected number of updates triggered by each update.
    pub fn triggered_per_update(&self) -> f64 {
        let self_exciting =
            PREDICTORS.iter().zip(&self.shares).filter(|(predictor, _)| predictor.is_self_exciting());
        self_exciting.map(|(_, &share)| f64::from(share)).sum()
    }

    /// The share of the updates that no earlier update triggered.
    pub fn spontaneous(&self) -> f64 {
        1.0 - self.triggered_per_update().min(MOST_TRIGGERED)
    }

    /// The rate just before an update at `at`, in updates per hour, where the weekly rate is `weekly`: by the
    /// recent levels and by earlier updates that trigger others. Periodic predictors count as the weekly rate.
    pub fn rate_before(&self, update_times: &UpdateTimes, weekly: f64, at: Timestamp) -> f64 {
        let kept = (MOST_TRIGGERED / self.triggered_per_update()).min(1.0);
        let rate = |(predictor, &share): (&Predictor, &f32)| {
            let share = f64::from(share);
            match *predictor {
                _ if share <= 0.0 => 0.0,
                Predictor::SelfExciting(mean) => kept * share * triggered(update_times, mean, at),
                Predictor::Level(memory) => share * level(update_times, memory, at).unwrap_or(weekly),
                Predictor::Rhythm | Predictor::Periodic(..) => share * weekly,
            }
        };
        PREDICTORS.iter().zip(&self.shares).map(rate).sum()
    }

    /// The logarithm of the probability that no update comes while this many spontaneous ones are expected.
    pub fn ln_silence(&self, expected: f64) -> f64 {
        self.regularity.ln_silence(expected)
    }

    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Regularity { stages, share, pauses, slow } = self.regularity;
        let all = self.shares.iter().copied().chain([f32::from(stages), share, pauses, slow]);
        all.flat_map(f32::to_le_bytes).collect()
    }

    /// Decodes [`PredictorMix::to_bytes`]; `None` if the bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (chunks, []) = bytes.as_chunks::<4>() else { return None };
        let numbers: Vec<f32> = chunks.iter().map(|&number| f32::from_le_bytes(number)).collect();
        let (shares, &[stages, share, pauses, slow]) = numbers.split_first_chunk::<COUNT>()? else {
            return None;
        };
        let stages = (1..=regular::MOST).find(|&known| f32::from(known) == stages)?;
        let all = shares.iter().chain([&share, &pauses, &slow]).all(|share| (0.0..=1.0).contains(share));
        let regularity = Regularity { stages, share, pauses, slow };
        (all && pauses < slow).then_some(Self { shares: *shares, regularity })
    }
}

/// The rate at `at` of updates that each earlier update triggers after `mean` minutes on average.
fn triggered(update_times: &UpdateTimes, mean: u16, at: Timestamp) -> f64 {
    let mean = f64::from(mean) / 60.0;
    let ages = update_times.entries().rev().map(|entry| (at - entry.at).as_secs_f64() / 3600.0 / mean);
    let ages = ages.skip_while(|&age| age <= 0.0).take_while(|&age| age < FADED);
    ages.map(|age| (-age).exp() / mean).sum()
}

/// The recent mean rate before `at`, with half an update added.
fn level(update_times: &UpdateTimes, memory: PredictorMemory, at: Timestamp) -> Option<f64> {
    let days = (at - update_times.since()?).as_secs_f64() / 86_400.0;
    let earlier = update_times.entries().filter(|entry| entry.at < at);
    let weights: f64 = earlier.map(|entry| memory.weight(entry.at, at)).sum();
    Some((weights + 0.5) / (memory.exposure_days(days) * 24.0 + 1.0))
}
