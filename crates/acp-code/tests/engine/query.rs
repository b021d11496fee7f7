//! Structural queries.

use std::fs;
use std::time::Duration;

use acp_code::query::QueryRequest;
use acp_code::{CodeError, StopSignal};

use super::Tree;

fn in_rust(pattern: &str) -> QueryRequest {
    QueryRequest { language: Some("rust".to_owned()), ..QueryRequest::new(pattern) }
}

fn texts(tree: &Tree, request: &QueryRequest) -> Vec<String> {
    let results = tree.engine.query(request, &StopSignal::never()).expect("a query");
    results.results.into_iter().map(|hit| format!("{}:{} {}", hit.file, hit.lines[0], hit.code)).collect()
}

#[test]
fn matches_come_in_order_with_what_stood_in_the_holes() {
    let tree = Tree::new(&[
        ("b.rs", "fn f() { push(1, 2); }\n"),
        ("a.rs", "fn g() {\n    push(\n        x,\n        y,\n    );\n}\n"),
        ("c.py", "push(1, 2)\n"),
    ]);
    let results = tree.engine.query(&in_rust("push($A, $$$REST)"), &StopSignal::never()).expect("a query");
    assert_eq!(results.total, 2);
    let [first, second] = &results.results[..] else { panic!("{results:?}") };
    assert_eq!((first.file.as_str(), first.lines, first.column), ("a.rs", [2, 5], 5));
    assert_eq!((second.file.as_str(), second.code.as_str(), second.bytes), ("b.rs", "push(1, 2)", [9, 19]));
    assert_eq!(
        (second.captures[0].name.as_str(), &second.captures[0].text[..]),
        ("A", &["1".to_owned()][..])
    );
    assert_eq!(
        (second.captures[1].name.as_str(), &second.captures[1].text[..]),
        ("REST", &["2".to_owned()][..])
    );
}

#[test]
fn without_a_language_each_file_is_read_as_its_own() {
    let tree = Tree::new(&[
        ("a.rs", "fn f() { log(1); }\n"),
        ("b.py", "log(1)\n"),
        ("c.html", "<script>log(1)</script>\n"),
        ("d.txt", "log(1)\n"),
    ]);
    let found = texts(&tree, &QueryRequest::new("log($X)"));
    assert_eq!(found, ["a.rs:1 log(1)", "b.py:1 log(1)", "c.html:1 log(1)"]);
    let js = QueryRequest { language: Some("js".to_owned()), ..QueryRequest::new("log($X)") };
    assert_eq!(texts(&tree, &js), ["c.html:1 log(1)"]);
}

#[test]
fn code_that_a_page_carries_keeps_its_places() {
    let page = "<p>é<script>log(1)</script><style>a { b: c }</style><script>log(2); log(3)</script>\n\
                <b>é</b><script>log(4)</script>\n";
    let tree = Tree::new(&[("a.html", page)]);
    let found =
        tree.engine.query(&QueryRequest::new("log($X)"), &StopSignal::never()).expect("a query").results;
    let places: Vec<_> = found.iter().map(|hit| (hit.lines[0], hit.column)).collect();
    assert_eq!(places, [(1, 13), (1, 61), (1, 69), (2, 17)]);
}

#[test]
fn the_limit_comes_after_everything_was_found() {
    let files: Vec<(String, String)> =
        (0..30).map(|number| (format!("f{number:02}.rs"), "fn f() { a(); a(); }\n".repeat(20))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let tree = Tree::new(&files);
    let few = tree
        .engine
        .query(&QueryRequest { max_results: 3, ..in_rust("a()") }, &StopSignal::never())
        .expect("a query");
    let all = tree
        .engine
        .query(&QueryRequest { max_results: usize::MAX, ..in_rust("a()") }, &StopSignal::never())
        .expect("a query");
    assert_eq!((few.total, few.results.len()), (1200, 3));
    assert_eq!((all.total, all.results.len()), (1200, 1200));
    assert_eq!(few.results[..], all.results[..3]);
}

#[test]
fn a_pattern_that_is_no_code_is_an_error_with_its_place() {
    let tree = Tree::new(&[("a.rs", "fn f() { a(); }\n")]);
    let fails = |request: &QueryRequest| match tree.engine.query(request, &StopSignal::never()) {
        Err(CodeError::Pattern { language, line, column, .. }) => (language, line, column),
        other => panic!("{request:?} gave {other:?}"),
    };
    assert_eq!(fails(&in_rust("fn f( {")).0, "Rust");
    assert_eq!(fails(&in_rust("a(); b()")), ("Rust".to_owned(), 1, 6));
    assert_eq!(fails(&in_rust("$$$A")).1, 1);
    assert_eq!(fails(&QueryRequest::new("a(); b()")).0, "Rust", "the language of the files that are there");
    let error =
        tree.engine.query(&in_rust("a(); b()"), &StopSignal::never()).expect_err("an error").to_string();
    assert!(error.contains("line 1, column 6") && error.ends_with("  a(); b()\n       ^"), "{error}");
    let language = QueryRequest { language: Some("cobol".to_owned()), ..QueryRequest::new("a()") };
    let error = tree.engine.query(&language, &StopSignal::never()).expect_err("an error").to_string();
    assert!(error.contains("\"cobol\" is not built in; use one of: bash, c, "), "{error}");
}

#[test]
fn a_bracket_without_a_partner_is_no_code_because_a_text_takes_it_for_a_letter() {
    let tree = Tree::new(&[
        ("a.rs", "fn f() { a(); }\n"),
        ("b.md", "# Title\n"),
        ("c.html", "<p>text</p>\n"),
        ("d.sh", "echo 1\n"),
    ]);
    let query = |pattern: &str| tree.engine.query(&QueryRequest::new(pattern), &StopSignal::never());
    for pattern in ["}}}", "echo }", "a ]"] {
        let error = query(pattern).expect_err(pattern).to_string();
        assert!(error.starts_with("cannot read the pattern as Rust at line 1"), "{error}");
    }
    // These are code of a shell.
    for pattern in ["case $X in a) b;; esac", "echo 2 3"] {
        let found = query(pattern).expect(pattern);
        assert_eq!(found.total, 0);
        assert!(found.notices[0].starts_with("cannot read the pattern as Rust at line 1"), "{found:?}");
    }
    fs::write(tree.path().join("b.md"), "}}}\n").expect("a file");
    let found = query("}}}").expect("a match");
    assert_eq!(found.total, 1);
    assert!(found.notices[0].starts_with("cannot read the pattern as Rust at line 1"), "{found:?}");
}

#[test]
fn holes_before_holes_are_limited_because_each_doubles_the_time() {
    let nested = |count: usize, before: &str| {
        (0..count).fold("x".to_owned(), |code, _| format!("f({before}, {code})"))
    };
    let tree = Tree::new(&[("a.js", &nested(60, "a, b"))]);
    let query = |count: usize| {
        let request =
            QueryRequest { language: Some("js".to_owned()), ..QueryRequest::new(nested(count, "$$$")) };
        tree.engine
            .query(&request, &StopSignal::never())
            .map(|found| found.total)
            .map_err(|error| error.to_string())
    };
    assert_eq!(query(8), Ok(1));
    let error = query(60).expect_err("an error");
    assert!(error.contains("more than 12 times"), "{error}");
}

#[test]
fn a_missing_token_that_the_parser_invents_still_matches() {
    // The pattern's `;` stands nowhere in the file: tree-sitter invents it. A filter on punctuation would lose the match.
    let tree = Tree::new(&[("a.c", "int f(void) { return call(1) }\n")]);
    let request = QueryRequest { language: Some("c".to_owned()), ..QueryRequest::new("return call($A);") };
    assert_eq!(tree.engine.query(&request, &StopSignal::never()).expect("a query").total, 1);
}

#[test]
fn matches_inside_matches_are_found_and_longer_names_are_not() {
    let text = "fn f() { wide_call(0); call(call(1) + x.call(2)); recall(3); }\nfn g() { y!(call(4)); }\n";
    let tree = Tree::new(&[("a.rs", text), ("b.rs", "fn h() { recall(1); }\n")]);
    let found = ["a.rs:1 call(call(1) + x.call(2))", "a.rs:1 call(1)"];
    assert_eq!(texts(&tree, &in_rust("call($A)")), found);
    assert_eq!(texts(&tree, &in_rust("$X.call($A)")), ["a.rs:1 x.call(2)"]);
}

#[test]
fn test_code_is_left_out_by_its_syntax() {
    let text = "fn f() { a(1); }\n\n#[cfg(test)]\nmod checks {\n    fn g() { a(2); }\n}\n";
    let tree = Tree::new(&[("a.rs", text), ("tests/b.rs", "fn h() { a(3); }\n")]);
    let request = QueryRequest { allow_tests: false, ..in_rust("a($X)") };
    assert_eq!(texts(&tree, &request), ["a.rs:1 a(1)"]);
    assert_eq!(texts(&tree, &in_rust("a($X)")).len(), 3);
}

#[test]
fn a_deadline_marks_the_results() {
    let tree = Tree::new(&[("a.rs", "fn f() { a(); }\n")]);
    let results =
        tree.engine.query(&in_rust("a()"), &StopSignal::after(Duration::ZERO)).expect("partial results");
    assert!(results.truncated && results.results.is_empty());
}

#[test]
fn a_language_without_files_is_said() {
    let tree = Tree::new(&[("a.rs", "fn f() {}\n")]);
    let request = QueryRequest { language: Some("go".to_owned()), ..QueryRequest::new("f()") };
    let results = tree.engine.query(&request, &StopSignal::never()).expect("a query");
    assert_eq!(results.notices, ["there are no Go files here"]);
}
