//! Time to live: a copy stays fresh for a share of the age that it had when it was refreshed.
//!
//! Exists because caches do so, and because it needs nothing but one date (Bright, Gal, Raschid,
//! §6.1). Knows that date and the last refresh; must not know of rates.
//!
//! The paper has it twice. A copy expires at refresh + α·(refresh − last modified) (eq. 6), which is
//! what caches do and the default here. For prefetching it waits θ·(TTL − last modified), which is
//! θ·(1 + α)·(refresh − last modified), and counts from a `t_request` that prefetching does not have:
//! here from when it is asked. The two do not agree for any θ but α/(1 + α).
//!
//! Where a source does not say when it was modified there is no age, and this policy has no answer.
//! One modified at the refresh, or by its own clock after it, has the age 0: it is looked at again
//! after the least time that the caller allows. An old one is after the most.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Form {
    /// Eq. 6.
    #[default]
    Caches,
    /// §6.1, problem 2.
    Prefetching,
}

/// The policy with its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ttl {
    /// Which form.
    pub form: Form,
    /// α.
    pub factor: f64,
    /// θ, for prefetching.
    pub freshness_threshold: f64,
    /// Never sooner; goes before `most`.
    pub least: Span,
    /// Never later.
    pub most: Span,
}

impl Ttl {
    /// When a copy is to be refreshed again, asked at `now`.
    ///
    /// ```
    /// # use tidewatch_core::planning::ttl::{Form, Ttl};
    /// # use tidewatch_core::time::{Span, Timestamp};
    /// let day = Span::from_days(1);
    /// let ttl = Ttl { form: Form::Caches, factor: 0.2, freshness_threshold: 1.0, least: Span::ZERO, most: day };
    /// let noon = Timestamp::parse_iso("2026-11-16T12:00:00Z").unwrap();
    /// // Ten hours old when it was refreshed: good for two more.
    /// let next = ttl.next(noon, noon - Span::from_hours(10), noon);
    /// assert_eq!(next, noon + Span::from_hours(2));
    /// ```
    pub fn next(&self, refreshed: Timestamp, last_modified: Timestamp, now: Timestamp) -> Timestamp {
        let age = (refreshed - last_modified).max(Span::ZERO);
        let (from, wait) = match self.form {
            Form::Caches => (refreshed, age.scaled(self.factor)),
            Form::Prefetching => (now, age.scaled(self.freshness_threshold * (1.0 + self.factor))),
        };
        from + wait.min(self.most).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ttl(form: Form, factor: f64, freshness_threshold: f64) -> Ttl {
        let (least, most) = (Span::from_mins(15), Span::from_days(1));
        Ttl { form, factor, freshness_threshold, least, most }
    }

    fn noon() -> Timestamp {
        Timestamp::parse_iso("2026-11-16T12:00:00Z").unwrap()
    }

    #[test]
    fn by_hand() {
        let after = |ttl: Ttl, age: Span| ttl.next(noon(), noon() - age, noon()) - noon();
        let caches = ttl(Form::Caches, 0.2, 1.0);
        assert_eq!(after(caches, Span::from_hours(10)), Span::from_hours(2));
        assert_eq!(after(caches, Span::from_days(2)), Span::from_mins(576));
        let prefetching = ttl(Form::Prefetching, 0.2, 0.5);
        assert_eq!(after(prefetching, Span::from_hours(10)), Span::from_hours(6));
        let asked_later =
            prefetching.next(noon(), noon() - Span::from_hours(10), noon() + Span::from_hours(1));
        assert_eq!(asked_later, noon() + Span::from_hours(7));
    }

    #[test]
    fn without_age_the_least_and_with_much_the_most() {
        for form in [Form::Caches, Form::Prefetching] {
            let ttl = ttl(form, 0.2, 1.0);
            let after = |age: Span| ttl.next(noon(), noon() - age, noon()) - noon();
            assert_eq!(after(Span::ZERO), ttl.least);
            assert_eq!(after(Span::from_hours(-3)), ttl.least);
            assert_eq!(after(Span::from_days(400)), ttl.most);
            assert_eq!(ttl.next(noon(), Timestamp::MIN, noon()) - noon(), ttl.most);
            // δ of two days is kept, whatever the most is.
            let slow = Ttl { least: Span::from_days(2), ..ttl };
            assert_eq!(slow.next(noon(), noon(), noon()) - noon(), slow.least);
        }
    }

    proptest! {
        /// The forms are one where θ(1 + α) = α.
        #[test]
        fn forms_meet(age in 0_i64..1_000_000_000, factor in 0.01_f64..1.0) {
            let last_modified = noon() - Span::from_millis(age);
            let caches = ttl(Form::Caches, factor, 1.0).next(noon(), last_modified, noon());
            let threshold = factor / (1.0 + factor);
            let other = ttl(Form::Prefetching, factor, threshold).next(noon(), last_modified, noon());
            prop_assert!((caches - other).as_millis().abs() <= 1);
        }

        #[test]
        fn larger_numbers_are_never_sooner(
            age in 0_i64..10_000_000_000,
            factor in 0.0_f64..2.0, more in 0.0_f64..1.0,
            threshold in 0.0_f64..2.0, higher in 0.0_f64..1.0,
        ) {
            let last_modified = noon() - Span::from_millis(age);
            for form in [Form::Caches, Form::Prefetching] {
                let next = |factor, threshold| ttl(form, factor, threshold).next(noon(), last_modified, noon());
                prop_assert!(next(factor, threshold) <= next(factor + more, threshold));
                prop_assert!(next(factor, threshold) <= next(factor, threshold + higher));
            }
        }
    }
}
