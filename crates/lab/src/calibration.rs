//! Stated probabilities and what came of them.
//!
//! Counts what the model of a source stated before the outcome was known: that a burst began, that the source
//! is overdue, how many updates are expected, and how probably more items arrive than a feed holds. Must not
//! know how probes are planned.

use tidewatch_core::engine::event::ProbeAnswer;
use tidewatch_core::planning::feed_overflow::exceeds;

/// The limits of the classes of stated overflow probabilities.
pub const OVERFLOW_CLASSES: [f64; 3] = [0.001, 0.003, 0.012];

/// Statements on one source or several, and what came of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    /// Updates that were compared with a rate.
    pub updates: usize,
    /// Updates that the rate predicted for the same probes.
    pub expected: f64,
    /// Bursts that were reported.
    pub alarms: usize,
    /// Updates that were kept out of the history because of a burst.
    pub kept_out: usize,
    /// Times that the source was reported as quiet, and updated later.
    pub false_quiet: usize,
    /// For each class of stated probabilities: gaps between probes, their stated probability in all, and in
    /// how many more items arrived than the feed holds.
    pub overflow: [OverflowClass; OVERFLOW_CLASSES.len()],
}

/// Gaps with similar stated probabilities of an overflow.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OverflowClass {
    /// Number of gaps.
    pub gaps: usize,
    /// The sum of their stated probabilities.
    pub stated: f64,
    /// How many overflowed.
    pub overflowed: usize,
}

/// One probe that was compared with a rate.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// The answer.
    pub answer: &'a ProbeAnswer,
    /// Updates that the rate predicted since the last probe.
    pub expected: f64,
    /// Updates that were published since then, whether the feed still showed them or not.
    pub published: usize,
    /// Updates found that did not enter the history.
    pub kept_out: usize,
    /// The number of items that the feed holds, and the dispersion of its counts.
    pub holds: Option<(u32, f64)>,
}

impl Calibration {
    /// Counts one probe. `quiet` is whether the source was reported as quiet before; returns whether it is
    /// now.
    pub fn count(&mut self, probe: &Compared<'_>, quiet: bool) -> bool {
        let Compared { answer, expected, published, kept_out, holds } = *probe;
        let found = answer.updates as usize;
        self.updates += found;
        self.expected += expected;
        self.kept_out += kept_out;
        self.alarms += usize::from(matches!(
            answer.model.burst,
            Some(change) if !matches!(change, tidewatch_core::model::burst::BurstChange::Ended(_))
        ));
        self.false_quiet += usize::from(quiet && found > 0);
        if let Some((holds, dispersion)) = holds {
            let stated = exceeds(expected, holds, dispersion);
            if let Some(class) = OVERFLOW_CLASSES.iter().rposition(|&least| stated >= least) {
                let class = &mut self.overflow[class];
                class.gaps += 1;
                class.stated += stated;
                class.overflowed += usize::from(published > holds as usize);
            }
        }
        (quiet && found == 0) || answer.model.overdue.is_some()
    }

    /// All of these together.
    pub fn pooled<'c>(all: impl IntoIterator<Item = &'c Self>) -> Self {
        let mut sum = Self::default();
        for one in all {
            sum.updates += one.updates;
            sum.expected += one.expected;
            sum.alarms += one.alarms;
            sum.kept_out += one.kept_out;
            sum.false_quiet += one.false_quiet;
            for (sum, one) in sum.overflow.iter_mut().zip(&one.overflow) {
                sum.gaps += one.gaps;
                sum.stated += one.stated;
                sum.overflowed += one.overflowed;
            }
        }
        sum
    }
}
