//! Scripts, in virtual time.

use std::time::Duration;

use acp_rpc::{Frame, Id};
use acp_script::MockAgent;
use acp_script::agent::{AgentConfig, AgentEffect};
use acp_script::script::AgentScript;
use serde_json::{Value, json};

struct Talk {
    player: MockAgent,
    now: Duration,
}

impl Talk {
    fn new(script: &Value) -> Self {
        let script = AgentScript::parse(&script.to_string()).unwrap();
        let mut talk = Self {
            player: MockAgent::new(AgentConfig { script: Some(script), ..AgentConfig::default() }, &[], 1),
            now: Duration::ZERO,
        };
        let can = json!({ "fs": { "readTextFile": true } });
        talk.ask(1, "initialize", &json!({ "protocolVersion": 1, "clientCapabilities": can }));
        talk.ask(2, "session/new", &json!({ "cwd": "/w", "mcpServers": [] }));
        talk
    }

    fn ask(&mut self, id: i64, method: &str, params: &Value) -> Vec<String> {
        self.hear(&Frame::request(&Id::Int(id), method, params))
    }

    fn prompt(&mut self, id: i64, text: &str) -> Vec<String> {
        self.ask(
            id,
            "session/prompt",
            &json!({ "sessionId": "sess_0_1", "prompt": [{ "type": "text", "text": text }] }),
        )
    }

    fn hear(&mut self, frame: &Frame) -> Vec<String> {
        self.player.receive(self.now, frame);
        self.effects()
    }

    fn wait(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.player.tick(self.now);
        self.effects()
    }

    fn effects(&mut self) -> Vec<String> {
        let sent = std::iter::from_fn(|| self.player.poll_effect()).filter_map(|effect| match effect {
            AgentEffect::Send(frame) => Some(frame.text().unwrap().to_owned()),
            _ => None,
        });
        sent.collect()
    }
}

#[test]
fn a_rule_answers_a_wish_with_what_it_captured() {
    let mut talk = Talk::new(&json!({ "rules": [{
        "method": "session/prompt", "wish": "my name is (?P<name>\\w+)",
        "do": [{ "say": "Hello ${name}" }, { "end": "end_turn" }],
    }]}));
    let said = talk.prompt(3, "Hi, my name is Ada").join("\n");
    assert!(said.contains("Hello Ada") && said.contains(r#""stopReason":"end_turn""#), "{said}");
    let plain = talk.prompt(4, "Something else").join("\n");
    assert!(plain.contains("mock agent"), "what no rule means is served as usual: {plain}");
}

#[test]
fn an_answer_of_the_client_becomes_a_variable() {
    let mut talk = Talk::new(&json!({ "rules": [{ "method": "session/prompt", "do": [
        { "ask": { "method": "fs/read_text_file", "params": { "path": "/w/a" }, "as": "file" } },
        { "wait": "2s" },
        { "respond": { "stopReason": "end_turn", "_meta": { "file": "${file}" } } },
    ]}]}));
    let asked = talk.prompt(3, "go");
    assert!(asked[0].contains("fs/read_text_file") && asked[0].contains("sess_0_1"), "{asked:?}");
    assert!(talk.hear(&Frame::response(&Id::Int(0), &json!({ "content": "abc" }))).is_empty());
    let answer = talk.wait(Duration::from_secs(2)).join("\n");
    assert!(answer.contains(r#""file":{"content":"abc"}"#), "{answer}");
}

#[test]
fn a_malformed_answer_ends_the_wait_for_it_and_is_not_answered() {
    for answer in [
        r#"{"jsonrpc":"2.0","id":0,"result":{"content":"abc"},"error":null}"#,
        r#"{"jsonrpc":"2.0","id":0,"error":"no"}"#,
        r#"{"id":0,"result":{"content":"abc"}}"#,
    ] {
        let mut talk = Talk::new(&json!({}));
        let asked = talk.prompt(3, "Read the file /w/a.txt").join("\n");
        assert!(asked.contains("fs/read_text_file"), "{asked}");
        let rest = talk.hear(&Frame::parse(answer)).join("\n");
        assert!(
            rest.contains(r#""status":"failed""#) && rest.contains(r#""stopReason":"end_turn""#),
            "{rest}"
        );
        assert!(!rest.contains(r#""id":null"#), "{rest}");
    }
}

#[test]
fn rules_are_counted_and_requests_can_fail() {
    let mut talk = Talk::new(&json!({ "rules": [
        { "method": "session/list", "times": 1, "do": [{ "fail": { "code": -32050, "message": "not now" } }] },
    ]}));
    assert!(talk.ask(3, "session/list", &json!({})).join("").contains("-32050"));
    assert!(!talk.ask(4, "session/list", &json!({})).join("").contains("-32050"));
}

#[test]
fn silence_lasts_until_it_is_cancelled() {
    let mut talk = Talk::new(&json!({ "rules": [{ "method": "session/prompt", "do": ["silence"] }] }));
    assert!(talk.prompt(3, "go").is_empty());
    assert!(talk.wait(Duration::from_secs(3600)).is_empty());
    let ended =
        talk.hear(&Frame::notification("session/cancel", &json!({ "sessionId": "sess_0_1" }))).join("");
    assert!(ended.contains("cancelled"), "{ended}");
}

#[test]
fn what_the_client_did_is_verified() {
    let mut talk = Talk::new(&json!({ "verify": [
        { "say": "prompts twice", "frame": { "method": "session/prompt" }, "times": 2 },
        { "say": "never loads", "frame": { "method": "session/load" }, "max": 0 },
        { "say": "greets, then begins", "order": [
            { "method": "initialize" }, { "method": "session/new" },
        ] },
    ]}));
    talk.prompt(3, "one");
    assert_eq!(talk.player.agent().complaints(), ["prompts twice: came 1 times instead of 2"]);
    talk.prompt(4, "two");
    assert!(talk.player.agent().complaints().is_empty());
}

#[test]
fn a_bad_script_says_what_is_wrong() {
    for bad in
        ["{", r#"{"rulez":[]}"#, r#"{"rules":[{"wish":"(","do":[]}]}"#, r#"{"rules":[{"do":[{"dance":1}]}]}"#]
    {
        assert!(AgentScript::parse(bad).is_err(), "{bad}");
    }
}
