//! The whole suite on both agents in the box, as `acp comply` runs it without flags.

use std::process::Command;

use serde_json::Value;

use crate::talk::ACP;

#[test]
fn both_agents_in_the_box_pass_the_whole_suite() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(ACP)
        .args(["comply", "--format", "json"])
        .current_dir(folder.path())
        .output()
        .expect("acp");
    let text = String::from_utf8_lossy(&output.stdout);
    let results: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let agents = results["agents"].as_array().expect("agents");
    let names: Vec<&str> = agents.iter().filter_map(|agent| agent["name"].as_str()).collect();
    assert_eq!(names, ["mock", "reference"]);
    let absent = |agent: &Value| -> Vec<String> {
        let tests = agent["tests"].as_array().expect("tests");
        assert!(tests.len() > 200, "{}", tests.len());
        let mut absent = Vec::new();
        for test in tests {
            match test["verdict"].as_str() {
                Some("PASS") => assert_ne!(test["vacuous"], true, "{}: {}", agent["name"], test["id"]),
                Some("NA") => absent.push(test["id"].as_str().unwrap_or_default().to_owned()),
                _ => panic!("{}: {test:#}", agent["name"]),
            }
        }
        absent
    };
    let (mut mock, mut reference) = (absent(&agents[0]), absent(&agents[1]));
    // Its first option has one value here: without a model there is nothing to choose.
    mock.extend(["config.set-stays", "config.unknown-second"].map(str::to_owned));
    // The mock asks for no permission before it calls an MCP tool, and does nothing with files and commands but through the
    // client; the reference agent asks and works by itself.
    let only_the_reference =
        ["mcp", "no-files", "no-terminal"].map(|end| format!("permission.rejected-{end}"));
    mock.retain(|test| !only_the_reference.contains(test));
    mock.sort();
    reference.sort();
    assert_eq!(reference, mock, "the reference agent can do all that the mock can");
    assert_eq!(output.status.code(), Some(0));
}

/// The compact suites in the words of each form, untranslated. The form `probe` cannot say that a client has files, so
/// the agent uses its own: what tests the client's, or the mock's modes, is left out.
#[test]
fn every_form_is_spoken_as_its_own_suite_wants_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let suites = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites");
    let probe = ["initialize", "unsupported-version", "new-session", "prompt", "cancel", "load", "errors"];
    let probe = probe.map(|test| format!("probe/probe.{test}.jsont"));
    for (form, paths) in [
        ("2025.1", vec!["2025.1".to_owned()]),
        ("go", vec!["go".to_owned()]),
        ("delta", vec!["delta".to_owned()]),
        ("probe", probe.to_vec()),
    ] {
        // These clients cannot be asked: the mode in which nobody is must be opened for them.
        let policy = if form == "2025.1" { " --policy bypassPermissions" } else { "" };
        let agent = format!("{ACP} agent --dialect {form} --allow-edit --enable-mcp --no-state{policy}");
        let output = Command::new(ACP)
            .arg("comply")
            .args(paths.iter().map(|path| suites.join(path)))
            .args(["--format", "json", "--command", &agent])
            .current_dir(folder.path())
            .output()
            .expect("acp");
        let text = String::from_utf8_lossy(&output.stdout);
        let results: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let tests = results["agents"][0]["tests"].as_array().expect("tests");
        let passed = tests.iter().filter(|test| test["verdict"] == "PASS").count();
        let failed =
            tests.iter().filter(|test| !matches!(test["verdict"].as_str(), Some("PASS" | "NA"))).count();
        assert!(passed >= 7 && failed == 0, "{form}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
