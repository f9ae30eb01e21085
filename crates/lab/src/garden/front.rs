//! The front: alternatives that no other improves on in both tardiness and work, and the one at the knee.
//!
//! Must not know how the alternatives were computed.

use super::outcome::GardenOutcome;

/// Whether `one` is at least as good as `other` in both tardiness and work, and better in one.
pub fn dominates(one: &GardenOutcome, other: &GardenOutcome) -> bool {
    let (one, other) = ((one.mean_tardiness, one.mean_work), (other.mean_tardiness, other.mean_work));
    one.0 <= other.0 && one.1 <= other.1 && one != other
}

/// Indices of the alternatives that no other dominates, by work; of equal ones that with the least capacity.
pub fn front(outcomes: &[GardenOutcome]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..outcomes.len()).collect();
    order.sort_by(|&one, &other| {
        let (one, other) = (&outcomes[one], &outcomes[other]);
        let by = |of: fn(&GardenOutcome) -> f64| of(one).total_cmp(&of(other));
        by(|o| o.mean_work).then(by(|o| o.mean_tardiness)).then(by(|o| o.capacity))
    });
    let mut least = f64::INFINITY;
    order.retain(|&index| {
        let tardiness = outcomes[index].mean_tardiness;
        let better = tardiness < least;
        least = least.min(tardiness);
        better
    });
    order
}

/// The knee of a front that is sorted by work, as [`front`] returns it. It is the point farthest from the
/// line through the ends, on the side of less of both, with both axes scaled to 0..1. Of equal points it is
/// the least tardy. If the front hardly bends, it is the least tardy end.
pub fn knee(outcomes: &[GardenOutcome], front: &[usize]) -> Option<usize> {
    let bend = |index: &usize| bend(outcomes, front, *index);
    let sharp = front.iter().copied().filter(|index| bend(index) >= SHARP);
    sharp.max_by(|one, other| bend(one).total_cmp(&bend(other))).or(front.last().copied())
}

/// The smallest bend that counts as a knee.
const SHARP: f64 = 0.1;

/// The distance of a point of a front from the line through its ends, with both axes scaled to 0..1. It is at
/// most √½, at a corner, and 0 on a straight front.
pub fn bend(outcomes: &[GardenOutcome], front: &[usize], index: usize) -> f64 {
    let (Some(&first), Some(&last)) = (front.first(), front.last()) else { return 0.0 };
    // The ends are on the line, even if rounding gives another value.
    if index == first || index == last {
        return 0.0;
    }
    let (point, first, last) = (&outcomes[index], &outcomes[first], &outcomes[last]);
    let scaled =
        |value: f64, from: f64, to: f64| if to > from { (value - from) / (to - from) } else { 0.0 };
    let x = scaled(point.mean_work, first.mean_work, last.mean_work);
    let y = scaled(point.mean_tardiness, last.mean_tardiness, first.mean_tardiness);
    (1.0 - x - y) * std::f64::consts::FRAC_1_SQRT_2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::garden::policy::GardenPolicy;

    fn outcomes(points: &[(f64, f64)]) -> Vec<GardenOutcome> {
        let outcome = |(index, &(mean_tardiness, mean_work)): (usize, &(f64, f64))| GardenOutcome {
            policy: GardenPolicy::Medd,
            capacity: index as f64,
            mean_tardiness,
            mean_work,
            most_tardiness: 0,
            most_work: 0.0,
            probes: 0,
            missed: 0,
        };
        points.iter().enumerate().map(outcome).collect()
    }

    #[test]
    fn knee_is_the_point_farthest_from_the_line() {
        let all = outcomes(&[(10.0, 1.0), (1.0, 2.0), (0.5, 6.0), (0.0, 10.0), (2.0, 3.0), (0.0, 11.0)]);
        let front = front(&all);
        assert_eq!(front, [0, 1, 2, 3]);
        assert_eq!(knee(&all, &front), Some(1));
        assert!((bend(&all, &front, 1) - (1.0 - 1.0 / 9.0 - 0.1) / 2_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn short_or_bulging_fronts_have_the_least_tardy_knee() {
        assert_eq!(knee(&[], &[]), None);
        let one = outcomes(&[(0.0, 2.0), (0.0, 2.0), (0.0, 3.0)]);
        assert_eq!((front(&one), knee(&one, &front(&one))), (vec![0], Some(0)));
        let two = outcomes(&[(1.0, 2.0), (0.0, 3.0)]);
        assert_eq!(knee(&two, &front(&two)), Some(1));
        // No point bends inwards: the least tardy end.
        let bulge = outcomes(&[(1.0, 0.0), (0.9, 0.9), (0.0, 1.0)]);
        assert_eq!(knee(&bulge, &front(&bulge)), Some(2));
    }

    proptest! {
        #[test]
        fn front_contains_exactly_the_undominated(points in prop::collection::vec((0_u8..12, 0_u8..12), 1..40)) {
            let points: Vec<(f64, f64)> = points.iter().map(|&(t, k)| (f64::from(t), f64::from(k))).collect();
            let all = outcomes(&points);
            let front = front(&all);
            for index in 0..all.len() {
                if front.contains(&index) {
                    prop_assert!(!all.iter().any(|other| dominates(other, &all[index])));
                } else {
                    prop_assert!(front.iter().any(|&on| dominates(&all[on], &all[index]) || points[on] == points[index]));
                }
            }
            prop_assert!(knee(&all, &front).is_some_and(|knee| front.contains(&knee)));
        }
    }
}
