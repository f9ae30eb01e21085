//! A changed `[rate]` or `[burst]` reaches every source, not only those whose own section changed.
//! The scheduler is the real one; the test replaces network and store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::scheduler_ends::{Ends, channels};
use tidewatch::clock::Clock;
use tidewatch::config::configuration::Config;
use tidewatch::daemon::messages::{Control, Launch, Reconfiguration};
use tidewatch::daemon::probe::Finished;
use tidewatch::daemon::scheduler::Scheduler;
use tidewatch::daemon::startup::{Startup, usual};
use tidewatch::store::load::{Remembered, StoredState};
use tidewatch_core::engine::event::Failure;
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::model::burst::Test;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tokio::sync::oneshot;

fn config(settings: &str) -> Config {
    let sources = "[[source]]\nname = 'a'\nurl = 'https://a.example/'\n\
                   [[source]]\nname = 'b'\nurl = 'https://b.example/'\ntime_zone = 'Asia/Tokyo'\n";
    let text = format!("{settings}\n{sources}");
    tidewatch::config::valid::parse(&[(PathBuf::from("t.toml"), text)]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn changed_learning_parameters_reach_every_source() {
    let start = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
    let clock = Clock::accelerated(start, 1.0);
    let old = config("");
    let mut startup = Startup::new(&old, StoredState::default(), start);
    for (id, name) in [(1, "a"), (2, "b")] {
        startup.take(Remembered {
            id: SourceId(id),
            name: name.to_owned(),
            memory: SourceMemory::default(),
            answered_at: None,
            probes: Vec::new(),
        });
    }
    let loaded = startup.done(&old.rules, &[]);
    let (channels, Ends { control, finished, mut launched, to_plan: _to_plan, .. }) =
        channels(Duration::ZERO, Duration::ZERO);
    let rules = Arc::clone(&old.rules);
    let scheduler = Scheduler::new(loaded, clock.clone(), None, rules, channels);
    tokio::spawn(scheduler.run());
    let mut next_two = async || {
        let mut learning = Vec::new();
        while learning.len() < 2 {
            let Launch { attempt, spec, .. } = launched.recv().await.unwrap();
            let zone = spec.learning.zone.iana_name().unwrap_or_default().to_owned();
            let (test, half_life) = (spec.learning.bursts.test, spec.learning.half_life);
            learning.push((spec.source.name.to_string(), test, half_life, zone));
            let over = Finished::failed(attempt, clock.now(), Failure::Interrupted, String::new());
            finished.send(Box::new(over)).unwrap();
        }
        learning.sort_by_key(|of| of.0.clone());
        learning
    };
    let weeks = |n: i64| Span::from_days(7 * n);
    let of = |name: &str, test, half_life, zone: &str| (name.to_owned(), test, half_life, zone.to_owned());
    assert_eq!(
        next_two().await,
        [of("a", Test::Filter, weeks(8), "UTC"), of("b", Test::Filter, weeks(8), "Asia/Tokyo")]
    );
    let new = config(
        "[rate]\nhalf_life = '2w'\n[burst]\ntest = 'tail'\n[importance]\ntime_zone = 'Europe/Paris'",
    );
    let (applied, done) = oneshot::channel();
    let apply = Reconfiguration {
        rules: None,
        params: new.fleet.clone(),
        fetcher: None,
        added: Vec::new(),
        changed: Vec::new(),
        removed: Vec::new(),
        learning: Some(usual(&new)),
        replan: true,
        summary: String::new(),
        corrected: Span::ZERO,
        applied,
    };
    control.send(Control::Apply(Box::new(apply))).unwrap();
    done.await.unwrap();
    assert_eq!(
        next_two().await,
        [of("a", Test::Tail, weeks(2), "Europe/Paris"), of("b", Test::Tail, weeks(2), "Asia/Tokyo")]
    );
}
