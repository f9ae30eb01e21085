//! `tidewatch simulate traces`: its output, its files and its refusals. Its scores are computed again from
//! its files of probe times.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use tidewatch_lab::contest::entrant_policy::EntrantPolicy;
use tidewatch_lab::world::world;

use crate::command_folder;
use tidewatch_fixtures::command::CommandFolder;

const TRACES: &[&str] = &["simulate", "traces"];
const MONDAY: i64 = 1_794_787_200;
const DAY: i64 = 86_400;

/// A short contest, so that it ends soon.
const SHORT: [&str; 6] = ["--train", "2w", "--test", "1w", "--probes", "8"];

/// With a folder `traces` of three sources, and `kinds.csv`.
fn with_traces() -> CommandFolder {
    let folder = command_folder(TRACES);
    fs::create_dir(folder.path().join("traces")).unwrap();
    for (name, events) in traces() {
        trace(&folder, &name, &events);
    }
    folder.write("traces/index.csv", "name,kind\nnothing,of this is a trace\n");
    folder.write("traces/README.md", "nor this");
    folder.write("kinds.csv", "origin,name,kind\n\"here, there\",office,work\n,nightly,work\n");
    folder
}

fn trace(folder: &CommandFolder, name: &str, events: &[i64]) {
    let lines: Vec<String> = events.iter().map(i64::to_string).collect();
    folder.write(&format!("traces/{name}.csv"), &format!("unix_time\n{}\n", lines.join("\n")));
}

fn read(folder: &CommandFolder, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The standard output and standard error of a short contest on the traces.
fn short(folder: &CommandFolder, arguments: &[&str]) -> (String, String) {
    let all = [&["--traces", "traces"], &SHORT[..], arguments].concat();
    let (code, out, err) = folder.run(&all);
    assert_eq!(code, 0, "{all:?}: {err}");
    (out, err)
}

fn json(folder: &CommandFolder, arguments: &[&str]) -> Value {
    serde_json::from_str(&short(folder, &[arguments, &["--json"]].concat()).0).unwrap()
}

/// Four weeks: one that publishes in working hours and at times several at once, one every night, one
/// now and then.
fn traces() -> BTreeMap<String, Vec<i64>> {
    let from = MONDAY - 28 * DAY;
    let mut office: Vec<i64> = (0..28)
        .filter(|day| day % 7 < 5)
        .flat_map(|day| {
            (0..9).map(move |n| from + day * DAY + 32_400 + n * 3500 + (n * n * 977 + day * 131) % 1800)
        })
        .collect();
    office.extend((0..12).map(|n| from + 23 * DAY + 50_000 + n * 20));
    let nightly = (0..28).map(|day| from + day * DAY + 11_220 + (day * 37) % 120).collect();
    let mut seldom = vec![from + 3 * DAY + 777, from + 26 * DAY + 5, from + 16 * DAY, from + 26 * DAY + 5];
    seldom.extend([from + 22 * DAY, from + 9 * DAY + 40_000]);
    office.sort_unstable();
    [("office", office), ("nightly", nightly), ("seldom", seldom)]
        .map(|(name, events)| (name.to_owned(), events))
        .into()
}

fn number(document: &Value, key: &str) -> f64 {
    document[key].as_f64().unwrap_or_else(|| panic!("no {key} in {document}"))
}

fn list<'v>(document: &'v Value, key: &str) -> &'v [Value] {
    document[key].as_array().unwrap_or_else(|| panic!("no {key} in {document}"))
}

/// The times of a file in milliseconds.
fn times(text: &str) -> Vec<i64> {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("unix_time"));
    lines.map(|line| (line.parse::<f64>().unwrap() * 1000.0).round() as i64).collect()
}

/// Compares one source's scores with those counted from the times of its updates and probes. `weight` is the
/// importance of an hour of the week.
fn check(scores: &Value, events: &[i64], probes: &[i64], items: usize, weight: fn(i64) -> f64) {
    let at = |key: &str| (number(scores, key) * 1000.0).round() as i64;
    let (from, to) = (at("test_from"), at("test_to"));
    let mut events: Vec<i64> = events.iter().map(|secs| secs * 1000).collect();
    events.sort_unstable();
    assert!(probes.is_sorted() && probes.contains(&to), "{scores}");
    let sent: Vec<i64> = probes.iter().copied().filter(|&at| at > from && at <= to).collect();
    let updates: Vec<usize> = (0..events.len()).filter(|&n| events[n] > from && events[n] <= to).collect();
    let found = |event: i64| sent.iter().copied().find(|&probe| probe >= event).unwrap();
    let mut delays: Vec<f64> =
        updates.iter().map(|&n| (found(events[n]) - events[n]) as f64 / 1000.0).collect();
    delays.sort_unstable_by(f64::total_cmp);
    let mut useful: Vec<i64> = updates.iter().map(|&n| found(events[n])).collect();
    useful.dedup();
    let gone = |&&n: &&usize| {
        let seen = found(events[n]);
        events[n + 1..].iter().filter(|&&event| event <= seen).count() >= items
    };
    let hour = 3_600_000;
    let mut obsolescence = 0.0;
    let (mut waited, mut harmonic) = (0, 0.0);
    let mut known = from;
    let mut undiscovered = (from, 0.0);
    for &n in &updates {
        let (mut at, end) = (events[n], found(events[n]));
        waited += (end - at.max(known)).max(0);
        // The number of this update among those that its probe finds.
        undiscovered = (end, if undiscovered.0 == end { undiscovered.1 + 1.0 } else { 1.0 });
        harmonic += (end - at) as f64 / undiscovered.1;
        known = known.max(end);
        while at < end {
            let next = (at - at % hour + hour).min(end);
            obsolescence += weight(at / hour) * (next - at) as f64 / hour as f64;
            at = next;
        }
    }
    let same = |key: &str, expected: f64| {
        let value = number(scores, key);
        assert!(
            (value - expected).abs() <= 1e-6 * expected.abs().max(1.0),
            "{key}: {expected} in {scores}"
        );
    };
    same("updates", updates.len() as f64);
    same("probes", sent.len() as f64);
    same("useful_probes", useful.len() as f64);
    same("useful", useful.len() as f64 / sent.len() as f64);
    same("gaps", updates.iter().filter(gone).count() as f64);
    same("obsolescence", obsolescence);
    same("missed", waited as f64 / (to - from) as f64);
    same("fresh_share", 1.0 - waited as f64 / (to - from) as f64);
    same("harmonic", harmonic / (to - from) as f64);
    let rank = |share: f64| delays[((share * delays.len() as f64).ceil() as usize).max(1) - 1];
    same("mean_delay_s", delays.iter().sum::<f64>() / delays.len() as f64);
    same("p50_delay_s", rank(0.5));
    same("p95_delay_s", rank(0.95));
    same("worst_delay_s", rank(1.0));
}

#[test]
fn scores_agree_with_the_probe_times() {
    let folder = with_traces();
    folder.write(
        "importance.toml",
        "default_weight = 0.5\nsegments = [ { days = \"mon-fri\", hours = \"09:00-18:00\", weight = 3 } ]\n",
    );
    // 1970-01-01 was a Thursday.
    let weight = |hour: i64| match ((hour / 24 + 3) % 7, hour % 24) {
        (0..5, 9..18) => 3.0,
        _ => 0.5,
    };
    // Matching their probes takes minutes here.
    let slow = ["agg_hist", "ind_hist_agg_hist"];
    let names: Vec<&str> = EntrantPolicy::all()
        .into_iter()
        .map(EntrantPolicy::name)
        .filter(|name| !slow.contains(name))
        .collect();
    for (names, matched) in [(&names[..], true), (&slow[..], false)] {
        let (who, out) = (names.join(","), if matched { "matched" } else { "alone" });
        let options =
            ["--policies", &who, "--importance", "importance.toml", "--items", "5", "--emit", out];
        let matching: &[&str] = if matched { &["--match", "probes"] } else { &[] };
        let document = json(&folder, &[&options[..], matching].concat());
        // The true rates are not known, so that the oracle is left out.
        let scored = names.iter().filter(|&&name| name != "oracle").count();
        let sources = list(&document, "sources");
        assert_eq!(sources.len(), 3 * scored, "{document}");
        check_all(&folder, &document, out, weight);
    }
}

/// Compares the scores of all sources and policies with the times of probes in this folder.
fn check_all(folder: &CommandFolder, document: &Value, out: &str, weight: fn(i64) -> f64) {
    let (traces, sources) = (traces(), list(document, "sources"));
    for scores in sources {
        let (source, policy) = (scores["source"].as_str().unwrap(), scores["policy"].as_str().unwrap());
        let probes = times(&read(folder, &format!("{out}/{policy}/{source}.csv")));
        check(scores, &traces[source], &probes, 5, weight);
        assert_eq!(number(scores, "test_to") - number(scores, "test_from"), 7.0 * DAY as f64);
        // Training is in the file too.
        assert!(
            probes[0] < (number(scores, "test_from") * 1000.0) as i64 || policy == "clairvoyant",
            "{scores}"
        );
    }
    for policy in list(document, "policies") {
        let name = &policy["policy"];
        let own = || sources.iter().filter(|scores| scores["policy"] == *name);
        for key in ["updates", "probes", "useful_probes", "gaps", "obsolescence"] {
            let sum: f64 = own().map(|scores| number(scores, key)).sum();
            assert!((number(policy, key) - sum).abs() < 1e-6 * sum.max(1.0), "{key} of {name}");
        }
        if name != "oracle" {
            let all: f64 =
                own().map(|scores| number(scores, "mean_delay_s") * number(scores, "updates")).sum();
            assert!(
                (number(policy, "mean_delay_s") * number(policy, "updates") - all).abs() < 1e-3,
                "{name}"
            );
        }
    }
}

#[test]
fn a_generated_world_is_scored_alike_and_has_an_oracle() {
    let folder = command_folder(TRACES);
    let arguments =
        ["--world", "6", "--seed", "4", "--policies", "uniform,oracle", "--emit", "out", "--json"];
    let out = folder.output(&[&arguments[..], &SHORT].concat());
    let document: Value = serde_json::from_str(&out).unwrap();
    // Three weeks are needed, and the world has four weeks before them.
    let sources = world(6, 7, 4);
    assert_eq!(list(&document, "sources").len(), 12);
    for scores in list(&document, "sources") {
        let (name, policy) = (scores["source"].as_str().unwrap(), scores["policy"].as_str().unwrap());
        let source = sources.iter().find(|source| source.name == name).unwrap();
        let events: Vec<i64> = source.events.iter().map(|at| at.as_millis() / 1000).collect();
        check(scores, &events, &times(&read(&folder, &format!("out/{policy}/{name}.csv"))), 50, |_| 1.0);
        assert_eq!(scores["kind"], source.kind.as_str());
    }
    assert_eq!(list(&document, "kinds").len(), 12);
}

#[test]
fn sources_are_drawn_anew_by_seed() {
    let folder = with_traces();
    let run = |options: &[&str]| {
        let document = json(&folder, &[&["--policies", "uniform"], options].concat());
        list(&document, "sources").iter().map(|scores| number(scores, "obsolescence")).collect::<Vec<_>>()
    };
    let drawn = run(&["--resample", "--seed", "1"]);
    assert_eq!(drawn, run(&["--resample", "--seed", "1"]));
    assert_ne!(drawn, run(&["--resample", "--seed", "2"]));
    assert_ne!(drawn, run(&["--seed", "1"]));
}

#[test]
fn the_document_has_the_documented_keys() {
    let folder = with_traces();
    let document = json(&folder, &["--policies", "ttl,uniform", "--kinds", "kinds.csv"]);
    assert_eq!(document["baseline"], "uniform");
    assert_eq!((&document["as_shipped"], &document["caps"]), (&Value::Bool(false), &Value::Null));
    for policy in list(&document, "policies") {
        for key in
            ["updates", "probes", "mean_delay_s", "useful", "fresh_share", "harmonic", "gaps", "mean_ratio"]
        {
            number(policy, key);
        }
        let ends = ["", "_low", "_high"].map(|end| number(policy, &format!("geometric_mean_ratio{end}")));
        assert!(ends[1] <= ends[0] && ends[0] <= ends[2], "{policy}");
    }
    assert_eq!(list(&document, "policies")[1]["geometric_mean_ratio"], 1.0);
    let first = &list(&document, "sources")[0];
    for key in
        ["source", "policy", "test_from", "test_to", "obsolescence", "useful", "gaps", "kind", "knob"]
    {
        assert!(!first[key].is_null(), "no {key} in {first}");
    }
    let kinds: Vec<(&str, f64)> = list(&document, "kinds")
        .iter()
        .filter(|scores| scores["policy"] == "ttl")
        .map(|scores| (scores["kind"].as_str().unwrap(), number(scores, "sources")))
        .collect();
    assert_eq!(kinds, [("other", 1.0), ("work", 2.0)]);
    assert_eq!(document, json(&folder, &["--policies", "ttl,uniform", "--kinds", "kinds.csv"]));
}

#[test]
fn several_budgets_have_a_contest_each() {
    let folder = with_traces();
    let arguments = ["--traces", "traces", "--train", "2w", "--test", "1w", "--policies", "uniform,fixed"];
    let several = ["--budgets", "4,16", "--emit", "out", "--json"];
    let out = folder.output(&[&arguments[..], &several].concat());
    let document: Value = serde_json::from_str(&out).unwrap();
    let budgets = list(&document, "budgets");
    assert_eq!(budgets.iter().map(|one| number(one, "probes")).collect::<Vec<_>>(), [4.0, 16.0]);
    assert_eq!(
        (&document["policies"], &document["probes"]),
        (&budgets[0]["policies"], &budgets[0]["probes"])
    );
    let spent = |at: usize| number(&list(&budgets[at], "policies")[0], "probes");
    assert!(spent(1) > 3.0 * spent(0), "{out}");
    let count = |path: &str| times(&read(&folder, path)).len();
    assert!(count("out/16/uniform/office.csv") > 3 * count("out/4/uniform/office.csv"));
    let (_, out, _) = folder.run(&[&arguments[..], &["--budgets", "4,16"]].concat());
    assert!(out.contains("\n4 probes in 1d for a source") && out.contains("\n16 probes in 1d"), "{out}");
}

#[test]
fn without_json_tables_are_printed() {
    let folder = with_traces();
    let (out, err) = short(&folder, &["--policies", "auto,uniform,fixed", "--kinds", "kinds.csv"]);
    assert_eq!(err, "");
    assert!(
        out.starts_with("traces  3 sources, each watched for 14d and then judged for 7d; seed 1\n"),
        "{out}"
    );
    assert!(out.contains("\npolicy   mean") && out.contains("× uniform  95 %\n"), "{out}");
    assert!(["auto ", "uniform ", "fixed "].iter().all(|name| out.contains(&format!("\n{name}"))), "{out}");
    assert!(out.contains("\nkind   sources  updates  auto") && out.contains("\nwork   2 "), "{out}");
    assert!(out.contains("most against uniform:\n"), "{out}");
    assert!(!out.contains('\x1b') && !out.contains("NaN"), "{out}");
    let (out, _) = short(&folder, &["--policies", "uniform"]);
    assert!(!out.contains("kind") && !out.contains("most against"), "{out}");
}

#[test]
fn pages_and_pictures_need_no_other_file() {
    let folder = with_traces();
    trace(&folder, "<b>&\"bold'", &traces()["office"]);
    let (_, err) =
        short(&folder, &["--policies", "uniform,ttl", "--html", "page.html", "--svg", "curve.svg"]);
    assert_eq!(err, "drawn into curve.svg\nwritten to page.html\n");
    let (page, svg) = (read(&folder, "page.html"), read(&folder, "curve.svg"));
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"), "{page}");
    assert!(page.contains("&lt;b&gt;&amp;&quot;bold") && !page.contains("<b>"), "{page}");
    assert!(page.contains("tidewatch simulate traces --traces traces --train 2w"), "{page}");
    assert!(page.contains("prefers-color-scheme:dark") && !page.contains("<script"), "{page}");
    for (tag, text) in [("svg", &page), ("table", &page), ("figure", &page), ("svg", &svg)] {
        let opened = text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count();
        assert!(opened > 0 && opened == text.matches(&format!("</{tag}>")).count(), "{tag} in {text}");
    }
    assert!(!page.contains("http") && !page.contains("url("), "{page}");
    assert_eq!(svg.matches("http").count(), svg.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
    // A quarter, half, all and twice of the budget.
    assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, 8), "{svg}");
}

#[test]
fn sources_that_cannot_be_scored_are_reported() {
    let folder = with_traces();
    folder.write("traces/empty.csv", "unix_time\n");
    trace(&folder, "new", &[MONDAY - 2 * DAY, MONDAY - DAY]);
    let (out, err) = short(&folder, &["--policies", "uniform"]);
    assert!(out.contains("  4 sources, "), "{out}");
    let message = "note: of 5 sources, 1 never published and left out, 1 without an update before the test";
    assert!(err.starts_with(message) && err.lines().count() == 1, "{err}");
}

#[test]
fn faults_of_files_are_shown_where_they_are() {
    let folder = with_traces();
    let traces = ["--traces", "traces"];
    for (text, message) in [
        ("", "traces/f.csv:1: the header `unix_time` is expected, not `nothing`"),
        ("1794787200\n", "traces/f.csv:1: the header `unix_time` is expected, not `1794787200`"),
        ("unix_time\n1794787200\nnoon\n", "traces/f.csv:3: `noon` is not a whole number of seconds"),
        ("unix_time\n1794787200.5\n", "traces/f.csv:2: `1794787200.5` is not a whole number"),
        ("unix_time\n-5\n", "traces/f.csv:2: `-5` is before 1970"),
        ("unix_time\n1794787200000\n", "traces/f.csv:2: `1794787200000` is after the year 9999"),
    ] {
        folder.write("traces/f.csv", text);
        let err = folder.error(1, &traces);
        assert!(err.starts_with(&format!("tidewatch: {message}")), "{err}");
    }
    fs::remove_file(folder.path().join("traces/f.csv")).unwrap();
    folder.write("k.csv", "name,sort\n");
    let err = folder.error(1, &[&traces[..], &["--kinds", "k.csv"]].concat());
    assert!(err.starts_with("tidewatch: k.csv:1: a column `kind` is expected"), "{err}");
    assert!(folder.error(1, &["--traces", "none"]).starts_with("tidewatch: none: "));
    fs::create_dir(folder.path().join("bare")).unwrap();
    assert!(folder.error(1, &["--traces", "bare"]).contains("bare: no traces"));
    folder.write("bare/a.csv", "unix_time\n");
    assert!(folder.error(1, &["--traces", "bare"]).contains("no source has published anything"));
    let err = folder.error(78, &[&traces[..], &["--importance", "kinds.csv"]].concat());
    assert!(err.contains("kinds.csv:1:"), "{err}");
}

#[test]
fn names_do_not_leave_their_folder() {
    let folder = with_traces();
    // The stem of this is `..`.
    trace(&folder, "..", &traces()["office"]);
    let err = folder.error(1, &["--traces", "traces", "--emit", "out"]);
    assert!(err.contains("\"..\" would be written outside of its folder"), "{err}");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn an_output_that_cannot_be_written_is_refused() {
    let folder = with_traces();
    let err = folder.error(1, &["--traces", "traces", "--emit", "kinds.csv/out"]);
    assert!(err.starts_with("tidewatch: kinds.csv/out: "), "{err}");
    let short =
        [&["--traces", "traces", "--policies", "uniform", "--svg", "none/x.svg"], &SHORT[..]].concat();
    let (code, _, err) = folder.run(&short);
    assert!(code == 1 && err.contains("none/x.svg: "), "{err}");
}

#[test]
fn wrong_usage_is_reported() {
    let folder = with_traces();
    for (arguments, message) in [
        (&[][..], "--traces <DIR>|--world <COUNT>"),
        (&["--traces", "traces", "--world", "5"], "cannot be used with"),
        (&["--world", "5", "--kinds", "kinds.csv"], "cannot be used with"),
        (&["--world", "5", "--resample"], "cannot be used with"),
        (&["--world", "0"], "invalid value '0' for '--world"),
        (&["--world", "5", "--policies", "auto,best"], "there are auto, plan, ind_hist"),
        (&["--world", "5", "--policies", "auto,plan,auto"], "--policies names `auto` twice"),
        (&["--world", "5", "--probes", "0"], "invalid value '0' for '--probes"),
        (&["--world", "5", "--probes", "4", "--budgets", "4,5"], "cannot be used with"),
        (&["--world", "5", "--budgets", "4,4"], "--budgets names 4 twice"),
        (&["--world", "5", "--per", "0s"], "--per"),
        (&["--world", "5", "--test", "4"], "`4` has no unit"),
        (&["--world", "5", "--errors", "2"], "a share is a number from 0 to 1"),
        (&["--world", "5", "--match", "all"], "probes, total"),
        (&["--world", "5", "--policies", "auto,azar"], "`azar` has no default price; give --match or"),
        (&["--world", "5", "--policies", "sia_cho", "--as-shipped"], "`sia_cho` is a rule of a paper"),
    ] {
        let err = folder.error(2, arguments);
        assert!(err.contains(message), "{arguments:?}: {err}");
    }
    for (arguments, message) in [
        (&["--world", "5", "--probes", "90000"][..], "more than one a second"),
        (&["--world", "5", "--train", "4000d"], "3660d together at most"),
    ] {
        let err = folder.error(1, arguments);
        assert!(err.contains(message), "{arguments:?}: {err}");
    }
}

#[test]
fn a_deadline_is_met_by_our_policies_and_reported_for_all() {
    let folder = with_traces();
    let policies = ["--policies", "auto,uniform,commafeed"];
    let free = json(&folder, &policies);
    assert!(free.get("max_gap_s").is_none() && free["policies"][0].get("deadlines").is_none());
    let bound = json(&folder, &[&policies[..], &["--max-gap", "4h"]].concat());
    assert_eq!(number(&bound, "max_gap_s"), 14_400.0);
    for policy in &list(&bound, "policies")[..2] {
        assert!(number(policy, "deadlines") >= 3.0 * 42.0, "{policy}");
        assert_eq!(number(policy, "deadlines_missed"), 0.0, "{policy}");
        assert!(policy["worst_late_s"].is_null(), "{policy}");
    }
    let (table, _) = short(&folder, &[&policies[..], &["--max-gap", "4h"]].concat());
    assert!(table.contains("deadlines missed"), "{table}");
    let all = [&["--traces", "traces"], &SHORT[..], &["--max-gap", "1h"]].concat();
    let (code, _, err) = folder.run(&all);
    assert!(code != 0 && err.contains("--max-gap 1h can't be kept"), "{err}");
}

#[test]
fn rules_of_a_file_are_applied_and_its_faults_are_shown_where_they_are() {
    let folder = with_traces();
    let rule = |window: &str| {
        format!(
            "[[profile]]\nname = \"p\"\nsources = [\"office\"]\n\n[[profile.rule]]\nname = \"soon\"\n\
             life = {{ window = \"{window}\" }}\ndeliver = [\"exec:unused\"]\n"
        )
    };
    folder.write("p.toml", &rule("15m"));
    let wide = ["--probes", "150", "--price", "3h", "--policies", "auto,profile,commafeed"];
    let run = |more: &[&str]| {
        let all = [&["--traces", "traces", "--train", "2w", "--test", "1w"], &wide[..], more].concat();
        let (code, out, err) = folder.run(&all);
        assert_eq!(code, 0, "{err}");
        out
    };
    let document: Value = serde_json::from_str(&run(&["--profiles", "p.toml", "--json"])).unwrap();
    let rules = list(&document, "rules");
    assert_eq!(rules.len(), 3, "{document}");
    for rule in &rules[..2] {
        assert_eq!(rule["rule"], "p/soon");
        assert!(number(rule, "share") >= 0.8 && number(rule, "probes") > 0.0, "{rule}");
    }
    assert!(number(&rules[2], "share") < 0.5 && rules[2]["probes"].is_null(), "{}", rules[2]);
    let spans: Vec<_> = list(&document, "sources").iter().map(|source| &source["test_to"]).collect();
    assert!(spans.windows(2).all(|pair| pair[0] == pair[1]), "all have the same test period");
    assert!(run(&["--profiles", "p.toml"]).contains("probes for it"));
    folder.write("p.toml", &rule("1s").replace("office", "offce"));
    let (code, _, err) = folder.run(&["--traces", "traces", "--profiles", "p.toml"]);
    assert!(code != 0 && err.contains("p.toml:3:12: there is no source `offce`"), "{err}");
    assert!(err.contains("did you mean `office`?") && err.contains("p.toml:7:"), "{err}");
    let (code, _, err) = folder.run(&["--traces", "traces", "--policies", "profile"]);
    assert!(code == 2 && err.contains("give --profiles FILE"), "{code} {err}");
}
