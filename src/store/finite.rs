//! Numbers as they are bound to statements.
//!
//! A number that is not finite is a bug of ours. It is bound as NULL, which SQLite refuses where a number is needed, so
//! that it is neither stored nor read back. In rows of JSON the encoder does the same.

/// The number, if it is finite.
pub(super) fn finite(number: impl Into<f64>) -> Option<f64> {
    Some(number.into()).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_numbers_are_bound() {
        assert_eq!(
            [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(finite),
            [Some(1.5), None, None, None]
        );
    }
}
