//! Suggestions: "Did you mean …?"
//!
//! Computes the distance between two spellings. Must not know any vocabulary.

/// Most candidates to compare; more would take too long for a hint.
const MOST_CANDIDATES: usize = 2000;
/// Longest word to compare, in characters.
const LONGEST: usize = 64;

/// The candidate closest to `word`, if it is close enough.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let allowed = match length {
        0..=2 => 1,
        3..=5 => 2,
        _ => length / 3,
    };
    candidates
        .into_iter()
        .take(MOST_CANDIDATES)
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= allowed)
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        // A word with every letter replaced is not similar.
        .filter(|&(apart, candidate)| apart <= allowed && apart < candidate.chars().count().min(length))
        .min_by_key(|&(apart, _)| apart)
        .map(|(_, candidate)| candidate)
}

/// Edit distance: insertions, deletions, replacements, and swaps of two neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_misspellings_and_nothing_else() {
        let words = ["probes", "per", "min_spacing", "allocator"];
        assert_eq!(closest("porbes", words), Some("probes"));
        assert_eq!(closest("probe", words), Some("probes"));
        assert_eq!(closest("Min_Spacing", words), Some("min_spacing"));
        assert_eq!(closest("minspacing", words), Some("min_spacing"));
        assert_eq!(closest("zzz", words), None);
        assert_eq!(closest("x", ["y"]), None);
        assert_eq!(closest("", words), None);
    }

    #[test]
    fn each_edit_counts_one() {
        for (a, b, apart) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "", 3), ("ab", "xaby", 2)]
        {
            assert_eq!(distance(a, b), apart, "{a} {b}");
        }
    }
}
