//! The price of a probe that sources share: stated by the user, or found for a stated total.
//!
//! For a total, the price is the one at which the expected probes of all sources are as many as the total
//! allows. The expected number is the sum over the demands of the sources, times a correction: the probes that
//! were sent over those that were expected, of about the last day. Both are counted from probe to probe of each
//! source, by its hours of the week. So neither nights nor Sundays move the price. A source uses the price that
//! is in force when its probe ends. Probes that do not depend on the price are counted first. If the rest does
//! not suffice for one probe a day and source, that interval is stretched. Must not know when probes are due.

use serde::{Deserialize, Serialize};

use crate::planning::plan_input::AT_LEAST_EVERY;
use crate::time::{Span, Timestamp};

use super::demand_curve::{DemandCurve, LEAST_PRICE, ProbeDemand};
use super::params::{Pricing, SourcePrice};

/// The price and the longest interval that a source uses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PriceInForce {
    /// z: the hours of update waiting that a probe must be expected to save; 0 to use the whole budget.
    pub hours: f32,
    /// The longest time between two probes at any price.
    pub at_least_every: Span,
}

impl PriceInForce {
    /// How many times longer than usual the longest time between two probes is, for a small total.
    fn stretch(&self) -> f64 {
        self.at_least_every.as_secs_f64() / AT_LEAST_EVERY.as_secs_f64()
    }
}

/// Sent and expected probes, of about the last day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SentOverExpected {
    /// Probes sent.
    pub sent: f64,
    /// Probes expected.
    pub expected: f64,
}

/// The state of the price that survives a restart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FleetPrice {
    /// When it was computed.
    pub at: Timestamp,
    /// The price that is in force.
    pub in_force: PriceInForce,
    /// Expected probes per hour of the sources that share the price …
    pub shared_per_hour: f64,
    /// … and of the others.
    pub fixed_per_hour: f64,
    /// The correction for the sources that share the price.
    pub shared: SentOverExpected,
    /// The correction for the others.
    pub fixed: SentOverExpected,
}

/// The spending of all sources, and what more or fewer probes would change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spending {
    /// The price in force.
    pub price: PriceInForce,
    /// Probes per hour that the total allows, if one is stated.
    pub total_per_hour: Option<f64>,
    /// Expected probes per hour of sources that share the price.
    pub shared_per_hour: f64,
    /// Expected probes per hour of other sources.
    pub fixed_per_hour: f64,
    /// Probes per hour of sources that share the price if each is probed as seldom as usual at any price: a
    /// day apart, or as `max_gap` requires.
    pub least_per_hour: f64,
    /// Update·hours of waiting per hour that a tenth more probes would save.
    pub tenth_more_saves: f64,
    /// Update·hours of waiting per hour that a tenth fewer probes would cost.
    pub tenth_fewer_costs: f64,
}

/// How often the price is computed.
const EVERY: Span = Span::from_hours(1);
/// The horizon of the corrections.
const HORIZON_HOURS: f64 = 24.0;
/// The correction starts with the weight of this many hours.
const PRIOR_HOURS: f64 = 6.0;
/// The limits of a correction.
const CORRECTION: (f64, f64) = (0.2, 5.0);
/// A longer time between two probes has other causes than the price, such as an outage: it counts as this
/// many expected probes.
const MOST_EXPECTED: f64 = 4.0;
/// The longest interval between probes to which a small total stretches a day: within the reach of a plan.
const LONGEST: Span = Span::from_days(13);

impl SentOverExpected {
    fn ratio(&self) -> f64 {
        match self.expected > 1e-9 {
            true => (self.sent / self.expected).clamp(CORRECTION.0, CORRECTION.1),
            false => 1.0,
        }
    }

    /// Starts with a weight, or lets older probes lose theirs.
    fn age(&mut self, hours: f64, expected_per_hour: f64) {
        if self.expected <= 0.0 {
            let weight = PRIOR_HOURS * expected_per_hour;
            *self = Self { sent: weight, expected: weight };
        }
        let kept = (-hours.max(0.0) / HORIZON_HOURS).exp();
        (self.sent, self.expected) = (self.sent * kept, self.expected * kept);
    }
}

/// The demand of one source as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum CountedDemand {
    /// It shares the price.
    Shared(ProbeDemand),
    /// It is probed this often per hour at any price.
    Fixed(f32),
}

/// The price of all sources and the demands that it follows from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PriceControl {
    curve: DemandCurve,
    /// Probes per hour of the other sources, in billionths.
    fixed: i64,
    state: FleetPrice,
}

impl PriceControl {
    pub fn new(pricing: Pricing, now: Timestamp) -> Self {
        let none = SentOverExpected::default();
        let state = FleetPrice {
            at: now,
            in_force: PriceInForce { hours: 0.0, at_least_every: AT_LEAST_EVERY },
            shared_per_hour: 0.0,
            fixed_per_hour: 0.0,
            shared: none,
            fixed: none,
        };
        let mut control = Self { curve: DemandCurve::default(), fixed: 0, state };
        control.recompute(pricing, now);
        control
    }

    /// Continues with the state of before a restart.
    pub fn resume(&mut self, state: FleetPrice) {
        self.state = state;
    }

    /// Moves the time of the last computation after the clock was set.
    pub fn shift(&mut self, by: Span) {
        self.state.at += by;
    }

    /// The price of a source.
    pub fn of(&self, price: SourcePrice) -> PriceInForce {
        match price {
            SourcePrice::Own(hours) => PriceInForce { hours, at_least_every: AT_LEAST_EVERY },
            SourcePrice::Fleet => self.state.in_force,
        }
    }

    /// Counts a demand in place of another.
    pub fn replace(&mut self, before: Option<CountedDemand>, after: Option<CountedDemand>) {
        let units = |per_hour: f32| (f64::from(per_hour) * 1e9).round() as i64;
        match before {
            Some(CountedDemand::Shared(demand)) => self.curve.remove(&demand),
            Some(CountedDemand::Fixed(per_hour)) => self.fixed -= units(per_hour),
            None => {}
        }
        match after {
            Some(CountedDemand::Shared(demand)) => self.curve.add(&demand),
            Some(CountedDemand::Fixed(per_hour)) => self.fixed += units(per_hour),
            None => {}
        }
    }

    /// Counts a probe and the probes that were expected since the one before.
    pub fn count_sent(&mut self, demand: &CountedDemand, price: PriceInForce, hours: f64) {
        let (ratio, per_hour) = match demand {
            CountedDemand::Shared(demand) => {
                (&mut self.state.shared, demand.stretched(price.stretch()).at(f64::from(price.hours)))
            }
            CountedDemand::Fixed(per_hour) => (&mut self.state.fixed, f64::from(*per_hour)),
        };
        ratio.sent += 1.0;
        ratio.expected += (per_hour * hours).min(MOST_EXPECTED);
    }

    /// Computes the price if it is time. Returns the state to store.
    pub fn recompute_if_due(&mut self, pricing: Pricing, now: Timestamp) -> Option<FleetPrice> {
        // A clock that was set back makes it due too.
        if now < self.state.at + EVERY && now >= self.state.at {
            return None;
        }
        let hours = (now - self.state.at).as_secs_f64() / 3600.0;
        let (shared, fixed) = self.expected();
        self.state.shared.age(hours, shared);
        self.state.fixed.age(hours, fixed);
        self.recompute(pricing, now);
        Some(self.state)
    }

    /// Expected probes per hour without corrections: of sources that share the price, and of others.
    fn expected(&self) -> (f64, f64) {
        let PriceInForce { hours, .. } = self.state.in_force;
        let stretch = self.state.in_force.stretch();
        let shared =
            if stretch > 1.0 { self.curve.least(stretch) } else { self.curve.at(f64::from(hours)) };
        (shared, self.fixed as f64 / 1e9)
    }

    /// Computes the price.
    pub fn recompute(&mut self, pricing: Pricing, now: Timestamp) {
        self.state.at = now;
        self.reprice(pricing);
    }

    /// Computes the price after a start: the hour since the last computation goes on.
    pub fn reprice(&mut self, pricing: Pricing) {
        self.state.in_force = match pricing {
            Pricing::Price(hours) => PriceInForce { hours, at_least_every: AT_LEAST_EVERY },
            Pricing::Total { probes, per } => self.for_total(per_hour(probes, per)),
        };
        let (shared, fixed) = self.expected();
        self.state.shared_per_hour = shared * self.state.shared.ratio();
        self.state.fixed_per_hour = fixed * self.state.fixed.ratio();
    }

    /// The price at which the total is spent.
    fn for_total(&self, total: f64) -> PriceInForce {
        let fixed = self.fixed as f64 / 1e9 * self.state.fixed.ratio();
        let rest = ((total - fixed) / self.state.shared.ratio()).max(0.0);
        let stretch = self.curve.stretch_for(rest);
        let at_least_every = AT_LEAST_EVERY.scaled(stretch.min(1e3)).min(LONGEST);
        PriceInForce { hours: self.curve.price_of(rest).max(LEAST_PRICE) as f32, at_least_every }
    }

    pub fn spending(&self, pricing: Pricing) -> Spending {
        let (price, shared) = (self.state.in_force, self.state.shared.ratio());
        let (of_shared, of_fixed) = self.expected();
        let at = f64::from(price.hours).max(LEAST_PRICE);
        Spending {
            price,
            total_per_hour: match pricing {
                Pricing::Price(_) => None,
                Pricing::Total { probes, per } => Some(per_hour(probes, per)),
            },
            shared_per_hour: of_shared * shared,
            fixed_per_hour: of_fixed * self.state.fixed.ratio(),
            least_per_hour: self.curve.least(1.0),
            tenth_more_saves: shared * self.curve.saved_by(at, 1.1),
            tenth_fewer_costs: -shared * self.curve.saved_by(at, 0.9),
        }
    }
}

fn per_hour(probes: u64, per: Span) -> f64 {
    probes as f64 / (per.as_secs_f64() / 3600.0).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Pricing = Pricing::Total { probes: 240, per: Span::from_days(1) };

    fn now() -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }

    fn demand(root: f32) -> Option<CountedDemand> {
        Some(CountedDemand::Shared(ProbeDemand { root, least: 1.0 / 24.0, most: 2.0, required: false }))
    }

    #[test]
    fn the_price_spends_the_total_after_the_fixed_probes() {
        let mut control = PriceControl::new(DAY, now());
        (0..10).for_each(|_| control.replace(None, demand(0.5)));
        control.recompute(DAY, now());
        // Ten sources at one probe per hour each: √z = 0.5.
        assert!((control.state.in_force.hours - 0.25).abs() < 1e-3, "{:?}", control.state);
        // Half of the total is fixed: √z = 1.
        control.replace(None, Some(CountedDemand::Fixed(5.0)));
        control.recompute(DAY, now());
        assert!((control.state.in_force.hours - 1.0).abs() < 1e-2, "{:?}", control.state);
        let spending = control.spending(DAY);
        assert!(
            (spending.fixed_per_hour - 5.0).abs() < 1e-6 && (spending.shared_per_hour - 5.0).abs() < 0.01
        );
        assert!(spending.tenth_more_saves > 0.0 && spending.tenth_fewer_costs > spending.tenth_more_saves);
        // More than the caps allow, and less than one probe a day.
        let all = Pricing::Total { probes: 10_000, per: Span::from_days(1) };
        control.recompute(all, now());
        assert!(control.state.in_force.hours < 0.07, "{:?}", control.state);
        assert_eq!(control.state.in_force.at_least_every, AT_LEAST_EVERY);
        let few = Pricing::Total { probes: 125, per: Span::from_days(1) };
        control.recompute(few, now());
        let stretched = control.state.in_force.at_least_every.as_secs_f64() / 86_400.0;
        assert!((stretched - 2.0).abs() < 0.01, "five of ten probes a day are left: {stretched}");
    }

    #[test]
    fn more_probes_than_expected_raise_the_price() {
        let mut control = PriceControl::new(DAY, now());
        (0..10).for_each(|_| control.replace(None, demand(0.5)));
        control.recompute(DAY, now());
        let before = control.state.in_force;
        let mut at = now();
        for _ in 0..96 {
            at += EVERY;
            // Ten probes, each after the time in which 0.8 were expected.
            let price = control.state.in_force;
            let Some(CountedDemand::Shared(one)) = demand(0.5) else { panic!("it shares the price") };
            let hours = 0.8 / one.at(f64::from(price.hours));
            (0..10).for_each(|_| control.count_sent(&CountedDemand::Shared(one), price, hours));
            control.recompute_if_due(DAY, at);
        }
        assert_eq!(control.recompute_if_due(DAY, at + Span::from_mins(1)), None);
        let ratio = control.state.in_force.hours / before.hours;
        assert!((ratio - 1.0 / 0.64).abs() < 0.05, "a fourth more probes: {ratio}");
        // After a restart the corrections go on, and a price that was changed meanwhile holds at once.
        let mut restarted = PriceControl::new(DAY, at);
        (0..10).for_each(|_| restarted.replace(None, demand(0.5)));
        restarted.resume(control.state);
        restarted.reprice(DAY);
        assert_eq!(restarted.state, control.state);
        restarted.reprice(Pricing::Price(0.25));
        assert_eq!(restarted.state.in_force.hours, 0.25);
        // A price that is stated does not move.
        control.recompute(Pricing::Price(0.5), at);
        assert_eq!(control.state.in_force.hours, 0.5);
    }
}
