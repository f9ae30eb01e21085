//! Access to the store, and the errors where it is refused.

use sqlx::Connection;

use super::daemon::{BRISK, Home};
use crate::waiting::soon;
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
    let lines = daemon.log().lines().filter(|line| line.contains("ERROR")).count();
    assert_eq!(lines, 1, "{}", daemon.log());
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
