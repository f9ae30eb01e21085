//! The files of a store: where they are, whom they belong to, and whether they are still those that were opened.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::StoreError;

/// Links that are followed from one to the next.
const MOST_LINKS: usize = 40;

/// The path with a suffix, such as `-wal`.
pub(super) fn with_suffix(store: &Path, suffix: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The path without links, as SQLite resolves it. The file itself need not exist.
pub(super) fn real_path(store: &Path) -> PathBuf {
    let mut path = store.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(target) => path = folder_of(&path).join(target),
            Err(_) => break,
        }
    }
    match (folder_of(&path).canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// The folder of a file.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Gives a file that root has made to the owner of its folder. Otherwise a service with a user of its own could not
/// write it. Where root may not do that, the file stays as it is.
pub(super) fn give_to_owner_of_folder(path: &Path) {
    let folder = std::fs::metadata(folder_of(path));
    let _ = folder.and_then(|folder| give_to_owner_of(path, &folder));
}

/// The same, with the owner of this other file or folder.
pub(super) fn give_to_owner_of(path: &Path, model: &Metadata) -> io::Result<()> {
    let made = std::fs::metadata(path)?;
    if geteuid().is_root() && (made.uid(), made.gid()) != (model.uid(), model.gid()) {
        chown(path, Some(model.uid()), Some(model.gid()))?;
    }
    Ok(())
}

/// The error of a file of the store that another user owns, if there is one.
pub(super) fn of_another_user(store: &Path) -> Option<StoreError> {
    let user = geteuid();
    let store = real_path(store);
    let files = ["", "-wal", "-shm", ".lock"].map(|suffix| with_suffix(&store, suffix));
    let owner = |path: &Path| std::fs::metadata(path).ok().map(|file| file.uid());
    files.into_iter().filter(|_| !user.is_root()).find_map(|path| {
        let owner = owner(&path).filter(|&owner| owner != user.as_raw())?;
        let folder = folder_of(&path).to_owned();
        Some(StoreError::OfAnotherUser { path, owner, user: user.as_raw(), folder })
    })
}

/// The files of an opened store, as they were then.
#[derive(Debug, Clone)]
pub struct OpenedFiles(Vec<(PathBuf, FileNumber)>);

/// The device and the number of a file on it.
type FileNumber = (u64, u64);

fn number(path: &Path) -> io::Result<FileNumber> {
    std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

impl OpenedFiles {
    /// Those of this store, which is open.
    pub fn of(store: &Path) -> Self {
        let store = real_path(store);
        let files = ["", "-wal", ".lock"].map(|suffix| with_suffix(&store, suffix));
        Self(files.into_iter().filter_map(|path| Some((path.clone(), number(&path).ok()?))).collect())
    }

    /// Fails if a file was deleted or replaced since. A folder that cannot be read for a moment is no such case.
    pub fn check(&self) -> Result<(), StoreError> {
        let is_other = |(path, opened): &&(PathBuf, FileNumber)| match number(path) {
            Ok(found) => found != *opened,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        match self.0.iter().find(is_other) {
            Some((path, _)) => Err(StoreError::Replaced(path.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_to_files_and_folders_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let real = root.join("real");
        std::fs::create_dir(&real).unwrap();
        symlink(&real, root.join("link")).unwrap();
        symlink("link/t.db", root.join("first.db")).unwrap();
        symlink("first.db", root.join("second.db")).unwrap();
        for exists in [false, true] {
            for path in ["real/t.db", "link/t.db", "first.db", "second.db"] {
                assert_eq!(real_path(&root.join(path)), real.join("t.db"), "{path}, {exists}");
            }
            std::fs::write(real.join("t.db"), "").unwrap();
        }
    }

    #[test]
    fn a_file_that_was_deleted_or_replaced_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("t.db");
        let files = ["", "-wal", ".lock"].map(|suffix| with_suffix(&store, suffix));
        for file in &files {
            std::fs::write(file, "x").unwrap();
        }
        let opened = OpenedFiles::of(&store);
        for file in &files {
            opened.check().unwrap();
            let away = folder.path().join("away");
            std::fs::rename(file, &away).unwrap();
            let deleted = opened.check().unwrap_err().to_string();
            assert!(deleted.starts_with(&format!("{}: ", real_path(file).display())), "{deleted}");
            std::fs::write(file, "x").unwrap();
            assert!(matches!(opened.check(), Err(StoreError::Replaced(_))), "another file");
            std::fs::rename(&away, file).unwrap();
        }
        opened.check().unwrap();
    }
}
