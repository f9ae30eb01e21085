//! Finds and reads the files.
//!
//! The only part of the configuration that touches the disk. It knows the default paths; it must not
//! know the content of the files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tidewatch_core::model::steps::Steps;

use super::configuration::Config;
use super::curves::{self, Curve};
use super::fault::Faults;
use super::profile::RulesConfig;
use super::{merge, valid};

/// Default paths of the main file.
const PLACES: [&str; 2] = ["tidewatch.toml", "/etc/tidewatch/tidewatch.toml"];

/// Why no configuration was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The files have faults.
    #[error("{0}")]
    Faults(Faults),
    /// No file at the default paths.
    #[error(
        "there is no configuration: looked for {}; write one there, or name it with --config",
        .0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
    )]
    Nowhere(Vec<PathBuf>),
    /// A file or folder can't be read.
    #[error("{} can't be read; {}", .path.display(), advice(.source))]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not UTF-8.
    #[error("{} is not UTF-8 text (line {line}); save it as UTF-8", .path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first line that is not UTF-8.
        line: usize,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "let the user that runs tidewatch read it",
        io::ErrorKind::IsADirectory => "name a file in it",
        _ => "check the path and the disk",
    }
}

/// The path of the main file: the given one, or the first default path that exists.
pub fn find(explicit: Option<&Path>) -> Result<PathBuf, LoadError> {
    find_among(explicit, &PLACES.map(PathBuf::from))
}

fn find_among(explicit: Option<&Path>, places: &[PathBuf]) -> Result<PathBuf, LoadError> {
    if let Some(path) = explicit {
        return Ok(path.to_owned());
    }
    // A file whose existence cannot be checked counts as found; reading it then gives the reason.
    let there = |path: &&PathBuf| path.try_exists().unwrap_or(true);
    places.iter().find(there).cloned().ok_or_else(|| LoadError::Nowhere(places.to_vec()))
}

/// Reads the main file and `sources.d/*.toml` beside it.
pub fn load(path: &Path) -> Result<Config, LoadError> {
    load_again(path, None)
}

/// Like [`load`], but shares unchanged sources with `before`.
pub fn load_again(path: &Path, before: Option<&Config>) -> Result<Config, LoadError> {
    let mut files = vec![path.to_owned()];
    files.extend(beside(&path.with_file_name("sources.d"))?);
    let text = |path: &Path| read_text(path).map(|(_, text)| text);
    match merge::merge_files(&files, text, before)? {
        Some(config) => Ok(config),
        // Parses all texts together, to show each fault at its place.
        None => valid::parse(&read(path)?).map_err(LoadError::Faults),
    }
}

/// Reads rate and importance files, each with its kind of curve. Faults of all files are reported
/// together.
pub fn curves(files: &[(Curve, &Path)]) -> Result<Vec<Steps>, LoadError> {
    let mut texts = Vec::with_capacity(files.len());
    for &(curve, path) in files {
        let (path, text) = read_text(path)?;
        texts.push((curve, path, text));
    }
    curves::parse(&texts).map_err(LoadError::Faults)
}

/// Reads a file of profiles. `sources` are pairs of name and group.
pub fn profiles(path: &Path, sources: &[(&str, &str)]) -> Result<RulesConfig, LoadError> {
    valid::profiles(read_text(path)?, sources).map_err(LoadError::Faults)
}

/// The texts of the main file and of `sources.d/*.toml` beside it, sorted by name.
pub fn read(path: &Path) -> Result<Vec<(PathBuf, String)>, LoadError> {
    let mut files = vec![read_text(path)?];
    for beside in beside(&path.with_file_name("sources.d"))? {
        files.push(read_text(&beside)?);
    }
    Ok(files)
}

fn read_text(path: &Path) -> Result<(PathBuf, String), LoadError> {
    let bytes = fs::read(path).map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((path.to_owned(), text)),
        Err(error) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
            Err(LoadError::NotText { path: path.to_owned(), line })
        }
    }
}

fn beside(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        // A link whose target is missing is there.
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(folder).is_err() => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|extension| extension == "toml") && !path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str) -> String {
        format!("[[source]]\nname = \"{name}\"\nurl = \"https://example.org/{name}\"\n")
    }

    #[test]
    fn files_beside_are_read_in_order_of_name() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("tidewatch.toml");
        fs::write(&main, source("main")).unwrap();
        let beside = folder.path().join("sources.d");
        fs::create_dir(&beside).unwrap();
        for (file, name) in [("20-b.toml", "b"), ("10-a.toml", "a"), (".hidden.toml", "h"), ("c.txt", "c")]
        {
            fs::write(beside.join(file), source(name)).unwrap();
        }
        let config = load(&main).unwrap();
        let names: Vec<&str> = config.sources.iter().map(|source| &*source.name).collect();
        assert_eq!(names, ["main", "a", "b"]);
        assert_eq!(config.files.len(), 3);
        assert_eq!(config.files[0], main);
    }

    #[test]
    fn faults_of_all_files_are_reported_together() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("tidewatch.toml");
        fs::write(&main, "[fleet]\nstep = \"0s\"\n").unwrap();
        fs::create_dir(folder.path().join("sources.d")).unwrap();
        fs::write(folder.path().join("sources.d/a.toml"), "[fleet]\n").unwrap();
        let Err(LoadError::Faults(faults)) = load(&main) else { panic!("expected faults") };
        let files: Vec<usize> = faults.list().iter().map(|fault| fault.at.file).collect();
        assert_eq!(files, [0, 1]);
    }

    #[test]
    fn an_unreadable_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("no.toml");
        let error = load(&missing).unwrap_err().to_string();
        assert!(error.contains("no.toml can't be read; check the path"), "{error}");
        let latin = folder.path().join("latin.toml");
        fs::write(&latin, b"# fine\n# caf\xe9\n").unwrap();
        let error = load(&latin).unwrap_err().to_string();
        assert!(error.contains("latin.toml is not UTF-8 text (line 2)"), "{error}");
    }

    #[test]
    fn a_folder_beside_that_cannot_be_read_is_no_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("tidewatch.toml");
        fs::write(&main, source("main")).unwrap();
        let beside = folder.path().join("sources.d");
        let refused = || load(&main).unwrap_err().to_string();
        std::os::unix::fs::symlink(folder.path().join("unmounted"), &beside).unwrap();
        assert!(refused().contains("sources.d can't be read; check the path"), "{}", refused());
        fs::remove_file(&beside).unwrap();
        fs::write(&beside, "").unwrap();
        assert!(refused().contains("sources.d can't be read"), "{}", refused());
        fs::remove_file(&beside).unwrap();
        assert!(load(&main).is_ok());
    }

    #[test]
    fn the_named_file_wins_then_the_first_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().join("a.toml"), folder.path().join("b.toml")];
        let named = Path::new("x.toml");
        assert_eq!(find_among(Some(named), &places).unwrap(), named);
        assert!(matches!(find_among(None, &places), Err(LoadError::Nowhere(_))));
        fs::write(&places[1], "").unwrap();
        assert_eq!(find_among(None, &places).unwrap(), places[1]);
    }
}
