//! Difference between two configurations.
//!
//! A reload reports the difference, applies only what changed, and refuses settings that need a
//! restart. This module compares every setting. It must not know how a change is applied.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::configuration::Config;
use super::renames::renames;
use super::source::SourceConfig;

/// Changes from an old configuration to a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// Names of new sources, in the new order.
    pub added: Vec<String>,
    /// Names of removed sources, in the old order.
    pub removed: Vec<String>,
    /// Sources with another name and the same address, kind and rules: the old and the new name.
    pub renamed: Vec<(String, String)>,
    /// Names of sources with other settings, in the new order.
    pub changed: Vec<String>,
    /// Changed settings that need a restart.
    pub needs_restart: Vec<String>,
    /// Changed settings that apply at run time.
    pub other: Vec<String>,
}

impl Diff {
    /// Turns sources that vanished and appeared into renamed ones, where that is unambiguous.
    fn pair_renamed(&mut self, old: &Config, new: &Config) {
        let names = |list: &[String]| list.iter().cloned().collect::<HashSet<String>>();
        let (gone, added) = (names(&self.removed), names(&self.added));
        let keys = |config: &Config, names: &HashSet<String>| -> Vec<_> {
            let named = config.sources.iter().filter(|source| names.contains(&*source.name));
            let key = |it: &Arc<SourceConfig>| (it.url.as_str().to_owned(), it.kind, it.page_read_as());
            named.map(|source| (key(source), source.name.to_string())).collect()
        };
        self.renamed = renames(keys(old, &gone), keys(new, &added));
        let (before, after): (HashSet<&str>, HashSet<&str>) =
            self.renamed.iter().map(|(old, new)| (old.as_str(), new.as_str())).unzip();
        self.removed.retain(|name| !before.contains(name.as_str()));
        self.added.retain(|name| !after.contains(name.as_str()));
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares two configurations.
pub fn diff(old: &Config, new: &Config) -> Diff {
    let mut diff = Diff::default();
    let before: HashMap<&str, &Arc<SourceConfig>> =
        old.sources.iter().map(|source| (&*source.name, source)).collect();
    let mut kept = 0;
    for source in &new.sources {
        let known = before.get(&*source.name);
        kept += usize::from(known.is_some());
        match known {
            None => diff.added.push(source.name.to_string()),
            Some(known) if !Arc::ptr_eq(known, source) && !same(known, source) => {
                diff.changed.push(source.name.to_string());
            }
            Some(_) => {}
        }
    }
    // Names are unique. If every old name is found again, none is removed.
    if kept < old.sources.len() {
        let after: HashSet<&str> = new.sources.iter().map(|source| &*source.name).collect();
        let gone = old.sources.iter().filter(|source| !after.contains(&*source.name));
        diff.removed.extend(gone.map(|source| source.name.to_string()));
    }
    if !diff.added.is_empty() && !diff.removed.is_empty() {
        diff.pair_renamed(old, new);
    }
    for (name, differs, restart) in settings(old, new) {
        if differs {
            let list = if restart { &mut diff.needs_restart } else { &mut diff.other };
            list.push(name.to_owned());
        }
    }
    diff
}

/// Every setting: its name, whether it differs, and whether a change needs a restart.
fn settings(old: &Config, new: &Config) -> [(&'static str, bool, bool); 38] {
    macro_rules! setting {
        ($section:ident . $field:ident) => {
            setting!($section.$field, false)
        };
        ($section:ident . $field:ident, $restart:literal) => {
            (
                concat!(stringify!($section), ".", stringify!($field)),
                old.$section.$field != new.$section.$field,
                $restart,
            )
        };
    }
    macro_rules! answer {
        ($field:ident) => {
            (concat!("burst.", stringify!($field)), old.fleet.burst.$field != new.fleet.burst.$field, false)
        };
    }
    [
        // The store is opened once at startup.
        setting!(daemon.store, true),
        setting!(daemon.contact),
        setting!(daemon.retain_probes),
        setting!(daemon.retain_updates),
        setting!(daemon.retain_events),
        setting!(fleet.step),
        setting!(fleet.probes_per_step),
        setting!(fleet.allocator),
        setting!(fleet.capacity),
        setting!(fleet.cost_by),
        setting!(fleet.host_spacing),
        ("fleet.probes or budget.price", old.fleet.pricing != new.fleet.pricing, false),
        setting!(fetch.max_body),
        setting!(fetch.max_items),
        setting!(fetch.connect_timeout),
        setting!(fetch.read_timeout),
        setting!(fetch.total_timeout),
        setting!(fetch.resolve),
        setting!(rate.cycle),
        setting!(rate.resolution),
        setting!(rate.refit_every),
        setting!(rate.half_life),
        setting!(rate.borrow),
        setting!(rate.individual_threshold),
        setting!(rate.freshness_threshold),
        setting!(rate.echoes),
        setting!(burst.test),
        setting!(burst.window),
        setting!(burst.threshold),
        setting!(burst.false_alarms),
        answer!(ttl_form),
        answer!(ttl_factor),
        answer!(reserve),
        setting!(importance.time_zone),
        setting!(importance.baseline),
        setting!(importance.windows),
        ("profiles", old.rules != new.rules, false),
        ("deliver", old.targets != new.targets, false),
    ]
}

/// Whether two sources have equal settings. The destructuring makes the compiler reject a forgotten
/// field.
pub(super) fn same(old: &SourceConfig, new: &SourceConfig) -> bool {
    let SourceConfig { name, url, settings } = new;
    old.name == *name && old.url == *url && old.settings == *settings
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.added.len(), "added"),
            (self.removed.len(), "removed"),
            (self.renamed.len(), "renamed"),
            (self.changed.len(), "changed"),
        ];
        let mut sources = String::new();
        for (count, verb) in counts.into_iter().filter(|&(count, _)| count > 0) {
            match sources.is_empty() {
                true if count == 1 => sources = format!("1 source {verb}"),
                true => sources = format!("{count} sources {verb}"),
                false => sources.push_str(&format!(", {count} {verb}")),
            }
        }
        let mut parts = Vec::new();
        if !sources.is_empty() {
            parts.push(sources);
        }
        if !self.other.is_empty() {
            parts.push(format!("{} changed", self.other.join(", ")));
        }
        if !self.needs_restart.is_empty() {
            let verb = if self.needs_restart.len() == 1 { "needs" } else { "need" };
            parts.push(format!("{} {verb} a restart", self.needs_restart.join(", ")));
        }
        if parts.is_empty() {
            return f.write_str("nothing changed");
        }
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        crate::config::valid::parse(&[("t.toml".into(), text.into())])
            .unwrap_or_else(|faults| panic!("{faults}"))
    }

    fn source(name: &str, rest: &str) -> String {
        format!("[[source]]\nname = \"{name}\"\nurl = \"https://example.org/{name}\"\n{rest}\n")
    }

    #[test]
    fn sources_in_another_order_are_no_difference() {
        let page = "kind = \"page\"\nselect = \"main\"\nignore = ['\\d+ views']";
        let one = config(&(source("a", page) + &source("b", "")));
        let other = config(&(source("b", "") + &source("a", page)));
        let diff = diff(&one, &other);
        assert!(diff.is_empty(), "{diff:?}");
        assert_eq!(diff.to_string(), "nothing changed");
    }

    #[test]
    fn sources_and_settings_are_reported_in_one_line() {
        let page = |pattern: &str| format!("kind = \"page\"\nignore = ['{pattern}']");
        let old = config(
            &(source("gone", "")
                + &source("kept", "")
                + &source("page", &page("x"))
                + &source("heavy", "")),
        );
        let new = config(
            &("[daemon]\nstore = \"else.db\"\n[fleet]\nstep = \"5s\"\n".to_owned()
                + &source("kept", "")
                + &source("page", &page("y"))
                + &source("heavy", "weight = 2.0")
                + &source("new", "")
                + &source("newer", "")),
        );
        let diff = diff(&old, &new);
        assert_eq!(diff.added, ["new", "newer"]);
        assert_eq!(diff.removed, ["gone"]);
        assert_eq!(diff.changed, ["page", "heavy"]);
        assert_eq!(
            diff.to_string(),
            "2 sources added, 1 removed, 2 changed; fleet.step changed; daemon.store needs a restart"
        );
    }

    #[test]
    fn a_changed_default_budget_changes_the_sources_that_use_it() {
        let own = source("own", "budget = { probes = 2, per = \"1d\", min_spacing = \"1h\" }");
        let old = config(&(source("a", "") + &own));
        let new = config(&("[budget]\nprobes = 24\n".to_owned() + &source("a", "") + &own));
        assert_eq!(diff(&old, &new).changed, ["a"]);
    }

    #[test]
    fn a_source_with_another_name_only_is_renamed() {
        let at = |name: &str, url: &str, rest: &str| {
            format!("[[source]]\nname = \"{name}\"\nurl = \"https://example.org/{url}\"\n{rest}\n")
        };
        let page = "kind = \"page\"\nselect = ";
        let old = config(
            &(at("a", "a", "")
                + &at("b", "b", "")
                + &at("c", "twice", "")
                + &at("d", "twice", "")
                + &at("e", "e", &format!("{page}'main'"))),
        );
        let new = config(
            &(at("z", "a", "weight = 2.0")
                + &at("y", "else", "")
                + &at("x", "twice", "")
                + &at("d", "twice", "")
                + &at("w", "e", &format!("{page}'p'"))),
        );
        let found = diff(&old, &new);
        let pair = |old: &str, new: &str| (old.to_owned(), new.to_owned());
        assert_eq!(found.renamed, [pair("a", "z"), pair("c", "x")]);
        assert_eq!(
            (&*found.added, &*found.removed),
            (&["y".to_owned(), "w".to_owned()][..], &["b".to_owned(), "e".to_owned()][..])
        );
        assert_eq!(found.to_string(), "2 sources added, 2 removed, 2 renamed");
    }
}
