//! `tidewatch deliveries`, beside a store that is in use.

use serde_json::Value;
use tidewatch::store::record::{DeliveryRecord, Settled};
use tidewatch::store::writer::Write;

use super::fixture::{Fixture, at};
use crate::command_folder;
use tidewatch_fixtures::command::CommandFolder;

/// A folder whose configuration names the fixture's store.
fn folder(fixture: &Fixture) -> CommandFolder {
    let folder = command_folder(&["deliveries"]);
    folder.write(
        "tidewatch.toml",
        &format!(
            "[daemon]\nstore = {:?}\ncontact = \"https://example.org/me\"\n\
             [[source]]\nname = \"a\"\nurl = \"https://example.org/feed\"\n",
            fixture.store()
        ),
    );
    folder
}

async fn write_outcome(fixture: &Fixture, id: i64, settled: Settled) {
    fixture
        .write(Write::Delivery(DeliveryRecord { id, tried_at: at(0), at: at(1), settled, event: None }))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_listed_counted_and_retried() {
    let fixture = Fixture::stopped(1.0).await;
    let folder = folder(&fixture);
    assert_eq!(folder.output(&[]), "no deliveries\n");
    fixture.enqueue("exec:a", &["one", "two", "three"]).await;
    fixture.enqueue("webhook:b", &["one"]).await;
    let ids: Vec<i64> = fixture.rows().await.iter().map(|row| row.id).collect();
    write_outcome(&fixture, ids[0], Settled::Delivered).await;
    write_outcome(&fixture, ids[1], Settled::Dead { error: "it\u{1b}[31m broke".into() }).await;
    write_outcome(&fixture, ids[3], Settled::Dead { error: "no".into() }).await;

    let text = folder.output(&[]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("id  to "), "{text}");
    assert!(
        lines[2].contains("dead") && lines[2].contains("it [31m broke") && lines[2].contains("me/all"),
        "{text}"
    );
    assert!(lines[3].contains("waiting") && lines[3].contains("due"), "{text}");
    assert_eq!(
        lines[5..],
        ["", "exec:a: 1 waiting, 1 delivered, 1 dead", "webhook:b: 0 waiting, 0 delivered, 1 dead"]
    );
    let text = folder.output(&["--state", "dead", "--target", "exec:a"]);
    assert_eq!(text.lines().count(), 4, "{text}");
    let text = folder.output(&["--limit", "1", "--json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["deliveries"].as_array().unwrap().len(), 1);
    let last = &document["deliveries"][0];
    assert_eq!((&last["id"], &last["state"]), (&Value::from(ids[3]), &Value::from("dead")), "the newest");
    assert_eq!(last["document"]["items"][0]["title"], "one");
    assert_eq!(document["totals"][0]["delivered"], 1);

    let refused = folder.error(1, &["retry", &ids[1].to_string(), &ids[0].to_string(), "99"]);
    assert!(refused.contains(&format!("delivered already: {}, 99", ids[0])), "{refused}");
    assert_eq!(fixture.states().await["dead"], 2, "nothing was changed");
    assert_eq!(folder.output(&["retry", "--dead", "--target", "webhook:b"]), "1 delivery waits again\n");
    assert_eq!(
        folder.output(&["retry", &ids[1].to_string(), &ids[2].to_string()]),
        "2 deliveries wait again\n"
    );
    assert_eq!(folder.output(&["retry", "--dead"]), "0 deliveries wait again\n");
    assert_eq!(fixture.states().await["waiting"], 3);
    for wrong in
        [&["retry"][..], &["retry", "--dead", "1"], &["retry", "--target", "x", "1"], &["--state", "x"]]
    {
        folder.error(2, wrong);
    }
}

#[test]
fn without_a_store_the_command_is_refused() {
    let folder = command_folder(&["deliveries"]);
    folder.write(
        "tidewatch.toml",
        "[daemon]\nstore = \"none.db\"\ncontact = \"https://example.org/me\"\n\
         [[source]]\nname = \"a\"\nurl = \"https://example.org/feed\"\n",
    );
    for arguments in [&[][..], &["retry", "--dead"]] {
        let text = folder.error(69, arguments);
        assert!(text.contains("no store yet"), "{text}");
    }
    assert!(!folder.path().join("none.db").exists(), "none is created");
}
