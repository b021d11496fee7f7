//! Mistakes that people make when they meet the program, and the answers that help them on.

use std::os::unix::fs::PermissionsExt as _;

use crate::Place;

#[test]
fn a_slip_is_answered_with_what_to_write() {
    let place = Place::new();
    place.write("agent.py", "#!/usr/bin/env python3\n");
    place.write("run.sh", "#!/bin/sh\n");
    let script = place.path.join("run.sh");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    place.write("notes.txt", "one\ntwo\nthree\n");
    for (args, code, words) in [
        (&["info", "python3", "agent.py"][..], 2, "acp info --command \"python3 agent.py\""),
        (&["info", "--command", "run.sh"], 3, "run.sh in this folder is started with ./run.sh"),
        (&["info", "--command", "./agent.py"], 3, "chmod +x agent.py"),
        (&["info"], 2, "or name yours in acp.toml"),
        (&["comply", "agent.py"], 2, "agent.py is read as a test file; to test an agent, use --command"),
        (&["comply", "nothing.jsont"], 2, "or use --command to test an agent"),
        (&["comply", "--area", "rpc"], 2, "did you mean --test 'rpc.*' or --area \"JSON-RPC\"?"),
        (&["mock", "--defect", "ignores-cancle"], 2, "did you mean ignores-cancel"),
        (&["mock", "--variant", "one-chunck"], 2, "did you mean one-chunk?"),
        (&["mock", "--fault", "drop@session/updat"], 0, "did you mean session/update?"),
        (&["mock", "--listen-token", ""], 2, "it is empty"),
        (&["model", "--listen", "http://0.0.0.0:1"], 2, "write http://127.0.0.1:PORT"),
        (&["lint", "notes.txt"], 2, "not a recorded conversation; --record of acp prompt"),
        (&["replay", "notes.txt", "--speed", "2"], 2, "--timing"),
    ] {
        let (ended, out, err) = place.acp(args);
        assert_eq!(ended, code, "{args:?}: {out}{err}");
        assert!(format!("{out}{err}").contains(words), "{args:?}: {out}{err}");
        assert!(format!("{out}{err}").lines().count() < 12, "{args:?}: {out}{err}");
    }
}

#[test]
fn what_is_listed_for_people_is_listed_for_programs() {
    let place = Place::new();
    for args in [
        &["explain", "PERM-03", "init.agent-info", "--format", "json"][..],
        &["suites", "list", "--format", "json"],
        &["comply", "--list-tests", "--test", "init.*", "--format", "json"],
    ] {
        let (code, out, err) = place.acp(args);
        assert_eq!(code, 0, "{args:?}: {err}");
        let list: Vec<serde_json::Value> = serde_json::from_str(&out).expect("a list");
        assert!(!list.is_empty() && list.iter().all(serde_json::Value::is_object), "{args:?}: {out}");
    }
}
