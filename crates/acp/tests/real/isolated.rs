//! `--isolate`: a network with loopback only, and what tried to leave it.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::{acp, agent, end_of_turn, results, write_test};

#[test]
fn an_isolated_agent_reaches_its_model_and_nothing_else_and_the_results_say_so() {
    if std::env::var("ACP_SKIP").is_ok_and(|skip| skip.split(',').any(|word| word == "netns")) {
        eprintln!("left out: ACP_SKIP has netns");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_test(folder.path(), "isolated", "Say hello", &json!([]), &json!([end_of_turn()]));
    for (manner, attempts) in [("good", false), ("reaches-out", true)] {
        let mut command = acp();
        command.args(["comply", &file, "--isolate", "--command", &agent(manner)]);
        let output = command.output().expect("acp starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !said.contains("does not let us have a network"),
            "{said}: allow it, or leave this test out with ACP_SKIP=netns"
        );
        let (_, results) = results(&mut command);
        let run = &results["agents"][0];
        assert_eq!(run["tests"][0]["verdict"], "PASS", "{run}");
        let isolation = &run["isolation"];
        assert_eq!(isolation["loopbackOnly"], true, "{isolation}");
        let tried = isolation["outside"]["noRoute"].as_u64().expect("a count");
        assert_eq!(tried > 0, attempts, "{manner}: {isolation}");
    }
}

#[test]
fn a_system_that_does_not_permit_it_is_a_clear_word() {
    let folder = tempfile::tempdir().expect("a folder");
    let unshare = folder.path().join("unshare");
    std::fs::write(&unshare, "#!/bin/sh\necho 'unshare: Operation not permitted' >&2\nexit 1\n")
        .expect("a file");
    std::fs::set_permissions(&unshare, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let output = acp().env("PATH", path).args(["comply", "--isolate", "--test", "trn.stdio"]).output();
    let output = output.expect("acp starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("Operation not permitted") && said.contains("leave --isolate out"), "{said}");
}
