//! What is left of `acp` in a build with fewer features, and what it says about the rest. `scripts/test features` runs this
//! with none of them.

use std::process::{Command, Output};

fn acp(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acp")).args(args).output().expect("acp starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs something that needs a feature: it works, or the feature that it lacks is named.
fn needs(feature: &str, is_built: bool, args: &[&str]) {
    let output = acp(args);
    if is_built {
        assert_eq!(output.status.code(), Some(0), "acp {args:?}: {}", stderr(&output));
    } else {
        assert_eq!(output.status.code(), Some(2), "acp {args:?}: {}", stderr(&output));
        let words = format!("is not in this build: build acp-workbench with the feature {feature:?}");
        assert!(stderr(&output).contains(&words), "acp {args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_command_is_there_or_names_the_feature_that_it_lacks() {
    needs("agent", cfg!(feature = "agent"), &["agent", "--help"]);
    needs("code", cfg!(feature = "code"), &["code", "--help"]);
    needs("mcp", cfg!(feature = "mcp"), &["mcp-stub", "--help"]);
    needs("nats", cfg!(feature = "nats"), &["tasks", "--help"]);
    needs("agent", cfg!(feature = "agent"), &["prompt", "--agent", "reference", "Say 'one'"]);
}

#[test]
#[cfg(not(feature = "nats"))]
fn a_proxy_without_nats_says_so() {
    let output = acp(&["proxy", "--agent", "mock", "--nats", "nats://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("feature \"nats\""), "{}", stderr(&output));
}

#[test]
fn every_build_judges_mocks_and_talks() {
    let prompt = acp(&["prompt", "--agent", "mock", "Say 'one'"]);
    assert_eq!(prompt.status.code(), Some(0), "{}", stderr(&prompt));
    let comply = acp(&["comply", "--agent", "mock", "--test", "required.initialize"]);
    assert_eq!(comply.status.code(), Some(0), "{}", stderr(&comply));
}

#[test]
fn a_test_that_needs_the_stub_mcp_server_does_not_apply_without_it() {
    let output = acp(&["comply", "--agent", "mock", "--test", "mcp.stdio", "--format", "json"]);
    let results = String::from_utf8_lossy(&output.stdout).into_owned();
    let says_so = results.contains("the stub MCP server, which is not in this build");
    assert_eq!(says_so, !cfg!(feature = "mcp"), "{results}");
}
