//! Contests as text and tables.
//!
//! It selects measures and emphasis. Must not compute any.

use tidewatch_core::time::Span;

use crate::compare::Comparison;
use crate::simulated_rules::RuleScore;
use crate::tables::{Emphasis, ResultTable, TableEntry, entry};
use crate::words::{cut, delay, number, plural};

use super::contest_terms::Matching;
use super::deadline_score::DeadlineScore;
use super::entrant_policy::EntrantPolicy;
use super::question::ContestQuestion;
use super::results::{Extreme, Extremes, KindScore, PolicyResult, Results, probes_per_week, useful};

/// The sources and the rules, in a line.
pub fn summary(question: &ContestQuestion) -> String {
    let count = question.traces.len();
    let plural = plural(count);
    let rules = &question.rules;
    format!(
        "{count} source{plural}, each watched for {} and then judged for {}; seed {}",
        rules.train, rules.test, rules.seed
    )
}

/// The budget, and the matching of policies.
pub fn spent(question: &ContestQuestion, results: &Results) -> String {
    let (budget, plural) = (results.budget, plural(results.budget.probes as usize));
    let spacing = match budget.min_spacing {
        Span::ZERO => String::new(),
        spacing => format!(", at least {spacing} apart"),
    };
    if question.rules.as_shipped {
        return "each policy as its users get it".to_owned();
    }
    let caps = question.rules.caps.map(|caps| {
        format!(", at most {} probes in {} and {} apart for each", caps.probes, caps.per, caps.min_spacing)
    });
    let matched = match question.rules.matching {
        Matching::Nothing => "each policy as it is",
        Matching::Probes => "spent by every policy on every source",
        Matching::Total => "spent by every policy on all sources together",
    };
    let caps = caps.unwrap_or_default();
    format!("{} probe{plural} in {} for a source{spacing}, {matched}{caps}", budget.probes, budget.per)
}

/// The table with a row per policy.
pub fn policies(results: &Results) -> ResultTable {
    let mut heads: Vec<String> = [
        "policy",
        "mean",
        "median",
        "p95",
        "worst",
        "update·hours",
        "useful",
        "fresh",
        "harmonic",
        "lost",
        "probes/week",
    ]
    .map(str::to_owned)
    .to_vec();
    if results.policies.iter().any(|result| result.lateness.is_some()) {
        heads.extend(LATE.map(str::to_owned));
    }
    if let Some(baseline) = results.baseline {
        heads.extend([format!("× {}", baseline.name()), "95 %".to_owned()]);
    }
    ResultTable { heads, rows: results.policies.iter().map(|result| row(result, results)).collect() }
}

fn row(result: &PolicyResult, results: &Results) -> Vec<TableEntry> {
    let score = &result.score;
    let rivals = results.policies.iter().filter(|one| !is_bound(one.policy));
    let least = rivals.filter_map(|one| one.score.mean_delay()).fold(f64::INFINITY, f64::min);
    let is_best = results.policies.len() > 1 && score.mean_delay() == Some(least);
    let mut row = vec![
        entry(result.policy.name()),
        entry(delay(score.mean_delay())).marked(if is_best { Emphasis::Good } else { Emphasis::Plain }),
        entry(delay(score.quantile(0.5))),
        entry(delay(score.quantile(0.95))),
        entry(delay(score.worst())),
        entry(number(score.obsolescence)),
        entry(percent(useful(score))),
        entry(percent(Some(score.fresh_share()))),
        entry(number(score.harmonic())),
        entry(score.gaps.to_string()).marked(if score.gaps > 0 { Emphasis::Warn } else { Emphasis::Plain }),
        entry(probes_per_week(score).map_or_else(nothing, number)),
    ];
    if results.policies.iter().any(|result| result.lateness.is_some()) {
        row.extend(late(result.lateness.as_ref()));
    }
    match result.versus {
        Some(versus) if Some(result.policy) != results.baseline => {
            let found = versus.geometric;
            row.push(entry(ratio(found.value)).marked(tone(&versus)));
            row.push(entry(format!("{}–{}", ratio(found.low), ratio(found.high))).marked(Emphasis::Faint));
        }
        Some(_) => row.push(entry("1").marked(Emphasis::Faint)),
        None => row.push(entry(nothing())),
    }
    row
}

/// The columns of [`late`].
pub const LATE: [&str; 3] = ["deadlines missed", "mean late", "worst late"];

/// How well deadlines were met, in three cells.
pub fn late(lateness: Option<&DeadlineScore>) -> [TableEntry; 3] {
    let Some(of) = lateness else { return [(); 3].map(|()| entry(nothing())) };
    let emphasis = if of.missed > 0 { Emphasis::Warn } else { Emphasis::Plain };
    let worst = Some(of.worst).filter(|_| of.missed > 0);
    [
        entry(format!("{} of {}", of.missed, of.deadlines)).marked(emphasis),
        entry(delay(of.mean_late().map(Span::as_secs_f64))),
        entry(delay(worst.map(Span::as_secs_f64))),
    ]
}

/// The table with a row per rule and policy.
pub fn rules<'r>(scores: impl IntoIterator<Item = (&'r str, &'r [RuleScore])>) -> ResultTable {
    let heads = ["rule", "policy", "waited for", "in time", "stated", "found", "probes for it"];
    let row = |policy: &str, score: &RuleScore| {
        vec![
            entry(cut(&score.rule, 40)),
            entry(policy),
            entry(score.waited_for.to_string()),
            entry(score.in_time.to_string()),
            entry(percent(Some(score.stated))),
            entry(percent(score.share())),
            entry(score.probes.map_or_else(nothing, |probes| probes.to_string())),
        ]
    };
    let rows = scores.into_iter().flat_map(|(policy, rules)| {
        rules.iter().enumerate().map(move |(place, score)| (place, row(policy, score)))
    });
    let mut rows: Vec<(usize, Vec<TableEntry>)> = rows.collect();
    rows.sort_by_key(|&(place, _)| place);
    ResultTable::new(heads, rows.into_iter().map(|(_, row)| row).collect())
}

/// The same for a contest.
pub fn contest_rules(results: &Results) -> ResultTable {
    rules(results.policies.iter().map(|result| (result.policy.name(), &result.rules[..])))
}

/// What the models of each policy stated, and what came of it, training included; `None` without models.
pub fn calibration(results: &Results) -> Option<ResultTable> {
    let heads = [
        "policy",
        "updates",
        "expected",
        "burst alarms per 1000",
        "kept out",
        "false quiet per 1000",
        "overflow stated",
        "overflow found",
    ];
    let row = |result: &PolicyResult| {
        let of = &result.calibration;
        let per_update = |count: usize| count as f64 / of.updates.max(1) as f64;
        let gaps: usize = of.overflow.iter().map(|class| class.gaps).sum();
        let share = |sum: f64| (gaps > 0).then(|| sum / gaps as f64);
        let overflowed: usize = of.overflow.iter().map(|class| class.overflowed).sum();
        vec![
            entry(result.policy.name()),
            entry(of.updates.to_string()),
            entry(number(of.expected)),
            entry(number(1000.0 * per_update(of.alarms))),
            entry(percent(Some(per_update(of.kept_out)))),
            entry(number(1000.0 * per_update(of.false_quiet))),
            entry(percent(share(of.overflow.iter().map(|class| class.stated).sum()))),
            entry(percent(share(overflowed as f64))),
        ]
    };
    let with_models = results.policies.iter().filter(|result| result.calibration.updates > 0);
    let rows: Vec<Vec<TableEntry>> = with_models.map(row).collect();
    (!rows.is_empty()).then(|| ResultTable::new(heads, rows))
}

/// The caption of the table of stated probabilities.
pub const CALIBRATION: &str = "stated probabilities and what came of them, training included";

/// The caption of the table of rules.
pub const BY_RULE: &str = "updates that rules waited for, and those that a probe found in time";

/// Whether the entrant uses information that no policy can have.
fn is_bound(policy: EntrantPolicy) -> bool {
    matches!(policy, EntrantPolicy::Oracle | EntrantPolicy::Clairvoyant)
}

/// The emphasis of a result that is significantly better or worse than the baseline.
fn tone(versus: &Comparison) -> Emphasis {
    match versus.geometric {
        found if found.high < 1.0 => Emphasis::Good,
        found if found.low > 1.0 => Emphasis::Bad,
        _ => Emphasis::Plain,
    }
}

/// The caption of the table of kinds.
pub fn by_kind(results: &Results) -> String {
    let baseline = results.baseline.map_or("the first", |policy| policy.name());
    format!("mean delays over those of {baseline}, geometric mean over the sources of a kind")
}

/// The table with a row per kind, and a column per policy except the baseline.
pub fn kinds(results: &Results) -> ResultTable {
    let others: Vec<usize> = (0..results.policies.len())
        .filter(|&at| Some(results.policies[at].policy) != results.baseline)
        .collect();
    let mut heads = ["kind", "sources", "updates"].map(str::to_owned).to_vec();
    heads.extend(others.iter().map(|&at| results.policies[at].policy.name().to_owned()));
    let rows = results.kinds.iter().map(|kind| {
        let most = |count: fn(&KindScore) -> usize| kind.shares.iter().map(count).max().unwrap_or(0);
        let mut row = vec![
            entry(cut(&kind.name, 40)),
            entry(most(|share| share.sources).to_string()),
            entry(most(|share| share.score.updates).to_string()),
        ];
        row.extend(others.iter().map(|&at| match kind.shares[at].ratio {
            Some(times) => {
                entry(ratio(times)).marked(if times > 1.0 { Emphasis::Bad } else { Emphasis::Good })
            }
            None => entry(nothing()),
        }));
        row
    });
    ResultTable { heads, rows: rows.collect() }
}

/// Tables of the largest gains and losses of a policy, with their titles.
pub fn extremes(extremes: &Extremes) -> Vec<(String, ResultTable)> {
    let (policy, baseline) = (extremes.policy.name(), extremes.baseline.name());
    let table = |list: &[Extreme]| {
        let heads = ["source", "kind", "updates", policy, baseline, "ratio"].map(str::to_owned).to_vec();
        let row = |one: &Extreme| {
            vec![
                entry(cut(&one.source, 60)),
                entry(cut(&one.kind, 40)),
                entry(one.pair.updates.to_string()),
                entry(delay(Some(one.pair.a))),
                entry(delay(Some(one.pair.b))),
                entry(ratio(one.ratio())),
            ]
        };
        ResultTable { heads, rows: list.iter().map(row).collect() }
    };
    [("gains", &extremes.gains), ("loses", &extremes.losses)]
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(what, list)| {
            (format!("mean delays where {policy} {what} most against {baseline}"), table(list))
        })
        .collect()
}

fn nothing() -> String {
    "–".to_owned()
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(nothing, |share| format!("{:.1} %", share * 100.0))
}

/// A ratio with its significant digits.
fn ratio(times: f64) -> String {
    if times < 0.1 { number(times) } else { format!("{times:.3}") }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    fn text(table: &ResultTable) -> String {
        let row = |row: &Vec<TableEntry>| {
            row.iter().map(|entry| entry.text.as_str()).collect::<Vec<_>>().join("  ")
        };
        let heads = table.heads.join("  ");
        std::iter::once(heads).chain(table.rows.iter().map(row)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn policies_table_has_a_row_per_policy() {
        let (_, results) = results(&[("auto", 600), ("uniform", 3600), ("oracle", 1)]);
        let message = text(&policies(&results));
        let rows: Vec<&str> = message.lines().collect();
        assert!(rows[0].contains("× uniform  95 %") && rows[0].contains("lost  probes/week"), "{message}");
        assert!(rows[1].starts_with("auto  ") && rows[1].contains("1008"), "{message}");
        assert!(rows[1].contains('–') && rows[2].trim_end().ends_with('1'), "{message}");
        assert!(rows[3].starts_with("oracle  –") && !message.contains("NaN"), "{message}");
    }

    #[test]
    fn tables_of_kinds_and_extremes_have_titles_and_rows() {
        let (_, results) = results(&[("auto", 600), ("uniform", 3600)]);
        let message = text(&kinds(&results));
        assert!(message.starts_with("kind  sources  updates  auto\nnews  2 "), "{message}");
        let tables = extremes(results.extremes.as_ref().unwrap());
        assert_eq!(tables[0].0, "mean delays where auto gains most against uniform");
        assert!(text(&tables[0].1).contains("a<b>"));
        assert_eq!((delay(None), delay(Some(754.4))), ("–".to_owned(), "12m34s".to_owned()));
    }
}
