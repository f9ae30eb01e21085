//! The price of a probe and the probes that it leads to, for `tidewatch status`.
//!
//! Shows what the engine computes. Must not know SQL, nor how the price is found.

use std::io::{self, Write};

use serde::Serialize;

use tidewatch_core::engine::fleet_price::Spending;
use tidewatch_core::time::Span;

const HOURS: f64 = 24.0;

/// The spending in the JSON document: probes per day, waiting in hours per day.
#[derive(Debug, Serialize)]
pub struct SpendingDocument {
    price_s: f64,
    at_least_every_s: f64,
    total_per_day: Option<f64>,
    shared_per_day: f64,
    fixed_per_day: f64,
    least_per_day: f64,
    tenth_more_saves_hours: f64,
    tenth_fewer_costs_hours: f64,
}

impl From<&Spending> for SpendingDocument {
    fn from(spending: &Spending) -> Self {
        Self {
            price_s: f64::from(spending.price.hours) * 3600.0,
            at_least_every_s: spending.price.at_least_every.as_secs_f64(),
            total_per_day: spending.total_per_hour.map(|total| total * HOURS),
            shared_per_day: spending.shared_per_hour * HOURS,
            fixed_per_day: spending.fixed_per_hour * HOURS,
            least_per_day: spending.least_per_hour * HOURS,
            tenth_more_saves_hours: spending.tenth_more_saves * HOURS,
            tenth_fewer_costs_hours: spending.tenth_fewer_costs * HOURS,
        }
    }
}

/// Prints price and spending in a few lines.
pub fn show(spending: &Spending, out: &mut dyn Write) -> io::Result<()> {
    let price = Span::from_hours(1).scaled(f64::from(spending.price.hours));
    let (shared, fixed) = (spending.shared_per_hour * HOURS, spending.fixed_per_hour * HOURS);
    match spending.total_per_hour {
        Some(total) => write!(out, "total: {:.0} probes a day; ", total * HOURS)?,
        None => write!(out, "price: ")?,
    }
    if is_too_small(spending) {
        writeln!(
            out,
            "it is too small for one probe a day of every source: these are probed every {} instead",
            spending.price.at_least_every
        )?;
    } else if price == Span::ZERO {
        writeln!(out, "0s, every budget is spent whole")?;
    } else {
        writeln!(out, "a probe must be expected to save updates {price} of waiting")?;
    }
    writeln!(
        out,
        "expected: {:.0} probes a day, {shared:.0} of sources that share the price and {fixed:.0} of others",
        shared + fixed
    )?;
    if shared > 0.0 && price > Span::ZERO {
        writeln!(
            out,
            "a tenth more of the shared probes would save updates {} of waiting a day, a tenth fewer would cost {}",
            hours(spending.tenth_more_saves * HOURS),
            hours(spending.tenth_fewer_costs * HOURS)
        )?;
    }
    Ok(())
}

/// Whether the total does not suffice for one probe a day of every source.
fn is_too_small(spending: &Spending) -> bool {
    spending.total_per_hour.is_some_and(|total| spending.least_per_hour + spending.fixed_per_hour > total)
}

fn hours(number: f64) -> String {
    Span::from_hours(1).scaled(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewatch_core::engine::fleet_price::PriceInForce;

    fn spending() -> Spending {
        Spending {
            price: PriceInForce { hours: 0.05, at_least_every: Span::from_days(1) },
            total_per_hour: None,
            shared_per_hour: 40.0,
            fixed_per_hour: 10.0,
            least_per_hour: 5.0,
            tenth_more_saves: 0.125,
            tenth_fewer_costs: 0.25,
        }
    }

    fn shown(spending: &Spending) -> String {
        let mut out = Vec::new();
        show(spending, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn price_spending_and_the_value_of_probes_are_shown() {
        let text = shown(&spending());
        assert!(
            text.starts_with("price: a probe must be expected to save updates 3m of waiting\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "expected: 1200 probes a day, 960 of sources that share the price and 240 of others"
            ),
            "{text}"
        );
        assert!(
            text.contains("would save updates 3h of waiting a day, a tenth fewer would cost 6h"),
            "{text}"
        );
        let total = Spending { total_per_hour: Some(50.0), ..spending() };
        assert!(shown(&total).starts_with("total: 1200 probes a day; a probe must"), "{}", shown(&total));
        let document = SpendingDocument::from(&total);
        assert_eq!((document.total_per_day, document.tenth_more_saves_hours), (Some(1200.0), 3.0));
    }

    #[test]
    fn no_price_and_a_small_total_are_shown() {
        let price = PriceInForce { hours: 0.0, at_least_every: Span::from_days(1) };
        let text = shown(&Spending { price, ..spending() });
        assert!(
            text.starts_with("price: 0s, every budget is spent whole") && !text.contains("tenth"),
            "{text}"
        );
        let price = PriceInForce { hours: 1e6, at_least_every: Span::from_days(2) };
        let text = shown(&Spending { price, total_per_hour: Some(12.0), ..spending() });
        assert!(
            text.contains("too small for one probe a day of every source: these are probed every 2d"),
            "{text}"
        );
    }
}
