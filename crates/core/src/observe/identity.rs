//! Assigns keys and fingerprints to items.
//!
//! An edited item must not count as new, and a feed polled twice must give the same keys. The key is the
//! guid, else the link, else a hash; equal keys are made distinct. Both are stored, so the same document must
//! always give the same ones. Must not know which items were seen before.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::written::WrittenItem;
use super::{link, text};

/// Longer keys are replaced by their hash, because a key is stored with every update.
const MAX_KEY_BYTES: usize = 1024;

/// An item's key and fingerprint, and its place in the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) place: usize,
    pub(super) key: String,
    pub(super) fingerprint: u64,
}

/// The items with distinct keys, in the order of the document. `absolute` gives the link of an item.
pub(super) fn identities(
    items: &[WrittenItem<'_>],
    absolute: impl Fn(&WrittenItem<'_>) -> Option<String>,
) -> Vec<Identity> {
    let identities = items.iter().enumerate().map(|(place, item)| identity(place, item)).collect();
    distinct(identities, |place| absolute(&items[place]))
}

/// The key is the item's id as written, else its link, else a hash of its content.
fn identity(place: usize, item: &WrittenItem<'_>) -> Identity {
    let link = link::normalised(item.link.as_deref().unwrap_or_default());
    let title = text::folded(item.title.as_ref().map_or("", |title| &title.text));
    let summary = text::folded(item.summary.as_deref().unwrap_or_default());
    let content = text::folded(item.content.as_deref().unwrap_or_default());
    let key = match (item.id.as_deref().unwrap_or_default().trim(), link.trim()) {
        ("", "") => format!("hash:{}", text::hex([&*title, &*summary, &*content])),
        ("", link) => bounded(link),
        (id, _) => bounded(id),
    };
    let fingerprint = text::fingerprint([&*title, &*text::folded(&link), &*summary, &*content]);
    Identity { place, key, fingerprint }
}

fn bounded(key: &str) -> String {
    if key.len() <= MAX_KEY_BYTES { key.to_owned() } else { format!("hash:{}", text::hex([key])) }
}

/// Makes keys distinct.
///
/// Some generators give every item the same guid. If items that share a key have different links, the link
/// becomes part of each of their keys. That includes the first: otherwise keys would depend on the order, and
/// each new item at the top would make the one before it count as new. Items that share key and link are one
/// item; the first is kept. `link` gives the link of an item by its place.
fn distinct(mut items: Vec<Identity>, link: impl Fn(usize) -> Option<String>) -> Vec<Identity> {
    let mut taken = HashSet::with_capacity(items.len());
    let again = items.iter().filter(|item| !taken.insert(item.key.as_str()));
    let shared: HashSet<String> = again.map(|item| item.key.clone()).collect();
    if shared.is_empty() {
        return items;
    }
    let mut first: HashMap<&str, Option<String>> = HashMap::new();
    let mut differing: HashSet<String> = HashSet::new();
    for item in items.iter().filter(|item| shared.contains(&item.key)) {
        let link = link(item.place);
        match first.entry(&item.key) {
            Entry::Vacant(entry) => drop(entry.insert(link)),
            Entry::Occupied(entry) if *entry.get() != link => drop(differing.insert(item.key.clone())),
            Entry::Occupied(_) => {}
        }
    }
    for item in &mut items {
        if differing.contains(&item.key)
            && let Some(link) = link(item.place)
        {
            item.key = bounded(&format!("{} {link}", item.key));
        }
    }
    let mut taken = HashSet::with_capacity(items.len());
    items.retain(|item| taken.insert(item.key.clone()));
    items
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::observe::written::WrittenTitle;

    fn item<'t>(id: &'t str, link: Option<&'t str>) -> WrittenItem<'t> {
        let id = Some(Cow::Borrowed(id)).filter(|id| !id.is_empty());
        WrittenItem { id, link: link.map(Cow::Borrowed), ..WrittenItem::default() }
    }

    fn keys(items: &[WrittenItem<'_>]) -> Vec<String> {
        let items = identities(items, |item| item.link.as_deref().map(str::to_owned));
        items.into_iter().map(|item| item.key).collect()
    }

    fn key(id: &str, link: &str, title: &str) -> String {
        let title = Some(WrittenTitle { text: title.into(), markup: false });
        keys(&[WrittenItem { title, ..item(id, Some(link)) }]).remove(0)
    }

    #[test]
    fn key_is_the_id_then_link_then_hash() {
        assert_eq!(key(" urn:1\n", "http://a/", "t"), "urn:1");
        assert_eq!(key("  ", " http://a/ ", "t"), "http://a/");
        assert!(key("", "", "t").starts_with("hash:"));
        assert_ne!(key("", "", "t"), key("", "", "u"));
        assert_eq!(key("", "", "t  u"), key("", "", " t u"));
        assert!(key(&"x".repeat(1025), "", "").starts_with("hash:"));
        assert_eq!(key(&"x".repeat(1024), "", "").len(), 1024);
    }

    #[test]
    fn items_with_equal_keys_are_merged_or_distinguished_by_link() {
        assert_eq!(keys(&[item("a", Some("l")), item("a", Some("l"))]), ["a"]);
        assert_eq!(keys(&[item("a", None), item("a", None), item("b", None)]), ["a", "b"]);
        let one = keys(&[item("a", Some("l")), item("a", Some("m"))]);
        assert_eq!(one, ["a l", "a m"]);
        let mut other = keys(&[item("a", Some("n")), item("a", Some("m")), item("a", Some("l"))]);
        other.sort();
        assert_eq!(other, ["a l", "a m", "a n"]);
        // A link that is not there is another one.
        assert_eq!(keys(&[item("a", None), item("a", Some("m")), item("a m", None)]), ["a", "a m"]);
    }
}
