//! Which sources have another name now.
//!
//! A source that vanished and one that appeared are the same if everything that decides what is read is equal, and if
//! no other source that vanished or appeared equals them. Must not know what decides that.

use std::collections::HashMap;
use std::hash::Hash;

/// The unambiguous pairs, in the order of those that appeared.
pub fn renames<K: Hash + Eq, O, N>(
    vanished: impl IntoIterator<Item = (K, O)>,
    appeared: impl IntoIterator<Item = (K, N)>,
) -> Vec<(O, N)> {
    // The candidates with a key, and how often each side has it.
    let mut pairs: HashMap<K, (Option<O>, [usize; 2])> = HashMap::new();
    for (key, old) in vanished {
        let pair = pairs.entry(key).or_insert((None, [0, 0]));
        pair.0 = Some(old);
        pair.1[0] += 1;
    }
    let mut candidates = Vec::new();
    for (key, new) in appeared {
        if let Some(pair) = pairs.get_mut(&key) {
            pair.1[1] += 1;
            candidates.push((key, new));
        }
    }
    let pair = |(key, new)| match pairs.remove(&key) {
        Some((Some(old), [1, 1])) => Some((old, new)),
        _ => None,
    };
    candidates.into_iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unambiguous_pairs_are_renames() {
        let vanished = [("x", 1), ("y", 2), ("y", 3), ("z", 4), ("v", 5), ("w", 6)];
        let appeared = [("w", 'f'), ("x", 'a'), ("y", 'b'), ("z", 'c'), ("z", 'd'), ("u", 'e')];
        assert_eq!(renames(vanished, appeared), [(6, 'f'), (1, 'a')]);
    }
}
