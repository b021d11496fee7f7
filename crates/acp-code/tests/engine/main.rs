//! The engine as a caller sees it: requests in, results out, over folders made for the test.

mod bad_input;
mod exact;
mod extract;
mod files;
mod languages;
mod limits;
mod members;
mod query;
mod search;
mod tools;

use std::fs;
use std::path::Path;

use acp_code::{Engine, StopSignal};
use tempfile::TempDir;

/// A folder with these files and an engine over it.
struct Tree {
    folder: TempDir,
    engine: Engine,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let engine = Engine::new(folder.path()).expect("an engine over a folder");
        let tree = Self { folder, engine };
        for (path, text) in files {
            tree.write(path, text.as_bytes());
        }
        tree
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("the folders of a file");
        fs::write(path, bytes).expect("a file");
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Ranked search: `file:first-last` of each result.
    fn found(&self, query: &str) -> Vec<String> {
        self.places(&acp_code::search::SearchRequest::new(query))
    }

    fn places(&self, request: &acp_code::search::SearchRequest) -> Vec<String> {
        let results = self.engine.search(request, &StopSignal::never()).expect("a search");
        let place = |hit: &acp_code::search::Hit| format!("{}:{}-{}", hit.file, hit.lines[0], hit.lines[1]);
        results.results.iter().map(place).collect()
    }
}
