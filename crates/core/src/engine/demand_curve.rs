//! The probes that sources want at each price.
//!
//! A probe every ℓ hours of a source with rate π saves its price z if π·ℓ²/2 = z. So the source wants
//! √(π/2)/√z probes per hour, between a least and a most number. The curve is the sum over all sources. It is
//! kept by ranges of the price, in whole numbers, so that adding and removing a source takes constant time and
//! leaves no rounding errors. Must not know sources, nor why a price is asked.

use serde::{Deserialize, Serialize};

/// The probes per hour that one source wants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct ProbeDemand {
    /// √(π/2), with π in weighted updates per hour: probes per hour at a price of one hour.
    pub root: f32,
    /// The least probes per hour, at any price.
    pub least: f32,
    /// The most probes per hour, at any price.
    pub most: f32,
    /// Whether the least number is required, by `max_gap`. Otherwise a small total lowers it.
    pub required: bool,
}

impl ProbeDemand {
    /// The same with the least number lowered by this factor, unless it is required.
    pub fn stretched(self, by: f64) -> Self {
        let least = if self.required { self.least } else { (f64::from(self.least) / by.max(1.0)) as f32 };
        Self { least, ..self }
    }

    /// Probes per hour at a price in hours.
    pub fn at(&self, price: f64) -> f64 {
        let wanted = f64::from(self.root) / price.max(LEAST_PRICE).sqrt();
        wanted.clamp(f64::from(self.least), f64::from(self.most).max(f64::from(self.least)))
    }

    /// The prices between which it is neither at its most nor at its least number.
    fn free_between(&self) -> (f64, f64) {
        let square = |limit: f32| (f64::from(self.root) / f64::from(limit).max(1e-12)).powi(2);
        (square(self.most.max(self.least)), square(self.least))
    }
}

/// The least price, in hours. At it even a source with one update in a thousand years is probed as often as
/// its budget allows.
pub(super) const LEAST_PRICE: f64 = 1e-9;

/// The curve has this many ranges of prices for each doubling of the price …
const PER_DOUBLING: f64 = 32.0;
/// … for 56 doublings, from the least price on.
const RANGES: usize = 1792;

/// The unit of the sums: a billionth of a probe per hour.
const UNIT: f64 = 1e9;

/// The sums of the sources whose demand changes its form in one range of prices.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct PriceRange {
    /// Most numbers of the sources that are at it up to this range.
    most: i64,
    /// Roots of the sources that are free from this range on …
    freed: i64,
    /// … and of those that are at their least number from this range on.
    bound: i64,
    /// Least numbers of the latter.
    least: i64,
}

/// The sum of the demands of all sources, by price.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DemandCurve {
    ranges: Vec<PriceRange>,
    /// The least numbers that are required.
    required: i64,
}

impl Default for DemandCurve {
    fn default() -> Self {
        Self { ranges: vec![PriceRange::default(); RANGES], required: 0 }
    }
}

/// The demand in one range of prices: at the most and at the least number, and by the price.
struct Part {
    fixed: f64,
    root: f64,
}

impl Part {
    fn at(&self, price: f64) -> f64 {
        self.fixed + self.root / price.sqrt()
    }
}

impl DemandCurve {
    /// Adds a source.
    pub fn add(&mut self, demand: &ProbeDemand) {
        self.count(demand, 1);
    }

    /// Removes a source that was added with the same demand.
    pub fn remove(&mut self, demand: &ProbeDemand) {
        self.count(demand, -1);
    }

    fn count(&mut self, demand: &ProbeDemand, sign: i64) {
        let units = |number: f32| sign * (f64::from(number) * UNIT).round() as i64;
        let (low, high) = demand.free_between();
        let (root, low, high) = (units(demand.root), range_of(low), range_of(high));
        self.ranges[low].most += units(demand.most.max(demand.least));
        self.ranges[low].freed += root;
        self.ranges[high].bound += root;
        self.ranges[high].least += units(demand.least);
        self.required += if demand.required { units(demand.least) } else { 0 };
    }

    /// The factor by which the least numbers that are not required must be lowered, so that at the highest
    /// price all sources want this many probes per hour; 1 if they want no more.
    pub fn stretch_for(&self, probes: f64) -> f64 {
        let (required, least) = (self.required as f64 / UNIT, self.at(f64::INFINITY));
        if least <= probes { 1.0 } else { (least - required) / (probes - required).max(1e-9) }
    }

    /// Probes per hour at the highest price, with the least numbers that are not required lowered by this
    /// factor.
    pub fn least(&self, stretch: f64) -> f64 {
        let required = self.required as f64 / UNIT;
        required + (self.at(f64::INFINITY) - required) / stretch.max(1.0)
    }

    /// Probes per hour at a price in hours.
    pub fn at(&self, price: f64) -> f64 {
        let price = price.max(LEAST_PRICE);
        self.parts().nth(range_of(price)).map_or(0.0, |part| part.at(price))
    }

    /// The price at which sources want this many probes per hour: the lowest price of all if they never want
    /// as many, the highest if they always want more.
    pub fn price_of(&self, probes: f64) -> f64 {
        for (range, part) in self.parts().enumerate() {
            let (low, high) = (begin_of(range), begin_of(range + 1));
            // The demand at the end of the range, and so at every later price, is less.
            if part.at(high) <= probes {
                let by_price = (part.root / (probes - part.fixed).max(1e-12)).powi(2);
                return by_price.clamp(low, high);
            }
        }
        begin_of(RANGES)
    }

    /// The update·hours of waiting per hour that are saved if the demand grows from its number at `price` by
    /// this factor, which may be below 1: the price of each probe, summed.
    pub fn saved_by(&self, price: f64, factor: f64) -> f64 {
        let (from, until) = (self.at(price), self.at(price) * factor);
        let steps = 32;
        let each = (until - from) / f64::from(steps);
        let middle = |step: i32| self.price_of(from + each * (f64::from(step) + 0.5));
        (0..steps).map(|step| middle(step) * each).sum()
    }

    /// The demand in each range of prices, from the lowest on.
    fn parts(&self) -> impl Iterator<Item = Part> {
        let most: i64 = self.ranges.iter().map(|range| range.most).sum();
        let mut sums = (most, 0_i64, 0_i64);
        self.ranges.iter().map(move |range| {
            sums.0 -= range.most;
            sums.1 += range.freed;
            let part = Part { fixed: (sums.0 + sums.2) as f64 / UNIT, root: sums.1 as f64 / UNIT };
            sums.1 -= range.bound;
            sums.2 += range.least;
            part
        })
    }
}

fn range_of(price: f64) -> usize {
    let place = ((price.max(LEAST_PRICE) / LEAST_PRICE).log2() * PER_DOUBLING) as usize;
    place.min(RANGES - 1)
}

fn begin_of(range: usize) -> f64 {
    LEAST_PRICE * (range as f64 / PER_DOUBLING).exp2()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn demand() -> impl Strategy<Value = ProbeDemand> {
        (-3.0_f32..2.0, 0.001_f32..0.1, 1.0_f32..50.0).prop_map(|(root, least, times)| ProbeDemand {
            root: 10_f32.powf(root),
            least,
            most: least * times,
            required: times < 10.0,
        })
    }

    proptest! {
        #[test]
        fn the_curve_is_the_sum_over_sources(
            demands in prop::collection::vec(demand(), 1..40),
            removed in prop::collection::vec(demand(), 0..10),
            price in -3.0_f64..4.0,
        ) {
            let mut curve = DemandCurve::default();
            demands.iter().chain(&removed).for_each(|demand| curve.add(demand));
            removed.iter().for_each(|demand| curve.remove(demand));
            let price = 10_f64.powf(price);
            let sum: f64 = demands.iter().map(|demand| demand.at(price)).sum();
            // Sources within one range of their limits may be off by half a range, a 92nd.
            prop_assert!((curve.at(price) / sum - 1.0).abs() < 0.012, "{} against {sum}", curve.at(price));
        }

        #[test]
        fn the_price_of_a_number_of_probes_gives_that_number(
            demands in prop::collection::vec(demand(), 20..60),
            share in 0.05_f64..0.95,
        ) {
            let mut curve = DemandCurve::default();
            demands.iter().for_each(|demand| curve.add(demand));
            let least: f64 = demands.iter().map(|demand| f64::from(demand.least)).sum();
            let most: f64 = demands.iter().map(|demand| f64::from(demand.most)).sum();
            let wanted = least + share * (most - least);
            let price = curve.price_of(wanted);
            let sum: f64 = demands.iter().map(|demand| demand.at(price)).sum();
            prop_assert!((sum / wanted - 1.0).abs() < 0.012, "{sum} against {wanted}");
        }
    }

    #[test]
    fn limits_and_savings_match_hand_computation() {
        // A hundred sources with half an update per hour each: √(π/2) is a half.
        let one = ProbeDemand { root: 0.5, least: 1.0 / 24.0, most: 2.0, required: false };
        let mut curve = DemandCurve::default();
        (0..100).for_each(|_| curve.add(&one));
        assert!((curve.at(1.0) - 50.0).abs() < 1e-6, "{}", curve.at(1.0));
        assert!((curve.price_of(50.0) - 1.0).abs() < 1e-6);
        assert!((curve.at(1e-9) - 200.0).abs() < 1e-6 && (curve.at(1e9) - 100.0 / 24.0).abs() < 1e-6);
        assert_eq!(curve.price_of(1.0), begin_of(RANGES), "no price gives less than the least number");
        assert_eq!(curve.price_of(300.0), LEAST_PRICE);
        // A hundred probes a day are too many; with a hundred more required ones, 50 of them are left.
        assert_eq!(curve.stretch_for(100.0 / 24.0 + 1e-6), 1.0);
        assert!((curve.stretch_for(50.0 / 24.0) - 2.0).abs() < 1e-6);
        assert!((curve.least(2.0) - 50.0 / 24.0).abs() < 1e-6);
        let needed = ProbeDemand { required: true, ..one };
        (0..100).for_each(|_| curve.add(&needed));
        assert!((curve.stretch_for(150.0 / 24.0) - 2.0).abs() < 1e-6);
        assert!((curve.least(2.0) - 150.0 / 24.0).abs() < 1e-6);
        assert_eq!(one.stretched(2.0).least, 1.0 / 48.0);
        assert_eq!(needed.stretched(2.0).least, 1.0 / 24.0);
        (0..100).for_each(|_| curve.remove(&needed));
        // The waiting is π·100/(2·probes per source): 50 per hour at half a probe, 45.4 at a tenth more.
        let saved = curve.saved_by(1.0, 1.1);
        assert!((saved - 50.0 * (1.0 - 1.0 / 1.1)).abs() < 0.02, "{saved}");
        let lost = curve.saved_by(1.0, 0.9);
        assert!((lost + 50.0 * (1.0 / 0.9 - 1.0)).abs() < 0.02, "{lost}");
    }
}
