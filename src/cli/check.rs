//! `tidewatch check`: validates the configuration.
//!
//! Prints every fault, or a summary with warnings about settings that are valid but unwise. Must not
//! touch the network or the store.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use crate::config::configuration::Config;
use crate::config::fault::Faults;
use crate::config::load::{self, LoadError};
use crate::config::profile::RuleConfig;
use crate::config::source::SourceConfig;
use crate::fetch::host_group::host_group;
use tidewatch_core::engine::params::Pricing;
use tidewatch_core::observe::SourceKind;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::prediction::Lifetime;
use tidewatch_core::time::Span;

/// Checks the configuration at `path`, or at a default path, and prints the result. Returns whether it
/// is valid; an error if no file can be read.
pub fn run(path: Option<&Path>, out: &mut dyn Write) -> anyhow::Result<bool> {
    let path = load::find(path)?;
    match load::load(&path) {
        Ok(config) => {
            report(&path, &config, out)?;
            Ok(true)
        }
        Err(LoadError::Faults(faults)) => {
            list(&faults, out)?;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

fn list(faults: &Faults, out: &mut dyn Write) -> std::io::Result<()> {
    for fault in faults.list() {
        writeln!(out, "{}", faults.render(fault))?;
    }
    writeln!(out, "{}", counted(faults.len(), "fault"))
}

fn report(path: &Path, config: &Config, out: &mut dyn Write) -> std::io::Result<()> {
    for warning in warnings(config) {
        writeln!(out, "{}: warning: {warning}", path.display())?;
    }
    let groups: HashSet<&str> = config.sources.iter().filter_map(|s| s.group.as_deref()).collect();
    let most = wanted_a_day(config).min(possible_a_day(config));
    let (about, a_day) = match total_a_day(config).filter(|&total| total < most) {
        Some(total) => ("about", total),
        None => ("at most", most),
    };
    writeln!(
        out,
        "{}: fine: {} in {}, {about} {} a day",
        path.display(),
        counted(config.sources.len(), "source"),
        counted(groups.len(), "group"),
        // Floating-point error in the sum must not round the count up.
        counted((a_day - 1e-6).ceil() as usize, "probe"),
    )
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// How often a span fits into a day.
fn times_a_day(span: Span) -> f64 {
    Span::from_days(1).as_secs_f64() / span.as_secs_f64()
}

/// Probes per day in the long run if every source spends its whole budget.
fn wanted_a_day(config: &Config) -> f64 {
    config.sources.iter().map(|s| f64::from(s.budget.probes) * times_a_day(s.budget.per)).sum()
}

/// Probes per day of the total of `[fleet]`, if it states one.
fn total_a_day(config: &Config) -> Option<f64> {
    match config.fleet.pricing {
        Pricing::Price(_) => None,
        Pricing::Total { probes, per } => Some(probes as f64 * times_a_day(per)),
    }
}

/// Warns if the total is too small for the probes that no price prevents and one probe a day of each other
/// source.
fn total_too_small(config: &Config) -> Option<String> {
    let total = total_a_day(config)?;
    let (mut fixed, mut daily) = (0.0, 0.0);
    for source in &config.sources {
        let whole = f64::from(source.budget.probes) * times_a_day(source.budget.per);
        let required = source.max_gap.map_or(0.0, times_a_day);
        if !source.policy.has_price() || source.price == Some(Span::ZERO) {
            fixed += whole;
        } else if required >= 1.0 {
            fixed += required;
        } else {
            daily += whole.min(1.0);
        }
    }
    (fixed + daily > total).then(|| {
        format!(
            "the total of [fleet] is {total:.0} probes a day, but fixed policies, budgets without a price and `max_gap` take \
             {fixed:.0}, and one probe a day of every other source takes {daily:.0}: the latter are probed less than once \
             a day. Raise `probes` in [fleet], or lower the budgets"
        )
    })
}

/// Probes per day that `[fleet]` permits.
fn possible_a_day(config: &Config) -> f64 {
    f64::from(config.fleet.probes_per_step) * times_a_day(config.fleet.step)
}

/// Warnings about valid but unwise settings.
fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    if config.daemon.contact.is_none() {
        warnings.push(
            "no `contact` in [daemon]: a publisher who is bothered can't write to you, and may block you \
             instead; set it to a web or mail address"
                .to_owned(),
        );
    }
    let (wanted, possible) = (wanted_a_day(config), possible_a_day(config));
    if wanted > possible {
        warnings.push(format!(
            "the budgets add up to {wanted:.0} probes a day, but [fleet] lets only {possible:.0} through; \
             raise `probes_per_step` or lower the budgets"
        ));
    }
    let ignoring_robots: Vec<&str> = config
        .sources
        .iter()
        .filter(|source| source.kind == SourceKind::Page && !source.robots)
        .map(|source| &*source.name)
        .collect();
    if let Some(first) = ignoring_robots.first() {
        let pages = match ignoring_robots.len() {
            1 => format!("the page `{first}` is"),
            more => format!("the page `{first}` and {} are", counted(more - 1, "other")),
        };
        warnings.push(format!(
            "{pages} probed whatever robots.txt says; leave out `robots = false` unless the site is yours \
             or agreed"
        ));
    }
    warnings.extend(config.without_effect.map(str::to_owned));
    warnings.extend(total_too_small(config));
    warnings.extend(no_reserve(config));
    warnings.extend(too_often(config));
    warnings.extend(config.rules.all().iter().filter_map(|rule| budget_too_small(rule, config)));
    warnings
}

/// Warns about sources whose bursts are to be answered from a reserve of less than one probe.
fn no_reserve(config: &Config) -> Option<String> {
    let reserve = config.fleet.burst.reserve;
    if reserve <= 0.0 {
        return None;
    }
    // With a price there is no reserve: plans include the value of bursts.
    let all_whole = matches!(config.fleet.pricing, Pricing::Price(hours) if hours <= 0.0);
    let whole = |source: &&Arc<SourceConfig>| {
        source.policy == Policy::Auto && source.price.map_or(all_whole, |price| price == Span::ZERO)
    };
    let small = |source: &&Arc<SourceConfig>| f64::from(source.budget.probes) * reserve < 1.0;
    let without: Vec<&Arc<SourceConfig>> = config.sources.iter().filter(whole).filter(small).collect();
    let first = without.first()?;
    let sources = match without.len() {
        1 => format!("`{}` has", first.name),
        more => format!("`{}` and {} have", first.name, counted(more - 1, "other")),
    };
    Some(format!(
        "{sources} a reserve of less than one probe: {} probes x `reserve` {reserve} in [burst], so bursts get no \
         extra probes. Raise `reserve` or `probes`, or set `reserve = 0` to silence this",
        first.budget.probes
    ))
}

/// Warns if the deadlines need more of a step than there is (Ω > k), and names the sources that need
/// most.
fn too_often(config: &Config) -> Vec<String> {
    let fleet = &config.fleet;
    let mut warnings = Vec::new();
    let share = |source: &SourceConfig, cost: f64| {
        source.max_gap.map_or(0.0, |gap| cost * fleet.step.as_secs_f64() / gap.as_secs_f64())
    };
    let mut warn_above = |what: &str, limit: f64, key: &str, cost: &dyn Fn(&SourceConfig) -> f64| {
        let all: Vec<(f64, &SourceConfig)> =
            config.sources.iter().map(|source| (share(source, cost(source)), &**source)).collect();
        let omega: f64 = all.iter().map(|(share, _)| share).sum();
        if omega > limit {
            warnings.push(format!(
                "keeping every `max_gap` takes {omega:.2} {what} per step, but [fleet] has {limit:.2}: some probes will be \
                 late. Raise `{key}`, or lengthen `max_gap` of these: {}",
                worst(all, omega)
            ));
        }
    };
    warn_above("probes", f64::from(fleet.probes_per_step), "probes_per_step", &|_| 1.0);
    if let Some(capacity) = fleet.capacity {
        warn_above("in costs", capacity, "capacity", &|source| source.cost.unwrap_or(1.0));
    }
    let too_short =
        config.sources.iter().find(|s| s.max_gap.is_some_and(|gap| gap < fleet.step + fleet.step));
    if let Some(source) = too_short {
        warnings.push(format!(
            "`{}` has a `max_gap` of {}, but a step is {} long: a `max_gap` shorter than two steps cannot be kept. Shorten `step`",
            source.name,
            source.max_gap.unwrap_or(Span::ZERO),
            fleet.step
        ));
    }
    warnings.extend(crowded(config));
    warnings
}

/// The three sources with the largest shares.
fn worst(mut all: Vec<(f64, &SourceConfig)>, omega: f64) -> String {
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    let shown = all.iter().take(3).filter(|(share, _)| *share > 0.0).map(|(share, source)| {
        let gap = source.max_gap.unwrap_or(Span::ZERO);
        format!("`{}` (every {gap}, {:.0} %)", source.name, 100.0 * share / omega)
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Warns about the host whose deadlines need more requests than `host_spacing` permits.
fn crowded(config: &Config) -> Option<String> {
    let spacing = config.fleet.host_spacing.as_secs_f64();
    let mut hosts: BTreeMap<Arc<str>, f64> = BTreeMap::new();
    for source in &config.sources {
        if let Some(gap) = source.max_gap {
            *hosts.entry(host_group(&source.url.parsed()).key).or_default() += spacing / gap.as_secs_f64();
        }
    }
    let (host, busy) = hosts.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    (busy > 1.0).then(|| {
        format!(
            "keeping every `max_gap` at {host} takes {busy:.1} times the requests that a `host_spacing` of {} allows; \
             widen them",
            config.fleet.host_spacing
        )
    })
}

/// Warns if a budget is too small for a rule; names the source with the tightest budget.
fn budget_too_small(rule: &RuleConfig, config: &Config) -> Option<String> {
    let Lifetime::Window(window) = rule.terms.life else { return None };
    let asked = config.sources.iter().filter(|source| {
        let group = source.group.as_deref();
        rule.sources.names.contains(&*source.name)
            || group.is_some_and(|group| rule.sources.groups.contains(group))
    });
    let name = &rule.terms.name;
    let closest = asked.max_by_key(|source| source.budget.min_spacing.max(source.budget.even_gap()))?;
    let Budget { probes, per, min_spacing } = closest.budget;
    if min_spacing > window {
        return Some(format!(
            "the rule `{name}` needs a probe within {window}, but probes of `{}` are at least {min_spacing} apart; \
             some matches will be late. Lower `min_spacing`, or widen the rule's `window`",
            closest.name
        ));
    }
    let most = per.as_secs_f64() / window.as_secs_f64();
    (rule.terms.own && rule.terms.every == 1 && most > f64::from(probes)).then(|| {
        format!(
            "the rule `{name}` may need up to {most:.0} probes of `{}` per {per}, but its budget has {probes}; \
             each unmet case is logged as `rule_unmet`. Raise `probes`, or widen the rule's `window`",
            closest.name
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn check(text: &str) -> (bool, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.toml");
        fs::write(&path, text).unwrap();
        let mut out = Vec::new();
        let fine = run(Some(&path), &mut out).unwrap();
        let shown = String::from_utf8(out).unwrap();
        (fine, shown.replace(&path.display().to_string(), "t.toml"))
    }

    const SOURCE: &str = "[[source]]\nname = \"a\"\nurl = \"https://example.org/\"\ngroup = \"g\"\n";

    #[test]
    fn a_valid_file_is_summed_up() {
        let text = format!("[daemon]\ncontact = \"me@example.org\"\n{SOURCE}");
        assert_eq!(
            check(&text),
            (true, "t.toml: fine: 1 source in 1 group, at most 48 probes a day\n".into())
        );
    }

    #[test]
    fn faults_are_listed_and_counted() {
        let (fine, shown) = check("[budget]\nprobes = 0\nper = \"x\"\n");
        assert!(!fine);
        assert!(shown.starts_with("t.toml:2:10: `probes` must be at least 1\n"), "{shown}");
        assert_eq!(shown.lines().last(), Some("2 faults"));
    }

    #[test]
    fn unwise_settings_give_warnings() {
        let (fine, shown) = check(&format!(
            "[fleet]\nstep = \"1h\"\nprobes_per_step = 1\n{SOURCE}kind = \"page\"\nrobots = false\n"
        ));
        assert!(fine);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with("t.toml: warning: no `contact`"), "{shown}");
        assert!(
            lines[1].contains("add up to 48 probes a day, but [fleet] lets only 24 through"),
            "{shown}"
        );
        assert!(lines[2].contains("the page `a` is probed whatever robots.txt says"), "{shown}");
        assert_eq!(lines[3], "t.toml: fine: 1 source in 1 group, at most 24 probes a day");
    }

    #[test]
    fn a_reserve_of_less_than_a_probe_gives_a_warning() {
        let warned = |settings: &str, source: &str| {
            let text = format!("[daemon]\ncontact = \"me@example.org\"\n{settings}{SOURCE}{source}");
            let (fine, shown) = check(&text);
            assert!(fine, "{shown}");
            shown.lines().find(|line| line.contains("reserve")).map(str::to_owned)
        };
        let few = "budget = { probes = 4 }\n";
        assert_eq!(
            warned("", few).as_deref(),
            Some(
                "t.toml: warning: `a` has a reserve of less than one probe: 4 probes x `reserve` 0.2 in [burst], so \
                 bursts get no extra probes. Raise `reserve` or `probes`, or set `reserve = 0` to silence this"
            )
        );
        assert!(warned("[budget]\nprobes = 4\nprice = \"0s\"\n", "").is_some());
        let silent = [
            ("", "budget = { probes = 5 }\n"),
            ("[budget]\nprobes = 4\n", ""),
            ("[burst]\nreserve = 0\n", few),
            ("[burst]\nreserve = 0.25\n", few),
            ("", "budget = { probes = 4 }\npolicy = \"uniform\"\n"),
        ];
        for (settings, source) in silent {
            assert_eq!(warned(settings, source), None, "{settings}{source}");
        }
    }

    #[test]
    fn a_removed_response_is_accepted_with_a_warning() {
        let text = |response: &str| {
            format!("[daemon]\ncontact = \"me@example.org\"\n[burst]\nresponse = \"{response}\"\n{SOURCE}")
        };
        let (fine, shown) = check(&text("replan"));
        assert!(fine, "{shown}");
        assert!(shown.contains("warning: `response = \"replan\"` in [burst] has no effect"), "{shown}");
        let (fine, shown) = check(&text("ttl"));
        assert!(fine && !shown.contains("response"), "{shown}");
        let (fine, shown) = check(&text("other"));
        assert!(!fine && shown.contains("response"), "{shown}");
    }

    #[test]
    fn too_many_deadlines_give_warnings() {
        let source = |name: &str, gap: &str, cost: &str| {
            format!(
                "[[source]]\nname = '{name}'\nurl = 'https://{name}.example/'\nmax_gap = '{gap}'\ncost = {cost}\n\
                 budget = {{ probes = 100, per = '1h', min_spacing = '10s' }}\n"
            )
        };
        let text = |fleet: &str| {
            let sources = source("often", "1m", "5") + &source("seldom", "1h", "1");
            format!("[daemon]\ncontact = 'https://example.org'\n[fleet]\nstep = '30s'\n{fleet}\n{sources}")
        };
        let (fine, shown) = check(&text("probes_per_step = 1\ncapacity = 2.0"));
        assert!(
            fine && shown.contains("takes 2.51 in costs per step, but [fleet] has 2.00")
                && shown.contains(
                    "lengthen `max_gap` of these: `often` (every 1m, 100 %), `seldom` (every 1h, 0 %)"
                ),
            "{shown}"
        );
        assert!(
            !shown.contains("probes per step"),
            "the deadlines need only half a probe per step: {shown}"
        );
        let (_, shown) = check(&text("probes_per_step = 9\ncapacity = 2.6"));
        assert!(!shown.contains("max_gap"), "{shown}");
        let (_, shown) = check(&text("probes_per_step = 9\nhost_spacing = '2m'"));
        assert!(shown.contains("at often.example takes 2.0 times the requests"), "{shown}");
        let (fine, shown) = check(&(SOURCE.to_owned() + "max_gap = '10m'\n"));
        assert!(!fine && shown.contains("`max_gap` (10m) can't be kept"), "{shown}");
        assert!(shown.contains("must be no longer than it, and 144 probes per 1d granted"), "{shown}");
    }

    #[test]
    fn a_total_is_summed_up_and_too_small_a_one_gives_a_warning() {
        let text = |total: u32| {
            let fixed =
                SOURCE.replace("\"a\"", "\"b\"") + "policy = \"uniform\"\nbudget = { probes = 6 }\n";
            format!("[daemon]\ncontact = \"me@example.org\"\n[fleet]\nprobes = {total}\n{SOURCE}{fixed}")
        };
        assert_eq!(
            check(&text(30)),
            (true, "t.toml: fine: 2 sources in 1 group, about 30 probes a day\n".into())
        );
        let (fine, shown) = check(&text(6));
        assert!(
            fine && shown.contains("is 6 probes a day, but fixed policies")
                && shown.contains("take 6, and one probe a day of every other source takes 1"),
            "{shown}"
        );
        assert!(!check(&text(7)).1.contains("warning"));
        assert!(check(&text(70)).1.contains("at most 54 probes a day"), "budgets allow no more");
    }

    #[test]
    fn a_missing_file_is_an_error() {
        let error = run(Some(Path::new("/nowhere/t.toml")), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("/nowhere/t.toml can't be read"), "{error}");
    }

    #[test]
    fn a_rule_with_too_small_a_budget_gives_a_warning() {
        let text = |window: &str, spacing: &str| {
            format!(
                "[daemon]\ncontact = 'https://example.org'\n\
                 [[source]]\nname = 'a'\nurl = 'https://example.org/a'\n\
                 budget = {{ probes = 24, per = '1d', min_spacing = '{spacing}' }}\n\
                 [[profile]]\nname = 'p'\nsources = ['a']\n\
                 [[profile.rule]]\nname = 'r'\nlife = {{ window = '{window}' }}\ndeliver = ['atom:x']\n\
                 [deliver.x]\natom = 'x.xml'\n"
            )
        };
        let (fine, shown) = check(&text("30m", "1h"));
        assert!(
            fine && shown
                .contains("`p/r` needs a probe within 30m, but probes of `a` are at least 1h apart"),
            "{shown}"
        );
        let (fine, shown) = check(&text("30m", "15m"));
        assert!(
            fine && shown.contains("may need up to 48 probes of `a` per 1d, but its budget has 24"),
            "{shown}"
        );
        let (fine, shown) = check(&text("1h", "15m"));
        assert!(fine && !shown.contains("warning"), "{shown}");
    }
}
