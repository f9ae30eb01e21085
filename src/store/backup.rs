//! A consistent copy of the store, also beside a running daemon.
//!
//! SQLite writes the copy from one snapshot. The file gets its name when it is complete and on the disk.

use std::fs::File;
use std::path::{Path, PathBuf};

use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::error::{BUSY, CORRUPT, NOTADB, primary_code};
use super::{StoreError, open};

/// What a copy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSummary {
    /// Bytes of the file.
    pub bytes: u64,
    /// Sources, with removed ones.
    pub sources: i64,
    /// Logged probes.
    pub probes: i64,
    /// Updates.
    pub updates: i64,
}

/// The error of a backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file is in the way.
    #[error("{} exists; name a file that does not", .0.display())]
    Exists(PathBuf),
    /// The copy cannot be written.
    #[error("{} cannot be written: {reason}", .path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Copies the store to a new file.
pub async fn copy(store: &Path, to: &Path) -> Result<BackupSummary, BackupError> {
    if to.try_exists().unwrap_or(true) {
        return Err(BackupError::Exists(to.to_owned()));
    }
    open::check_readable(store).await?;
    let unwritable = |reason: String| BackupError::Unwritable { path: to.to_owned(), reason };
    // Absolute: SQLite would read some names as URIs.
    let partial = std::path::absolute(to.with_added_extension("partial"));
    let partial = partial.map_err(|error| unwritable(error.to_string()))?;
    // Left by a backup that was interrupted.
    match std::fs::remove_file(&partial) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(unwritable(error.to_string()));
        }
        _ => {}
    }
    let mut connection = open::for_reading(store).connect().await.map_err(StoreError::Sql)?;
    let copied = sqlx::query("VACUUM INTO ?")
        .bind(partial.to_string_lossy().into_owned())
        .execute(&mut connection)
        .await;
    let finished = match copied {
        Ok(_) => finish(&partial, to).map_err(|error| unwritable(error.to_string())),
        Err(error) if of_the_store(&error) => Err(BackupError::Store(error.into())),
        Err(error) => Err(unwritable(error.to_string())),
    };
    if let Err(error) = finished {
        // Fails if it was not made, or has its name already.
        let _ = std::fs::remove_file(&partial);
        return Err(error);
    }
    let _ = connection.close().await;
    Ok(summary(to).await?)
}

/// Whether the store cannot be read, rather than the copy written.
fn of_the_store(error: &sqlx::Error) -> bool {
    primary_code(error).is_some_and(|code| [BUSY, CORRUPT, NOTADB].contains(&code))
}

/// Writes the file through to the disk, then gives it its name, also on the disk.
fn finish(partial: &Path, to: &Path) -> std::io::Result<()> {
    File::open(partial)?.sync_all()?;
    std::fs::rename(partial, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

async fn summary(path: &Path) -> Result<BackupSummary, StoreError> {
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    let mut copied: SqliteConnection = open::for_reading(path).connect().await?;
    let (sources, probes, updates) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM sources), (SELECT count(*) FROM probes), (SELECT count(*) FROM updates)",
    )
    .fetch_one(&mut copied)
    .await?;
    copied.close().await?;
    Ok(BackupSummary { bytes, sources, probes, updates })
}
