//! A pattern in one language, and what every file that matches it must contain.

use std::collections::HashSet;
use std::ops::Range;

use ast_grep_core::Pattern;
use ast_grep_core::matcher::{PatternError, PatternNode};
use ast_grep_core::meta_var::MetaVariable;
use ast_grep_language::{Language as _, LanguageExt as _, SupportLang};
use memchr::memmem::Finder;
use tree_sitter::Point;

use crate::{CodeError, StopSignal, syntax};

/// The row of letters before a name is followed so many bytes.
const BEFORE: usize = 256;

/// A longer pattern is a file; it would be parsed in every language.
pub(super) const LONGEST: usize = 16_000;
/// Compiling, matching and dropping a pattern go down as deep as its tree.
const DEEPEST: usize = 250;
/// What follows a `$$$` hole is tried before it is matched: each such level takes twice the time.
const HOLES: usize = 12;

/// A compiled pattern and its literals.
pub(super) struct Compiled {
    pub(super) language: SupportLang,
    pub(super) pattern: Pattern,
    /// A named hole stands in it twice: what stood there is compared.
    pub(super) compares: bool,
    literals: Vec<Literal>,
}

impl Compiled {
    /// Reads the pattern as code of this language.
    pub(super) fn new(source: &str, language: SupportLang) -> Result<Self, CodeError> {
        let read = language.pre_process_pattern(source);
        let deep = match &syntax::tree(&read, language, &[], &StopSignal::never()) {
            Ok(tree) => syntax::deeper(tree.root_node(), DEEPEST).map(|node| node.start_position()),
            Err(_) => Some(Point::default()),
        };
        if let Some(at) = deep {
            let what = format!("this nests deeper than {DEEPEST} nodes; give a smaller piece of code");
            return Err(flaw_at(source, language, &what, (at.row, at.column)));
        }
        let pattern =
            Pattern::try_new(source, language).map_err(|error| flaw(source, language, &explained(&error)))?;
        if doublings(&pattern.node) > HOLES {
            let what = format!(
                "code behind a `$$$` hole lies in such code, more than {HOLES} times; use fewer holes"
            );
            return Err(flaw_at(source, language, &what, (0, 0)));
        }
        let literals = literals(&pattern, language);
        let compares = compares(&pattern.node, &mut HashSet::new());
        Ok(Self { language, pattern, compares, literals })
    }

    /// Whether a file with these bytes can match at all. Every literal that is asked for here is one that
    /// `ast-grep` asks for too, so nothing that it finds is lost.
    pub(super) fn may_match(&self, bytes: &[u8]) -> bool {
        self.literals.iter().all(|literal| literal.spots(bytes).next().is_some())
    }

    /// Where the longest text stands that every match has inside it: first bytes and ends, in order. Without such a
    /// text a match can be anywhere.
    pub(super) fn spots(&self, bytes: &[u8]) -> Option<Vec<Range<usize>>> {
        let literal = self.literals.iter().find(|literal| literal.inside)?;
        Some(literal.spots(bytes).map(|at| at..at + literal.finder.needle().len()).collect())
    }

    /// The pattern is no complete code: the parser had to skip or invent something at its root.
    pub(super) fn error(&self, source: &str) -> Option<CodeError> {
        self.pattern.has_error().then(|| {
            flaw(
                source,
                self.language,
                "this is no complete piece of code, and nothing matches it as it stands",
            )
        })
    }

    /// A bracket of the pattern has no partner, and is read all the same because brackets are letters there: in a text,
    /// and in a word of a shell.
    pub(super) fn has_letters_for_brackets(&self, source: &str) -> bool {
        let read = self.language.pre_process_pattern(source);
        let Some(((row, column), ..)) = unbalanced(&read) else { return false };
        let is_word = || {
            let (from, to) = (Point { row, column }, Point { row, column: column + 1 });
            syntax::tree(&read, self.language, &[], &StopSignal::never()).is_ok_and(|tree| {
                tree.root_node()
                    .descendant_for_point_range(from, to)
                    .is_some_and(|leaf| leaf.kind() == "word")
            })
        };
        match self.language {
            SupportLang::Html | SupportLang::Markdown => true,
            SupportLang::Bash => is_word(),
            _ => false,
        }
    }
}

/// A text that stands in every file with a match.
struct Literal {
    finder: Finder<'static>,
    /// It stands in the match itself.
    inside: bool,
    /// It is a name of its own there, never a part of a longer one.
    whole: bool,
}

impl Literal {
    fn spots<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = usize> + 'b {
        let length = self.finder.needle().len();
        self.finder
            .find_iter(bytes)
            .filter(move |at| !self.whole || !in_longer_name(bytes, *at..*at + length))
    }
}

/// Whether what stands here is a part of a longer name, for certain. A row of letters, digits and `_` that begins with
/// a letter is one token; behind a digit, a backslash or letters beyond ASCII a token may begin in mid-row. Where a row
/// begins is looked for in the bytes just before: a row without end is not gone through again for each name in it.
fn in_longer_name(bytes: &[u8], name: Range<usize>) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let from = name.start.saturating_sub(BEFORE);
    let start = match bytes[from..name.start].iter().rposition(|byte| !is_word(byte)) {
        Some(before) => from + before + 1,
        None if from > 0 => return false,
        None => 0,
    };
    let before = start.checked_sub(1).and_then(|at| bytes.get(at));
    let is_row =
        !bytes[start].is_ascii_digit() && before.is_none_or(|byte| byte.is_ascii() && *byte != b'\\');
    is_row && (start < name.start || bytes.get(name.end).is_some_and(is_word))
}

/// The texts that stand in every file with a match, rarest (longest) first.
///
/// Two kinds are safe. A named leaf matches only a node with the same text, and under the default strictness
/// none may be left out. And the longest leaf of all, keyword or not, is looked for in the whole file by
/// `ast-grep` itself before it matches, so a file without it has no match there either. Keywords and
/// punctuation in general are *not* safe: they match by kind, and the parser invents missing ones.
fn literals(pattern: &Pattern, language: SupportLang) -> Vec<Literal> {
    // The text, and whether it stands inside the match, as a name of its own.
    let mut found = vec![(pattern.fixed_string().into_owned(), false, false)];
    named_leaves(&pattern.node, &names(language), &mut found);
    found.retain(|(text, ..)| !text.is_empty());
    // What is asked of the same text at several places comes last.
    found.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
    let mut kept: Vec<(String, bool, bool)> = Vec::new();
    for (text, inside, whole) in found {
        if let Some(last) = kept.last_mut().filter(|last| last.0 == text) {
            (last.1, last.2) = (last.1 || inside, last.2 || whole);
            continue;
        }
        // A text that is part of a longer one says nothing new, unless it is a name of its own.
        let says_more = |longer: &(String, bool, bool)| longer.0.contains(&text) && (longer.1 || !inside);
        if whole || !kept.iter().any(says_more) {
            kept.push((text, inside, whole));
        }
    }
    kept.into_iter()
        .map(|(text, inside, whole)| Literal { finder: Finder::new(&text).into_owned(), inside, whole })
        .collect()
}

fn named_leaves(node: &PatternNode, names: &[u16], found: &mut Vec<(String, bool, bool)>) {
    match node {
        PatternNode::MetaVar { .. } | PatternNode::Terminal { is_named: false, .. } => {}
        PatternNode::Terminal { text, kind_id, .. } => {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            found.push((text.clone(), true, is_plain && names.contains(kind_id)));
        }
        PatternNode::Internal { children, .. } => {
            for child in children {
                named_leaves(child, names, found);
            }
        }
    }
}

/// Whether a named hole stands in the pattern twice.
fn compares<'p>(node: &'p PatternNode, seen: &mut HashSet<&'p str>) -> bool {
    match node {
        PatternNode::MetaVar {
            meta_var: MetaVariable::Capture(name, _) | MetaVariable::MultiCapture(name),
        } => !seen.insert(name),
        PatternNode::Internal { children, .. } => children.iter().any(|child| compares(child, seen)),
        _ => false,
    }
}

/// How many `$$$` holes stand, one inside the other, before what lies deepest.
fn doublings(node: &PatternNode) -> usize {
    let PatternNode::Internal { children, .. } = node else { return 0 };
    let (mut most, mut is_behind) = (0, false);
    for child in children {
        let is_hole = matches!(
            child,
            PatternNode::MetaVar { meta_var: MetaVariable::Multiple | MetaVariable::MultiCapture(_) }
        );
        most = most.max(doublings(child) + usize::from(is_behind && !is_hole));
        is_behind = is_hole || (is_behind && child.is_trivial());
    }
    most
}

/// The kinds of nodes that are names, in languages whose parsers never end a token inside a name.
fn names(language: SupportLang) -> Vec<u16> {
    use SupportLang as L;
    if !matches!(
        language,
        L::C | L::Cpp | L::Go | L::Java | L::JavaScript | L::Python | L::Rust | L::Tsx | L::TypeScript
    ) {
        return Vec::new();
    }
    let grammar = language.get_ts_language();
    let is_name = |id: &u16| grammar.node_kind_for_id(*id).is_some_and(|kind| kind.ends_with("identifier"));
    (0..u16::try_from(grammar.node_kind_count()).unwrap_or(u16::MAX)).filter(is_name).collect()
}

/// What the pattern compiler said, in our words and without the pattern that we print anyway.
fn explained(error: &PatternError) -> String {
    match error {
        PatternError::NoContent(_) => "there is no code in it".to_owned(),
        PatternError::MultipleNode(_) => SEVERAL.to_owned(),
        PatternError::RootMultiMetaVar(_) => {
            "a `$$$` hole cannot stand alone; use `$NAME`, or put it into a larger pattern".to_owned()
        }
        other => other.to_string(),
    }
}

const SEVERAL: &str =
    "these are several pieces of code; a pattern is one expression, statement or declaration";

/// The error with the position of the first thing that the parser could not read, or of what follows the
/// first complete piece.
fn flaw(source: &str, language: SupportLang, what: &str) -> CodeError {
    let read = language.pre_process_pattern(source);
    if what != SEVERAL
        && let Some((at, bracket, is_closed)) = unbalanced(&read)
    {
        let how = if is_closed { "closes nothing" } else { "is not closed" };
        return flaw_at(source, language, &format!("`{bracket}` {how}; {what}"), at);
    }
    let grep = language.ast_grep(read.as_ref());
    let root = grep.root();
    // The smallest: the root itself is an error when anything is.
    let broken =
        root.dfs().filter(|node| node.is_error() || node.is_missing()).min_by_key(|node| node.range().len());
    let second = root.children().nth(1);
    let at = if what == SEVERAL { second.or(broken) } else { broken.or(second) };
    flaw_at(source, language, what, at.map_or((0, 0), |node| node.start_pos().byte_point()))
}

/// The first bracket that closes nothing (true), or else the last that is not closed: its row and byte, and which. What
/// stands in quotes is text.
fn unbalanced(source: &str) -> Option<((usize, usize), char, bool)> {
    let mut open: Vec<((usize, usize), char)> = Vec::new();
    for (row, line) in source.lines().enumerate() {
        let mut letters = line.char_indices();
        while let Some((byte, letter)) = letters.next() {
            match letter {
                '"' if line[byte + 1..].contains('"') => {
                    while let Some((_, inside)) = letters.next() {
                        match inside {
                            '\\' => drop(letters.next()),
                            '"' => break,
                            _ => {}
                        }
                    }
                }
                '(' | '[' | '{' => open.push(((row, byte), letter)),
                ')' | ']' | '}' => {
                    let pair = [('(', ')'), ('[', ']'), ('{', '}')];
                    let fits = open.pop().is_some_and(|(_, before)| pair.contains(&(before, letter)));
                    if !fits {
                        return Some(((row, byte), letter, true));
                    }
                }
                _ => {}
            }
        }
    }
    open.pop().map(|(at, letter)| (at, letter, false))
}

/// The error with its line and the byte in it, both from 0.
fn flaw_at(source: &str, language: SupportLang, what: &str, (row, byte): (usize, usize)) -> CodeError {
    let read = language.pre_process_pattern(source);
    let read_line = read.lines().nth(row).unwrap_or_default();
    let column = read_line.get(..byte).map_or(0, |before| before.chars().count()) + 1;
    CodeError::Pattern {
        language: language.to_string(),
        line: row + 1,
        column,
        what: what.to_owned(),
        excerpt: source.lines().nth(row).unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(source: &str, language: SupportLang) -> Vec<(String, bool, bool)> {
        let compiled = Compiled::new(source, language).unwrap_or_else(|error| panic!("{error}"));
        let text = |literal: &Literal| String::from_utf8_lossy(literal.finder.needle()).into_owned();
        compiled.literals.iter().map(|literal| (text(literal), literal.inside, literal.whole)).collect()
    }

    #[test]
    fn names_are_looked_for_as_whole_words_inside_the_match() {
        let literal = |text: &str, inside, whole| (text.to_owned(), inside, whole);
        assert_eq!(asked("defer $X.Unlock()", SupportLang::Go), [literal("Unlock", true, true)]);
        // The keyword is longer than the name; it may stand anywhere in the file.
        let found = asked("synchronized (lock) { $$$BODY }", SupportLang::Java);
        assert_eq!(found, [literal("synchronized", false, false), literal("lock", true, true)]);
        // A name that is part of a longer one is asked for all the same.
        let found = asked("mem::member($X)", SupportLang::Rust);
        assert_eq!(found, [literal("member", true, true), literal("mem", true, true)]);
        // A string's text is no name, and these parsers are not known to keep names whole.
        assert_eq!(asked("f(\"abc\")", SupportLang::Go)[0], literal("abc", true, false));
        assert_eq!(asked("abc($X)", SupportLang::Swift)[0], literal("abc", true, false));
    }

    #[test]
    fn a_flaw_is_shown_where_it_is() {
        let place = |source: &str, language| {
            let error = match Compiled::new(source, language) {
                Ok(compiled) => compiled.error(source).expect("a flaw"),
                Err(error) => error,
            };
            let CodeError::Pattern { line, column, what, .. } = error else { panic!("{error}") };
            (line, column, what.split(';').next().unwrap_or_default().to_owned())
        };
        for (source, language, line, column, what) in [
            ("unwrap(", SupportLang::Rust, 1, 7, "`(` is not closed"),
            ("foo(]", SupportLang::Python, 1, 5, "`]` closes nothing"),
            ("match $X { $$$", SupportLang::Rust, 1, 10, "`{` is not closed"),
            ("f(\")\", g(", SupportLang::JavaScript, 1, 9, "`(` is not closed"),
            ("class A {\n  f(", SupportLang::Java, 2, 4, "`(` is not closed"),
        ] {
            assert_eq!(place(source, language), (line, column, what.to_owned()), "{source}");
        }
    }

    #[test]
    fn only_what_is_surely_a_part_of_a_longer_name_is_passed_over() {
        let passed = |text: &str| {
            let at = text.find("foo").unwrap_or_else(|| panic!("no foo in {text}"));
            in_longer_name(text.as_bytes(), at..at + 3)
        };
        for part in ["foo_bar", "a_foo", "x.foo2()", "_foo", "xfoo.foo"] {
            assert!(passed(part), "{part}");
        }
        for whole in ["foo", "x.foo()", "$foo", "r#foo", "5foo", "0xffoo", "\\nfoo", "\u{e9}foo", "(foo)"] {
            assert!(!passed(whole), "{whole}");
        }
        // A row that begins too far away may begin with anything.
        assert!(passed(&format!("({}foo", "x".repeat(BEFORE - 1))));
        assert!(!passed(&format!("({}foo", "x".repeat(BEFORE))));
        assert!(passed(&format!("{}foo", "x".repeat(BEFORE))), "the file begins there");
    }
}
