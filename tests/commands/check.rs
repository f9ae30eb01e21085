//! The configuration: the faults that are shown, and the shipped files.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tidewatch::config::configuration::Config;
use tidewatch::config::{fault::Faults, load, valid};
use tidewatch_core::engine::params::{Allocator, Pricing};
use tidewatch_core::observe::SourceKind;
use tidewatch_core::observe::query::ItemFields;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::prediction::Lifetime;
use tidewatch_core::time::{Span, Timestamp};

fn parse(text: &str) -> Result<Config, Faults> {
    valid::parse(&[(PathBuf::from("tidewatch.toml"), text.to_owned())])
}

fn good(text: &str) -> Config {
    parse(text).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The messages (without places and lines) of every fault.
fn messages(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.list().iter().map(|fault| fault.message.clone()).collect(),
    }
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)
}

const FAULTY: &str = r#"[daemon]
store = 5
contact = "me (at home)"
retain_probes = "1h"

[fleet]
step = "0s"
probes_per_step = 0
alocator = "index"
allocator = "adaptve"

[budget]
probes = 48
min_spacing = "1h"

[importance]
time_zone = "Europe/Londn"
windows = [
	{ days = "mon-fry", hours = "9-18", weight = -1 },
]

[burst]
reserve = 1.5
threshold = nan
window = 15m

[[source]]
name = "日本のニュース"
url = "lwn.net/headlines/rss"
polcy = "auto"
kind = "feeed"

[[source]]
name = "日本のニュース"
url = "https://me:secret@example.org/"
policy = "optimal"

[[source]]
url = "http://192.168.1.1/status"
select = "main >"
ignore = ['(']

[[source]]
name = "page"
url = "ftp://example.org/x"
kind = "page"
select = ["main", "p:hover(", 7]
ignore = '[a-'
headers = { User-Agent = "me", "Bad Name" = "x", X-Token = "hush\n", Y = { file = "" } }
budget = { per = "-1d" }

[sorce]
"#;

#[test]
fn every_fault_is_shown_where_it_is() {
    let faults = parse(FAULTY).expect_err("full of faults");
    insta::assert_snapshot!(faults.to_string());
}

#[test]
fn shipped_files_load() {
    let full = load::load(&shipped("tidewatch.toml")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(full.sources.len(), 3);
    assert_eq!(full.importance.windows.len(), 2);
    let minimal = load::load(&shipped("minimal.toml")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(minimal.sources.len(), 1);
    // The defaults that the long file shows are those of the program.
    assert_eq!(full.daemon, minimal.daemon);
    assert_eq!(full.fleet, minimal.fleet);
    assert_eq!(full.fetch, minimal.fetch);
    assert_eq!(full.rate, minimal.rate);
    assert_eq!(full.burst, minimal.burst);
}

#[test]
fn the_long_file_names_every_key() {
    let text = std::fs::read_to_string(shipped("tidewatch.toml")).expect("shipped");
    for key in [
        "store",
        "contact",
        "retain_probes",
        "retain_events",
        "step",
        "probes_per_step",
        "allocator",
        "host_spacing",
        "max_body",
        "max_items",
        "connect_timeout",
        "read_timeout",
        "total_timeout",
        "resolve",
        "probes",
        "per",
        "min_spacing",
        "time_zone",
        "baseline",
        "windows",
        "cycle",
        "resolution",
        "refit_every",
        "half_life",
        "echoes",
        "window",
        "threshold",
        "false_alarms",
        "ttl_factor",
        "reserve",
        "name",
        "url",
        "kind",
        "policy",
        "group",
        "budget",
        "weight",
        "robots",
        "allow_private",
        "secret_url",
        "headers",
        "select",
        "remove",
        "ignore",
        "atom",
        "entries",
        "timeout",
        "give_up",
        "sources",
        "query",
        "trigger",
        "active",
        "life",
        "confidence",
        "deliver",
    ] {
        let set = text.lines().any(|line| line.starts_with(&format!("{key} = ")));
        assert!(set, "`{key}` is not shown");
    }
}

#[test]
fn an_empty_file_has_every_default() {
    let config = good("");
    assert!(config.sources.is_empty());
    assert_eq!(config.daemon.store, Path::new("tidewatch.db"));
    assert_eq!(config.daemon.contact, None);
    assert_eq!(config.fleet.host_spacing, Span::from_secs(2));
    assert_eq!(config.fleet.allocator, Allocator::Adaptive);
    assert_eq!(config.fetch.max_body, 10_000_000);
    assert_eq!(config.fetch.max_items, 10_000);
    assert_eq!(config.rate.half_life, Span::from_days(56));
    assert!(config.rate.echoes);
    assert_eq!(config.fleet.burst.reserve, 0.2);
    assert!(config.importance.windows.is_empty());
}

#[test]
fn budgets_and_policies_come_from_source_then_group_then_default() {
    let config = good(
        r#"
        [budget]
        probes = 10
        [group.news]
        policy = "ttl"
        budget = { probes = 20, min_spacing = "5m" }
        [group.plain]
        [[source]]
        name = "own"
        url = "https://example.org/1"
        group = "news"
        policy = "plan"
        budget = { probes = 30 }
        [[source]]
        name = "grouped"
        url = "https://example.org/2"
        group = "news"
        [[source]]
        name = "plain"
        url = "https://example.org/2"
        group = "plain"
        kind = "page"
        "#,
    );
    let [own, grouped, plain] = config.sources.as_slice() else { panic!("three sources") };
    assert_eq!((own.budget.probes, own.budget.min_spacing), (30, Span::from_mins(5)));
    assert_eq!((own.policy, own.price), (Policy::Plan, Some(Span::ZERO)), "a stated budget is spent whole");
    assert_eq!((grouped.budget.probes, grouped.policy, grouped.price), (20, Policy::Ttl, Some(Span::ZERO)));
    assert_eq!((plain.budget.probes, plain.policy, plain.price), (10, Policy::Auto, None));
    assert_eq!(config.fleet.pricing, Pricing::default());
    assert_eq!((plain.kind, plain.robots, own.robots), (SourceKind::Page, true, false));
}

/// T_burst from 0 to ∞, which TOML writes as `inf`, and T_ind from 0.
#[test]
fn thresholds_of_the_adaptive_policies_include_their_ends() {
    for (text, threshold) in [("0", 0.0), ("0.0", 0.0), ("2.5", 2.5), ("inf", f64::INFINITY)] {
        let config = good(&format!(
            "[burst]\nthreshold = {text}\n[rate]\nindividual_threshold = 0\n[[source]]\nname = \"a\"\n\
             url = \"https://example.org/1\"\npolicy = \"ind_hist_ttl\"\n"
        ));
        assert_eq!((config.burst.threshold, config.rate.individual_threshold), (threshold, 0.0));
        assert_eq!(config.sources[0].policy, Policy::IndHistTtl);
    }
}

#[test]
fn a_price_is_inherited_like_a_budget_but_is_none() {
    let config = good(
        r#"
        [budget]
        price = "20m"
        [group.news]
        budget = { price = "5m" }
        [group.plain]
        [[source]]
        name = "own"
        url = "https://example.org/1"
        group = "news"
        budget = { price = "0s" }
        [[source]]
        name = "grouped"
        url = "https://example.org/2"
        group = "news"
        [[source]]
        name = "plain"
        url = "https://example.org/3"
        group = "plain"
        [[source]]
        name = "stated"
        url = "https://example.org/4"
        budget = { probes = 5 }
        "#,
    );
    let prices: Vec<Option<Span>> = config.sources.iter().map(|source| source.price).collect();
    assert_eq!(prices, [Some(Span::ZERO), Some(Span::from_mins(5)), None, None]);
    assert_eq!(config.fleet.pricing, Pricing::Price(1.0 / 3.0));
    assert_eq!(good("").sources.len(), 0);
    assert_eq!(messages("[budget]\nprice = \"-1h\"\n").len(), 1);
}

#[test]
fn a_total_is_shared_by_all_sources_without_their_own_price() {
    let config = good(
        r#"
        [fleet]
        probes = 20_000
        per = "2d"
        [[source]]
        name = "own"
        url = "https://example.org/1"
        budget = { price = "5m" }
        [[source]]
        name = "stated"
        url = "https://example.org/2"
        budget = { probes = 5 }
        "#,
    );
    assert_eq!(config.fleet.pricing, Pricing::Total { probes: 20_000, per: Span::from_days(2) });
    let prices: Vec<Option<Span>> = config.sources.iter().map(|source| source.price).collect();
    assert_eq!(prices, [Some(Span::from_mins(5)), None], "a stated budget is a limit beside a total");
    let default = good("[fleet]\nprobes = 500\n").fleet.pricing;
    assert_eq!(default, Pricing::Total { probes: 500, per: Span::from_days(1) });
    assert_eq!(messages("[fleet]\nper = \"1d\"\n"), ["`per` without `probes`: there is no total to spend"]);
    assert_eq!(
        messages("[fleet]\nprobes = 500\n[budget]\nprice = \"1m\"\n"),
        ["a price and a total are both stated: `price` in [budget], `probes` in [fleet]"]
    );
    assert_eq!(messages("[fleet]\nprobes = 0\n").len(), 1);
}

#[test]
fn groups_are_free_until_one_is_declared() {
    let source = "[[source]]\nname = \"a\"\nurl = \"https://example.org/\"\ngroup = \"nws\"\n";
    assert_eq!(messages(source), Vec::<String>::new());
    let declared = format!("[group.news]\n{source}");
    assert_eq!(messages(&declared), ["there is no group `nws`"]);
    let shown = parse(&declared).expect_err("undeclared").to_string();
    assert!(shown.ends_with("did you mean `news`?"), "{shown}");
}

#[test]
fn a_budget_that_can_not_be_spent_says_what_would_fit() {
    let faults = parse("[budget]\nmin_spacing = \"1h\"\n").expect_err("48 hours in a day");
    insta::assert_snapshot!(faults.to_string(), @r#"
    tidewatch.toml:2:15: the budget can't be spent: 48 probes 1h apart take 2d, but `per` is 1d
        2 | min_spacing = "1h"
          |               ^^^^ what fits: at most 24 probes, or a `min_spacing` of at most 30m
    "#);
    assert_eq!(messages("[budget]\nmin_spacing = \"30m\"\n"), Vec::<String>::new());
}

#[test]
fn probes_are_kept_at_least_as_long_as_the_longest_budget() {
    let source = |per: &str| {
        format!(
            "[[source]]\nname = \"a\"\nurl = \"https://example.org/\"\nbudget = {{ per = \"{per}\" }}\n"
        )
    };
    assert_eq!(messages(&source("180d")), Vec::<String>::new());
    assert_eq!(
        messages(&source("181d")),
        ["`retain_probes` (180d) is shorter than the longest budget's `per` (181d)"]
    );
    let both = format!("[daemon]\nretain_probes = \"6d\"\n{}", source("1w"));
    let faults = parse(&both).expect_err("too short");
    assert!(faults.to_string().starts_with("tidewatch.toml:2:17: "), "{faults}");
}

#[test]
fn durations() {
    for (text, expected) in
        [("10s", 10_000), ("1h30m", 5_400_000), ("0.5d", 43_200_000), ("1 week", 604_800_000)]
    {
        let config = good(&format!("[fleet]\nstep = \"{text}\"\n"));
        assert_eq!(config.fleet.step, Span::from_millis(expected), "{text}");
    }
    for (text, message) in [
        ("0s", "`step` can't be zero"),
        ("0.4ms", "`step` can't be zero"),
        ("-10s", "`step` can't be negative"),
        ("10", "`step`: `10` has no unit"),
        ("10 parsecs", "`step`: unknown unit `parsecs`"),
        ("soon", "`step`: `soon` is not a duration"),
        ("", "`step`: it is empty"),
    ] {
        assert_eq!(messages(&format!("[fleet]\nstep = \"{text}\"\n")), [message]);
    }
    assert_eq!(good("[fleet]\nhost_spacing = \"0s\"\n").fleet.host_spacing, Span::ZERO);
}

#[test]
fn single_faults() {
    let source = |rest: &str| format!("[[source]]\nname = \"a\"\nurl = \"https://example.org/\"\n{rest}\n");
    for (text, message) in [
        ("[daemon]\ncontact = \" \"\n".to_owned(), "`contact` is empty"),
        ("[fetch]\nmax_body = 10.5\n".to_owned(), "`max_body` can't be a number with a fraction"),
        ("[fetch]\nmax_body = \"2TB\"\n".to_owned(), "`max_body` is not a size"),
        ("[fetch]\nmax_body = 0\n".to_owned(), "`max_body` is too small"),
        ("[fetch]\nresolve = { \"a.example\" = \"here\" }\n".to_owned(), "`here` is not an IP address"),
        ("[rate]\nresolution = \"2w\"\n".to_owned(), "`resolution` can't be 14d"),
        ("[rate]\nresolution = \"1ms\"\n".to_owned(), "`resolution` can't be 1ms"),
        ("[budget]\nprobes = 99999999999999999999\n".to_owned(), "`probes` is too large a number"),
        ("[importance]\nbaseline = inf\n".to_owned(), "`baseline` can't be inf"),
        ("[importance]\nwindows = [{ days = \"mon\" }]\n".to_owned(), "this window has no `weight`"),
        (source("weight = -1"), "`weight` can't be -1"),
        (source("robots = \"no\""), "`robots` can't be a text"),
        ("[rate]\nechoes = 1\n".to_owned(), "`echoes` can't be a whole number"),
        (source("remove = \"nav\""), "`remove` means nothing for a feed"),
        (source("headers = { cookie = \"a=b\" }"), "the header `cookie` can't be set"),
        (source("headers = { A = { } }"), "header `A` has no value"),
        (source("headers = { A = \"1\", a = \"2\" }"), "the header `a` is given twice"),
        (source("headers = { A = { credential = \"../x\" } }"), "`../x` can't be the name of a credential"),
        (source("group = \"\""), "the group of this source is empty"),
        (
            "[source]\nname = \"a\"\nurl = \"https://example.org/\"\n".to_owned(),
            "`source` is a list, and this is a single table",
        ),
        (
            "[[source]]\nname = \" a\"\nurl = \"https://example.org/\"\n".to_owned(),
            "the name of this source starts or ends with white space",
        ),
        (
            "[[source]]\nname = \"a\\u0007\"\nurl = \"https://example.org/\"\n".to_owned(),
            "the name of this source holds a control character",
        ),
    ] {
        assert_eq!(messages(&text), [message], "{text}");
    }
}

#[test]
fn unreadable_lines_cause_no_other_faults() {
    let text = "[daemon]\nstore = \n[fleet]\nstep = 10s\nprobes_per_step = 0\n[[source]]\nname = \"a\"\nurl = \"x\n";
    assert_eq!(
        messages(text),
        [
            "a value is missing",
            "a text must be in quotes",
            "`probes_per_step` must be at least 1",
            "invalid basic string"
        ]
    );
}

#[test]
fn files_beside_hold_only_sources() {
    let files = [
        (PathBuf::from("tidewatch.toml"), "[group.news]\n".to_owned()),
        (PathBuf::from("sources.d/a.toml"), "[budget]\nprobes = 0\n[group.news]\n[extra]\n".to_owned()),
    ];
    let faults = valid::parse(&files).expect_err("faults");
    insta::assert_snapshot!(faults.to_string());
}

const PROFILE: &str = r#"[importance]
time_zone = "Europe/London"

[[source]]
name = "rustsec"
url = "https://example.org/rustsec"

[[source]]
name = "debian"
url = "https://example.org/debian"
group = "distro"

[[profile]]
name = "advisories"
sources = ["rustsec", "group:distro"]

[[profile.rule]]
name = "every tenth post"
query = { fields = ["title", "link"], where = "title ~ 'CVE-\\d+' and not categories = 'test'" }
trigger = { on = "update", of = ["group:distro"], every = 10 }
active = { from = "2026-12-01", until = "2027-01-01", windows = [{ days = "mon-fri", hours = "08:00-20:00" }] }
life = { window = "30m" }
deliver = ["exec:notify", "webhook:ops"]

[deliver.notify]
exec = ["/usr/bin/notify", "--json"]

[deliver.ops]
webhook = "https://example.org/hook"
secret = { credential = "ops" }
"#;

#[test]
fn a_profile_is_read_as_written() {
    let config = good(PROFILE);
    let [rule] = config.rules.all() else { panic!("one rule") };
    assert_eq!((&*rule.profile, &*rule.name), ("advisories", "every tenth post"));
    assert_eq!((&*rule.terms.name, rule.terms.every), ("advisories/every tenth post", 10));
    assert_eq!(rule.terms.life, Lifetime::Window(Span::from_mins(30)));
    assert!(rule.wanted.as_ref().is_some_and(|wanted| {
        wanted.condition.holds(&ItemFields { title: Some("CVE-2026-1"), ..ItemFields::default() })
    }));
    assert_eq!(rule.deliver.iter().map(|name| &**name).collect::<Vec<_>>(), ["exec:notify", "webhook:ops"]);
    // Midnight in London, and no hour of a Sunday.
    let at = |text| Timestamp::parse_iso(text).unwrap();
    assert_eq!(rule.terms.active.from, Some(at("2026-12-01T00:00:00Z")));
    assert!(rule.terms.active.holds(at("2026-12-01T08:00:00Z")));
    assert!(!rule.terms.active.holds(at("2026-12-01T20:00:00Z")));
    assert!(!rule.terms.active.holds(at("2026-12-06T12:00:00Z")));
    // The first source is queried; the second also triggers the rule.
    let part = |index: usize| config.rules.of(&config.sources[index])[0];
    assert_eq!((part(0).asked, part(0).triggers), (true, false));
    assert_eq!((part(1).asked, part(1).triggers), (true, true));
}

#[test]
fn faults_of_profiles_are_shown_where_they_are() {
    let text = r#"[[source]]
name = "rustsec"
url = "https://example.org/rustsec"
group = "distro"

[[profile]]
name = "advisories"
sources = ["rustsek", "group:distros"]

[[profile.rule]]
name = "a"
query = { fields = ["titel"], where = "title ~ 'CVE-\\d+' and \"x\" && link" }
trigger = { on = "insert", every = 0, of = [] }
active = { from = "2027-01-01", until = "2026-12-01" }
life = "forever"
confidence = 1.5
deliver = ["notify"]

[[profile.rule]]
name = "a"
active = { from = "2026-12-05", until = "2026-12-07", windows = [{ days = "mon-fri" }] }
life = { window = "5s" }

[[profile]]
name = "empty"

[deliver.notify]
exec = ["notify"]
secret = "hush"

[deliver.both]
webhook = "http://localhost/x"
atom = "x.xml"

[deliver.near]
webhook = "http://localhost/x"
"#;
    let faults = parse(text).unwrap_err();
    insta::assert_snapshot!(faults.to_string());
}

#[test]
fn secrets_are_not_shown() {
    for line in [
        "headers = { Authorization = \"hush\", x = 5 }",
        "headers = { Authorization = hush, x = 5 }",
        "headers = { Authorization = \"hush",
        "headers = { Authorization = { value = \"hush\" } }",
        "headers = { Authorization = [\"hush\"] }",
        "headers = { Authorization = \"\"\"\nhush\nhush\"\"\", x = 5 }",
        "url = \"https://me:hush@example.org/\"",
        "url = \"https://me:hush@example.org:99999/\"",
        "url = \"https://me:hush@example.org/\\u0020\"",
        "url = https://me:hush@example.org/",
        "url = 'https://me:hush@example.org/",
    ] {
        let shown = parse(&format!("[[source]]\nname = \"a\"\n{line}\n")).expect_err("faults").to_string();
        assert!(!shown.contains("hush"), "{shown}");
    }
}

#[test]
fn many_sources_are_read_in_linear_time() {
    // A quadratic reader would need minutes for this.
    let mut text = String::new();
    for index in 0..20_000 {
        text.push_str(&format!("[[source]]\nname = \"s{index}\"\nurl = \"https://example.org/{index}\"\n"));
    }
    assert_eq!(good(&text).sources.len(), 20_000);
    let twice = format!("{text}{text}");
    assert_eq!(messages(&twice).len(), 20_000);
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        if let Err(faults) = parse(&text) {
            prop_assert!(!faults.to_string().is_empty());
        }
    }

    /// A damaged real file reaches more code than random text.
    #[test]
    fn mangled_files_never_panic(cuts in prop::collection::vec((0_usize..2000, 0_usize..40, "\\PC{0,6}|\n|\t|\"|\\[|\u{0}"), 1..6)) {
        let mut text = FAULTY.to_owned();
        for (at, length, put) in cuts {
            let from = text.floor_char_boundary(at.min(text.len()));
            let to = text.floor_char_boundary((from + length).min(text.len()));
            text.replace_range(from..to, &put);
        }
        if let Err(faults) = parse(&text) {
            let shown = faults.to_string();
            prop_assert_eq!(shown.lines().count(), faults.len() * 3);
        }
    }
}
