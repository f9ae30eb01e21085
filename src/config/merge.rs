//! Reads the files one after another into one configuration.
//!
//! Files are parsed in parts, and each file's text is dropped before the next one is read, because a million sources
//! need much memory. On a reload, unchanged parts are not parsed again, and unchanged sources are shared with the
//! old configuration. This module only detects that something is wrong. The caller then parses all
//! files together to say where.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::allowance::Allowance;
use super::configuration::Config;
use super::diff::same;
use super::fault::{Faults, Spot};
use super::origin::{ConfigOrigin, Defaults, ReadPart, spends};
use super::parts::parts;
use super::raw::Raw;
use super::source::{self, GroupDefaults, SourceConfig, Surroundings};
use super::source_settings::Common;
use super::valid::{GroupIndex, Longest, assemble};

/// Reads and checks the files, the main file first. `before` is the current configuration, if any.
/// `None`: a file has a fault.
pub fn merge_files<E>(
    files: &[PathBuf],
    read: impl Fn(&Path) -> Result<String, E>,
    before: Option<&Config>,
) -> Result<Option<Config>, E> {
    let mut before = EarlierConfig::new(before);
    let mut groups = None;
    // At most three passes: the first, one with all groups known, one without reused parts.
    for _ in 0..3 {
        match pass(files, &read, &before, groups.clone())? {
            Pass::Good(config) => return Ok(Some(*config)),
            Pass::Bad => return Ok(None),
            Pass::Again(known) => groups = Some(known),
            Pass::Afresh => before.parts.clear(),
        }
    }
    Ok(None)
}

/// The current configuration, indexed for reuse.
#[derive(Default)]
struct EarlierConfig<'b> {
    by_name: HashMap<&'b str, &'b Arc<SourceConfig>>,
    sources: &'b [Arc<SourceConfig>],
    defaults: Defaults,
    /// Index range of the sources of the part with that digest.
    parts: HashMap<[u8; 32], Range<usize>>,
}

impl<'b> EarlierConfig<'b> {
    fn new(config: Option<&'b Config>) -> Self {
        let Some(config) = config else { return Self::default() };
        let mut parts = HashMap::new();
        let mut from = 0;
        for part in &config.origin.parts {
            let range = from..from + part.sources;
            from = range.end;
            parts.extend(part.digest.map(|digest| (digest, range)));
        }
        Self {
            by_name: config.sources.iter().map(|source| (&*source.name, source)).collect(),
            sources: &config.sources,
            defaults: config.origin.defaults.clone(),
            parts,
        }
    }
}

/// Result of one pass over the files.
enum Pass {
    Good(Box<Config>),
    Bad,
    /// A source names a group that is not declared before it. Carries the declared groups.
    Again(HashMap<String, GroupDefaults>),
    /// Parts were reused, but the defaults of their sources have changed.
    Afresh,
}

fn pass<E>(
    files: &[PathBuf],
    read: impl Fn(&Path) -> Result<String, E>,
    before: &EarlierConfig<'_>,
    groups: Option<HashMap<String, GroupDefaults>>,
) -> Result<Pass, E> {
    let main = files.first().map_or(Path::new(""), PathBuf::as_path);
    let mut faults = Faults::default();
    let mut settings = Raw::default();
    let mut declared = GroupIndex::default();
    let mut longest = Longest(None);
    let mut around = Surroundings {
        allowance: Allowance::default(),
        // Until all groups are known, no group is reported as missing.
        incomplete: groups.is_none(),
        groups: groups.unwrap_or_default(),
        common: Common::default(),
    };
    let mut names = Names::default();
    let mut sources: Vec<Arc<SourceConfig>> = Vec::with_capacity(before.sources.len());
    let mut origin = Vec::with_capacity(files.len());
    let (mut early, mut reused) = (false, false);
    for (index, path) in files.iter().enumerate() {
        let text = read(path)?;
        let parts = parts(&text);
        for (number, &part) in parts.iter().enumerate() {
            let (main_part, first) = (index == 0 && number == 0, sources.len());
            let digest: Option<[u8; 32]> = (!main_part).then(|| Sha256::digest(part).into());
            let as_before = digest.and_then(|digest| before.parts.get(&digest));
            if let Some(range) = as_before.filter(|_| spends(&around.allowance) == before.defaults.spends) {
                reused = true;
                for source in &before.sources[range.clone()] {
                    if !names.take(&source.name) {
                        return Ok(Pass::Bad);
                    }
                    longest.note_per(source.budget.per, Spot { file: index, start: 0, end: 0 });
                    sources.push(Arc::clone(source));
                }
                origin.push(ReadPart { digest, sources: sources.len() - first });
                continue;
            }
            let mut raw = Raw::default();
            raw.read_file(index, part, main, &mut faults);
            if main_part {
                around.allowance = Allowance::common(&raw.budget, &raw.fleet, &mut faults);
                longest = Longest(around.allowance.per());
            }
            let only_sources = raw.groups.is_empty();
            for group in std::mem::take(&mut raw.groups) {
                let name = group.name.value.clone();
                declared.declare(group, &around.allowance, &mut longest, &mut faults);
                if let Some(defaults) = declared.known.get(&name) {
                    around.groups.insert(name, defaults.clone());
                }
            }
            for source in std::mem::take(&mut raw.sources) {
                let taken = source.name.as_ref().is_some_and(|name| !names.take(&name.value));
                early |=
                    source.group.as_ref().is_some_and(|group| !around.groups.contains_key(&group.value));
                let checked = source::check(source, &around, &mut faults).filter(|_| !taken);
                let Some((source, allowance)) = checked.filter(|_| faults.is_empty()) else {
                    return Ok(Pass::Bad);
                };
                longest.note(&allowance);
                let known = before.by_name.get(&*source.name).filter(|known| same(known, &source));
                sources.push(known.map_or_else(|| Arc::new(source), |known| Arc::clone(known)));
            }
            if !faults.is_empty() {
                return Ok(Pass::Bad);
            }
            let digest = digest.filter(|_| only_sources);
            origin.push(ReadPart { digest, sources: sources.len() - first });
            if main_part {
                settings = raw;
            }
        }
    }
    let defaults = Defaults::new(&around);
    if reused && defaults != before.defaults {
        return Ok(Pass::Afresh);
    }
    if early && around.incomplete && !around.groups.is_empty() {
        return Ok(Pass::Again(around.groups));
    }
    sources.shrink_to_fit();
    let mut config = assemble(
        settings,
        files.to_vec(),
        sources,
        (&longest, around.allowance.common_price()),
        &mut faults,
    );
    config.origin = ConfigOrigin { defaults, parts: origin };
    Ok(if faults.is_empty() { Pass::Good(Box::new(config)) } else { Pass::Bad })
}

/// Hashes of the names in use; the names of a million sources would take most of the memory. A hash
/// collision costs only time: the full parse then finds no fault.
#[derive(Default)]
struct Names {
    taken: HashSet<u64>,
    hasher: RandomState,
}

impl Names {
    /// Adds a name. Returns false if it is already in use.
    fn take(&mut self, name: &str) -> bool {
        self.taken.insert(self.hasher.hash_one(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(texts: &[&str], before: Option<&Config>) -> Option<Config> {
        let paths: Vec<PathBuf> = (0..texts.len()).map(|index| index.to_string().into()).collect();
        let text = |path: &Path| -> Result<String, ()> {
            let index: usize = path.to_str().and_then(|name| name.parse().ok()).ok_or(())?;
            Ok(texts[index].to_owned())
        };
        merge_files(&paths, text, before).expect("all can be read")
    }

    fn together(texts: &[&str]) -> Option<Config> {
        let files: Vec<(PathBuf, String)> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| (index.to_string().into(), (*text).to_owned()))
            .collect();
        super::super::valid::parse(&files).ok()
    }

    const ONE: &str = "[[source]]\nname = 'a'\nurl = 'https://example.org/a'\ngroup = 'news'\n";
    const TWO: &str = "[[source]]\nname = 'b'\nurl = 'https://example.org/b'\n";
    /// Many sources, the first with this name.
    fn many(first: &str) -> String {
        let names = std::iter::once(first.to_owned()).chain((1..2000).map(|number| number.to_string()));
        names.map(|name| TWO.replace("'b'", &format!("'{name}'"))).collect()
    }

    #[test]
    fn one_large_file_is_read_in_parts_to_the_same_result() {
        for settings in ["", "[budget]\nprobes = 9\n", NEWS] {
            let (before, after) = (many("x"), many("y"));
            let text = format!("{settings}{before}");
            let (merged_before, together) = (merged(&[&text], None).unwrap(), together(&[&text]).unwrap());
            assert!(merged_before.origin.parts.len() > 3);
            assert_eq!(merged_before.sources.len(), 2000);
            for (one, other) in merged_before.sources.iter().zip(&together.sources) {
                assert!(same(one, other), "{one:?} and {other:?}");
            }
            let merged_after = merged(&[&format!("{settings}{after}")], Some(&merged_before)).unwrap();
            assert_eq!(&*merged_after.sources[0].name, "y");
            for (one, other) in merged_after.sources.iter().zip(&merged_before.sources).skip(1) {
                assert!(Arc::ptr_eq(one, other));
            }
        }
    }

    #[test]
    fn faults_are_found_when_a_large_file_is_read_in_parts() {
        let (good, again) = (many("x"), many("1"));
        let list = format!("source = [{{ name = 'z', url = 'https://example.org' }}]\n{good}");
        for text in [&again, &list, &format!("[source]\nname = 'z'\n{good}"), &format!("{good}x")] {
            assert!(merged(&[text], None).is_none() && together(&[text]).is_none());
        }
    }

    const NEWS: &str = "[group.news]\npolicy = 'uniform'\nbudget = { probes = 3, per = '1d' }\n";

    #[test]
    fn reading_one_by_one_gives_the_same_as_reading_together() {
        for texts in
            [&[ONE, TWO][..], &[TWO, NEWS, ONE], &["", ONE, TWO, NEWS], &["[budget]\nprobes = 9\n", TWO]]
        {
            let (merged, together) = (merged(texts, None).unwrap(), together(texts).unwrap());
            assert_eq!(merged.files, together.files);
            assert_eq!(merged.sources.len(), together.sources.len());
            for (one, other) in merged.sources.iter().zip(&together.sources) {
                assert!(same(one, other), "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn faults_are_found_when_reading_one_by_one() {
        let other = NEWS.replace("news", "other");
        for texts in
            [&[ONE, ONE][..], &[ONE, &other], &[&other, ONE], &[NEWS, NEWS], &["", "[fleet]\n"], &["x"]]
        {
            assert!(merged(texts, None).is_none() && together(texts).is_none(), "{texts:?}");
        }
    }

    #[test]
    fn unchanged_sources_are_shared() {
        let before = merged(&[ONE, TWO], None).unwrap();
        let longer = TWO.replace("/b", "/c");
        let after = merged(&[&longer, ONE], Some(&before)).unwrap();
        assert!(Arc::ptr_eq(&after.sources[1], &before.sources[0]));
        assert_eq!(after.sources[0].url.as_str(), "https://example.org/c");
    }

    #[test]
    fn an_unchanged_file_follows_changed_defaults() {
        let files = ["[budget]\nprobes = 9\n", NEWS, ONE, TWO];
        let before = merged(&files, None).unwrap();
        let as_before = merged(&files, Some(&before)).unwrap();
        for (one, other) in as_before.sources.iter().zip(&before.sources) {
            assert!(Arc::ptr_eq(one, other));
        }
        let fewer = ["[budget]\nprobes = 8\n", NEWS, ONE, TWO];
        assert_eq!(merged(&fewer, Some(&before)).unwrap().sources[1].budget.probes, 8);
        let news = NEWS.replace("= 3", "= 2");
        let other_group = [files[0], &news, ONE, TWO];
        let after = merged(&other_group, Some(&before)).unwrap();
        assert_eq!((after.sources[0].budget.probes, after.sources[1].budget.probes), (2, 9));
        let without_group = [files[0], ONE, TWO];
        assert_eq!(merged(&without_group, Some(&before)).unwrap().sources[0].budget.probes, 9);
        let twice = [files[0], NEWS, ONE, TWO, &format!("{TWO}\n")];
        assert!(merged(&twice, Some(&before)).is_none(), "the same name in two files");
    }
}
