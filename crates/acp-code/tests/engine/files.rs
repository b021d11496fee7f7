//! What files there are, and declarations wherever they stand.

use acp_code::{CodeError, StopSignal, extract, list, search};
use serde_json::json;

use super::Tree;

fn tree() -> Tree {
    Tree::new(&[
        (".gitignore", "target\n"),
        (".git/HEAD", "ref"),
        (".github/workflows/ci.yml", "on: push\n"),
        ("Cargo.toml", "[package]\n"),
        ("src/lib.rs", "pub fn run() {}\n"),
        ("src/net/http.rs", "pub struct Client;\n\nimpl Client {\n    pub fn send(&self) {}\n}\n"),
        ("src/net/mod.rs", "pub fn send() {}\n"),
        ("tests/send.rs", "fn send() {}\n"),
        ("target/out.rs", "fn send() {}\n"),
    ])
}

fn shown(results: &list::ListResults) -> Vec<String> {
    let entry = |entry: &list::ListEntry| match entry.files {
        Some(files) => format!("{}/ {files}", entry.path),
        None => entry.path.clone(),
    };
    results.results.iter().map(entry).collect()
}

fn listed(tree: &Tree, arguments: serde_json::Value) -> list::ListResults {
    let request = serde_json::from_value(arguments).expect("a request");
    tree.engine.list(&request, &StopSignal::never()).expect("files")
}

fn globbed(tree: &Tree, arguments: serde_json::Value) -> Vec<String> {
    let request = serde_json::from_value(arguments).expect("a request");
    shown(&tree.engine.glob(&request, &StopSignal::never()).expect("files"))
}

#[test]
fn a_folder_is_listed_as_deep_as_has_room() {
    let tree = tree();
    let all = [
        ".github/workflows/ci.yml",
        ".gitignore",
        "Cargo.toml",
        "src/lib.rs",
        "src/net/http.rs",
        "src/net/mod.rs",
        "tests/send.rs",
    ];
    assert_eq!(shown(&listed(&tree, json!({}))), all);
    let top = listed(&tree, json!({"depth": 1}));
    assert_eq!(shown(&top), [".github/ 1", ".gitignore", "Cargo.toml", "src/ 3", "tests/ 1"]);
    assert_eq!(top.files, 7);
    let small = listed(&tree, json!({"max_results": 6}));
    assert_eq!(shown(&small)[3..], ["src/lib.rs", "src/net/ 2", "tests/send.rs"]);
    assert!(small.notices[0].contains("were not opened"), "{:?}", small.notices);
    assert_eq!(shown(&listed(&tree, json!({"path": "src", "depth": 1}))), ["src/lib.rs", "src/net/ 2"]);
    let ignored = listed(&tree, json!({"all": true}));
    assert!(shown(&ignored).contains(&"target/out.rs".to_owned()) && ignored.files == 8, "{ignored:?}");
    let two = listed(&tree, json!({"max_results": 2, "depth": 9}));
    assert_eq!(two.results.len(), 2);
    assert!(two.notices[0].starts_with("5 more entries"), "{:?}", two.notices);
}

#[test]
fn files_are_found_by_a_pattern() {
    let tree = tree();
    assert_eq!(
        globbed(&tree, json!({"pattern": "**/*.rs"})),
        ["src/lib.rs", "src/net/http.rs", "src/net/mod.rs", "tests/send.rs"]
    );
    assert_eq!(globbed(&tree, json!({"pattern": "*.rs", "path": "src"})).len(), 3, "a name, in any folder");
    assert_eq!(globbed(&tree, json!({"pattern": "src/*.rs"})), ["src/lib.rs"]);
    assert_eq!(globbed(&tree, json!({"pattern": "net/{http,ftp}.rs", "path": "src"})), ["src/net/http.rs"]);
    assert_eq!(globbed(&tree, json!({"pattern": "*.py"})), [""; 0]);
    let wrong = tree.engine.answer("glob", &json!({"pattern": "[a"}), &StopSignal::never());
    assert!(matches!(&wrong, Err(CodeError::Request { tool: "glob", .. })), "{wrong:?}");
    let out = tree.engine.answer("list_files", &json!({"path": ".."}), &StopSignal::never());
    assert!(matches!(&out, Err(CodeError::Outside { .. })), "{out:?}");
}

#[test]
fn a_declaration_is_found_without_its_file_and_tests_come_last() {
    let tree = tree();
    let places = |symbol: &str, allow_tests: bool| -> Vec<String> {
        let request = extract::ExtractRequest { allow_tests, ..extract::ExtractRequest::new([symbol]) };
        let found = tree.engine.extract(&request, &StopSignal::never()).expect("pieces");
        found
            .results
            .iter()
            .map(|piece| match (&piece.lines, &piece.error) {
                (Some(lines), _) => format!("{}:{}", piece.file, lines[0]),
                (None, error) => error.clone().unwrap_or_default(),
            })
            .collect()
    };
    assert_eq!(places("#send", true), ["src/net/http.rs:4", "src/net/mod.rs:1", "tests/send.rs:1"]);
    assert_eq!(places("#send", false), ["src/net/http.rs:4", "src/net/mod.rs:1"]);
    assert_eq!(places("#Client.send", true), ["src/net/http.rs:4"]);
    assert_eq!(places("#nowhere", true), ["nothing here declares \"nowhere\"; search finds it by words"]);
}

#[test]
fn a_declaration_is_located_in_a_text_that_is_in_no_file() {
    let text = "struct A;\n\nimpl A {\n    /// One.\n    fn one() {}\n}\n";
    let locate = |symbol: &str| extract::locate("/w/a.rs", text, symbol, &StopSignal::never());
    assert_eq!(locate("A.one"), Ok(vec![[4, 5]]));
    assert_eq!(locate("A::one"), Ok(vec![[4, 5]]));
    assert!(locate("two").is_err_and(|why| why.contains("declares no \"two\"")));
    assert!(extract::locate("/w/a.xyz", text, "A", &StopSignal::never()).is_err());
}

#[test]
fn a_page_has_no_more_tokens_than_were_asked_for() {
    let body = "    let parcel = 1;\n".repeat(20);
    let text: String = (0..5).map(|number| format!("fn parcel_{number}() {{\n{body}}}\n\n")).collect();
    let tree = Tree::new(&[("a.rs", &text)]);
    let first = search::SearchRequest {
        max_tokens: Some(300),
        session: Some("s".to_owned()),
        ..search::SearchRequest::new("parcel")
    };
    let page = tree.engine.search(&first, &StopSignal::never()).expect("a page");
    assert!(page.results.len() < 5 && !page.results.is_empty() && page.more, "{}", page.results.len());
    assert!(page.notices.iter().any(|notice| notice.contains("no room in 300 tokens")), "{:?}", page.notices);
    let next = search::SearchRequest { next_page: true, ..first.clone() };
    let second = tree.engine.search(&next, &StopSignal::never()).expect("a page");
    assert_ne!(page.results[0], second.results[0]);
    let tiny = search::SearchRequest { max_tokens: Some(1), ..search::SearchRequest::new("parcel") };
    assert_eq!(tree.engine.search(&tiny, &StopSignal::never()).expect("a page").results.len(), 1);
}
