//! Ensures one daemon per store.
//!
//! Locks a file beside the store until the process ends. The system releases the lock however the process
//! ends. The store may be reached through links: the file is beside the real one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use super::StoreError;
use super::files::{give_to_owner_of_folder, of_another_user, real_path, with_suffix};

/// The lock, held while this process writes to the store.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

impl Lock {
    /// Takes the lock; fails with [`StoreError::InUse`] if another process holds it.
    pub fn take(store: &Path) -> Result<Self, StoreError> {
        let path = with_suffix(&real_path(store), ".lock");
        let is_new = !path.exists();
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = opened.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => of_another_user(store).unwrap_or_else(|| explain(&path, &error)),
            _ => explain(&path, &error),
        })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(store.to_owned())),
            Err(TryLockError::Error(error)) => return Err(explain(&path, &error)),
        }
        if is_new {
            give_to_owner_of_folder(&path);
        }
        Ok(Self(file))
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
