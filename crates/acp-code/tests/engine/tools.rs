//! The tools as a model calls them: JSON in, text out.

use acp_code::{CodeError, StopSignal, tool};
use serde_json::{Value, json};

use super::Tree;

fn tree() -> Tree {
    Tree::new(&[("src/a.rs", "/// Greets.\nfn hello() {\n    print(\"hello\");\n}\n")])
}

fn call(tree: &Tree, tool: &str, arguments: &Value) -> Result<String, CodeError> {
    tree.engine.call(tool, arguments, &StopSignal::never())
}

#[test]
fn the_schemas_are_those_that_were_agreed() {
    let schemas = tool::schemas();
    assert_eq!(schemas.iter().map(|schema| schema.name).collect::<Vec<_>>(), ["search", "query", "extract"]);
    assert_eq!(schemas[0].input["properties"]["max_results"]["default"], 10);
    assert_eq!(schemas[0].input["properties"]["allow_tests"]["default"], true);
    assert_eq!(schemas[0].input["required"], json!(["query"]));
    assert_eq!(schemas[1].input["required"], json!(["pattern"]));
    assert_eq!(schemas[2].input["properties"]["format"]["enum"], json!(["plain", "markdown", "json"]));
}

#[test]
fn search_answers_in_numbered_lines() {
    let text = call(&tree(), "search", &json!({"query": "hello", "max_results": 5.0})).expect("an answer");
    let (head, rest) = text.split_once('\n').expect("lines");
    assert!(head.starts_with("src/a.rs:1-4  function hello  "), "{head}");
    assert_eq!(rest, "  1  /// Greets.\n> 2  fn hello() {\n> 3      print(\"hello\");\n  4  }\n\n1 result\n");
    let text = call(&tree(), "search", &json!({"query": "hello", "exact": true})).expect("an answer");
    assert_eq!(text, "src/a.rs\n  2  fn hello() {\n  3      print(\"hello\");\n\n2 results\n");
}

#[test]
fn query_and_extract_answer_in_their_forms() {
    let text =
        call(&tree(), "query", &json!({"pattern": "print($A)", "language": "rust"})).expect("an answer");
    assert_eq!(text, "src/a.rs:3\n  3  print(\"hello\")\n\n1 match\n");
    let markdown = json!({"files": ["src/a.rs#hello"], "format": "markdown"});
    let text = call(&tree(), "extract", &markdown).expect("an answer");
    assert!(text.starts_with("### src/a.rs:1-4 · function hello\n\n```rust\n/// Greets.\n"), "{text}");
    let text =
        call(&tree(), "extract", &json!({"files": ["src/a.rs#bye"], "format": "json"})).expect("an answer");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["failed"], 1);
    assert_eq!(value["results"][0]["error"], "\"src/a.rs\" declares no \"bye\"");
    let text = call(&tree(), "extract", &json!({"files": ["src/a.rs#bye"]})).expect("an answer");
    assert_eq!(text, "src/a.rs#bye  error: \"src/a.rs\" declares no \"bye\"\n\n");
}

#[test]
fn wrong_arguments_say_which() {
    let says =
        |tool: &str, arguments: Value| call(&tree(), tool, &arguments).expect_err("an error").to_string();
    assert!(says("search", json!({})).contains("missing field `query`"));
    assert!(says("search", json!({"query": "a", "max_results": 0})).contains("a whole number from 1, not 0"));
    assert!(says("search", json!({"query": "a", "limit": 3})).contains("unknown field `limit`"));
    assert!(says("query", json!({"pattern": " "})).contains("the pattern is empty"));
    assert!(says("extract", json!({"files": "a"})).contains("expected a sequence"));
    assert!(says("dig", json!({})).contains("there is no tool \"dig\""));
}

#[test]
fn results_are_serialised_with_the_agreed_names() {
    let results = tree()
        .engine
        .search(&acp_code::search::SearchRequest::new("hello"), &StopSignal::never())
        .expect("a search");
    let value = serde_json::to_value(&results).expect("JSON");
    let hit = &value["results"][0];
    assert_eq!((&hit["file"], &hit["lines"]), (&json!("src/a.rs"), &json!([1, 4])));
    assert!(hit["score"].as_f64().is_some_and(|score| score > 0.0) && hit["code"].is_string());
    assert_eq!(value["truncated"], false);
}
