//! Parsing that ends when the call has to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

use ast_grep_language::{LanguageExt as _, SupportLang};
use tree_sitter::{Node, ParseOptions, Parser, Range, Tree};

use crate::{Stop, scanner};

/// The parser asks every hundred steps whether to go on; the clock is looked at every so many times.
const SELDOM: usize = 64;

thread_local! {
    static PARSERS: RefCell<HashMap<SupportLang, Parser>> = RefCell::new(HashMap::new());
}

/// Why there is no tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTree {
    /// The call has to end.
    Late,
    /// The text nests too deep for the language's parser.
    TooDeep,
}

/// The tree of a text, or of some ranges of it (of none means of all).
pub(crate) fn tree(text: &str, language: SupportLang, ranges: &[Range], stop: &Stop) -> Result<Tree, NoTree> {
    if stop.reason().is_some() {
        return Err(NoTree::Late);
    }
    if !scanner::bears(text, language) {
        return Err(NoTree::TooDeep);
    }
    parse(text, language, ranges, stop).ok_or(NoTree::Late)
}

fn parse(text: &str, language: SupportLang, ranges: &[Range], stop: &Stop) -> Option<Tree> {
    PARSERS.with_borrow_mut(|all| {
        let parser = match all.entry(language) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let mut parser = Parser::new();
                parser.set_language(&language.get_ts_language()).ok()?;
                entry.insert(parser)
            }
        };
        parser.set_included_ranges(ranges).ok()?;
        let mut asked = 0_usize;
        let mut is_wanted = |_: &_| {
            asked += 1;
            let is_over = asked.is_multiple_of(SELDOM) && stop.reason().is_some();
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut is_wanted);
        let bytes = text.as_bytes();
        let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
        let tree = parser.parse_with_options(&mut read, None, Some(options));
        if tree.is_none() {
            // What was begun would be gone on with.
            parser.reset();
        }
        tree
    })
}

/// The first node below this one that lies deeper than so many levels.
pub(crate) fn deeper(root: Node<'_>, limit: usize) -> Option<Node<'_>> {
    levels(root).find(|(depth, _)| *depth > limit).map(|(_, node)| node)
}

/// How many levels there are below a node.
pub(crate) fn depth(root: Node<'_>) -> usize {
    levels(root).map(|(depth, _)| depth).max().unwrap_or_default()
}

/// All nodes, outer before inner, and how deep they lie.
fn levels(root: Node<'_>) -> impl Iterator<Item = (usize, Node<'_>)> {
    let mut cursor = root.walk();
    let mut next = Some(0_usize);
    std::iter::from_fn(move || {
        let depth = next?;
        let node = cursor.node();
        next = cursor.goto_first_child().then_some(depth + 1);
        let mut up = depth;
        while next.is_none() {
            if cursor.goto_next_sibling() {
                next = Some(up);
            } else if cursor.goto_parent() {
                up = up.saturating_sub(1);
            } else {
                break;
            }
        }
        Some((depth, node))
    })
}
