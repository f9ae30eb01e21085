//! A source's learned model: read from the store, updated by one probe, written back.
//!
//! The model is used only while a probe is read, so it is not kept in memory. Knows the stored form; must
//! not know how the result of the update is used.

use std::sync::Arc;

use crate::store::known_rate::KnownRate;
use crate::store::probe_inputs::ProbeInputs;
use crate::store::record::BeliefsRecord;
use tidewatch_core::model::burst::detector::BurstDetector;
use tidewatch_core::model::habits::mixture::PredictorMix;
use tidewatch_core::model::habits::update_times::UpdateTimes;
use tidewatch_core::model::learn::ProbedUpdates;
use tidewatch_core::model::post_burst::PostBurstEvidence;
use tidewatch_core::model::rhythm_change::RhythmTest;
use tidewatch_core::model::silence::{self, LearnedProbe, LearnedUntil};
use tidewatch_core::model::source_model::{ModelUpdate, PriorKnowledge, SourceModel};
use tidewatch_core::time::{Span, Timestamp};

use super::startup::Learning;

/// The model of one source during one probe.
#[derive(Debug, Clone)]
pub struct StoredModel {
    learning: Arc<Learning>,
    beliefs: SourceModel,
    rate: Option<KnownRate>,
    habits: Option<PredictorMix>,
    newest: Option<Timestamp>,
    learned: Option<LearnedUntil>,
    corrected: Span,
}

impl StoredModel {
    /// Decodes the model that the last probe stored, by the clock of the inputs.
    pub fn read(learning: &Arc<Learning>, inputs: &ProbeInputs, now: Timestamp) -> Self {
        let history = learning.history(inputs.history.as_deref(), now);
        let post_burst =
            inputs.post_burst.as_deref().and_then(|bytes| PostBurstEvidence::from_bytes(bytes, &history));
        let watch = inputs.watch.as_deref().and_then(BurstDetector::from_bytes).unwrap_or_default();
        let update_times =
            inputs.update_times.as_deref().and_then(UpdateTimes::from_bytes).unwrap_or_default();
        let rhythm_test =
            inputs.rhythm_test.as_deref().and_then(RhythmTest::from_bytes).unwrap_or_default();
        let mut beliefs = SourceModel { history, watch, post_burst, update_times, rhythm_test };
        if inputs.history.is_some() {
            beliefs.shift(inputs.corrected - inputs.model_corrected);
        }
        Self {
            learning: Arc::clone(learning),
            beliefs,
            rate: inputs.rate.clone(),
            habits: inputs.habits.as_deref().and_then(PredictorMix::from_bytes),
            // Not after now: the clock may have been set back.
            newest: inputs.newest.map(|at| at.min(now)),
            learned: inputs.learned,
            corrected: inputs.corrected,
        }
    }

    /// Updates the model with one probe, and with the silence before it. `modified` is the server's
    /// `Last-Modified` time; it dates a document that has no dates of its own.
    pub fn learn(&mut self, probed: &ProbedUpdates<'_>, modified: Option<Timestamp>) -> LearnedProbe {
        let Learning { bursts, cycle, .. } = *self.learning;
        let rate = self.rate.as_ref().map(|known| (&known.rate, known.updates));
        let habits = self.habits.as_ref();
        let prior = PriorKnowledge { rate, habits, bursts, cycle, newest: self.newest };
        silence::learn(&mut self.beliefs, self.learned, probed, &prior, modified)
    }

    /// Encodes the model for the store, after the probe that gave this update.
    pub fn record(&self, update: &ModelUpdate) -> BeliefsRecord {
        let SourceModel { history, watch, post_burst, update_times, rhythm_test } = &self.beliefs;
        BeliefsRecord {
            corrected: self.corrected,
            history: history.to_bytes(),
            watch: (*watch != BurstDetector::default()).then(|| watch.to_bytes()),
            post_burst: post_burst.as_ref().map(PostBurstEvidence::to_bytes),
            update_times: (*update_times != UpdateTimes::default()).then(|| update_times.to_bytes()),
            rhythm_test: (*rhythm_test != RhythmTest::default()).then(|| rhythm_test.to_bytes()),
            burst_became_rhythm: update.became_the_rhythm,
            relearned_since: update.rhythm.map(|change| change.since),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use tidewatch_core::model::burst::BurstParams;
    use tidewatch_core::observe::{
        ItemChange, Observation, Occurred, Present, SourceKind, Update, UpdateKind,
    };

    fn hour(n: i64) -> Timestamp {
        Timestamp::from_secs(1_700_000_000 + 3_600 * n)
    }

    fn update(occurred: Occurred) -> Observation {
        let update = Update::bare(UpdateKind::New, occurred, "k");
        Observation { updates: vec![update], ..Observation::default() }
    }

    fn learning(half_life: Span) -> Arc<Learning> {
        let (zone, bursts, cycle) = (TimeZone::UTC, BurstParams::default(), Span::from_days(7));
        Arc::new(Learning::new(zone, half_life, bursts, cycle))
    }

    /// Probes at this hour, and returns the inputs of the next probe.
    fn probe(inputs: &ProbeInputs, now: i64, last: Option<i64>, seen: Option<&Observation>) -> ProbeInputs {
        probe_with(&learning(Span::from_days(56)), inputs, now, last, seen)
    }

    fn probe_with(
        learning: &Arc<Learning>,
        inputs: &ProbeInputs,
        now: i64,
        last: Option<i64>,
        seen: Option<&Observation>,
    ) -> ProbeInputs {
        let mut model = StoredModel::read(learning, inputs, hour(now));
        let probed = ProbedUpdates {
            kind: SourceKind::Feed,
            last: last.map(hour),
            now: hour(now),
            seen,
            except: None,
        };
        let learned = model.learn(&probed, None);
        let BeliefsRecord { history, watch, post_burst, update_times, rhythm_test, .. } =
            model.record(&learned.update);
        ProbeInputs {
            history: Some(history),
            watch,
            post_burst,
            update_times,
            rhythm_test,
            newest: learned.update.newest,
            learned: Some(learned.learned),
            ..ProbeInputs::default()
        }
    }

    /// Weights of two half-lives in one history would be wrong.
    #[test]
    fn evidence_keeps_its_settings_until_it_is_learned_again() {
        let first = probe(&ProbeInputs::default(), 6, Some(0), Some(&update(Occurred::At(hour(3)))));
        let short = learning(Span::from_days(1));
        let next = probe_with(&short, &first, 8, Some(6), Some(&update(Occurred::At(hour(7)))));
        let history = short.history(next.history.as_deref(), hour(8));
        assert!(history.is_learned_with(&TimeZone::UTC, Span::from_days(56)));
        assert!((history.evidence(hour(8)).total_updates() - 2.0).abs() < 0.02);
        // New evidence has the new settings.
        assert!(short.history(None, hour(8)).is_learned_with(&TimeZone::UTC, Span::from_days(1)));
    }

    fn noted(inputs: &ProbeInputs) -> Vec<Timestamp> {
        let update_times =
            inputs.update_times.as_deref().and_then(UpdateTimes::from_bytes).unwrap_or_default();
        update_times.entries().map(|entry| entry.at).collect()
    }

    #[test]
    fn update_times_of_a_probe_are_stored_for_the_next() {
        let present = [1, 3, 5].map(|n| Present {
            key_hash: 0,
            fingerprint: 0,
            change: ItemChange::New,
            dated: Some(hour(n)),
        });
        let there =
            Observation { present: present.to_vec(), first_contact: true, ..Observation::default() };
        let first = probe(&ProbeInputs::default(), 6, None, Some(&there));
        assert_eq!(noted(&first), [hour(3), hour(5)]);
        let unchanged = probe(&first, 7, Some(6), None);
        assert_eq!(unchanged.update_times, first.update_times);
        let second = probe(&unchanged, 9, Some(7), Some(&update(Occurred::At(hour(8)))));
        assert_eq!(noted(&second), [hour(3), hour(5), hour(8)]);
        // The clock was set back.
        assert_eq!(noted(&probe(&second, 6, Some(6), None)), [hour(3), hour(5)]);
        // An update without a date, or dated before the last probe, adds no update time.
        let undated = update(Occurred::Between(hour(9), hour(10)));
        assert_eq!(noted(&probe(&second, 10, Some(9), Some(&undated))), noted(&second));
        let broken = ProbeInputs { update_times: Some(vec![9]), ..second };
        assert_eq!(noted(&probe(&broken, 10, Some(9), Some(&update(Occurred::At(hour(10)))))), [hour(10)]);
    }
}
