//! Places of labels without overlap: in a column, or beside points.

/// The height of a label.
pub const LABEL: f64 = 15.0;

/// The approximate width of a text in the pictures' font.
pub fn width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.4
}

/// The y coordinates of labels in a column, in the order given: each as near to the wanted one as possible,
/// at least [`LABEL`] apart, between `top` and `bottom` if that suffices for all.
///
/// ```
/// # use tidewatch_lab::draw::labels::spread;
/// assert_eq!(spread(&[50.0, 20.0, 54.0], (0.0, 100.0)), [44.5, 20.0, 59.5]);
/// ```
pub fn spread(wanted: &[f64], (top, bottom): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&one, &other| wanted[one].total_cmp(&wanted[other]));
    // Less the distance to the first, labels only have to stay in order: groups that do not are averaged.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for (place, &label) in order.iter().enumerate() {
        let mut group = (wanted[label] - place as f64 * LABEL, 1);
        while let Some((mean, count)) = groups.pop_if(|(mean, _)| *mean > group.0) {
            let both = count + group.1;
            group = ((mean * count as f64 + group.0 * group.1 as f64) / both as f64, both);
        }
        groups.push(group);
    }
    let lowest = bottom - order.len().saturating_sub(1) as f64 * LABEL;
    let means = groups.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count));
    let mut places = vec![0.0; wanted.len()];
    for ((place, &label), mean) in order.iter().enumerate().zip(means) {
        places[label] = mean.min(lowest).max(top) + place as f64 * LABEL;
    }
    places
}

/// A rectangle: left, top, right, bottom.
type Rect = (f64, f64, f64, f64);

fn overlap(one: &Rect, other: &Rect) -> bool {
    one.0 < other.2 && other.0 < one.2 && one.1 < other.3 && other.1 < one.3
}

/// The left end and the middle height of a label for each point, beside it: to its right if that is free, else
/// to its left, else higher or lower. Labels stay between `left` and `right`, and cover no other label or
/// point.
pub fn beside(points: &[(f64, f64)], names: &[&str], (left, right): (f64, f64)) -> Vec<(f64, f64)> {
    const GAP: f64 = 9.0;
    let dot = |&(x, y): &(f64, f64)| (x - 6.0, y - 6.0, x + 6.0, y + 6.0);
    let mut taken: Vec<Rect> = points.iter().map(dot).collect();
    let mut places = Vec::with_capacity(points.len());
    for (&(x, y), name) in points.iter().zip(names) {
        let width = width(name);
        let shifts = (0..).flat_map(|step| [f64::from(step), -f64::from(step)]).take(80);
        let sides = |up: f64| [(x + GAP, y + up * 7.5), (x - GAP - width, y + up * 7.5)];
        let rect = |&(at, middle): &(f64, f64)| {
            (at, middle - 0.5 * LABEL + 1.0, at + width, middle + 0.5 * LABEL - 1.0)
        };
        let is_free = |place: &(f64, f64)| {
            let rect = rect(place);
            rect.0 >= left && rect.2 <= right && !taken.iter().any(|other| overlap(&rect, other))
        };
        let place = shifts.flat_map(sides).find(is_free).unwrap_or((x + GAP, y));
        taken.push(rect(&place));
        places.push(place);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_are_to_the_right_and_else_to_the_left() {
        let points = [(100.0, 50.0), (880.0, 90.0)];
        let places = beside(&points, &["auto", "uniform"], (70.0, 890.0));
        assert_eq!(places[0], (109.0, 50.0));
        assert!(places[1].0 + width("uniform") < 880.0 && places[1].1 == 90.0, "{places:?}");
    }

    #[test]
    fn a_full_column_begins_at_the_top() {
        assert_eq!(spread(&[5.0, 5.0, 5.0], (0.0, 10.0)), [0.0, 15.0, 30.0]);
        assert_eq!(spread(&[], (0.0, 10.0)), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn labels_in_a_column_do_not_overlap(wanted in prop::collection::vec(0.0_f64..300.0, 1..20)) {
            let places = spread(&wanted, (0.0, 300.0));
            let mut sorted = places.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            for pair in sorted.windows(2) {
                prop_assert!(pair[1] - pair[0] >= LABEL - 1e-9, "{:?}", places);
            }
            prop_assert!(sorted[0] >= 0.0 && sorted[sorted.len() - 1] <= 300.0 + 1e-9, "{:?}", places);
        }

        #[test]
        fn labels_beside_points_do_not_overlap(
            points in prop::collection::vec((74.0_f64..880.0, 76.0_f64..400.0), 1..14),
        ) {
            let names = vec!["lambda_crawl_even"; points.len()];
            let places = beside(&points, &names, (70.0, 896.0));
            let rects: Vec<Rect> = places
                .iter()
                .map(|&(x, y)| (x, y - 6.5, x + width(names[0]), y + 6.5))
                .collect();
            for (index, rect) in rects.iter().enumerate() {
                prop_assert!(rects[..index].iter().all(|other| !overlap(rect, other)), "{:?}", places);
            }
        }
    }
}
