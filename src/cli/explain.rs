//! `tidewatch explain`: the reasons for the time of the next probe, rule by rule.

use std::io::Write;

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::clock::Clock;
use crate::config::configuration::Config;
use crate::store::plans::PlanRow;
use crate::store::reader::Reader;
use crate::store::report::{ProbeRow, SourceReportRow};
use tidewatch_core::engine::event::CrashSuspect;
use tidewatch_core::engine::params::FleetParams;
use tidewatch_core::engine::reason::Reason;
use tidewatch_core::engine::source_memory::BurstState;
use tidewatch_core::engine::views::Explanation;
use tidewatch_core::planning::plan::{Plan, Revision};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::words::cut;

use super::configured::{find_source, hide_secrets};
use super::error::CliError;
use super::json_document;
use super::process::{colours, runtime};
use super::reasons::{self, BurstInputs, OpenBurst, PlanDocument};
use super::status::{load_sources, pardons};
use super::table::{TableCell, Tone, cell, print};

/// Explains one source.
pub fn run(config: &Config, name: &str, as_json: bool, out: &mut dyn Write) -> Result<(), CliError> {
    find_source(config, name)?;
    let now = Clock::wall().now();
    let case = runtime()?.block_on(read_case(config, name, now))?;
    if as_json {
        return Ok(json_document::write(out, &ExplainDocument::new(&case, now))?);
    }
    let zone = &config.importance.time_zone;
    let when = |at: Option<Timestamp>| match at {
        None => "no probe is scheduled".to_owned(),
        Some(at) if at <= now => format!("{} (now)", at.iso_in(zone)),
        Some(at) => format!("{} (in {})", at.iso_in(zone), at - now),
    };
    let Case { row, explanation, probes, .. } = &case;
    writeln!(out, "{}  {}", row.name, row.adopted_url.as_deref().unwrap_or(&row.url))?;
    if row.adopted_url.is_some() {
        writeln!(out, "moved for good from {}", row.url)?;
    }
    let budget = explanation.budget;
    writeln!(out, "state       {}", row.state)?;
    let using = || format!("{} (now using {})", row.policy, explanation.asking.name());
    let half = reasons::deciding_half(case.policy, case.burst_state.follows);
    writeln!(out, "policy      {}", half.unwrap_or_else(using))?;
    let has_price = Policy::from_name(&row.policy).is_some_and(Policy::has_price);
    let price = match price(explanation) {
        price if price == Span::ZERO || !has_price => String::new(),
        price => format!(", each sent only if it is expected to save updates {price} of delay in total"),
    };
    writeln!(
        out,
        "budget      {} of {} probes per {} left, at least {} apart{price}",
        explanation.left, budget.probes, budget.per, budget.min_spacing
    )?;
    writeln!(out, "next probe  {}, because of: {}", when(explanation.due.at()), explanation.reason.name())?;
    if let Some(line) = explanation.rule.as_deref().and_then(|name| reasons::rule(&config.rules, name)) {
        writeln!(out, "rule        {line}")?;
    }
    if let Some(by) = explanation.deadline {
        let tardy = if by < now { format!(", {} late", now - by) } else { String::new() };
        writeln!(out, "max_gap     to be probed by {}{tardy}", when(Some(by)))?;
    }
    for (head, lines) in case.reasons(&config.fleet, zone, now) {
        for (index, line) in lines.iter().enumerate() {
            writeln!(out, "{:<10}  {line}", if index == 0 { head } else { "" })?;
        }
    }
    if let Some(until) = case.paused_until {
        let (until, lifts) = (until.iso_in(zone), &case.pardons);
        writeln!(out, "pause       the server asks for no request before {until}; {lifts}")?;
    }
    if let Some(suspect) = &case.suspect {
        writeln!(out, "suspect     {}", reasons::crash_suspect(suspect))?;
    }
    if let Some(error) = &row.last_error {
        writeln!(out, "last error  {error} ({} in a row)", row.error_streak)?;
    }
    writeln!(out)?;
    let mut table =
        vec![constraint(asking(explanation), when(explanation.wanted.at()), binds_policy(explanation))];
    for &(rule, until) in &explanation.constraints {
        let binds = explanation.reason.name() == rule.name();
        table.push(constraint(rule.name(), when(until), binds));
    }
    print(out, &["rule", "allows it from", ""], &table, colours())?;
    if !probes.is_empty() {
        writeln!(out)?;
        let rows: Vec<Vec<TableCell>> =
            probes.iter().map(|probe| to_cells(probe, &probe.started_at.iso_in(zone))).collect();
        let head = ["last probes", "outcome", "status", "updates", "took", "asked by", "because", "error"];
        print(out, &head, &rows, colours())?;
    }
    Ok(())
}

/// Everything that determines the next probe of a source.
struct Case {
    row: SourceReportRow,
    explanation: Explanation,
    policy: Policy,
    burst_state: BurstState,
    /// The current burst.
    burst: Option<OpenBurst>,
    /// Updates expected since the last one, if the source is quiet.
    overdue: Option<f64>,
    plan: Option<PlanRow>,
    holds: Option<u32>,
    probes: Vec<ProbeRow>,
    /// The end of a pause of more than a day that the server asks for.
    paused_until: Option<Timestamp>,
    /// The commands that lift that.
    pardons: String,
    /// If it was in progress when the daemon died.
    suspect: Option<CrashSuspect>,
}

async fn read_case(config: &Config, name: &str, now: Timestamp) -> Result<Case, CliError> {
    let (rows, engine) = load_sources(config, &Clock::wall()).await?;
    let unknown = || CliError::Refused(format!("`{name}` is not in the store yet; is the daemon running?"));
    let mut row = rows.into_iter().find(|row| row.name == name).ok_or_else(unknown)?;
    hide_secrets(config, std::slice::from_mut(&mut row));
    let reader = Reader::open(&config.daemon.store).await?;
    let probes = reader.last_probes(row.id, 5).await?;
    let stored = reader.latest_plan(row.id).await?;
    let explanation = engine.explain(row.id, stored.as_ref().map(to_plan), now).ok_or_else(unknown)?;
    // Only a plan that the source follows; its policy may have changed.
    let plan = stored.filter(|_| explanation.follows_plan);
    let memory = engine.memory(row.id).ok_or_else(unknown)?;
    let (burst_state, holds) = (memory.burst.clone(), memory.holds);
    let burst = match burst_state.burst_since {
        Some(_) => reader.open_burst(row.id).await?,
        None => None,
    };
    let overdue = match (burst_state.quiet_since, burst_state.newest) {
        (Some(_), Some(newest)) => {
            let known = reader.rates(&[row.id]).await?.remove(&row.id);
            known.map(|known| known.rate.expected(newest, now))
        }
        _ => None,
    };
    let policy = Policy::from_name(&row.policy).unwrap_or_default();
    let paused_until = engine.pause_asked_for(row.id).filter(|&until| until > now + Span::from_days(1));
    let pardons = pardons(&engine, &row);
    let suspects = reader.crash_suspects().await?;
    let suspect = suspects.into_iter().find(|suspect| suspect.source == row.id);
    Ok(Case {
        row,
        explanation,
        policy,
        burst_state,
        burst,
        overdue,
        plan,
        holds,
        probes,
        paused_until,
        pardons,
        suspect,
    })
}

impl Case {
    /// The reasons behind the due time, each with its heading.
    fn reasons(
        &self,
        params: &FleetParams,
        zone: &TimeZone,
        now: Timestamp,
    ) -> Vec<(&'static str, Vec<String>)> {
        let Explanation { budget, price, reserve, due, reason, .. } = self.explanation;
        let terms = &params.burst;
        let inputs = BurstInputs {
            policy: self.policy,
            terms,
            budget,
            price,
            reserve,
            burst_state: &self.burst_state,
        };
        let slot = reasons::slot(&self.burst_state, reason, now - due.at().unwrap_or(now), params)
            .map(|line| vec![line]);
        let burst = self.burst.map(|burst| reasons::burst(burst, &inputs, zone));
        let priced = price > 0.0 && self.policy.has_price();
        let quiet = reasons::quiet(&self.burst_state, self.overdue, priced, zone).map(|line| vec![line]);
        let reserve = reasons::reserve(&inputs).map(|line| vec![line]);
        let plan = self.plan.as_ref();
        let plan = plan.map(|plan| reasons::plan(plan, self.policy, self.holds, zone, now));
        let all =
            [("slot", slot), ("burst", burst), ("quiet", quiet), ("reserve", reserve), ("plan", plan)];
        all.into_iter().filter_map(|(head, lines)| Some((head, lines?))).collect()
    }
}

/// Waiting time that a probe must save to be sent.
fn price(explanation: &Explanation) -> Span {
    Span::from_hours(1).scaled(f64::from(explanation.price))
}

/// The reason for the wanted time of the probe.
fn asking(explanation: &Explanation) -> &'static str {
    match explanation.reason {
        Reason::MaxGap => "`max_gap` requires it",
        _ if explanation.rule.is_some() => "a rule requires it",
        _ => "the policy requests it",
    }
}

fn binds_policy(explanation: &Explanation) -> bool {
    !explanation.constraints.iter().any(|(rule, _)| rule.name() == explanation.reason.name())
}

fn constraint(name: &str, when: String, binds: bool) -> Vec<TableCell> {
    let tone = if binds { Tone::Warn } else { Tone::Plain };
    vec![
        cell(name).tone(tone),
        cell(when).tone(tone),
        cell(if binds { "<- decides" } else { "" }).tone(tone),
    ]
}

fn to_cells(probe: &ProbeRow, at: &str) -> Vec<TableCell> {
    vec![
        cell(at),
        cell(&probe.outcome).tone(if probe.error.is_some() { Tone::Bad } else { Tone::Good }),
        cell(probe.http_status.map_or_else(String::new, |status| status.to_string())),
        cell(probe.updates_found.to_string()),
        cell(format!("{} ms", probe.duration_ms)),
        cell(&probe.policy),
        cell(&probe.reason).tone(Tone::Faint),
        cell(cut(probe.error.as_deref().unwrap_or_default(), 60)),
    ]
}

fn to_plan(row: &PlanRow) -> Plan {
    let (starts, ends) = (row.starts_at, row.ends_at);
    Plan { made_from: Revision::default(), by: row.by, times: row.times.clone(), starts, ends }
}

/// JSON document of `explain`.
#[derive(Serialize)]
struct ExplainDocument<'a> {
    name: &'a str,
    url: &'a str,
    state: &'a str,
    policy: &'a str,
    asking: &'static str,
    wanted_at: Option<String>,
    next_probe_at: Option<String>,
    next_probe_reason: &'static str,
    rule: Option<&'a str>,
    look_by: Option<String>,
    daemon_deaths: u32,
    budget: BudgetEntry,
    burst: Option<BurstEntry>,
    reserve: ReserveEntry,
    quiet_since: Option<String>,
    newest_update_at: Option<String>,
    plan: Option<PlanDocument>,
    constraints: Vec<ConstraintEntry>,
    last_probes: Vec<ProbeEntry<'a>>,
}

#[derive(Serialize)]
struct BudgetEntry {
    probes: u32,
    per_ms: i64,
    min_spacing_ms: i64,
    left: u32,
    price_ms: i64,
}

#[derive(Serialize)]
struct BurstEntry {
    since: String,
    observed: u32,
    expected: f64,
}

#[derive(Serialize)]
struct ReserveEntry {
    probes: u32,
    left: u32,
    kept: u32,
}

#[derive(Serialize)]
struct ConstraintEntry {
    rule: &'static str,
    until: Option<String>,
    binds: bool,
}

#[derive(Serialize)]
struct ProbeEntry<'a> {
    started_at: String,
    outcome: &'a str,
    http_status: Option<u16>,
    updates_found: i64,
    duration_ms: i64,
    policy: &'a str,
    reason: &'a str,
    error: Option<&'a str>,
}

impl<'a> ExplainDocument<'a> {
    fn new(case: &'a Case, now: Timestamp) -> Self {
        let Case { row, explanation, burst_state, burst, plan, probes, .. } = case;
        let iso = |at: Option<Timestamp>| at.map(Timestamp::iso);
        let Explanation { budget, reserve, reason, .. } = *explanation;
        Self {
            name: &row.name,
            url: &row.url,
            state: &row.state,
            policy: &row.policy,
            asking: explanation.asking.name(),
            wanted_at: iso(explanation.wanted.at()),
            next_probe_at: iso(explanation.due.at()),
            next_probe_reason: reason.name(),
            rule: explanation.rule.as_deref(),
            look_by: explanation.deadline.map(Timestamp::iso),
            daemon_deaths: case.suspect.map_or(0, |suspect| suspect.deaths),
            budget: BudgetEntry {
                probes: budget.probes,
                per_ms: budget.per.as_millis(),
                min_spacing_ms: budget.min_spacing.as_millis(),
                left: explanation.left,
                price_ms: price(explanation).as_millis(),
            },
            burst: burst.map(|(since, observed, expected)| BurstEntry {
                since: since.iso(),
                observed,
                expected,
            }),
            reserve: ReserveEntry { probes: reserve.probes, left: reserve.left, kept: reserve.kept },
            quiet_since: burst_state.quiet_since.map(Timestamp::iso),
            newest_update_at: burst_state.newest.map(Timestamp::iso),
            plan: plan.as_ref().map(|plan| PlanDocument::new(plan, now)),
            constraints: explanation
                .constraints
                .iter()
                .map(|&(rule, until)| ConstraintEntry {
                    rule: rule.name(),
                    until: iso(until),
                    binds: rule.name() == reason.name(),
                })
                .collect(),
            last_probes: probes.iter().map(ProbeEntry::from).collect(),
        }
    }
}

impl<'a> From<&'a ProbeRow> for ProbeEntry<'a> {
    fn from(probe: &'a ProbeRow) -> Self {
        Self {
            started_at: probe.started_at.iso(),
            outcome: &probe.outcome,
            http_status: probe.http_status,
            updates_found: probe.updates_found,
            duration_ms: probe.duration_ms,
            policy: &probe.policy,
            reason: &probe.reason,
            error: probe.error.as_deref(),
        }
    }
}
