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
    assert_eq!(absent(&agents[1]), absent(&agents[0]), "the reference agent can do all that the mock can");
    assert_eq!(output.status.code(), Some(0));
}
