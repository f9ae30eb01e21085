//! From a source's text to the paths and words in it.

/// A path that occurs, groups taken apart.
#[derive(Debug)]
pub struct Mention {
    /// Its parts. When `rooted`, from the crate's root on; `*` for all there is.
    pub path: Vec<String>,
    /// Where.
    pub line: usize,
    /// It leads into this crate.
    pub rooted: bool,
    /// It stands in a module for tests.
    pub in_tests: bool,
}

/// A word or sign that is looked for.
#[derive(Debug)]
pub struct Word {
    /// `unsafe`, `async`, `await`, `static mut`, `Arc<Mutex`, or a macro's name with its `!`.
    pub text: String,
    /// Where.
    pub line: usize,
    /// It stands in a module for tests.
    pub in_tests: bool,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Reading {
    /// In order.
    pub paths: Vec<Mention>,
    /// In order.
    pub words: Vec<Word>,
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

/// Reads the text of the file that is this module.
pub fn read(text: &str, module: &[String]) -> Reading {
    let tokens = tokens(text);
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    let word = |at: usize| tokens.get(at).is_some_and(Token::is_word);
    let mut reading = Reading::default();
    // Inline modules around us: name, for tests, depth of braces outside.
    let mut around: Vec<(String, bool, usize)> = Vec::new();
    let (mut depth, mut at, mut cfg_test) = (0_usize, 0, false);
    while at < tokens.len() {
        let line = tokens[at].line;
        let in_tests = around.iter().any(|(_, tests, _)| *tests);
        match tokens[at].text.as_str() {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                around.retain(|(_, _, outside)| *outside < depth);
            }
            "#" if ["[", "cfg", "(", "test", ")", "]"]
                .iter()
                .zip(at + 1..)
                .all(|(text, at)| is(at, text)) =>
            {
                cfg_test = true;
                at += 7;
                continue;
            }
            "mod" if word(at + 1) => {
                if is(at + 2, "{") {
                    around.push((tokens[at + 1].text.clone(), cfg_test, depth));
                }
                cfg_test = false;
                at += 2;
                continue;
            }
            // What the attribute stood before has ended without a module.
            ";" => cfg_test = false,
            _ => {}
        }
        if let Some(text) = notable(&tokens, at) {
            reading.words.push(Word { text, line, in_tests });
        }
        if !word(at) {
            at += 1;
            continue;
        }
        let whole_use = at > 0 && is(at - 1, "use");
        let mut found = Vec::new();
        let next = follow(&tokens, at, &mut Vec::new(), &mut found);
        for inner in at + 1..next {
            if let Some(text) = notable(&tokens, inner) {
                reading.words.push(Word { text, line: tokens[inner].line, in_tests });
            }
        }
        let here: Vec<&str> = module
            .iter()
            .map(String::as_str)
            .chain(around.iter().map(|(name, _, _)| name.as_str()))
            .collect();
        for (path, line) in found {
            let (path, rooted) = resolve(path, &here);
            // `pub(crate)` and `pub(super)` name the crate's root without using anything of it.
            if !rooted || whole_use || !path.is_empty() {
                reading.paths.push(Mention { path, line, rooted, in_tests });
            }
        }
        at = next;
    }
    reading
}

/// The word or sign at this place, when it is one that is looked for.
fn notable(tokens: &[Token], at: usize) -> Option<String> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    match (text(at), text(at + 1)) {
        (word @ ("unsafe" | "async" | "await"), _) => Some(word.to_owned()),
        ("static", "mut") => Some("static mut".to_owned()),
        ("Arc", "<") => {
            let inside = tokens[at + 2..].iter().take_while(|token| token.is_word() || token.text == "::");
            inside.into_iter().any(|token| token.text == "Mutex").then(|| "Arc<Mutex".to_owned())
        }
        (name, "!") if tokens[at].is_word() && text(at + 2) != "=" => Some(format!("{name}!")),
        _ => None,
    }
}

/// Follows the path that starts here, groups included; returns where it ends.
fn follow(
    tokens: &[Token],
    mut at: usize,
    path: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let before = path.len();
    let line = tokens[at].line;
    loop {
        match text(at) {
            "{" => {
                at += 1;
                while at < tokens.len() && text(at) != "}" {
                    let plain = tokens[at].is_word() || text(at) == "*" || text(at) == "{";
                    at = if plain { follow(tokens, at, path, found) } else { at + 1 };
                    // `as another` names nothing that is used.
                    if text(at) == "as" {
                        at += 2;
                    }
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
            found.push((path.clone(), line));
            path.truncate(before);
            return at + 1;
        }
        at += 2;
    }
}

/// The path from the crate's root, when it leads into this crate; else as it was.
fn resolve(path: Vec<String>, here: &[&str]) -> (Vec<String>, bool) {
    let mut base: Vec<String> = match path[0].as_str() {
        "crate" | "tidewatch" => Vec::new(),
        "self" | "super" if path.len() > 1 || path[0] == "super" => {
            here.iter().map(|&part| part.to_owned()).collect()
        }
        _ => return (path, false),
    };
    let mut parts = path.into_iter().peekable();
    if parts.peek().is_some_and(|first| first != "super") {
        parts.next();
    }
    while parts.next_if(|part| part == "super").is_some() {
        base.pop();
    }
    base.extend(parts.filter(|part| part != "self"));
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
