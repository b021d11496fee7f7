//! What is test code: by syntax first, by the customs of file names where a whole file is a test.

use ast_grep_language::SupportLang;
use tree_sitter::Node;

use crate::blocks::Kind;

/// Whether a whole file is test code by the customs of its language.
pub(crate) fn is_test_path(path: &str) -> bool {
    let mut parts = path.split('/').rev();
    let file = parts.next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let words: Vec<&str> = file.split('.').collect();
    parts.any(|folder| {
        matches!(folder, "test" | "tests" | "__tests__" | "spec" | "specs" | "testing" | "testdata")
    }) || matches!(stem, "tests" | "test" | "conftest")
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
        || stem.ends_with("_spec")
        || words.iter().skip(1).any(|word| matches!(*word, "test" | "spec"))
        || (is_jvm(file) && (stem.ends_with("Test") || stem.ends_with("Tests") || stem.ends_with("IT")))
}

fn is_jvm(file: &str) -> bool {
    [".java", ".kt", ".cs", ".php", ".swift"].iter().any(|extension| file.ends_with(extension))
}

/// Whether a block is test code by its syntax. `front` is what stands between its first line and itself:
/// comments, attributes, decorators.
pub(crate) fn is_test_block(
    node: Node<'_>,
    kind: Kind,
    name: &str,
    front: &str,
    language: SupportLang,
    text: &str,
) -> bool {
    use SupportLang as L;
    if kind == Kind::Test {
        return true;
    }
    let own = || text.get(node.byte_range()).unwrap_or_default();
    // Annotations stand inside the node's first lines in these grammars.
    let opening = || own().get(..opening_end(node, own())).unwrap_or_default();
    match language {
        L::Rust => rust(front),
        L::Python => match kind {
            Kind::Function => {
                name.starts_with("test_") || front.contains("@pytest.") || front.contains("@fixture")
            }
            Kind::Class => {
                (name.starts_with("Test") && own().contains("def test")) || opening().contains("TestCase")
            }
            _ => false,
        },
        L::Go => {
            kind == Kind::Function
                && ["Test", "Benchmark", "Fuzz", "Example"].iter().any(|word| go_test(name, word))
                && (name.starts_with("Example") || opening().contains("*testing."))
        }
        L::Java | L::Kotlin | L::CSharp | L::Swift | L::Php => annotated(kind, name, front, opening()),
        L::Ruby => {
            (kind == Kind::Function && name.starts_with("test_"))
                || (kind == Kind::Class && (opening().contains("Minitest") || opening().contains("TestCase")))
        }
        L::C | L::Cpp => {
            kind == Kind::Function
                && [
                    "TEST",
                    "TEST_F",
                    "TEST_P",
                    "TYPED_TEST",
                    "TEST_CASE",
                    "BOOST_AUTO_TEST_CASE",
                    "START_TEST",
                ]
                .contains(&name)
        }
        _ => false,
    }
}

/// `#[test]`, `#[tokio::test]`, `#[cfg(test)]`, `#[cfg(all(test, …))]`, `#[bench]`, `#[rstest]`.
fn rust(front: &str) -> bool {
    front.split("#[").skip(1).any(|attribute| {
        let inside: String =
            attribute.chars().take_while(|c| *c != ']').filter(|c| !c.is_whitespace()).collect();
        let head = inside.split('(').next().unwrap_or_default();
        let last = head.rsplit("::").next().unwrap_or_default();
        matches!(last, "test" | "bench" | "rstest" | "test_case" | "proptest" | "quickcheck")
            || (head == "cfg" && mentions_test(&inside))
    })
}

/// `cfg(test)` and its combinations, but not `cfg(not(test))`.
fn mentions_test(cfg: &str) -> bool {
    let positive = cfg.replace("not(test)", "");
    positive.split(['(', ')', ',']).any(|word| word == "test")
}

fn go_test(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_lowercase()))
}

fn annotated(kind: Kind, name: &str, front: &str, opening: &str) -> bool {
    let marks = [
        "@Test",
        "@ParameterizedTest",
        "@RepeatedTest",
        "@BeforeEach",
        "@AfterEach",
        "@BeforeAll",
        "@Suite",
        "[Test",
        "[Fact",
        "[Theory",
        "[SetUp",
        "[TearDown",
        "#[Test",
    ];
    let marked = |text: &str| marks.iter().any(|mark| text.contains(mark));
    match kind {
        Kind::Function => {
            marked(front)
                || marked(opening)
                || (name.starts_with("test") && opening.contains("public function test"))
        }
        Kind::Class => {
            marked(front) || marked(opening) || opening.contains("XCTestCase") || opening.contains("TestCase")
        }
        _ => false,
    }
}

/// Where a declaration's body begins, so that only its head is looked at.
fn opening_end(node: Node<'_>, own: &str) -> usize {
    node.child_by_field_name("body")
        .map(|body| body.start_byte() - node.start_byte())
        .or_else(|| own.find('{'))
        .unwrap_or(own.len())
}
