//! Time to live: a copy stays fresh for a share of its age at the refresh.
//!
//! Caches use this rule; it requires one date only (Bright, Gal, Raschid, §6.1). Takes that date and the
//! last refresh. May not know rates.
//!
//! The paper has two forms. A copy expires at refresh + α·(refresh − last modified) (eq. 6), as in caches
//! and by default here. For prefetching the delay is θ·(TTL − last modified), which is
//! θ·(1 + α)·(refresh − last modified), from a `t_request` that prefetching does not have: here from the
//! time of the call. The two forms agree only for θ = α/(1 + α).
//!
//! Without a modification date there is no age, and this policy has no time. A source modified at or after
//! the refresh has age 0: its delay is the minimum that the caller allows. The delay of an old one is the
//! maximum.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// The two forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TtlForm {
    /// Eq. 6.
    #[default]
    Caches,
    /// §6.1, problem 2.
    Prefetching,
}

/// The policy with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ttl {
    /// The form.
    pub form: TtlForm,
    /// α.
    pub factor: f64,
    /// θ, for prefetching.
    pub freshness_threshold: f64,
    /// Minimum delay; overrides `most`.
    pub least: Span,
    /// Maximum delay.
    pub most: Span,
}

impl Ttl {
    /// The time of the next refresh, computed at `now`.
    ///
    /// ```
    /// # use tidewatch_core::planning::ttl::{Ttl, TtlForm};
    /// # use tidewatch_core::time::{Span, Timestamp};
    /// let day = Span::from_days(1);
    /// let form = TtlForm::Caches;
    /// let ttl = Ttl { form, factor: 0.2, freshness_threshold: 1.0, least: Span::ZERO, most: day };
    /// let noon = Timestamp::parse_iso("2026-11-16T12:00:00Z").unwrap();
    /// // Ten hours old at the refresh: fresh for two more.
    /// let next = ttl.next(noon, noon - Span::from_hours(10), noon);
    /// assert_eq!(next, noon + Span::from_hours(2));
    /// ```
    pub fn next(&self, refreshed: Timestamp, last_modified: Timestamp, now: Timestamp) -> Timestamp {
        let age = (refreshed - last_modified).max(Span::ZERO);
        let (from, wait) = match self.form {
            TtlForm::Caches => (refreshed, age.scaled(self.factor)),
            TtlForm::Prefetching => (now, age.scaled(self.freshness_threshold * (1.0 + self.factor))),
        };
        from + wait.min(self.most).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ttl(form: TtlForm, factor: f64, freshness_threshold: f64) -> Ttl {
        let (least, most) = (Span::from_mins(15), Span::from_days(1));
        Ttl { form, factor, freshness_threshold, least, most }
    }

    fn noon() -> Timestamp {
        Timestamp::parse_iso("2026-11-16T12:00:00Z").unwrap()
    }

    #[test]
    fn both_forms_match_hand_computed_times() {
        let after = |ttl: Ttl, age: Span| ttl.next(noon(), noon() - age, noon()) - noon();
        let caches = ttl(TtlForm::Caches, 0.2, 1.0);
        assert_eq!(after(caches, Span::from_hours(10)), Span::from_hours(2));
        assert_eq!(after(caches, Span::from_days(2)), Span::from_mins(576));
        let prefetching = ttl(TtlForm::Prefetching, 0.2, 0.5);
        assert_eq!(after(prefetching, Span::from_hours(10)), Span::from_hours(6));
        let asked_later =
            prefetching.next(noon(), noon() - Span::from_hours(10), noon() + Span::from_hours(1));
        assert_eq!(asked_later, noon() + Span::from_hours(7));
    }

    #[test]
    fn the_delay_is_between_the_minimum_and_the_maximum() {
        for form in [TtlForm::Caches, TtlForm::Prefetching] {
            let ttl = ttl(form, 0.2, 1.0);
            let after = |age: Span| ttl.next(noon(), noon() - age, noon()) - noon();
            assert_eq!(after(Span::ZERO), ttl.least);
            assert_eq!(after(Span::from_hours(-3)), ttl.least);
            assert_eq!(after(Span::from_days(400)), ttl.most);
            assert_eq!(ttl.next(noon(), Timestamp::MIN, noon()) - noon(), ttl.most);
            // A δ of two days overrides the maximum.
            let slow = Ttl { least: Span::from_days(2), ..ttl };
            assert_eq!(slow.next(noon(), noon(), noon()) - noon(), slow.least);
        }
    }

    proptest! {
        /// The forms agree where θ(1 + α) = α.
        #[test]
        fn forms_agree_at_one_threshold(age in 0_i64..1_000_000_000, factor in 0.01_f64..1.0) {
            let last_modified = noon() - Span::from_millis(age);
            let caches = ttl(TtlForm::Caches, factor, 1.0).next(noon(), last_modified, noon());
            let threshold = factor / (1.0 + factor);
            let other = ttl(TtlForm::Prefetching, factor, threshold).next(noon(), last_modified, noon());
            prop_assert!((caches - other).as_millis().abs() <= 1);
        }

        #[test]
        fn larger_parameters_never_advance_the_refresh(
            age in 0_i64..10_000_000_000,
            factor in 0.0_f64..2.0, more in 0.0_f64..1.0,
            threshold in 0.0_f64..2.0, higher in 0.0_f64..1.0,
        ) {
            let last_modified = noon() - Span::from_millis(age);
            for form in [TtlForm::Caches, TtlForm::Prefetching] {
                let next = |factor, threshold| ttl(form, factor, threshold).next(noon(), last_modified, noon());
                prop_assert!(next(factor, threshold) <= next(factor + more, threshold));
                prop_assert!(next(factor, threshold) <= next(factor, threshold + higher));
            }
        }
    }
}
