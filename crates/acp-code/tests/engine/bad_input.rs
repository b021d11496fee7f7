//! What must neither crash nor be kept silent.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::process::Command;

use acp_code::{CodeError, Engine, ResultFormat, StopSignal, extract, query, render, search};

use super::Tree;

fn search(tree: &Tree, request: &search::SearchRequest) -> search::SearchResults {
    tree.engine.search(request, &StopSignal::never()).expect("a search")
}

#[test]
fn ignore_rules_that_hide_everything_are_named() {
    let tree = Tree::new(&[(".gitignore", "*\n"), ("a.rs", "fn word() {}\n"), ("b.rs", "fn word() {}\n")]);
    fs::create_dir(tree.path().join(".git")).expect("a repository");
    let results = search(&tree, &search::SearchRequest::new("word"));
    assert!(results.results.is_empty());
    assert_eq!(results.notices, ["ignore rules hide all 3 files in ."]);
    let exact = search::SearchRequest { exact: true, ..search::SearchRequest::new("word") };
    assert_eq!(search(&tree, &exact).notices, results.notices);
    let open = Engine::new(tree.path()).expect("an engine").with_ignored(true);
    let results = open.search(&search::SearchRequest::new("word"), &StopSignal::never()).expect("a search");
    assert_eq!(results.results.len(), 2);
    let named = search::SearchRequest { path: Some("a.rs".to_owned()), ..search::SearchRequest::new("word") };
    assert_eq!(search(&tree, &named).results.len(), 1, "a file that is named is searched");
}

#[test]
fn ignore_rules_without_end_are_not_read() {
    let tree = Tree::new(&[
        ("a/x.rs", "fn word() {}\n"),
        ("b/x.rs", "fn word() {}\n"),
        ("c/x.rs", "fn word() {}\n"),
        ("c/rules", "y.rs\n"),
        ("c/y.rs", "fn word() {}\n"),
        ("c/nothing", ""),
        ("d/x.rs", "fn word() {}\n"),
        ("d/.gitignore", &"y.rs\n".repeat(300_000)),
    ]);
    symlink("/dev/zero", tree.path().join("a/.gitignore")).expect("a link");
    let pipe = tree.path().join("b/.ignore");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    symlink("rules", tree.path().join("c/.ignore")).expect("a link");
    symlink("nothing", tree.path().join("c/.gitignore")).expect("a link");
    symlink("/dev/null", tree.path().join(".ignore")).expect("a link");
    fs::create_dir(tree.path().join("e")).expect("a folder");
    symlink("/proc/self/maps", tree.path().join("e/.gitignore")).expect("a link");
    let said = "left out because their ignore rules are no ordinary file: a/.gitignore, b/.ignore, d/.gitignore, e/.gitignore";
    for exact in [false, true] {
        let found = search(&tree, &search::SearchRequest { exact, ..search::SearchRequest::new("word") });
        assert_eq!((found.results[0].file.as_str(), found.total), ("c/x.rs", 1));
        assert_eq!(found.notices, [said]);
    }
    let found =
        tree.engine.query(&query::QueryRequest::new("fn word() {}"), &StopSignal::never()).expect("a query");
    assert_eq!((found.total, &found.notices[..]), (1, &[said.to_owned()][..]));
    let inside = search::SearchRequest { path: Some("a".to_owned()), ..search::SearchRequest::new("word") };
    let error = tree.engine.search(&inside, &StopSignal::never()).expect_err("an error").to_string();
    let said =
        "cannot search in \"a\": its .gitignore is no ordinary file; remove it, or search with --no-ignore";
    assert_eq!(error, said);
    let below = Engine::new(tree.path().join("a")).expect("an engine");
    fs::create_dir(tree.path().join("a/d")).expect("a folder");
    fs::rename(tree.path().join("a/x.rs"), tree.path().join("a/d/x.rs")).expect("a file");
    let inside = search::SearchRequest { path: Some("d".to_owned()), ..search::SearchRequest::new("word") };
    let found = below.search(&inside, &StopSignal::never()).expect("a search");
    assert_eq!((found.total, found.notices.len()), (1, 1), "{:?}", found.notices);
    let open = Engine::new(tree.path()).expect("an engine").with_ignored(true);
    assert_eq!(
        open.search(&search::SearchRequest::new("word"), &StopSignal::never()).expect("a search").total,
        5
    );
}

#[test]
fn what_git_ignores_is_not_found() {
    let tree =
        Tree::new(&[(".gitignore", "out/\n"), ("out/a.rs", "fn word() {}\n"), ("b.rs", "fn word() {}\n")]);
    fs::create_dir(tree.path().join(".git")).expect("a repository");
    assert_eq!(tree.found("word"), ["b.rs:1-1"]);
}

#[test]
fn an_empty_folder_is_said_to_be_empty() {
    let tree = Tree::new(&[]);
    assert_eq!(search(&tree, &search::SearchRequest::new("word")).notices, ["there are no files in ."]);
}

#[test]
fn links_that_lead_in_circles_or_out_are_not_followed() {
    let outside = Tree::new(&[("secret.rs", "fn word() {}\n")]);
    let tree = Tree::new(&[("d/a.rs", "fn word() {}\n")]);
    symlink(tree.path(), tree.path().join("d/loop")).expect("a link");
    symlink("loop2", tree.path().join("loop2")).expect("a link to itself");
    symlink(outside.path(), tree.path().join("out")).expect("a link");
    assert_eq!(tree.found("word"), ["d/a.rs:1-1"]);
    let through =
        search::SearchRequest { path: Some("out".to_owned()), ..search::SearchRequest::new("word") };
    assert!(matches!(tree.engine.search(&through, &StopSignal::never()), Err(CodeError::Outside { .. })));
    let pieces =
        tree.engine.extract(&extract::ExtractRequest::new(["out/secret.rs", "loop2"]), &StopSignal::never());
    assert_eq!(pieces.expect("pieces").failed, 2);
}

#[test]
fn a_path_outside_the_root_is_refused_by_every_tool() {
    let tree = Tree::new(&[("a.rs", "fn word() {}\n")]);
    for path in ["..", "../x", "/etc", "a/../../b"] {
        let path = Some(path.to_owned());
        let search = search::SearchRequest { path: path.clone(), ..search::SearchRequest::new("word") };
        let query = query::QueryRequest { path: path.clone(), ..query::QueryRequest::new("word()") };
        assert!(
            matches!(tree.engine.search(&search, &StopSignal::never()), Err(CodeError::Outside { .. })),
            "{path:?}"
        );
        assert!(
            matches!(tree.engine.query(&query, &StopSignal::never()), Err(CodeError::Outside { .. })),
            "{path:?}"
        );
    }
    let missing =
        search::SearchRequest { path: Some("no/such".to_owned()), ..search::SearchRequest::new("word") };
    let error = tree.engine.search(&missing, &StopSignal::never()).expect_err("an error").to_string();
    assert_eq!(error, "cannot search in \"no/such\": no such file or directory");
    let inside =
        search::SearchRequest { path: Some("./x/../a.rs".to_owned()), ..search::SearchRequest::new("word") };
    fs::create_dir(tree.path().join("x")).expect("a folder");
    assert_eq!(search(&tree, &inside).results.len(), 1);
}

#[test]
fn what_is_hidden_is_shown_by_no_tool() {
    let tree = Tree::new(&[("secret/a.rs", "fn word() {}\n"), ("b.rs", "fn word() {}\n")]);
    symlink("secret/a.rs", tree.path().join("c.rs")).expect("a link");
    let engine = Engine::new(tree.path()).expect("an engine").with_hidden(|file| file.starts_with("secret/"));
    let stop = StopSignal::never();
    for exact in [false, true] {
        let found =
            engine.search(&search::SearchRequest { exact, ..search::SearchRequest::new("word") }, &stop);
        let found = found.expect("a search");
        assert_eq!((found.total, found.results[0].file.as_str()), (1, "b.rs"));
        assert_eq!(found.notices, ["1 file was not looked at: that is not allowed"]);
        let named = search::SearchRequest {
            path: Some("secret".to_owned()),
            exact,
            ..search::SearchRequest::new("word")
        };
        assert_eq!(engine.search(&named, &stop).expect("a search").total, 0);
    }
    let found = engine.query(&query::QueryRequest::new("fn word() {}"), &stop).expect("a query");
    assert_eq!((found.total, found.notices.len()), (1, 1));
    fs::write(tree.path().join("notes.txt"), "word\n").expect("a file");
    let hidden =
        Engine::new(tree.path()).expect("an engine").with_hidden(|file| !file.ends_with("notes.txt"));
    let found = hidden.query(&query::QueryRequest::new("fn word() {}"), &stop).expect("a query");
    assert_eq!((found.total, found.notices.len()), (0, 1), "{:?}", found.notices);
    fs::remove_file(tree.path().join("notes.txt")).expect("removed");
    let pieces =
        engine.extract(&extract::ExtractRequest::new(["secret/a.rs:1", "c.rs", "none.rs", "b.rs"]), &stop);
    let pieces = pieces.expect("pieces");
    assert_eq!((pieces.failed, pieces.denied), (3, 2));
}

#[test]
fn a_root_that_is_no_folder_is_refused() {
    let tree = Tree::new(&[("a.rs", "")]);
    let error = Engine::new(tree.path().join("a.rs")).expect_err("an error").to_string();
    assert!(error.ends_with("it is not a folder"), "{error}");
    assert!(Engine::new(tree.path().join("none")).is_err());
}

#[test]
fn binary_files_are_left_out() {
    let tree = Tree::new(&[("a.rs", "fn word() {}\n")]);
    tree.write("b.bin", b"\x7fELF\0\0word\n");
    tree.write("c.rs", b"fn word() {}\0\n");
    assert_eq!(tree.found("word"), ["a.rs:1-1"]);
    let exact = search::SearchRequest { exact: true, ..search::SearchRequest::new("word") };
    assert_eq!(tree.places(&exact), ["a.rs:1-1"]);
    let piece =
        tree.engine.extract(&extract::ExtractRequest::new(["b.bin"]), &StopSignal::never()).expect("pieces");
    assert_eq!(piece.results[0].error.as_deref(), Some("\"b.bin\" is a binary file"));
}

#[test]
fn bytes_that_are_no_utf8_are_searched_and_shown_as_such() {
    let tree = Tree::new(&[]);
    tree.write("a.c", b"/* caf\xe9 */\nint word(void) { return 1; }\n");
    assert_eq!(tree.found("word"), ["a.c:1-2"]);
    let exact = search::SearchRequest { exact: true, ..search::SearchRequest::new("caf") };
    assert_eq!(search(&tree, &exact).results[0].code, "/* caf\u{FFFD} */");
    let pieces = tree
        .engine
        .extract(&extract::ExtractRequest::new(["a.c#word"]), &StopSignal::never())
        .expect("pieces");
    assert_eq!(pieces.failed, 0);
    assert_eq!(pieces.notices, ["a.c is not UTF-8; what could not be read is shown as \u{FFFD}"]);
    // ast-grep reads no such file; that is said instead of kept silent.
    let results =
        tree.engine.query(&query::QueryRequest::new("return 1;"), &StopSignal::never()).expect("a query");
    assert_eq!(results.notices, ["left out because they are not UTF-8: a.c"]);
}

#[test]
fn a_line_of_a_hundred_megabytes_is_searched_piece_by_piece() {
    let tree = Tree::new(&[("small.js", "needle()\n")]);
    let mut line = vec![b'x'; 100 << 20];
    // At the very edge of what is held at once, and near the end.
    for at in [(16 << 20) - 3, 99 << 20] {
        line[at..at + 8].copy_from_slice(b"needle()");
    }
    line.extend_from_slice(b"\nsecond needle()\n");
    tree.write("big.js", &line);
    let exact = search::SearchRequest { exact: true, ..search::SearchRequest::new("needle()") };
    let results = search(&tree, &exact);
    assert_eq!(tree.places(&exact), ["big.js:1-1", "big.js:2-2", "small.js:1-1"]);
    assert!(results.results[0].code.len() < 2000 && results.results[0].code.contains("needle()"));
    assert_eq!(results.results[1].code, "second needle()");

    let ranked = search(&tree, &search::SearchRequest::new("needle"));
    assert_eq!(ranked.results.len(), 1);
    assert!(ranked.notices[0].contains("larger than 4 MB") && ranked.notices[0].contains("big.js"));
    let matched =
        tree.engine.query(&query::QueryRequest::new("needle()"), &StopSignal::never()).expect("a query");
    assert_eq!(matched.total, 1);
    assert_eq!(matched.notices, ["left out because they are too large to parse: big.js"]);
    let wanted = ["big.js", "big.js:1", "big.js:2", "big.js:7"];
    let pieces =
        tree.engine.extract(&extract::ExtractRequest::new(wanted), &StopSignal::never()).expect("pieces");
    let errors: Vec<bool> = pieces.results.iter().map(|piece| piece.error.is_some()).collect();
    assert_eq!(errors, [true, false, false, true]);
    assert!(pieces.results[1].code.as_ref().is_some_and(|code| code.len() < 3000 && code.ends_with('…')));
    assert_eq!(pieces.results[2].code.as_deref(), Some("second needle()"));
}

#[test]
fn code_that_nests_without_end_does_no_harm() {
    let deep = 20_000;
    let tree = Tree::new(&[
        ("a.js", &format!("f({}{})\n", "[".repeat(deep), "]".repeat(deep))),
        ("b.json", &format!("{}{}\n", "{\"word\":".repeat(deep), "}".repeat(deep))),
        ("c.rs", &format!("fn word() {{ {}{} }}\n", "{".repeat(deep), "}".repeat(deep))),
    ]);
    assert!(!tree.found("word").is_empty());
    let results =
        tree.engine.query(&query::QueryRequest::new("f($A)"), &StopSignal::never()).expect("a query");
    assert_eq!(results.total, 1);
    let pieces =
        tree.engine.extract(&extract::ExtractRequest::new(["c.rs#word", "b.json:1"]), &StopSignal::never());
    assert_eq!(pieces.expect("pieces").failed, 0);
}

#[test]
fn a_query_that_nests_without_end_is_refused_where_it_does() {
    let tree = Tree::new(&[("a.rs", "fn word() {}\n")]);
    let flaw =
        |query: String| match tree.engine.search(&search::SearchRequest::new(query), &StopSignal::never()) {
            Err(CodeError::Query { at, what, .. }) => (at, what.split(' ').next().map(str::to_owned)),
            other => panic!("{other:?}"),
        };
    let said = |at: usize, word: &str| (at, Some(word.to_owned()));
    for deep in [101, 2000] {
        let query = |open: &str| format!("{}word{}", open.repeat(deep), ")".repeat(deep));
        assert_eq!(flaw(query("(")), said(101, "parentheses"));
        assert_eq!(flaw(query("NOT (")), said(505, "parentheses"));
        assert_eq!(flaw(query("a OR (")), said(606, "parentheses"));
    }
    assert_eq!(flaw("(".repeat(20_000)), said(16_001, "the"), "a query has an end");
    let nested = format!("{}word{}", "(".repeat(100), ")".repeat(100));
    assert_eq!(tree.found(&nested), ["a.rs:1-1"]);
    assert_eq!(
        tree.found(&format!("{}word", "(word) ".repeat(1000))),
        ["a.rs:1-1"],
        "side by side is not deep"
    );
}

#[test]
fn a_pattern_that_nests_without_end_is_refused_where_it_does() {
    let tree = Tree::new(&[("a.js", "f(1)\n")]);
    let query = |pattern: String, language: Option<&str>| {
        let request = query::QueryRequest {
            language: language.map(str::to_owned),
            ..query::QueryRequest::new(pattern)
        };
        tree.engine.query(&request, &StopSignal::never())
    };
    let nested = |deep: usize| format!("{}1{}", "(".repeat(deep), ")".repeat(deep));
    for language in [Some("js"), None] {
        let error = query(nested(7000), language).expect_err("an error");
        assert!(matches!(&error, CodeError::Pattern { column: 240..=260, .. }), "{error}");
        assert!(error.to_string().contains("nests deeper than 250 nodes"), "{error}");
    }
    // Without brackets too: each sum is the left side of the next.
    let error = query(format!("1{}", " + 1".repeat(3000)), Some("js")).expect_err("an error").to_string();
    assert!(error.contains("nests deeper than 250 nodes"), "{error}");
    let error = query(nested(20_000), None).expect_err("an error").to_string();
    assert!(error.contains("longer than 16000 bytes"), "{error}");
    assert_eq!(query(nested(100), Some("js")).expect("a query").total, 0);
}

#[test]
fn a_hole_that_stands_twice_leaves_out_files_that_nest_without_end() {
    let deep = |count: usize| format!("{}{}", "[".repeat(count), "]".repeat(count));
    let same = |count: usize| format!("f({}, {})\n", deep(count), deep(count));
    let tree = Tree::new(&[("a.js", &same(3000)), ("b.js", &same(60_000)), ("c.js", "f(1, 1); f(1, 2);\n")]);
    let places = |pattern: &str| {
        let found =
            tree.engine.query(&query::QueryRequest::new(pattern), &StopSignal::never()).expect("a query");
        let files: Vec<String> = found.results.into_iter().map(|hit| hit.file).collect();
        (files.join(" "), found.notices)
    };
    let said = "left out because they nest too deep: b.js";
    assert_eq!(places("f($A, $A)"), ("a.js c.js".to_owned(), vec![said.to_owned()]));
    assert_eq!(places("f($A, $B)"), ("a.js b.js c.js c.js".to_owned(), Vec::new()));
}

#[test]
fn what_a_parser_cannot_bear_is_searched_as_lines() {
    let steps = |count: usize, line: &str| -> String {
        (0..count).map(|column| format!("{}{line}\n", " ".repeat(column))).collect()
    };
    let word = "A".repeat(300);
    let files = [
        ("a.py", format!("{}{}word = \"b\"\n", steps(600, "if a:"), " ".repeat(600))),
        ("b.yaml", format!("{}{}word: 1\n", steps(300, "a:"), " ".repeat(300))),
        ("c.yml", format!("{}word\n", "- ".repeat(300))),
        ("d.kt", format!("val word = {}1{}\n", "\"${".repeat(600), "}\"".repeat(600))),
        ("e.rb", format!("word = <<{word}\ntext\n{word}\n")),
    ];
    let named: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let tree = Tree::new(&named);
    for exact in [false, true] {
        for allow_tests in [false, true] {
            let request = search::SearchRequest { exact, allow_tests, ..search::SearchRequest::new("word") };
            assert_eq!(search(&tree, &request).results.len(), 5);
        }
    }
    for (name, text) in &named {
        let request = extract::ExtractRequest::new([format!("{name}:1"), format!("{name}#word")]);
        let pieces = tree.engine.extract(&request, &StopSignal::never()).expect("pieces").results;
        let said = format!(
            "{name:?} was not parsed: it nests too deep for its language's parser; ask for lines of it: {name}:1-20"
        );
        let errors = [pieces[0].error.clone(), pieces[1].error.clone()];
        assert_eq!(errors, [None, Some(said)]);
        // What stands in a file may stand in a pattern.
        let pattern = query::QueryRequest::new(*text);
        let _ = tree.engine.query(&pattern, &StopSignal::never());
    }
    let found = tree.engine.query(&query::QueryRequest::new("word"), &StopSignal::never()).expect("a query");
    let said = "left out because they nest too deep: a.py, b.yaml, c.yml, d.kt, e.rb";
    assert_eq!((found.total, found.notices), (0, vec![said.to_owned()]));
}

#[test]
fn names_that_are_no_text_stay_apart_and_break_no_line() {
    let tree = Tree::new(&[("back\\slash.rs", "fn word() {}\n"), ("new\nline.rs", "fn word() {}\n")]);
    for name in [&b"odd\xfe.rs"[..], b"odd\xff.rs"] {
        fs::write(tree.path().join(OsStr::from_bytes(name)), "fn word() {}\n").expect("a file");
    }
    let files = ["back\\slash.rs", "new\nline.rs", "odd\\xFE.rs", "odd\\xFF.rs"];
    for exact in [false, true] {
        let found = search(&tree, &search::SearchRequest { exact, ..search::SearchRequest::new("word") });
        assert_eq!(found.results.iter().map(|hit| hit.file.as_str()).collect::<Vec<_>>(), files);
        for format in [ResultFormat::Plain, ResultFormat::Markdown] {
            let text = render::search(&found, format);
            assert!(text.contains("new\\nline.rs") && !text.contains("new\nline.rs"), "{text}");
        }
    }
    let pieces = tree
        .engine
        .extract(&extract::ExtractRequest::new([files[0], files[1]]), &StopSignal::never())
        .expect("pieces");
    assert_eq!(pieces.failed, 0, "{pieces:?}");
}

#[test]
fn broken_code_and_odd_files_are_searched_all_the_same() {
    let tree = Tree::new(&[
        ("empty.rs", ""),
        ("broken.rs", "fn word( { ]]]\n"),
        ("blank.py", "\n\n\n"),
        ("no_end", "word"),
        ("crlf.rs", "fn word() {\r\n}\r\n"),
    ]);
    assert_eq!(tree.found("word").len(), 3);
    let wanted = ["empty.rs", "empty.rs:1", "broken.rs:1", "blank.py:2", "no_end:1", "crlf.rs#word"];
    let pieces =
        tree.engine.extract(&extract::ExtractRequest::new(wanted), &StopSignal::never()).expect("pieces");
    assert_eq!(pieces.failed, 0, "{pieces:?}");
}
