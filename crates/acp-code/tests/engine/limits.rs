//! Files that are large, lines without end, and more results than are kept.

use std::time::Duration;

use acp_code::search::{SearchRequest, SearchResults};
use acp_code::{StopSignal, extract, query};

use super::Tree;

/// The most that is held of a file at once.
const HELD: usize = 16 << 20;

fn exact(tree: &Tree, request: &SearchRequest) -> SearchResults {
    let request = SearchRequest { exact: true, ..request.clone() };
    tree.engine.search(&request, &StopSignal::never()).expect("a search")
}

/// More than 1 MB of functions, every second one a test, and one line of both kinds.
fn large_source() -> String {
    let function = |number: usize| {
        let attribute = if number.is_multiple_of(2) { "" } else { "#[test] " };
        format!("{attribute}fn f{number}() {{ needle({number}); /* {} */ }}\n", "x".repeat(200))
    };
    (0..5000).map(function).collect()
}

#[test]
fn a_large_file_is_not_parsed_to_name_the_blocks_around_its_lines() {
    let tree = Tree::new(&[("large.rs", &large_source()), ("small.rs", "fn small() { needle(1); }\n")]);
    let kinds = |request: &SearchRequest| {
        let results = exact(&tree, request).results;
        results.into_iter().map(|hit| (hit.kind, hit.name)).collect::<Vec<_>>()
    };
    let named = |kind: &str, name: Option<&str>| (kind.to_owned(), name.map(str::to_owned));
    let (plain, small) = (named("lines", None), named("function", Some("small")));
    assert_eq!(kinds(&SearchRequest::new("needle(1);")), [plain.clone(), small.clone()]);
    // Nor to leave out its tests, which is said.
    let no_tests = SearchRequest { allow_tests: false, ..SearchRequest::new("needle(1);") };
    assert_eq!(kinds(&no_tests), [plain, small]);
    let said = "not looked into for test code because they are larger than 1 MB: large.rs";
    assert_eq!(exact(&tree, &no_tests).notices, [said]);
}

#[test]
fn when_the_time_is_up_lines_are_given_without_their_blocks() {
    let tree = Tree::new(&[("a.rs", "fn f() { needle(1); }\n"), ("b.rs", "fn g() { needle(2); }\n")]);
    let first = SearchRequest {
        exact: true,
        max_results: 1,
        session: Some("s".to_owned()),
        ..SearchRequest::new("needle")
    };
    assert_eq!(exact(&tree, &first).results[0].name.as_deref(), Some("f"));
    let next = SearchRequest { next_page: true, ..first };
    let late = tree.engine.search(&next, &StopSignal::after(Duration::ZERO)).expect("a page");
    let hit = &late.results[0];
    assert_eq!((hit.file.as_str(), hit.kind.as_str(), hit.name.as_deref()), ("b.rs", "lines", None));
    assert_eq!(late.notices, ["the time was up before the blocks around all lines were named"]);
}

#[test]
fn tests_among_thousands_of_functions_are_told_apart() {
    let function = |number: usize| {
        let attribute = if number.is_multiple_of(2) { "" } else { "#[test] " };
        format!("{attribute}fn f{number}() {{ needle({number}); }}\n")
    };
    let text: String = (0..8000).map(function).collect();
    let last = "#[cfg(test)] mod tests { fn a() { needle(1); } }\nfn end() {\n    needle(1);\n    #[cfg(test)]\n    \
                mod inner {\n        fn b() { needle(2); }\n    }\n    needle(3);\n}\n";
    let tree = Tree::new(&[("a.rs", &format!("{text}{last}"))]);
    let wanted: Vec<usize> = (1..=8000).step_by(2).chain([8003, 8008]).collect();
    let lines = SearchRequest { max_results: 10_000, allow_tests: false, ..SearchRequest::new("needle") };
    let found = exact(&tree, &lines).results;
    assert_eq!(found.iter().map(|hit| hit.lines[0]).collect::<Vec<_>>(), wanted);
    let matches = query::QueryRequest {
        max_results: 10_000,
        allow_tests: false,
        language: Some("rust".to_owned()),
        ..query::QueryRequest::new("needle($N)")
    };
    let found = tree.engine.query(&matches, &StopSignal::never()).expect("a query").results;
    assert_eq!(found.iter().map(|hit| hit.lines[0]).collect::<Vec<_>>(), wanted);
}

#[test]
fn a_row_of_letters_without_end_is_passed_over_at_once() {
    let row = "foo".repeat(60_000);
    let tree = Tree::new(&[("a.js", &format!("foo(1);\n// x{row}\nfoo(2);\n"))]);
    let found =
        tree.engine.query(&query::QueryRequest::new("foo($A)"), &StopSignal::never()).expect("a query");
    assert_eq!(found.results.iter().map(|hit| hit.lines[0]).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn columns_are_right_in_a_line_without_end() {
    let calls = 20_000;
    let tree = Tree::new(&[("a.js", &format!("x;\n{}\n  foo('é'); foo(2)\n", "foo('é');".repeat(calls)))]);
    let request = query::QueryRequest { max_results: usize::MAX, ..query::QueryRequest::new("foo($A)") };
    let found = tree.engine.query(&request, &StopSignal::never()).expect("a query").results;
    let mut places: Vec<_> = found.iter().map(|hit| (hit.lines[0], hit.column)).collect();
    assert_eq!(places.split_off(calls), [(3, 3), (3, 13)]);
    assert!(places.iter().enumerate().all(|(nth, place)| *place == (2, nth * 9 + 1)));
}

#[test]
fn a_deadline_ends_a_query_in_the_middle_of_a_file() {
    let calls = 300_000;
    let tree = Tree::new(&[("a.js", &"foo(1234);".repeat(calls))]);
    let stop = StopSignal::after(Duration::from_millis(5));
    let found = tree.engine.query(&query::QueryRequest::new("foo($A)"), &stop).expect("partial results");
    assert!(found.truncated && found.total < calls, "{}", found.total);
    let wanted = extract::ExtractRequest::new(["a.js:1", "a.js#foo"]);
    let pieces = tree.engine.extract(&wanted, &StopSignal::after(Duration::from_millis(5))).expect("pieces");
    assert!(pieces.truncated);
    let errors: Vec<_> = pieces.results.iter().filter_map(|piece| piece.error.as_deref()).collect();
    assert_eq!(errors, ["the time was up before the blocks of \"a.js\" were found"]);
}

#[test]
fn matches_inside_matches_are_given_up_to_a_limit() {
    let deep = 20_000;
    let nested = format!("{}1{}\n", "[".repeat(deep), "]".repeat(deep));
    let tree = Tree::new(&[("a.json", "[1]\n"), ("b.json", &nested), ("c.json", "[2]\n")]);
    let query = |max_results: usize| {
        let request = query::QueryRequest { max_results, ..query::QueryRequest::new("[$A]") };
        tree.engine.query(&request, &StopSignal::never()).expect("a query")
    };
    let few = query(3);
    assert_eq!((few.total, few.results.len(), &few.notices[..]), (deep + 2, 3, &[][..]));
    assert_eq!(few.results[1].bytes, [0, 2 * deep + 1]);
    assert_eq!((few.results[2].bytes, few.results[2].column), ([1, 2 * deep], 2));
    let all = query(usize::MAX);
    let size: usize = all.results.iter().map(|hit| hit.code.len() + hit.captures[0].text[0].len()).sum();
    assert_eq!(all.total, deep + 2);
    assert!((64 << 20..65 << 20).contains(&size), "{size}");
    assert_eq!(all.results.last().map(|hit| hit.code.as_str()), Some("[2]"));
    let said = "given in part because their matches, one inside the other, are more than 64 MB: b.json";
    assert_eq!(all.notices, [said]);
}

#[test]
fn a_range_of_a_very_large_file_is_given_up_to_a_limit() {
    let tree = Tree::new(&[]);
    let line = format!("{}\n", "x".repeat(99));
    tree.write("big.log", line.repeat((HELD + (4 << 20)) / 100).as_bytes());
    let request = extract::ExtractRequest::new(["big.log:11-100000000"]);
    let results = tree.engine.extract(&request, &StopSignal::never()).expect("pieces");
    let (piece, given) = (&results.results[0], (4 << 20) / 100);
    assert_eq!(piece.lines, Some([11, 10 + given]));
    assert_eq!(piece.code.as_ref().map(|code| code.lines().count()), Some(given));
    let said = format!("of big.log only the lines 11-{} are given, which are 4 MB", 10 + given);
    assert!(results.notices.contains(&said), "{:?}", results.notices);
    // Lines around one line are lines all the same.
    let around =
        extract::ExtractRequest { context_lines: usize::MAX, ..extract::ExtractRequest::new(["big.log:5"]) };
    let results = tree.engine.extract(&around, &StopSignal::never()).expect("pieces");
    assert_eq!(results.results[0].lines, Some([1, given]));
    assert_eq!(results.notices.len(), 2);
}

#[test]
fn pieces_without_end_are_refused_one_by_one() {
    let text = format!("{}{}", "fn f() {}\n".repeat(10), format!("// {}\n", "x".repeat(97)).repeat(50_000));
    let tree = Tree::new(&[("a.rs", &text), ("b.rs", "fn g() {}\n")]);
    let wanted = extract::ExtractRequest {
        context_lines: 1_000_000,
        ..extract::ExtractRequest::new(["a.rs#f", "b.rs"])
    };
    let results = tree.engine.extract(&wanted, &StopSignal::never()).expect("pieces");
    // Each piece is the whole file, 5 MB; the fourth goes beyond 16 MB.
    let errors: Vec<_> = results.results.iter().map(|piece| piece.error.as_deref()).collect();
    let said = "the pieces before it are more than 16 MB together; ask for it alone";
    assert_eq!(errors, [None, None, None, None, Some(said), Some(said)]);
    assert_eq!(results.failed, 2);
}

#[test]
fn a_ranking_that_is_cut_says_so() {
    let functions = |count: usize| (0..count).map(|number| format!("fn word_{number}() {{}}\n")).collect();
    for (count, total, notices) in [
        (500, 500, Vec::new()),
        (
            512,
            500,
            vec!["the best 500 of 512 results are kept; a folder, or a word with +, narrows the search"],
        ),
    ] {
        let text: String = functions(count);
        let tree = Tree::new(&[("a.rs", &text)]);
        let results =
            tree.engine.search(&SearchRequest::new("word"), &StopSignal::never()).expect("a search");
        assert_eq!(
            (results.total, results.notices),
            (total, notices.into_iter().map(str::to_owned).collect())
        );
    }
}

#[test]
fn a_line_across_the_edge_of_what_is_held_is_shown_like_any_other() {
    // What stands before the text and behind it, and how many bytes of that are still held: the edge of the first piece
    // is behind the text, in it, and before it.
    for (before, after, held) in
        [(150, 150, 10), (150, 150, -3), (20, 3000, 0), (3000, 20, -9), (3000, 3000, 9)]
    {
        let line = format!("{}needle{}", "a".repeat(before), "b".repeat(after));
        let whole = Tree::new(&[("a.txt", &format!("{line}\n"))]);
        let wanted = exact(&whole, &SearchRequest::new("needle")).results[0].code.clone();
        let mut text =
            vec![b'x'; HELD.checked_add_signed(-held).unwrap_or_default() - "\nneedle".len() - before];
        text.extend_from_slice(format!("\n{line}\nneedle\n").as_bytes());
        text.resize(HELD + (1 << 16), b'y');
        let tree = Tree::new(&[]);
        tree.write("a.txt", &text);
        let found = exact(&tree, &SearchRequest::new("needle")).results;
        let shown: Vec<_> = found.iter().map(|hit| (hit.lines[0], hit.code.as_str())).collect();
        assert_eq!(shown, [(2, wanted.as_str()), (3, "needle")], "{before} {after} {held}");
    }
}

#[test]
fn a_text_over_several_lines_is_shown_whole_at_the_edge_too() {
    let tree = Tree::new(&[]);
    let mut text = vec![b'x'; HELD - 4];
    text.extend_from_slice(b"\none\ntwo\n");
    text.resize(HELD + (1 << 16), b'y');
    tree.write("a.txt", &text);
    let found = exact(&tree, &SearchRequest::new("ne\ntw")).results;
    let shown: Vec<_> = found.iter().map(|hit| (hit.lines, hit.code.as_str())).collect();
    assert_eq!(shown, [([2, 3], "one\ntwo")]);
}

#[test]
fn a_file_that_changed_between_two_pages_is_named() {
    let tree = Tree::new(&[
        ("a.txt", "needle 1\nneedle 2\n"),
        ("b.txt", "needle 3\nneedle 4\n"),
        ("c.txt", "needle 5\n"),
    ]);
    let first = SearchRequest {
        max_results: 2,
        session: Some("s".to_owned()),
        exact: true,
        ..SearchRequest::new("needle")
    };
    let next = SearchRequest { next_page: true, ..first.clone() };
    assert!(exact(&tree, &first).notices.is_empty());
    tree.write("b.txt", b"another line\nneedle 3\nneedle 4\n");
    let second = exact(&tree, &next);
    let said = "changed since the search began, so that lines may be missing or others; search again:";
    assert_eq!(second.notices, [format!("{said} b.txt")]);
    std::fs::remove_file(tree.path().join("c.txt")).expect("a file to remove");
    let third = exact(&tree, &next);
    assert_eq!((third.results.len(), third.notices), (0, vec![format!("{said} c.txt")]));
}
