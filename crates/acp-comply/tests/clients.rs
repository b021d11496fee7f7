//! Tests of clients can be read: the examples of the manual, and what is wrong in a file is said.

use std::path::Path;

use acp_comply::program::{AgentOffer, ClientStep, PermissionHabit, StepKind};
use acp_comply::{Defaults, Program, Reading, in_order_of_needs};

fn read(text: &str) -> Reading {
    Program::read("client.example.jsont", text, &Defaults::default())
}

/// The fenced JSON blocks of the page.
fn blocks() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/client-suite.md");
    let text = std::fs::read_to_string(page).unwrap();
    text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap_or("").to_owned()).collect()
}

#[test]
fn the_examples_of_the_manual_have_no_diagnostics() {
    let tests: Vec<String> =
        blocks().into_iter().filter(|text| text.contains("\"side\": \"client\"")).collect();
    assert!(tests.len() >= 4, "only {} examples", tests.len());
    for text in tests {
        let reading = read(&text);
        assert!(reading.diagnostics.is_empty(), "{:#?}", reading.diagnostics);
        let program = reading.program.unwrap();
        assert!(program.client.is_some() && program.is_claimed());
    }
}

#[test]
fn the_parts_of_a_client_test_arrive_in_the_program() {
    let text = r#"{ "side": "client", "title": "T", "description": "D", "severity": "required",
        "requirements": ["C-CAN-02"], "own": ["permission"],
        "sandbox": { "files": [{ "path": "a.txt", "text": "a" }, { "path": "l.txt", "link": "${outside}/c.txt" }],
                     "outside": [{ "path": "c.txt", "text": "canary" }] },
        "init": { "agentCapabilities": "bare", "permission": "leave", "hold": ["session/cancel"],
                  "answers": { "session/new": [{ "error": { "code": -32000, "message": "m" } }, { "merge": {}, "afterMs": 1500 }] },
                  "stub": { "ignores": ["TERM"], "child": true } },
        "steps": [
            { "drive": { "verb": "prompt", "text": "go in ${sandbox}" } },
            { "expectAgent": { "launch": 1, "stdin": "^pipe$", "captures": [{ "path": "pid", "var": "agent" }] } },
            { "expectProcess": { "pid": "${agent}", "running": true } },
            { "drive": { "verb": "cancel" }, "unless": "no cancel came" },
            { "alive": {}, "shows": ["C-CAN-02"] },
            { "expectFile": { "path": "${outside}/c.txt", "exact": "canary" } },
            { "expectHttp": { "absent": true, "timeoutMs": 200 } } ] }"#;
    let reading = read(text);
    assert!(reading.diagnostics.is_empty(), "{:#?}", reading.diagnostics);
    let program = reading.program.unwrap();
    let client = program.client.as_deref().unwrap();
    assert!(matches!(client.offer, AgentOffer::Bare));
    assert_eq!(client.permission, PermissionHabit::Leave);
    assert_eq!(client.answers["session/new"].len(), 2);
    assert_eq!((client.links.len(), client.outside.len(), program.sandbox.len()), (1, 1, 1));
    assert_eq!(client.verbs.iter().map(String::as_str).collect::<Vec<_>>(), ["cancel", "prompt"]);
    let StepKind::Client(step) = &program.steps[0].kind else { panic!("a drive step") };
    assert!(matches!(step.as_ref(), ClientStep::Drive { verb, .. } if verb == "prompt"));
    assert_eq!(program.outline()[0], "let the client prompt (\"go in ${sandbox}\")");
}

#[test]
fn what_is_wrong_in_a_client_test_is_said() {
    for (steps, words) in [
        (r#"[{ "drive": { "verb": "promt" } }]"#, "drivers have no verb"),
        (r#"[{ "drive": {} }]"#, "needs \"verb\""),
        (r#"[{ "newSession": {} }]"#, "unknown step kind"),
        (r#"[{ "answer": { "to": "x" } }]"#, "an answer is a result or an error"),
        (r#"[{ "exit": {}, "shows": ["C-CAN-02"] }]"#, "this step expects nothing"),
        (r#"[{ "expectAgent": { "launch": 0 } }]"#, "this is no launch"),
        (r#"[{ "expectFile": { "path": "../x", "exact": "y" } }]"#, "leaves the sandbox"),
        (r#"[{ "expectJudged": { "none": [] } }]"#, "expectJudged needs"),
        (r#"[{ "drive": { "verb": "prompt", "text": "${nothing}" } }]"#, "unknown variable"),
    ] {
        let text = format!(
            r#"{{ "side": "client", "title": "T", "description": "D", "severity": "required",
                 "requirements": ["C-CAN-02"], "steps": {steps} }}"#
        );
        let said: Vec<String> = read(&text).diagnostics.iter().map(|said| said.message.clone()).collect();
        assert!(said.iter().any(|said| said.contains(words)), "{steps}: {said:?}");
    }
}

#[test]
fn an_agent_test_does_not_know_the_steps_of_client_tests() {
    let text = r#"{ "title": "T", "description": "D", "severity": "required", "steps": [{ "drive": { "verb": "open" } }] }"#;
    assert!(read(text).program.unwrap().not_understood.is_some());
}

#[test]
fn tests_stand_behind_those_that_provide_what_they_need() {
    let program = |needs: &str, provides: &str| {
        let text = format!(
            r#"{{ "side": "client", "title": "T", "description": "D", "severity": "required", "requirements": ["C-SES-05"],
                 "needs": [{needs}], "steps": [{{ "drive": {{ "verb": "open" }}, "provides": [{provides}] }}] }}"#
        );
        read(&text).program.unwrap()
    };
    let tests = [program("\"b\"", ""), program("\"a\"", "\"b\""), program("", "\"a\""), program("\"x\"", "")];
    assert_eq!(in_order_of_needs(&tests), [vec![2, 3], vec![1], vec![0]]);
    let circle = [program("\"a\"", "\"b\""), program("\"b\"", "\"a\"")];
    assert_eq!(in_order_of_needs(&circle), [vec![0, 1]]);
}
