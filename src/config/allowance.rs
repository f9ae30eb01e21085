//! Budgets in three layers: `[budget]`, then the group's, then the source's own.
//!
//! Each layer overrides single parts of the layer below. This module checks that the result can be
//! kept. It must not know other settings of sources or groups.

use tidewatch_core::engine::params::Pricing;
use tidewatch_core::planning::budget::{Budget, PRICE};
use tidewatch_core::time::Span;

use super::fault::{Faults, Spot};
use super::raw;
use super::values::{self, LowerBound};

/// A budget under construction. `None` marks a part with a fault; checks that need the part are
/// skipped.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    probes: Option<u32>,
    per: Option<Span>,
    min_spacing: Option<Span>,
    price: Option<Span>,
    /// Whether the file sets a price or a total: budgets are then not spent whole.
    pub priced: bool,
    /// Whether a group or source sets the price.
    own_price: bool,
    /// Where `per` is written; `None` for the default.
    per_at: Option<Spot>,
    /// Whether a group or source sets how many probes are allowed.
    pub own: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        let Budget { probes, per, min_spacing } = Budget::default();
        Self {
            probes: Some(probes),
            per: Some(per),
            min_spacing: Some(min_spacing),
            price: Some(PRICE),
            priced: false,
            own_price: false,
            per_at: None,
            own: false,
        }
    }
}

impl Allowance {
    /// `[budget]` over the built-in defaults, beside `[fleet]`; not an own budget.
    pub fn common(raw: &raw::Budget, fleet: &raw::Fleet, faults: &mut Faults) -> Self {
        let common = Self::default().overlaid(raw, faults);
        if let (Some(price), Some(_)) = (&raw.price, fleet.probes) {
            faults.add_with_hint(
                price.at,
                "a price and a total are both stated: `price` in [budget], `probes` in [fleet]",
                "tidewatch finds the price that spends a total: keep one of them",
            );
        }
        Self { own: false, own_price: false, priced: common.priced || fleet.probes.is_some(), ..common }
    }

    /// This allowance with the keys of one section on top.
    pub fn overlaid(mut self, raw: &raw::Budget, faults: &mut Faults) -> Self {
        let mut place = None;
        if let Some(text) = &raw.per {
            self.per = values::span("per", text, LowerBound::Positive, faults);
            self.per_at = Some(text.at);
            place = Some(text.at);
        }
        if let Some(number) = raw.probes {
            self.probes = values::count("probes", number, faults);
            place = Some(number.at);
        }
        if let Some(text) = &raw.min_spacing {
            self.min_spacing = values::span("min_spacing", text, LowerBound::Zero, faults);
            place = Some(text.at);
        }
        if let Some(text) = &raw.price {
            // The price does not limit the number of probes, so it does not make the budget an own one.
            self.price = values::span("price", text, LowerBound::Zero, faults);
            (self.priced, self.own_price) = (true, true);
        }
        self.own |= raw.probes.is_some() || raw.per.is_some();
        if let Some(at) = place {
            self.check_fit(at, faults);
        }
        self
    }

    fn check_fit(&self, at: Spot, faults: &mut Faults) {
        let (Some(probes), Some(per), Some(spacing)) = (self.probes, self.per, self.min_spacing) else {
            return;
        };
        let (n, per_ms, spacing_ms) = (i64::from(probes), per.as_millis(), spacing.as_millis());
        let needed = spacing_ms.saturating_mul(n);
        if needed <= per_ms {
            return;
        }
        let fit = match per_ms / spacing_ms.max(1) {
            0 => String::new(),
            most => format!("at most {most} probes, or "),
        };
        faults.add_with_hint(
            at,
            format!(
                "the budget can't be spent: {probes} probes {spacing} apart take {}, but `per` is {per}",
                Span::from_millis(needed)
            ),
            format!("what fits: {fit}a `min_spacing` of at most {}", Span::from_millis(per_ms / n)),
        );
    }

    /// The least benefit that justifies a probe, if it is not that of all sources. A budget that a group or
    /// source states is spent whole, unless the file sets a price or a total.
    pub fn own_price(&self) -> Option<Span> {
        match self.own_price {
            true => Some(self.price.unwrap_or(PRICE)),
            false => (self.own && !self.priced).then_some(Span::ZERO),
        }
    }

    /// The price of `[budget]`.
    pub fn common_price(&self) -> Pricing {
        Pricing::Price((self.price.unwrap_or(PRICE).as_secs_f64() / 3600.0) as f32)
    }

    /// T, the window of the budget, and where it is written.
    pub fn per(&self) -> Option<(Span, Option<Spot>)> {
        self.per.map(|per| (per, self.per_at))
    }

    /// The budget. Parts with a fault take the default; the configuration is refused anyway.
    pub fn budget(&self) -> Budget {
        let default = Budget::default();
        Budget {
            probes: self.probes.unwrap_or(default.probes),
            per: self.per.unwrap_or(default.per),
            min_spacing: self.min_spacing.unwrap_or(default.min_spacing),
        }
    }
}
