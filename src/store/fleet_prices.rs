//! The price of a probe that sources share, hour by hour.

use sqlx::{Row, SqliteConnection};

use tidewatch_core::engine::fleet_price::{FleetPrice, PriceInForce, SentOverExpected};
use tidewatch_core::time::{Span, Timestamp};

use super::finite::finite;

/// Stores a price. Replaces a row of the same time, which may occur after the clock was set back.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    price: &FleetPrice,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT OR REPLACE INTO fleet_prices (at, price_hours, at_least_every_ms, shared_per_hour,
                 fixed_per_hour, shared_sent, shared_expected, fixed_sent, fixed_expected)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(price.at.as_millis())
    .bind(finite(price.in_force.hours))
    .bind(price.in_force.at_least_every.as_millis())
    .bind(finite(price.shared_per_hour))
    .bind(finite(price.fixed_per_hour))
    .bind(finite(price.shared.sent))
    .bind(finite(price.shared.expected))
    .bind(finite(price.fixed.sent))
    .bind(finite(price.fixed.expected))
    .execute(connection)
    .await?;
    Ok(())
}

/// After the clock was set by `by` to `now`: the last price has a row by the new clock.
pub(super) async fn shift(
    connection: &mut SqliteConnection,
    by: Span,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    if let Some(price) = last(connection, now - by).await? {
        write(connection, &FleetPrice { at: price.at + by, ..price }).await?;
    }
    Ok(())
}

/// The last price of before `now`. Later ones are of a clock that was ahead.
pub(super) async fn last(
    connection: &mut SqliteConnection,
    now: Timestamp,
) -> Result<Option<FleetPrice>, sqlx::Error> {
    let row = sqlx::query(
        "SELECT at, price_hours, at_least_every_ms, shared_per_hour, fixed_per_hour,
                shared_sent, shared_expected, fixed_sent, fixed_expected
         FROM fleet_prices WHERE at <= ? ORDER BY at DESC LIMIT 1",
    )
    .bind(now.as_millis())
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| {
        let number = |at: usize| row.get::<f64, _>(at);
        let ratio = |at: usize| SentOverExpected { sent: number(at), expected: number(at + 1) };
        FleetPrice {
            at: Timestamp::from_millis(row.get(0)),
            in_force: PriceInForce {
                hours: number(1) as f32,
                at_least_every: Span::from_millis(row.get(2)),
            },
            shared_per_hour: number(3),
            fixed_per_hour: number(4),
            shared: ratio(5),
            fixed: ratio(7),
        }
    }))
}
