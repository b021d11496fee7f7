//! The languages that are built in, by name and by file.

use std::path::Path;

use ast_grep_language::{Language as _, LanguageExt as _, SupportLang};

use crate::CodeError;

/// Every language whose grammar is in this build, in the order of their names.
pub(crate) const BUILT_IN: &[SupportLang] = &[
    SupportLang::Bash,
    SupportLang::C,
    SupportLang::CSharp,
    SupportLang::Cpp,
    SupportLang::Css,
    SupportLang::Go,
    SupportLang::Html,
    SupportLang::Java,
    SupportLang::JavaScript,
    SupportLang::Json,
    SupportLang::Kotlin,
    SupportLang::Markdown,
    SupportLang::Php,
    SupportLang::Python,
    SupportLang::Ruby,
    SupportLang::Rust,
    SupportLang::Swift,
    SupportLang::Tsx,
    SupportLang::TypeScript,
    SupportLang::Yaml,
];

/// The names of all languages that are built in.
pub fn names() -> Vec<String> {
    BUILT_IN.iter().map(ToString::to_string).collect()
}

/// The language of a file, by its extension, if its grammar is built in.
pub(crate) fn of(path: &Path) -> Option<SupportLang> {
    SupportLang::from_path(path).filter(|language| BUILT_IN.contains(language))
}

/// The language with this name or alias (`rust`, `rs`, `c++`…).
pub(crate) fn named(name: &str) -> Result<SupportLang, CodeError> {
    name.parse::<SupportLang>().ok().filter(|language| BUILT_IN.contains(language)).ok_or_else(|| {
        CodeError::Language { name: name.to_owned(), known: names().join(", ").to_lowercase() }
    })
}

/// Whether this is text or data rather than code.
pub(crate) fn is_text(language: SupportLang) -> bool {
    matches!(
        language,
        SupportLang::Css | SupportLang::Html | SupportLang::Json | SupportLang::Markdown | SupportLang::Yaml
    )
}

/// The languages that `host` may carry inside it (script and style in HTML).
pub(crate) fn carried_by(host: SupportLang) -> Vec<SupportLang> {
    let mut found: Vec<SupportLang> = Vec::new();
    for name in host.injectable_languages().unwrap_or_default() {
        if let Ok(language) = named(name)
            && !found.contains(&language)
        {
            found.push(language);
        }
    }
    found
}
