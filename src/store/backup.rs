//! A consistent copy of the store, also beside a running daemon.
//!
//! SQLite writes the copy from one snapshot. The file gets its name when it is complete and on the disk.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::error::{BUSY, CORRUPT, NOTADB, primary_code};
use super::{StoreError, files, open};

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
    /// Another backup to the same file is in progress.
    #[error("{} is being written by another backup; wait for its end", .0.display())]
    InProgress(PathBuf),
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
    open::check_any_version(store).await?;
    let unwritable = |reason: String| BackupError::Unwritable { path: to.to_owned(), reason };
    // Absolute: SQLite would read some names as URIs.
    let partial = std::path::absolute(to.with_added_extension("partial"));
    let partial = partial.map_err(|error| unwritable(error.to_string()))?;
    // Open until the end: closing it would release the locks of SQLite.
    let file = begin(&partial)
        .map_err(|error| unwritable(error.to_string()))?
        .ok_or_else(|| BackupError::InProgress(partial.clone()))?;
    let mut connection = open::for_reading(store).connect().await.map_err(StoreError::Sql)?;
    let copied = sqlx::query("VACUUM INTO ?")
        .bind(partial.to_string_lossy().into_owned())
        .execute(&mut connection)
        .await;
    let finished = match copied {
        Ok(_) => finish(&file, &partial, to).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Exists(to.to_owned()),
            _ => unwritable(error.to_string()),
        }),
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

/// Makes the empty, locked file that the copy is written to, readable by its owner only. What a killed backup left there
/// is emptied. `None`: another backup is writing it.
fn begin(partial: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(0o600).open(partial)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Between the two, another backup may have finished and given the file its name.
    let (locked, named) = (file.metadata()?, std::fs::symlink_metadata(partial));
    let same = named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino()));
    if !same || locked.nlink() != 1 {
        return Ok(None);
    }
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.set_len(0)?;
    Ok(Some(file))
}

/// Writes the file through to the disk, then gives it its name, also on the disk.
fn finish(file: &File, partial: &Path, to: &Path) -> io::Result<()> {
    file.sync_all()?;
    rename_new(partial, to)?;
    File::open(files::folder_of(to))?.sync_all()
}

/// Renames a file, unless there is one of the new name.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system has no such call.
        Err(Errno::INVAL | Errno::NOSYS) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        done => Ok(done?),
    }
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
