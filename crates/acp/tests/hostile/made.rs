//! What is made of an agent's words later, and what lies in a folder of files.

use super::*;

#[test]
fn what_is_made_of_results_is_harmless() {
    let place = Place::new();
    let poisoned = |name: &str| {
        let mut frame = place.frames[name].clone();
        let mut places = Vec::new();
        strings(&frame, String::new(), &mut places);
        for pointer in places {
            if let Some(Value::String(text)) = frame.pointer_mut(&pointer) {
                *text = hostile(text, false);
            }
        }
        place.write(name, &frame.to_string());
    };
    poisoned("initialize");
    let agent = place.agent();
    let comply = ["comply", "--command", &agent, "--test", "trn.utf8", "--timeout-factor", "0.1"];
    place.run(&[&comply[..], &["--format", "json", "--out", "results.json"]].concat());
    for args in [
        &["matrix", "results.json"][..],
        &["matrix", "results.json", "--format", "html"],
        &["matrix", "results.json", "--format", "json"],
        &["diff", "results.json", "results.json"],
    ] {
        let screen = place.run(args);
        assert!(!screen.contains("unexpected argument"), "{screen}");
        assert_harmless(&screen, &args.join(" "));
    }
    // Its own words are the reason for which scenarios fail.
    poisoned("error");
    for format in ["text", "json", "junit"] {
        let args =
            ["harness", "--command", &agent, "--timeout", "2s", "--scenarios", "happy-path", "--format"];
        let screen = place.run(&[&args[..], &[format]].concat());
        assert!(screen.contains("it did not work"), "{screen}");
        assert_harmless(&screen, &format!("harness --format {format}"));
    }
}

#[test]
fn what_a_folder_of_files_holds_is_harmless() {
    let place = Place::new();
    let name = format!("code{}.rs", hostile("", true).replace('\n', ""));
    place.write(&name, &format!("fn needle() {{ /* {STEERS} */ }}\n"));
    let text = hostile("x", false);
    let server = json!({ "command": text, "args": [text], "env": { (text.clone()): text } });
    place.write("settings.json", &json!({ "agent_servers": { (text.clone()): server } }).to_string());
    place.write("test.jsont", &format!("{{\"title\": \"a\", {STEERS}"));
    place.write("recording\nFORGED\n::error::FORGED\n", "");
    for args in [
        &["code", "search", "needle"][..],
        &["code", "query", "fn $A() { $$$B }"],
        &["code", "extract", &name],
        &["profiles", "--settings", "settings.json"],
        &["profiles", "--settings", "settings.json", "show", &text],
        &["suites", "check", "test.jsont"],
        &["suites", "show", &text],
        &["explain", "test.jsont"],
        &["explain", &text],
        &["comply", "--command", "true", "--suite", "test.jsont"],
        &["lint", "recording\nFORGED\n::error::FORGED\n"],
    ] {
        let screen = place.run(args);
        assert!(!screen.contains("unexpected argument") && !screen.trim().is_empty(), "{screen}");
        assert_harmless(&screen, &args.join(" "));
    }
    // Settings of a checkout, and what cannot be read in them.
    let quoted = Value::from(text.as_str()).to_string();
    let settings = format!("[agents.{quoted}]\ncommand = \"true\"\n[policies.{quoted}]\n");
    for broken in ["", "[agents.x]\ncommand = 1\n"] {
        place.write("acp.toml", &format!("{settings}{broken}"));
        for args in [
            &["doctor"][..],
            &["doctor", "--format", "json"],
            &["info", "--agent", "nobody"],
            &["prompt", "hi", "--agent", "mock", "--policy", "nothing"],
            &["comply", "--agent", "nobody"],
        ] {
            let screen = place.run(args);
            assert!(!screen.trim().is_empty(), "{args:?}");
            assert_harmless(&screen, &args.join(" "));
        }
    }
    std::fs::remove_file(place.path.join("acp.toml")).expect("it was there");
    // Programs get files as they are.
    let piped =
        std::process::Command::new(ACP).args(["code", "extract", &name]).current_dir(&place.path).output();
    let piped = piped.expect("acp runs").stdout;
    assert!(String::from_utf8_lossy(&piped).contains(STEERS), "{piped:?}");
}

/// A test of a suite that can be run, with hostile words wherever it may have its own.
#[test]
fn the_tests_of_a_checkout_are_harmless() {
    let place = Place::new();
    let text = hostile("x", false);
    let answers = json!([{ "response": { "id": 0, "result": { "no": "^x$" } },
        "accepts": [{ "response": { "id": 0, "result": { "no": 1 } }, "inconclusive": text }] }]);
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": 1, "clientCapabilities": {}, "x": text } });
    let test = json!({ "title": text, "description": text, "area": text, "severity": "required",
        "docs": [format!("https://example.com/{text}"), "::error::x"], "requirements": ["INIT-01"], "aliases": [text],
        "steps": [{ "send": hello }, { "expect": { "timeoutMs": 50, "messages": answers }, "unless": text,
            "shows": ["INIT-01"] }] });
    let name = format!("sound{}.jsont", STEERS.replace('\r', ""));
    place.write(&name, &test.to_string());
    let agent = place.agent();
    for args in [&["explain", &name][..], &["suites", "check", &name]] {
        assert_harmless(&place.run(args), &args.join(" "));
    }
    let comply = ["comply", "--suite", &name, "--command", &agent, "--timeout-factor", "0.1"];
    for more in [
        &["--list-tests"][..],
        &["--verbose"],
        &["--format", "markdown"],
        &["--format", "table"],
        &["--format", "tap"],
        &["--format", "junit"],
        &["--format", "json"],
        &["--format", "sarif"],
        &["--format", "html"],
        &["--format", "json", "--out", "results.json"],
    ] {
        let screen = place.run(&[&comply[..], more].concat());
        assert!(screen.contains("sound") && !screen.contains("1 error"), "it can be run: {screen}");
        assert_harmless(&screen, &more.join(" "));
    }
    for args in [
        &["matrix", "results.json"][..],
        &["matrix", "results.json", "--format", "html"],
        &["diff", "results.json", "results.json"],
    ] {
        assert_harmless(&place.run(args), &args.join(" "));
    }
}
