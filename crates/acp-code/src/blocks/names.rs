//! What a block is called.

use ast_grep_language::SupportLang;
use tree_sitter::Node;

use super::kinds::Kind;
use super::members;

/// A name and where it stands.
pub(super) struct Name {
    pub(super) text: String,
    pub(super) bytes: std::ops::Range<usize>,
}

/// Calls that declare a test when their last argument is a function or a block.
const TEST_CALLS: &[&str] = &[
    "describe",
    "context",
    "it",
    "test",
    "suite",
    "specify",
    "feature",
    "scenario",
    "before",
    "beforeEach",
    "beforeAll",
    "after",
    "afterEach",
    "afterAll",
    "xit",
    "xdescribe",
    "fit",
    "fdescribe",
    "bench",
];

/// Whether this node, whose kind the table lists, is a block after all, and which.
pub(super) fn verdict(node: Node<'_>, kind: Kind, language: SupportLang, text: &str) -> Option<Kind> {
    use SupportLang as L;
    match (language, node.kind()) {
        (L::JavaScript | L::TypeScript | L::Tsx, "lexical_declaration" | "variable_declaration") => {
            variable(node)
        }
        (L::JavaScript | L::TypeScript | L::Tsx, "assignment_expression") => {
            match node.child_by_field_name("right") {
                Some(right) if is_function(right) => Some(Kind::Function),
                Some(right) if right.kind() == "class" => Some(Kind::Class),
                _ => None,
            }
        }
        (L::JavaScript | L::TypeScript | L::Tsx, "pair" | "field_definition" | "public_field_definition") => {
            node.child_by_field_name("value").filter(|value| is_function(*value)).map(|_| kind)
        }
        (L::JavaScript | L::TypeScript | L::Tsx, "call_expression") => {
            let callee = node.child_by_field_name("function")?;
            let arguments = node.child_by_field_name("arguments")?;
            let last =
                arguments.named_child(u32::try_from(arguments.named_child_count()).ok()?.checked_sub(1)?)?;
            (is_test_call(slice(callee, text)) && is_function(last)).then_some(Kind::Test)
        }
        (L::Ruby, "call") => {
            let method = node.child_by_field_name("method")?;
            let block = node.child_by_field_name("block")?;
            (is_test_call(slice(method, text)) && matches!(block.kind(), "do_block" | "block"))
                .then_some(Kind::Test)
        }
        (L::C | L::Cpp, "struct_specifier" | "class_specifier" | "union_specifier" | "enum_specifier") => {
            node.child_by_field_name("body").map(|_| kind)
        }
        (L::Json, "pair") | (L::Yaml, "block_mapping_pair") => shallow(node).then_some(kind),
        _ => Some(kind),
    }
}

/// What a declaration of variables is, if it is a block.
pub(super) fn variable(node: Node<'_>) -> Option<Kind> {
    match node.named_child(0).and_then(|first| first.child_by_field_name("value")) {
        Some(value) if is_function(value) => Some(Kind::Function),
        Some(value) if value.kind() == "class" => Some(Kind::Class),
        // Only at the top: a variable in a function is a part of it.
        _ => at_top(node).then_some(Kind::Value),
    }
}

/// The declared name.
pub(super) fn name(node: Node<'_>, language: SupportLang, text: &str) -> Option<Name> {
    use SupportLang as L;
    let found = match (language, node.kind()) {
        (L::Rust, "impl_item") => node.child_by_field_name("type"),
        (L::C | L::Cpp, "function_definition") => node.child_by_field_name("declarator").and_then(declared),
        (L::C | L::Cpp, "type_definition") => node.child_by_field_name("declarator").and_then(declared),
        (L::Go, "type_declaration" | "const_declaration" | "var_declaration") => entries(node)
            .named_child(0)
            .and_then(|spec| spec.child_by_field_name("name").or_else(|| spec.named_child(0))),
        (L::JavaScript | L::TypeScript | L::Tsx, "lexical_declaration" | "variable_declaration") => {
            node.named_child(0).and_then(|first| first.child_by_field_name("name"))
        }
        (L::JavaScript | L::TypeScript | L::Tsx, "assignment_expression") => {
            let left = node.child_by_field_name("left")?;
            left.child_by_field_name("property").or(Some(left))
        }
        (L::JavaScript | L::TypeScript | L::Tsx, "pair") => node.child_by_field_name("key"),
        (L::JavaScript, "field_definition") => node.child_by_field_name("property"),
        (_, "call_expression" | "call") => {
            node.child_by_field_name("arguments").and_then(|list| list.named_child(0))
        }
        (L::Json, "pair") | (L::Yaml, "block_mapping_pair") => node.child_by_field_name("key"),
        (L::Markdown, "section") => heading(node),
        (L::CSharp, "operator_declaration") => return with_word("operator ", node, "operator", text),
        (L::CSharp, "conversion_operator_declaration") => {
            return with_word("operator ", node, "type", text);
        }
        (L::CSharp, "destructor_declaration") => return with_word("~", node, "name", text),
        // What is called by its keyword.
        (L::CSharp, "indexer_declaration") => token(node, "this"),
        (L::Swift, "subscript_declaration") => token(node, "subscript"),
        (L::Swift, "deinit_declaration") => token(node, "deinit"),
        (L::Kotlin, "secondary_constructor") => token(node, "constructor"),
        (L::Css, _) => node.child(0).filter(|first| first.kind() == "selectors"),
        (L::Swift | L::Kotlin, _) => node
            .child_by_field_name("name")
            .or_else(|| child_of_kind(node, &["simple_identifier", "type_identifier", "user_type"])),
        _ => node.child_by_field_name("name"),
    }?;
    shortened(found, text)
}

/// A name that is written with something in front of it.
fn with_word(word: &str, node: Node<'_>, field: &str, text: &str) -> Option<Name> {
    let own = node.child_by_field_name(field)?;
    Some(Name { text: format!("{word}{}", slice(own, text)), bytes: own.byte_range() })
}

/// What a block is called besides its name: a declaration may have several names, a rule of a style sheet several
/// selectors.
pub(super) fn other_names(node: Node<'_>, language: SupportLang, text: &str) -> Vec<Name> {
    use SupportLang as L;
    let mut cursor = node.walk();
    let all = match (language, node.kind()) {
        (L::Css, "rule_set") => match node.child(0) {
            Some(list) if list.kind() == "selectors" => {
                list.named_children(&mut cursor).filter_map(|selector| shortened(selector, text)).collect()
            }
            _ => Vec::new(),
        },
        (L::Go, "const_declaration" | "var_declaration")
        | (L::JavaScript | L::TypeScript | L::Tsx, "lexical_declaration" | "variable_declaration") => {
            let list = entries(node);
            let alone = list.named_children(&mut cursor).find(|entry| members::is_alone(*entry));
            alone.map(|entry| members::declared_names(entry, text)).unwrap_or_default()
        }
        (L::Css, "keyframes_statement" | "at_rule") => {
            let kinds = ["keyframes_name", "keyword_query"];
            let named = child_of_kind(node, &kinds).or_else(|| child_of_kind(node, &["at_keyword"]));
            named.and_then(|named| shortened(named, text)).into_iter().collect()
        }
        (L::C | L::Cpp, "type_definition") => {
            let all = node.children_by_field_name("declarator", &mut cursor);
            all.filter_map(declared).filter_map(|found| shortened(found, text)).collect()
        }
        (L::Html, _) => members::declared_names(node, text),
        _ => Vec::new(),
    };
    let own = name(node, language, text).map(|name| name.bytes);
    all.into_iter().filter(|name| Some(&name.bytes) != own.as_ref()).collect()
}

/// The node that has the entries of a declaration: Go's `var ( … )` has one more than its other groups.
pub(super) fn entries(node: Node<'_>) -> Node<'_> {
    child_of_kind(node, &["var_spec_list"]).unwrap_or(node)
}

pub(super) fn shortened(found: Node<'_>, text: &str) -> Option<Name> {
    let bare = slice(found, text);
    let trimmed = bare.trim_matches(['"', '\'', '`', '#', ' ', '\n', '\r']);
    let line = trimmed.lines().next().unwrap_or_default();
    if line.is_empty() {
        return None;
    }
    let short: String = line.chars().take(120).collect();
    Some(Name { text: short, bytes: found.byte_range() })
}

/// The type that a method belongs to although it stands outside of it.
pub(super) fn owner(node: Node<'_>, language: SupportLang, text: &str) -> Option<String> {
    match (language, node.kind()) {
        (SupportLang::Go, "method_declaration") => {
            let receiver = slice(node.child_by_field_name("receiver")?, text);
            let last = receiver.trim_matches(['(', ')', ' ']).rsplit([' ', '*']).next()?;
            Some(last.split('[').next().unwrap_or(last).to_owned())
        }
        (SupportLang::Cpp, "function_definition") => {
            let name = slice(node.child_by_field_name("declarator").and_then(declared)?, text);
            name.rsplit_once("::").map(|(owner, _)| owner.to_owned())
        }
        (SupportLang::JavaScript | SupportLang::TypeScript | SupportLang::Tsx, "assignment_expression") => {
            let object = slice(node.child_by_field_name("left")?.child_by_field_name("object")?, text);
            Some(object.trim_end_matches(".prototype").to_owned())
        }
        _ => None,
    }
}

/// Where the code of a block begins: what stands before is its signature.
pub(super) fn body(node: Node<'_>) -> Option<usize> {
    if let Some(body) = node.child_by_field_name("body") {
        return Some(body.start_byte());
    }
    for field in ["value", "right", "definition"] {
        if let Some(inner) = node.child_by_field_name(field) {
            return Some(inner.child_by_field_name("body").unwrap_or(inner).start_byte());
        }
    }
    let first = node.named_child(0)?.child_by_field_name("value")?;
    Some(first.child_by_field_name("body").unwrap_or(first).start_byte())
}

/// A Python docstring: the first statement of the body is a text.
pub(super) fn docstring<'t>(node: Node<'t>, language: SupportLang) -> Option<Node<'t>> {
    if language != SupportLang::Python {
        return None;
    }
    let first = node.child_by_field_name("body")?.named_child(0)?;
    let text = if first.kind() == "expression_statement" { first.named_child(0)? } else { first };
    (text.kind() == "string").then_some(text)
}

pub(super) fn slice<'t>(node: Node<'_>, text: &'t str) -> &'t str {
    text.get(node.byte_range()).unwrap_or_default()
}

fn is_test_call(callee: &str) -> bool {
    TEST_CALLS.contains(&callee.split(['.', '(']).next().unwrap_or_default())
}

fn is_function(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "arrow_function" | "function" | "function_expression" | "generator_function" | "async_arrow_function"
    )
}

fn at_top(node: Node<'_>) -> bool {
    node.parent().is_some_and(|parent| {
        parent.kind() == "program"
            || (parent.kind() == "export_statement"
                && parent.parent().is_some_and(|above| above.kind() == "program"))
    })
}

/// An entry of the outermost object or mapping of a data file.
fn shallow(node: Node<'_>) -> bool {
    let mut depth = 0;
    let mut at = node;
    while let Some(parent) = at.parent() {
        if matches!(parent.kind(), "pair" | "block_mapping_pair" | "array" | "block_sequence") {
            return false;
        }
        depth += 1;
        if depth > 8 {
            return false;
        }
        at = parent;
    }
    true
}

/// The innermost declarator: `*foo(int a)[3]` declares `foo`.
pub(super) fn declared(node: Node<'_>) -> Option<Node<'_>> {
    let mut at = node;
    loop {
        if matches!(
            at.kind(),
            "identifier"
                | "field_identifier"
                | "type_identifier"
                | "simple_identifier"
                | "property_identifier"
                | "qualified_identifier"
                | "operator_name"
                | "destructor_name"
        ) {
            return Some(at);
        }
        at = at.child_by_field_name("declarator").or_else(|| at.named_child(0))?;
    }
}

fn heading(section: Node<'_>) -> Option<Node<'_>> {
    let first = section.named_child(0)?;
    matches!(first.kind(), "atx_heading" | "setext_heading")
        .then(|| first.child_by_field_name("heading_content").unwrap_or(first))
}

/// The keyword among the children.
fn token<'t>(node: Node<'t>, keyword: &str) -> Option<Node<'t>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).find(|child| child.kind() == keyword)
}

pub(super) fn child_of_kind<'t>(node: Node<'t>, kinds: &[&str]) -> Option<Node<'t>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).find(|child| kinds.contains(&child.kind()))
}
