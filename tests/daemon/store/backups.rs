//! Copies of the store.

use tidewatch::store::backup::{self, BackupError};

use super::*;

/// The rows of the log, in order.
async fn log_of(path: &Path) -> Vec<(i64, i64, i64)> {
    let query =
        "SELECT p.id, p.started_at, count(u.id) FROM probes p LEFT JOIN updates u ON u.probe_id = p.id
                 GROUP BY p.id ORDER BY p.id";
    sqlx::query_as(query).fetch_all(&mut other_program(path).await).await.unwrap()
}

#[tokio::test]
async fn a_copy_beside_a_busy_writer_is_one_moment_of_the_store() {
    let store = Store::new().await;
    let id = store.id("a");
    let probe = |number: i64| {
        let seen = Observation {
            updates: vec![new_item(&format!("{number}"), number)],
            present: vec![present(&format!("{number}"), 1)],
            ..Observation::default()
        };
        Write::Ended(Box::new(ProbeRecord { observation: Some(seen), ..probe_record(id, number) }))
    };
    (0..2_000).for_each(|number| store.write(probe(number)));
    store.flush().await;
    let to = store.path.with_file_name("copy.db");
    let writes = async {
        for number in 2_000..6_000 {
            store.write(probe(number));
            if number % 50 == 0 {
                store.flush().await;
            }
        }
        store.flush().await;
    };
    let (copied, ()) = tokio::join!(backup::copy(&store.path, &to), writes);
    let copied = copied.unwrap();
    let (original, copy) = (log_of(&store.path).await, log_of(&to).await);
    assert_eq!(original.len(), 6_000);
    assert!(copy.len() >= 2_000 && copied.probes == copy.len() as i64, "{copied:?}");
    assert_eq!(copy, original[..copy.len()], "no row is missing or there twice up to its moment");
    assert_eq!(copied.updates, copied.probes);
    let mut connection = other_program(&to).await;
    for check in ["PRAGMA integrity_check", "SELECT coalesce(max(1), 'ok') FROM pragma_foreign_key_check"] {
        let found: String = sqlx::query_scalar(check).fetch_one(&mut connection).await.unwrap();
        assert_eq!(found, "ok", "{check}");
    }
    drop(connection);
    // It is a store: a daemon can start with it.
    let list = [listed("a", "http://a/"), listed("b", "http://b/")];
    let mut restored = open::for_writing(&to).await.unwrap();
    assert_eq!(load(&mut restored, &list, at(9_000), at(0)).await["a"].probes.len(), copy.len());
}

#[tokio::test]
async fn a_copy_replaces_no_file_and_leaves_none_behind() {
    let store = Store::new().await;
    let beside = |name: &str| store.path.with_file_name(name);
    let exists = backup::copy(&store.path, &store.path).await.unwrap_err();
    assert!(matches!(exists, BackupError::Exists(_)), "{exists}");
    let nowhere = backup::copy(&store.path, &beside("no-folder/copy.db")).await.unwrap_err();
    assert!(nowhere.to_string().contains("copy.db cannot be written: "), "{nowhere}");
    let missing = backup::copy(&beside("none.db"), &beside("copy.db")).await.unwrap_err();
    assert!(matches!(missing, BackupError::Store(StoreError::Missing(_))), "{missing}");
    // One that is being written by another backup is left alone.
    std::fs::write(beside("copy.db.partial"), b"half a copy").unwrap();
    let other = std::fs::File::open(beside("copy.db.partial")).unwrap();
    other.lock().unwrap();
    let busy = backup::copy(&store.path, &beside("copy.db")).await.unwrap_err();
    assert!(matches!(busy, BackupError::InProgress(_)), "{busy}");
    assert_eq!(std::fs::read(beside("copy.db.partial")).unwrap(), b"half a copy");
    drop(other);
    // What an interrupted one left is replaced.
    let copied = backup::copy(&store.path, &beside("copy.db")).await.unwrap();
    assert_eq!((copied.sources, copied.probes), (2, 0));
    assert!(copied.bytes > 0 && !beside("copy.db.partial").exists());
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(beside("copy.db")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600, "the store may hold private texts");
}

#[tokio::test]
async fn a_file_that_appears_during_a_copy_is_not_replaced() {
    let store = Store::new().await;
    let (to, partial) =
        (store.path.with_file_name("copy.db"), store.path.with_file_name("copy.db.partial"));
    let appears = async {
        while !partial.exists() {
            tokio::task::yield_now().await;
        }
        std::fs::write(&to, b"another file").unwrap();
    };
    let (copied, ()) = tokio::join!(backup::copy(&store.path, &to), appears);
    let refused = copied.unwrap_err();
    assert!(matches!(refused, BackupError::Exists(_)), "{refused}");
    assert_eq!(std::fs::read(&to).unwrap(), b"another file");
    assert!(!partial.exists());
}
