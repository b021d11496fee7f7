//! Small declarations: members, values, single entries of a group. They are looked for where a name is asked for.

use tree_sitter::Node;

use super::names::{Name, child_of_kind, declared, entries, shortened, slice, variable};

/// Functions that make the fields of what they belong to.
const CONSTRUCTORS: &[&str] = &["__init__", "initialize", "constructor"];
/// Calls of Ruby that declare what their arguments name.
const DECLARING: &[&str] = &["attr_accessor", "attr_reader", "attr_writer"];
/// And those of which it is the first.
const DECLARING_FIRST: &[&str] = &["alias_method", "define_method"];

/// Whether what looks like a small declaration declares something: a parameter does where it is a member too.
pub(super) fn is_member(node: Node<'_>, text: &str) -> bool {
    let of = |field: &str| node.child_by_field_name(field);
    let above = || node.parent().and_then(|list| list.parent());
    match node.kind() {
        "formal_parameter" | "parameter" => above().is_some_and(|above| above.kind() == "record_declaration"),
        "class_parameter" => child_of_kind(node, &["binding_pattern_kind"]).is_some(),
        "required_parameter" | "optional_parameter" => is_promoted(node),
        "assignment_expression" => of("left").is_some_and(|left| is_declared(left, text)),
        "function_call_expression" => of("function").is_some_and(|called| slice(called, text) == "define"),
        "call" => of("method").is_some_and(|called| is_declaring(slice(called, text))),
        "command" => of("name").is_some_and(|called| slice(called, text) == "alias"),
        "declaration_command" => {
            node.child(0).is_some_and(|first| matches!(first.kind(), "declare" | "typeset"))
        }
        "declaration" => {
            // In a style sheet only variables are declared.
            child_of_kind(node, &["property_name"]).is_none_or(|name| slice(name, text).starts_with("--"))
        }
        kind if kind.ends_with("_specifier") => node.parent().is_some_and(|around| {
            matches!(around.kind(), "translation_unit" | "declaration_list" | "template_declaration")
                || around.kind().starts_with("preproc_")
        }),
        _ => true,
    }
}

/// Whether a small declaration in a function of this name declares a field: in the list of parameters of a constructor, or
/// in its code.
pub(super) fn is_field(node: Node<'_>, function: &str, text: &str) -> bool {
    match node.kind() {
        "required_parameter" | "optional_parameter" => is_promoted(node),
        "property_promotion_parameter" => true,
        "assignment" | "assignment_expression" | "operator_assignment" => {
            let Some(left) = node.child_by_field_name("left") else { return false };
            let first = if left.kind() == "left_assignment_list" { left.named_child(0) } else { None };
            CONSTRUCTORS.contains(&function)
                && (own_field(left, text).is_some() || first.unwrap_or(left).kind() == "instance_variable")
        }
        _ => false,
    }
}

/// `private name: string` in a constructor of TypeScript.
fn is_promoted(node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor)
        .any(|child| matches!(child.kind(), "accessibility_modifier" | "override_modifier" | "readonly"))
}

/// Whether an assignment to this declares it: a variable of PHP, what a module of JavaScript exports, an own field.
fn is_declared(left: Node<'_>, text: &str) -> bool {
    let of_module = || {
        let object = left.child_by_field_name("object").map(|object| slice(object, text));
        object.is_some_and(|object| matches!(object, "exports" | "module.exports"))
    };
    left.kind() == "variable_name"
        || left.kind() == "member_expression" && (of_module() || own_field(left, text).is_some())
}

/// The name in `self.name` or `this.name`.
fn own_field<'t>(node: Node<'t>, text: &str) -> Option<Node<'t>> {
    let object = node.child_by_field_name("object")?;
    let field = node.child_by_field_name("attribute").or_else(|| node.child_by_field_name("property"))?;
    matches!(slice(object, text), "self" | "this").then_some(field)
}

fn is_declaring(method: &str) -> bool {
    DECLARING.contains(&method) || DECLARING_FIRST.contains(&method)
}

/// The names that a small declaration declares: `A, B = 1, 2` has two.
pub(super) fn declared_names(node: Node<'_>, text: &str) -> Vec<Name> {
    let mut found = Vec::new();
    match node.kind() {
        "property_identifier" | "string" | "computed_property_name" => found.push(node),
        "call" => return called_names(node, text),
        "function_call_expression" => {
            let list = node.child_by_field_name("arguments");
            found.extend(list.and_then(|list| list.named_child(0)));
        }
        "command" => return alias_names(node, text),
        "element" | "script_element" | "style_element" => found.extend(id(node, text)),
        "operator_declaration" => found.extend(node.named_child(0)),
        _ => field_names(node, text, &mut found),
    }
    found.into_iter().filter_map(|node| shortened(node, text)).collect()
}

/// The names that stand in the fields of a declaration, or among its children.
fn field_names<'t>(node: Node<'t>, text: &str, found: &mut Vec<Node<'t>>) {
    let mut cursor = node.walk();
    for field in ["name", "declarator", "left", "key", "property", "pattern"] {
        for child in node.children_by_field_name(field, &mut cursor) {
            match own_field(child, text) {
                Some(own) => found.push(own),
                None => collect(child, found),
            }
        }
        if !found.is_empty() {
            return;
        }
    }
    // Grammars without such fields: Kotlin's variables, PHP's elements, C#'s declarations.
    let kinds = [
        "variable_declaration",
        "multi_variable_declaration",
        "variable_declarator",
        "name",
        "variable_name",
        "simple_identifier",
        "property_name",
    ];
    let children = node.named_children(&mut cursor).filter(|child| kinds.contains(&child.kind()));
    children.for_each(|child| collect(child, found));
    if found.is_empty() {
        found.extend(embedded(node));
    }
}

/// The symbols and strings that a call of Ruby declares.
fn called_names(node: Node<'_>, text: &str) -> Vec<Name> {
    let Some(list) = node.child_by_field_name("arguments") else { return Vec::new() };
    let method = node.child_by_field_name("method").map_or("", |method| slice(method, text));
    let most = if DECLARING_FIRST.contains(&method) { 1 } else { usize::MAX };
    let mut cursor = list.walk();
    list.named_children(&mut cursor)
        .take(most)
        .filter(|name| matches!(name.kind(), "simple_symbol" | "string"))
        .filter_map(|name| shortened(name, text))
        .map(|name| Name { text: name.text.trim_start_matches(':').to_owned(), ..name })
        .collect()
}

/// What stands before the `=` in `alias name=command`.
fn alias_names(node: Node<'_>, text: &str) -> Vec<Name> {
    let mut cursor = node.walk();
    let arguments = node.children_by_field_name("argument", &mut cursor);
    arguments
        .filter_map(|argument| {
            let (name, _) = slice(argument, text).split_once('=')?;
            let start = argument.start_byte();
            Some(Name { text: name.to_owned(), bytes: start..start + name.len() })
        })
        .collect()
}

/// The `id` of an element of HTML.
fn id<'t>(node: Node<'t>, text: &str) -> Option<Node<'t>> {
    let tag = child_of_kind(node, &["start_tag", "self_closing_tag"])?;
    let mut cursor = tag.walk();
    let is_id = |attribute: &Node<'_>| {
        attribute.kind() == "attribute"
            && attribute.named_child(0).is_some_and(|name| slice(name, text).eq_ignore_ascii_case("id"))
    };
    tag.named_children(&mut cursor).find(is_id)?.named_child(1)
}

/// A field of Go that is called after its type.
fn embedded(node: Node<'_>) -> Option<Node<'_>> {
    let mut at = node.child_by_field_name("type").filter(|_| node.kind() == "field_declaration")?;
    loop {
        at = match at.kind() {
            "type_identifier" => return Some(at),
            "generic_type" => at.child_by_field_name("type")?,
            "qualified_type" => at.child_by_field_name("name")?,
            _ => return None,
        };
    }
}

/// The names in a declarator or a list of them; lists may lie in lists without end.
fn collect<'t>(node: Node<'t>, found: &mut Vec<Node<'t>>) {
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        match node.kind() {
            "pattern_list"
            | "list_pattern"
            | "list_splat_pattern"
            | "tuple_pattern"
            | "object_pattern"
            | "array_pattern"
            | "rest_pattern"
            | "rest_assignment"
            | "left_assignment_list"
            | "structured_binding_declarator"
            | "multi_variable_declaration" => {
                let before = open.len();
                open.extend(node.named_children(&mut node.walk()));
                open[before..].reverse();
            }
            "variable_declaration" => {
                let before = open.len();
                let is_name =
                    |child: &Node<'_>| matches!(child.kind(), "simple_identifier" | "variable_declarator");
                open.extend(node.named_children(&mut node.walk()).filter(is_name));
                open[before..].reverse();
            }
            // `{ key: name = value }`
            "pair_pattern" => open.extend(node.child_by_field_name("value")),
            "assignment_pattern" | "object_assignment_pattern" => {
                open.extend(node.child_by_field_name("left"));
            }
            // What is assigned to is not declared here, nor is a type.
            "attribute" | "subscript" | "call" | "user_type" => {}
            "init_declarator" => open.extend(node.child_by_field_name("declarator")),
            "pattern" => patterns(node, &mut open, found),
            kind if kind.ends_with("declarator") => found.extend(declared(node)),
            _ => found.push(node),
        }
    }
}

/// A pattern of Swift is a name, or has others inside it.
fn patterns<'t>(node: Node<'t>, open: &mut Vec<Node<'t>>, found: &mut Vec<Node<'t>>) {
    if let Some(name) = node.child_by_field_name("bound_identifier") {
        return found.push(name);
    }
    let before = open.len();
    open.extend(node.named_children(&mut node.walk()).filter(|child| child.kind() == "pattern"));
    if open.len() == before {
        found.extend(declared(node));
    }
    open[before..].reverse();
}

/// Whether a small declaration gives way to others of its name: one that only passes on or fills in what is declared
/// elsewhere, as `exports.parse = parse`, `{ parse: 1 }` or a prototype.
pub(super) fn gives_way(node: Node<'_>) -> bool {
    let value = match node.kind() {
        "pair" => node.child_by_field_name("value"),
        "assignment_expression" => node.child_by_field_name("right"),
        _ => return is_prototype(node),
    };
    value.is_none_or(|value| !(value.kind().contains("function") || value.kind() == "class"))
}

/// Whether a declaration of C only says that a function or a type exists.
fn is_prototype(node: Node<'_>) -> bool {
    if node.kind().ends_with("_specifier") {
        return true;
    }
    let mut at = node.child_by_field_name("declarator");
    while let Some(inner) = at {
        if inner.kind() == "function_declarator" {
            // A pointer to a function is a variable.
            return inner
                .child_by_field_name("declarator")
                .is_some_and(|of| of.kind() != "parenthesized_declarator");
        }
        at = inner.child_by_field_name("declarator");
    }
    false
}

/// Whether this is the only entry of its declaration, which is a block and called like it.
pub(super) fn is_alone(node: Node<'_>) -> bool {
    if !is_entry(node) {
        return false;
    }
    let Some(list) = node.parent() else { return false };
    let mut cursor = list.walk();
    let is_single = list.named_children(&mut cursor).filter(|child| is_entry(*child)).take(2).count() == 1;
    is_single && (node.kind() != "variable_declarator" || variable(list).is_some())
}

/// Whether a declaration has several entries.
pub(super) fn is_group(node: Node<'_>) -> bool {
    let list = entries(node);
    let mut cursor = list.walk();
    list.named_children(&mut cursor).filter(|child| is_entry(*child)).take(2).count() == 2
}

fn is_entry(node: Node<'_>) -> bool {
    let kind = node.kind();
    kind.ends_with("_spec") || matches!(kind, "type_alias" | "variable_declarator")
}

/// The type that a function or property of Kotlin extends.
pub(super) fn receiver(node: Node<'_>, text: &str) -> Option<String> {
    node.child_by_field_name("receiver")
        .filter(|of| of.kind() == "receiver_type")
        .map(|of| slice(of, text).to_owned())
}
