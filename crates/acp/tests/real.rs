//! Agents with a model: rules of a test, plain wishes, agents that misuse the model, and installed agents by name.

#[path = "real/connected.rs"]
mod connected;
#[path = "real/installed.rs"]
mod installed;
#[path = "real/isolated.rs"]
mod isolated;
#[path = "real/model.rs"]
mod model;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The small agent of these tests.
pub const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/agent.py");

/// The binary under test.
pub fn acp() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_acp"));
    command.env("NO_COLOR", "1");
    command
}

/// A test file with one prompt, the rules for the model, and what is expected after the prompt was sent.
pub fn write_test(folder: &Path, name: &str, prompt: &str, rules: &Value, after: &Value) -> String {
    let mut steps = serde_json::json!([
        { "newSession": {"capture": "sessionId"} },
        { "send": {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {
            "sessionId": "${sessionId}", "prompt": [{"type": "text", "text": prompt}] }} }
    ]);
    if let (Some(steps), Some(after)) = (steps.as_array_mut(), after.as_array()) {
        steps.extend(after.iter().cloned());
    }
    let test = serde_json::json!({
        "title": name, "description": name, "severity": "required", "docs": [], "sandbox": {"files": []},
        "model": rules, "steps": steps
    });
    let path = folder.join(format!("{name}.jsont"));
    std::fs::write(&path, test.to_string()).expect("the test is written");
    path.display().to_string()
}

/// The turn ends as it should.
pub fn end_of_turn() -> Value {
    serde_json::json!({ "expect": {"timeoutMs": 20000, "messages": [{"response": {"id": 2, "result": {"stopReason": "^end_turn$"}}}]} })
}

/// Runs `acp comply` with JSON results.
pub fn results(command: &mut Command) -> (Output, Value) {
    let output = command.args(["--format", "json"]).output().expect("acp starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr)));
    (output, value)
}

/// The small agent as a command line, behaving in this manner.
pub fn agent(manner: &str) -> String {
    format!("python3 {AGENT} {manner} ${{modelUrl}}")
}
