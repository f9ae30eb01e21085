//! A source whose rhythm is known is probed by plan, also after being killed and after a reload.

use std::time::Duration;

use tidewatch::clock::Clock;

use super::daemon::Home;
use crate::waiting::{soon, until};
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

/// The wall clock and the server's may run apart while the one is being disciplined.
const READING: Duration = Duration::from_millis(5);

/// A feed with an item an hour, up to now: enough to be known at first contact.
pub(super) fn hourly() -> String {
    let now = jiff::Timestamp::from_millisecond(Clock::wall().now().as_millis()).unwrap();
    let now = now.to_zoned(jiff::tz::TimeZone::UTC);
    let items: String = (0..30)
        .map(|hours| {
            let at = &now - jiff::Span::new().hours(hours).minutes(5);
            let date = jiff::fmt::rfc2822::to_string(&at).unwrap();
            format!("<item><guid isPermaLink=\"false\">{hours}</guid><pubDate>{date}</pubDate></item>")
        })
        .collect();
    format!(
        "<?xml version=\"1.0\"?><rss version=\"2.0\"><channel><title>A feed</title>{items}</channel></rss>"
    )
}

const PLANS: &str = "SELECT count(*) FROM plans";
const LATEST: &str = "SELECT probes FROM plans ORDER BY id DESC LIMIT 1";
const BY_PLAN: &str = "SELECT count(*) FROM probes WHERE policy = 'plan'";

#[tokio::test]
async fn a_known_source_is_probed_by_plan_also_after_a_kill_and_a_reload() {
    let feed = hourly();
    let web = LoopbackServer::start(move |_| Reply::ok(feed.clone())).await;
    let home = Home::new();
    let budget = |probes| format!("probes = {probes}, per = \"4s\", min_spacing = \"100ms\"");
    home.write(&[
        source_with_budget("s", &web.url("/feed"), &budget(12)),
        source_with_budget("spread", &web.url("/other"), &budget(12)) + "policy = \"uniform\"\n",
    ]);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM histories", |known| known == 2).await;
    // The last fit at the end gives a rate to plan with.
    daemon.stop().await;
    assert_eq!(home.number("SELECT count(*) FROM fits").await, 2);
    assert_eq!(home.number("SELECT holds FROM sources WHERE name = 's'").await, 30);
    // The oldest item only says since when the feed is complete.
    let update_times = "SELECT count(*) FROM histories WHERE length(diary) = 9 + 12 * 29";
    assert_eq!(home.number(update_times).await, 2);
    assert_eq!(home.number("SELECT count(*) FROM histories WHERE habits IS NOT NULL").await, 2);
    let rhythm = async |name: &str| -> serde_json::Value {
        serde_json::from_slice(&home.run(&["rhythm", name, "--json"]).await.stdout).unwrap()
    };
    assert!(rhythm("s").await["habits"][0]["share"].as_f64().is_some_and(|share| share > 0.05));
    assert!(rhythm("spread").await["habits"].is_null(), "its plans do not use them");

    let mut daemon = home.start();
    home.until(BY_PLAN, |n| n >= 3).await;
    assert_eq!(home.number("SELECT count(DISTINCT source_id) FROM plans").await, 1, "the other has none");
    assert!(home.number("SELECT count(*) FROM plan_probes").await > 0);
    let reasons = home.number("SELECT count(*) FROM probes WHERE reason = 'plan'").await;
    assert!(reasons > 0, "{reasons}");
    let explained = home.run(&["explain", "s", "--json"]).await;
    let explained: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!((&explained["policy"], &explained["asking"]), (&"auto".into(), &"plan".into()));
    assert!(explained["plan"]["probes"].as_i64().is_some_and(|n| (1..=12).contains(&n)), "{explained:#}");
    let explained = String::from_utf8(home.run(&["explain", "s"]).await.stdout).unwrap();
    assert!(explained.contains("plan        made "), "{explained}");
    let other = String::from_utf8(home.run(&["explain", "spread"]).await.stdout).unwrap();
    assert!(!other.contains("plan        made "), "{other}");

    // Planned probes are due after a kill as well, and the end of the next probe requests a new plan.
    daemon.kill();
    let (plans, probes) = (home.number(PLANS).await, home.number(BY_PLAN).await);
    let mut daemon = home.start();
    home.until(PLANS, |n| n > plans + 1).await;
    home.until(BY_PLAN, |n| n > probes + 2).await;

    // Another budget, another plan.
    home.write(&[source_with_budget("s", &web.url("/feed"), &budget(2))]);
    daemon.signal("HUP");
    home.until("SELECT count(*) FROM events WHERE kind = 'reloaded'", |n| n == 1).await;
    home.until(LATEST, |n| (0..=2).contains(&n)).await;
    let asked = || web.requests().into_iter().filter(|seen| seen.path == "/feed").collect::<Vec<_>>();
    let before = asked().len();
    until("five more", || asked().len() >= before + 5).await;
    daemon.stop().await;
    soon("the server is quiet", web.settled()).await;
    let most = "SELECT max(probes) FROM (SELECT probes FROM plans ORDER BY id DESC LIMIT 3)";
    assert!((1..=2).contains(&home.number(most).await));
    // One that was under way at the reload may have arrived since.
    for pair in asked()[before + 1..].windows(3) {
        let span = pair[2].at - pair[0].at;
        assert!(span + READING >= Duration::from_secs(4), "three within {span:?}");
    }
    let log = daemon.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
}
