//! Files, one after another, become one configuration.
//!
//! Exists so that a million sources are never held as text, as what was written and as what it
//! means all at once: each file is let go before the next one is read, and a source that is as it
//! was in the configuration before is kept only once. Knows how to tell that all is well, and
//! nothing else: where something is wrong, whoever asked reads all files together and says where.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::allowance::Allowance;
use super::diff::same;
use super::fault::Faults;
use super::raw::Raw;
use super::source::{self, Common, GroupDefaults, Surroundings};
use super::valid::{Groups, Longest, assemble};
use super::{Config, Source};

/// Reads and checks the files, the main one first; `before` is the configuration so far, if there
/// is one. `None`: something is wrong with them.
pub fn gather<E>(
    files: &[PathBuf],
    read: impl Fn(&Path) -> Result<String, E>,
    before: &[Arc<Source>],
) -> Result<Option<Config>, E> {
    let before = before.iter().map(|source| (source.name.as_str(), source)).collect();
    let groups = match pass(files, &read, &before, None)? {
        Pass::Good(config) => return Ok(Some(*config)),
        Pass::Bad => return Ok(None),
        Pass::Again(groups) => groups,
    };
    match pass(files, &read, &before, Some(groups))? {
        Pass::Good(config) => Ok(Some(*config)),
        Pass::Bad | Pass::Again(_) => Ok(None),
    }
}

/// What came of reading the files.
enum Pass {
    Good(Box<Config>),
    Bad,
    /// A source is in a group that was declared after it, if at all. Those that were.
    Again(HashMap<String, GroupDefaults>),
}

fn pass<E>(
    files: &[PathBuf],
    read: impl Fn(&Path) -> Result<String, E>,
    before: &HashMap<&str, &Arc<Source>>,
    groups: Option<HashMap<String, GroupDefaults>>,
) -> Result<Pass, E> {
    let main = files.first().map_or(Path::new(""), PathBuf::as_path);
    let mut faults = Faults::default();
    let mut settings = Raw::default();
    let mut declared = Groups::default();
    let mut longest = Longest(None);
    let mut around = Surroundings {
        allowance: Allowance::default(),
        // While not all groups are known, none is missing.
        torn: groups.is_none(),
        groups: groups.unwrap_or_default(),
        common: Common::default(),
    };
    let mut names = Names::default();
    let mut sources: Vec<Arc<Source>> = Vec::with_capacity(before.len());
    let mut early = false;
    for (index, path) in files.iter().enumerate() {
        let mut raw = Raw::default();
        raw.read_file(index, &read(path)?, main, &mut faults);
        if index == 0 {
            around.allowance = Allowance::everyones(&raw.budget, &mut faults);
            longest = Longest(around.allowance.per());
        }
        for group in std::mem::take(&mut raw.groups) {
            let name = group.name.value.clone();
            declared.declare(group, &around.allowance, &mut longest, &mut faults);
            if let Some(defaults) = declared.known.get(&name) {
                around.groups.insert(name, defaults.clone());
            }
        }
        for source in std::mem::take(&mut raw.sources) {
            let taken = source.name.as_ref().is_some_and(|name| !names.take(&name.value));
            early |= source.group.as_ref().is_some_and(|group| !around.groups.contains_key(&group.value));
            let checked = source::check(source, &around, &mut faults).filter(|_| !taken);
            let Some((source, allowance)) = checked.filter(|_| faults.is_empty()) else {
                return Ok(Pass::Bad);
            };
            longest.note(&allowance);
            let known = before.get(source.name.as_str()).filter(|known| same(known, &source));
            sources.push(known.map_or_else(|| Arc::new(source), |known| Arc::clone(known)));
        }
        if !faults.is_empty() {
            return Ok(Pass::Bad);
        }
        if index == 0 {
            settings = raw;
        }
    }
    if early && around.torn && !around.groups.is_empty() {
        return Ok(Pass::Again(around.groups));
    }
    sources.shrink_to_fit();
    let config = assemble(settings, files.to_vec(), sources, &longest, &mut faults);
    Ok(if faults.is_empty() { Pass::Good(Box::new(config)) } else { Pass::Bad })
}

/// Names that are taken, by hash: of a million, the names themselves would be most of the memory.
/// That two names share a hash is as good as impossible; and then nothing is lost but time, since
/// what seems bad is looked at again.
#[derive(Default)]
struct Names {
    taken: HashSet<u64>,
    hasher: RandomState,
}

impl Names {
    /// Takes a name, unless it is taken.
    fn take(&mut self, name: &str) -> bool {
        self.taken.insert(self.hasher.hash_one(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(texts: &[&str], before: &[Arc<Source>]) -> Option<Config> {
        let paths: Vec<PathBuf> = (0..texts.len()).map(|index| index.to_string().into()).collect();
        let text = |path: &Path| -> Result<String, ()> {
            let index: usize = path.to_str().and_then(|name| name.parse().ok()).ok_or(())?;
            Ok(texts[index].to_owned())
        };
        gather(&paths, text, before).expect("all can be read")
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
    const NEWS: &str = "[group.news]\npolicy = 'uniform'\nbudget = { probes = 3, per = '1d' }\n";

    #[test]
    fn one_after_another_is_as_good_as_together() {
        for texts in
            [&[ONE, TWO][..], &[TWO, NEWS, ONE], &["", ONE, TWO, NEWS], &["[budget]\nprobes = 9\n", TWO]]
        {
            let (gathered, together) = (gathered(texts, &[]).unwrap(), together(texts).unwrap());
            assert_eq!(gathered.files, together.files);
            assert_eq!(gathered.sources.len(), together.sources.len());
            for (one, other) in gathered.sources.iter().zip(&together.sources) {
                assert!(same(one, other), "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn what_is_bad_together_is_bad_one_after_another() {
        let other = NEWS.replace("news", "other");
        for texts in
            [&[ONE, ONE][..], &[ONE, &other], &[&other, ONE], &[NEWS, NEWS], &["", "[fleet]\n"], &["x"]]
        {
            assert!(gathered(texts, &[]).is_none() && together(texts).is_none(), "{texts:?}");
        }
    }

    #[test]
    fn what_is_as_before_is_kept_once() {
        let before = gathered(&[ONE, TWO], &[]).unwrap();
        let longer = TWO.replace("/b", "/c");
        let after = gathered(&[&longer, ONE], &before.sources).unwrap();
        assert!(Arc::ptr_eq(&after.sources[1], &before.sources[0]));
        assert_eq!(after.sources[0].url.as_str(), "https://example.org/c");
    }
}
