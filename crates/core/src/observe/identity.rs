//! Assigns keys to items.
//!
//! An edited item must not count as new, and a feed polled twice must give the same keys. The key is the
//! guid, else the link, else a hash; equal keys are made distinct. Must not know which items were seen
//! before.

use std::collections::{HashMap, HashSet};

use super::{FeedItem, text};

/// Longer keys are replaced by their hash, because a key is stored with every update.
const MAX_KEY_BYTES: usize = 1024;

/// The key of an item: its id as written, else its link, else a hash of its content.
pub(super) fn key(id: &str, link: &str, content: &[&str]) -> String {
    match (id.trim(), link.trim()) {
        ("", "") => format!("hash:{}", text::hex(content.iter().copied())),
        ("", link) => bounded(link),
        (id, _) => bounded(id),
    }
}

fn bounded(key: &str) -> String {
    if key.len() <= MAX_KEY_BYTES { key.to_owned() } else { format!("hash:{}", text::hex([key])) }
}

/// Items with distinct keys.
///
/// Some generators give every item the same guid. If items that share a key have different links, the link
/// becomes part of each of their keys. That includes the first: otherwise keys would depend on the order, and
/// each new item at the top would make the one before it count as new. Items that share key and link are one
/// item; the first is kept.
pub(super) fn distinct(mut items: Vec<FeedItem>) -> Vec<FeedItem> {
    let mut links: HashMap<&str, (&Option<String>, bool)> = HashMap::new();
    for item in &items {
        let (first, differ) = links.entry(&item.key).or_insert((&item.link, false));
        *differ |= **first != item.link;
    }
    let shared: HashSet<String> =
        links.into_iter().filter(|(_, (_, differ))| *differ).map(|(key, _)| key.to_owned()).collect();
    for item in &mut items {
        if let (true, Some(link)) = (shared.contains(&item.key), &item.link) {
            item.key = bounded(&format!("{} {link}", item.key));
        }
    }
    let mut taken = HashSet::new();
    items.retain(|item| taken.insert(item.key.clone()));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(key: &str, link: Option<&str>) -> FeedItem {
        FeedItem { key: key.to_owned(), link: link.map(str::to_owned), ..FeedItem::default() }
    }

    fn keys(items: Vec<FeedItem>) -> Vec<String> {
        distinct(items).into_iter().map(|item| item.key).collect()
    }

    #[test]
    fn key_is_the_id_then_link_then_hash() {
        assert_eq!(key(" urn:1\n", "http://a/", &["t"]), "urn:1");
        assert_eq!(key("  ", " http://a/ ", &["t"]), "http://a/");
        assert!(key("", "", &["t", "c"]).starts_with("hash:"));
        assert_ne!(key("", "", &["t", "c"]), key("", "", &["t", "d"]));
        assert!(key(&"x".repeat(1025), "", &[]).starts_with("hash:"));
        assert_eq!(key(&"x".repeat(1024), "", &[]).len(), 1024);
    }

    #[test]
    fn items_with_equal_keys_are_merged_or_distinguished_by_link() {
        assert_eq!(keys(vec![item("a", Some("l")), item("a", Some("l"))]), ["a"]);
        assert_eq!(keys(vec![item("a", None), item("a", None), item("b", None)]), ["a", "b"]);
        let one = keys(vec![item("a", Some("l")), item("a", Some("m"))]);
        assert_eq!(one, ["a l", "a m"]);
        let mut other = keys(vec![item("a", Some("n")), item("a", Some("m")), item("a", Some("l"))]);
        other.sort();
        assert_eq!(other, ["a l", "a m", "a n"]);
    }
}
