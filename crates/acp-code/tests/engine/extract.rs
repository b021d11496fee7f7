//! Whole blocks out of files.

use acp_code::extract::{Piece, Request};
use acp_code::{CodeError, Stop};

use super::Tree;

const SHAPES: &str = "\
use std::fmt;

/// A circle.
///
/// It is round.
#[derive(Debug)]
pub struct Circle {
    radius: f64,
}

impl Circle {
    /// How much of the plane it covers.
    pub fn area(&self) -> f64 {
        let square = |x: f64| x * x;
        3.14 * square(self.radius)
    }

    pub fn new() -> Self {
        Circle { radius: 1.0 }
    }
}

pub struct Square;

impl Square {
    pub fn new() -> Self {
        Square
    }
}
";

fn one(tree: &Tree, piece: &str) -> Piece {
    let mut results = tree.engine.extract(&Request::new([piece]), &Stop::never()).expect("pieces");
    assert_eq!(results.results.len(), 1, "{results:?}");
    results.results.remove(0)
}

fn lines(tree: &Tree, piece: &str) -> [usize; 2] {
    let piece = one(tree, piece);
    piece.lines.unwrap_or_else(|| panic!("{:?}", piece.error))
}

#[test]
fn a_line_grows_to_its_block_and_a_comment_belongs_to_what_follows() {
    let tree = Tree::new(&[("s.rs", SHAPES)]);
    assert_eq!(lines(&tree, "s.rs:8"), [3, 9], "a field is in its type");
    assert_eq!(lines(&tree, "s.rs:3"), [3, 9], "the first line of the comment");
    assert_eq!(lines(&tree, "s.rs:6"), [3, 9], "the attribute");
    assert_eq!(lines(&tree, "s.rs:12"), [12, 16], "a method's comment");
    assert_eq!(lines(&tree, "s.rs:14"), [12, 16], "inside a closure");
    assert_eq!(lines(&tree, "s.rs:11"), [11, 21], "the head of an impl is the whole impl");
    assert_eq!(lines(&tree, "s.rs:1"), [1, 1], "no block: the lines around it");
    assert_eq!(lines(&tree, "s.rs:14-18"), [12, 20], "from the first block to the last");
    assert_eq!(lines(&tree, "s.rs:14:9"), [12, 16], "a column does no harm");
}

#[test]
fn a_symbol_is_found_by_its_name_and_by_its_type() {
    let tree = Tree::new(&[("s.rs", SHAPES)]);
    assert_eq!(lines(&tree, "s.rs#Circle"), [3, 9], "the type, not its impl");
    assert_eq!(lines(&tree, "s.rs#area"), [12, 16]);
    assert_eq!(lines(&tree, "s.rs#Circle.new"), [18, 20]);
    assert_eq!(lines(&tree, "s.rs#Square::new"), [26, 28]);
    let both = tree.engine.extract(&Request::new(["s.rs#new"]), &Stop::never()).expect("pieces");
    assert_eq!(both.results.iter().filter_map(|piece| piece.lines).collect::<Vec<_>>(), [[18, 20], [26, 28]]);
    let area = one(&tree, "s.rs#Circle.area");
    assert_eq!((area.kind.as_deref(), area.name.as_deref()), (Some("function"), Some("area")));
    assert!(area.code.is_some_and(|code| code.starts_with("    /// How much")));
}

#[test]
fn what_is_not_there_is_an_error_in_its_place() {
    let tree = Tree::new(&[("s.rs", SHAPES), ("sub/x.rs", "")]);
    let wanted =
        ["missing.rs", "s.rs#Circel", "s.rs#Square.area", "s.rs:99", "s.rs:0", "sub", "../x", "s.rs#new"];
    let results = tree.engine.extract(&Request::new(wanted), &Stop::never()).expect("pieces");
    assert_eq!(results.failed, 7);
    let errors: Vec<&str> = results.results.iter().filter_map(|piece| piece.error.as_deref()).collect();
    assert!(errors[0].contains("no such file"), "{}", errors[0]);
    assert_eq!(errors[1], "\"s.rs\" declares no \"Circel\"");
    assert_eq!(errors[2], "\"s.rs\" declares no \"Square.area\"; there is area");
    assert_eq!(errors[3], "\"s.rs\" has only 29 lines");
    assert!(errors[4].contains("lines count from 1"));
    assert!(errors[5].contains("is a folder"));
    assert!(errors[6].contains("outside the root"));
    assert_eq!(results.results.len(), 9, "what is there comes all the same");
}

#[test]
fn context_is_added_and_whole_files_are_whole() {
    let tree = Tree::new(&[("s.rs", SHAPES)]);
    let request = Request { context_lines: 2, ..Request::new(["s.rs#area"]) };
    let results = tree.engine.extract(&request, &Stop::never()).expect("pieces");
    assert_eq!(results.results[0].lines, Some([10, 18]));
    let whole = one(&tree, "s.rs");
    assert_eq!((whole.lines, whole.kind.as_deref()), (Some([1, 29]), Some("file")));
    assert_eq!(whole.code.as_deref(), Some(SHAPES.trim_end()));
}

#[test]
fn empty_lines_at_the_end_are_lines() {
    let tree = Tree::new(&[("a.rs", "fn a() {}\n\n\n"), ("b.rs", "fn b() {}\r\n\r\n"), ("c.rs", "\n")]);
    for (file, lines, code) in
        [("a.rs", [1, 3], "fn a() {}\n\n"), ("b.rs", [1, 2], "fn b() {}\r\n"), ("c.rs", [1, 1], "")]
    {
        let piece = one(&tree, file);
        assert_eq!((piece.lines, piece.code.as_deref()), (Some(lines), Some(code)), "{file}");
    }
    let results = tree.engine.extract(&Request::new(["a.rs", "b.rs"]), &Stop::never()).expect("pieces");
    let text = acp_code::render::extract(&results, acp_code::Format::Plain);
    assert_eq!(text, "a.rs:1-3  file\n  1  fn a() {}\n  2\n  3\n\nb.rs:1-2  file\n  1  fn b() {}\n  2\n\n");
}

#[test]
fn a_pipe_is_refused_instead_of_waited_for() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let tree = Tree::new(&[]);
    mknodat(CWD, tree.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    for piece in ["pipe", "pipe:3", "pipe#name"] {
        assert_eq!(
            one(&tree, piece).error.as_deref(),
            Some("cannot read \"pipe\": it is not a regular file")
        );
    }
}

#[test]
fn test_code_can_be_refused() {
    let text = "fn real() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn checks() {}\n}\n";
    let tree = Tree::new(&[("a.rs", text)]);
    let request = Request { allow_tests: false, ..Request::new(["a.rs#checks", "a.rs#real"]) };
    let results = tree.engine.extract(&request, &Stop::never()).expect("pieces");
    assert!(results.results[0].error.as_ref().is_some_and(|error| error.contains("test code")));
    assert_eq!(results.results[1].lines, Some([1, 1]));
}

#[test]
fn nothing_asked_is_an_error() {
    let tree = Tree::new(&[]);
    let none: [&str; 0] = [];
    let error = tree.engine.extract(&Request::new(none), &Stop::never()).expect_err("an error");
    assert!(matches!(error, CodeError::Request { tool: "extract", .. }));
}
