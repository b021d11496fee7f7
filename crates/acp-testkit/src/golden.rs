//! Golden folders: a test is a folder of inputs, and beside them lies what must come out.
//!
//! ```no_run
//! // tests/runs/<case>/{test.jsont, agent.script}  →  tests/runs/<case>/outcome.txt
//! acp_testkit::golden::check("tests/runs", |case| {
//!     let input = std::fs::read_to_string(case.join("test.jsont")).unwrap();
//!     vec![("outcome.txt".into(), input.to_uppercase())]
//! });
//! ```
//!
//! `UPDATE=1 cargo test` writes what came out instead of comparing it; the diff is reviewed like code.

use std::path::{Path, PathBuf};
use std::{env, fs};

use similar::TextDiff;

/// Runs every case (each folder directly under `root`, by name) and compares the files it returns, each under its
/// name within the case's folder.
///
/// # Panics
/// When a file differs or is missing, listing all of them with their differences; when there is no case.
pub fn check<F>(root: impl AsRef<Path>, run: F)
where
    F: Fn(&Path) -> Vec<(String, String)>,
{
    report(&check_with(root.as_ref(), updating(), &run));
}

/// Compares one text with one file; the same rules as [`check`].
///
/// # Panics
/// When they differ.
pub fn check_file(file: impl AsRef<Path>, actual: &str) {
    report(&compare(file.as_ref(), actual, updating()).into_iter().collect::<Vec<_>>());
}

/// Whether this run rewrites goldens: `UPDATE` is set to something other than `0` or nothing.
#[must_use]
pub fn updating() -> bool {
    env::var("UPDATE").is_ok_and(|value| !value.is_empty() && value != "0")
}

fn report(differences: &[String]) {
    let count = differences.len();
    let all = differences.join("\n");
    assert!(count == 0, "{count} golden file(s) differ; UPDATE=1 rewrites them:\n\n{all}");
}

fn check_with(root: &Path, update: bool, run: &dyn Fn(&Path) -> Vec<(String, String)>) -> Vec<String> {
    let cases = cases(root);
    assert!(!cases.is_empty(), "no case under {}: each case is a folder there", root.display());
    let mut differences = Vec::new();
    for case in cases {
        let files = run(&case);
        assert!(!files.is_empty(), "the case {} came out with no file to compare", case.display());
        for (name, actual) in files {
            differences.extend(compare(&case.join(name), &actual, update));
        }
    }
    differences
}

fn cases(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut cases: Vec<_> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    cases.sort();
    cases
}

fn compare(file: &Path, actual: &str, update: bool) -> Option<String> {
    let expected = fs::read_to_string(file);
    if expected.as_deref().is_ok_and(|expected| expected == actual) {
        return None;
    }
    if update {
        return write(file, actual).err().map(|e| format!("cannot write {}: {e}", file.display()));
    }
    let name = file.display();
    let Ok(expected) = expected else {
        return Some(format!("{name} is missing; what came out:\n{actual}"));
    };
    let diff = TextDiff::from_lines(&expected, actual);
    Some(diff.unified_diff().header(&format!("{name} (expected)"), "what came out").to_string())
}

fn write(file: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("one")).unwrap();
        fs::write(root.path().join("one/in.txt"), "abc\n").unwrap();
        root
    }

    fn upper(case: &Path) -> Vec<(String, String)> {
        let text = fs::read_to_string(case.join("in.txt")).unwrap();
        vec![("out.txt".into(), text.to_uppercase())]
    }

    #[test]
    fn a_missing_golden_is_a_failure_until_it_is_updated() {
        let root = folder();
        let missing = check_with(root.path(), false, &upper);
        assert!(missing[0].contains("out.txt is missing"), "{missing:?}");
        assert_eq!(check_with(root.path(), true, &upper), Vec::<String>::new());
        assert_eq!(check_with(root.path(), false, &upper), Vec::<String>::new());
    }

    #[test]
    fn a_difference_is_shown_line_by_line() {
        let root = folder();
        fs::write(root.path().join("one/out.txt"), "ABD\n").unwrap();
        let differences = check_with(root.path(), false, &upper);
        assert!(differences[0].contains("-ABD\n+ABC\n"), "{}", differences[0]);
    }

    #[test]
    #[should_panic(expected = "no case under")]
    fn a_root_without_cases_is_a_mistake() {
        let root = tempfile::tempdir().unwrap();
        check_with(root.path(), false, &upper);
    }
}
