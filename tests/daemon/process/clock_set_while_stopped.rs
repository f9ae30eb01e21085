//! A clock that was set while the daemon was stopped. The machine's clock stays as it is: the store is changed to what a
//! daemon had seen on another one.

use super::daemon::{BRISK, Home};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

/// Runs the daemon for a moment.
async fn run(home: &Home, boot: &str) {
    const STARTS: &str = "SELECT count(*) FROM events WHERE kind = 'started'";
    let before = home.number(STARTS).await.max(0);
    let mut daemon = home.start_with_settings(&[], &[("TIDEWATCH_BOOT_ID", boot)]);
    home.until(STARTS, |starts| starts > before).await;
    daemon.stop().await;
}

/// What was seen last becomes that of a clock two hours behind.
async fn seen_by_a_clock_behind(home: &Home) {
    sqlx::query("UPDATE clock_seen SET at = at - 7200000, booted_at = booted_at - 7200000")
        .execute(&mut home.connection().await)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_clock_set_forward_is_noticed_by_the_name_of_the_boot_that_the_unit_passes() {
    const FOUND: &str = "SELECT count(*) FROM clock_corrections
         WHERE found = 'same_boot' AND by_ms BETWEEN 7190000 AND 7210000";
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    // The file with this name is hidden from the service; this is no name of a real boot.
    run(&home, "0123-first").await;
    assert_eq!(home.texts("SELECT boot FROM clock_seen".to_owned()).await, ["0123first"]);
    seen_by_a_clock_behind(&home).await;
    run(&home, "0123first").await;
    assert_eq!(home.number(FOUND).await, 1);
    seen_by_a_clock_behind(&home).await;
    run(&home, "another").await;
    assert_eq!(home.number(FOUND).await, 1, "after another boot it cannot be seen");
    let unit = include_str!("../../../systemd/tidewatch.service");
    assert!(unit.contains("\nEnvironment=TIDEWATCH_BOOT_ID=%b\n"), "systemd writes the name there");
}
