//! `tidewatch explain`: why the next probe is when it is, rule by rule.

use std::io::Write;

use serde_json::json;

use crate::clock::Clock;
use crate::config::Config;
use crate::fleet::Explanation;
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
    let (row, explanation, probes) = runtime()?.block_on(async {
        let (rows, fleet) = look(config, now).await?;
        let unknown =
            || CliError::Refused(format!("`{name}` is not in the store yet; is the daemon running?"));
        let row = rows.into_iter().find(|row| row.name == name).ok_or_else(unknown)?;
        let explanation = fleet.explain(row.id, now).ok_or_else(unknown)?;
        let probes = Reader::open(&config.daemon.store).await?.last_probes(row.id, 5).await?;
        Ok::<_, CliError>((row, explanation, probes))
    })?;
    if as_json {
        return Ok(writeln!(out, "{:#}", to_json(&row, &explanation, &probes))?);
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

fn to_json(row: &SourceRow, explanation: &Explanation, probes: &[ProbeRow]) -> serde_json::Value {
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
        "constraints": constraints, "last_probes": probes,
    })
}
