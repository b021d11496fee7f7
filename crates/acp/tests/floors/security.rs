//! `docs/security.md` names a test for every promise, and each of them exists.

use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The texts of all Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(std::fs::read_to_string(path).expect("text"));
        }
    }
}

/// Whether a function of this name is marked as a test.
fn is_test(source: &str, name: &str) -> bool {
    source.match_indices(&format!("fn {name}(")).any(|(at, _)| {
        let before = source[..at].trim_end_matches("async ").trim_end();
        let marks = before.lines().rev().take_while(|line| line.trim_start().starts_with('#'));
        marks.into_iter().any(|mark| mark.contains("test"))
    })
}

#[test]
fn every_promise_of_the_manual_has_a_test_that_exists() {
    let manual = std::fs::read_to_string(root().join("docs/security.md")).expect("the manual");
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    let mut promises = 0;
    for line in manual.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---")) {
        let cells: Vec<&str> = line.trim_matches('|').rsplitn(2, " | ").collect();
        let [tests, promise] = cells[..] else { panic!("no test: {line}") };
        if tests.trim() == "test" {
            continue;
        }
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {promise}");
        for name in names {
            let exists = if name.contains('/') {
                root().join(name).exists()
            } else {
                all.iter().any(|source| is_test(source, name))
            };
            assert!(exists, "there is no test `{name}`, which is named for: {promise}");
        }
        promises += 1;
    }
    assert!(promises >= 30, "only {promises} promises were found");
}
