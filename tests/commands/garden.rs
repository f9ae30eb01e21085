//! `tidewatch garden`: the front, the cube and its slices, and refusals.

use std::collections::BTreeMap;

use quick_xml::events::Event;
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Row, SqliteConnection};

use crate::command_folder;
use tidewatch_fixtures::command::CommandFolder;

const GARDEN: &[&str] = &["garden"];

fn json(folder: &CommandFolder, arguments: &[&str]) -> Value {
    serde_json::from_str(&folder.output(&[arguments, &["--json"]].concat())).unwrap()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
}

/// A cell as it is stored.
#[derive(Debug)]
struct Raw {
    capacity: f64,
    policy: String,
    group: String,
    window: String,
    day: i64,
    tardiness: i64,
    workload: f64,
    probes: i64,
    missed: i64,
}

async fn opened(folder: &CommandFolder, name: &str) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(folder.path().join(name)).read_only(true);
    options.connect().await.unwrap()
}

async fn cells(cube: &mut SqliteConnection) -> Vec<Raw> {
    let rows = sqlx::query(
        "SELECT capacity, policy, group_name, window_class, day, tardiness, workload, probes, missed FROM cells",
    );
    let rows = rows.fetch_all(cube).await.unwrap();
    let raw = |row: sqlx::sqlite::SqliteRow| Raw {
        capacity: row.get(0),
        policy: row.get(1),
        group: row.get(2),
        window: row.get(3),
        day: row.get(4),
        tardiness: row.get(5),
        workload: row.get(6),
        probes: row.get(7),
        missed: row.get(8),
    };
    rows.into_iter().map(raw).collect()
}

/// Sums by a key: tardiness, workload, probes, missed.
fn sums<K: Ord>(cells: &[Raw], key: impl Fn(&Raw) -> Option<K>) -> BTreeMap<K, (i64, f64, i64, i64)> {
    let mut sums: BTreeMap<K, (i64, f64, i64, i64)> = BTreeMap::new();
    for cell in cells {
        let Some(key) = key(cell) else { continue };
        let sum = sums.entry(key).or_default();
        sum.0 += cell.tardiness;
        sum.1 += cell.workload;
        sum.2 += cell.probes;
        sum.3 += cell.missed;
    }
    sums
}

#[track_caller]
fn same(row: &Value, sum: &(i64, f64, i64, i64)) {
    assert_eq!(row["tardiness"], sum.0, "{row}");
    assert!(near(number(row, "workload"), sum.1), "{row} {sum:?}");
    assert_eq!((&row["probes"], &row["missed"]), (&Value::from(sum.2), &Value::from(sum.3)), "{row}");
}

#[test]
fn no_alternative_dominates_the_front_of_two_thousand_plants() {
    let folder = command_folder(GARDEN);
    let document = json(&folder, &["--generate", "2000", "--days", "150", "--svg", "front.svg"]);
    let all = document["alternatives"].as_array().unwrap();
    // Two policies for each of 24 capacities, and one without a capacity.
    assert_eq!((all.len(), &document["plants"], &document["days"]), (49, &2000.into(), &150.into()));
    let point = |one: &Value| (number(one, "mean_tardiness"), number(one, "mean_workload"));
    let on_front = |one: &&Value| one["on_front"] == true;
    let front: Vec<(f64, f64)> = all.iter().filter(on_front).map(point).collect();
    assert!(front.len() >= 10, "{front:?}");
    let dominates = |(t, k): (f64, f64), other: (f64, f64)| t <= other.0 && k <= other.1 && (t, k) != other;
    for one in all {
        let dominated = all.iter().any(|other| dominates(point(other), point(one)));
        let there = front.contains(&point(one));
        assert!(if one["on_front"] == true { !dominated } else { dominated || there }, "{one}");
        assert!(number(one, "most_workload") <= number(one, "capacity") + 1e-9, "{one}");
    }
    assert!(front.contains(&point(&document["knee"])) && document["knee"]["on_front"] == true);
    assert!(document.get("slice").is_none());
    let omega = number(&document, "omega");
    assert!(number(&document, "capacity") >= 1.25 * omega && number(&document, "capacity") < 1.26 * omega);
    drawn(&std::fs::read_to_string(folder.path().join("front.svg")).unwrap(), 49, front.len());
}

/// Well-formed, with a dot for each alternative and the front through its points.
fn drawn(svg: &str, alternatives: usize, on_front: usize) {
    let mut reader = quick_xml::Reader::from_str(svg);
    let (mut dots, mut texts, mut points) = (0, String::new(), 0);
    loop {
        match reader.read_event().unwrap() {
            Event::Start(tag) | Event::Empty(tag) => {
                let of = |name: &str| {
                    let found = tag.try_get_attribute(name).unwrap();
                    found.map(|one| one.value.into_owned()).unwrap_or_default()
                };
                dots += usize::from(of("class") == "alternative");
                points += of("points").split_whitespace().count();
            }
            Event::Text(text) => texts += &text,
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!((dots, points), (alternatives, on_front));
    assert!(texts.contains("knee: capacity") && texts.contains("Ω = ") && texts.contains("power_of_two"));
}

#[tokio::test]
async fn slices_are_the_sums_of_the_cells() {
    let folder = command_folder(GARDEN);
    let garden = ["--generate", "300", "--capacities", "5", "--days", "120"];
    let document = json(&folder, &[&garden[..], &["--cube", "c.db", "--by", "policy"]].concat());
    assert_eq!(document["slice"].as_array().map(Vec::len), Some(3));
    let mut cube = opened(&folder, "c.db").await;
    let cells = cells(&mut cube).await;
    let all = document["alternatives"].as_array().unwrap();

    // The runs, the output and the sums of the cells are the same.
    let runs = sqlx::query(
        "SELECT capacity, policy, days, mean_tardiness, mean_workload, probes, missed, on_front, most_workload
         FROM runs",
    );
    let runs = runs.fetch_all(&mut cube).await.unwrap();
    assert_eq!(runs.len(), 11);
    let by_run = sums(&cells, |cell| Some((cell.capacity.to_bits(), cell.policy.clone())));
    for run in &runs {
        let (capacity, policy, days): (f64, String, f64) =
            (run.get(0), run.get(1), run.get::<i64, _>(2) as f64);
        let sum = &by_run[&(capacity.to_bits(), policy.clone())];
        assert!(near(sum.0 as f64 / 300.0 / days, run.get(3)), "{policy} {capacity}");
        assert!(near(sum.1 / days, run.get(4)), "{policy} {capacity}");
        assert_eq!((sum.2, sum.3), (run.get(5), run.get(6)));
        let meant = |one: &&Value| one["policy"] == *policy && near(number(one, "capacity"), capacity);
        let message = all.iter().find(meant);
        let message = message.unwrap_or_else(|| panic!("{policy} {capacity}"));
        assert_eq!(message["on_front"], run.get::<bool, _>(7));
        assert!(near(number(message, "mean_tardiness"), run.get(3)), "{message}");
        assert!(near(number(message, "mean_workload"), run.get(4)), "{message}");
        // The busiest day.
        let days =
            sums(&cells, |cell| (cell.capacity == capacity && cell.policy == policy).then_some(cell.day));
        let most = days.values().map(|sum| sum.1).fold(0.0, f64::max);
        assert!(near(most, run.get(8)), "{most}");
    }

    // By group, of one capacity, which is given inexactly.
    let capacity = number(&all[2], "capacity");
    let beds: BTreeMap<String, i64> = sqlx::query("SELECT group_name, sum(plants) FROM beds GROUP BY 1")
        .fetch_all(&mut cube)
        .await
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    assert_eq!((beds.len(), beds.values().sum::<i64>()), (4, 300));
    let held = format!("capacity={:.2}", capacity + 0.04);
    let sliced = json(&folder, &["--cube", "c.db", "--by", "group", "--where", &held]);
    let wanted = sums(&cells, |cell| near(cell.capacity, capacity).then(|| cell.group.clone()));
    let rows = sliced["slice"].as_array().unwrap();
    assert_eq!(rows.len(), wanted.len());
    for row in rows {
        let group = row["group"].as_str().unwrap();
        let sum = &wanted[group];
        same(row, sum);
        // Two runs have that capacity, of 120 days each.
        assert!(near(number(row, "mean_tardiness"), sum.0 as f64 / 240.0 / beds[group] as f64));
        assert!(near(number(row, "mean_workload"), sum.1 / 240.0));
    }

    // By window and policy, the shortest first.
    let sliced = json(&folder, &["--cube", "c.db", "--by", "window,policy"]);
    let wanted = sums(&cells, |cell| Some((cell.window.clone(), cell.policy.clone())));
    let rows = sliced["slice"].as_array().unwrap();
    assert_eq!(rows.len(), wanted.len());
    for row in rows {
        same(
            row,
            &wanted[&(row["window"].as_str().unwrap().into(), row["policy"].as_str().unwrap().into())],
        );
    }
    let firsts: Vec<u32> = rows
        .iter()
        .map(|row| row["window"].as_str().unwrap().split('-').next().unwrap().parse().unwrap())
        .collect();
    assert!(firsts.is_sorted(), "{firsts:?}");

    // By day, of two policies.
    let two = ["--where", "policy=medd", "--where", "policy=edd", "--where", "window=2-3"];
    let sliced = json(&folder, &[&["--cube", "c.db", "--by", "day"], &two[..]].concat());
    let wanted =
        sums(&cells, |cell| (cell.policy != "power_of_two" && cell.window == "2-3").then_some(cell.day));
    let rows = sliced["slice"].as_array().unwrap();
    assert_eq!(rows.len(), wanted.len());
    rows.iter().for_each(|row| same(row, &wanted[&row["day"].as_i64().unwrap()]));
    // One day of ten runs.
    assert!(near(number(&rows[0], "mean_workload"), number(&rows[0], "workload") / 10.0));
}

#[tokio::test]
async fn the_totals_of_a_slice_are_those_of_the_store() {
    let folder = command_folder(GARDEN);
    folder.write("garden.csv", "cost,window,group\n1,2,a\n1,3,b\n2,9,a\n");
    let garden = ["--instance", "garden.csv", "--capacities", "3", "--days", "40", "--cube", "c.db"];
    let text = folder.output(&[&garden[..], &["--by", "group"]].concat());
    assert!(text.starts_with("3 plants, Ω = 1.06 a day, k = 2\n"), "{text}");
    assert!(text.contains("\n[fleet]\ncapacity = 2.0\n"), "{text}");
    assert!(text.contains("\nby group\n\ngroup  days late  workload"), "{text}");
    // A new cube replaces the old one.
    folder.output(&[&garden[..], &["--policy", "edd"]].concat());
    let policies: Vec<String> = sqlx::query_scalar("SELECT DISTINCT policy FROM cells")
        .fetch_all(&mut opened(&folder, "c.db").await)
        .await
        .unwrap();
    assert_eq!(policies, ["edd"]);
    let mut files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["c.db", "garden.csv"]);
}

#[test]
fn impossible_requests_are_refused() {
    let folder = command_folder(GARDEN);
    folder.write("bad.csv", "cost,window\n1,2\nx,3\n1,0\n");
    let message = folder.error(1, &["--instance", "bad.csv"]);
    assert!(message.contains("bad.csv:3: `x,3` has a cost that is not a number"), "{message}");
    assert!(
        message.contains("bad.csv:4: `1,0` has a window that is not a whole number of days"),
        "{message}"
    );
    folder.write("head.csv", "1,2\n");
    assert!(folder.error(1, &["--instance", "head.csv"]).contains("head.csv:1: the header"));
    folder.error(1, &["--instance", "gone.csv"]);

    folder.write("dear.csv", "cost,window\n1,2\n5,30\n");
    let message = folder.error(1, &["--instance", "dear.csv", "--capacity", "4.5"]);
    assert!(message.contains("a capacity of 4.5 is less than the dearest plant costs, 5"), "{message}");

    let message = folder.error(2, &["--generate", "9", "--by", "colour"]);
    assert!(
        message.contains("there is no dimension `colour`; there are capacity, policy, group"),
        "{message}"
    );
    folder.error(2, &["--generate", "9", "--by", "day", "--where", "colour=red"]);
    folder.error(2, &["--generate", "9", "--by", "day", "--where", "day"]);
    folder.error(2, &["--generate", "9", "--policy", "luck"]);
    folder.error(2, &["--generate", "9", "--instance", "dear.csv"]);
    folder.error(2, &["--generate", "9", "--capacity", "0"]);
    folder.error(78, &["--config", "gone.toml"]);
}

#[test]
fn no_other_file_is_overwritten_and_unknown_slices_are_refused() {
    let folder = command_folder(GARDEN);
    let garden = ["--generate", "20", "--capacities", "2", "--days", "30"];
    for name in ["notes.txt", "empty"] {
        folder.write(name, if name == "empty" { "" } else { "do not lose me" });
        let message = folder.error(1, &[&garden[..], &["--cube", name]].concat());
        assert!(message.contains("is no garden's cube and is left alone"), "{message}");
        folder.error(1, &["--cube", name, "--by", "group"]);
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("notes.txt")).unwrap(), "do not lose me");

    folder.output(&[&garden[..], &["--cube", "c.db"]].concat());
    let sliced = |held: &str| folder.error(1, &["--cube", "c.db", "--by", "group", "--where", held]);
    assert!(sliced("capacity=9999").contains("capacity `9999` is not in the cube; there are "));
    assert!(sliced("group=no' OR 1=1 --").contains("there are east, north, south, west"));
    assert!(sliced("policy=medd_printed").contains("there are edd, medd, power_of_two"));
    assert!(sliced("day=31").contains("there is 1 to 30"));
    assert!(sliced("window=9").contains("2-3"));
    folder.error(2, &["--cube", "c.db", "--by", "group", "--svg", "x.svg"]);
}
