//! Backups of a daemon that sends as many probes as it can, and their restore.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tidewatch::clock::{Stopwatch, real_pause};

use super::daemon::{BRISK, Home};
use crate::waiting::{soon, until};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

/// With the budget below two thousand probes a second together, more than a test machine sends in a debug build.
const HOSTS: usize = 200;
const FULL_RATE: &str = "probes = 20, per = \"2s\", min_spacing = \"20ms\"";

/// More items than come between the backup and the end of the daemon.
const WINDOW: usize = 120;

async fn open(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).connect().await.unwrap()
}

/// The rows of a table with numbers, up to this one, as texts.
async fn rows(path: &Path, query: &'static str, until: i64) -> Vec<(i64, String)> {
    sqlx::query_as(query).bind(until).fetch_all(&mut open(path).await).await.unwrap()
}

async fn number(path: &Path, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(&mut open(path).await).await.unwrap()
}

const PROBES: &str =
    "SELECT id, json_array(source_id, due_at, started_at, duration_ms, outcome, updates_found) FROM probes
                      WHERE id <= ? ORDER BY id";
const UPDATES: &str = "SELECT id, json_array(source_id, probe_id, detected_at, kind, key) FROM updates WHERE id <= ? ORDER BY id";

#[tokio::test]
async fn a_backup_at_full_rate_restores_to_all_rows_up_to_its_moment() {
    let total = Arc::new(AtomicUsize::new(0));
    let mut hosts = Vec::new();
    for _ in 0..HOSTS {
        // A feed shows one more item with every request.
        let (total, own) = (Arc::clone(&total), AtomicUsize::new(0));
        let host = LoopbackServer::start(move |_| {
            let newest = own.fetch_add(1, Ordering::SeqCst);
            total.fetch_add(1, Ordering::SeqCst);
            Reply::ok(rss((newest.saturating_sub(WINDOW)..=newest).map(|n| format!("item {n}"))))
        });
        hosts.push(host.await);
    }
    let home = Home::new();
    let source = |(n, host): (usize, &LoopbackServer)| {
        format!(
            "{}policy = \"uniform\"\n",
            source_with_budget(&format!("s{n}"), &host.url("/feed"), FULL_RATE)
        )
    };
    let sources: Vec<String> = hosts.iter().enumerate().map(source).collect();
    home.write_with_steps("step = \"20ms\"\nprobes_per_step = 10000", &sources);
    let mut daemon = home.start();
    home.until("SELECT count(DISTINCT source_id) FROM items", |known| known == HOSTS as i64).await;
    let more = |count: usize| {
        let total = Arc::clone(&total);
        let wanted = total.load(Ordering::SeqCst) + count;
        async move { until("more requests", || total.load(Ordering::SeqCst) >= wanted).await }
    };
    let (sent, stopwatch) = (total.load(Ordering::SeqCst), Stopwatch::start());
    more(1_000).await;
    let copy = home.path("copy.db");
    let output = home.run(&["backup", copy.to_str().unwrap()]).await;
    assert!(output.status.success(), "{output:?}");
    more(500).await;
    let sent = total.load(Ordering::SeqCst) - sent;
    println!("{:.0} probes a second around the backup", sent as f64 / stopwatch.elapsed().as_secs_f64());
    // Not while the daemon runs.
    let refused = home.run(&["restore", copy.to_str().unwrap()]).await;
    assert_eq!(refused.status.code(), Some(69), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("stop it first"), "{refused:?}");
    daemon.stop().await;

    let (last_probe, last_update) = (
        number(&copy, "SELECT max(id) FROM probes").await,
        number(&copy, "SELECT max(id) FROM updates").await,
    );
    assert!(
        last_probe >= 1_000
            && last_update > 0
            && last_probe < home.number("SELECT max(id) FROM probes").await
    );
    let (probes, updates) = (rows(&copy, PROBES, i64::MAX).await, rows(&copy, UPDATES, i64::MAX).await);
    assert!(probes == rows(&home.store(), PROBES, last_probe).await, "its probes are those up to a moment");
    assert!(updates == rows(&home.store(), UPDATES, last_update).await, "so are its updates");
    // Each of its probes with all that it found.
    let whole = "SELECT count(*) FROM probes p WHERE updates_found <>
                 (SELECT count(*) FROM updates WHERE probe_id = p.id)";
    assert_eq!(number(&copy, whole).await, 0);

    let output = home.run(&["restore", copy.to_str().unwrap()]).await;
    assert!(output.status.success(), "{output:?}");
    assert!(rows(&home.store(), PROBES, i64::MAX).await == probes);
    assert!(rows(&home.store(), UPDATES, i64::MAX).await == updates);
    let kept = home.path("tidewatch.db.before-restore");
    assert!(number(&kept, "SELECT max(id) FROM probes").await > last_probe, "with the later probes");
    assert_eq!(number(&home.store(), "SELECT count(*) FROM events WHERE kind = 'restored'").await, 1);

    // It goes on: what was found after the backup is found again, once.
    let before: Vec<usize> = hosts.iter().map(|host| host.requests().len()).collect();
    let mut daemon = home.start();
    soon("two more probes of each source", async {
        while hosts.iter().zip(&before).any(|(host, before)| host.requests().len() < before + 2) {
            real_pause(Duration::from_millis(50)).await;
        }
    })
    .await;
    daemon.stop().await;
    assert!(rows(&home.store(), PROBES, last_probe).await == probes, "the restored log is kept");
    let found: Vec<(String, String)> =
        home.rows("SELECT s.name, u.key FROM updates u JOIN sources s ON s.id = u.source_id").await;
    let mut keys: HashMap<String, Vec<String>> = HashMap::new();
    for (name, key) in found {
        keys.entry(name).or_default().push(key);
    }
    for (n, host) in hosts.iter().enumerate() {
        let found = keys.remove(&format!("s{n}")).unwrap_or_default();
        let shown = host.requests().len();
        assert_eq!(found.len(), shown - 1, "s{n}: each item that was shown after the first contact, once");
        assert_eq!(
            found.into_iter().collect::<HashSet<_>>(),
            (1..shown).map(|n| format!("item {n}")).collect()
        );
    }
}

#[tokio::test]
async fn a_file_that_is_no_whole_backup_is_refused_and_changes_nothing() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM probes", |probes| probes > 2).await;
    daemon.stop().await;
    let good = home.path("good.db");
    let output = home.run(&["backup", good.to_str().unwrap()]).await;
    assert!(output.status.success(), "{output:?}");
    let store = std::fs::read(home.store()).unwrap();
    let refused = async |file: &str, code: i32, why: &str| {
        let output = home.run(&["restore", home.path(file).to_str().unwrap()]).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{file}: {message}");
        assert!(message.contains(why), "{file}: {message}");
        assert!(std::fs::read(home.store()).unwrap() == store, "{file}");
        assert!(!home.path("tidewatch.db.before-restore").exists(), "{file}");
        assert!(!home.path("tidewatch.db.restoring").exists(), "{file}");
    };
    refused("none.db", 1, "none.db: No such file").await;
    std::fs::write(home.path("text.db"), "no database ".repeat(1_000)).unwrap();
    refused("text.db", 1, "text.db: no store of tidewatch").await;
    std::fs::write(home.path("empty.db"), "").unwrap();
    refused("empty.db", 1, "empty.db: no store of tidewatch").await;
    let mut bytes = std::fs::read(&good).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xaa);
    std::fs::write(home.path("damaged.db"), &bytes).unwrap();
    refused("damaged.db", 1, "damaged.db: the backup is damaged (").await;
    std::fs::copy(&good, home.path("raw.db")).unwrap();
    std::fs::write(home.path("raw.db-wal"), "recent changes").unwrap();
    refused("raw.db", 1, "raw.db-wal exists, so that this copy is not whole").await;
    std::fs::copy(&good, home.path("newer.db")).unwrap();
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, installed_on, success, checksum, execution_time)
         VALUES (9999, 'the future', CURRENT_TIMESTAMP, 1, x'00', 0)",
    )
    .execute(&mut open(&home.path("newer.db")).await)
    .await
    .unwrap();
    refused("newer.db", 69, "newer.db: written by a newer tidewatch").await;

    // A second restore does not overwrite what the first one kept.
    for (code, why) in [(0, ""), (1, "before-restore is the store before an earlier restore")] {
        let output = home.run(&["restore", good.to_str().unwrap()]).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(why), "{message}");
    }
    assert!(std::fs::read(home.path("tidewatch.db.before-restore")).unwrap() == store);
}

/// Another folder's store would have none of the daemon's probes.
#[tokio::test]
async fn a_restore_in_another_folder_than_the_configuration_makes_no_store_there() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    assert!(home.run(&["probe", "s"]).await.status.success());
    let copy = home.path("copy.db");
    assert!(home.run(&["backup", copy.to_str().unwrap()]).await.status.success());
    let text = std::fs::read_to_string(home.config()).unwrap();
    let text = text.replace(home.store().to_str().unwrap(), "tidewatch.db");
    std::fs::write(home.config(), text).unwrap();
    let elsewhere = home.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let restore = ["restore", copy.to_str().unwrap()];
    let output = home.command(&restore).current_dir(&elsewhere).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{message}");
    assert!(message.contains("`store` is a relative path"), "{message}");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    // In the folder of the configuration it is restored, also where there is no store.
    std::fs::remove_file(home.store()).unwrap();
    assert!(home.run(&restore).await.status.success());
    assert_eq!(number(&home.store(), "SELECT count(*) FROM probes").await, 1);
}
