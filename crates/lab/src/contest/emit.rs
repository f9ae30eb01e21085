//! Writes the times of all probes to files, so that the scores can be checked.
//!
//! A file has the probes of one policy on one source, including the one at the end of the test span. Each is
//! written under a temporary name and then renamed, so no file is incomplete. Must not know the scores.

use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

use tidewatch_core::time::Timestamp;

use crate::trace::{HEADER, Trace};

use super::results::{Results, runs};

/// The name of a file until it is complete.
const PARTIAL: &str = ".partial";

/// The reason why the times are not written.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// The name of a source is a path.
    #[error("the source {0:?} would be written outside of its folder; give its trace another name")]
    Outside(String),
    /// A file or folder cannot be written.
    #[error("{}: {why}", .path.display())]
    Unwritable {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        why: std::io::Error,
    },
}

/// Creates the folder and checks the names, so that errors occur before a long computation.
pub fn prepare(folder: &Path, traces: &[Trace]) -> Result<(), EmitError> {
    for trace in traces {
        let mut parts = Path::new(&trace.name).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            return Err(EmitError::Outside(trace.name.clone()));
        }
    }
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))
}

/// Writes the files: a folder per policy, within one per budget if there are several.
pub fn write(folder: &Path, traces: &[Trace], all: &[Results]) -> Result<(), EmitError> {
    for results in all {
        let folder = match all.len() {
            1 => folder.to_owned(),
            _ => folder.join(results.budget.probes.to_string()),
        };
        for entrant in &results.contest.entrants {
            let folder = folder.join(entrant.policy.name());
            std::fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, error))?;
            for (index, run) in runs(entrant) {
                let (Some(trace), Some(test_span)) =
                    (traces.get(index), results.contest.test_spans.get(index))
                else {
                    continue;
                };
                let (partial, file) = (folder.join(PARTIAL), folder.join(format!("{}.csv", trace.name)));
                let written = std::fs::write(&partial, text(&run.probes, test_span.to));
                written
                    .and_then(|()| std::fs::rename(&partial, &file))
                    .map_err(|error| unwritable(&file, error))?;
            }
        }
    }
    Ok(())
}

fn unwritable(path: &Path, why: std::io::Error) -> EmitError {
    EmitError::Unwritable { path: path.to_owned(), why }
}

/// The times, including the end.
fn text(probes: &[Timestamp], end: Timestamp) -> String {
    let mut text = format!("{HEADER}\n");
    let place = probes.partition_point(|&at| at < end);
    let added = (probes.get(place) != Some(&end)).then_some(&end);
    for at in probes[..place].iter().chain(added).chain(&probes[place..]) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", seconds(*at));
    }
    text
}

/// Unix seconds, with as many decimals as needed.
fn seconds(at: Timestamp) -> String {
    let (whole, thousandths) = (at.as_millis().div_euclid(1000), at.as_millis().rem_euclid(1000));
    match thousandths {
        0 => whole.to_string(),
        _ => format!("{whole}.{thousandths:03}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    #[test]
    fn end_of_the_span_is_written_once() {
        let at = |millis: i64| Timestamp::from_millis(1_794_787_200_000 + millis);
        let written = |probes: &[i64], end: i64| {
            text(&probes.iter().map(|&millis| at(millis)).collect::<Vec<_>>(), at(end))
        };
        assert_eq!(written(&[0, 1500], 2000), "unix_time\n1794787200\n1794787201.5\n1794787202\n");
        assert_eq!(written(&[0, 2000], 2000), "unix_time\n1794787200\n1794787202\n");
        assert_eq!(written(&[0, 3001], 2000), "unix_time\n1794787200\n1794787202\n1794787203.001\n");
        assert_eq!(written(&[], 40), "unix_time\n1794787200.04\n");
    }

    #[test]
    fn names_that_are_paths_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let named = |name: &str| {
            let trace = Trace::new(name, "", Vec::new());
            prepare(folder.path(), &[trace])
        };
        for name in ["..", ".", "", "/etc", "../x", "a/b", "/"] {
            assert!(named(name).is_err(), "{name:?}");
        }
        for name in ["a", "a b", "...", "ä..b"] {
            assert!(named(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn every_run_has_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let (traces, results) = results(&[("auto", 20_000), ("oracle", 1), ("uniform", 43_200)]);
        prepare(&folder.path().join("new/here"), &traces).unwrap();
        write(folder.path(), &traces, &[results]).unwrap();
        let read = |path: &str| std::fs::read_to_string(folder.path().join(path)).unwrap();
        assert_eq!(read("uniform/c.csv").lines().count(), 1 + 4);
        assert!(read("uniform/a<b>.csv").starts_with("unix_time\n"));
        assert_eq!(std::fs::read_dir(folder.path().join("oracle")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(folder.path().join("auto")).unwrap().count(), 3);
    }
}
