//! Two rules of CONTRIBUTING.md about the shape of the code: a public type has a name of its own, and a function can be
//! seen at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most lines that a function has, from its signature to its closing brace.
const MAX_FUNCTION_LINES: usize = 80;

#[test]
fn a_public_type_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in sources() {
        let text = std::fs::read_to_string(&file).expect("a source file");
        for (number, name) in public_types(&text) {
            places.entry(name.to_owned()).or_default().push(format!("{}:{number}", shown(&file)));
        }
    }
    assert!(places.len() > 500, "the sources were not found");
    let shared: Vec<String> = places
        .iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(shared.is_empty(), "public types that share a name:\n{}", shared.join("\n"));
}

#[test]
fn no_function_is_longer_than_a_screen() {
    let mut long = Vec::new();
    for file in sources() {
        let text = std::fs::read_to_string(&file).expect("a source file");
        for (number, name, lines) in functions(product(&text)) {
            if lines > MAX_FUNCTION_LINES {
                long.push(format!("{}:{number}: {name} has {lines} lines", shown(&file)));
            }
        }
    }
    assert!(long.is_empty(), "functions of more than {MAX_FUNCTION_LINES} lines:\n{}", long.join("\n"));
}

#[test]
fn types_and_functions_are_found_where_they_are() {
    let text = "/// pub struct No;\npub struct Yes<T>(T);\nstruct Private;\npub(crate) enum Inner {}\n\
                pub(in a) trait B {}\nmod m {\n    pub type Alias = u8;\n}\n#[cfg(test)]\nmod tests {\n    pub enum T {}\n}\n";
    assert_eq!(public_types(text).collect::<Vec<_>>(), [(2, "Yes"), (7, "Alias")]);
    let text = "pub(crate) const fn one() -> u8 {\n    1\n}\nimpl A {\n    pub async fn two(\n        &self,\n    ) {\n    }\n\
                    fn three(&self) {}\n}\ntrait B {\n    fn four(&self);\n    fn five(\n        &self,\n    );\n}\n";
    assert_eq!(functions(text), [(1, "one", 3), (5, "two", 4)]);
}

/// The public types of a file's product code with their lines.
fn public_types(text: &str) -> impl Iterator<Item = (usize, &str)> {
    product(text).lines().enumerate().filter_map(|(at, line)| {
        let (kind, rest) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
        let is_type = matches!(kind, "struct" | "enum" | "trait" | "type" | "union");
        // in a macro there is a variable in place of the name
        (is_type && !rest.starts_with('$')).then(|| (at + 1, word(rest)))
    })
}

/// Line, name and length of each function that has more than one line. The code is formatted: a function ends with the next
/// brace that is indented as its signature.
fn functions(text: &str) -> Vec<(usize, &str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some(name) = function_name(code) else { continue };
        if code.ends_with(['}', ';']) {
            continue;
        }
        let is_end =
            |line: &&str| line.strip_prefix(indent).is_some_and(|rest| rest.starts_with('}') || rest == ");");
        let Some(length) = lines[at + 1..].iter().position(is_end) else { continue };
        if lines[at + 1 + length].trim_start().starts_with('}') {
            found.push((at + 1, name, length + 2));
        }
    }
    found
}

fn function_name(code: &str) -> Option<&str> {
    let mut rest = code;
    if let Some(visible) = rest.strip_prefix("pub") {
        rest = visible.strip_prefix(' ').or_else(|| Some(visible.strip_prefix('(')?.split_once(") ")?.1))?;
    }
    for modifier in ["const ", "async "] {
        rest = rest.strip_prefix(modifier).unwrap_or(rest);
    }
    rest.strip_prefix("fn ").map(word)
}

fn word(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default()
}

/// By our own rule, unit tests come last.
fn product(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests {").map_or(text, |at| &text[..at])
}

/// Every source file of the product but unit tests and `no_*.rs`, which stands in for a file of a feature that is off.
fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(crates).expect("crates/") {
        gather(&entry.expect("an entry of crates/").path().join("src"), &mut found);
    }
    found.sort();
    found
}

fn gather(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("an entry of src/").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_product = name != "tests.rs" && !name.ends_with("_tests.rs") && !name.starts_with("no_");
        match path.is_dir() {
            true if name != "tests" => gather(&path, found),
            false if name.ends_with(".rs") && is_product => found.push(path),
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
