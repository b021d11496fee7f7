//! The protocol's names are written down once, in acp-proto: product code uses its constants and enums.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use acp_proto::{Method, UpdateKind};

/// Words that mean something else at the given place: where, the word, what it means there.
const OTHER_MEANINGS: &[(&str, &str, &str)] = &[
    ("acp-client-mock/src/verbs.rs", "logout", "a verb of a driver"),
    ("acp-code/src/abbreviations.rs", "initialize", "an English word in source code"),
    ("acp-code/src/blocks/members.rs", "initialize", "a constructor in Ruby"),
    ("acp-mcp/src/client.rs", "initialize", "a method of MCP"),
    ("acp-mcp/src/stub/log.rs", "initialize", "a method of MCP"),
    ("acp-play/src/mcp.rs", "initialize", "a method of MCP"),
    ("acp-rules/src/caps.rs", "logout", "a capability"),
    ("acp-script/src/agent/offers.rs", "logout", "a capability"),
    ("acp-script/src/client_habits.rs", "logout", "a verb of a driver"),
];

/// Update kinds that are everyday words: they count only beside `sessionUpdate`.
const EVERYDAY: &[&str] = &["plan", "notice"];

#[test]
fn no_method_or_update_kind_is_a_literal_outside_acp_proto() {
    let mut literals = Vec::new();
    let mut explained = BTreeSet::new();
    for file in sources() {
        let path = shown(&file);
        let text = std::fs::read_to_string(&file).expect("a source file");
        let mentioned: Vec<_> = names().filter(|name| text.contains(name)).collect();
        for (number, line) in product_lines(&text).filter(|(_, line)| line.contains('"')) {
            for &name in mentioned.iter().filter(|name| line.contains(**name) && is_literal(line, name)) {
                match OTHER_MEANINGS.iter().position(|(at, word, _)| *at == path && *word == name) {
                    Some(entry) => drop(explained.insert(entry)),
                    None => literals.push(format!("{path}:{number}: \"{name}\" in `{}`", line.trim())),
                }
            }
        }
    }
    assert!(literals.is_empty(), "use the constants of acp_proto instead of:\n{}", literals.join("\n"));
    let stale: Vec<_> = (0..OTHER_MEANINGS.len())
        .filter(|entry| !explained.contains(entry))
        .map(|at| OTHER_MEANINGS[at])
        .collect();
    assert!(stale.is_empty(), "these entries of OTHER_MEANINGS explain nothing any more: {stale:?}");
}

/// A dialect's name in code means that adding one touches that code: what it needs is a fact in its `FormTraits`.
#[test]
fn no_dialect_but_v1_is_named_outside_acp_dialect() {
    let mut named = Vec::new();
    // A benchmark measures one dialect as an example of all.
    let free =
        |file: &&PathBuf| ["acp-dialect/", "acp-bench/"].iter().any(|name| shown(file).starts_with(name));
    for file in sources().iter().filter(|file| !free(file)) {
        let text = std::fs::read_to_string(file).expect("a source file");
        for (number, line) in product_lines(&text) {
            let mut constants = line.split("Dialect::").skip(1);
            if constants.any(|rest| rest.starts_with(char::is_uppercase) && !is_shared(rest)) {
                named.push(format!("{}:{number}: {}", shown(file), line.trim()));
            }
        }
    }
    assert!(named.is_empty(), "use a fact about the dialect (`traits()`) instead of:\n{}", named.join("\n"));
}

/// Whether what stands behind `Dialect::` is known to everybody: v1, and the list of all.
fn is_shared(rest: &str) -> bool {
    let name = rest.split(|next: char| !next.is_alphanumeric() && next != '_').next().unwrap_or_default();
    // `ClientDialect` has states.
    ["V1", "ALL", "Unknown", "Canonical", "Foreign"].contains(&name)
}

#[test]
fn a_literal_is_found_in_code_and_not_in_comments_or_tests() {
    let text = "// \"session/new\"\nlet a = \"session/new\"; // \"session/load\"\nlet b = r#\"{\"method\":\"session/prompt\"}\"#;\n\
                /// \"session/list\"\nlet c = b\"\\\"session/close\\\"\";\n#[cfg(test)]\nmod tests {\n\"session/fork\"\n}\n";
    let found: Vec<_> = product_lines(text)
        .flat_map(|(number, line)| {
            names().filter(move |name| is_literal(line, name)).map(move |name| (number, name))
        })
        .collect();
    assert_eq!(found, [(2, "session/new"), (3, "session/prompt"), (5, "session/close")]);
    assert!(is_literal("json!({ \"sessionUpdate\": \"plan\" })", "plan"));
    assert!(!is_literal("Policy::Plan => \"plan\",", "plan"));
}

fn names() -> impl Iterator<Item = &'static str> {
    let methods = Method::ALL.iter().map(|method| method.as_str());
    methods.chain(UpdateKind::ALL.iter().map(|kind| kind.as_str()))
}

fn is_literal(line: &str, name: &str) -> bool {
    let quoted = line.contains(&format!("\"{name}\"")) || line.contains(&format!("\"{name}\\\""));
    quoted && (!EVERYDAY.contains(&name) || line.contains("sessionUpdate"))
}

/// The lines of a file's product code with their numbers, without comments. By our own rule, unit tests come last.
fn product_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let product = text.find("#[cfg(test)]\nmod tests {").map_or(text, |at| &text[..at]);
    let code = |line: &'_ str| -> usize {
        match line.trim_start().starts_with("//") {
            true => 0,
            false => line.find(" // ").unwrap_or(line.len()),
        }
    };
    product.lines().enumerate().map(move |(at, line)| (at + 1, &line[..code(line)]))
}

fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(crates).expect("crates/") {
        let folder = entry.expect("an entry of crates/").path();
        if !folder.ends_with("acp-proto") {
            gather(&folder.join("src"), &mut found);
        }
    }
    found.sort();
    found
}

fn gather(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("an entry of src/").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match path.is_dir() {
            true if name != "tests" => gather(&path, found),
            false if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") => {
                found.push(path);
            }
            _ => {}
        }
    }
}

/// `acp-host/src/client.rs`.
fn shown(file: &Path) -> String {
    let text = file.to_string_lossy().replace('\\', "/");
    let at = text.rfind("/crates/").map_or(0, |at| at + "/crates/".len());
    text[at..].trim_start_matches("acp/../").to_owned()
}
