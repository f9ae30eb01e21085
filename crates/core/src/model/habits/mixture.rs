//! The weight of each predictor, and the stored form.

use super::predictors::{COUNT, PREDICTORS};
use super::regular::{self, Regularity};

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
