//! `tidewatch explain`: why the next probe is when it is, rule by rule.

use std::io::Write;

use jiff::tz::TimeZone;
use serde_json::json;

use crate::clock::Clock;
use crate::config::Config;
use crate::fleet::Explanation;
use crate::schedule::plan::{Plan, Revision};
use crate::store::plans::PlanRow;
use crate::store::reader::Reader;
use crate::store::report::{ProbeRow, SourceRow};
use crate::time::Timestamp;

use super::status::look;
use super::table::{Cell, Tone, cell, cut, print};
use super::{CliError, colours, find_source, runtime};

/// Explains one source.
pub fn run(config: &Config, name: &str, as_json: bool, out: &mut dyn Write) -> Result<(), CliError> {
    find_source(config, name)?;
    let now = Clock::wall().now();
    let (row, explanation, plan, probes) = runtime()?.block_on(async {
        let (rows, mut fleet) = look(config, now).await?;
        let unknown =
            || CliError::Refused(format!("`{name}` is not in the store yet; is the daemon running?"));
        let row = rows.into_iter().find(|row| row.name == name).ok_or_else(unknown)?;
        let reader = Reader::open(&config.daemon.store).await?;
        let probes = reader.last_probes(row.id, 5).await?;
        // Only what the source would follow: it may be of another policy by now.
        let stored = reader.latest_plan(row.id).await?;
        let plan = stored.filter(|plan| fleet.resume_plan(row.id, to_plan(plan), now));
        let holds = fleet.memory(row.id).and_then(|memory| memory.holds);
        let explanation = fleet.explain(row.id, now).ok_or_else(unknown)?;
        Ok::<_, CliError>((row, explanation, plan.map(|plan| (plan, holds)), probes))
    })?;
    if as_json {
        return Ok(writeln!(
            out,
            "{:#}",
            to_json(&row, &explanation, plan.as_ref().map(|(plan, _)| plan), &probes, now)
        )?);
    }
    let zone = &config.importance.time_zone;
    let when = |at: Timestamp| match at {
        Timestamp::MAX => "not until someone says so".to_owned(),
        at if at <= now => format!("{} (now)", at.iso_in(zone)),
        at => format!("{} (in {})", at.iso_in(zone), at - now),
    };
    writeln!(out, "{}  {}", row.name, row.adopted_url.as_deref().unwrap_or(&row.url))?;
    if row.adopted_url.is_some() {
        writeln!(out, "moved for good from {}", row.url)?;
    }
    let budget = explanation.budget;
    writeln!(out, "state       {}", row.state)?;
    writeln!(out, "policy      {} (asks now: {})", row.policy, explanation.asking.name())?;
    writeln!(
        out,
        "budget      {} of {} probes left in the last {}, {} apart",
        explanation.left, budget.probes, budget.per, budget.min_spacing
    )?;
    writeln!(out, "next probe  {}, because of: {}", when(explanation.due), explanation.reason.name())?;
    if let Some((plan, holds)) = &plan {
        let mut head = "plan";
        for line in plan_in_words(plan, *holds, zone, now) {
            writeln!(out, "{head:<10}  {line}")?;
            head = "";
        }
    }
    if let Some(error) = &row.last_error {
        writeln!(out, "last error  {error} ({} in a row)", row.error_streak)?;
    }
    writeln!(out)?;
    let mut table =
        vec![constraint("the policy wants it", when(explanation.wanted), binds_policy(&explanation))];
    for &(rule, until) in &explanation.constraints {
        let binds = explanation.reason.name() == rule.name();
        table.push(constraint(rule.name(), when(until), binds));
    }
    print(out, &["rule", "allows it from", ""], &table, colours())?;
    if !probes.is_empty() {
        writeln!(out)?;
        let rows: Vec<Vec<Cell>> =
            probes.iter().map(|probe| to_cells(probe, &probe.started_at.iso_in(zone))).collect();
        print(
            out,
            &["last probes", "outcome", "status", "updates", "took", "because", "error"],
            &rows,
            colours(),
        )?;
    }
    Ok(())
}

fn binds_policy(explanation: &Explanation) -> bool {
    !explanation.constraints.iter().any(|(rule, _)| rule.name() == explanation.reason.name())
}

fn constraint(name: &str, when: String, binds: bool) -> Vec<Cell> {
    let tone = if binds { Tone::Warn } else { Tone::Plain };
    vec![cell(name).tone(tone), cell(when).tone(tone), cell(if binds { "<- binds" } else { "" }).tone(tone)]
}

fn to_cells(probe: &ProbeRow, at: &str) -> Vec<Cell> {
    vec![
        cell(at),
        cell(&probe.outcome).tone(if probe.error.is_some() { Tone::Bad } else { Tone::Good }),
        cell(probe.http_status.map_or_else(String::new, |status| status.to_string())),
        cell(probe.updates_found.to_string()),
        cell(format!("{} ms", probe.duration_ms)),
        cell(&probe.reason).tone(Tone::Faint),
        cell(cut(probe.error.as_deref().unwrap_or_default(), 60)),
    ]
}

/// A feed that overflows with a smaller chance than this is not worth a word.
const WORTH_A_WORD: f64 = 0.01;

/// Planned times that are shown.
const SHOWN: usize = 3;

fn to_plan(row: &PlanRow) -> Plan {
    let (starts, ends) = (row.starts_at, row.ends_at);
    Plan { made_from: Revision::default(), by: row.by, times: row.times.clone(), starts, ends }
}

fn ahead(plan: &PlanRow, now: Timestamp) -> impl Iterator<Item = Timestamp> {
    plan.times.iter().copied().filter(move |&at| at > now).take(SHOWN)
}

/// A plan in a few lines: how good it is, what comes next, and what it cannot help.
fn plan_in_words(plan: &PlanRow, holds: Option<u32>, zone: &TimeZone, now: Timestamp) -> Vec<String> {
    let above = match plan.expected_cost - plan.lower_bound {
        more if more > 0.0 && plan.lower_bound > 0.0 => {
            format!("at most {} above the best possible", percent(more / plan.lower_bound))
        }
        more if more > 0.0 => "how near to the best possible is not known".to_owned(),
        _ => "none is better".to_owned(),
    };
    let mut lines = vec![format!(
        "made {} ago for {}: {} probes, expected cost {} ({above}); one probe more would save {}",
        now - plan.made_at,
        plan.ends_at - plan.made_at,
        plan.probes,
        short(plan.expected_cost),
        short(plan.price)
    )];
    let next: Vec<String> = ahead(plan, now).map(|at| at.iso_in(zone)).collect();
    if !next.is_empty() {
        lines.push(format!("next: {}", next.join(", ")));
    }
    if let (Some(chance), Some(holds)) = (plan.overflow.filter(|&chance| chance > WORTH_A_WORD), holds) {
        lines.push(format!(
            "its feed holds {holds} items: up to {} chance that more come between two probes; the budget allows \
             no better",
            percent(chance)
        ));
    }
    lines
}

/// Two digits that count.
fn short(number: f64) -> String {
    let digits = if number > 0.0 { (1.0 - number.log10().floor()).clamp(0.0, 6.0) } else { 0.0 };
    format!("{number:.*}", digits as usize)
}

fn percent(share: f64) -> String {
    format!("{} %", short(100.0 * share))
}

fn plan_to_json(plan: &PlanRow, now: Timestamp) -> serde_json::Value {
    json!({
        "made_at": plan.made_at.iso(), "starts_at": plan.starts_at.iso(), "ends_at": plan.ends_at.iso(),
        "probes": plan.probes, "expected_cost": plan.expected_cost, "lower_bound": plan.lower_bound,
        "price": plan.price, "overflow": plan.overflow,
        "next": ahead(plan, now).map(Timestamp::iso).collect::<Vec<_>>(),
    })
}

fn to_json(
    row: &SourceRow,
    explanation: &Explanation,
    plan: Option<&PlanRow>,
    probes: &[ProbeRow],
    now: Timestamp,
) -> serde_json::Value {
    let iso = |at: Timestamp| (at != Timestamp::MAX).then(|| at.iso());
    let constraints: Vec<_> = explanation
        .constraints
        .iter()
        .map(|&(rule, until)| {
            json!({ "rule": rule.name(), "until": iso(until), "binds": rule.name() == explanation.reason.name() })
        })
        .collect();
    let probes: Vec<_> = probes
        .iter()
        .map(|probe| {
            json!({
                "started_at": probe.started_at.iso(), "outcome": probe.outcome, "http_status": probe.http_status,
                "updates_found": probe.updates_found, "duration_ms": probe.duration_ms, "reason": probe.reason,
                "error": probe.error,
            })
        })
        .collect();
    json!({
        "name": row.name, "url": row.url, "state": row.state, "policy": row.policy,
        "asking": explanation.asking.name(), "wanted_at": iso(explanation.wanted),
        "next_probe_at": iso(explanation.due), "next_probe_reason": explanation.reason.name(),
        "budget": {
            "probes": explanation.budget.probes, "per_ms": explanation.budget.per.as_millis(),
            "min_spacing_ms": explanation.budget.min_spacing.as_millis(), "left": explanation.left,
        },
        "plan": plan.map(|plan| plan_to_json(plan, now)), "constraints": constraints, "last_probes": probes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    #[test]
    fn a_plan_is_told_in_a_few_words() {
        let now = Timestamp::parse_iso("2026-11-16T12:00:00Z").expect("valid");
        let made_at = now - Span::from_hours(2);
        let times: Vec<Timestamp> = (0..48).map(|n| made_at + Span::from_mins(15 + 30 * n)).collect();
        let mut plan = PlanRow {
            by: crate::schedule::policy::Policy::Plan,
            made_at,
            starts_at: made_at,
            ends_at: made_at + Span::from_days(1),
            probes: 48,
            expected_cost: 3.1003,
            lower_bound: 3.1,
            price: 0.0412,
            overflow: Some(0.12),
            times,
        };
        let told = plan_in_words(&plan, Some(20), &TimeZone::UTC, now);
        assert_eq!(
            told[0],
            "made 2h ago for 1d: 48 probes, expected cost 3.1 (at most 0.0097 % above the best possible); one \
             probe more would save 0.041"
        );
        assert_eq!(told[1].matches("2026-11-16 1").count(), SHOWN, "{}", told[1]);
        assert!(told[2].starts_with("its feed holds 20 items: up to 12 % chance"), "{}", told[2]);
        plan.overflow = Some(0.001);
        assert_eq!(plan_in_words(&plan, Some(20), &TimeZone::UTC, now).len(), 2);
        assert_eq!(short(0.0), "0");
        assert_eq!(short(1234.5), "1234");
    }
}
