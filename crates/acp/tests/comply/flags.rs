//! Flags that change what a run means.

use crate::{comply, script, stderr, stdout};

const TURN: &str = r#"{ "title": "a turn", "description": "d", "severity": "required", "docs": [], "sandbox": { "files": [] },
  "steps": [{ "newSession": {} },
    { "send": { "jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": { "sessionId": "${sessionId}", "prompt": [{ "type": "text", "text": "Say hello." }] } } },
    { "expect": { "messages": [{ "response": { "id": 2, "result": {} } }] } }] }"#;

const WATCH: &str = r#"{ "title": "watches nothing", "description": "d", "severity": "required", "docs": [], "sandbox": { "files": [] },
  "steps": [{ "newSession": {} }, { "forbid": { "timeoutMs": 100, "methods": ["fs/*"] } }] }"#;

fn file(dir: &std::path::Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

fn mock(flags: &str) -> String {
    format!("{} mock --stdio --dialect v1 {flags}", env!("CARGO_BIN_EXE_acp"))
}

#[test]
fn a_vacuous_pass_is_not_enough_when_exercise_is_required() {
    let dir = tempfile::tempdir().expect("a folder");
    let test = file(dir.path(), "watch.jsont", WATCH);
    assert_eq!(comply(&[&test]).status.code(), Some(0));
    assert_eq!(comply(&[&test, "--require-exercised"]).status.code(), Some(3));
    assert_eq!(comply(&[&test, "--require-exercised", "--allow-incomplete"]).status.code(), Some(0));
}

#[test]
fn findings_outside_the_claims_fail_a_strict_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let test = file(dir.path(), "turn.jsont", TURN);
    let agent = mock("--defect custom-root-field");
    let lenient = comply(&[&test, "--command", &agent]);
    assert_eq!(lenient.status.code(), Some(0), "{}", stderr(&lenient));
    assert!(stdout(&lenient).contains("EXT-01"), "{}", stdout(&lenient));
    assert_eq!(comply(&[&test, "--command", &agent, "--strict"]).status.code(), Some(1));
}

#[test]
fn an_agent_that_wants_a_login_is_not_judged_without_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let test = file(dir.path(), "turn.jsont", TURN);
    let agent = mock("--require-auth");
    let blocked = comply(&[&test, "--command", &agent]);
    assert_eq!(blocked.status.code(), Some(3), "{}", stderr(&blocked));
    assert!(stdout(&blocked).contains("authentication required"), "{}", stdout(&blocked));
    let open = comply(&[&test, "--command", &agent, "--auth", "mock-login"]);
    assert_eq!(open.status.code(), Some(0), "{}", stderr(&open));
}

#[test]
fn the_first_failure_ends_a_run_that_fails_fast() {
    let dir = tempfile::tempdir().expect("a folder");
    let failing = r#"{ "title": "fails", "description": "d", "severity": "required", "steps": [{ "newSession": {} },
      { "expect": { "timeoutMs": 100, "messages": [{ "notification": { "method": "^never$" } }] } }] }"#;
    for name in ["one.jsont", "two.jsont", "three.jsont"] {
        file(dir.path(), name, failing);
    }
    let folder = dir.path().display().to_string();
    let count = |more: &[&str]| {
        let mut args = vec![folder.as_str(), "-j", "1", "--format", "json"];
        args.extend(more);
        let results: serde_json::Value = serde_json::from_slice(&comply(&args).stdout).expect("json");
        results["agents"][0]["tests"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--fail-fast"]), 1);
}

#[test]
fn an_agent_that_never_answers_is_told_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let closed = "closed its output before it answered initialize";
    let bodies =
        [("exec cat > /dev/null", closed), ("while read -r line; do :; done", "no answer to initialize")];
    for (body, words) in bodies {
        let agent = script(dir.path(), "mute.sh", body);
        let output = comply(&["--timeout-factor", "0.05", "--command", &agent]);
        let err = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{err}");
        assert!(err.contains(words) && err.contains("INCOMPLETE"), "{err}");
        assert!(err.lines().count() < 10, "{err}");
    }
}

#[test]
fn frames_are_shown_and_agents_of_an_editor_are_found() {
    let dir = tempfile::tempdir().expect("a folder");
    let entry = serde_json::json!({ "agent_servers": { "mine": {
        "command": env!("CARGO_BIN_EXE_acp"), "args": ["mock", "--stdio", "--dialect", "v1"] } } });
    let settings = file(dir.path(), "settings.json", &entry.to_string());
    let args = ["--test", "trn.stdio", "--settings", &settings, "--agent", "mine", "--verbose"];
    let output = comply(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("\n## mine\n"), "{}", stdout(&output));
    assert!(stderr(&output).contains("trn.stdio → {\"jsonrpc\""), "{}", stderr(&output));
    assert_eq!(comply(&["--settings", &settings, "--agent", "other"]).status.code(), Some(2));
}

#[test]
fn secrets_are_shown_only_when_asked_for() {
    let secret = "sk-abcdefghijklmnopqrstuvwx";
    let agent = format!("/no/such/agent --key {secret}");
    let base = ["--test", "trn.stdio", "--format", "json", "--command", &agent];
    assert!(!stdout(&comply(&base)).contains(secret));
    let mut open = base.to_vec();
    open.push("--no-redact");
    assert!(stdout(&comply(&open)).contains(secret));
}

#[test]
fn coverage_names_tests_and_defects_for_each_requirement() {
    let output = comply(&["--coverage"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text.contains("CAN-01")
            && text.contains("cancel.after-first-chunk")
            && text.contains("ignores-cancel")
    );
    assert!(text.contains("208 of 223 requirements on agents are claimed"), "{text}");
}
