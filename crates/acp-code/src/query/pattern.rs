//! A pattern in one language, and what every file that matches it must contain.

use ast_grep_core::Pattern;
use ast_grep_core::matcher::{PatternError, PatternNode};
use ast_grep_language::{Language as _, LanguageExt as _, SupportLang};
use memchr::memmem::Finder;

use crate::CodeError;

/// A compiled pattern and its literals.
pub(super) struct Compiled {
    pub(super) language: SupportLang,
    pub(super) pattern: Pattern,
    literals: Vec<Finder<'static>>,
}

impl Compiled {
    /// Reads the pattern as code of this language.
    pub(super) fn new(source: &str, language: SupportLang) -> Result<Self, CodeError> {
        let pattern =
            Pattern::try_new(source, language).map_err(|error| flaw(source, language, &explained(&error)))?;
        let literals = literals(&pattern).iter().map(|text| Finder::new(text).into_owned()).collect();
        Ok(Self { language, pattern, literals })
    }

    /// Whether a file with these bytes can match at all. Every literal that is asked for here is one that
    /// `ast-grep` asks for too, so nothing that it finds is lost.
    pub(super) fn may_match(&self, bytes: &[u8]) -> bool {
        self.literals.iter().all(|literal| literal.find(bytes).is_some())
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
}

/// The texts that stand in every file with a match, rarest (longest) first.
///
/// Two kinds are safe. A named leaf matches only a node with the same text, and under the default strictness
/// none may be left out. And the longest leaf of all, keyword or not, is looked for in the whole file by
/// `ast-grep` itself before it matches, so a file without it has no match there either. Keywords and
/// punctuation in general are *not* safe: they match by kind, and the parser invents missing ones.
fn literals(pattern: &Pattern) -> Vec<String> {
    let mut found = vec![pattern.fixed_string().into_owned()];
    named_leaves(&pattern.node, &mut found);
    found.retain(|text| !text.is_empty());
    found.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    found.dedup();
    // A text that is part of a longer one says nothing new.
    let mut kept: Vec<String> = Vec::new();
    for text in found {
        if !kept.iter().any(|longer| longer.contains(&text)) {
            kept.push(text);
        }
    }
    kept
}

fn named_leaves(node: &PatternNode, found: &mut Vec<String>) {
    match node {
        PatternNode::MetaVar { .. } | PatternNode::Terminal { is_named: false, .. } => {}
        PatternNode::Terminal { text, .. } => found.push(text.clone()),
        PatternNode::Internal { children, .. } => {
            for child in children {
                named_leaves(child, found);
            }
        }
    }
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
    let grep = language.ast_grep(read.as_ref());
    let root = grep.root();
    let broken = root.dfs().find(|node| node.is_error() || node.is_missing());
    let second = root.children().nth(1);
    let at = if what == SEVERAL { second.or(broken) } else { broken.or(second) };
    let (row, byte) = at.map_or((0, 0), |node| (node.start_pos().line(), node.start_pos().byte_point().1));
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
