//! Whole turns with the example agent of the TypeScript SDK.

use std::path::Path;
use std::process::Stdio;

use crate::processes::signal;
use crate::{ACP, acp, prompt, workspace};

/// The command line of the example agent; `None` when these tests are left out on purpose.
fn example() -> Option<String> {
    if std::env::var("ACP_SKIP").is_ok_and(|skip| skip.split(',').any(|word| word == "npm")) {
        eprintln!("left out: needs npm (ACP_SKIP)");
        return None;
    }
    let target = Path::new(ACP).parent().and_then(Path::parent).expect("the target folder");
    let file = target.join("fixtures/ts-sdk/node_modules/@agentclientprotocol/sdk/dist/examples/agent.js");
    assert!(
        file.is_file(),
        "this test needs node and the npm package @agentclientprotocol/sdk 0.28.1: run scripts/fetch-npm-fixtures.sh, \
         or leave it out with ACP_SKIP=npm ({} is missing)",
        file.display()
    );
    Some(format!("node {}", file.display()))
}

#[test]
fn npm_a_turn_with_permission_given() {
    let Some(agent) = example() else { return };
    let (_temp, folder) = workspace();
    // The example edits a file outside of the session's folder, which `write` does not approve unasked.
    let (code, out, err) = prompt(&folder, &["--command", &agent, "--policy", "yolo", "hi"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("* done    Modifying critical configuration file (edit)"), "{out}");
    assert!(out.contains("successfully updated the configuration"), "{out}");
}

#[test]
fn npm_a_turn_with_permission_refused() {
    let Some(agent) = example() else { return };
    let (_temp, folder) = workspace();
    let (code, out, _) = prompt(&folder, &["--command", &agent, "--policy", "read", "hi"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("refused Modifying critical configuration file"), "{out}");
    assert!(out.contains("I'll skip the configuration update"), "{out}");
}

#[test]
fn npm_a_turn_cancelled_in_the_middle() {
    let Some(agent) = example() else { return };
    let (_temp, folder) = workspace();
    let mut command = acp(&folder, &["prompt", "--command", &agent], &["hi"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("acp starts");
    let mut out = child.stdout.take().expect("output");
    let mut first = [0; 10];
    std::io::Read::read_exact(&mut out, &mut first).expect("the agent has begun");
    signal(child.id(), "INT");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    assert!(rest.trim_end().ends_with("cancelled"), "{rest}");
}
