//! A small language of conditions on items.
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
//! A field alone tests whether the item has it. `=` compares the whole value, `~` searches for a regular
//! expression, `contains` searches for a text and ignores case. A field with several values needs one that
//! passes: `category = 'a'` is true if *a* is among the categories, `category != 'a'` if it is not. A missing
//! field is not equal to any text and matches none, so `title != 'x'` is true of an item without a title.
//!
//! Regular expressions are those of the `regex` crate: their time is proportional to the text. One that would
//! exceed [`MOST_BYTES`] is refused. Conditions nest no deeper than [`DEEPEST`].
//!
//! Must not know the owner of a condition, nor the use of its result.

use std::fmt;
use std::ops::Range;

use regex::{Regex, RegexBuilder};

/// Maximum length of a condition, in bytes.
pub const LONGEST: usize = 4096;

/// Maximum nesting of brackets and `not`.
pub const DEEPEST: usize = 64;

/// Maximum memory of a compiled regular expression, in bytes.
pub const MOST_BYTES: usize = 1 << 20;

/// The fields of an item that a condition can test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ItemFields<'i> {
    /// Its title.
    pub title: Option<&'i str>,
    /// Its link.
    pub link: Option<&'i str>,
    /// Its key.
    pub id: Option<&'i str>,
    /// Its text.
    pub text: Option<&'i str>,
    /// Its authors.
    pub authors: &'i [String],
    /// Its categories.
    pub categories: &'i [String],
}

/// A field that a condition can test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryField {
    /// The title.
    Title,
    /// The link.
    Link,
    /// The key.
    Id,
    /// The text.
    Text,
    /// The authors.
    Authors,
    /// The categories.
    Categories,
}

const FIELDS: [(&str, QueryField); 8] = [
    ("title", QueryField::Title),
    ("link", QueryField::Link),
    ("id", QueryField::Id),
    ("text", QueryField::Text),
    ("author", QueryField::Authors),
    ("authors", QueryField::Authors),
    ("category", QueryField::Categories),
    ("categories", QueryField::Categories),
];

impl QueryField {
    /// The field of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        FIELDS.iter().find(|(known, _)| *known == name).map(|&(_, field)| field)
    }

    /// Whether one of the item's values passes the test.
    fn any(self, of: &ItemFields<'_>, test: impl Fn(&str) -> bool) -> bool {
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
enum QueryNode {
    Or(Vec<QueryNode>),
    And(Vec<QueryNode>),
    Not(Box<QueryNode>),
    Has(QueryField),
    Equals(QueryField, String),
    Contains(QueryField, String),
    Matches(QueryField, Regex),
}

/// A condition on items.
///
/// ```
/// # use tidewatch_core::observe::query::{QueryCondition, ItemFields};
/// let wanted = QueryCondition::parse(r"title ~ 'CVE-\d+' and not category = 'test'").unwrap();
/// let title = Some("CVE-2026-1234: a hole");
/// assert!(wanted.holds(&ItemFields { title, ..ItemFields::default() }));
/// let categories = &["test".to_owned()];
/// assert!(!wanted.holds(&ItemFields { title, categories, ..ItemFields::default() }));
/// let error = QueryCondition::parse("title ~ 'CVE' && link").unwrap_err();
/// assert_eq!(error.to_string(), "`&` means nothing here; conditions are joined by `and` and `or`");
/// assert_eq!(error.at, 14..15);
/// ```
#[derive(Debug, Clone)]
pub struct QueryCondition(QueryNode);

/// The reason why a text is not a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCondition {
    /// The range of the fault, in bytes.
    pub at: Range<usize>,
    /// The fault and its correction.
    pub problem: String,
}

impl fmt::Display for NoCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for NoCondition {}

impl QueryCondition {
    /// Parses a condition.
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
                TokenKind::Close => token.refused("there is no bracket for this one to close"),
                _ => token.refused("`and` or `or` is missing before this"),
            }),
        }
    }

    /// Whether the condition tests this field.
    pub fn asks_about(&self, field: QueryField) -> bool {
        self.0.asks_about(field)
    }

    /// Whether the condition is true of an item.
    pub fn holds(&self, of: &ItemFields<'_>) -> bool {
        self.0.holds(of)
    }
}

impl QueryNode {
    fn asks_about(&self, wanted: QueryField) -> bool {
        match self {
            Self::Or(all) | Self::And(all) => all.iter().any(|node| node.asks_about(wanted)),
            Self::Not(node) => node.asks_about(wanted),
            Self::Has(field)
            | Self::Equals(field, _)
            | Self::Contains(field, _)
            | Self::Matches(field, _) => *field == wanted,
        }
    }

    fn holds(&self, of: &ItemFields<'_>) -> bool {
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
enum TokenKind {
    Word,
    Text(String),
    /// The flag is true for the negated operator.
    Equals(bool),
    Matches(bool),
    Open,
    Close,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    kind: TokenKind,
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
            '(' => TokenKind::Open,
            ')' => TokenKind::Close,
            '=' => TokenKind::Equals(false),
            '~' => TokenKind::Matches(false),
            '!' => match rest.next_if(|&(_, next)| next == '=' || next == '~') {
                Some((_, '=')) => TokenKind::Equals(true),
                Some(_) => TokenKind::Matches(true),
                None => {
                    let problem = "`!` stands in `!=` and `!~` only; write `not`".to_owned();
                    return Err(NoCondition { at: start..start + 1, problem });
                }
            },
            '\'' | '"' => {
                let mut value = String::new();
                loop {
                    match rest.next() {
                        // A doubled quotation mark stands for one.
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
                TokenKind::Text(value)
            }
            _ if sign.is_alphabetic() || sign == '_' => {
                while rest.next_if(|&(_, next)| next.is_alphanumeric() || next == '_').is_some() {}
                TokenKind::Word
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
        if token.kind == TokenKind::Word { &self.text[token.at.clone()] } else { "" }
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

    fn condition(&mut self, depth: usize) -> Result<QueryNode, NoCondition> {
        let mut any = vec![self.all(depth)?];
        while self.take_word("or") {
            any.push(self.all(depth)?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { QueryNode::Or(any) })
    }

    fn all(&mut self, depth: usize) -> Result<QueryNode, NoCondition> {
        let mut all = vec![self.one(depth)?];
        while self.take_word("and") {
            all.push(self.one(depth)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { QueryNode::And(all) })
    }

    fn one(&mut self, depth: usize) -> Result<QueryNode, NoCondition> {
        let Some(token) = self.take() else {
            return Err(self.ends("a condition is missing, such as title ~ 'release'"));
        };
        if depth > DEEPEST {
            return Err(token.refused(format!("brackets and `not` nest {DEEPEST} deep at most")));
        }
        match token.kind {
            TokenKind::Open => {
                let node = self.condition(depth + 1)?;
                match self.take() {
                    Some(Token { kind: TokenKind::Close, .. }) => Ok(node),
                    Some(other) => {
                        Err(other.refused("`and`, `or` or a closing bracket is missing before this"))
                    }
                    None => Err(token.refused("this bracket is not closed")),
                }
            }
            TokenKind::Word if self.word(&token) == "not" => {
                Ok(QueryNode::Not(Box::new(self.one(depth + 1)?)))
            }
            TokenKind::Word => {
                let field = self.field(&token)?;
                self.test(field)
            }
            TokenKind::Close => Err(token.refused("a condition is missing before this bracket")),
            TokenKind::Text(_) => Err(token.refused("a field comes first, then the text: title = 'news'")),
            TokenKind::Equals(_) | TokenKind::Matches(_) => {
                Err(token.refused("a field is missing before this: title ~ 'news'"))
            }
        }
    }

    fn field(&self, token: &Token) -> Result<QueryField, NoCondition> {
        let word = self.word(token);
        QueryField::from_name(word).ok_or_else(|| {
            let problem = match word {
                "and" | "or" => format!("a condition is missing before `{word}`"),
                _ => format!(
                    "there is no field `{word}`; there are title, link, id, author, category and text"
                ),
            };
            token.refused(problem)
        })
    }

    fn test(&mut self, field: QueryField) -> Result<QueryNode, NoCondition> {
        let kind = match self.peek() {
            Some(token) if self.word(token) == "contains" => None,
            Some(Token { kind: kind @ (TokenKind::Equals(_) | TokenKind::Matches(_)), .. }) => {
                Some(kind.clone())
            }
            _ => return Ok(QueryNode::Has(field)),
        };
        self.next += 1;
        let (text, at) = match self.take() {
            Some(Token { kind: TokenKind::Text(text), at }) => (text, at),
            Some(other) => return Err(other.refused("a text in quotation marks belongs here")),
            None => return Err(self.ends("a text in quotation marks is missing at the end")),
        };
        let negated = |no: bool, node: QueryNode| if no { QueryNode::Not(Box::new(node)) } else { node };
        Ok(match kind {
            None => QueryNode::Contains(field, text.to_lowercase()),
            Some(TokenKind::Matches(no)) => negated(no, QueryNode::Matches(field, compiled(&text, at)?)),
            Some(TokenKind::Equals(no)) => negated(no, QueryNode::Equals(field, text)),
            Some(_) => QueryNode::Has(field),
        })
    }
}

fn compiled(text: &str, at: Range<usize>) -> Result<Regex, NoCondition> {
    RegexBuilder::new(text).size_limit(MOST_BYTES).dfa_size_limit(MOST_BYTES).build().map_err(|error| {
        let problem = match error {
            regex::Error::CompiledTooBig(_) => {
                "this regular expression grows too large; repeat less, or match less of it".to_owned()
            }
            // The last line is the message; the lines before it show the position.
            error => {
                let message = error.to_string();
                let last =
                    message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
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

    fn item<'i>(title: &'i str, categories: &'i [String]) -> ItemFields<'i> {
        ItemFields {
            title: Some(title),
            link: Some("https://example.org/a"),
            categories,
            ..ItemFields::default()
        }
    }

    #[test]
    fn conditions_evaluate_as_documented() {
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
            assert_eq!(QueryCondition::parse(text).map(|wanted| wanted.holds(&of)), Ok(holds), "{text}");
        }
        let quoted = QueryCondition::parse("title = 'it''s \"so\"'").unwrap();
        assert!(quoted.holds(&item("it's \"so\"", &[])));
    }

    #[test]
    fn errors_carry_position_and_message() {
        for (text, at, part) in [
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
            let error = QueryCondition::parse(text).unwrap_err();
            assert!(error.problem.contains(part), "{text}: {error}");
            assert_eq!(error.at, at, "{text}: {error}");
        }
        let deep = "(".repeat(1000) + "title" + &")".repeat(1000);
        assert!(QueryCondition::parse(&deep).unwrap_err().problem.contains("deep at most"));
        assert!(QueryCondition::parse(&"not ".repeat(1000)).unwrap_err().problem.contains("deep at most"));
        assert!(QueryCondition::parse(&" ".repeat(LONGEST + 1)).unwrap_err().problem.contains("at most"));
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
        /// Every text is parsed or refused, and the range of an error lies in the text.
        #[test]
        fn every_text_is_parsed_or_refused(text in r#"[a-z()=!~'" \\&é]{0,60}|.{0,60}"#) {
            if let Err(error) = QueryCondition::parse(&text) {
                prop_assert!(text.get(error.at.clone()).is_some(), "{text}: {error:?}");
                prop_assert!(!error.problem.is_empty());
            }
        }

        #[test]
        fn well_formed_conditions_parse_and_obey_logic(a in condition(), b in condition(), title in "[abc ']{0,5}") {
            let categories = ["a".to_owned()];
            let of = item(&title, &categories);
            let holds = |text: &str| QueryCondition::parse(text).map(|wanted| wanted.holds(&of));
            let (first, second) = (holds(&a), holds(&b));
            prop_assert!(first.is_ok() && second.is_ok(), "{} / {}", a, b);
            let (first, second) = (first.unwrap_or(false), second.unwrap_or(false));
            prop_assert_eq!(holds(&format!("({a}) and ({b})")), Ok(first && second));
            prop_assert_eq!(holds(&format!("({a}) or ({b})")), Ok(first || second));
            prop_assert_eq!(holds(&format!("not ({a})")), Ok(!first));
        }
    }
}
