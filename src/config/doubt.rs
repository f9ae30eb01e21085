//! Changes of the source list that are probably a mistake, such as a half-written file or a folder that is not mounted.
//!
//! Compares two configurations. Must not know what follows from a doubt.

use super::configuration::Config;
use super::diff::Diff;

/// Lists with fewer sources may lose any share of them.
const LEAST_SOURCES: usize = 20;

/// Why the change is probably a mistake, if it is.
pub fn doubt(old: &Config, new: &Config, diff: &Diff) -> Option<String> {
    let beside = |config: &Config| config.files.len().saturating_sub(1);
    if beside(old) > 0 && beside(new) == 0 {
        let folder = old.files.last().and_then(|file| file.parent()).unwrap_or("sources.d".as_ref());
        return Some(format!("{} held {} files and holds none now", folder.display(), beside(old)));
    }
    let (gone, all) = (diff.removed.len(), old.sources.len());
    (all >= LEAST_SOURCES && 2 * gone > all).then(|| format!("{gone} of {all} sources would be removed"))
}

#[cfg(test)]
mod tests {
    use super::super::diff::diff;
    use super::*;

    fn config(sources: std::ops::Range<usize>, files: usize) -> Config {
        let source = |n| format!("[[source]]\nname = \"{n}\"\nurl = \"https://example.org/{n}\"\n");
        let mut texts = vec![("t.toml".into(), sources.map(source).collect())];
        texts.extend((1..files).map(|n| (format!("sources.d/{n}.toml").into(), String::new())));
        super::super::valid::parse(&texts).unwrap_or_else(|faults| panic!("{faults}"))
    }

    fn doubted(old: &Config, new: &Config) -> Option<String> {
        doubt(old, new, &diff(old, new))
    }

    #[test]
    fn the_loss_of_more_than_half_of_a_long_list_is_doubted() {
        let old = config(0..20, 1);
        assert_eq!(doubted(&old, &config(10..40, 1)), None, "half of it");
        let why = doubted(&old, &config(11..40, 1));
        assert_eq!(why.as_deref(), Some("11 of 20 sources would be removed"));
        assert_eq!(doubted(&config(0..19, 1), &config(0..0, 1)), None, "a short list");
    }

    #[test]
    fn the_loss_of_all_files_beside_is_doubted() {
        let (old, new) = (config(0..3, 3), config(0..3, 1));
        assert_eq!(doubted(&old, &new).as_deref(), Some("sources.d held 2 files and holds none now"));
        assert_eq!(doubted(&old, &config(0..3, 2)), None);
        assert_eq!(doubted(&new, &new), None);
    }
}
