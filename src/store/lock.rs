//! One daemon per store.
//!
//! A lock on a file beside the store, held as long as the process lives; the system lets go of it
//! however the process ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use super::StoreError;

/// Held while this process is the store's daemon.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

impl Lock {
    /// Takes the lock, or says who is in the way.
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
