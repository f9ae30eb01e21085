//! The probes that one source wants at a price, and how its probes count as spending.
//!
//! Must not know other sources, nor how the price is found.

use crate::model::hourly_profile;
use crate::planning::plan_input::{self, AT_LEAST_EVERY};
use crate::time::{Span, Timestamp};

use super::demand_curve::ProbeDemand;
use super::fleet_price::{CountedDemand, PriceControl};
use super::params::SourcePrice;
use super::reason::Reason;
use super::source::{NEWCOMER_PER_HOUR, Source};

const HOUR: Span = Span::from_hours(1);

impl Source {
    /// Its demand; `None` if it is not probed.
    fn probe_demand(&self) -> Option<CountedDemand> {
        let per_hour = |gap: Span| (3600.0 / gap.as_secs_f64().max(1.0)) as f32;
        let budget = &self.terms.budget;
        let next = self.memory.due.at()?;
        if !self.is_well() {
            // In backoff: until its next probe.
            let last = self.memory.last_probe.unwrap_or(next - HOUR);
            return Some(CountedDemand::Fixed(per_hour((next - last).max(budget.min_spacing))));
        }
        let apart = plan_input::apart(budget.min_spacing, &self.memory.hints, self.fresh_for());
        let most = per_hour(budget.even_gap().max(apart));
        let own = match self.terms.price {
            SourcePrice::Fleet => None,
            SourcePrice::Own(hours) => Some(hours),
        };
        if !self.terms.policy.has_price() || own.is_some_and(|hours| hours <= 0.0) {
            return Some(CountedDemand::Fixed(most));
        }
        let known = Some(self.memory.root_rate).filter(|&root| root > 0.0);
        let estimated = || self.memory.estimate.known_rate().unwrap_or(NEWCOMER_PER_HOUR).sqrt() as f32;
        let root = known.unwrap_or_else(estimated) * (self.terms.weight.max(1e-9) / 2.0).sqrt();
        let max_gap = self.terms.max_gap.filter(|&gap| gap <= AT_LEAST_EVERY);
        let least = per_hour(max_gap.unwrap_or(AT_LEAST_EVERY)).min(most);
        let demand = ProbeDemand { root, least, most, required: max_gap.is_some() };
        Some(match own {
            None => CountedDemand::Shared(demand),
            Some(hours) => CountedDemand::Fixed(demand.at(f64::from(hours)) as f32),
        })
    }

    /// Counts its demand anew.
    pub fn recount_demand(&mut self, prices: &mut PriceControl) {
        let after = self.probe_demand();
        if after != self.demand {
            prices.replace(self.demand, after);
            self.demand = after;
        }
    }

    /// Counts a probe that ended at `ended`, after one that ended at `last`. Probes that neither a price nor a
    /// policy asked for do not count.
    pub fn count_spending(&self, prices: &mut PriceControl, last: Option<Timestamp>, ended: Timestamp) {
        let usual = !matches!(self.memory.reason, Reason::Early | Reason::Manual | Reason::FirstContact);
        if let (Some(last), Some(demand), true) = (last, &self.demand, usual) {
            let hours = hourly_profile::root_hours(self.profile.as_deref(), last, ended);
            prices.count_sent(demand, self.price, hours);
        }
    }
}
