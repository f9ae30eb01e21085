//! Ensures one daemon per store.
//!
//! Locks a file beside the store until the process ends. The system releases the lock however the process
//! ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::StoreError;

/// The lock, held while this process writes to the store.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

impl Lock {
    /// Takes the lock; fails with [`StoreError::InUse`] if another process holds it.
    pub fn take(store: &Path) -> Result<Self, StoreError> {
        let path = lock_path(store);
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = opened.map_err(|error| explain(&path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse(store.to_owned())),
            Err(TryLockError::Error(error)) => Err(explain(&path, &error)),
        }
    }
}

/// A disk may have room later, and a file system that is read-only at boot may become writable.
fn explain(path: &Path, error: &std::io::Error) -> StoreError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem => {
            StoreError::Disk { path, reason }
        }
        _ => StoreError::ReadOnly { path, reason },
    }
}

fn lock_path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_on_a_full_disk_can_be_taken_later_and_one_without_permission_cannot() {
        let of = |kind: ErrorKind| explain(Path::new("t.db.lock"), &kind.into()).is_of_disk();
        let later = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::ReadOnlyFilesystem];
        assert!(later.into_iter().all(of));
        assert!(![ErrorKind::PermissionDenied, ErrorKind::NotFound].into_iter().any(of));
    }
}
