//! Every language that is built in: its blocks are found, and its test code is known by syntax.

use acp_code::{StopSignal, extract, search};

use super::Tree;

/// What `file#symbol` gives.
type Symbol = (&'static str, [usize; 2]);

/// File, text and symbols.
const BLOCKS: &[(&str, &str, &[Symbol])] = &[
    (
        "a.rs",
        "/// One.\npub trait Shape {\n    fn area(&self) -> f64;\n}\n\nmacro_rules! m { () => {} }\n",
        &[("Shape", [1, 4]), ("Shape.area", [3, 3]), ("m", [6, 6])],
    ),
    (
        "a.ts",
        "// One.\nexport interface Shape {\n  area(): number;\n}\n\nexport const f = (a: number) => {\n  return a;\n};\n",
        &[("Shape", [1, 4]), ("Shape.area", [3, 3]), ("f", [6, 8])],
    ),
    ("a.tsx", "export function View() {\n  return <p>hi</p>;\n}\n", &[("View", [1, 3])]),
    (
        "a.js",
        "class A {\n  /** One. */\n  run() {\n    return 1;\n  }\n}\n\nexports.go = function () {\n};\n\nB.prototype.end = function () {};\n",
        &[("A", [1, 6]), ("A.run", [2, 5]), ("go", [8, 9]), ("B.end", [11, 11])],
    ),
    (
        "a.py",
        "@wrap\ndef f():\n    \"\"\"One.\"\"\"\n\n\nclass A:\n    # Two.\n    @property\n    def g(self):\n        return 1\n",
        &[("f", [1, 3]), ("A", [6, 10]), ("A.g", [7, 10])],
    ),
    (
        "a.go",
        "package a\n\n// One.\ntype T struct {\n\tx int\n}\n\n// Two.\nfunc (t *T) Run() int {\n\treturn t.x\n}\n",
        &[("T", [3, 6]), ("Run", [8, 11]), ("T.Run", [8, 11])],
    ),
    (
        "A.java",
        "/** One. */\nclass A {\n  @Override\n  int f() {\n    return 1;\n  }\n}\n",
        &[("A", [1, 7]), ("A.f", [3, 6])],
    ),
    (
        "a.c",
        "/* One. */\nstatic int *f(int a)\n{\n\treturn 0;\n}\n\nstruct s {\n\tint x;\n};\n\n#define M 1\n",
        &[("f", [1, 5]), ("s", [7, 9]), ("M", [11, 11])],
    ),
    (
        "a.cpp",
        "namespace n {\ntemplate <typename T>\nclass A {\n  int g() { return 1; }\n};\n}\n\nint A::f() {\n  return 1;\n}\n",
        &[("A", [2, 5]), ("n.A.g", [4, 4]), ("A.f", [8, 10])],
    ),
    (
        "a.cs",
        "namespace N {\n  /// One.\n  class A {\n    public int F() { return 1; }\n  }\n}\n",
        &[("A", [2, 5]), ("A.F", [4, 4])],
    ),
    (
        "a.rb",
        "module M\n  # One.\n  class A\n    def f\n      1\n    end\n  end\nend\n",
        &[("A", [2, 7]), ("M.A.f", [4, 6])],
    ),
    (
        "a.php",
        "<?php\n/** One. */\nfunction f() {\n  return 1;\n}\n\nclass A {\n  public function g() {}\n}\n",
        &[("f", [2, 5]), ("A.g", [8, 8])],
    ),
    (
        "a.swift",
        "// One.\nstruct A {\n  func f() -> Int {\n    return 1\n  }\n}\n",
        &[("A", [1, 6]), ("A.f", [3, 5])],
    ),
    (
        "a.kt",
        "// One.\nclass A {\n  fun f(): Int {\n    return 1\n  }\n}\n",
        &[("A", [1, 6]), ("A.f", [3, 5])],
    ),
    ("a.sh", "# One.\nf() {\n  echo 1\n}\n", &[("f", [1, 4])]),
    ("a.md", "# Top\n\ntext\n\n## Sub\n\nmore\n", &[("Sub", [5, 7])]),
    ("a.json", "{\n  \"one\": 1,\n  \"two\": {\n    \"three\": 3\n  }\n}\n", &[("two", [3, 5])]),
    ("a.yaml", "one: 1\ntwo:\n  three: 3\nfour: 4\n", &[("two", [2, 3])]),
    ("a.css", "/* One. */\n.a {\n  color: red;\n}\n", &[(".a", [1, 4])]),
];

#[test]
fn every_language_has_its_blocks() {
    let files: Vec<(&str, &str)> = BLOCKS.iter().map(|(file, text, _)| (*file, *text)).collect();
    let tree = Tree::new(&files);
    let mut wrong = Vec::new();
    for (file, _, symbols) in BLOCKS {
        for (symbol, lines) in *symbols {
            let wanted = format!("{file}#{symbol}");
            let pieces = tree
                .engine
                .extract(&extract::ExtractRequest::new([&wanted]), &StopSignal::never())
                .expect("pieces");
            let found: Vec<_> =
                pieces.results.iter().map(|piece| piece.lines.ok_or(piece.error.clone())).collect();
            if found != [Ok(*lines)] {
                wrong.push(format!("{wanted}: wanted {lines:?}, found {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_languages_that_are_promised_are_built_in() {
    let built_in = acp_code::languages();
    for name in [
        "Rust",
        "TypeScript",
        "Tsx",
        "JavaScript",
        "Python",
        "Go",
        "Java",
        "C",
        "Cpp",
        "CSharp",
        "Ruby",
        "Php",
        "Swift",
        "Kotlin",
        "Bash",
        "Markdown",
        "Json",
        "Yaml",
        "Html",
        "Css",
    ] {
        assert!(built_in.iter().any(|known| known == name), "{name} is missing");
    }
}

/// File and text: `word` stands once in code and once in test code.
const TESTS: &[(&str, &str)] = &[
    ("a.rs", "fn f() { word(); }\n\n#[cfg(test)]\nmod t {\n    fn g() { word(); }\n}\n"),
    ("b.rs", "fn f() { word(); }\n\n#[tokio::test]\nasync fn g() { word(); }\n"),
    ("a.py", "def f():\n    word()\n\n\ndef test_g():\n    word()\n"),
    (
        "b.py",
        "def f():\n    word()\n\n\nclass G(unittest.TestCase):\n    def helper(self):\n        word()\n",
    ),
    ("a.go", "package a\n\nfunc F() { word() }\n\nfunc TestG(t *testing.T) { word() }\n"),
    ("a.js", "function f() { word(); }\n\ndescribe('g', () => {\n  it('h', () => { word(); });\n});\n"),
    ("a.ts", "function f() { word(); }\n\ntest.only('g', async () => {\n  word();\n});\n"),
    ("A.java", "class A {\n  void f() { word(); }\n  @Test\n  void g() { word(); }\n}\n"),
    ("a.cs", "class A {\n  void F() { word(); }\n  [Fact]\n  void G() { word(); }\n}\n"),
    ("a.kt", "class A {\n  fun f() { word() }\n  @Test\n  fun g() { word() }\n}\n"),
    ("a.rb", "def f\n  word\nend\n\ndescribe 'g' do\n  it 'h' do\n    word\n  end\nend\n"),
    (
        "a.php",
        "<?php\nfunction f() { word(); }\n\nclass G extends TestCase {\n  function h() { word(); }\n}\n",
    ),
    ("a.swift", "func f() { word() }\n\nclass G: XCTestCase {\n  func h() { word() }\n}\n"),
    ("a.cc", "void f() { word(); }\n\nTEST(A, b) {\n  word();\n}\n"),
];

#[test]
fn test_code_is_known_by_its_syntax() {
    for (file, text) in TESTS {
        let tree = Tree::new(&[(file, text)]);
        let all = search::SearchRequest { exact: true, ..search::SearchRequest::new("word") };
        let code = search::SearchRequest { allow_tests: false, ..all.clone() };
        assert_eq!(tree.places(&all).len(), 2, "{file}");
        let first = tree.places(&all).remove(0);
        assert_eq!(tree.places(&code), [first], "{file}");
        let ranked = search::SearchRequest { allow_tests: false, ..search::SearchRequest::new("word") };
        assert_eq!(tree.places(&ranked).len(), 1, "{file}");
    }
}

#[test]
fn whole_files_are_tests_by_custom() {
    let tests = [
        "tests/a.rs",
        "a_test.go",
        "test_a.py",
        "a.spec.ts",
        "src/__tests__/a.js",
        "ATest.java",
        "conftest.py",
    ];
    let code = ["src/contest.rs", "latest.py", "attest/a.rs", "testimony.go"];
    let files: Vec<(&str, &str)> = tests.iter().chain(&code).map(|file| (*file, "word\n")).collect();
    let tree = Tree::new(&files);
    let request =
        search::SearchRequest { exact: true, allow_tests: false, ..search::SearchRequest::new("word") };
    let mut wanted: Vec<String> = code.iter().map(|file| format!("{file}:1-1")).collect();
    wanted.sort();
    assert_eq!(tree.places(&request), wanted);
}

#[test]
fn a_test_is_ranked_below_the_code_that_it_tests() {
    let tree = Tree::new(&[("a.rs", "#[test]\nfn word_holds() { word(); }\n\nfn word() { word(); }\n")]);
    assert_eq!(tree.found("word"), ["a.rs:4-4", "a.rs:1-2"]);
}
