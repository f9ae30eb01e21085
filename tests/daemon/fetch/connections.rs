//! Connections are kept for a while, for a bounded number of hosts and a bounded time.

use std::time::Duration;

use tidewatch::clock::Clock;
use tidewatch::fetch::client::Fetcher;

use super::{fetcher, fetcher_keeping, follow, params, request, web};
use crate::waiting::until;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};

/// A server that leaves it to the client to close connections.
async fn patient_web() -> LoopbackServer {
    web(|seen| match seen.path.as_str() {
        "/redirect" => Reply::redirect(302, "/").keep_open(),
        "/unmodified" => Reply::new(304).keep_open(),
        _ => Reply::ok("x").keep_open(),
    })
    .await
}

async fn get(fetcher: &Fetcher, web: &LoopbackServer, path: &str) {
    follow(fetcher, &request(web.url(path)), &Clock::wall()).await.unwrap();
}

/// Lets time pass between two requests.
async fn pass(secs: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(secs)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_connection_is_reused_for_some_minutes_and_closed_when_idle() {
    let web = patient_web().await;
    let fetcher = fetcher(&params());
    // Every 20 s for less than 5 min.
    for _ in 0..14 {
        get(&fetcher, &web, "/redirect").await;
        pass(20).await;
    }
    assert_eq!((web.requests().len(), web.connections()), (28, 1));
    pass(25).await;
    for round in 2..=5 {
        // A new connection, and the one before is closed because it is idle.
        for _ in 0..14 {
            get(&fetcher, &web, "/").await;
            pass(20).await;
        }
        assert_eq!(web.connections(), round);
        until("older connections are closed", || web.open_connections() == 1).await;
        pass(20).await;
    }
    pass(31).await;
    pass(31).await;
    until("no connection is open", || web.open_connections() == 0).await;
}

#[tokio::test]
async fn only_a_bounded_number_of_hosts_has_a_kept_connection() {
    let mut webs = Vec::new();
    for _ in 0..5 {
        webs.push(patient_web().await);
    }
    let fetcher = fetcher_keeping(&params(), 2);
    for _ in 0..3 {
        for web in &webs {
            for path in ["/", "/unmodified"] {
                get(&fetcher, web, path).await;
            }
        }
    }
    let connections: Vec<usize> = webs.iter().map(LoopbackServer::connections).collect();
    assert_eq!(connections, [1, 1, 6, 6, 6], "the first two hosts were kept");
    for web in &webs[2..] {
        until("connections of other hosts are closed", || web.open_connections() == 0).await;
    }
    assert!(webs[..2].iter().all(|web| web.open_connections() == 1));
}
