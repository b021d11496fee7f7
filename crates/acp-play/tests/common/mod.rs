//! The built-in suite as programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_comply::{Defaults, Program};

/// How the tests are played: with the suite's own calibration and wordings, where it has them.
pub fn conditions() -> acp_play::PlayConditions {
    let wordings = std::fs::read_to_string(suites().join("calibration/wishes.json")).ok();
    acp_play::PlayConditions {
        wordings: wordings.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
        calibration: if suites().join("calibration").is_dir() { suite("calibration") } else { Vec::new() },
        ..acp_play::PlayConditions::default()
    }
}

fn suites() -> PathBuf {
    let suites = std::env::var_os("ACP_SUITES").map(PathBuf::from);
    suites.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites"))
}

/// Every test of a suite, in the order of its paths; of the folder `ACP_SUITES` where that is set.
pub fn suite(name: &str) -> Vec<Arc<Program>> {
    let root = suites().join(name);
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
        let why = || reading.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        Arc::new(reading.program.clone().unwrap_or_else(|| panic!("{name} cannot be read: {}", why())))
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

/// The variants, from their folder.
#[allow(dead_code, reason = "not every user of this module needs them")]
pub fn variants() -> Vec<acp_script::variants::Variant> {
    let read = |(name, text): (String, String)| {
        acp_script::variants::Variant::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"))
    };
    catalogue("variants").into_iter().map(read).collect()
}

/// The defects, from their folder.
#[allow(dead_code, reason = "not every user of this module needs them")]
pub fn defects() -> Vec<acp_script::defects::Defect> {
    let read = |(name, text): (String, String)| {
        acp_script::defects::Defect::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"))
    };
    catalogue("defects").into_iter().map(read).collect()
}

/// Names and texts of the files of a catalogue, which stands beside the suites.
fn catalogue(name: &str) -> Vec<(String, String)> {
    let folder = suites().join("..").join(name);
    let mut files: Vec<(String, String)> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a file"))
        })
        .collect();
    files.sort();
    files
}
