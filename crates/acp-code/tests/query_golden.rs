//! Queries find exactly what the real `ast-grep` command finds: its answers over `query-golden/corpus` are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use acp_code::{Engine, StopSignal, query};
use serde::Deserialize;

#[derive(Deserialize)]
struct Pattern {
    id: String,
    language: String,
    pattern: String,
    literal: String,
}

#[derive(Deserialize)]
struct Expected {
    #[serde(rename = "ast-grep")]
    version: String,
    found: BTreeMap<String, BTreeSet<(String, usize, usize)>>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/query-golden")
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let text = fs::read_to_string(folder().join(name)).expect("the golden folder is complete");
    serde_json::from_str(&text).expect("the golden files are JSON of this shape")
}

#[test]
fn every_pattern_finds_exactly_what_ast_grep_finds() {
    let engine = Engine::new(folder().join("corpus")).expect("the corpus is a folder");
    let expected: Expected = read("expected.json");
    let mut differing = Vec::new();
    for entry in read::<Vec<Pattern>>("patterns.json") {
        let request = query::QueryRequest {
            language: Some(entry.language),
            max_results: usize::MAX,
            ..query::QueryRequest::new(entry.pattern)
        };
        let results = engine.query(&request, &StopSignal::never()).expect("the pattern is right");
        let found: BTreeSet<_> =
            results.results.into_iter().map(|hit| (hit.file, hit.bytes[0], hit.bytes[1])).collect();
        let wanted = &expected.found[&entry.id];
        if found != *wanted || results.total != wanted.len() {
            differing.push(format!("{}: ast-grep {wanted:?}\n    here {found:?}", entry.id));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn the_patterns_are_many_and_none_is_empty_handed() {
    let patterns: Vec<Pattern> = read("patterns.json");
    let expected: Expected = read("expected.json");
    let languages: BTreeSet<_> = patterns.iter().map(|entry| &entry.language).collect();
    assert!(patterns.len() >= 40, "{} patterns", patterns.len());
    assert!(languages.len() >= 6, "{languages:?}");
    assert_eq!(expected.found.len(), patterns.len());
    for entry in &patterns {
        assert!(!expected.found[&entry.id].is_empty(), "{} finds nothing in the corpus", entry.id);
        assert!(
            entry.pattern.contains(&entry.literal),
            "{}: no {:?} in the pattern",
            entry.id,
            entry.literal
        );
    }
}

#[test]
fn the_stored_answers_are_of_the_version_that_is_built_in() {
    let expected: Expected = read("expected.json");
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = fs::read_to_string(lock).expect("the workspace has a lock file");
    let built_in = lock
        .split("[[package]]")
        .find(|package| package.contains("name = \"ast-grep-core\""))
        .expect("ast-grep-core is locked");
    let version = format!("version = \"{}\"", expected.version);
    assert!(built_in.contains(&version), "stored: {version}; locked:{built_in}");
}
