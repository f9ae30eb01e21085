//! A store that is restored from a backup, or taken away while the daemon runs.

use std::path::PathBuf;

use tidewatch::daemon::run::DaemonError;
use tidewatch::store::StoreError;
use tidewatch::store::{backup, restore};
use tidewatch_core::time::Span;

use super::world::{Site, World, source};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;

#[tokio::test]
async fn a_restored_store_holds_each_source_for_its_spacing() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |_| Reply::ok(rss(["a"]))).await;
    let sources = ["a", "b"].map(|name| source(name, &site.url(&format!("/{name}"))));
    let daemon = world.start(&sources).await;
    world.until("SELECT count(DISTINCT source_id) FROM probes", |probed| probed == 2).await;
    let copy = world.store().with_file_name("copy.db");
    backup::copy(&world.store(), &copy).await.unwrap();
    world.until("SELECT count(*) FROM probes", |probes| probes >= 8).await;
    daemon.stop().await;
    // Without the hold, probes would be due at once: those in the backup are long ago.
    world.pass(Span::from_hours(12)).await;
    let done = restore::restore(&world.store(), &copy, world.clock.now()).await.unwrap();
    assert!(done.probes >= 2 && done.last_probe.is_some() && done.kept.is_some(), "{done:?}");
    let before = site.visits().len();
    let began = world.clock.now();
    let daemon = world.start(&sources).await;
    world.until("SELECT count(*) FROM events WHERE kind = 'restored'", |events| events == 1).await;
    let after = site.visited(before + 2).await.split_off(before);
    for visit in &after {
        assert!(visit.at - began >= Span::from_mins(15), "{} {visit:?}", began);
    }
    daemon.stop().await;
    // A second start soon afterwards holds no longer.
    let again = world.clock.now();
    let daemon = world.start(&sources).await;
    let next = site.visited(before + after.len() + 1).await.split_off(before + after.len());
    assert!(next[0].at - again < Span::from_hours(1), "{next:?}");
    daemon.stop().await;
}

/// What an operator does to a file of the store.
type Mistake = fn(PathBuf);

#[tokio::test]
async fn a_daemon_whose_store_is_deleted_or_replaced_ends() {
    let mistakes: [Mistake; 3] = [
        |store| std::fs::remove_file(store).unwrap(),
        |store| {
            let copy = store.with_file_name("copy.db");
            std::fs::copy(&store, &copy).unwrap();
            std::fs::rename(copy, store).unwrap();
        },
        |store| std::fs::remove_file(store.with_added_extension("lock")).unwrap(),
    ];
    for mistake in mistakes {
        let world = World::new(7200.0);
        let site = Site::start(&world, |_| Reply::ok(rss(["a"]))).await;
        let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
        world.until("SELECT count(*) FROM probes", |probes| probes >= 1).await;
        mistake(world.store());
        let ended = daemon.ended().await;
        let Err(DaemonError::Store(error @ StoreError::Replaced(_))) = ended else { panic!("{ended:?}") };
        assert!(
            error.to_string().contains("was deleted or replaced while tidewatch used the store"),
            "{error}"
        );
    }
}
