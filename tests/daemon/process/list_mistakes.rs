//! Mistakes in the list of sources: files that are half written or not there, and sources with another name.

use super::daemon::{Home, LAZY};
use crate::waiting::until;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

const LISTED: &str = "SELECT count(*) FROM sources WHERE state <> 'removed'";

#[tokio::test]
async fn a_reload_that_removes_most_sources_is_carried_out_the_second_time() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    let list = |count: usize| -> Vec<String> {
        let name = |n: usize| format!("s{n}");
        (0..count).map(|n| source_with_budget(&name(n), &web.url(&format!("/{n}")), LAZY)).collect()
    };
    home.write(&list(24));
    let mut daemon = home.start_as_service();
    daemon.wait_for_message("READY=1").await;
    home.until("SELECT count(*) FROM probes", |probes| probes == 24).await;
    for short in [11, 5] {
        // Another file than the one that was refused is refused, too.
        home.write(&list(short));
        daemon.signal("HUP");
        let messages = daemon.wait_for_message("READY=1").await;
        let why =
            format!("reload refused, the old configuration keeps running: {} of 24 sources", 24 - short);
        assert!(messages.last().unwrap().contains(&why), "{messages:?}");
        assert_eq!(home.number(LISTED).await, 24);
    }
    until("the remedy", || daemon.log().contains("reload again with the same files, or restart")).await;
    home.until("SELECT count(*) FROM events WHERE kind = 'reload_refused'", |n| n == 2).await;
    // The status line says so until a reload is applied.
    daemon.wait_for_message("last reload: REFUSED").await;
    daemon.signal("HUP");
    daemon.wait_for_message("STATUS=reloaded: 19 sources removed").await;
    assert_eq!(home.number(LISTED).await, 5);
    daemon.wait_for_message("last reload: 19 sources removed").await;
    // A restart asks no question.
    home.write(&list(24));
    daemon.signal("HUP");
    daemon.wait_for_message("STATUS=reloaded: 19 sources added").await;
    daemon.stop().await;
    home.write(&list(2));
    let mut daemon = home.start();
    home.until(LISTED, |listed| listed == 2).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_folder_of_sources_that_is_not_there_for_a_moment_is_no_empty_one() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("main", &web.url("/main"), LAZY)]);
    let (folder, away) = (home.path("sources.d"), home.path("away"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("more.toml"), source_with_budget("beside", &web.url("/beside"), LAZY))
        .unwrap();
    let mut daemon = home.start_as_service();
    daemon.wait_for_message("READY=1").await;
    until("both are probed", || web.requests().len() == 2).await;

    std::fs::rename(&folder, &away).unwrap();
    daemon.signal("HUP");
    let why = format!("{} held 1 files and holds none now", folder.display());
    daemon.wait_for_message(&why).await;
    std::fs::rename(&away, &folder).unwrap();
    daemon.signal("HUP");
    daemon.wait_for_message("STATUS=reloaded: nothing changed").await;
    assert_eq!(home.number(LISTED).await, 2);

    // A link to a folder that is not there is an error, at a reload as at a start.
    std::fs::rename(&folder, &away).unwrap();
    std::os::unix::fs::symlink(home.path("unmounted"), &folder).unwrap();
    for _ in 0..2 {
        daemon.signal("HUP");
        daemon.wait_for_message("sources.d can't be read").await;
    }
    daemon.stop().await;
    let output = home.run(&["run"]).await;
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert_eq!(home.number(LISTED).await, 2);
}
