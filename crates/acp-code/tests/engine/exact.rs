//! Literal search: short pages name the block around each line, long ones are plain lists of the same lines.

use acp_code::search::{Hit, SearchRequest, SearchResults};
use acp_code::{CodeError, StopSignal};

use super::Tree;

/// More lines than a page with names may ask for.
const MANY: usize = 1000;

fn search(tree: &Tree, text: &str, max_results: usize, allow_tests: bool) -> SearchResults {
    let request = SearchRequest { exact: true, max_results, allow_tests, ..SearchRequest::new(text) };
    tree.engine.search(&request, &StopSignal::never()).expect("a search")
}

/// What a hit is apart from the block around it.
fn bare(hits: &[Hit]) -> Vec<Hit> {
    hits.iter().map(|hit| Hit { kind: "lines".to_owned(), name: None, ..hit.clone() }).collect()
}

/// 120 files with three lines each that have the text; one of the three is in a test.
fn many() -> Tree {
    let text = |number: usize| {
        format!(
            "fn f{number}() {{\n    needle({number});\n    needle(0); needle(1);\n}}\n\n#[cfg(test)]\nmod tests {{\n    \
             #[test]\n    fn t() {{ needle(2); }}\n}}\n"
        )
    };
    let files: Vec<_> =
        (0..120).map(|number| (format!("d{}/f{number}.rs", number % 7), text(number))).collect();
    Tree::new(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
}

#[test]
fn a_long_page_has_the_lines_of_the_short_ones_without_names() {
    let tree = many();
    for (allow_tests, total) in [(true, 360), (false, 240)] {
        let long = search(&tree, "needle", MANY, allow_tests);
        assert_eq!((long.total, long.results.len()), (total, total));
        let ten = SearchRequest {
            exact: true,
            allow_tests,
            session: Some("s".to_owned()),
            ..SearchRequest::new("needle")
        };
        let mut short = Vec::new();
        for page in 0..total / 10 {
            let request = SearchRequest { next_page: page > 0, ..ten.clone() };
            short.extend(tree.engine.search(&request, &StopSignal::never()).expect("a page").results);
        }
        assert!(short.iter().all(|hit| hit.kind == "function" && hit.name.is_some()));
        assert_eq!(long.results, bare(&short));
    }
}

#[test]
fn a_long_page_may_begin_and_end_inside_a_file() {
    let tree = many();
    for allow_tests in [true, false] {
        let whole = search(&tree, "needle", MANY, allow_tests).results;
        let part =
            SearchRequest { exact: true, allow_tests, max_results: 101, ..SearchRequest::new("needle") };
        let first = SearchRequest { session: Some("s".to_owned()), ..part };
        let next = SearchRequest { next_page: true, ..first.clone() };
        let page = |request: &SearchRequest| {
            tree.engine.search(request, &StopSignal::never()).expect("a page").results
        };
        assert_eq!([page(&first), page(&next)].concat(), whole[..202]);
    }
}

#[test]
fn ten_runs_of_a_long_page_give_the_same_answer() {
    let tree = many();
    for allow_tests in [true, false] {
        let first = search(&tree, "needle", MANY, allow_tests);
        for _ in 0..9 {
            assert_eq!(search(&tree, "needle", MANY, allow_tests), first);
        }
    }
}

#[test]
fn bytes_that_are_no_utf8_shift_no_line() {
    let tree = Tree::new(&[]);
    tree.write(
        "a.rs",
        b"// \xff\xfe\xfd caf\xe9\nfn f() {\n    needle(\"\xe9\");\n}\n#[test]\nfn t() { needle(1); }\n",
    );
    for (allow_tests, lines) in [(true, vec![3, 6]), (false, vec![3])] {
        let (short, long) =
            (search(&tree, "needle", 10, allow_tests), search(&tree, "needle", MANY, allow_tests));
        assert_eq!(short.results.iter().map(|hit| hit.lines[0]).collect::<Vec<_>>(), lines);
        assert_eq!(short.results[0].name.as_deref(), Some("f"));
        assert_eq!(short.results[0].code, "    needle(\"\u{FFFD}\");");
        assert_eq!(long.results, bare(&short.results));
    }
    assert_eq!(search(&tree, "\u{FFFD}", MANY, true).total, 0, "what cannot be read is no text to be found");
}

#[test]
fn a_text_over_several_lines_is_shown_whole() {
    let tree = Tree::new(&[("a.txt", "one\ntwo\nthree\r\none\ntwo\n")]);
    for max in [10, MANY] {
        let found = search(&tree, "e\ntwo\n", max, true);
        let shown: Vec<_> = found.results.iter().map(|hit| (hit.lines, hit.code.as_str())).collect();
        assert_eq!(shown, [([1, 2], "one\ntwo"), ([4, 5], "one\ntwo")]);
    }
}

#[test]
fn a_cancelled_page_keeps_its_session() {
    let tree = many();
    let first = SearchRequest { exact: true, session: Some("s".to_owned()), ..SearchRequest::new("needle") };
    let next = SearchRequest { next_page: true, ..first.clone() };
    tree.places(&first);
    let stop = StopSignal::never();
    stop.cancel();
    assert!(matches!(tree.engine.search(&next, &stop), Err(CodeError::Cancelled)));
    assert_eq!(tree.engine.search(&next, &StopSignal::never()).expect("a page").page, 2);
}
