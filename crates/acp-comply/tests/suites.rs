//! Every test file that ships with the product can be read.

use acp_comply::{Defaults, TestSource, read_all, render_all};
use std::path::Path;

fn gather(folder: &Path, found: &mut Vec<TestSource>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "jsont") {
            found.push(TestSource::new(path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_shipped_test_file_can_be_read_without_complaint() {
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites");
    let mut folders: Vec<_> =
        std::fs::read_dir(&suites).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.is_dir());
    assert!(!folders.is_empty());
    // Suites are read one by one: the four tests that the format was published with have the ids of their twins in v1.
    for folder in folders {
        let mut files = Vec::new();
        gather(&folder, &mut files);
        assert!(!files.is_empty(), "{}", folder.display());
        let (programs, diagnostics) = read_all(&files, &Defaults::default());
        // Those four have no description, and are kept as they were printed.
        let told: Vec<_> =
            diagnostics.into_iter().filter(|told| told.message != "the test has no description").collect();
        assert!(told.is_empty(), "{}", render_all(&told, &files, false));
        assert_eq!(programs.len(), files.len());
    }
}

#[test]
fn the_first_test_of_the_manual_can_be_read() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/write-a-test.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let examples: Vec<&str> =
        manual.split("```json\n").skip(1).filter_map(|part| part.split("```").next()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let files = [TestSource::new("my.says-something.jsont", example)];
        let (programs, diagnostics) = read_all(&files, &Defaults::default());
        assert!(diagnostics.is_empty() && programs.len() == 1, "{}", render_all(&diagnostics, &files, false));
    }
}
