//! Replaces the store by a backup, while no daemon runs.
//!
//! The backup is copied beside the store and checked there. The store that was there is kept under another name. The
//! probes since the backup are unknown: the restored store says so to the daemon that opens it first.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use tidewatch_core::time::Timestamp;

use super::files::{folder_of, give_to_owner_of, real_path, with_suffix};
use super::load::RESTORED;
use super::lock::Lock;
use super::{StoreError, open};

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreSummary {
    /// Logged probes.
    pub probes: i64,
    /// Updates.
    pub updates: i64,
    /// When the last of these probes began.
    pub last_probe: Option<Timestamp>,
    /// The store that was there before, if any.
    pub kept: Option<PathBuf>,
}

/// The error of a restore. The store is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The file is of another kind.
    #[error("{}: no store of tidewatch; name a file that `tidewatch backup` has written", .0.display())]
    NotAStore(PathBuf),
    /// Recent changes may be in another file.
    #[error("{} exists, so that this copy is not whole by itself; name a file that `tidewatch backup` has written", .0.display())]
    NotWhole(PathBuf),
    /// The backup fails SQLite's checks.
    #[error("{}: the backup is damaged ({reason}); use another one", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first fault.
        reason: String,
    },
    /// The store of an earlier restore is still there.
    #[error("{} is the store before an earlier restore; move it away or delete it", .0.display())]
    Kept(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Turns the system's error into one that names the file.
fn at(path: &Path) -> impl FnOnce(io::Error) -> RestoreError {
    move |reason| RestoreError::File { path: path.to_owned(), reason }
}

/// Replaces the store by this backup.
pub async fn restore(store: &Path, from: &Path, now: Timestamp) -> Result<RestoreSummary, RestoreError> {
    let _lock = Lock::take(store)?;
    let store = real_path(store);
    let kept = with_suffix(&store, ".before-restore");
    free(&kept, &store)?;
    for suffix in ["-wal", "-journal"] {
        let beside = with_suffix(from, suffix);
        if std::fs::metadata(&beside).is_ok_and(|file| file.len() > 0) {
            return Err(RestoreError::NotWhole(beside));
        }
    }
    let copy = with_suffix(&store, ".restoring");
    let copied = async {
        let mut read = File::open(from).map_err(at(from))?;
        copy_to(&mut read, &copy).map_err(at(&copy))?;
        let (probes, updates, last_probe) = check_and_mark(&copy, from, now).await?;
        absorb_log(&store).await;
        let replaced = replace(&copy, &store, &kept).map_err(at(&store))?;
        Ok(RestoreSummary { probes, updates, last_probe, kept: replaced.then(|| kept.clone()) })
    };
    let done = copied.await;
    if done.is_err() {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            let _ = std::fs::remove_file(with_suffix(&copy, suffix));
        }
    }
    done
}

/// Checks that the old store can be kept under this name.
fn free(kept: &Path, store: &Path) -> Result<(), RestoreError> {
    let Ok(there) = std::fs::symlink_metadata(kept) else { return Ok(()) };
    let same = std::fs::metadata(store).is_ok_and(|it| (it.dev(), it.ino()) == (there.dev(), there.ino()));
    // A restore was interrupted before it replaced anything.
    match same {
        true => std::fs::remove_file(kept).map_err(at(kept)),
        false => Err(RestoreError::Kept(kept.to_owned())),
    }
}

/// Copies the backup beside the store, readable by its owner only.
fn copy_to(from: &mut File, copy: &Path) -> io::Result<()> {
    // Left by a restore that was interrupted. No other one runs: it would hold the lock.
    match std::fs::remove_file(copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(copy)?;
    io::copy(from, &mut to)?;
    Ok(())
}

/// Probes, updates, and the start of the last probe.
type RestoredRows = (i64, i64, Option<Timestamp>);

/// Checks the copy, and marks it as restored.
async fn check_and_mark(copy: &Path, from: &Path, now: Timestamp) -> Result<RestoredRows, RestoreError> {
    let damaged = |reason: String| RestoreError::Damaged { path: from.to_owned(), reason };
    let of_backup = |error: StoreError| match error {
        StoreError::NotADatabase(_) | StoreError::Foreign(_) => RestoreError::NotAStore(from.to_owned()),
        StoreError::Newer { found, known, .. } => {
            RestoreError::Store(StoreError::Newer { path: from.to_owned(), found, known })
        }
        error => damaged(error.to_string()),
    };
    if open::check_any_version(copy).await.map_err(of_backup)?.is_none() {
        return Err(RestoreError::NotAStore(from.to_owned()));
    }
    let marked = async {
        // Without a log of its own, so that the one file is whole.
        let options = SqliteConnectOptions::new().filename(copy).journal_mode(SqliteJournalMode::Delete);
        let mut connection = options.disable_statement_logging().connect().await?;
        let found: String =
            sqlx::query_scalar("PRAGMA integrity_check(1)").fetch_one(&mut connection).await?;
        if found != "ok" {
            return Ok(Err(damaged(found)));
        }
        let counts = mark(&mut connection, from, now).await?;
        connection.close().await?;
        Ok(Ok(counts))
    };
    marked.await.unwrap_or_else(|error: sqlx::Error| Err(damaged(error.to_string())))
}

async fn mark(
    connection: &mut SqliteConnection,
    from: &Path,
    now: Timestamp,
) -> Result<RestoredRows, sqlx::Error> {
    let (probes, updates, last): (i64, i64, Option<i64>) = sqlx::query_as(
        // The last one, not the latest: the clock may have been set back.
        "SELECT (SELECT count(*) FROM probes), (SELECT count(*) FROM updates), (SELECT started_at FROM probes ORDER BY id DESC LIMIT 1)",
    )
    .fetch_one(&mut *connection)
    .await?;
    let last = last.map(Timestamp::from_millis);
    let until =
        last.map_or_else(|| "without probes".to_owned(), |last| format!("with probes until {last}"));
    let detail = format!(
        "{}, {until}; later probes are not known, so each source is probed after its min_spacing at the earliest",
        from.display()
    );
    sqlx::query("INSERT OR REPLACE INTO meta (key, value) VALUES (?, 0)")
        .bind(RESTORED)
        .execute(&mut *connection)
        .await?;
    sqlx::query("INSERT INTO events (at, kind, detail) VALUES (?, ?, ?)")
        .bind(now.as_millis())
        .bind("restored")
        .bind(detail)
        .execute(connection)
        .await?;
    Ok((probes, updates, last))
}

/// Copies what is only in the log of the old store into its file. Fails if that store is damaged, and then the log is
/// kept beside it.
async fn absorb_log(store: &Path) {
    let options = SqliteConnectOptions::new().filename(store).disable_statement_logging();
    if let Ok(mut connection) = options.connect().await {
        let _ = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await;
        let _ = connection.close().await;
    }
}

/// Puts the copy in the place of the store, which gets another name. Returns whether there was one.
fn replace(copy: &Path, store: &Path, kept: &Path) -> io::Result<bool> {
    let old = std::fs::metadata(store).ok();
    let model = match &old {
        Some(old) => {
            std::fs::set_permissions(copy, std::fs::Permissions::from_mode(old.mode() & 0o777))?;
            old.clone()
        }
        None => std::fs::metadata(folder_of(store))?,
    };
    give_to_owner_of(copy, &model)?;
    File::open(copy)?.sync_all()?;
    if old.is_some() {
        std::fs::hard_link(store, kept).or_else(|_| std::fs::rename(store, kept))?;
    }
    let log = with_suffix(store, "-wal");
    // The log of a store that was not closed belongs to the old file.
    if log.exists() {
        std::fs::rename(&log, with_suffix(kept, "-wal"))?;
    }
    let _ = std::fs::remove_file(with_suffix(store, "-shm"));
    std::fs::rename(copy, store)?;
    File::open(folder_of(store))?.sync_all()?;
    Ok(old.is_some())
}
