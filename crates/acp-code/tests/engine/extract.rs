//! Whole blocks out of files.

use acp_code::extract::{ExtractRequest, ExtractedPiece};
use acp_code::{CodeError, StopSignal};

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

fn one(tree: &Tree, piece: &str) -> ExtractedPiece {
    let mut results =
        tree.engine.extract(&ExtractRequest::new([piece]), &StopSignal::never()).expect("pieces");
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
    let both = tree.engine.extract(&ExtractRequest::new(["s.rs#new"]), &StopSignal::never()).expect("pieces");
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
    let results = tree.engine.extract(&ExtractRequest::new(wanted), &StopSignal::never()).expect("pieces");
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
    let request = ExtractRequest { context_lines: 2, ..ExtractRequest::new(["s.rs#area"]) };
    let results = tree.engine.extract(&request, &StopSignal::never()).expect("pieces");
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
    let results =
        tree.engine.extract(&ExtractRequest::new(["a.rs", "b.rs"]), &StopSignal::never()).expect("pieces");
    let text = acp_code::render::extract(&results, acp_code::ResultFormat::Plain);
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
    let request = ExtractRequest { allow_tests: false, ..ExtractRequest::new(["a.rs#checks", "a.rs#real"]) };
    let results = tree.engine.extract(&request, &StopSignal::never()).expect("pieces");
    assert!(results.results[0].error.as_ref().is_some_and(|error| error.contains("test code")));
    assert_eq!(results.results[1].lines, Some([1, 1]));
}

#[test]
fn nothing_asked_is_an_error() {
    let tree = Tree::new(&[]);
    let none: [&str; 0] = [];
    let error = tree.engine.extract(&ExtractRequest::new(none), &StopSignal::never()).expect_err("an error");
    assert!(matches!(error, CodeError::Request { tool: "extract", .. }));
}

/// Every declaration of a name, in each language: the request, and the lines that are shown.
#[test]
fn members_values_and_entries_of_a_group_are_found_by_name() {
    let files = [
        (
            "status.go",
            "package http\n\nconst (\n\t// All is well.\n\tStatusOK = 200\n\tStatusA, StatusB = 1, 2\n)\n\nvar Single = 1\n\n\
             type (\n\tFirst int\n\tThird struct {\n\t\tField int\n\t}\n)\n\nfunc (d First) StatusOK() int {\n\tlocal := 1\n\treturn local\n}\n",
        ),
        (
            "settings.py",
            "# Whether to say more.\nDEBUG = False\nLEFT, RIGHT = 1, 2\n\nclass Model:\n    size: int = 3\n\n    def grow(self):\n        inner = 2\n        self.size = inner\n",
        ),
        (
            "Map.java",
            "class Map {\n    static final float LOAD = 0.75f;\n    enum Kind { SMALL, LARGE }\n    int size() { int local = 1; return local; }\n}\n",
        ),
        (
            "fork.c",
            "static int later(void);\nint nr_threads;\nconst struct ops generic = {\n\t.read = 1,\n};\nint (*hook)(int);\n\
             struct task { int pid; };\nenum state { RUNNING, ASLEEP };\nstatic int later(void)\n{\n\tint local = 1;\n\treturn local;\n}\nint elsewhere(int a);\n",
        ),
        (
            "v.cpp",
            "template <typename T> class V { void push(T t); int count = 0; };\n\ntemplate <typename T>\nvoid V<T>::push(T t) {\n    count++;\n}\n\nint total = 0;\n",
        ),
        ("top.kt", "val limit = 3\n\nenum class Level { LOW, HIGH }\n\nclass Box {\n    var width = 1\n}\n"),
        (
            "a.ts",
            "export const one = 1, two = 2;\n\ninterface Shape {\n  area: number;\n}\n\nclass Box {\n  width = 1;\n}\n",
        ),
        (
            "lib.rs",
            "pub struct Walk {\n    /// How deep.\n    pub depth: usize,\n}\n\npub enum Kind {\n    Small,\n    Large(u8),\n}\n",
        ),
        ("package.json", "{\n  \"scripts\": {\n    \"test\": \"run\",\n    \"build\": \"make\"\n  }\n}\n"),
        ("A.cs", "class A {\n    private int count = 1;\n    enum E { One, Two }\n}\n"),
        ("a.php", "<?php\nconst LIMIT = 3;\nclass A {\n    const MOST = 4;\n    public $size = 1;\n}\n"),
        ("a.rb", "LIMIT = 3\n\ndef grow\n  local = 1\nend\n"),
        ("a.swift", "let limit = 3\n\nstruct Box {\n    var width = 1\n}\n"),
    ];
    let tree = Tree::new(&files);
    let lines = |wanted: &str| -> Vec<[usize; 2]> {
        let results =
            tree.engine.extract(&ExtractRequest::new([wanted]), &StopSignal::never()).expect("pieces");
        results.results.iter().filter_map(|piece| piece.lines).collect()
    };
    let mut wrong = Vec::new();
    for (wanted, expected) in [
        ("status.go#StatusOK", &[[4, 5], [18, 21]][..]),
        ("status.go#StatusB", &[[6, 6]]),
        ("status.go#Single", &[[9, 9]]),
        ("status.go#Third", &[[13, 15]]),
        ("status.go#Third.Field", &[[14, 14]]),
        ("status.go#local", &[]),
        ("settings.py#DEBUG", &[[1, 2]]),
        ("settings.py#RIGHT", &[[3, 3]]),
        ("settings.py#Model.size", &[[6, 6]]),
        ("settings.py#inner", &[]),
        ("Map.java#Map.LOAD", &[[2, 2]]),
        ("Map.java#Kind.LARGE", &[[3, 3]]),
        ("Map.java#local", &[]),
        ("fork.c#nr_threads", &[[2, 2]]),
        ("fork.c#generic", &[[3, 5]]),
        ("fork.c#hook", &[[6, 6]]),
        ("fork.c#task.pid", &[[7, 7]]),
        ("fork.c#ASLEEP", &[[8, 8]]),
        ("fork.c#later", &[[9, 13]]),
        ("fork.c#elsewhere", &[[14, 14]]),
        ("fork.c#ops", &[]),
        ("v.cpp#V", &[[1, 1]]),
        ("v.cpp#V.push", &[[3, 6]]),
        ("v.cpp#push", &[[3, 6]]),
        ("v.cpp#V.count", &[[1, 1]]),
        ("v.cpp#total", &[[8, 8]]),
        ("top.kt#limit", &[[1, 1]]),
        ("top.kt#Level.HIGH", &[[3, 3]]),
        ("top.kt#Box.width", &[[6, 6]]),
        ("a.ts#two", &[[1, 1]]),
        ("a.ts#Shape.area", &[[4, 4]]),
        ("a.ts#Box.width", &[[8, 8]]),
        ("lib.rs#Walk.depth", &[[2, 3]]),
        ("lib.rs#Kind.Large", &[[8, 8]]),
        ("package.json#scripts.test", &[[3, 3]]),
        ("A.cs#count", &[[2, 2]]),
        ("A.cs#Two", &[[3, 3]]),
        ("a.php#LIMIT", &[[2, 2]]),
        ("a.php#A.MOST", &[[4, 4]]),
        ("a.rb#LIMIT", &[[1, 1]]),
        ("a.rb#local", &[]),
        ("a.swift#limit", &[[1, 1]]),
        ("a.swift#Box.width", &[[4, 4]]),
    ] {
        let found = lines(wanted);
        if found != expected {
            wrong.push(format!("{wanted}: {found:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_name_of_a_declaration_is_found() {
    let tree = Tree::new(&[
        (
            "a.go",
            "package a\n\n// Both.\nvar first, second = 1, 2\n\nvar (\n\tthird, fourth = 1, 2\n)\n\n\
             const (\n\tfifth, sixth = 1, 2\n\tseventh = 3\n)\n",
        ),
        ("a.css", ".one,\n.two > p {\n  top: 0;\n}\n"),
        (
            "a.js",
            "// Sides.\nexport const {left, right: other = 1, ...rest} = box;\nconst [up, [down]] = box;\n\
             const a = 1,\n  { b } = box;\nfunction f() {\n  const { local } = box;\n}\n",
        ),
        ("a.rs", "trait T {\n    /// What comes out.\n    type Out;\n}\n"),
        (
            "A.java",
            "record Point(int x,\n    int y) {\n  int sum(int local) { return x; }\n}\n@interface Note {\n  int level();\n}\n",
        ),
        ("a.kt", "class A(val x: Int,\n  y: Int)\nval (p, q) = 1 to 2\n"),
        ("a.rb", "A, B = 1, 2\n"),
    ]);
    let mut wrong = Vec::new();
    for (wanted, expected) in [
        ("a.go#first", Some([3, 4])),
        ("a.go#second", Some([3, 4])),
        ("a.go#third", Some([6, 8])),
        ("a.go#fourth", Some([6, 8])),
        ("a.go#sixth", Some([11, 11])),
        ("a.css#.one", Some([1, 4])),
        ("a.css#.two > p", Some([1, 4])),
        ("a.js#left", Some([1, 2])),
        ("a.js#right", None),
        ("a.js#other", Some([1, 2])),
        ("a.js#rest", Some([1, 2])),
        ("a.js#down", Some([3, 3])),
        ("a.js#b", Some([5, 5])),
        ("a.js#local", None),
        ("a.rs#T.Out", Some([2, 3])),
        ("A.java#Point.y", Some([2, 2])),
        ("A.java#local", None),
        ("A.java#Note.level", Some([6, 6])),
        ("a.kt#A.x", Some([1, 1])),
        ("a.kt#y", None),
        ("a.kt#q", Some([3, 3])),
        ("a.rb#B", Some([1, 1])),
    ] {
        let results = tree
            .engine
            .extract(&ExtractRequest::new([wanted]), &StopSignal::never())
            .expect("pieces")
            .results;
        let found: Vec<_> = results.iter().map(|piece| piece.lines).collect();
        if found != [expected] {
            wrong.push(format!("{wanted}: {found:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_attribute_belongs_to_what_follows_it_even_in_one_line() {
    let text = "mod a { #[test] fn f() { x(1) } fn g() { x(2) } }\n";
    let tree = Tree::new(&[("a.rs", text)]);
    let request = ExtractRequest { allow_tests: false, ..ExtractRequest::new(["a.rs#f", "a.rs#g"]) };
    let pieces = tree.engine.extract(&request, &StopSignal::never()).expect("pieces").results;
    let failed: Vec<bool> = pieces.iter().map(|piece| piece.error.is_some()).collect();
    assert_eq!(failed, [true, false]);
}

#[test]
fn names_are_found_in_lists_without_end() {
    let deep = 20_000;
    let many: Vec<String> = (0..5000).map(|number| format!("v{number} = {number}")).collect();
    let tree = Tree::new(&[
        ("a.py", &format!("{}a,{}) = x\n", "(".repeat(deep), "),".repeat(deep - 1))),
        ("b.js", &format!("var {};\n", many.join(", "))),
        ("c.go", &format!("package c\n\nconst (\n\t{}\n)\n", many.join("\n\t"))),
        ("d.json", &format!("[\n{{\"id\": 1}}{}\n]\n", ",\n{\"id\": 2}".repeat(4999))),
    ]);
    let lines = |wanted: &str| {
        let results = tree
            .engine
            .extract(&ExtractRequest::new([wanted]), &StopSignal::never())
            .expect("pieces")
            .results;
        (results.len(), results.last().and_then(|piece| piece.lines))
    };
    assert_eq!(lines("a.py#a"), (1, Some([1, 1])));
    assert_eq!(lines("b.js#v4999"), (1, Some([1, 1])));
    assert_eq!(lines("c.go#v4999"), (1, Some([5003, 5003])));
    assert_eq!(lines("d.json#id"), (5000, Some([5001, 5001])));
}
