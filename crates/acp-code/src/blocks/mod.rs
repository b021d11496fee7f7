//! The blocks of a file: functions, types, classes, sections, each with what belongs to it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use ast_grep_language::{LanguageExt as _, SupportLang};
use tree_sitter::{Node, TreeCursor};

mod kinds;
mod members;
mod names;

pub(crate) use kinds::Kind;
use names::Name;

use crate::syntax::{self, NoTree};
use crate::{StopSignal, testcode};

/// A declaration with the comments and attributes in front of it.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) kind: Kind,
    pub(crate) name: Option<String>,
    /// The type that it belongs to, where that is not the block around it.
    pub(crate) owner: Option<String>,
    /// First and last line from 0, comments and attributes included.
    pub(crate) lines: [usize; 2],
    /// The first line of the declaration itself.
    pub(crate) head: usize,
    pub(crate) name_bytes: Range<usize>,
    /// Its comment, or a docstring.
    pub(crate) doc: Range<usize>,
    /// Where its code begins.
    pub(crate) body: usize,
    /// It is test code, by itself or because of a block around it.
    pub(crate) test: bool,
    /// It only says that something exists which is defined elsewhere.
    pub(crate) forward: bool,
    /// The block around it.
    pub(crate) parent: Option<usize>,
}

/// All blocks of a file, outer before inner, in the order of their lines.
#[derive(Debug)]
pub(crate) struct Outline<'t> {
    pub(crate) text: Cow<'t, str>,
    pub(crate) blocks: Vec<Block>,
    /// Where each line begins.
    pub(crate) starts: Vec<usize>,
    /// All comments, in order.
    comments: Vec<Range<usize>>,
    /// There are no blocks because the text nests too deep for its language's parser.
    pub(crate) is_too_deep: bool,
}

/// Deeper nesting than this is no code that a person wrote; what lies below is left out.
const DEEPEST: usize = 400;

/// What a node means for the outline.
#[derive(Clone, Copy)]
enum Role {
    Nothing,
    Comment,
    Attribute,
    Wrapper,
    Block(Kind),
    /// A declaration too small for a block.
    Value,
}

/// By language, and whether small declarations count.
type Roles = HashMap<(SupportLang, bool), Rc<[Role]>>;

thread_local! {
    static ROLES: RefCell<Roles> = RefCell::new(HashMap::new());
}

impl<'t> Outline<'t> {
    /// Reads the file's blocks. Without a language there are none, nor in a text that nests too deep for its parser. There
    /// is no outline when the call has to end.
    pub(crate) fn parse(
        text: Cow<'t, str>,
        language: Option<SupportLang>,
        stop: &StopSignal,
    ) -> Option<Self> {
        Self::read(text, language, false, stop)
    }

    /// The same, and each small declaration (a member, a constant of a group) is a block of its own.
    pub(crate) fn parse_names(
        text: Cow<'t, str>,
        language: Option<SupportLang>,
        stop: &StopSignal,
    ) -> Option<Self> {
        Self::read(text, language, true, stop)
    }

    fn read(
        text: Cow<'t, str>,
        language: Option<SupportLang>,
        small: bool,
        stop: &StopSignal,
    ) -> Option<Self> {
        let mut outline = Self::plain(text);
        if let Some(language) = language {
            let tree = match syntax::tree(&outline.text, language, &[], stop) {
                Ok(tree) => tree,
                Err(NoTree::TooDeep) => return Some(Self { is_too_deep: true, ..outline }),
                Err(NoTree::Late) => return None,
            };
            let (text, starts) = (&*outline.text, &*outline.starts);
            let (blocks, comments) = (Vec::new(), Vec::new());
            let mut finder = Finder {
                language,
                text,
                starts,
                roles: roles(language, small),
                small,
                depth: 0,
                blocks,
                comments,
            };
            finder.visit(&mut tree.walk(), None, None);
            (outline.blocks, outline.comments) = (finder.blocks, finder.comments);
        }
        Some(outline)
    }

    /// Lines without blocks.
    pub(crate) fn plain(text: Cow<'t, str>) -> Self {
        let starts = line_starts(text.as_bytes());
        Self { text, blocks: Vec::new(), starts, comments: Vec::new(), is_too_deep: false }
    }

    /// How many lines there are.
    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    /// The bytes of the lines `first..=last`, without the last line's end.
    pub(crate) fn bytes(&self, first: usize, last: usize) -> Range<usize> {
        let start = self.starts.get(first).copied().unwrap_or(self.text.len());
        let whole = || self.text.strip_suffix('\n').unwrap_or(&self.text).len();
        let end = self.starts.get(last + 1).map_or_else(whole, |next| next - 1);
        start..end.max(start)
    }

    /// The text of these lines.
    pub(crate) fn slice(&self, first: usize, last: usize) -> &str {
        self.text.get(self.bytes(first, last)).unwrap_or_default().trim_end_matches('\r')
    }

    /// The line of a byte.
    pub(crate) fn line_of(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte).saturating_sub(1)
    }

    /// The innermost block around a line.
    pub(crate) fn around(&self, line: usize) -> Option<&Block> {
        self.blocks
            .iter()
            .rev()
            .filter(|block| block.lines[0] <= line && line <= block.lines[1])
            .min_by_key(|block| block.lines[1] - block.lines[0])
    }

    /// For each line whether it is test code by its syntax: whether the innermost block around it is.
    pub(crate) fn test_lines(&self) -> Vec<bool> {
        let mut lines = vec![false; self.count()];
        let mut blocks: Vec<&Block> = self.blocks.iter().collect();
        // The shorter block lies over the longer one, as `around` has it; of equal ones the later.
        blocks.sort_by_key(|block| Reverse(block.lines[1].saturating_sub(block.lines[0])));
        for block in blocks {
            if let Some(lines) = lines.get_mut(block.lines[0]..=block.lines[1]) {
                lines.fill(block.test);
            }
        }
        lines
    }

    /// Whether a byte stands in a comment.
    pub(crate) fn in_comment(&self, byte: usize) -> bool {
        let next = self.comments.partition_point(|comment| comment.start <= byte);
        next > 0 && self.comments[next - 1].contains(&byte)
    }

    /// The name of the type or module around a block, or of the type that it belongs to.
    pub(crate) fn scope<'b>(&'b self, block: &'b Block) -> Option<&'b str> {
        block.owner.as_deref().or_else(|| block.parent.and_then(|parent| self.blocks[parent].name.as_deref()))
    }
}

/// Where each line begins.
pub(crate) fn line_starts(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    starts.extend(memchr::memchr_iter(b'\n', bytes).map(|at| at + 1));
    if starts.len() > 1 && starts.last() == Some(&bytes.len()) {
        starts.pop();
    }
    starts
}

/// What the kinds of nodes of a language mean, by their numbers.
fn roles(language: SupportLang, small: bool) -> Rc<[Role]> {
    let made = || {
        let grammar = language.get_ts_language();
        let count = u16::try_from(grammar.node_kind_count()).unwrap_or(u16::MAX);
        (0..count).map(|id| role(&grammar, language, small, id)).collect()
    };
    ROLES.with_borrow_mut(|all| Rc::clone(all.entry((language, small)).or_insert_with(made)))
}

fn role(grammar: &tree_sitter::Language, language: SupportLang, small: bool, id: u16) -> Role {
    let name = grammar.node_kind_for_id(id).unwrap_or_default();
    if !grammar.node_kind_is_named(id) {
        Role::Nothing
    } else if name.contains("comment") {
        Role::Comment
    } else if kinds::attributes(language).contains(&name) {
        Role::Attribute
    } else if kinds::wrappers(language).contains(&name) {
        Role::Wrapper
    } else {
        let found = kinds::blocks(language).iter().find(|(kind, _)| *kind == name);
        let value =
            if small && kinds::values(language).contains(&name) { Role::Value } else { Role::Nothing };
        found.map_or(value, |(_, kind)| Role::Block(*kind))
    }
}

struct Finder<'f> {
    language: SupportLang,
    text: &'f str,
    starts: &'f [usize],
    roles: Rc<[Role]>,
    small: bool,
    depth: usize,
    blocks: Vec<Block>,
    comments: Vec<Range<usize>>,
}

impl Finder<'_> {
    /// Walks the children of the cursor's node. What stands above the node stands above its first child too: some
    /// grammars put the first comment of a body in front of the body.
    fn visit(&mut self, cursor: &mut TreeCursor<'_>, parent: Option<usize>, inherited: Option<Above>) {
        let is_enum = self.small && cursor.node().kind() == "enum_body";
        if self.depth >= DEEPEST || !cursor.goto_first_child() {
            return;
        }
        self.depth += 1;
        // Comments and attributes that stand directly above what comes next.
        let mut above = inherited;
        loop {
            let node = cursor.node();
            // A member of an enum may be a mere name.
            let is_member = is_enum && cursor.field_name() == Some("name");
            match if is_member { Role::Value } else { self.role(node) } {
                Role::Comment => {
                    self.comments.push(node.byte_range());
                    above = Some(Above::join(above.take(), node, true));
                }
                Role::Attribute => above = Some(Above::join(above.take(), node, false)),
                role => {
                    if node.is_named() {
                        let near = above.take().filter(|above| above.touches(node));
                        self.node(cursor, role, parent, None, near);
                    }
                }
            }
            if !cursor.goto_next_sibling() {
                break;
            }
        }
        cursor.goto_parent();
        self.depth -= 1;
    }

    fn role(&self, node: Node<'_>) -> Role {
        self.roles.get(usize::from(node.kind_id())).copied().unwrap_or(Role::Nothing)
    }

    fn node(
        &mut self,
        cursor: &mut TreeCursor<'_>,
        role: Role,
        parent: Option<usize>,
        outer: Option<Node<'_>>,
        above: Option<Above>,
    ) {
        let node = cursor.node();
        if let Role::Wrapper = role {
            return self.wrapped(cursor, parent, above.as_ref());
        }
        if let Role::Block(kind) = role
            && let Some(kind) = names::verdict(node, kind, self.language, self.text)
        {
            // Each entry of a group has its own name; the group is not called after its first as well.
            let is_group = self.small && matches!(kind, Kind::Value | Kind::Type) && members::is_group(node);
            let name = names::name(node, self.language, self.text).filter(|_| !is_group);
            let inside = self.add(node, kind, name, parent, outer, above.as_ref());
            if self.small {
                self.add_names(inside, names::other_names(node, self.language, self.text));
            }
            return self.visit(cursor, Some(inside), None);
        }
        let is_value = matches!(role, Role::Value)
            || (self.small && kinds::values(self.language).contains(&node.kind()));
        if is_value
            && !self.is_local(node, parent)
            && !members::is_alone(node)
            && members::is_member(node, self.text)
        {
            let mut inside = parent;
            for name in members::declared_names(node, self.text) {
                inside = Some(self.add(node, Kind::Value, Some(name), parent, outer, above.as_ref()));
            }
            return self.visit(cursor, inside, None);
        }
        self.visit(cursor, parent, above);
    }

    /// A variable in a function is a part of it, unless it is a field.
    fn is_local(&self, node: Node<'_>, parent: Option<usize>) -> bool {
        parent.map(|parent| &self.blocks[parent]).is_some_and(|block| {
            let name = block.name.as_deref().unwrap_or_default();
            block.kind == Kind::Function && !members::is_field(node, name, self.text)
        })
    }

    /// A wrapper gives its beginning to the block inside it.
    fn wrapped(&mut self, cursor: &mut TreeCursor<'_>, parent: Option<usize>, above: Option<&Above>) {
        let node = cursor.node();
        if self.depth >= DEEPEST || !cursor.goto_first_child() {
            return;
        }
        self.depth += 1;
        loop {
            let child = cursor.node();
            let role = self.role(child);
            if child.is_named() {
                self.node(cursor, role, parent, Some(node), above.cloned());
            }
            if !cursor.goto_next_sibling() {
                break;
            }
        }
        cursor.goto_parent();
        self.depth -= 1;
    }

    /// The same block once more for each of these names.
    fn add_names(&mut self, block: usize, names: Vec<Name>) {
        for name in names {
            let same = self.blocks[block].clone();
            self.blocks.push(Block { name: Some(name.text), name_bytes: name.bytes, ..same });
        }
    }

    fn add(
        &mut self,
        node: Node<'_>,
        kind: Kind,
        name: Option<Name>,
        parent: Option<usize>,
        outer: Option<Node<'_>>,
        above: Option<&Above>,
    ) -> usize {
        let whole = outer.unwrap_or(node);
        let first = above.map_or(whole.start_position().row, |above| above.first);
        let end = whole.end_position();
        let last = if end.column == 0 && end.row > first { end.row - 1 } else { end.row };
        let last = last.min(self.starts.len().saturating_sub(1));
        let doc = names::docstring(node, self.language)
            .map(|text| text.byte_range())
            .or_else(|| above.and_then(|above| above.doc.clone()))
            .unwrap_or(0..0);
        let from = above.map_or(whole.start_byte(), |above| above.start);
        let inherited = parent.is_some_and(|parent| self.blocks[parent].test);
        let front = self.text.get(from..node.start_byte().max(from)).unwrap_or_default();
        let title = name.as_ref().map_or("", |name| name.text.as_str());
        let test = inherited || testcode::is_test_block(node, kind, title, front, self.language, self.text);
        self.blocks.push(Block {
            kind,
            owner: names::owner(node, self.language, self.text)
                .or_else(|| members::receiver(node, self.text).filter(|_| self.small)),
            lines: [first, last],
            head: whole.start_position().row,
            name_bytes: name.as_ref().map_or(0..0, |name| name.bytes.clone()),
            name: name.map(|name| name.text),
            doc,
            body: names::body(node).unwrap_or(node.end_byte()),
            test,
            forward: kind == Kind::Value && members::gives_way(node),
            parent,
        });
        self.blocks.len() - 1
    }
}

/// Comments and attributes in a row, without an empty line between them.
#[derive(Clone)]
struct Above {
    /// The first byte.
    start: usize,
    /// The first and the last line.
    first: usize,
    last: usize,
    doc: Option<Range<usize>>,
}

impl Above {
    fn join(before: Option<Self>, node: Node<'_>, comment: bool) -> Self {
        let (first, last) = rows(node);
        let before = before.filter(|before| before.last + 1 >= first);
        let mut doc = before.as_ref().and_then(|before| before.doc.clone());
        if comment {
            let from = doc.as_ref().map_or(node.start_byte(), |doc| doc.start);
            doc = Some(from..node.end_byte());
        }
        let (start, first) = before.map_or((node.start_byte(), first), |before| (before.start, before.first));
        Self { start, first, last, doc }
    }

    fn touches(&self, node: Node<'_>) -> bool {
        self.last + 1 >= node.start_position().row
    }
}

/// First and last row; a line comment that includes its line's end does not reach the next.
fn rows(node: Node<'_>) -> (usize, usize) {
    let (start, end) = (node.start_position(), node.end_position());
    let last = if end.column == 0 && end.row > start.row { end.row - 1 } else { end.row };
    (start.row, last)
}
