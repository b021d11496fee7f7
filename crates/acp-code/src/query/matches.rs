//! The matches in one file.

use std::borrow::Cow;
use std::ops::Range;

use ast_grep_core::matcher::MatcherExt as _;
use ast_grep_core::meta_var::MetaVariable;
use ast_grep_core::tree_sitter::{StrDoc, TSRange};
use ast_grep_core::{AstGrep, Matcher as _};
use ast_grep_language::{LanguageExt as _, SupportLang};
use tree_sitter::Tree;

use super::pattern::Compiled;
use super::{QueryCapture, QueryMatch};
use crate::blocks::Outline;
use crate::syntax::{self, NoTree};
use crate::{StopSignal, lang};

/// A literal is rare in a file when it stands there at most once in so many bytes. Where it is not, going through all
/// nodes in one go takes less time than choosing among them.
const APART: usize = 4096;
/// The clock is looked at once in so many nodes.
const SELDOM: usize = 1024;
/// Where a hole stands twice in the pattern, what stood there is compared by a function that goes down as deep as the
/// tree. A usual thread has the stack for so much; a deeper tree is gone through on a thread of its own.
const DEEP: usize = 500;
/// And a tree that is deeper than this is not gone through at all.
const DEEPEST: usize = 50_000;
/// The stack that each level of the tree takes, twice as much as in a build without optimisation.
const LEVEL: usize = 4096;
/// Matches lie inside one another: their texts together may be far more than the file. So many bytes are given.
pub(super) const MOST: usize = 64 << 20;

type Grep = AstGrep<StrDoc<SupportLang>>;
type Node<'g> = ast_grep_core::Node<'g, StrDoc<SupportLang>>;
type Hit<'g> = ast_grep_core::NodeMatch<'g, StrDoc<SupportLang>>;

/// A file and what is looked for in it.
pub(super) struct InFile<'f> {
    /// Path below the root.
    pub(super) file: &'f str,
    pub(super) text: &'f str,
    pub(super) host: SupportLang,
    /// The pattern in the file's own language.
    pub(super) own: Option<&'f Compiled>,
    /// The pattern in languages that the file may carry.
    pub(super) carried: &'f [&'f Compiled],
    /// How many matches are given at most; all are counted.
    pub(super) wanted: usize,
    pub(super) allow_tests: bool,
    pub(super) stop: &'f StopSignal,
}

/// What was found in a file before the call had to end.
#[derive(Default)]
pub(super) struct Found {
    pub(super) total: usize,
    /// The first ones.
    pub(super) given: Vec<QueryMatch>,
    /// Not all that were wanted are given: they are more than [`MOST`] bytes.
    pub(super) is_cut: bool,
    /// Something in it was not looked at: it nests deeper than [`DEEPEST`], or than its parser bears.
    pub(super) is_deep: bool,
}

impl InFile<'_> {
    pub(super) fn find(&self) -> Found {
        let mut found = Found::default();
        let Some(tree) = self.tree(self.text, self.host, &[], &mut found) else { return found };
        let mut rest = Rest::new(self);
        let grep = doc(self.text.to_owned(), self.host, tree);
        if let Some(compiled) = self.own {
            self.gather(&grep, &Wanted::new(compiled, self.text), &mut rest, &mut found);
        }
        if self.carried.is_empty() {
            return found;
        }
        let wanted: Vec<_> = self.carried.iter().map(|entry| Wanted::new(entry, self.text)).collect();
        let carried = self.host.extract_injections(grep.root());
        let mut source = grep.generate();
        for (name, ranges) in carried {
            let language = lang::named(&name).ok();
            let wanted = wanted.iter().find(|wanted| Some(wanted.compiled.language) == language);
            let Some(wanted) = wanted else { continue };
            let language = wanted.compiled.language;
            let Some(tree) = self.tree(&source, language, &ranges, &mut found) else { break };
            let inner = doc(source, language, tree);
            self.gather(&inner, wanted, &mut rest, &mut found);
            source = inner.generate();
        }
        found
    }

    fn tree(&self, text: &str, language: SupportLang, ranges: &[TSRange], found: &mut Found) -> Option<Tree> {
        let tree = syntax::tree(text, language, ranges, self.stop);
        found.is_deep |= matches!(tree, Err(NoTree::TooDeep));
        tree.ok()
    }

    /// Adds the matches in a tree, on a thread with more stack where that is needed.
    fn gather(&self, grep: &Grep, wanted: &Wanted<'_>, rest: &mut Rest<'_>, found: &mut Found) {
        let root = grep.root();
        let depth = if wanted.compiled.compares { syntax::depth(root.get_inner_node()) } else { 0 };
        if depth <= DEEP {
            return self.add(grep, wanted, rest, found);
        }
        let thread = std::thread::Builder::new().stack_size(depth.min(DEEPEST) * LEVEL);
        let is_done = depth <= DEEPEST
            && std::thread::scope(|threads| {
                let added = thread.spawn_scoped(threads, || self.add(grep, wanted, rest, found));
                added.is_ok_and(|thread| thread.join().is_ok())
            });
        found.is_deep |= !is_done;
    }

    fn add(&self, grep: &Grep, wanted: &Wanted<'_>, rest: &mut Rest<'_>, found: &mut Found) {
        let root = grep.root();
        let first = match &wanted.spots {
            Some(spots) => self.matching(holding(root, spots), wanted.compiled, rest, found),
            None => self.matching(root.dfs(), wanted.compiled, rest, found),
        };
        for hit in first.hits {
            if rest.room == 0 {
                found.is_cut = true;
                break;
            }
            let made = self.made(&hit, wanted.compiled.language, &mut rest.columns);
            rest.room = rest.room.saturating_sub(made.size());
            found.given.push(made);
        }
    }

    /// The first of those nodes that match; all are counted.
    fn matching<'g>(
        &self,
        nodes: impl Iterator<Item = Node<'g>>,
        compiled: &Compiled,
        rest: &mut Rest<'_>,
        found: &mut Found,
    ) -> First<'g> {
        let kinds = compiled.pattern.potential_kinds();
        let mut first = First { wanted: self.wanted, hits: Vec::new(), last: None };
        for (number, node) in nodes.enumerate() {
            if number.is_multiple_of(SELDOM) && self.stop.reason().is_some() {
                break;
            }
            if kinds.as_ref().is_some_and(|kinds| !kinds.contains(node.kind_id().into())) {
                continue;
            }
            let Some(hit) = compiled.pattern.match_node(node) else { continue };
            if !self.allow_tests && rest.tests.get_or_insert_with(|| self.tests()).has(hit.start_pos().line())
            {
                continue;
            }
            found.total += 1;
            first.add(hit);
        }
        first.trim();
        first
    }

    fn tests(&self) -> Tests {
        let outline = Outline::parse(Cow::Borrowed(self.text), Some(self.host), self.stop);
        Tests(outline.map(|outline| outline.test_lines()))
    }

    fn made(&self, hit: &Hit<'_>, language: SupportLang, columns: &mut Columns<'_>) -> QueryMatch {
        let (range, start, end) = (hit.range(), hit.start_pos(), hit.end_pos());
        // A node that ends at a line's very beginning does not reach into that line.
        let last =
            if end.byte_point().1 == 0 && end.line() > start.line() { end.line() } else { end.line() + 1 };
        QueryMatch {
            file: self.file.to_owned(),
            lines: [start.line() + 1, last],
            code: hit.text().into_owned(),
            language: language.to_string(),
            column: columns.of(range.start) + 1,
            bytes: [range.start, range.end],
            captures: captures(hit),
        }
    }
}

/// A pattern, and where in the file its literal stands if that is rare.
struct Wanted<'w> {
    compiled: &'w Compiled,
    spots: Option<Vec<Range<usize>>>,
}

impl<'w> Wanted<'w> {
    fn new(compiled: &'w Compiled, text: &str) -> Self {
        let rare = |spots: &Vec<Range<usize>>| spots.len() * APART < text.len();
        Self { compiled, spots: compiled.spots(text.as_bytes()).filter(rare) }
    }
}

/// What goes on from one part of a file to the next.
struct Rest<'f> {
    /// Found out when the first match has to be judged.
    tests: Option<Tests>,
    columns: Columns<'f>,
    /// How many bytes may still be given.
    room: usize,
}

impl<'f> Rest<'f> {
    fn new(file: &InFile<'f>) -> Self {
        let columns = Columns { bytes: file.text.as_bytes(), at: 0, column: 0 };
        Self { tests: None, columns, room: MOST }
    }
}

fn doc(src: String, lang: SupportLang, tree: Tree) -> Grep {
    AstGrep::doc(StrDoc { src, lang, tree })
}

impl QueryMatch {
    /// How many bytes of code it has.
    pub(super) fn size(&self) -> usize {
        let captured = self.captures.iter().flat_map(|capture| &capture.text).map(String::len);
        self.code.len() + captured.sum::<usize>()
    }
}

/// For each line whether it is test code; unknown when the time was up before.
struct Tests(Option<Vec<bool>>);

impl Tests {
    /// What is not known is not shown.
    fn has(&self, line: usize) -> bool {
        self.0.as_ref().is_none_or(|lines| lines.get(line) == Some(&true))
    }
}

/// The first matches by their places: outer ones come before inner ones, which may begin at the same byte and end sooner.
struct First<'g> {
    wanted: usize,
    hits: Vec<Hit<'g>>,
    /// There are enough up to this place.
    last: Option<(usize, usize)>,
}

impl<'g> First<'g> {
    fn place(hit: &Hit<'g>) -> (usize, usize) {
        let range = hit.range();
        (range.start, range.end)
    }

    fn add(&mut self, hit: Hit<'g>) {
        if self.wanted == 0 || self.last.is_some_and(|last| Self::place(&hit) >= last) {
            return;
        }
        self.hits.push(hit);
        if self.hits.len() / 2 > self.wanted.max(500) {
            self.trim();
            self.last = self.hits.last().map(Self::place);
        }
    }

    fn trim(&mut self) {
        self.hits.sort_by_key(Self::place);
        self.hits.truncate(self.wanted);
    }
}

/// Columns in characters: for places in their order a line is gone through once, however long it is.
struct Columns<'t> {
    bytes: &'t [u8],
    at: usize,
    column: usize,
}

impl Columns<'_> {
    /// From 0.
    fn of(&mut self, byte: usize) -> usize {
        if byte < self.at {
            (self.at, self.column) = (0, 0);
        }
        let passed = self.bytes.get(self.at..byte).unwrap_or_default();
        let chars = |bytes: &[u8]| bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        self.column = match memchr::memrchr(b'\n', passed) {
            Some(end) => chars(&passed[end + 1..]),
            None => self.column + chars(passed),
        };
        self.at = byte;
        self.column
    }
}

/// The nodes that hold one of these spots, outer before inner.
fn holding<'g>(root: Node<'g>, spots: &[Range<usize>]) -> impl Iterator<Item = Node<'g>> {
    let holds = move |node: &Node<'g>| {
        let range = node.range();
        let next = spots.partition_point(|spot| spot.start < range.start);
        spots.get(next).is_some_and(|spot| spot.end <= range.end)
    };
    let mut open: Vec<_> = Some(root).filter(holds).into_iter().collect();
    std::iter::from_fn(move || {
        let node = open.pop()?;
        let before = open.len();
        open.extend(node.children().filter(holds));
        open[before..].reverse();
        Some(node)
    })
}

fn captures(hit: &Hit<'_>) -> Vec<QueryCapture> {
    let env = hit.get_env();
    let mut found: Vec<QueryCapture> = env
        .get_matched_variables()
        .filter_map(|variable| match variable {
            MetaVariable::Capture(name, _) => {
                let text = env.get_match(&name).map(|node| vec![node.text().into_owned()])?;
                Some(QueryCapture { name, text })
            }
            MetaVariable::MultiCapture(name) => {
                let text =
                    env.get_multiple_matches(&name).iter().map(|node| node.text().into_owned()).collect();
                Some(QueryCapture { name, text })
            }
            MetaVariable::Dropped(_) | MetaVariable::Multiple => None,
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}
