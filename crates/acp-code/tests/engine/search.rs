//! Ranked and literal search.

use std::time::Duration;

use acp_code::search::SearchRequest;
use acp_code::{CodeError, StopSignal};

use super::Tree;

const CACHE: &str = "\
/// Forgets entries that nobody has asked for lately.
pub fn evict(cache: &mut Cache) {
    cache.entries.retain(|entry| entry.fresh);
}

pub fn unrelated(numbers: &[u32]) -> u32 {
    numbers.iter().sum()
}
";

#[test]
fn the_best_result_is_the_whole_block_with_its_comment() {
    let tree = Tree::new(&[("src/cache.rs", CACHE), ("src/other.rs", "fn entry() {}\n")]);
    let results = tree
        .engine
        .search(&SearchRequest::new("forget cache entries"), &StopSignal::never())
        .expect("a search");
    let best = &results.results[0];
    assert_eq!((best.file.as_str(), best.lines), ("src/cache.rs", [1, 4]));
    assert_eq!((best.kind.as_str(), best.name.as_deref()), ("function", Some("evict")));
    assert!(best.code.starts_with("/// Forgets") && best.code.ends_with('}'));
    assert_eq!(best.matched, [1, 2, 3]);
    assert!(results.results.is_sorted_by(|a, b| a.score >= b.score));
}

#[test]
fn words_are_found_in_names_of_every_style_and_in_other_forms() {
    let tree = Tree::new(&[
        ("camel.js", "function parseHTTPHeader(line) {\n  return line;\n}\n"),
        ("snake.py", "def parse_http_header(line):\n    return line\n"),
        ("none.go", "package none\n\nfunc Other() {}\n"),
    ]);
    let mut found = tree.found("parsing headers");
    found.sort();
    assert_eq!(found, ["camel.js:1-3", "snake.py:1-2"]);
    assert_eq!(tree.found("parseHeader").len(), 2);
    assert_eq!(tree.found("HTTP").len(), 2);
}

#[test]
fn other_words_for_a_word_raise_a_result_but_are_none_by_themselves() {
    let tree = Tree::new(&[
        ("a.rs", "fn one(cache: &mut Cache) { cache.touch(); }\n"),
        ("b.rs", "fn two(cache: &mut Cache) { cache.remove(); }\n"),
        ("c.rs", "fn three(list: &mut List) { list.remove(); }\n"),
    ]);
    assert_eq!(tree.found("delete cache"), ["b.rs:1-1", "a.rs:1-1"], "remove is another word for delete");
    assert!(tree.found("+delete cache").is_empty(), "what must be there is the word itself");
    assert!(tree.found("delete").is_empty());
}

#[test]
fn forms_that_no_ending_explains_are_the_same_word() {
    let tree =
        Tree::new(&[("a.rs", "fn sent() {}\n"), ("b.rs", "fn send() {}\n"), ("c.rs", "fn sense() {}\n")]);
    for query in ["send", "sent", "sending"] {
        assert_eq!(tree.found(query), ["a.rs:1-1", "b.rs:1-1"], "{query}");
    }
    assert_eq!(tree.found("fn -sent"), ["c.rs:1-1"], "an exclusion holds for all forms");
}

#[test]
fn flags_dashes_and_signs_in_a_question_are_taken_as_they_are_meant() {
    let tree = Tree::new(&[
        ("a.rs", "fn one(path: &str) { path.replace(\"~\", home()) }\n"),
        ("b.rs", "fn two(path: &str) { path.replace(\"/../\", home()) }\n"),
        ("c.rs", "fn inspect(path: &str) { path.replace() }\n"),
    ]);
    assert_eq!(tree.found("replace ~ in a path")[0], "a.rs:1-1");
    assert_eq!(tree.found("replace /../ in a path")[0], "b.rs:1-1");
    assert_eq!(tree.found("replace a path with --inspect, please")[0], "c.rs:1-1");
    assert_eq!(tree.found("replace - inspect").len(), 3, "a dash between words excludes nothing");
    assert_eq!(tree.found("replace -inspect").len(), 2);
    assert_eq!(tree.found("replace + inspect").len(), 3);
    assert_eq!(tree.found("replace +inspect").len(), 1);
}

#[test]
fn operators_of_a_language_alone_are_looked_for_as_they_are() {
    let tree = Tree::new(&[
        ("a.rs", "fn one() -> Two { three() }\n"),
        ("b.rs", "fn two() { three += 1 }\n"),
        ("c.rs", "fn four() { One::two() }\n"),
    ]);
    for (query, found) in [("->", "a.rs:1-1"), ("+=", "b.rs:1-1"), ("::", "c.rs:1-1"), ("->four", "c.rs:1-1")]
    {
        assert_eq!(tree.found(query), [found], "{query}");
    }
    assert_eq!(tree.found("fn -(one)"), ["b.rs:1-1"]);
    assert_eq!(tree.found("fn -\"one\""), ["b.rs:1-1"]);
}

#[test]
fn code_ranks_before_declarations_and_before_functions_without_end() {
    let words = "  // evict stale sessions\n";
    let long = format!("function sweep() {{\n{words}{}}}\n", "  step();\n".repeat(150));
    let tree = Tree::new(&[
        ("a.d.ts", "/** Evict stale sessions. */\ndeclare function tidy(): void;\n"),
        ("b.ts", "/** Evict stale sessions. */\nfunction tidy(): void {}\n"),
        ("c.ts", &long),
    ]);
    let found = tree.found("evict stale sessions");
    assert_eq!(found, ["b.ts:1-2", "a.d.ts:1-2", "c.ts:1-153"]);
}

#[test]
fn what_a_machine_packed_into_one_line_is_no_better_than_what_was_written() {
    let packed = "function evict(stale){return sessions.evict(stale,sessions)}".repeat(500);
    let written = "/** Drops sessions that are stale. */\nfunction tidy(all) {\n  for (const one of all) {\n    \
                   if (one.isStale()) all.evict(one);\n  }\n}\n";
    let tree = Tree::new(&[("a.min.js", &packed), ("b.js", written)]);
    assert_eq!(tree.found("evict stale sessions"), ["b.js:1-6", "a.min.js:1-1"]);
}

#[test]
fn operators_decide_what_may_be_a_result() {
    let tree = Tree::new(&[
        ("a.rs", "fn one() { red(); green(); }\n"),
        ("b.rs", "fn two() { red(); blue(); }\n"),
        ("c.rs", "fn three() { green(); blue(); }\n"),
    ]);
    let files = |query: &str| {
        let mut found: Vec<String> = tree.found(query).iter().map(|place| place[..1].to_owned()).collect();
        found.sort();
        found.join("")
    };
    assert_eq!(files("red"), "ab");
    assert_eq!(files("red green"), "abc");
    assert_eq!(files("red AND green"), "a");
    assert_eq!(files("red OR blue"), "abc");
    assert_eq!(files("red NOT green"), "b");
    assert_eq!(files("red -green"), "b");
    assert_eq!(files("+red green"), "ab");
    assert_eq!(files("(red AND green) OR (green AND blue)"), "ac");
    assert_eq!(files("blue AND NOT (red OR green)"), "");
    assert_eq!(files("\"red(); blue\""), "b");
    assert_eq!(files("red file:b.rs"), "b");
    assert_eq!(files("blue -file:b.rs"), "c");
}

#[test]
fn a_phrase_is_found_in_any_case_beyond_ascii_too() {
    let tree = Tree::new(&[
        ("a.rs", "// Ärger im Code\nfn a() {}\n"),
        ("b.rs", "// ÄRGER IM CODE\nfn b() {}\n"),
        ("c.rs", "// viel ärger im code\nfn c() {}\n"),
        ("d.rs", "// aerger\nfn d() {}\n"),
        ("e.rs", "// Die Hauptstraße\nfn e() {}\n"),
        ("f.rs", "// HAUPTSTRASSE\nfn f() {}\n"),
        ("g.rs", "// ΟΔΟΣ, οδός, οδος\nfn g() {}\n"),
        ("h.rs", "// 日本語のテキスト\nfn h() {}\n"),
    ]);
    let files = |query: &str| {
        let mut found: Vec<String> = tree.found(query).iter().map(|place| place[..1].to_owned()).collect();
        found.sort();
        found.join("")
    };
    for phrase in ["\"Ärger\"", "\"ärger im\"", "\"ÄRGER IM code\""] {
        assert_eq!(files(phrase), "abc", "{phrase}");
    }
    for phrase in ["\"straße\"", "\"HAUPTSTRASSE\"", "\"Hauptstraße\""] {
        assert_eq!(files(phrase), if phrase.contains('ß') { "ef" } else { "f" }, "{phrase}");
    }
    assert_eq!(files("\"οδος\""), "g");
    assert_eq!(files("\"日本語\""), "h");
    assert_eq!(files("fn -\"ärger\""), "defgh");
    let hit =
        &tree.engine.search(&SearchRequest::new("\"ΟΔΟΣ\""), &StopSignal::never()).expect("a search").results
            [0];
    assert_eq!((hit.lines, &hit.matched[..]), ([1, 2], &[1][..]));
}

#[test]
fn a_large_file_leaves_room_for_smaller_ones() {
    let words = |count: usize| "retry the upload with a delay, ".repeat(count);
    let tree = Tree::new(&[
        ("api.ts", &format!("// {}\n", words(20_000))),
        ("data.json", &format!("[\"{}\"]\n", words(120_000))),
        ("src/retry.rs", "/// Retries the upload.\nfn retry_upload_with_delay() {}\n"),
    ]);
    let request = SearchRequest::new("retry upload delay");
    let found = tree.engine.search(&request, &StopSignal::never()).expect("a search");
    let mut files: Vec<&str> = found.results.iter().map(|hit| hit.file.as_str()).collect();
    files.sort_unstable();
    assert_eq!(files, ["api.ts", "src/retry.rs"]);
    assert_eq!(found.notices, ["ranked the 2 most promising of 3 files that have words of the query"]);
}

#[test]
fn filters_look_at_the_path() {
    let tree = Tree::new(&[
        ("src/a.rs", "fn word() {}\n"),
        ("src/deep/a.py", "def word(): pass\n"),
        ("docs/a.md", "# word\n"),
    ]);
    assert_eq!(tree.found("word ext:rs"), ["src/a.rs:1-1"]);
    assert_eq!(tree.found("word lang:python"), ["src/deep/a.py:1-1"]);
    assert_eq!(tree.found("word dir:docs"), ["docs/a.md:1-1"]);
    assert_eq!(tree.found("word dir:src/deep"), ["src/deep/a.py:1-1"]);
    assert_eq!(tree.found("word file:*.md"), ["docs/a.md:1-1"]);
    assert_eq!(tree.found("word -ext:rs,md"), ["src/deep/a.py:1-1"]);
    let inside = SearchRequest { path: Some("src/deep".to_owned()), ..SearchRequest::new("word") };
    assert_eq!(tree.places(&inside), ["src/deep/a.py:1-1"]);
}

#[test]
fn a_query_that_cannot_be_read_is_an_error_with_its_place() {
    let tree = Tree::new(&[("a.rs", "fn a() {}\n")]);
    let place = |query: &str| match tree.engine.search(&SearchRequest::new(query), &StopSignal::never()) {
        Err(CodeError::Query { at, .. }) => at,
        other => panic!("{query:?} gave {other:?}"),
    };
    assert_eq!(place("one \"two"), 5);
    assert_eq!(place("one (two"), 5);
    assert_eq!(place("one) two"), 4);
    assert_eq!(place("one AND"), 5);
    assert_eq!(place("OR one"), 1);
    assert_eq!(place("one lang:klingon"), 5);
    assert_eq!(place("one ext:"), 5);
    assert_eq!(place("-one"), 1);
    assert_eq!(place("ext:rs"), 1);
    assert_eq!(place(""), 1);
    let error =
        tree.engine.search(&SearchRequest::new("one (two"), &StopSignal::never()).expect_err("an error");
    assert_eq!(
        error.to_string(),
        "cannot read the query at character 5: this `(` is never closed\n  one (two\n      ^"
    );
}

#[test]
fn exact_finds_every_line_as_grep_does() {
    let tree = Tree::new(&[
        ("a.rs", "fn f() {\n    call(x.y);\n    call(x.y); call(x.y);\n}\n"),
        ("b.txt", "call(x.y)\r\nCALL(X.Y)\n"),
    ]);
    let exact = SearchRequest { exact: true, ..SearchRequest::new("call(x.y)") };
    assert_eq!(tree.places(&exact), ["a.rs:2-2", "a.rs:3-3", "b.txt:1-1"]);
    let results = tree.engine.search(&exact, &StopSignal::never()).expect("a search");
    assert_eq!(results.total, 3);
    assert_eq!(results.results[0].name.as_deref(), Some("f"), "the block around the line is named");
    assert_eq!(results.results[2].code, "call(x.y)", "without the end of the line");
}

#[test]
fn pages_have_the_exact_size_and_join_to_the_whole() {
    let files: Vec<(String, String)> =
        (0..23).map(|number| (format!("f{number:02}.rs"), format!("fn word_{number}() {{}}\n"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let tree = Tree::new(&files);
    for exact in [false, true] {
        let query = if exact { "word_" } else { "word" };
        let first = SearchRequest { exact, session: Some("s".to_owned()), ..SearchRequest::new(query) };
        let next = SearchRequest { next_page: true, ..first.clone() };
        let whole = tree.places(&SearchRequest { max_results: 100, session: None, ..first.clone() });
        let (one, two, three) = (tree.places(&first), tree.places(&next), tree.places(&next));
        assert_eq!((one.len(), two.len(), three.len()), (10, 10, 3));
        assert_eq!([one.clone(), two, three].concat(), whole);
        assert!(tree.places(&next).is_empty(), "after the last page there is nothing");
        assert_eq!(tree.places(&first), one, "without nextPage it is page 1 again");
        let page = tree.engine.search(&first, &StopSignal::never()).expect("a search");
        assert_eq!((page.page, page.total, page.more), (1, 23, true));
    }
}

#[test]
fn a_next_page_needs_the_search_that_it_continues() {
    let tree = Tree::new(&[("a.rs", "fn word() {}\n")]);
    let fails = |request: &SearchRequest| {
        tree.engine.search(request, &StopSignal::never()).expect_err("an error").to_string()
    };
    let next = SearchRequest { next_page: true, ..SearchRequest::new("word") };
    assert!(fails(&next).contains("nextPage needs a session"));
    let unknown = SearchRequest { session: Some("s".to_owned()), ..next.clone() };
    assert!(fails(&unknown).contains("has no search yet"));
    tree.places(&SearchRequest { next_page: false, ..unknown.clone() });
    let other = SearchRequest { query: "other".to_owned(), ..unknown.clone() };
    assert!(fails(&other).contains("last searched for \"word\""));
    assert!(tree.places(&unknown).is_empty(), "the session is still there after the error");
}

#[test]
fn two_sessions_do_not_share_their_pages() {
    let tree = Tree::new(&[("a.rs", "fn word() {}\n"), ("b.rs", "fn word() {}\n")]);
    let page = |session: &str, next_page: bool| SearchRequest {
        max_results: 1,
        session: Some(session.to_owned()),
        next_page,
        ..SearchRequest::new("word")
    };
    assert_eq!(tree.places(&page("s", false)), ["a.rs:1-1"]);
    assert_eq!(tree.places(&page("t", false)), ["a.rs:1-1"]);
    assert_eq!(tree.places(&page("s", true)), ["b.rs:1-1"]);
    assert_eq!(tree.places(&page("t", true)), ["b.rs:1-1"]);
}

#[test]
fn a_deadline_gives_what_there_is_and_says_so() {
    let tree = Tree::new(&[("a.rs", "fn word() {}\n")]);
    for exact in [false, true] {
        let request = SearchRequest { exact, ..SearchRequest::new("word") };
        let late = tree.engine.search(&request, &StopSignal::after(Duration::ZERO)).expect("partial results");
        assert!(late.truncated && late.results.is_empty());
        let stop = StopSignal::never();
        stop.cancel();
        assert!(matches!(tree.engine.search(&request, &stop), Err(CodeError::Cancelled)));
    }
}

#[test]
fn ten_runs_give_the_same_answer() {
    let files: Vec<(String, String)> = (0..40)
        .map(|number| {
            (format!("d{}/f{number}.rs", number % 7), format!("fn word() {{ other({number}); }}\n"))
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let tree = Tree::new(&files);
    for query in ["word other", "other"] {
        for exact in [false, true] {
            let request = SearchRequest { exact, max_results: 50, ..SearchRequest::new(query) };
            let first = tree.engine.search(&request, &StopSignal::never()).expect("a search");
            for _ in 0..9 {
                assert_eq!(tree.engine.search(&request, &StopSignal::never()).expect("a search"), first);
            }
        }
    }
}

#[test]
fn a_class_gives_its_head_and_its_methods_but_nothing_twice() {
    let methods: String = (0..12)
        .map(|number| format!("    def method_{number}(self):\n        return self.word + {number}\n\n"))
        .collect();
    let tree = Tree::new(&[("a.py", &format!("class Holder:\n    \"\"\"A word.\"\"\"\n\n{methods}"))]);
    let places = tree.places(&SearchRequest { max_results: 50, ..SearchRequest::new("word") });
    assert_eq!(places.len(), 13, "{places:?}");
    let mut lines: Vec<(usize, usize)> = places
        .iter()
        .filter_map(|place| {
            let (first, last) = place.split_once(':')?.1.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        })
        .collect();
    lines.sort_unstable();
    assert!(lines.windows(2).all(|pair| pair[0].1 < pair[1].0), "{lines:?}");
}
