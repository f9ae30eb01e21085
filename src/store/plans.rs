//! Stores plans, and reads the latest plan of a source.
//!
//! Separate from the other statements because the times of a plan are one JSON column. Must not know how a
//! plan is built or used.

use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection};

use tidewatch_core::engine::action::AdoptedPlan;
use tidewatch_core::planning::plan_input::PlannedTimes;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::StoreError;
use super::json_rows::read_text;
use super::reader::Reader;

/// A stored plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRow {
    /// The policy that produced its times.
    pub by: Policy,
    /// Time at which the plan was built.
    pub made_at: Timestamp,
    /// Start of the planned period.
    pub starts_at: Timestamp,
    /// End of the planned period.
    pub ends_at: Timestamp,
    /// Number of planned probes.
    pub probes: u32,
    /// C̄ over the planned period.
    pub expected_cost: f64,
    /// Lower bound on the cost of any feasible plan.
    pub lower_bound: f64,
    /// Approximate saving of one more probe.
    pub price: f64,
    /// The largest probability that a feed drops items between two probes.
    pub overflow: Option<f64>,
    /// The planned times, ascending.
    pub times: Vec<Timestamp>,
}

/// Stored method name of plans of policy `plan`; other plans have the name of their policy.
const BEST: &str = "rolling";

fn method(by: Policy) -> &'static str {
    if by == Policy::Plan { BEST } else { by.name() }
}

/// The times of a plan, in milliseconds from its start.
fn offsets(plan: &PlannedTimes) -> Vec<i64> {
    let mut offsets: Vec<i64> = plan.times.iter().map(|&at| (at - plan.starts).as_millis()).collect();
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

/// Stores adopted plans and the resulting due times. At most one plan per source.
pub(super) async fn plans(
    connection: &mut SqliteConnection,
    plans: &[&AdoptedPlan],
) -> Result<(), sqlx::Error> {
    if plans.is_empty() {
        return Ok(());
    }
    let rows: Vec<Value> = plans
        .iter()
        .map(|AdoptedPlan { made_at, plan, due, .. }| {
            json!([
                due.source.0,
                made_at.as_millis(),
                plan.starts.as_millis(),
                plan.ends.as_millis(),
                plan.times.len(),
                plan.expected_cost,
                plan.lower_bound,
                plan.price,
                plan.overflow,
                method(plan.by),
                offsets(plan)
            ])
        })
        .collect();
    sqlx::query(
        "INSERT INTO plans (source_id, made_at, starts_at, ends_at, probes, expected_cost, lower_bound, price,
                            overflow, method, times)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
                value ->> 7, value ->> 8, value ->> 9, value ->> 10
         FROM jsonb_each(?)",
    )
    .bind(Value::from(rows).to_string())
    .execute(&mut *connection)
    .await?;
    let ids: Vec<i64> = plans.iter().map(|plan| plan.due.source.0).collect();
    // Thins out plans that last only until the next probe: keeps about one per half planned period, as many
    // as of lasting plans.
    let passing: Vec<i64> =
        plans.iter().filter(|plan| plan.passing).map(|plan| plan.due.source.0).collect();
    sqlx::query(
        "DELETE FROM plans WHERE id IN (
             SELECT last.id FROM jsonb_each(?) AS new
             JOIN plans AS last ON last.id =
                 (SELECT id FROM plans WHERE source_id = new.value ORDER BY id DESC LIMIT 1 OFFSET 1)
             JOIN plans AS kept ON kept.id =
                 (SELECT id FROM plans WHERE source_id = new.value ORDER BY id DESC LIMIT 1 OFFSET 2)
             WHERE last.made_at - kept.made_at < (last.ends_at - last.starts_at) / 2)",
    )
    .bind(json!(passing).to_string())
    .execute(&mut *connection)
    .await?;
    // Drops the times of the third newest plan; older plans have lost theirs already.
    sqlx::query(
        "UPDATE plans SET times = NULL WHERE id IN (
             SELECT (SELECT id FROM plans WHERE source_id = new.value ORDER BY id DESC LIMIT 1 OFFSET 2)
             FROM jsonb_each(?) AS new)",
    )
    .bind(json!(ids).to_string())
    .execute(&mut *connection)
    .await?;
    let due: Vec<Value> = plans
        .iter()
        .map(|AdoptedPlan { due, follows, .. }| {
            let at = due.due.at().map(Timestamp::as_millis);
            let (reason, asked_by) = (due.reason.name(), due.asked_by.name());
            json!([due.source.0, at, reason, asked_by, follows.name(), due.rule.as_deref()])
        })
        .collect();
    sqlx::query(
        "UPDATE sources SET next_probe_at = new.value ->> 1, next_probe_reason = new.value ->> 2,
                            next_probe_policy = new.value ->> 3, follows = new.value ->> 4,
                            next_probe_rule = new.value ->> 5
         FROM jsonb_each(?) AS new WHERE sources.id = new.value ->> 0 AND state <> 'removed'",
    )
    .bind(Value::from(due).to_string())
    .execute(connection)
    .await?;
    Ok(())
}

impl Reader {
    /// The latest plan of a source.
    pub async fn latest_plan(&self, id: SourceId) -> Result<Option<PlanRow>, StoreError> {
        let row = sqlx::query(
            "SELECT made_at, starts_at, ends_at, probes, expected_cost, lower_bound, price, overflow, times, method
             FROM plans WHERE id = (SELECT max(id) FROM plans WHERE source_id = ?)",
        )
        .bind(id.0)
        .fetch_optional(self.pool())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let at = |column| Timestamp::from_millis(row.get(column));
        let starts_at = at(1);
        let offsets: Vec<i64> = read_text(row.get::<Option<&str>, _>(8).unwrap_or("[]"))?;
        Ok(Some(PlanRow {
            by: Policy::from_name(row.get(9)).unwrap_or(Policy::Plan),
            made_at: at(0),
            starts_at,
            ends_at: at(2),
            probes: row.get(3),
            expected_cost: row.get(4),
            lower_bound: row.get(5),
            price: row.get(6),
            overflow: row.get(7),
            times: offsets.into_iter().map(|after| starts_at + Span::from_millis(after)).collect(),
        }))
    }
}
