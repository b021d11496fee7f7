//! Which nodes of each grammar are blocks: data, one table per language.

use ast_grep_language::SupportLang;

/// What a block is, in words that hold for every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A function, method, constructor or property with code.
    Function,
    /// A type without methods of its own: struct, enum, alias…
    Type,
    /// A type that holds other blocks: class, trait, interface.
    Class,
    /// The methods of a type that stands elsewhere.
    Impl,
    /// A module or namespace.
    Module,
    /// A constant, static or variable.
    Value,
    /// A macro.
    Macro,
    /// A call that declares a test (`describe`, `it`, `TEST`).
    Test,
    /// A part of a text with a heading, a rule of a style sheet, an entry of a data file.
    Section,
    /// Lines without a syntax to go by.
    Lines,
}

impl Kind {
    /// The word in results.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Type => "type",
            Self::Class => "class",
            Self::Impl => "impl",
            Self::Module => "module",
            Self::Value => "value",
            Self::Macro => "macro",
            Self::Test => "test",
            Self::Section => "section",
            Self::Lines => "lines",
        }
    }

    /// Whether its inside is a list of blocks rather than code.
    pub(crate) fn holds_blocks(self) -> bool {
        matches!(self, Self::Class | Self::Impl | Self::Module | Self::Section | Self::Test)
    }
}

type Table = &'static [(&'static str, Kind)];

/// The nodes that are blocks.
pub(crate) fn blocks(language: SupportLang) -> Table {
    use SupportLang as L;
    match language {
        L::Rust => RUST,
        L::JavaScript => JAVASCRIPT,
        L::TypeScript | L::Tsx => TYPESCRIPT,
        L::Python => PYTHON,
        L::Go => GO,
        L::Java => JAVA,
        L::C => C,
        L::Cpp => CPP,
        L::CSharp => CSHARP,
        L::Ruby => RUBY,
        L::Php => PHP,
        L::Swift => SWIFT,
        L::Kotlin => KOTLIN,
        L::Bash => &[("function_definition", Kind::Function)],
        L::Markdown => &[("section", Kind::Section)],
        L::Json => &[("pair", Kind::Section)],
        L::Yaml => &[("block_mapping_pair", Kind::Section)],
        L::Html => &[("script_element", Kind::Section), ("style_element", Kind::Section)],
        L::Css => CSS,
        _ => &[],
    }
}

/// The nodes that declare a name and are too small to be a block of an outline: members, values, single entries of a group.
/// They are looked for where a name is asked for.
pub(crate) fn values(language: SupportLang) -> &'static [&'static str] {
    use SupportLang as L;
    match language {
        L::Rust => &["field_declaration", "enum_variant", "associated_type"],
        L::JavaScript => &["variable_declarator", "field_definition", "pair", "assignment_expression"],
        L::TypeScript | L::Tsx => &[
            "variable_declarator",
            "public_field_definition",
            "property_signature",
            "enum_assignment",
            "required_parameter",
            "optional_parameter",
            "pair",
            "assignment_expression",
        ],
        L::Python => &["assignment", "type_alias_statement"],
        L::Go => &["const_spec", "var_spec", "type_spec", "type_alias", "field_declaration", "method_elem"],
        L::Java => &[
            "field_declaration",
            "constant_declaration",
            "enum_constant",
            "formal_parameter",
            "annotation_type_element_declaration",
        ],
        L::C => &[
            "declaration",
            "field_declaration",
            "enumerator",
            "struct_specifier",
            "union_specifier",
            "enum_specifier",
        ],
        L::Cpp => &[
            "declaration",
            "field_declaration",
            "enumerator",
            "namespace_alias_definition",
            "class_specifier",
            "struct_specifier",
            "union_specifier",
            "enum_specifier",
        ],
        L::CSharp => &[
            "field_declaration",
            "event_field_declaration",
            "enum_member_declaration",
            "parameter",
            "using_directive",
            "file_scoped_namespace_declaration",
        ],
        L::Ruby => &["assignment", "operator_assignment", "alias", "call"],
        L::Bash => &["variable_assignment", "declaration_command", "command"],
        L::Php => &[
            "const_element",
            "property_element",
            "property_promotion_parameter",
            "enum_case",
            "assignment_expression",
            "function_call_expression",
        ],
        L::Swift => &[
            "property_declaration",
            "protocol_property_declaration",
            "associatedtype_declaration",
            "enum_entry",
            "operator_declaration",
            "precedence_group_declaration",
        ],
        L::Kotlin => &["property_declaration", "enum_entry", "class_parameter"],
        L::Json => &["pair"],
        L::Yaml => &["block_mapping_pair", "flow_pair"],
        L::Html => &["element"],
        L::Css => &["declaration"],
        _ => &[],
    }
}

/// Nodes around a block that belong to it: decorators, `export`, `template <…>`.
pub(crate) fn wrappers(language: SupportLang) -> &'static [&'static str] {
    use SupportLang as L;
    match language {
        L::JavaScript | L::TypeScript | L::Tsx => &["export_statement", "ambient_declaration"],
        L::Python => &["decorated_definition"],
        L::Cpp => &["template_declaration"],
        _ => &[],
    }
}

/// Nodes in front of a block, as siblings, that belong to it besides comments.
pub(crate) fn attributes(language: SupportLang) -> &'static [&'static str] {
    match language {
        SupportLang::Rust => &["attribute_item"],
        SupportLang::TypeScript | SupportLang::Tsx | SupportLang::JavaScript => &["decorator"],
        _ => &[],
    }
}

const RUST: Table = &[
    ("function_item", Kind::Function),
    ("function_signature_item", Kind::Function),
    ("struct_item", Kind::Type),
    ("enum_item", Kind::Type),
    ("union_item", Kind::Type),
    ("type_item", Kind::Type),
    ("trait_item", Kind::Class),
    ("impl_item", Kind::Impl),
    ("mod_item", Kind::Module),
    ("foreign_mod_item", Kind::Module),
    ("const_item", Kind::Value),
    ("static_item", Kind::Value),
    ("macro_definition", Kind::Macro),
];

const JAVASCRIPT: Table = &[
    ("function_declaration", Kind::Function),
    ("generator_function_declaration", Kind::Function),
    ("class_declaration", Kind::Class),
    ("method_definition", Kind::Function),
    ("lexical_declaration", Kind::Value),
    ("variable_declaration", Kind::Value),
    ("assignment_expression", Kind::Function),
    ("pair", Kind::Function),
    ("field_definition", Kind::Function),
    ("call_expression", Kind::Test),
];

const TYPESCRIPT: Table = &[
    ("function_declaration", Kind::Function),
    ("generator_function_declaration", Kind::Function),
    ("function_signature", Kind::Function),
    ("class_declaration", Kind::Class),
    ("abstract_class_declaration", Kind::Class),
    ("interface_declaration", Kind::Class),
    ("type_alias_declaration", Kind::Type),
    ("enum_declaration", Kind::Type),
    ("internal_module", Kind::Module),
    ("module", Kind::Module),
    ("method_definition", Kind::Function),
    ("method_signature", Kind::Function),
    ("abstract_method_signature", Kind::Function),
    ("lexical_declaration", Kind::Value),
    ("variable_declaration", Kind::Value),
    ("assignment_expression", Kind::Function),
    ("pair", Kind::Function),
    ("public_field_definition", Kind::Function),
    ("call_expression", Kind::Test),
];

const PYTHON: Table = &[("function_definition", Kind::Function), ("class_definition", Kind::Class)];

const GO: Table = &[
    ("function_declaration", Kind::Function),
    ("method_declaration", Kind::Function),
    ("type_declaration", Kind::Type),
    ("const_declaration", Kind::Value),
    ("var_declaration", Kind::Value),
];

const JAVA: Table = &[
    ("class_declaration", Kind::Class),
    ("interface_declaration", Kind::Class),
    ("enum_declaration", Kind::Class),
    ("record_declaration", Kind::Class),
    ("annotation_type_declaration", Kind::Type),
    ("method_declaration", Kind::Function),
    ("constructor_declaration", Kind::Function),
    ("compact_constructor_declaration", Kind::Function),
];

const C: Table = &[
    ("function_definition", Kind::Function),
    ("struct_specifier", Kind::Type),
    ("union_specifier", Kind::Type),
    ("enum_specifier", Kind::Type),
    ("type_definition", Kind::Type),
    ("preproc_def", Kind::Macro),
    ("preproc_function_def", Kind::Macro),
];

const CPP: Table = &[
    ("function_definition", Kind::Function),
    ("class_specifier", Kind::Class),
    ("struct_specifier", Kind::Class),
    ("union_specifier", Kind::Type),
    ("enum_specifier", Kind::Type),
    ("type_definition", Kind::Type),
    ("alias_declaration", Kind::Type),
    ("concept_definition", Kind::Type),
    ("namespace_definition", Kind::Module),
    ("preproc_def", Kind::Macro),
    ("preproc_function_def", Kind::Macro),
];

const CSHARP: Table = &[
    ("namespace_declaration", Kind::Module),
    ("class_declaration", Kind::Class),
    ("struct_declaration", Kind::Class),
    ("record_declaration", Kind::Class),
    ("interface_declaration", Kind::Class),
    ("enum_declaration", Kind::Type),
    ("delegate_declaration", Kind::Type),
    ("method_declaration", Kind::Function),
    ("constructor_declaration", Kind::Function),
    ("destructor_declaration", Kind::Function),
    ("operator_declaration", Kind::Function),
    ("conversion_operator_declaration", Kind::Function),
    ("property_declaration", Kind::Function),
    ("indexer_declaration", Kind::Function),
    ("event_declaration", Kind::Function),
    ("local_function_statement", Kind::Function),
];

const RUBY: Table = &[
    ("method", Kind::Function),
    ("singleton_method", Kind::Function),
    ("class", Kind::Class),
    ("singleton_class", Kind::Class),
    ("module", Kind::Module),
    ("call", Kind::Test),
];

const PHP: Table = &[
    ("function_definition", Kind::Function),
    ("method_declaration", Kind::Function),
    ("class_declaration", Kind::Class),
    ("interface_declaration", Kind::Class),
    ("trait_declaration", Kind::Class),
    ("enum_declaration", Kind::Class),
    ("namespace_definition", Kind::Module),
];

const SWIFT: Table = &[
    ("function_declaration", Kind::Function),
    ("protocol_function_declaration", Kind::Function),
    ("init_declaration", Kind::Function),
    ("deinit_declaration", Kind::Function),
    ("subscript_declaration", Kind::Function),
    ("class_declaration", Kind::Class),
    ("protocol_declaration", Kind::Class),
    ("typealias_declaration", Kind::Type),
    ("macro_declaration", Kind::Macro),
];

const KOTLIN: Table = &[
    ("function_declaration", Kind::Function),
    ("secondary_constructor", Kind::Function),
    ("class_declaration", Kind::Class),
    ("object_declaration", Kind::Class),
    ("companion_object", Kind::Class),
    ("type_alias", Kind::Type),
];

const CSS: Table = &[
    ("rule_set", Kind::Section),
    ("media_statement", Kind::Section),
    ("keyframes_statement", Kind::Section),
    ("supports_statement", Kind::Section),
    ("at_rule", Kind::Section),
];
