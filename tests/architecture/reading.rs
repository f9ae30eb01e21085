//! Reads a Rust file as tokens: the paths in it, some words, and its functions.

use std::collections::{BTreeMap, BTreeSet};

/// A path in the code. Groups in braces are split.
#[derive(Debug)]
pub struct Mention {
    /// Its parts; from the crate's root on if `in_crate`.
    pub path: Vec<String>,
    pub line: usize,
    /// It leads into the same crate.
    pub in_crate: bool,
    pub in_tests: bool,
}

/// A keyword, or the name of a macro with its `!`.
#[derive(Debug)]
pub struct Word {
    pub text: String,
    pub line: usize,
    pub in_tests: bool,
}

/// A function with a body, outside tests.
#[derive(Debug)]
pub struct Function {
    pub name: String,
    pub line: usize,
    /// Lines from `fn` to its closing brace.
    pub lines: usize,
}

/// The contents of a file in its order; functions are in the order of their ends.
#[derive(Debug, Default)]
pub struct Reading {
    pub paths: Vec<Mention>,
    pub words: Vec<Word>,
    pub functions: Vec<Function>,
}

/// The module of a file, and the crate that it belongs to.
pub struct Place<'a> {
    /// The crate's name in paths.
    pub crate_name: &'a str,
    /// The file's module path.
    pub module: &'a [String],
    /// The module paths of all files of the crate.
    pub modules: &'a BTreeSet<Vec<String>>,
}

/// A word, or a sign (`::` is one).
#[derive(Debug)]
struct Token {
    text: String,
    line: usize,
}

impl Token {
    fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c == '_' || c.is_alphabetic())
    }
}

/// A block that is still open.
enum Block {
    Module(String),
    Function { name: String, line: usize },
    Tests,
    Other,
}

/// Reads the text of a file.
pub fn read(text: &str, place: &Place) -> Reading {
    let tokens = tokens(text);
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    let word = |at: usize| tokens.get(at).is_some_and(Token::is_word);
    let mut reading = Reading::default();
    let mut blocks: Vec<Block> = Vec::new();
    // The kind of block that the next brace opens, and the names that `use` imported.
    let mut next_block = Block::Other;
    let mut imported: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Whether `#[cfg(test)]` precedes the current item, and the number of open parentheses and brackets.
    let (mut for_tests, mut nested) = (false, 0_usize);
    let mut at = 0;
    while at < tokens.len() {
        let line = tokens[at].line;
        let in_tests = for_tests || blocks.iter().any(|block| matches!(block, Block::Tests));
        if let Some(text) = notable(&tokens, at) {
            reading.words.push(Word { text, line, in_tests });
        }
        match tokens[at].text.as_str() {
            "#" if ["[", "cfg", "(", "test", ")", "]"]
                .iter()
                .zip(at + 1..)
                .all(|(text, at)| is(at, text)) =>
            {
                for_tests = true;
                at += 7;
                continue;
            }
            "(" | "[" => nested += 1,
            ")" | "]" => nested = nested.saturating_sub(1),
            "{" => {
                let block = std::mem::replace(&mut next_block, Block::Other);
                blocks.push(if std::mem::take(&mut for_tests) { Block::Tests } else { block });
            }
            "}" => {
                if let Some(Block::Function { name, line: start }) = blocks.pop()
                    && !in_tests
                {
                    reading.functions.push(Function { name, line: start, lines: line - start + 1 });
                }
            }
            // The item has no block: `mod x;`, `fn f();`, `use x;`.
            ";" if nested == 0 => (for_tests, next_block) = (false, Block::Other),
            "mod" if word(at + 1) => {
                next_block = Block::Module(tokens[at + 1].text.clone());
                at += 2;
                continue;
            }
            "fn" if word(at + 1) => {
                next_block = Block::Function { name: tokens[at + 1].text.clone(), line };
                at += 2;
                continue;
            }
            _ => {}
        }
        if !word(at) {
            at += 1;
            continue;
        }
        let in_use = at > 0 && (is(at - 1, "use") || at > 1 && is(at - 1, "::") && is(at - 2, "use"));
        let mut found = Vec::new();
        let next = follow(&tokens, at, &mut Vec::new(), &mut found);
        for inner in at + 1..next {
            if let Some(text) = notable(&tokens, inner) {
                reading.words.push(Word { text, line: tokens[inner].line, in_tests });
            }
        }
        let mut here = place.module.to_vec();
        here.extend(blocks.iter().filter_map(|block| match block {
            Block::Module(name) => Some(name.clone()),
            _ => None,
        }));
        // `pub(super)` and `pub(in crate::x)` name a module without using anything of it.
        let opens_visibility = |at: usize| at > 1 && is(at - 1, "(") && is(at - 2, "pub");
        let visibility = opens_visibility(at) || at > 1 && is(at - 1, "in") && opens_visibility(at - 1);
        for Found { path, line, alias } in found {
            let mentioned = in_use || path.len() > 1 && !visibility;
            let (path, in_crate) = resolve(path, &here, place, &imported);
            if in_use && in_crate {
                let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
                imported.insert(name, path.clone());
            }
            if mentioned {
                reading.paths.push(Mention { path, line, in_crate, in_tests });
            }
        }
        at = next;
    }
    reading
}

/// The word at this index if it is a checked keyword or a macro.
fn notable(tokens: &[Token], at: usize) -> Option<String> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    match (text(at), text(at + 1)) {
        (word @ ("unsafe" | "async" | "await"), _) => Some(word.to_owned()),
        (name, "!") if tokens[at].is_word() && text(at + 2) != "=" => Some(format!("{name}!")),
        _ => None,
    }
}

/// A path as it is written.
struct Found {
    path: Vec<String>,
    line: usize,
    alias: Option<String>,
}

/// Follows the path that starts here, groups included; returns where it ends.
fn follow(tokens: &[Token], mut at: usize, path: &mut Vec<String>, found: &mut Vec<Found>) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let before = path.len();
    let line = tokens[at].line;
    loop {
        match text(at) {
            "{" => {
                at += 1;
                while at < tokens.len() && text(at) != "}" {
                    let starts_path = tokens[at].is_word() || text(at) == "*" || text(at) == "{";
                    at = if starts_path { follow(tokens, at, path, found) } else { at + 1 };
                }
                path.truncate(before);
                return at + 1;
            }
            part => path.push(part.to_owned()),
        }
        let goes_on = text(at + 1) == "::"
            && tokens
                .get(at + 2)
                .is_some_and(|next| next.is_word() || next.text == "{" || next.text == "*");
        if !goes_on {
            let renamed = text(at + 1) == "as";
            let alias = renamed.then(|| text(at + 2).to_owned());
            found.push(Found { path: path.clone(), line, alias });
            path.truncate(before);
            // `x as u8` in code is read on at the type, which may be a path.
            return if renamed && before > 0 { at + 3 } else { at + 1 };
        }
        at += 2;
    }
}

/// The path from the crate's root if it leads into this crate; else as it was.
fn resolve(
    path: Vec<String>,
    here: &[String],
    place: &Place,
    imported: &BTreeMap<String, Vec<String>>,
) -> (Vec<String>, bool) {
    let first = path[0].as_str();
    let child = || [here, &path[..1]].concat();
    let mut base = match first {
        "crate" => Vec::new(),
        name if name == place.crate_name => Vec::new(),
        "self" | "super" => here.to_vec(),
        name if imported.contains_key(name) => imported[name].clone(),
        _ if place.modules.contains(&child()) => child(),
        _ => return (path, false),
    };
    let skipped = usize::from(first != "super");
    for part in path.into_iter().skip(skipped) {
        match part.as_str() {
            "super" => drop(base.pop()),
            "self" => {}
            _ => base.push(part),
        }
    }
    (base, true)
}

/// The tokens of a source, without comments, texts and lifetimes.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let get = |at: usize| chars.get(at).copied().unwrap_or('\0');
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < chars.len() {
        let start = at;
        match (get(at), get(at + 1)) {
            ('/', '/') => at = (at..chars.len()).find(|&i| chars[i] == '\n').unwrap_or(chars.len()),
            ('/', '*') => at = after_comment(&chars, at),
            ('"', _) => at = after_text(&chars, at + 1, '"'),
            ('\'', second) => {
                // A lifetime is a quote and a word without a quote after it.
                let character = second == '\\' || get(at + 2) == '\'';
                at = match character {
                    true => after_text(&chars, at + 1, '\''),
                    false => (at + 1..chars.len()).find(|&i| !is_word(chars[i])).unwrap_or(chars.len()),
                };
            }
            (first, _) if is_word(first) => {
                at = (at..chars.len()).find(|&i| !is_word(chars[i])).unwrap_or(chars.len());
                let word: String = chars[start..at].iter().collect();
                let hashes = (at..).take_while(|&i| get(i) == '#').count();
                match (word.as_str(), get(at + hashes)) {
                    ("r" | "br" | "cr", '"') => at = after_raw(&chars, at + hashes + 1, hashes),
                    // The text or character itself is next.
                    ("b" | "c", '"' | '\'') => {}
                    // A raw name.
                    ("r", _) if hashes == 1 => at += 1,
                    _ => tokens.push(Token { text: word, line }),
                }
            }
            (':', ':') => {
                tokens.push(Token { text: "::".to_owned(), line });
                at += 2;
            }
            (sign, _) => {
                if !sign.is_whitespace() {
                    tokens.push(Token { text: sign.to_string(), line });
                }
                at += 1;
            }
        }
        line += chars[start..at.min(chars.len())].iter().filter(|&&c| c == '\n').count();
    }
    tokens
}

fn after_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn after_text(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

fn after_raw(chars: &[char], mut at: usize, hashes: usize) -> usize {
    let closes = |at: usize| chars[at] == '"' && (1..=hashes).all(|i| chars.get(at + i) == Some(&'#'));
    while at < chars.len() && !closes(at) {
        at += 1;
    }
    (at + 1 + hashes).min(chars.len())
}
