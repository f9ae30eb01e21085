//! Answers without updates: nothing is learned from one, and nothing is lost.

use jiff::tz::TimeZone;

use super::world::{Site, World, monday, source};
use tidewatch_core::model::history::History;
use tidewatch_core::model::learn::{ProbedUpdates, learn};
use tidewatch_core::model::silence::{self, LearnedUntil};
use tidewatch_core::observe::{ItemChange, Observation, Occurred, Present, SourceKind, Update, UpdateKind};
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_fixtures::loopback::Reply;

const HALF_LIFE: Span = Span::from_days(56);

/// Every seven hours, from three days before the start.
fn published() -> Vec<Timestamp> {
    (-10..20).map(|n| monday() + Span::from_hours(7 * n)).collect()
}

fn atom(items: &[Timestamp]) -> String {
    let entry = |at: &Timestamp| {
        format!(
            "<entry><id>urn:{0}</id><title>{0}</title><published>{at}</published></entry>",
            at.as_millis()
        )
    };
    let entries: String = items.iter().rev().map(entry).collect();
    format!("<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>t</title><id>urn:f</id>{entries}</feed>")
}

/// The evidence if each of these probes is learned by itself.
fn probe_by_probe(probes: &[(Timestamp, bool)]) -> History {
    let published = published();
    let mut history = History::new(TimeZone::UTC, HALF_LIFE, probes[0].0);
    let mut last = None;
    for &(now, found) in probes {
        let news = published.iter().copied().filter(|&at| Some(at) > last && at <= now);
        let mut seen = Observation { first_contact: last.is_none(), ..Observation::default() };
        for at in news {
            let present = Present { key_hash: 0, fingerprint: 0, change: ItemChange::New, dated: Some(at) };
            seen.present.push(present);
            seen.updates.push(Update::bare(UpdateKind::New, Occurred::At(at), "k"));
        }
        let seen = Some(&seen).filter(|_| found || last.is_none());
        learn(&mut history, &ProbedUpdates { kind: SourceKind::Feed, last, now, seen, except: None });
        last = Some(now);
    }
    history
}

#[tokio::test]
async fn the_evidence_after_many_answers_without_updates_is_that_of_all_probes() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| {
        let published = published();
        let items = &published[..published.partition_point(|&at| at <= visit.at)];
        let etag = format!("\"{}\"", items.len());
        match visit.seen.text("if-none-match") == Some(etag.clone()) {
            true => Reply::new(304),
            false => Reply::ok(atom(items)).header("ETag", etag),
        }
    })
    .await;
    let uniform = format!("{}policy = \"uniform\"\n", source("s", &site.url("/feed")));
    let daemon = world.start(&[uniform]).await;
    site.visited(150).await;
    daemon.stop().await;
    let probes: Vec<(i64, String)> = world.rows("SELECT started_at, outcome FROM probes ORDER BY id").await;
    let probes: Vec<(Timestamp, bool)> =
        probes.iter().map(|(at, outcome)| (Timestamp::from_millis(*at), outcome == "updated")).collect();
    assert!(probes.iter().filter(|(_, found)| *found).count() >= 3);
    let rows: Vec<(i64, i64, i64, Vec<u8>)> = world
        .rows(
            "SELECT learned_until, coalesce(review_at, 0), last_look_at, bytes
             FROM sources JOIN histories ON source_id = id",
        )
        .await;
    let [(learned, review_at, last, bytes)] = rows.as_slice() else { panic!("one source: {rows:?}") };
    let [at, review_at, last] = [learned, review_at, last].map(|&at| Timestamp::from_millis(at));
    assert!(at < last, "the last answers had no updates, and nothing was learned from them");
    let stored = History::from_bytes(bytes, TimeZone::UTC, HALF_LIFE).expect("it is readable");
    let stored = silence::with_pending(stored, Some(LearnedUntil { at, review_at }), Some(last));
    let wanted = probe_by_probe(&probes);
    assert_eq!((stored.seen(), stored.span()), (wanted.seen(), wanted.span()));
    let [stored, wanted] = [stored, wanted].map(|history| history.evidence(last));
    let rounding = 1e-4;
    assert!((stored.total_hours() - wanted.total_hours()).abs() < rounding * wanted.total_hours());
    assert!((stored.total_updates() - wanted.total_updates()).abs() < rounding * wanted.total_updates());
}
