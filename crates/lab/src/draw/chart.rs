//! Charts: scales, axes, lines through points, bars.
//!
//! Shapes have classes; the page or file defines the style of text and grid. Must not know what is drawn.

use super::colour::ink;
use super::svg::{Picture, Shape, tenth};

/// Maximum number of labels on a scale.
const MOST_TICKS: usize = 10;

/// Round numbers in a range, approximately `about` of them, with their labels.
pub fn round_ticks(from: f64, to: f64, about: f64) -> Vec<(f64, String)> {
    let rough = (to - from) / about;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    let digits = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    let (first, last) = ((from / step).ceil() as i64, (to / step).floor() as i64);
    (first..=last).map(|index| index as f64 * step).map(|at| (at, format!("{at:.digits$}"))).collect()
}

/// A logarithmic scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    /// A scale that contains all these values, with a margin on either side. Values without a logarithm are
    /// left out.
    pub fn around(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut scale: Option<Self> = None;
        for value in values.into_iter().filter(|value| value.is_finite() && *value > 0.0) {
            let (least, most) = scale.map_or((value, value), |scale| (scale.least, scale.most));
            scale = Some(Self { least: least.min(value), most: most.max(value) });
        }
        scale.map(|Self { least, most }| Self { least: least / 1.25, most: most * 1.25 })
    }

    /// The position of a value: 0 for the least, 1 for the most.
    pub fn share(&self, value: f64) -> f64 {
        ((value / self.least).ln() / (self.most / self.least).ln()).clamp(0.0, 1.0)
    }

    /// The values that are on the scale.
    pub fn among(&self, values: &[f64]) -> Vec<f64> {
        values.iter().copied().filter(|value| (self.least..=self.most).contains(value)).collect()
    }

    /// Round numbers on the scale: 1, 2 and 5 of every power of ten, or 1 alone if there would be too many.
    pub fn round(&self) -> Vec<f64> {
        let powers = self.least.log10().floor() as i32..=self.most.log10().ceil() as i32;
        let all: Vec<f64> =
            powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power))).collect();
        let some = self.among(&all);
        match some.len() > MOST_TICKS {
            true => self.among(&all.into_iter().step_by(3).collect::<Vec<_>>()),
            false => some,
        }
    }
}

/// A round number in plain notation.
pub fn plain(value: f64) -> String {
    let digits = format!("{value:.6}");
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The position of a chart's plot in its picture.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// The left edge.
    pub left: f64,
    /// The upper edge.
    pub top: f64,
    /// The width.
    pub width: f64,
    /// The height.
    pub height: f64,
}

impl Frame {
    /// The lower edge.
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The x coordinate of a share of the width.
    pub fn x(&self, share: f64) -> f64 {
        self.left + share * self.width
    }

    /// The y coordinate of a share of the height, from below.
    pub fn y(&self, share: f64) -> f64 {
        self.bottom() - share * self.height
    }

    /// Vertical lines at these values, labelled below.
    pub fn upright(
        &self,
        scale: &Scale,
        ticks: &[f64],
        label: impl Fn(f64) -> String,
        picture: &mut Picture,
    ) {
        let (top, bottom) = (self.top, self.bottom());
        for &tick in ticks {
            let x = self.x(scale.share(tick));
            let line = Shape::line((tenth(x), top), (tenth(x), bottom)).class("grid");
            let below = Shape::text(tenth(x), tenth(bottom + 18.0), &label(tick)).class("soft");
            picture.add_row(&[line, below.anchor("middle")]);
        }
    }

    /// Horizontal lines at these values, labelled at the left.
    pub fn level(
        &self,
        scale: &Scale,
        ticks: &[f64],
        label: impl Fn(f64) -> String,
        picture: &mut Picture,
    ) {
        let (left, right) = (self.left, self.left + self.width);
        for &tick in ticks {
            let y = self.y(scale.share(tick));
            let line = Shape::line((left, tenth(y)), (right, tenth(y))).class("grid");
            let beside = Shape::text(left - 8.0, tenth(y + 4.0), &label(tick)).class("soft");
            picture.add_row(&[line, beside.anchor("end")]);
        }
    }
}

/// The points of a line in SVG notation.
pub fn points(places: impl IntoIterator<Item = (f64, f64)>) -> String {
    let all: Vec<String> = places.into_iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    all.join(" ")
}

/// A line of this colour and width through these points, each with a tooltip. A single point is only a dot.
pub fn line(ink: &str, width: f64, places: &[(f64, f64, String)], picture: &mut Picture) {
    let through = points(places.iter().map(|&(x, y, _)| (x, y)));
    if places.len() > 1 {
        let line = Shape::new("polyline").with("points", through).fill("none").stroke(ink);
        picture.add(&line.with("stroke-width", width));
    }
    for (x, y, word) in places {
        picture.add(&Shape::circle(tenth(*x), tenth(*y), width + 2.0).fill(ink).hint(word));
    }
}

/// A horizontal bar of the n-th kind between two x coordinates, with a tooltip.
pub fn bar(
    index: usize,
    (from, to): (f64, f64),
    (y, height): (f64, f64),
    word: &str,
    picture: &mut Picture,
) {
    let (x, width) = (from.min(to), (from - to).abs().max(0.5));
    let bar = Shape::rect(tenth(x), tenth(y), tenth(width), tenth(height)).with("rx", 1);
    picture.add(&bar.fill(ink(index)).hint(word));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_contain_values_with_a_logarithm() {
        let scale = Scale::around([10.0, 0.0, f64::NAN, 1000.0, f64::INFINITY]).unwrap();
        assert_eq!(scale, Scale { least: 8.0, most: 1250.0 });
        assert!((scale.share(100.0) - 0.5).abs() < 1e-12);
        assert_eq!((scale.share(1.0), scale.share(1e9)), (0.0, 1.0));
        assert_eq!(scale.round(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(scale.among(&[1.0, 9.0, 2000.0]), [9.0]);
        let wide = Scale::around([1e-3, 1e3]).unwrap();
        assert_eq!(
            wide.round().iter().copied().map(plain).collect::<Vec<_>>(),
            ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]
        );
        assert_eq!(Scale::around([]), None);
        assert!(Scale::around([3.0]).unwrap().share(3.0) > 0.4);
    }

    #[test]
    fn ticks_are_round() {
        let message =
            |from, to| round_ticks(from, to, 5.0).into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(message(0.0, 0.26), ["0.0", "0.1", "0.2"]);
        assert_eq!(message(138.0, 360.0), ["150", "200", "250", "300", "350"]);
    }
}
