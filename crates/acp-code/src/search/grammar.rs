//! The language of queries: words, `AND` `OR` `NOT`, `+` `-`, `"phrases"`, parentheses and filters.
//!
//! ```text
//! any   = all ("OR" all)*
//! all   = list ("AND" list)*
//! list  = item+                          words side by side: one is enough, more rank higher
//! item  = ["+" | "-" | "NOT"] (word | "phrase" | filter | "(" any ")")
//! ```

use crate::{CodeError, lang, words};

use super::filter::Filter;

/// A query as a tree. Numbers are places in [`Query::terms`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Term(usize),
    Filter(Filter),
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Not(Box<Expr>),
    /// Words side by side: what must be, and what may be.
    List {
        must: Vec<Expr>,
        may: Vec<Expr>,
    },
}

/// Something to look for in text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// In lower case.
    pub(super) text: String,
    /// The word without its endings; empty for a phrase.
    pub(super) stem: String,
    pub(super) phrase: bool,
    /// A word about code as such, or one that is only excluded: it hardly raises a score.
    pub(super) weak: bool,
    /// It is excluded, so only the word itself counts, no other form of it.
    pub(super) strict: bool,
    /// It was written in capitals: `GET` is not any `get`.
    pub(super) capitals: bool,
}

/// A query that was understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Query {
    pub(super) expr: Expr,
    pub(super) terms: Vec<Term>,
}

/// Parentheses in parentheses: reading them, and every look at the tree that they give, goes down as deep.
const DEEPEST: usize = 100;
/// A longer query is a text; each of its words would be compared with all the others.
const LONGEST: usize = 16_000;

/// Reads a query.
pub(super) fn parse(text: &str) -> Result<Query, CodeError> {
    if text.chars().nth(LONGEST).is_some() {
        let what = format!(
            "the query is longer than {LONGEST} characters; ask in fewer words, or for a text with exact"
        );
        return Err(fail(text, LONGEST, &what));
    }
    let mut parser =
        Parser { text, tokens: tokens(text)?, at: 0, terms: Vec::new(), excluded: false, depth: 0 };
    let expr = parser.any()?;
    if let Some(token) = parser.tokens.get(parser.at) {
        return Err(parser.fail(token.at, "a `)` without its `(`"));
    }
    let expr = expr.ok_or_else(|| parser.fail(0, "there is nothing to look for"))?;
    let mut query = Query { expr, terms: parser.terms };
    query.settle();
    if !query.expr.asks_for_something() {
        return Err(fail(
            text,
            0,
            "give at least one word to look for; filters and exclusions alone find nothing",
        ));
    }
    Ok(query)
}

impl Query {
    /// Words about code as such count only when the query has nothing better.
    fn settle(&mut self) {
        let strong = self.terms.iter().filter(|term| !term.weak && !words::is_general(&term.text)).count();
        if strong >= 2 {
            for term in &mut self.terms {
                term.weak |= words::is_general(&term.text);
            }
        }
    }
}

impl Expr {
    fn asks_for_something(&self) -> bool {
        match self {
            Self::Term(_) => true,
            Self::Filter(_) | Self::Not(_) => false,
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::asks_for_something),
            Self::List { must, may } => must.iter().chain(may).any(Self::asks_for_something),
        }
    }

    /// Whether the expression can be true, and whether it can be false, when some answers are not known yet.
    pub(super) fn outlook(
        &self,
        term: &impl Fn(usize) -> Option<bool>,
        filter: &impl Fn(&Filter) -> bool,
    ) -> (bool, bool) {
        let known = |answer: Option<bool>| answer.map_or((true, true), |yes| (yes, !yes));
        let all = |parts: &[Self]| {
            parts
                .iter()
                .map(|part| part.outlook(term, filter))
                .fold((true, false), |(yes, no), (can, cannot)| (yes && can, no || cannot))
        };
        let any = |parts: &[Self]| {
            parts
                .iter()
                .map(|part| part.outlook(term, filter))
                .fold((false, true), |(yes, no), (can, cannot)| (yes || can, no && cannot))
        };
        match self {
            Self::Term(index) => known(term(*index)),
            Self::Filter(what) => known(Some(filter(what))),
            Self::All(parts) => all(parts),
            Self::Any(parts) => any(parts),
            Self::Not(part) => {
                let (yes, no) = part.outlook(term, filter);
                (no, yes)
            }
            Self::List { must, may } => {
                let needs_one = !must.iter().any(Self::asks_for_something);
                let (must, may) = (all(must), if needs_one { any(may) } else { (true, false) });
                (must.0 && may.0, must.1 || may.1)
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Word(String),
    Phrase(String),
    Open,
    Close,
    And,
    Or,
    Not,
    Plus,
    Minus,
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    /// Character from 0.
    at: usize,
}

fn tokens(text: &str) -> Result<Vec<Token>, CodeError> {
    let chars: Vec<char> = text.chars().collect();
    let mut found: Vec<Token> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let begins_item = at == 0 || chars[at - 1].is_whitespace() || chars[at - 1] == '(';
        let kind = match chars[at] {
            c if c.is_whitespace() => {
                at += 1;
                continue;
            }
            '(' => Kind::Open,
            ')' => Kind::Close,
            '+' if begins_item && is_sign(&chars, at) => Kind::Plus,
            '-' if begins_item && is_sign(&chars, at) => Kind::Minus,
            '"' => {
                let Some(end) = chars[at + 1..].iter().position(|c| *c == '"') else {
                    return Err(fail(text, at, "this quotation mark is never closed"));
                };
                let inside: String = chars[at + 1..=at + end].iter().collect();
                found.push(Token { kind: Kind::Phrase(inside), at });
                at += end + 2;
                continue;
            }
            _ => {
                let start = at;
                let mut quoted = false;
                while at < chars.len() && (quoted || !(chars[at].is_whitespace() || "()".contains(chars[at])))
                {
                    // A filter's value may be quoted: file:"a b.txt".
                    if chars[at] == '"' {
                        quoted = !quoted;
                    }
                    at += 1;
                }
                let word: String = chars[start..at].iter().collect();
                let kind = match word.as_str() {
                    "AND" | "&&" => Kind::And,
                    "OR" | "||" => Kind::Or,
                    "NOT" => Kind::Not,
                    _ => Kind::Word(word),
                };
                found.push(Token { kind, at: start });
                continue;
            }
        };
        found.push(Token { kind, at });
        at += 1;
    }
    Ok(found)
}

/// `+word` and `-word`; not `--flag`, `->` or `+=`, not a dash between words.
fn is_sign(chars: &[char], at: usize) -> bool {
    chars.get(at + 1).is_none_or(|next| next.is_alphanumeric() || "_\"(".contains(*next))
}

fn fail(query: &str, at: usize, what: &str) -> CodeError {
    CodeError::Query { query: query.to_owned(), at: at + 1, what: what.to_owned() }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    terms: Vec<Term>,
    /// Inside an exclusion: what is read there does not raise scores.
    excluded: bool,
    /// How many parentheses are open.
    depth: usize,
}

enum Sign {
    None,
    Plus,
    Minus,
}

impl Parser<'_> {
    fn fail(&self, at: usize, what: &str) -> CodeError {
        fail(self.text, at, what)
    }

    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    fn here(&self) -> usize {
        self.tokens.get(self.at).map_or_else(|| self.text.chars().count(), |token| token.at)
    }

    fn any(&mut self) -> Result<Option<Expr>, CodeError> {
        self.chain(&Kind::Or, "OR", Self::all, Expr::Any)
    }

    fn all(&mut self) -> Result<Option<Expr>, CodeError> {
        self.chain(&Kind::And, "AND", Self::list, Expr::All)
    }

    fn chain(
        &mut self,
        operator: &Kind,
        word: &str,
        part: fn(&mut Self) -> Result<Option<Expr>, CodeError>,
        join: fn(Vec<Expr>) -> Expr,
    ) -> Result<Option<Expr>, CodeError> {
        let mut parts: Vec<Expr> = part(self)?.into_iter().collect();
        let mut joined = false;
        while self.peek() == Some(operator) {
            let at = self.here();
            self.at += 1;
            let before = self.at;
            let right = part(self)?;
            if (parts.is_empty() && !joined) || self.at == before {
                return Err(self.fail(at, &format!("{word} needs something on both sides")));
            }
            joined = true;
            parts.extend(right);
        }
        Ok(if parts.len() > 1 { Some(join(parts)) } else { parts.pop() })
    }

    fn list(&mut self) -> Result<Option<Expr>, CodeError> {
        let (mut must, mut may, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let sign = match self.peek() {
                Some(Kind::Plus) => Sign::Plus,
                Some(Kind::Minus | Kind::Not) => Sign::Minus,
                Some(Kind::Word(_) | Kind::Phrase(_) | Kind::Open) => Sign::None,
                _ => break,
            };
            let at = self.here();
            if !matches!(sign, Sign::None) {
                self.at += 1;
            }
            let outside = self.excluded;
            self.excluded |= matches!(sign, Sign::Minus);
            let item = self.item(at, &sign, &mut empty)?;
            self.excluded = outside;
            match (item, sign) {
                (None, _) => {}
                (Some(item), Sign::Minus) => must.push(Expr::Not(Box::new(item))),
                (Some(item), Sign::Plus) | (Some(item @ Expr::Filter(_)), Sign::None) => must.push(item),
                (Some(item), Sign::None) => may.push(item),
            }
        }
        // Nothing but small words: then they are what is looked for.
        if may.is_empty() && must.is_empty() {
            may.extend(empty.into_iter().map(|word: String| self.word(&word, false)).collect::<Vec<_>>());
        }
        Ok(match (must.len(), may.len()) {
            (0, 0) => None,
            (1, 0) => must.pop(),
            (0, 1) => may.pop(),
            _ => Some(Expr::List { must, may }),
        })
    }

    fn item(&mut self, at: usize, sign: &Sign, empty: &mut Vec<String>) -> Result<Option<Expr>, CodeError> {
        let Some(kind) = self.peek().cloned() else {
            return Err(self.fail(at, "nothing follows this sign"));
        };
        self.at += 1;
        match kind {
            Kind::Open => {
                if self.depth == DEEPEST {
                    let what = format!("parentheses nest deeper than {DEEPEST} here; write it with fewer");
                    return Err(self.fail(self.tokens[self.at - 1].at, &what));
                }
                self.depth += 1;
                let inside = self.any()?;
                self.depth -= 1;
                if self.peek() != Some(&Kind::Close) {
                    return Err(self.fail(at, "this `(` is never closed"));
                }
                self.at += 1;
                Ok(inside)
            }
            Kind::Phrase(text) => {
                let text = text.to_lowercase();
                if text.trim().is_empty() {
                    return Err(self.fail(at, "the phrase is empty"));
                }
                let (weak, strict) = (self.excluded, self.excluded);
                Ok(Some(self.term(Term {
                    text,
                    stem: String::new(),
                    phrase: true,
                    weak,
                    strict,
                    capitals: false,
                })))
            }
            Kind::Word(word) => {
                if let Some(filter) = self.filter(&word, at)? {
                    return Ok(Some(Expr::Filter(filter)));
                }
                let lower = word.to_lowercase();
                let bare = lower.trim_matches(|c: char| !c.is_alphanumeric());
                if matches!(sign, Sign::None) && !self.excluded && words::is_empty(bare) {
                    empty.push(word);
                    return Ok(None);
                }
                let parts = words::split(&word);
                let capitals = bare.len() > 1 && !word.bytes().any(|byte| byte.is_ascii_lowercase());
                Ok(match parts.len() {
                    0 => self.signs(&word),
                    1 => Some(self.word(&parts[0], capitals)),
                    // A name with several words: all of them belong together.
                    _ => {
                        let parts = parts.iter().map(|part| self.word(part, false)).collect();
                        Some(if matches!(sign, Sign::None) && !self.excluded {
                            Expr::Any(parts)
                        } else {
                            Expr::All(parts)
                        })
                    }
                })
            }
            _ => Err(self.fail(at, "nothing follows this sign")),
        }
    }

    fn filter(&self, word: &str, at: usize) -> Result<Option<Filter>, CodeError> {
        let Some((key, value)) = word.split_once(':') else { return Ok(None) };
        let value = value.trim_matches('"');
        let list = || value.split(',').map(|part| part.trim().to_lowercase()).filter(|part| !part.is_empty());
        let filter = match key {
            "file" => Filter::File(value.to_lowercase()),
            "dir" => Filter::Dir(value.trim_matches('/').to_lowercase()),
            "ext" => Filter::Ext(list().map(|part| part.trim_start_matches('.').to_owned()).collect()),
            "lang" => {
                let named: Result<Vec<_>, _> = list().map(|name| lang::named(&name)).collect();
                Filter::Lang(named.map_err(|error| self.fail(at, &error.to_string()))?)
            }
            _ => return Ok(None),
        };
        if value.is_empty() {
            return Err(self.fail(at, &format!("{key}: needs a value, for instance {key}:{}", example(key))));
        }
        Ok(Some(filter))
    }

    fn word(&mut self, word: &str, capitals: bool) -> Expr {
        let text = word.to_lowercase();
        let (weak, strict) = (self.excluded, self.excluded);
        self.term(Term { stem: words::stem(&text), text, phrase: false, weak, strict, capitals })
    }

    /// `~`, `/../`, `->`: signs that stand alone are looked for as they are. Those of a sentence are not, nor single
    /// ones that stand in every line of code.
    fn signs(&mut self, word: &str) -> Option<Expr> {
        let inner = word.trim_matches(|c: char| ",;:?!'\"`…–—".contains(c));
        // `::`, `??`
        let is_operator = word.len() > 1 && word.chars().all(|c| ":;?!".contains(c));
        let text = if is_operator { word } else { inner };
        let everywhere = text.chars().count() == 1 && "-+*/=<>&|.#_[]{}".contains(text);
        if text.is_empty() || everywhere {
            return None;
        }
        let (text, weak, strict) = (text.to_owned(), self.excluded, self.excluded);
        Some(self.term(Term { text, stem: String::new(), phrase: true, weak, strict, capitals: false }))
    }

    fn term(&mut self, term: Term) -> Expr {
        let same = |other: &Term| {
            other.phrase == term.phrase
                && if term.phrase { other.text == term.text } else { other.stem == term.stem }
        };
        if let Some(index) = self.terms.iter().position(same) {
            self.terms[index].weak &= term.weak;
            self.terms[index].strict &= term.strict;
            self.terms[index].capitals &= term.capitals;
            return Expr::Term(index);
        }
        self.terms.push(term);
        Expr::Term(self.terms.len() - 1)
    }
}

fn example(key: &str) -> &'static str {
    match key {
        "ext" => "rs,toml",
        "lang" => "rust",
        "dir" => "src",
        _ => "main.rs",
    }
}
