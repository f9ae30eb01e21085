//! Budgets, laid over one another: `[budget]`, then the group's, then the source's own.
//!
//! Knows which of the three said what and whether the sum of it can be kept. Must not know what
//! else a source or group holds.

use tidewatch_core::planning::budget::Budget;
use tidewatch_core::time::Span;

use super::fault::{Faults, Spot};
use super::raw;
use super::values::{self, Least};

/// A budget in the making. `None` = that part was at fault, and what depends on it is not checked.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    probes: Option<u32>,
    per: Option<Span>,
    min_spacing: Option<Span>,
    price: Option<Span>,
    /// Where `per` was written, if it was.
    per_at: Option<Spot>,
    /// A group or source said something of its own.
    pub own: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        let Budget { probes, per, min_spacing } = Budget::default();
        Self {
            probes: Some(probes),
            per: Some(per),
            min_spacing: Some(min_spacing),
            price: Some(Span::ZERO),
            per_at: None,
            own: false,
        }
    }
}

impl Allowance {
    /// What `[budget]` says over what holds if it says nothing: nobody's own yet.
    pub fn everyones(raw: &raw::Budget, faults: &mut Faults) -> Self {
        Self { own: false, ..Self::default().overlaid(raw, faults) }
    }

    /// This allowance with what a section says laid over it.
    pub fn overlaid(mut self, raw: &raw::Budget, faults: &mut Faults) -> Self {
        let mut blame = None;
        if let Some(text) = &raw.per {
            self.per = values::span("per", text, Least::Positive, faults);
            self.per_at = Some(text.at);
            blame = Some(text.at);
        }
        if let Some(number) = raw.probes {
            self.probes = values::count("probes", number, faults);
            blame = Some(number.at);
        }
        if let Some(text) = &raw.min_spacing {
            self.min_spacing = values::span("min_spacing", text, Least::Zero, faults);
            blame = Some(text.at);
        }
        if let Some(text) = &raw.price {
            // What a probe is worth says nothing of how many may be sent.
            self.price = values::span("price", text, Least::Zero, faults);
        }
        if let Some(at) = blame {
            self.own = true;
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

    /// What a probe must be worth.
    pub fn price(&self) -> Span {
        self.price.unwrap_or(Span::ZERO)
    }

    /// T, and where it was written.
    pub fn per(&self) -> Option<(Span, Option<Spot>)> {
        self.per.map(|per| (per, self.per_at))
    }

    /// The budget; parts at fault as in the default, since nobody will see it.
    pub fn budget(&self) -> Budget {
        let default = Budget::default();
        Budget {
            probes: self.probes.unwrap_or(default.probes),
            per: self.per.unwrap_or(default.per),
            min_spacing: self.min_spacing.unwrap_or(default.min_spacing),
        }
    }
}
