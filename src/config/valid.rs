//! Stage two: from written values to valid parameters.
//!
//! The rest of the program never receives an invalid value. This module knows defaults, limits and
//! conditions between settings. It must not read files, nor know how parameters are used later.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tidewatch_core::engine::params::{Allocator, BurstTerms, CostBy, FleetParams, Pricing};
use tidewatch_core::model::aggregate::{Borrow, INDIVIDUAL_THRESHOLD};
use tidewatch_core::model::burst;
use tidewatch_core::model::importance::Importance;
use tidewatch_core::observe::limits::ReadingLimits;
use tidewatch_core::planning::ttl::TtlForm;
use tidewatch_core::time::Span;

use super::allowance::Allowance;
use super::configuration::Config;
use super::fault::{Faults, Spot};
use super::origin::ConfigOrigin;
use super::params::{DaemonParams, FetchParams, RateParams};
use super::profile::RulesConfig;
use super::raw::{self, Raw};
use super::reader::At;
use super::source::{self, GroupDefaults, SourceConfig, Surroundings};
use super::source_settings::Common;
use super::values::{self, LowerBound};
use super::{rules, targets, week};

/// Checks all files (path and text, the main file first) and merges them.
///
/// ```
/// # use tidewatch::config;
/// let text = "[[source]]\nname = \"lwn\"\nurl = \"https://lwn.net/headlines/rss\"\n";
/// let config = config::valid::parse(&[("tidewatch.toml".into(), text.into())]).expect("no faults");
/// assert_eq!(&*config.sources[0].name, "lwn");
/// ```
pub fn parse(files: &[(PathBuf, String)]) -> Result<Config, Faults> {
    let mut faults = Faults::new(files);
    let raw = Raw::read(files, &mut faults);
    let paths = files.iter().map(|(path, _)| path.clone()).collect();
    let config = check(raw, paths, &mut faults);
    if faults.is_empty() {
        return Ok(config);
    }
    faults.sort();
    Err(faults)
}

/// Checks the profiles of one file, for a simulation. `sources` are pairs of name and group. `deliver`
/// is not checked. Of the other sections only the time zone of `[importance]` is used.
pub fn profiles(file: (PathBuf, String), sources: &[(&str, &str)]) -> Result<RulesConfig, Faults> {
    let files = [file];
    let mut faults = Faults::new(&files);
    let mut raw = Raw::read(&files, &mut faults);
    if raw.profiles.is_empty() && !raw.incomplete {
        let nothing = Spot { file: 0, start: 0, end: 0 };
        let hint = "add a `[[profile]]` with a `[[profile.rule]]`";
        faults.add_with_hint(nothing, "this file holds no profile", hint);
    }
    let importance = importance(std::mem::take(&mut raw.importance), &mut faults);
    let around = rules::Around {
        sources: &rules::KnownNames::named(sources.iter().copied()),
        targets: None,
        zone: &importance.time_zone,
        step: FleetParams::default().step,
        incomplete: raw.incomplete,
    };
    let rules = rules::check(raw.profiles, &around, &mut faults);
    if faults.is_empty() {
        return Ok(rules);
    }
    faults.sort();
    Err(faults)
}

/// Replaces invalid values by defaults. If there are faults, the caller discards the result.
fn check(mut raw: Raw, files: Vec<PathBuf>, faults: &mut Faults) -> Config {
    let allowance = Allowance::common(&raw.budget, &raw.fleet, faults);
    let mut longest = Longest(allowance.per());
    let mut groups = GroupIndex::default();
    for group in std::mem::take(&mut raw.groups) {
        groups.declare(group, &allowance, &mut longest, faults);
    }
    let around = Surroundings {
        allowance,
        groups: groups.known,
        incomplete: raw.incomplete,
        common: Common::default(),
    };
    let sources = sources(std::mem::take(&mut raw.sources), &around, &mut longest, faults);
    assemble(raw, files, sources, (&longest, allowance.common_price()), faults)
}

/// Checks everything but sources and groups, which are already checked.
pub(super) fn assemble(
    raw: Raw,
    files: Vec<PathBuf>,
    sources: Vec<Arc<SourceConfig>>,
    (longest, price): (&Longest, Pricing),
    faults: &mut Faults,
) -> Config {
    // After a fault, a source may be missing from the list; a rule that names it is not at fault.
    let unsure = raw.incomplete || !faults.is_empty();
    let rate = rate(raw.rate, faults);
    let importance = importance(raw.importance, faults);
    let fleet = fleet(raw.fleet, price, faults);
    let targets = targets::check(raw.targets, faults);
    let known = rules::KnownNames::new(&sources);
    let around = rules::Around {
        sources: &known,
        targets: Some(&targets),
        zone: &importance.time_zone,
        step: fleet.step,
        incomplete: unsure,
    };
    let rules = Arc::new(rules::check(raw.profiles, &around, faults));
    let (burst, terms, without_effect) = burst(raw.burst, rate.freshness_threshold, faults);
    Config {
        files,
        daemon: daemon(raw.daemon, longest, faults),
        fleet: FleetParams { burst: terms, ..fleet },
        fetch: fetch(raw.fetch, faults),
        rate,
        burst,
        importance,
        rules,
        targets,
        sources,
        without_effect,
        origin: ConfigOrigin::default(),
    }
}

/// The longest window of any budget, and its place.
pub(super) struct Longest(pub Option<(Span, Option<Spot>)>);

impl Longest {
    pub fn note(&mut self, allowance: &Allowance) {
        if let Some(per) = allowance.per()
            && self.0.is_none_or(|(longest, _)| per.0 > longest)
        {
            self.0 = Some(per);
        }
    }

    pub fn note_per(&mut self, per: Span, at: Spot) {
        if self.0.is_none_or(|(longest, _)| per > longest) {
            self.0 = Some((per, Some(at)));
        }
    }
}

/// Declared groups and their places.
#[derive(Default)]
pub(super) struct GroupIndex {
    pub known: HashMap<String, GroupDefaults>,
    places: HashMap<String, Spot>,
}

impl GroupIndex {
    pub fn declare(
        &mut self,
        group: raw::RawGroup,
        base: &Allowance,
        longest: &mut Longest,
        faults: &mut Faults,
    ) {
        let at = group.name.at;
        let policy = group.policy.as_ref().and_then(|word| source::policy(word, faults));
        let allowance = base.overlaid(&group.budget, faults);
        longest.note(&allowance);
        let Some(name) = source::label("the name of this group", group.name, faults) else { return };
        if let Some(&first) = self.places.get(&name) {
            let first = faults.place(first);
            faults.add_with_hint(
                at,
                format!("the group `{name}` is already declared at {first}"),
                "put both into one table",
            );
            return;
        }
        self.places.insert(name.clone(), at);
        self.known.insert(name, GroupDefaults { policy, allowance });
    }
}

fn sources(
    raw: Vec<raw::RawSource>,
    around: &Surroundings,
    longest: &mut Longest,
    faults: &mut Faults,
) -> Vec<Arc<SourceConfig>> {
    let mut places: HashMap<String, Spot> = HashMap::with_capacity(raw.len());
    let mut sources = Vec::with_capacity(raw.len());
    for source in raw {
        if let Some(name) = source.name.as_ref().filter(|name| !name.value.is_empty()) {
            match places.entry(name.value.clone()) {
                Entry::Vacant(free) => {
                    free.insert(name.at);
                }
                Entry::Occupied(first) => {
                    let first = faults.place(*first.get());
                    faults.add_with_hint(
                        name.at,
                        format!("the name `{}` is already taken by the source at {first}", name.value),
                        "every source needs a name of its own",
                    );
                }
            }
        }
        if let Some((source, allowance)) = source::check(source, around, faults) {
            longest.note(&allowance);
            sources.push(Arc::new(source));
        }
    }
    sources
}

fn daemon(raw: raw::Daemon, longest: &Longest, faults: &mut Faults) -> DaemonParams {
    if let Some(store) = raw.store.as_ref().filter(|store| store.value.trim().is_empty()) {
        faults.add_with_hint(
            store.at,
            "`store` is empty",
            "expected the path of a file, such as tidewatch.db",
        );
    }
    if let Some(contact) = &raw.contact {
        check_contact(contact, faults);
    }
    let default = Span::from_days(180);
    let written_at = raw.retain_probes.as_ref().map(|text| text.at);
    let retain_probes = span_or("retain_probes", raw.retain_probes, LowerBound::Positive, default, faults);
    if let Some((per, per_at)) = longest.0
        && retain_probes < per
        && let Some(at) = written_at.or(per_at)
    {
        faults.add_with_hint(
            at,
            format!("`retain_probes` ({retain_probes}) is shorter than the longest budget's `per` ({per})"),
            format!("budgets are counted from the log: keep probes for at least {per}"),
        );
    }
    let retain_updates = raw
        .retain_updates
        .and_then(|text| values::span("retain_updates", &text, LowerBound::Positive, faults));
    let year = Span::from_days(365);
    let retain_events = span_or("retain_events", raw.retain_events, LowerBound::Positive, year, faults);
    DaemonParams {
        store: raw.store.map_or_else(|| PathBuf::from("tidewatch.db"), |store| store.value.into()),
        contact: raw.contact.map(|contact| contact.value.trim().to_owned()),
        retain_probes,
        retain_updates,
        retain_events,
    }
}

fn check_contact(contact: &At<String>, faults: &mut Faults) {
    let text = contact.value.trim();
    let example = "expected a web or mail address such as https://example.org/me";
    if text.is_empty() {
        faults.add_with_hint(contact.at, "`contact` is empty", example);
    } else if text.contains(|c: char| c.is_control() || c == '(' || c == ')') {
        faults.add_with_hint(
            contact.at,
            "`contact` holds a control character or a parenthesis, which a User-Agent can't carry",
            example,
        );
    } else if !text.is_ascii() {
        faults.add_with_hint(contact.at, "`contact` holds letters that a User-Agent can't carry", example);
    }
}

/// The total of `[fleet]`, if one is stated.
fn total(probes: Option<At<i64>>, per: Option<At<String>>, faults: &mut Faults) -> Option<Pricing> {
    if let (None, Some(per)) = (probes, &per) {
        faults.add_with_hint(
            per.at,
            "`per` without `probes`: there is no total to spend",
            "expected a total such as probes = 20000, per = \"1d\"",
        );
    }
    let probes = probes.and_then(|number| values::count("probes", number, faults))?;
    let per = span_or("per", per, LowerBound::Positive, Span::from_days(1), faults);
    Some(Pricing::Total { probes: u64::from(probes), per })
}

fn fleet(raw: raw::Fleet, price: Pricing, faults: &mut Faults) -> FleetParams {
    let default = FleetParams::default();
    let allocators = Allocator::ALL.map(|allocator| (allocator.name(), allocator));
    let costs = CostBy::ALL.map(|cost| (cost.name(), cost));
    FleetParams {
        step: span_or("step", raw.step, LowerBound::Positive, default.step, faults),
        probes_per_step: raw
            .probes_per_step
            .and_then(|number| values::count("probes_per_step", number, faults))
            .unwrap_or(default.probes_per_step),
        allocator: raw
            .allocator
            .and_then(|word| values::choice("allocator", &word, &allocators, faults))
            .unwrap_or_default(),
        host_spacing: span_or(
            "host_spacing",
            raw.host_spacing,
            LowerBound::Zero,
            default.host_spacing,
            faults,
        ),
        capacity: raw
            .capacity
            .and_then(|value| values::number("capacity", value, |x| x > 0.0, "above 0", faults)),
        cost_by: raw
            .cost_by
            .and_then(|word| values::choice("cost_by", &word, &costs, faults))
            .unwrap_or_default(),
        pricing: total(raw.probes, raw.per, faults).unwrap_or(price),
        burst: default.burst,
    }
}

fn fetch(raw: raw::Fetch, faults: &mut Faults) -> FetchParams {
    let mut seen = HashMap::new();
    let mut resolve = Vec::new();
    for (name, address) in raw.resolve {
        let host = match url::Host::parse(&name.value) {
            Ok(url::Host::Domain(host)) => Some(host),
            _ => {
                faults.add_with_hint(
                    name.at,
                    format!("`{}` is not a host's name", name.value),
                    "expected a name such as example.org",
                );
                None
            }
        };
        let ip: Option<IpAddr> = address.value.parse().ok();
        if ip.is_none() {
            faults.add_with_hint(
                address.at,
                format!("`{}` is not an IP address", address.value),
                "expected an address such as 192.0.2.7 or 2001:db8::7",
            );
        }
        let (Some(host), Some(ip)) = (host, ip) else { continue };
        if seen.insert(host.clone(), name.at).is_some() {
            faults.add_with_hint(
                name.at,
                format!("`{host}` is given two addresses"),
                "capitals make no difference; keep one",
            );
        }
        resolve.push((host, ip));
    }
    let timeout = |key, text, secs, faults: &mut Faults| {
        span_or(key, text, LowerBound::Positive, Span::from_secs(secs), faults)
    };
    FetchParams {
        max_body: raw
            .max_body
            .and_then(|size| values::size("max_body", &size, faults))
            .unwrap_or(10_000_000),
        max_items: raw
            .max_items
            .and_then(|items| values::count("max_items", items, faults))
            .map_or(ReadingLimits::USUAL.items, |items| items as usize),
        connect_timeout: timeout("connect_timeout", raw.connect_timeout, 10, faults),
        read_timeout: timeout("read_timeout", raw.read_timeout, 20, faults),
        total_timeout: timeout("total_timeout", raw.total_timeout, 60, faults),
        resolve,
    }
}

fn rate(raw: raw::Rate, faults: &mut Faults) -> RateParams {
    let individual_threshold = raw
        .individual_threshold
        .and_then(|value| values::number("individual_threshold", value, |x| x >= 0.0, "from 0", faults))
        .unwrap_or(INDIVIDUAL_THRESHOLD);
    let freshness_threshold = raw
        .freshness_threshold
        .and_then(|value| values::number("freshness_threshold", value, |x| x > 0.0, "above 0", faults));
    let all = [
        ("blend", Borrow::Blend),
        ("switch", Borrow::Switch { individual_threshold }),
        ("never", Borrow::Never),
    ];
    let borrow = raw.borrow.as_ref().and_then(|word| values::choice("borrow", word, &all, faults));
    let borrow = borrow.unwrap_or_default();
    let (day, week) = (Span::from_days(1), Span::from_days(7));
    let (cycle_at, resolution_at) =
        (raw.cycle.as_ref().map(|text| text.at), raw.resolution.as_ref().map(|text| text.at));
    let params = RateParams {
        cycle: span_or("cycle", raw.cycle, LowerBound::Positive, week, faults),
        resolution: span_or(
            "resolution",
            raw.resolution,
            LowerBound::Positive,
            Span::from_hours(1),
            faults,
        ),
        refit_every: span_or(
            "refit_every",
            raw.refit_every,
            LowerBound::Positive,
            Span::from_hours(6),
            faults,
        ),
        half_life: span_or("half_life", raw.half_life, LowerBound::Positive, Span::from_days(56), faults),
        borrow,
        individual_threshold,
        freshness_threshold: freshness_threshold.unwrap_or(1.0),
        echoes: raw.echoes.is_none_or(|flag| flag.value),
    };
    let RateParams { cycle, resolution, .. } = params;
    if let Some(at) = cycle_at.filter(|_| cycle != day && cycle != week) {
        faults.add_with_hint(at, format!("`cycle` can't be {cycle}"), "expected 1d or 1w");
    }
    let hour = Span::from_hours(1).as_millis();
    let divides = resolution.as_millis() % hour == 0 && day.as_millis() % resolution.as_millis() == 0;
    if let Some(at) = resolution_at.filter(|_| !divides) {
        let hint = "expected 1h, or 2h, 3h, 4h, 6h, 8h, 12h or 1d";
        faults.add_with_hint(at, format!("`resolution` can't be {resolution}"), hint);
    }
    params
}

/// Parameters of burst detection and of the response, and what was set without effect.
fn burst(
    raw: raw::Burst,
    freshness_threshold: f64,
    faults: &mut Faults,
) -> (burst::BurstParams, BurstTerms, Option<&'static str>) {
    let mut number = |key, value: Option<At<f64>>, good: fn(f64) -> bool, expected, default| {
        value.and_then(|value| values::number(key, value, good, expected, faults)).unwrap_or(default)
    };
    let (known, terms) = (burst::BurstParams::default(), BurstTerms::default());
    let share = |x: f64| (0.0..=1.0).contains(&x);
    let false_alarms = number("false_alarms", raw.false_alarms, share, "from 0 to 1", known.false_alarms);
    let ttl_factor =
        number("ttl_factor", raw.ttl_factor, |x| x > 0.0 && x <= 1.0, "above 0, up to 1", terms.ttl_factor);
    let less = |x: f64| (0.0..1.0).contains(&x);
    let reserve = number("reserve", raw.reserve, less, "from 0 to less than 1", terms.reserve);
    let window = span_or("window", raw.window, LowerBound::Positive, known.window, faults);
    let tests = burst::Test::ALL.map(|test| (test.name(), test));
    let test = raw.test.and_then(|word| values::choice("test", &word, &tests, faults)).unwrap_or_default();
    // It was a choice once. Existing files still have it.
    let responses = [("ttl", false), ("replan", true)];
    let replan = raw.response.and_then(|word| values::choice("response", &word, &responses, faults));
    let without_effect = (replan == Some(true)).then_some(
        "`response = \"replan\"` in [burst] has no effect: it was removed because it found updates no sooner \
         than `ttl`, which is used; remove the line",
    );
    let forms = [("caches", TtlForm::Caches), ("prefetching", TtlForm::Prefetching)];
    let ttl_form = raw.ttl_form.and_then(|word| values::choice("ttl_form", &word, &forms, faults));
    // TOML's `inf` is the paper's T_burst = ∞: never a burst.
    let threshold = match raw.threshold {
        Some(At { value: f64::INFINITY, .. }) => f64::INFINITY,
        value => value
            .and_then(|value| values::number("threshold", value, |x| x >= 0.0, "from 0, or inf", faults))
            .unwrap_or(known.threshold),
    };
    let params = burst::BurstParams { test, window, threshold, with_ratio: false, false_alarms };
    let terms =
        BurstTerms { reserve, ttl_form: ttl_form.unwrap_or_default(), ttl_factor, freshness_threshold };
    (params, terms, without_effect)
}

fn importance(raw: raw::RawImportance, faults: &mut Faults) -> Importance {
    let default = Importance::default();
    let mut windows = Vec::with_capacity(raw.windows.len());
    for window in raw.windows {
        let days = values::week_part(window.days, week::days, week::ALL_DAYS, faults);
        let hours = values::week_part(window.hours, week::hours, (0, week::DAY_MINUTES), faults);
        let weight = window.weight.and_then(|weight| values::weight("weight", weight, faults));
        if let (Some(days), Some((from_minute, until_minute)), Some(weight)) = (days, hours, weight) {
            windows.push((
                tidewatch_core::model::importance::WeekWindow { days, from_minute, until_minute },
                weight,
            ));
        }
    }
    Importance {
        time_zone: raw
            .time_zone
            .and_then(|name| values::time_zone(&name, faults))
            .unwrap_or(default.time_zone),
        baseline: raw
            .baseline
            .and_then(|weight| values::weight("baseline", weight, faults))
            .unwrap_or(default.baseline),
        windows,
    }
}

fn span_or(
    key: &str,
    text: Option<At<String>>,
    least: LowerBound,
    default: Span,
    faults: &mut Faults,
) -> Span {
    text.and_then(|text| values::span(key, &text, least, faults)).unwrap_or(default)
}
