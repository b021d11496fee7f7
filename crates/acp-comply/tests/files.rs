//! Golden files: what is said about good and bad test files.

use acp_comply::{Defaults, TestSource, read_all, render_all};
use acp_testkit::golden;

#[test]
fn every_file_is_spoken_of_as_written() {
    golden::check("tests/files", |case| {
        let mut paths: Vec<_> = std::fs::read_dir(case).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsont"));
        paths.sort();
        let name = |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let files: Vec<TestSource> = paths
            .iter()
            .map(|path| TestSource::new(name(path), std::fs::read_to_string(path).unwrap()))
            .collect();
        let (programs, diagnostics) = read_all(&files, &Defaults::default());
        let mut out = render_all(&diagnostics, &files, false);
        out.push_str(&format!("usable: {} of {}\n", programs.len(), files.len()));
        vec![("diagnostics.txt".to_owned(), out)]
    });
}

#[test]
fn two_files_with_one_id_are_an_error() {
    let text = "{ \"title\": \"A\", \"description\": \"d\", \"severity\": \"required\", \"steps\": [{ \"newSession\": {} }] }";
    let files = [TestSource::new("a/x.jsont", text), TestSource::new("b/x.jsont", text)];
    let (programs, diagnostics) = read_all(&files, &Defaults::default());
    assert_eq!(programs.len(), 1);
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(
        diagnostics[0].to_string(),
        "b/x.jsont:1:1: error: the test x is also in a/x.jsont (a test's id is its file name, so file names differ across folders too)"
    );
}
