//! Which sources are suspected after a death of the daemon.

use tidewatch::store::crashes::{running, suspects};
use tidewatch_core::engine::event::CrashEvidence::{self, Alone, BackedOff, Beside};

use super::*;

struct Deaths {
    _dir: TempDir,
    connection: SqliteConnection,
    ids: Vec<i64>,
}

impl Deaths {
    async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let connection = open::for_writing(&dir.path().join("t.db")).await.unwrap();
        let mut deaths = Self { _dir: dir, connection, ids: Vec::new() };
        deaths.start(Some("boot")).await;
        deaths.ids = sqlx::query_scalar("SELECT id FROM sources ORDER BY name")
            .fetch_all(&mut deaths.connection)
            .await
            .unwrap();
        deaths
    }

    /// A daemon starts, and runs from then on.
    async fn start(&mut self, boot: Option<&str>) -> Vec<(usize, u32, CrashEvidence)> {
        let found = self.begin(boot).await;
        running(&mut self.connection, boot).await.unwrap();
        found
    }

    /// A daemon begins to start. Returns the suspects: the numbers of the sources from zero, of the deaths, and the evidence.
    async fn begin(&mut self, boot: Option<&str>) -> Vec<(usize, u32, CrashEvidence)> {
        let list = ["a", "b", "c"].map(|name| listed(name, "http://a/"));
        begin(&mut self.connection, &list, at(0), boot).await.unwrap();
        let found = suspects(&mut self.connection).await.unwrap();
        let place = |id: SourceId| self.ids.iter().position(|&known| known == id.0).unwrap();
        found.iter().map(|suspect| (place(suspect.source), suspect.deaths, suspect.evidence)).collect()
    }

    /// Probes of these sources are in progress.
    async fn probe(&mut self, sources: &[usize]) {
        for &source in sources {
            sqlx::query(
                "INSERT INTO flights (source_id, due_at, started_at, policy, reason) VALUES (?, 0, 0, 'uniform', 'policy')",
            )
            .bind(self.ids[source])
            .execute(&mut self.connection)
            .await
            .unwrap();
        }
    }

    async fn execute(&mut self, statement: &'static str) {
        sqlx::query(statement).execute(&mut self.connection).await.unwrap();
    }
}

#[tokio::test]
async fn only_sources_in_progress_at_each_death_stay_suspect_or_those_that_are_backed_off() {
    let mut deaths = Deaths::new().await;
    deaths.probe(&[0, 1]).await;
    let both = [(0, 1, Beside), (1, 1, Beside)];
    assert_eq!(deaths.begin(Some("boot")).await, both);
    // A death counts once, also if the start is interrupted.
    assert_eq!(deaths.start(Some("boot")).await, both);
    deaths.probe(&[0, 2]).await;
    assert_eq!(deaths.start(Some("boot")).await, [(0, 2, Beside), (2, 1, Beside)]);
    deaths.probe(&[0]).await;
    assert_eq!(deaths.start(Some("boot")).await, [(0, 3, Alone)]);
    // Only what was in progress can be the cause of the last death.
    assert_eq!(deaths.start(Some("boot")).await, []);
    deaths.probe(&[0]).await;
    deaths.start(Some("boot")).await;
    deaths.execute("UPDATE crash_suspects SET evidence = 'backed_off'").await;
    deaths.probe(&[1]).await;
    assert_eq!(deaths.start(Some("boot")).await, [(0, 1, BackedOff), (1, 1, Alone)]);
    deaths.execute("UPDATE sources SET state = 'removed'").await;
    assert_eq!(deaths.start(Some("boot")).await, []);
}

#[tokio::test]
async fn a_stop_of_the_daemon_or_the_machine_and_a_restored_store_make_no_source_suspect() {
    let mut deaths = Deaths::new().await;
    for (done, boot) in [
        ("DELETE FROM running", "boot"),
        ("PRAGMA user_version", "another boot"),
        (
            "INSERT OR REPLACE INTO meta (key, value) VALUES ('first_start_after_restore', 0)",
            "another boot",
        ),
    ] {
        deaths.probe(&[0]).await;
        deaths.execute(done).await;
        assert_eq!(deaths.start(Some(boot)).await, [], "{done}");
    }
    // Without names of boots it is not known.
    deaths.probe(&[0]).await;
    assert_eq!(deaths.start(None).await, [(0, 1, Alone)]);
}
