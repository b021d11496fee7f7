//! The built-in suite as programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_comply::{Defaults, Program};

/// Every test of a suite, in the order of its paths.
pub fn suite(name: &str) -> Vec<Arc<Program>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites").join(name);
    let mut paths = Vec::new();
    gather(&root, &mut paths);
    paths.sort();
    let defaults = Defaults {
        mcp_stub_args: ["mcp-stub", "--log", "${mcpLog}"].map(str::to_owned).to_vec(),
        ..Defaults::default()
    };
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("a test file");
        let name = path.strip_prefix(root.parent().expect("suites")).expect("below suites").to_string_lossy();
        let reading = Program::read(&format!("suites/{name}"), &text, &defaults);
        Arc::new(reading.program.unwrap_or_else(|| panic!("{name} cannot be read")))
    };
    paths.iter().map(read).collect()
}

fn gather(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "jsont") {
            found.push(path);
        }
    }
}
