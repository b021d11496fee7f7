//! Installed agents by name: a private home, a clean environment, requests to set the session up, a port.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::{AGENT, acp, end_of_turn, results, write_test};

/// Puts the small agent where an installation of this agent would be.
pub fn install(cache: &Path, folder: &str, program: &str, package: &str) {
    let folder = cache.join("agents").join(folder);
    let bin = folder.join("node_modules/.bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    std::fs::copy(AGENT, bin.join(program)).expect("a program");
    std::fs::set_permissions(bin.join(program), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let mark = json!({"bin": "node_modules/.bin", "packages": {"npm": [package], "pip": []}});
    std::fs::write(folder.join("installed.json"), mark.to_string()).expect("a mark");
}

fn comply(cache: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let mut command = acp();
    command.env("ACP_CACHE_DIR", cache).env("ACP_TEST_SECRET", "plum").arg("comply").args(args);
    let (output, results) = results(&mut command);
    (output.status.code(), results["agents"][0].clone())
}

#[test]
fn an_agent_that_is_not_installed_is_named_with_what_to_do() {
    let cache = tempfile::tempdir().expect("a folder");
    for command in ["comply", "harness"] {
        let mut acp = acp();
        let output = acp.env("ACP_CACHE_DIR", cache.path()).args([command, "--agent", "qwen"]).output();
        let output = output.expect("acp starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("acp profiles install qwen"), "{said}");
    }
}

#[test]
fn an_installed_agent_runs_in_a_home_of_its_own_with_its_session_set_up() {
    let cache = tempfile::tempdir().expect("a folder");
    install(cache.path(), "qwen-0.24.4", "qwen", "@qwen-code/qwen-code@0.24.4");
    let after = json!([
        end_of_turn(),
        { "expectFile": {"path": "set-up.json", "text":
            "(?=.*\"modeId\": \"default\")(?=.*\"secret\": null)(?=.*\"settings\": true)(?=.*\"home\": \"${home}\")(?=.*127\\.0\\.0\\.1)" } }
    ]);
    let file = write_test(cache.path(), "set-up", "Say hello", &json!([]), &after);
    let (code, agent) = comply(cache.path(), &[&file, "--agent", "qwen"]);
    assert_eq!((code, &agent["tests"][0]["verdict"]), (Some(0), &json!("PASS")), "{agent}");
    assert_eq!((&agent["version"], &agent["target"]), (&json!("0.24.4"), &json!("qwen --acp")));
}

#[test]
fn an_agent_that_can_listen_is_reached_over_tcp() {
    let cache = tempfile::tempdir().expect("a folder");
    install(cache.path(), "copilot-1.0.102", "copilot", "@github/copilot@1.0.102");
    let file = write_test(cache.path(), "over-tcp", "Say hello", &json!([]), &json!([]));
    let (code, agent) = comply(cache.path(), &[&file, "--agent", "copilot", "--tcp"]);
    assert_eq!(code, Some(0), "{agent}");
    assert!(agent["target"].as_str().is_some_and(|target| target.starts_with("tcp://127.0.0.1")), "{agent}");
}

#[test]
fn an_agent_that_does_not_listen_is_an_answer() {
    let cache = tempfile::tempdir().expect("a folder");
    install(cache.path(), "qwen-0.24.4", "qwen", "@qwen-code/qwen-code@0.24.4");
    let program = cache.path().join("agents/qwen-0.24.4/node_modules/.bin/qwen");
    std::fs::write(program, "#!/bin/sh\necho unknown option >&2\nexit 2\n").expect("a program");
    let file = write_test(cache.path(), "over-tcp", "Say hello", &json!([]), &json!([]));
    let (code, agent) = comply(cache.path(), &[&file, "--agent", "qwen", "--tcp"]);
    assert_eq!(code, Some(3), "{agent}");
    let fault = agent["fault"].as_str().unwrap_or_default();
    assert!(fault.contains("does not listen") && fault.contains("--port"), "{fault}");
}

/// The one real agent that the tests install (`scripts/fetch-agent-fixtures.sh`).
#[test]
fn a_real_agent_runs_whole_turns_offline() {
    if std::env::var("ACP_SKIP").is_ok_and(|skip| skip.split(',').any(|word| word == "npm")) {
        eprintln!("left out: ACP_SKIP has npm");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let cache = target.join("fixtures/agents-cache");
    assert!(
        cache.join("agents").is_dir(),
        "no agent in {}: run scripts/fetch-agent-fixtures.sh, or leave this test out with ACP_SKIP=npm",
        cache.display()
    );
    let tests = ["required.*", "permission.rejected-command", "mcp.call", "terminal.off"];
    let mut args = vec!["--agent", "gemini", "--timeout-factor", "20", "-j", "2"];
    tests.iter().for_each(|test| args.extend(["--test", test]));
    let (code, agent) = comply(&cache, &args);
    // This agent breaks requirements of its own (`models` at the root of a result); that is no failure of the run.
    assert!(matches!(code, Some(0 | 1)), "{code:?}: {}", agent["tests"]);
    let passed = |id: &str| {
        agent["tests"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|test| test["id"] == id && test["verdict"] == "PASS")
    };
    assert!(passed("mcp.call") && passed("required.initialize"), "{}", agent["tests"]);
    let share =
        agent["cost"]["runnerMs"].as_f64().unwrap_or(1.0) / agent["cost"]["agentMs"].as_f64().unwrap_or(1.0);
    assert!(share < 0.10, "the runner took {:.1} % of the agent's time", share * 100.0);
}
