//! `acp exam` in `acp chat`: a person at a terminal examines the client that is used for it.

use std::path::Path;

use crate::terminal::Terminal;
use crate::{ACP, workspace};

fn exam(folder: &Path, more: &[&str]) -> Terminal {
    let agent = format!("{ACP} exam --state-dir {}", folder.join(".state").display());
    let args: Vec<&str> = ["chat", "--command", &agent].into_iter().chain(more.iter().copied()).collect();
    let mut terminal = Terminal::start(folder, &args, &[]);
    terminal.wait_for("> ");
    terminal
}

fn kept(folder: &Path) -> serde_json::Value {
    let client =
        std::fs::read_dir(folder.join(".state")).expect("a folder").next().expect("a client").expect("one");
    let text = std::fs::read_to_string(client.path().join("results.json")).expect("results");
    serde_json::from_str(&text).expect("JSON")
}

fn verdict(results: &serde_json::Value, id: &str) -> String {
    let tests = results["agents"][0]["tests"].as_array().expect("tests");
    let test = tests.iter().find(|test| test["id"] == id).unwrap_or_else(|| panic!("{id} did not run"));
    test["verdict"].as_str().expect("a verdict").to_owned()
}

#[test]
fn the_files_area_is_examined_and_reported() {
    let (_temp, folder) = workspace();
    let mut terminal = exam(&folder, &["--policy", "yolo"]);
    terminal.press("/list\r");
    terminal.wait_for("Files: ");
    terminal.wait_for("> ");
    terminal.press("/run fs\r");
    terminal.wait_for("I work in ");
    terminal.wait_for("Type /report");
    terminal.wait_for("> ");
    let leftover = std::fs::read_dir(&folder).expect("the workspace").flatten();
    assert!(leftover.into_iter().all(|it| !it.file_name().to_string_lossy().starts_with("acp-exam-")));
    let results = kept(&folder);
    assert_eq!(results["agents"][0]["side"], "client");
    for id in ["fs.read-window", "fs.read-unicode", "fs.write-new", "fs.read-works"] {
        assert_eq!(verdict(&results, id), "PASS", "{id}: {}", terminal.screen());
    }
    assert_eq!(verdict(&results, "fs.jail-read"), "NA", "it needs files outside the workspace");
    terminal.press("/report\r");
    terminal.wait_for("Written to ");
    terminal.wait_for("Other formats");
    terminal.wait_for("> ");
    let report = std::fs::read_to_string(folder.join("acp-exam-report.md")).expect("a report");
    assert!(report.contains("fs.read-window: PASS"), "{report}");
    terminal.press(":quit\r");
    assert_eq!(terminal.end(), 0);
    let state = folder.join(".state").display().to_string();
    let args = ["report", "--state-dir", &state, "--format", "junit"];
    let (code, out, errors) =
        crate::texts(&crate::acp(&folder, &["exam"], &args).output().expect("acp runs"));
    assert!(code == 0 && out.contains("<testsuite") && out.contains("fs.read-window"), "{out}{errors}");
}

#[test]
fn a_question_is_rejected_by_hand_and_a_new_conversation_knows_it() {
    let (_temp, folder) = workspace();
    let mut terminal = exam(&folder, &[]);
    terminal.press("/run permission.rejected\r");
    terminal.wait_for("choose *reject*");
    terminal.wait_for("which? ");
    // A person reads first; an answer at once is taken for a policy's.
    std::thread::sleep(std::time::Duration::from_millis(500));
    terminal.press("n\r");
    terminal.wait_for("Type /report");
    terminal.wait_for("> ");
    terminal.press(":quit\r");
    assert_eq!(terminal.end(), 0);
    assert_eq!(verdict(&kept(&folder), "permission.rejected"), "PASS", "{}", terminal.screen());
    let mut terminal = exam(&folder, &[]);
    terminal.press("/list permission.rejected\r");
    terminal.wait_for("✓ permission.rejected");
}

/// The person cancels, and then goes on in the same conversation.
const CANCEL: &str = r#"{
  "side": "client", "title": "after a cancel the next prompt goes to the same agent", "description": "The turn is stopped.",
  "severity": "advice", "area": "Turns", "own": ["wire"],
  "steps": [
    { "drive": { "verb": "prompt" } },
    { "drive": { "verb": "cancel" }, "unless": "the client sent no session/cancel" },
    { "drive": { "verb": "prompt" } },
    { "alive": {} }
  ]
}"#;

#[test]
fn a_test_that_ends_the_turn_waits_for_next_and_a_person_who_stops() {
    let (_temp, folder) = workspace();
    std::fs::write(folder.join("turns.stop.jsont"), CANCEL).expect("a test");
    let agent = format!("{ACP} exam --state-dir {0}/.state --suite {0}/turns.stop.jsont", folder.display());
    let mut terminal = Terminal::start(&folder, &["chat", "--command", &agent], &[]);
    terminal.wait_for("> ");
    terminal.press("/run turns.stop\r");
    terminal.wait_for("type /next");
    terminal.wait_for("> ");
    terminal.press("/next\r");
    terminal.wait_for("Press your editor's");
    terminal.press("\u{3}");
    terminal.wait_for("> ");
    terminal.press("go\r");
    terminal.wait_for("That was the last one");
    assert_eq!(verdict(&kept(&folder), "turns.stop"), "PASS", "{}", terminal.screen());
}
