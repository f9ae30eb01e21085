//! Forecasts of probes: stored with the start, compared at the end, shown by `calibrate` and `status`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::Value;
use tokio::sync::Notify;

use super::daemon::Home;
use super::plans::hourly;
use crate::waiting;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply, ServerStep};
use tidewatch_fixtures::source_list::source_with_budget;

#[tokio::test]
async fn the_daemon_stores_forecasts_before_the_answers_and_calibrate_reads_them() {
    let (stalls, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let (feed, is_stalling, wait) = (hourly(), Arc::clone(&stalls), Arc::clone(&go_on));
    let stalled = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&stalled);
    let web = LoopbackServer::start(move |_| match is_stalling.load(Ordering::SeqCst) {
        false => Reply::ok(feed.clone()),
        true => {
            counted.fetch_add(1, Ordering::SeqCst);
            Reply::raw(vec![
                ServerStep::Await(Arc::clone(&wait)),
                ServerStep::Send(b"HTTP/1.1 500 Wrong\r\nContent-Length: 0\r\n\r\n".to_vec()),
            ])
        }
    })
    .await;
    let home = Home::new();
    let budget = "probes = 12, per = \"4s\", min_spacing = \"100ms\"";
    home.write(&[source_with_budget("s", &web.url("/feed"), budget)]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM histories", |known| known == 1).await;
    let nothing = String::from_utf8(home.run(&["calibrate"]).await.stdout).unwrap();
    assert!(nothing.starts_with("nothing to compare yet"), "{nothing}");
    // The last fit at the end gives a rate for forecasts.
    daemon.stop().await;
    let mut daemon = home.start();
    home.until("SELECT total(probes) > 2 FROM predictions", |more| more == 1).await;

    // A probe whose answer is not known yet has its forecast in the store.
    stalls.store(true, Ordering::SeqCst);
    waiting::until("a probe without an answer", || stalled.load(Ordering::SeqCst) > 0).await;
    let in_progress = "SELECT count(*) FROM flights WHERE expected > 0 AND overflow >= 0";
    assert_eq!(home.number(in_progress).await, 1);
    let answered = home.number("SELECT sum(probes) FROM predictions").await;
    stalls.store(false, Ordering::SeqCst);
    go_on.notify_one();
    home.until("SELECT count(*) FROM probes WHERE outcome = 'failed'", |failed| failed > 0).await;
    daemon.stop().await;

    let json = async |arguments: &[&str]| -> Value {
        let output = home.run(arguments).await;
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let all = json(&["calibrate", "--json"]).await;
    let compared = home.number("SELECT sum(probes) FROM predictions").await;
    assert!(compared >= answered && all["total"]["probes"] == compared, "{all:#}");
    // One update an hour, over a few seconds.
    assert!(all["total"]["expected"].as_f64().is_some_and(|n| n > 0.0 && n < 0.5), "{all:#}");
    assert_eq!((&all["total"]["found"], &all["total"]["fits"]), (&0.into(), &true.into()));
    assert_eq!(all["sources"][0]["source"], "s");
    assert_eq!(all["total"], json(&["calibrate", "s", "--json"]).await["total"]);
    assert_eq!(json(&["status", "--json"]).await["calibration"]["probes"], compared);
    let status = String::from_utf8(home.run(&["status"]).await.stdout).unwrap();
    assert!(status.contains("0 found in the last 28d; fits\n"), "{status}");
    let unknown = home.run(&["calibrate", "t"]).await;
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    let svg = home.path("calibration.svg");
    let drawn = home.run(&["calibrate", "--svg", svg.to_str().unwrap()]).await;
    assert!(drawn.status.success() && std::fs::read_to_string(svg).unwrap().contains("s: "), "{drawn:?}");
}
