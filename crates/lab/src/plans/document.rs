//! A plan as one JSON document. The keys up to `elapsed_us` are stable, in this order.

use serde::Serialize;
use serde_json::Number;

use tidewatch_core::time::Span;

use super::problem::Problem;
use super::search::SearchOutcome;

#[derive(Serialize)]
struct PlanComparisonDocument<'a> {
    method: &'static str,
    start: String,
    horizon_s: Number,
    grid_s: Option<Number>,
    probes_s: Vec<Number>,
    expected_cost: f64,
    lower_bound: Option<f64>,
    improver_moves: u64,
    elapsed_us: u64,
    price: Option<f64>,
    gap: Option<f64>,
    uniform_cost: Option<f64>,
    expected_updates: f64,
    trade_off: Vec<PlanComparisonRow>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct PlanComparisonRow {
    probes: u32,
    expected_cost: f64,
    price: Option<f64>,
}

/// The document.
pub fn to_json(problem: &Problem, outcome: &SearchOutcome) -> std::io::Result<String> {
    let document = PlanComparisonDocument {
        method: outcome.method.name(),
        start: problem.start.iso(),
        horizon_s: seconds(problem.horizon.length()),
        grid_s: outcome.method.has_grid().then(|| seconds(problem.step)),
        probes_s: outcome.times.iter().copied().map(seconds).collect(),
        expected_cost: outcome.expected_cost,
        lower_bound: outcome.lower_bound,
        improver_moves: outcome.moves,
        elapsed_us: u64::try_from(outcome.elapsed.as_micros()).unwrap_or(u64::MAX),
        price: outcome.price,
        gap: outcome.gap(),
        uniform_cost: outcome.uniform,
        expected_updates: problem.updates(),
        trade_off: outcome
            .trade_off
            .iter()
            .map(|trade| PlanComparisonRow {
                probes: trade.probes,
                expected_cost: trade.expected_cost,
                price: trade.price,
            })
            .collect(),
        notes: &outcome.notes,
    };
    Ok(serde_json::to_string_pretty(&document)?)
}

/// Whole seconds as an integer, others with milliseconds.
fn seconds(span: Span) -> Number {
    let millis = span.as_millis();
    match millis % 1000 {
        0 => Number::from(millis / 1000),
        _ => Number::from_f64(span.as_secs_f64()).unwrap_or_else(|| Number::from(millis / 1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_are_written_as_integers() {
        let text = [0, 60_000, 1_234, 2_419_199_999].map(|ms| seconds(Span::from_millis(ms)).to_string());
        assert_eq!(text, ["0", "60", "1.234", "2419199.999"]);
    }
}
