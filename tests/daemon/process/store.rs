//! Access to the store, and the errors where it is refused.

use sqlx::Connection;

use super::daemon::{BRISK, Home};
use crate::waiting::{soon, until};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

#[tokio::test]
async fn a_second_daemon_on_the_same_store_is_refused() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start();
    soon("a request", web.arrived(1)).await;
    let second = home.run(&["run"]).await;
    assert_eq!(second.status.code(), Some(69));
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(message.contains("another tidewatch is using this store"), "{message}");
    let before = web.requests().len();
    soon("the first goes on", web.arrived(before + 1)).await;
    daemon.stop().await;
    // The lock ends with its process.
    let mut daemon = home.start();
    let before = web.requests().len();
    soon("a request", web.arrived(before + 1)).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_left_as_it_was() {
    let home = Home::new();
    home.write(&[]);
    let text = "This text is no database. ".repeat(100);
    std::fs::write(home.store(), &text).unwrap();
    for command in ["run", "status"] {
        let output = home.run(&[command]).await;
        assert_eq!(output.status.code(), Some(65), "{command}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("not a SQLite database"), "{command}: {message}");
    }
    assert_eq!(std::fs::read_to_string(home.store()).unwrap(), text);

    std::fs::remove_file(home.store()).unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(home.store()).create_if_missing(true);
    let mut other = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::query("CREATE TABLE recipes (name TEXT)").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let output = home.run(&["run"]).await;
    assert_eq!(output.status.code(), Some(69));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("of another program"), "{message}");
}

#[tokio::test]
async fn a_damaged_store_ends_the_daemon_with_a_code_of_its_own() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start();
    soon("a request", web.arrived(1)).await;
    daemon.stop().await;
    // All pages but the first are lost.
    let mut bytes = std::fs::read(home.store()).unwrap();
    bytes[4096..].fill(0xaa);
    std::fs::write(home.store(), bytes).unwrap();
    for command in ["run", "status"] {
        let output = home.run(&[command]).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(65), "{command}: {message}");
        assert!(message.contains("malformed"), "{command}: {message}");
    }
}

#[tokio::test]
async fn a_start_without_room_on_the_disk_says_so_and_waits() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start_without_room();
    let messages = daemon.wait_for_message("THE START WAITS").await;
    let last = messages.last().unwrap();
    assert!(
        last.contains("EXTEND_TIMEOUT_USEC=") && last.contains("tidewatch.db: cannot be written now"),
        "{last}"
    );
    // It tries again, and says so once.
    daemon.wait_for_message("THE START WAITS").await;
    daemon.signal("HUP");
    daemon.signal("HUP");
    daemon.wait_for_message("THE START WAITS").await;
    let lines = || daemon.log().lines().filter(|line| line.contains("ERROR")).count();
    until("the line", || lines() > 0).await;
    assert_eq!(lines(), 1, "{}", daemon.log());
    assert_eq!(web.requests().len(), 0);
    daemon.give_room();
    daemon.wait_for_message("READY=1").await;
    soon("a request", web.arrived(1)).await;
    // The reload that was requested meanwhile is carried out, once.
    daemon.wait_for_message("STATUS=reloaded").await;
    daemon.stop().await;
    assert_eq!(home.number("SELECT count(*) FROM events WHERE kind = 'reloaded'").await, 1);

    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start_without_room();
    daemon.wait_for_message("THE START WAITS").await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start();
    soon("a request", web.arrived(1)).await;
    daemon.stop().await;
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, installed_on, success, checksum, execution_time)
         VALUES (9999, 'the future', CURRENT_TIMESTAMP, 1, x'00', 0)",
    )
    .execute(&mut home.connection().await)
    .await
    .unwrap();
    for command in ["run", "status"] {
        let output = home.run(&[command]).await;
        assert_eq!(output.status.code(), Some(69), "{command}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("written by a newer tidewatch (schema 9999"), "{command}: {message}");
    }
}

#[tokio::test]
async fn other_programs_may_read_and_write_beside_the_daemon() {
    let web = LoopbackServer::start(|seen| Reply::ok(rss((0..=seen.order).map(|n| n.to_string())))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM probes", |n| n > 0).await;
    let mut own = home.connection().await;
    sqlx::query("CREATE TABLE my_notes (probe INTEGER, note TEXT)").execute(&mut own).await.unwrap();
    let mut noted = 0_i64;
    while noted < 20 {
        let mut transaction = own.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let last: i64 =
            sqlx::query_scalar("SELECT max(id) FROM probes").fetch_one(&mut *transaction).await.unwrap();
        sqlx::query("INSERT INTO my_notes VALUES (?, 'seen')")
            .bind(last)
            .execute(&mut *transaction)
            .await
            .unwrap();
        transaction.commit().await.unwrap();
        noted += 1;
        let before = web.requests().len();
        if noted % 5 == 0 {
            soon("the daemon goes on", web.arrived(before + 1)).await;
        }
    }
    let readable: i64 =
        sqlx::query_scalar("SELECT count(*) FROM readable_updates").fetch_one(&mut own).await.unwrap();
    assert!(readable > 0);
    daemon.stop().await;
    assert_eq!(home.number("SELECT count(*) FROM my_notes").await, 20);
    assert!(!daemon.log().contains("ERROR"), "{}", daemon.log());
    // A daemon starts also with a foreign table in the store.
    let mut daemon = home.start();
    let before = web.requests().len();
    soon("it starts again", web.arrived(before + 1)).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_second_daemon_on_a_link_to_the_store_is_refused() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    let budget = source_with_budget("s", &web.url("/feed"), BRISK);
    home.write(std::slice::from_ref(&budget));
    let mut daemon = home.start();
    soon("a request", web.arrived(1)).await;
    std::os::unix::fs::symlink("tidewatch.db", home.path("link.db")).unwrap();
    let text = std::fs::read_to_string(home.config()).unwrap().replace("tidewatch.db", "link.db");
    std::fs::write(home.config(), text).unwrap();
    let second = home.run(&["run"]).await;
    let message = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(69), "{message}");
    assert!(message.contains("another tidewatch is using this store"), "{message}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_program_newer_than_the_daemon_asks_for_a_restart_and_migrates_nothing() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM probes", |probes| probes > 0).await;
    // As if the daemon were older than this program.
    let newest = home.number("SELECT max(version) FROM _sqlx_migrations").await;
    sqlx::query("DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)")
        .execute(&mut home.connection().await)
        .await
        .unwrap();
    for command in [&["status"][..], &["probe", "s"], &["deliveries", "retry", "1"]] {
        let output = home.run(command).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{command:?}: {message}");
        let why = format!("this one needs {newest}); restart the daemon, which migrates it");
        assert!(message.contains(&why), "{command:?}: {message}");
    }
    assert!(home.number("SELECT max(version) FROM _sqlx_migrations").await < newest);
    // An old store is backed up before it is migrated.
    let output = home.run(&["backup", home.path("copy.db").to_str().unwrap()]).await;
    assert!(output.status.success(), "{output:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_command_in_another_folder_than_the_daemon_makes_no_store_there() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let text = std::fs::read_to_string(home.config()).unwrap();
    let text = text.replace(home.store().to_str().unwrap(), "tidewatch.db");
    std::fs::write(home.config(), text).unwrap();
    let elsewhere = home.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    for command in [&["probe", "s"][..], &["status"]] {
        let output = home.command(command).current_dir(&elsewhere).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{command:?}: {message}");
        let path = elsewhere.join("tidewatch.db");
        let why = format!(
            "{}: no store yet; `tidewatch run` makes it; `store` is a relative path",
            path.display()
        );
        assert!(message.contains(&why), "{command:?}: {message}");
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "{command:?}");
    }
    assert_eq!(web.requests().len(), 0);
    // In the folder of the configuration a daemon would make it, too.
    assert!(home.run(&["probe", "s"]).await.status.success());
    assert!(home.store().exists());
}

#[tokio::test]
async fn a_request_that_no_daemon_has_answered_is_dropped_at_the_next_start() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    // Not due for an hour after its first probe; a request would be granted.
    let budget = "probes = 100, per = \"100h\", min_spacing = \"0s\"";
    home.write(&[format!("{}policy = \"uniform\"\n", source_with_budget("s", &web.url("/feed"), budget))]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM probes", |probes| probes == 1).await;
    daemon.stop().await;
    sqlx::query("INSERT INTO requests (source_id, asked_at) VALUES (1, 1000)")
        .execute(&mut home.connection().await)
        .await
        .unwrap();
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM requests WHERE answer LIKE 'refused: %restarted%'", |n| n == 1).await;
    daemon.stop().await;
    until("the line", || daemon.log().contains("requests for probes were left from an earlier run")).await;
    assert_eq!(home.number("SELECT count(*) FROM probes").await, 1);
}

/// A service that runs as a user of its own. Only root can give files to others, so that this test needs root.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_root_has_copied_is_refused_with_the_remedy() {
    use std::os::unix::fs::{MetadataExt, chown};
    use std::os::unix::process::CommandExt;

    const SERVICE: u32 = 65_534;
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    let folder = home.path("state");
    std::fs::create_dir(&folder).unwrap();
    if chown(&folder, Some(SERVICE), Some(SERVICE)).is_err() {
        return;
    }
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let store = folder.join("tidewatch.db");
    let text = std::fs::read_to_string(home.config()).unwrap();
    let text = text.replace(home.store().to_str().unwrap(), store.to_str().unwrap());
    std::fs::write(home.config(), text).unwrap();
    chown(home.path(""), Some(SERVICE), Some(SERVICE)).unwrap();
    // What root makes in the folder belongs to the service.
    assert!(home.run(&["probe", "s"]).await.status.success());
    for file in ["tidewatch.db", "tidewatch.db.lock"] {
        assert_eq!(std::fs::metadata(folder.join(file)).unwrap().uid(), SERVICE, "{file}");
    }
    let copy = folder.join("copy");
    std::fs::copy(&store, &copy).unwrap();
    std::fs::rename(&copy, &store).unwrap();
    let as_service = || home.command(&["run"]).uid(SERVICE).gid(SERVICE).output().unwrap();
    let output = tokio::task::block_in_place(as_service);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(77), "{message}");
    let why = format!(
        "{0}: belongs to user 0, and tidewatch runs as user 65534; as root, run: chown --reference={1} {0}",
        store.display(),
        folder.display()
    );
    assert!(message.contains(&why), "{message}");
    // A restore by root makes a store of the service.
    let output = home.run(&["backup", home.path("backup.db").to_str().unwrap()]).await;
    assert!(output.status.success(), "{output:?}");
    std::fs::remove_file(&store).unwrap();
    let output = home.run(&["restore", home.path("backup.db").to_str().unwrap()]).await;
    assert!(output.status.success(), "{output:?}");
    let restored = std::fs::metadata(&store).unwrap();
    assert_eq!((restored.uid(), restored.mode() & 0o777), (SERVICE, 0o600));
}
