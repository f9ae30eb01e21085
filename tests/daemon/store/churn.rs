//! No item is reported as new twice, whatever comes, goes, is forgotten or changes around it.

use std::collections::HashSet;

use proptest::prelude::*;
use tidewatch::daemon::probe::recall;
use tidewatch::store::record::DocumentRecord;
use tidewatch_core::model::silence::LearnedUntil;
use tidewatch_core::observe::limits::ReadingLimits;
use tidewatch_core::observe::{FetchedDocument, compare, feed};
use tidewatch_fixtures::documents::rss;

use super::retention::prune;
use super::*;

/// What happens to a source.
#[derive(Debug, Clone)]
enum Happening {
    /// Its feed has these items, in this version of their texts, and at most this number are read.
    Probe { items: Vec<u8>, version: u8, max_items: usize },
    /// Time passes, and old rows are deleted.
    Prune { days: i64 },
    /// The daemon ends and starts.
    Restart,
    /// It is removed from the configuration, what was learned of it is deleted, and it comes back.
    Removed,
}

fn happening() -> impl Strategy<Value = Happening> {
    let window = (0..60_u8, 1..10_u8).prop_map(|(from, length)| (from..from + length).rev().collect());
    let scattered = proptest::collection::hash_set(0..70_u8, 1..10).prop_map(|items| {
        let mut items: Vec<u8> = items.into_iter().collect();
        items.sort_unstable();
        items
    });
    let items = prop_oneof![window, scattered];
    let probe = (items, 0..3_u8, prop_oneof![3 => Just(3_usize), 1 => 1..8_usize])
        .prop_map(|(items, version, max_items)| Happening::Probe { items, version, max_items });
    prop_oneof![
        20 => probe,
        3 => (1..400_i64).prop_map(|days| Happening::Prune { days }),
        1 => Just(Happening::Restart),
        1 => Just(Happening::Removed),
    ]
}

/// A store with one source, probed as the daemon does it.
struct Probed {
    store: Store,
    reader: Reader,
    secs: i64,
}

impl Probed {
    async fn new() -> Self {
        let store = Store::new().await;
        let reader = store.reader().await;
        Self { store, reader, secs: 0 }
    }

    /// The keys of the items that a probe of this document reports as new.
    async fn probe(&mut self, items: &[u8], version: u8, max_items: usize) -> Vec<String> {
        self.secs += 3600;
        let (id, now) = (self.store.id("a"), at(self.secs));
        let inputs = self.reader.request_inputs(id).await.unwrap();
        let seen = self.reader.probe_inputs(id).await.unwrap().seen;
        let text = rss(items.iter().map(u8::to_string)).replace("About", &format!("{version} about"));
        let limits = ReadingLimits { items: max_items, ..ReadingLimits::USUAL };
        let document =
            FetchedDocument { bytes: text.as_bytes(), content_type: None, url: "http://a/", limits };
        let feed = feed::read(&document, &seen).unwrap();
        let unknown = compare::unknown(&feed, &seen);
        let mut older = self.reader.known_items(&[(id, unknown)]).await.unwrap().pop().unwrap();
        recall(&self.reader, id, &inputs, max_items, (&feed, &seen), &mut older).await.unwrap();
        let observation = compare::feed(feed, &seen, &older, now).unwrap();
        let new = observation.updates.iter().filter(|update| update.kind == UpdateKind::New);
        let new = new.map(|update| update.key.clone()).collect();
        let learned = LearnedUntil { at: now, review_at: now };
        let body_hash = Some(self.secs as u64);
        let document = DocumentRecord {
            body_hash,
            learned,
            fitted_at: None,
            review_settings: 0,
            max_items,
            page_read_as: None,
        };
        let record = probe_record(id, self.secs);
        self.store.write(Write::Ended(Box::new(ProbeRecord {
            observation: Some(observation),
            document: Some(document),
            beliefs: Some(believed(&[1])),
            stored: inputs.stored,
            memory: SourceMemory { last_success: Some(now), ..record.memory.clone() },
            ..record
        })));
        self.store.flush().await;
        new
    }

    async fn prune(&mut self, days: i64) {
        self.secs += days * 24 * 3600;
        let now = at(self.secs);
        prune(&self.store, DeleteBefore::probes(now - Span::from_days(30), now)).await;
    }

    async fn restart(self) -> Self {
        let Self { store, reader, secs } = self;
        drop(reader);
        let (dir, path) = store.close().await;
        let store = Store::reopened(dir, path, at(secs)).await;
        let reader = store.reader().await;
        Self { store, reader, secs }
    }

    async fn sync(&self, listed: Vec<Listed>, gone: Vec<String>) {
        let (reply, synced) = oneshot::channel();
        self.store.write(Write::Sync { listed, gone, at: at(self.secs), reply });
        patience(LONGEST, synced).await.unwrap().unwrap();
    }

    async fn remove_and_list_again(&mut self) {
        self.sync(Vec::new(), vec!["a".to_owned()]).await;
        self.prune(60).await;
        self.sync(vec![listed("a", "http://a/")], Vec::new()).await;
    }
}

/// Each item that is reported as new twice.
async fn reported_twice(happenings: Vec<Happening>) -> Vec<String> {
    let mut probed = Probed::new().await;
    let mut reported = HashSet::new();
    let mut twice = Vec::new();
    for happening in happenings {
        match happening {
            Happening::Probe { items, version, max_items } => {
                let new = probed.probe(&items, version, max_items).await;
                twice.extend(new.into_iter().filter(|key| !reported.insert(key.clone())));
            }
            Happening::Prune { days } => probed.prune(days).await,
            Happening::Restart => probed = probed.restart().await,
            Happening::Removed => probed.remove_and_list_again().await,
        }
    }
    twice
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_item_is_reported_as_new_twice(happenings in proptest::collection::vec(happening(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        prop_assert_eq!(runtime.block_on(reported_twice(happenings)), Vec::<String>::new());
    }
}
