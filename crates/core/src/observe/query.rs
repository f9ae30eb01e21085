//! Which items somebody asked for: a small language of conditions.
//!
//! ```text
//! condition = all { "or" all }
//! all       = one { "and" one }
//! one       = "not" one | "(" condition ")" | field [ test text ]
//! test      = "=" | "!=" | "~" | "!~" | "contains"
//! field     = "title" | "link" | "id" | "author" | "category" | "categories" | "authors" | "text"
//! text      = "'" … "'" | '"' … '"', in which a quotation mark is written twice
//! ```
//!
//! A field alone asks whether there is one. `=` compares the whole, `~` looks for a regular expression
//! anywhere, `contains` for a text whatever the case. Of a field with several values, one must do: `category =
//! 'a'` is true if *a* is among the categories, `category != 'a'` if it is not among them. What an item does not
//! have is neither equal to anything nor does it match, so `title != 'x'` is true of an item without a title.
//!
//! Regular expressions are those of the `regex` crate: they take time in proportion to the text, and one that
//! would grow beyond [`MOST_BYTES`] is refused. Conditions nest no deeper than [`DEEPEST`].
//!
//! Knows what an item says of itself. Must not know who asks, nor what becomes of an answer.

use std::fmt;
use std::ops::Range;

use regex::{Regex, RegexBuilder};

/// A condition is no longer than this, in bytes.
pub const LONGEST: usize = 4096;

/// Brackets and `not` within each other.
pub const DEEPEST: usize = 64;

/// What a regular expression may take when it is made ready.
pub const MOST_BYTES: usize = 1 << 20;

/// What an item says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Said<'i> {
    /// Its title.
    pub title: Option<&'i str>,
    /// Its link.
    pub link: Option<&'i str>,
    /// By what it is known.
    pub id: Option<&'i str>,
    /// Of a page, what it says.
    pub text: Option<&'i str>,
    /// Who wrote it.
    pub authors: &'i [String],
    /// What it is filed under.
    pub categories: &'i [String],
}

/// What can be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Its title.
    Title,
    /// Its link.
    Link,
    /// By what it is known.
    Id,
    /// What it says.
    Text,
    /// Who wrote it.
    Authors,
    /// What it is filed under.
    Categories,
}

const FIELDS: [(&str, Field); 8] = [
    ("title", Field::Title),
    ("link", Field::Link),
    ("id", Field::Id),
    ("text", Field::Text),
    ("author", Field::Authors),
    ("authors", Field::Authors),
    ("category", Field::Categories),
    ("categories", Field::Categories),
];

impl Field {
    /// The field of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        FIELDS.iter().find(|(known, _)| *known == name).map(|&(_, field)| field)
    }

    /// Whether one of an item's values does.
    fn any(self, of: &Said<'_>, test: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Title => of.title.is_some_and(test),
            Self::Link => of.link.is_some_and(test),
            Self::Id => of.id.is_some_and(test),
            Self::Text => of.text.is_some_and(test),
            Self::Authors => of.authors.iter().any(|author| test(author)),
            Self::Categories => of.categories.iter().any(|category| test(category)),
        }
    }
}

#[derive(Debug, Clone)]
enum Node {
    Or(Vec<Node>),
    And(Vec<Node>),
    Not(Box<Node>),
    Has(Field),
    Equals(Field, String),
    Contains(Field, String),
    Matches(Field, Regex),
}

/// A condition on items.
///
/// ```
/// # use tidewatch_core::observe::query::{Condition, Said};
/// let wanted = Condition::parse(r"title ~ 'CVE-\d+' and not category = 'test'").unwrap();
/// let title = Some("CVE-2026-1234: a hole");
/// assert!(wanted.holds(&Said { title, ..Said::default() }));
/// let categories = &["test".to_owned()];
/// assert!(!wanted.holds(&Said { title, categories, ..Said::default() }));
/// let error = Condition::parse("title ~ 'CVE' && link").unwrap_err();
/// assert_eq!(error.to_string(), "`&` means nothing here; conditions are joined by `and` and `or`");
/// assert_eq!(error.at, 14..15);
/// ```
#[derive(Debug, Clone)]
pub struct Condition(Node);

/// Why a text is no condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCondition {
    /// Where in it, in bytes.
    pub at: Range<usize>,
    /// What is wrong there, and what to do.
    pub problem: String,
}

impl fmt::Display for NoCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for NoCondition {}

impl Condition {
    /// Reads a condition.
    pub fn parse(text: &str) -> Result<Self, NoCondition> {
        if text.len() > LONGEST {
            let problem = format!("a condition has {LONGEST} bytes at most, and this one {}", text.len());
            return Err(NoCondition { at: LONGEST..text.len(), problem });
        }
        let mut reading = Reading { text, tokens: tokens(text)?, next: 0 };
        let node = reading.condition(0)?;
        match reading.peek() {
            None => Ok(Self(node)),
            Some(token) => Err(match token.kind {
                Kind::Close => token.refused("there is no bracket for this one to close"),
                _ => token.refused("`and` or `or` is missing before this"),
            }),
        }
    }

    /// Whether it asks about this field.
    pub fn asks_about(&self, field: Field) -> bool {
        self.0.asks_about(field)
    }

    /// Whether an item is as it says.
    pub fn holds(&self, of: &Said<'_>) -> bool {
        self.0.holds(of)
    }
}

impl Node {
    fn asks_about(&self, wanted: Field) -> bool {
        match self {
            Self::Or(all) | Self::And(all) => all.iter().any(|node| node.asks_about(wanted)),
            Self::Not(node) => node.asks_about(wanted),
            Self::Has(field)
            | Self::Equals(field, _)
            | Self::Contains(field, _)
            | Self::Matches(field, _) => *field == wanted,
        }
    }

    fn holds(&self, of: &Said<'_>) -> bool {
        match self {
            Self::Or(any) => any.iter().any(|node| node.holds(of)),
            Self::And(all) => all.iter().all(|node| node.holds(of)),
            Self::Not(node) => !node.holds(of),
            Self::Has(field) => field.any(of, |value| !value.is_empty()),
            Self::Equals(field, text) => field.any(of, |value| value == text),
            Self::Contains(field, lower) => field.any(of, |value| value.to_lowercase().contains(lower)),
            Self::Matches(field, regex) => field.any(of, |value| regex.is_match(value)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Word,
    Text(String),
    /// Whether it is negated, and how it compares.
    Equals(bool),
    Matches(bool),
    Open,
    Close,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    kind: Kind,
    at: Range<usize>,
}

impl Token {
    fn refused(&self, problem: impl Into<String>) -> NoCondition {
        NoCondition { at: self.at.clone(), problem: problem.into() }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, NoCondition> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, sign)) = rest.next() {
        let kind = match sign {
            _ if sign.is_whitespace() => continue,
            '(' => Kind::Open,
            ')' => Kind::Close,
            '=' => Kind::Equals(false),
            '~' => Kind::Matches(false),
            '!' => match rest.next_if(|&(_, next)| next == '=' || next == '~') {
                Some((_, '=')) => Kind::Equals(true),
                Some(_) => Kind::Matches(true),
                None => {
                    let problem = "`!` stands in `!=` and `!~` only; write `not`".to_owned();
                    return Err(NoCondition { at: start..start + 1, problem });
                }
            },
            '\'' | '"' => {
                let mut value = String::new();
                loop {
                    match rest.next() {
                        // Twice for one.
                        Some((_, mark)) if mark == sign => match rest.next_if(|&(_, next)| next == sign) {
                            Some(_) => value.push(sign),
                            None => break,
                        },
                        Some((_, other)) => value.push(other),
                        None => {
                            let problem = format!("the text that begins here has no {sign} at its end");
                            return Err(NoCondition { at: start..text.len(), problem });
                        }
                    }
                }
                Kind::Text(value)
            }
            _ if sign.is_alphabetic() || sign == '_' => {
                while rest.next_if(|&(_, next)| next.is_alphanumeric() || next == '_').is_some() {}
                Kind::Word
            }
            _ => {
                let hint = match sign {
                    '&' | '|' => "; conditions are joined by `and` and `or`",
                    '<' | '>' => "; there are =, !=, ~, !~ and contains",
                    _ => "; texts stand in quotation marks",
                };
                let problem = format!("`{}` means nothing here{hint}", sign.escape_debug());
                return Err(NoCondition { at: start..start + sign.len_utf8(), problem });
            }
        };
        let end = rest.peek().map_or(text.len(), |&(next, _)| next);
        tokens.push(Token { kind, at: start..end });
    }
    Ok(tokens)
}

struct Reading<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    next: usize,
}

impl Reading<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn take(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.next).cloned();
        self.next += usize::from(token.is_some());
        token
    }

    fn word(&self, token: &Token) -> &str {
        if token.kind == Kind::Word { &self.text[token.at.clone()] } else { "" }
    }

    /// Takes the next token if it is this word.
    fn take_word(&mut self, word: &str) -> bool {
        let is = self.peek().is_some_and(|token| self.word(token) == word);
        self.next += usize::from(is);
        is
    }

    fn ends(&self, problem: &str) -> NoCondition {
        NoCondition { at: self.text.len()..self.text.len(), problem: problem.to_owned() }
    }

    fn condition(&mut self, depth: usize) -> Result<Node, NoCondition> {
        let mut any = vec![self.all(depth)?];
        while self.take_word("or") {
            any.push(self.all(depth)?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Node::Or(any) })
    }

    fn all(&mut self, depth: usize) -> Result<Node, NoCondition> {
        let mut all = vec![self.one(depth)?];
        while self.take_word("and") {
            all.push(self.one(depth)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Node::And(all) })
    }

    fn one(&mut self, depth: usize) -> Result<Node, NoCondition> {
        let Some(token) = self.take() else {
            return Err(self.ends("a condition is missing, such as title ~ 'release'"));
        };
        if depth > DEEPEST {
            return Err(token.refused(format!("brackets and `not` nest {DEEPEST} deep at most")));
        }
        match token.kind {
            Kind::Open => {
                let node = self.condition(depth + 1)?;
                match self.take() {
                    Some(Token { kind: Kind::Close, .. }) => Ok(node),
                    Some(other) => {
                        Err(other.refused("`and`, `or` or a closing bracket is missing before this"))
                    }
                    None => Err(token.refused("this bracket is not closed")),
                }
            }
            Kind::Word if self.word(&token) == "not" => Ok(Node::Not(Box::new(self.one(depth + 1)?))),
            Kind::Word => {
                let field = self.field(&token)?;
                self.test(field)
            }
            Kind::Close => Err(token.refused("a condition is missing before this bracket")),
            Kind::Text(_) => Err(token.refused("a field comes first, then the text: title = 'news'")),
            Kind::Equals(_) | Kind::Matches(_) => {
                Err(token.refused("a field is missing before this: title ~ 'news'"))
            }
        }
    }

    fn field(&self, token: &Token) -> Result<Field, NoCondition> {
        let word = self.word(token);
        Field::from_name(word).ok_or_else(|| {
            let problem = match word {
                "and" | "or" => format!("a condition is missing before `{word}`"),
                _ => format!(
                    "there is no field `{word}`; there are title, link, id, author, category and text"
                ),
            };
            token.refused(problem)
        })
    }

    fn test(&mut self, field: Field) -> Result<Node, NoCondition> {
        let kind = match self.peek() {
            Some(token) if self.word(token) == "contains" => None,
            Some(Token { kind: kind @ (Kind::Equals(_) | Kind::Matches(_)), .. }) => Some(kind.clone()),
            _ => return Ok(Node::Has(field)),
        };
        self.next += 1;
        let (text, at) = match self.take() {
            Some(Token { kind: Kind::Text(text), at }) => (text, at),
            Some(other) => return Err(other.refused("a text in quotation marks belongs here")),
            None => return Err(self.ends("a text in quotation marks is missing at the end")),
        };
        let negated = |no: bool, node: Node| if no { Node::Not(Box::new(node)) } else { node };
        Ok(match kind {
            None => Node::Contains(field, text.to_lowercase()),
            Some(Kind::Matches(no)) => negated(no, Node::Matches(field, compiled(&text, at)?)),
            Some(Kind::Equals(no)) => negated(no, Node::Equals(field, text)),
            Some(_) => Node::Has(field),
        })
    }
}

fn compiled(text: &str, at: Range<usize>) -> Result<Regex, NoCondition> {
    RegexBuilder::new(text).size_limit(MOST_BYTES).dfa_size_limit(MOST_BYTES).build().map_err(|error| {
        let problem = match error {
            regex::Error::CompiledTooBig(_) => {
                "this regular expression grows too large; repeat less, or match less of it".to_owned()
            }
            // The last line says what is wrong; those before it draw where.
            error => {
                let said = error.to_string();
                let last = said.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                format!("no regular expression: {last}")
            }
        };
        NoCondition { at, problem }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item<'i>(title: &'i str, categories: &'i [String]) -> Said<'i> {
        Said { title: Some(title), link: Some("https://example.org/a"), categories, ..Said::default() }
    }

    #[test]
    fn conditions_hold_or_do_not() {
        let categories = ["news".to_owned(), "Rust".to_owned()];
        let of = item("Rust 1.99 is out", &categories);
        for (text, holds) in [
            ("title", true),
            ("id", false),
            ("not id", true),
            ("title = 'Rust 1.99 is out'", true),
            ("title = 'Rust'", false),
            ("title != 'Rust'", true),
            ("id != 'x'", true),
            ("title ~ '^Rust [0-9.]+'", true),
            ("title ~ 'rust'", false),
            ("title ~ '(?i)rust'", true),
            ("title !~ 'rust'", true),
            ("title contains 'RUST'", true),
            ("category = 'news'", true),
            ("categories = 'Rust'", true),
            ("category = 'rust'", false),
            ("category != 'news'", false),
            ("author", false),
            ("id or title", true),
            ("id and title or link", true),
            ("id and (title or link)", false),
            ("not (id or author)", true),
            ("not id and not author", true),
            (r#"title="Rust 1.99 is out""#, true),
            ("title contains 'it''s'", false),
        ] {
            assert_eq!(Condition::parse(text).map(|wanted| wanted.holds(&of)), Ok(holds), "{text}");
        }
        let quoted = Condition::parse("title = 'it''s \"so\"'").unwrap();
        assert!(quoted.holds(&item("it's \"so\"", &[])));
    }

    #[test]
    fn what_is_wrong_is_said_where_it_is() {
        for (text, at, says) in [
            ("", 0..0, "a condition is missing"),
            ("title = ", 8..8, "quotation marks is missing at the end"),
            ("title = news", 8..12, "a text in quotation marks belongs here"),
            ("title ~ 'a", 8..10, "no ' at its end"),
            ("titel = 'a'", 0..5, "there is no field `titel`; there are title"),
            ("title = 'a' link", 12..16, "`and` or `or` is missing"),
            ("(title", 0..1, "this bracket is not closed"),
            ("title)", 5..6, "no bracket for this one"),
            ("()", 1..2, "a condition is missing before this bracket"),
            ("and title", 0..3, "missing before `and`"),
            ("title and", 9..9, "a condition is missing"),
            ("= 'a'", 0..1, "a field is missing"),
            ("'a' = title", 0..3, "a field comes first"),
            ("title ! 'a'", 6..7, "write `not`"),
            ("title > 'a'", 6..7, "there are =, !="),
            ("title ~ '('", 8..11, "no regular expression: unclosed group"),
            (r"title ~ '(\w{900}){900}'", 8..24, "grows too large"),
        ] {
            let error = Condition::parse(text).unwrap_err();
            assert!(error.problem.contains(says), "{text}: {error}");
            assert_eq!(error.at, at, "{text}: {error}");
        }
        let deep = "(".repeat(1000) + "title" + &")".repeat(1000);
        assert!(Condition::parse(&deep).unwrap_err().problem.contains("deep at most"));
        assert!(Condition::parse(&"not ".repeat(1000)).unwrap_err().problem.contains("deep at most"));
        assert!(Condition::parse(&" ".repeat(LONGEST + 1)).unwrap_err().problem.contains("at most"));
    }

    fn condition() -> impl Strategy<Value = String> {
        let text = prop_oneof![Just("a".to_owned()), Just("b c".to_owned()), Just("''".to_owned())];
        let field = prop::sample::select(FIELDS.map(|(name, _)| name).to_vec());
        let test = prop::sample::select(vec!["=", "!=", "~", "!~", "contains"]);
        let leaf = prop_oneof![
            field.clone().prop_map(str::to_owned),
            (field, test, text).prop_map(|(field, test, text)| format!("{field} {test} '{text}'")),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and ({b})")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or ({b})")),
                inner.prop_map(|a| format!("not ({a})")),
            ]
        })
    }

    proptest! {
        /// Whatever is written, it is read or refused, with a place that is in the text.
        #[test]
        fn nothing_written_is_too_much(text in r#"[a-z()=!~'" \\&é]{0,60}|.{0,60}"#) {
            if let Err(error) = Condition::parse(&text) {
                prop_assert!(text.get(error.at.clone()).is_some(), "{text}: {error:?}");
                prop_assert!(!error.problem.is_empty());
            }
        }

        #[test]
        fn what_is_well_formed_is_read_and_obeys_logic(a in condition(), b in condition(), title in "[abc ']{0,5}") {
            let categories = ["a".to_owned()];
            let of = item(&title, &categories);
            let holds = |text: &str| Condition::parse(text).map(|wanted| wanted.holds(&of));
            let (first, second) = (holds(&a), holds(&b));
            prop_assert!(first.is_ok() && second.is_ok(), "{} / {}", a, b);
            let (first, second) = (first.unwrap_or(false), second.unwrap_or(false));
            prop_assert_eq!(holds(&format!("({a}) and ({b})")), Ok(first && second));
            prop_assert_eq!(holds(&format!("({a}) or ({b})")), Ok(first || second));
            prop_assert_eq!(holds(&format!("not ({a})")), Ok(!first));
        }
    }
}
