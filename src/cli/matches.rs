//! `tidewatch match`: shows which stored updates would match rules.
//!
//! Lets users try a rule before anything is delivered. Evaluates rules like the daemon, but on stored
//! values only. The store keeps no item texts; the output says so if a rule needs them.

use std::io::Write;

use clap::Args as ClapArgs;
use serde::Serialize;

use crate::config::configuration::Config;
use crate::config::profile::{RuleConfig, Where};
use crate::store::reader::Reader;
use crate::store::rules::StoredUpdate;
use tidewatch_core::observe::SourceKind;
use tidewatch_core::observe::query::{ItemFields, QueryField};
use tidewatch_core::planning::rule::RulePart;
use tidewatch_core::time::Timestamp;
use tidewatch_lab::words::cut;

use super::configured::find_source;
use super::error::CliError;
use super::json_document;
use super::process::{colours, runtime};
use super::table::{TableCell, Tone, cell, print};

/// Options of `match`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Name of the source.
    source: String,
    /// Evaluate only this rule, written as `profile/rule`.
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
    /// Number of latest updates to check.
    #[arg(long, value_name = "N", default_value_t = 200)]
    last: u32,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// A rule, and the stored updates that match or count for it.
struct Matched<'c> {
    rule: &'c RuleConfig,
    part: RulePart,
    /// Indexes into the updates.
    matches: Vec<usize>,
    counts: Vec<usize>,
    /// Whether a condition uses texts that are not stored.
    blind: bool,
}

/// Evaluates the rules and shows the matches.
pub fn run(config: &Config, arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    let source = find_source(config, &arguments.source)?;
    let parts = config.rules.of(source);
    let rules: Vec<(&RuleConfig, RulePart)> = parts
        .into_iter()
        .filter_map(|part| Some((&**config.rules.get(part.rule)?, part)))
        .filter(|(rule, _)| arguments.rule.as_ref().is_none_or(|name| **name == *rule.terms.name))
        .collect();
    if rules.is_empty() {
        let which = match &arguments.rule {
            Some(name) => format!("no rule `{name}` has to do with `{}`", source.name),
            None => format!(
                "no rule has to do with `{}`; name it in the `sources` of a [[profile]]",
                source.name
            ),
        };
        return Err(CliError::Refused(which));
    }
    let (updates, page) = runtime()?.block_on(async {
        let reader = Reader::open(&config.daemon.store).await?;
        let rows = reader.sources().await?;
        let unknown = || {
            CliError::Refused(format!("`{}` is not in the store yet; is the daemon running?", source.name))
        };
        let id = rows.iter().find(|row| *row.name == *source.name).map(|row| row.id).ok_or_else(unknown)?;
        let page = match source.kind {
            SourceKind::Page => reader.page_text(id).await?,
            SourceKind::Feed => None,
        };
        Ok::<_, CliError>((reader.last_updates(id, arguments.last).await?, page))
    })?;
    let matched: Vec<Matched<'_>> =
        rules.into_iter().map(|(rule, part)| matched(rule, part, &updates, page.as_deref())).collect();
    if arguments.json {
        let document = MatchDocument {
            source: &source.name,
            updates: updates.len(),
            rules: matched.iter().map(|matched| RuleMatchEntry::new(matched, &updates)).collect(),
        };
        return Ok(json_document::write(out, &document)?);
    }
    let zone = &config.importance.time_zone;
    for (index, matched) in matched.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let Matched { rule, part, matches, counts, blind } = matched;
        let wanted = rule.wanted.as_ref().map_or("everything".to_owned(), |wanted| wanted.text.clone());
        writeln!(
            out,
            "{}  {}",
            rule.terms.name,
            if part.asked { wanted } else { "waits for it".to_owned() }
        )?;
        let of = updates.len();
        match (part.asked, part.triggers) {
            (true, true) if rule.terms.own => {
                let deliveries = counts.len() / rule.terms.every.max(1) as usize;
                writeln!(out, "{} of the last {of} updates, in {deliveries} deliveries", matches.len())?;
            }
            (true, _) => writeln!(
                out,
                "{} of the last {of} updates, if found when others set it off",
                matches.len()
            )?,
            (false, _) => writeln!(out, "{} of the last {of} updates count", counts.len())?,
        }
        if *blind {
            writeln!(
                out,
                "it asks about `text`, which is not kept of items: more may match when they are read"
            )?;
        }
        let shown = if part.asked { matches } else { counts };
        let row = |&at: &usize| -> Option<Vec<TableCell>> {
            let update = updates.get(at)?;
            Some(vec![
                cell(update.detected_at.iso_in(zone)),
                cell(&update.kind).tone(Tone::Faint),
                cell(cut(update.title.as_deref().unwrap_or(&update.key), 70)),
                cell(cut(update.link.as_deref().unwrap_or_default(), 60)).tone(Tone::Faint),
            ])
        };
        let rows: Vec<Vec<TableCell>> = shown.iter().filter_map(row).collect();
        if !rows.is_empty() {
            print(out, &["found", "kind", "title", "link"], &rows, colours())?;
        }
    }
    Ok(())
}

fn matched<'c>(
    rule: &'c RuleConfig,
    part: RulePart,
    updates: &[StoredUpdate],
    page: Option<&str>,
) -> Matched<'c> {
    let holds = |wanted: Option<&Where>, at: usize| {
        let update = &updates[at];
        // Only the latest text of a page is stored.
        let text = page.filter(|_| at == 0);
        let fields = ItemFields {
            title: update.title.as_deref(),
            link: update.link.as_deref(),
            id: Some(&update.key),
            text,
            authors: &update.authors,
            categories: &update.categories,
        };
        wanted.is_none_or(|wanted| wanted.condition.holds(&fields))
    };
    let in_force = |at: &usize| {
        let update = &updates[*at];
        update.kind != "edited" && rule.terms.active.holds(occurred(update))
    };
    let places: Vec<usize> = (0..updates.len()).filter(in_force).collect();
    let of = |is: bool, wanted: Option<&Where>| -> Vec<usize> {
        places.iter().copied().filter(|&at| is && holds(wanted, at)).collect()
    };
    let asks =
        |wanted: Option<&Where>| wanted.is_some_and(|wanted| wanted.condition.asks_about(QueryField::Text));
    Matched {
        rule,
        part,
        matches: of(part.asked, rule.wanted.as_ref()),
        counts: of(part.triggers, rule.counts.as_ref()),
        blind: asks(rule.wanted.as_ref()) || asks(rule.counts.as_ref()),
    }
}

fn occurred(update: &StoredUpdate) -> Timestamp {
    // Undated updates take the time of detection, as in the daemon.
    if update.exact { update.occurred_at } else { update.detected_at }
}

/// JSON document of `match`.
#[derive(Serialize)]
struct MatchDocument<'a> {
    source: &'a str,
    updates: usize,
    rules: Vec<RuleMatchEntry<'a>>,
}

#[derive(Serialize)]
struct RuleMatchEntry<'a> {
    profile: &'a str,
    rule: &'a str,
    asked: bool,
    triggers: bool,
    #[serde(rename = "where")]
    condition: Option<&'a str>,
    counts: usize,
    text_not_kept: bool,
    caught: Vec<UpdateEntry<'a>>,
}

#[derive(Serialize)]
struct UpdateEntry<'a> {
    kind: &'a str,
    id: &'a str,
    title: Option<&'a str>,
    link: Option<&'a str>,
    authors: &'a [String],
    categories: &'a [String],
    occurred_at: String,
    detected_at: String,
}

impl<'a> RuleMatchEntry<'a> {
    fn new(matched: &Matched<'a>, updates: &'a [StoredUpdate]) -> Self {
        let Matched { rule, part, matches, counts, blind } = matched;
        Self {
            profile: &rule.profile,
            rule: &rule.name,
            asked: part.asked,
            triggers: part.triggers,
            condition: rule.wanted.as_ref().map(|wanted| wanted.text.as_str()),
            counts: counts.len(),
            text_not_kept: *blind,
            caught: matches.iter().map(|&at| UpdateEntry::from(&updates[at])).collect(),
        }
    }
}

impl<'a> From<&'a StoredUpdate> for UpdateEntry<'a> {
    fn from(update: &'a StoredUpdate) -> Self {
        Self {
            kind: &update.kind,
            id: &update.key,
            title: update.title.as_deref(),
            link: update.link.as_deref(),
            authors: &update.authors,
            categories: &update.categories,
            occurred_at: update.occurred_at.iso(),
            detected_at: update.detected_at.iso(),
        }
    }
}
