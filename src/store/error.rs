//! Errors of the store, with messages that name a remedy.

use std::path::{Path, PathBuf};

/// The store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Written by a later version.
    #[error(
        "{}: written by a newer tidewatch (schema {found}, this one knows {known}); upgrade tidewatch or point [daemon] store elsewhere", .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema version in it.
        found: i64,
        /// The newest version that this program supports.
        known: i64,
    },
    /// Written by an earlier version, and only `run` migrates.
    #[error(
        "{}: written by an older tidewatch (schema {found}, this one needs {known}); restart the daemon, which migrates it", .path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// The schema version in it.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// Not a SQLite file.
    #[error("{}: not a SQLite database; move it away or point [daemon] store elsewhere", .0.display())]
    NotADatabase(PathBuf),
    /// A SQLite file of another program.
    #[error("{}: a SQLite database of another program; point [daemon] store elsewhere", .0.display())]
    Foreign(PathBuf),
    /// The file does not exist.
    #[error("{}: no store yet; `tidewatch run` makes it{}", absolute(.0).display(), relative_hint(.0))]
    Missing(PathBuf),
    /// The file cannot be written.
    #[error("{}: cannot be written ({reason}); check the owner and mode of the file and its folder", .path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The disk is full or fails. A later attempt can succeed.
    #[error("{}: cannot be written now ({reason}); make room on its disk, and check the disk", .path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// A file of the store belongs to another user.
    #[error(
        "{}: belongs to user {owner}, and tidewatch runs as user {user}; as root, run: chown --reference={} {}",
        .path.display(), .folder.display(), .path.display()
    )]
    OfAnotherUser {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        user: u32,
        /// The folder of the store, with the right owner.
        folder: PathBuf,
    },
    /// A file of the open store was deleted or replaced.
    #[error("{}: was deleted or replaced while tidewatch used the store; nothing more is written; stop tidewatch before you change files of the store", .0.display())]
    Replaced(PathBuf),
    /// Another process holds the lock.
    #[error("{}: another tidewatch is using this store; stop it first or point [daemon] store elsewhere", .0.display())]
    InUse(PathBuf),
    /// Any other SQLite error.
    #[error("the store: {0}")]
    Sql(#[from] sqlx::Error),
    /// The writer has ended.
    #[error("the store's writer has stopped")]
    Stopped,
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn relative_hint(path: &Path) -> &'static str {
    match path.is_relative() {
        true => {
            "; `store` is a relative path here: run this command in the folder in which the daemon runs, or set a full path"
        }
        false => "",
    }
}

impl StoreError {
    /// Whether a file belongs to another user, so that only an operator can help.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::OfAnotherUser { .. })
    }

    /// Whether the file is damaged, so that neither a retry nor a restart can help.
    pub fn is_damaged(&self) -> bool {
        match self {
            Self::NotADatabase(_) => true,
            Self::Sql(error) => matches!(primary_code(error), Some(CORRUPT | NOTADB)),
            _ => false,
        }
    }

    /// Whether the disk is full or fails, so that a start waits instead of failing again and again.
    pub fn is_of_disk(&self) -> bool {
        match self {
            Self::Disk { .. } => true,
            Self::Sql(error) => is_no_room(error),
            _ => false,
        }
    }
}

/// SQLite's primary result code; `None` for other errors.
pub(super) fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

pub(super) const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const NOMEM: i32 = 7;
const READONLY: i32 = 8;
const IOERR: i32 = 10;
pub(super) const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
pub(super) const NOTADB: i32 = 26;

/// Whether a retry can succeed, as after a full disk. Other errors are a bug or a corrupt file.
pub(super) fn may_pass(error: &sqlx::Error) -> bool {
    primary_code(error)
        .is_some_and(|code| [BUSY, LOCKED, NOMEM, READONLY, IOERR, FULL, CANTOPEN].contains(&code))
}

/// Whether SQLite refuses what is written: a constraint, a value that is too large, a text that is no JSON.
pub(super) fn is_refused(error: &sqlx::Error) -> bool {
    const ERROR: i32 = 1;
    const TOOBIG: i32 = 18;
    const CONSTRAINT: i32 = 19;
    const MISMATCH: i32 = 20;
    match primary_code(error) {
        Some(TOOBIG | CONSTRAINT | MISMATCH) => true,
        Some(ERROR) => error.to_string().contains("JSON"),
        _ => matches!(error, sqlx::Error::Encode(_)),
    }
}

/// Whether the file or its folder cannot be written.
pub(super) fn is_read_only(error: &sqlx::Error) -> bool {
    primary_code(error).is_some_and(|code| [READONLY, CANTOPEN].contains(&code))
}

/// Whether the disk is full or fails.
pub(super) fn is_no_room(error: &sqlx::Error) -> bool {
    primary_code(error).is_some_and(|code| [IOERR, FULL].contains(&code))
}
