//! Ensures one daemon per store.
//!
//! Locks a file beside the store until the process ends. The system releases the lock however the process
//! ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use super::StoreError;

/// The lock, held while this process writes to the store.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

impl Lock {
    /// Takes the lock; fails with [`StoreError::InUse`] if another process holds it.
    pub fn take(store: &Path) -> Result<Self, StoreError> {
        let path = lock_path(store);
        let unwritable =
            |error: std::io::Error| StoreError::ReadOnly { path: path.clone(), reason: error.to_string() };
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(unwritable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse(store.to_owned())),
            Err(TryLockError::Error(error)) => Err(unwritable(error)),
        }
    }
}

fn lock_path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
