//! Import cycles between files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The imports of each file from others, with the line of the first mention.
pub type Imports = BTreeMap<String, BTreeMap<String, usize>>;

/// Every group of files that import each other, with one shortest cycle of each.
pub fn cycles(imports: &Imports) -> Vec<String> {
    let mut reported = BTreeSet::new();
    let mut found = Vec::new();
    for file in imports.keys() {
        let from_here = reached(imports, file);
        let group: BTreeSet<&String> =
            from_here.keys().copied().filter(|other| reached(imports, other).contains_key(file)).collect();
        if !from_here.contains_key(file) || !reported.insert(group.clone()) {
            continue;
        }
        let mut path = vec![file.clone()];
        let mut at = file;
        loop {
            let (before, line) = from_here[at];
            path.push(format!("{before}:{line}"));
            at = before;
            if at == file {
                break;
            }
        }
        path.reverse();
        let files: Vec<&str> = group.iter().map(|file| file.as_str()).collect();
        found.push(format!(
            "import cycle among {} files: {}\n    {}",
            group.len(),
            files.join(" "),
            path.join("\n    -> ")
        ));
    }
    found
}

/// The files reached from one by imports: for each the file before it, and the line there.
fn reached<'a>(imports: &'a Imports, start: &'a String) -> BTreeMap<&'a String, (&'a String, usize)> {
    let mut reached = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for (target, &line) in imports.get(file).into_iter().flatten() {
            reached.entry(target).or_insert_with(|| {
                queue.push_back(target);
                (file, line)
            });
        }
    }
    reached
}
