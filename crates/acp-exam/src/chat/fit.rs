//! Which tests can be run in a conversation that is already open, and which of them need a hand.

use acp_comply::Program;
use acp_comply::program::{AgentOffer, StubHabits};
use acp_proto::method;
use serde_json::Value;

/// Verbs that a person can be asked to do while a turn runs.
pub(super) const BY_HAND: [&str; 7] = ["open", "prompt", "answer", "cancel", "mode", "option", "list"];

/// How a test can be run in the chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// In the turn that runs, without a person.
    Alone,
    /// In the turn that runs; the person answers questions or presses something.
    Hand,
    /// It ends the turn that runs.
    Turn,
    /// Not in an open conversation, for this reason.
    Not(String),
}

/// Steps that mean a process of its own.
const OWN_START: [(&str, &str); 5] = [
    ("expectAgent", "looks at how the agent is started and ended"),
    ("expectClient", "looks at what a driver says"),
    ("exit", "ends the agent"),
    ("close", "ends the connection"),
    ("stderr", "writes to the agent's standard error"),
];

/// How this test can be run; `source` is its file.
pub(super) fn fit(program: &Program, source: &str) -> Fit {
    let Some(test) = program.client.as_deref() else { return Fit::Not("it is for agents".to_owned()) };
    let not = |why: &str| Fit::Not(format!("{why}; acp comply-client runs it"));
    let file: Value = serde_json::from_str(source).unwrap_or_default();
    let mut steps = Vec::new();
    gather(&file["steps"], &mut steps);
    if let Some(verb) = test.verbs.iter().find(|verb| !BY_HAND.contains(&verb.as_str())) {
        return not(&format!("it needs a start of its own for the verb {verb:?}"));
    }
    let is_there = |key: &str| steps.iter().any(|step| step.get(key).is_some());
    if let Some((_, why)) = OWN_START.iter().find(|(key, _)| is_there(key)) {
        return not(&format!("it {why}"));
    }
    if source.contains("${outside}") || !test.outside.is_empty() {
        return not("it needs files outside the workspace");
    }
    let expects = steps.iter().filter_map(|step| step.get("expect"));
    if expects.into_iter().any(|expect| expect.to_string().contains("${sandbox}")) {
        return not("it needs a session in a folder of its own");
    }
    let first = [method::INITIALIZE, method::SESSION_NEW, method::SESSION_LOAD, method::SESSION_RESUME];
    let changes_start = test.answers.keys().chain(&test.hold).any(|name| first.contains(&name.as_str()));
    let is_usual =
        matches!(test.offer, AgentOffer::Full) && test.version.is_none() && test.auth_methods.is_none();
    if !is_usual || changes_start || test.stub != StubHabits::default() {
        return not("it needs an agent that starts with other offers");
    }
    if steps.iter().any(|step| step["drive"]["verb"] == "prompt" && step["drive"].get("text").is_some()) {
        return not("it needs a prompt with words of its own");
    }
    if test.verbs.contains("cancel") || ends_turn(&steps) {
        return Fit::Turn;
    }
    let asks = [method::SESSION_REQUEST_PERMISSION, method::ELICITATION_CREATE];
    let is_asked = asks.iter().any(|name| source.contains(&format!("\"{name}\"")));
    let is_driven = test.verbs.iter().any(|verb| !["open", "prompt"].contains(&verb.as_str()));
    if is_asked || is_driven { Fit::Hand } else { Fit::Alone }
}

/// The steps, those of repeated blocks included.
fn gather<'v>(steps: &'v Value, found: &mut Vec<&'v Value>) {
    for step in steps.as_array().into_iter().flatten() {
        found.push(step);
        gather(&step["repeat"]["steps"], found);
    }
}

/// Whether the turn in which the test runs ends before the test does.
fn ends_turn(steps: &[&Value]) -> bool {
    let is_end = |step: &&&Value| step["answer"]["to"] == method::SESSION_PROMPT;
    let behind = steps.iter().skip_while(|step| !is_end(step)).any(|step| step.get("answer").is_none());
    let prompts = steps.iter().filter(|step| step["drive"]["verb"] == "prompt").count();
    behind || prompts > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_comply::Defaults;

    fn fit_of(text: &str) -> Fit {
        let program = Program::read("a.jsont", text, &Defaults::default()).program.expect("a test");
        fit(&program, text)
    }

    fn test(more: &str, steps: &str) -> String {
        format!(
            r#"{{ "side": "client", "title": "t", "description": "d", "severity": "advice", {more}
            "steps": [ {{ "drive": {{ "verb": "prompt" }} }}, {steps} ] }}"#
        )
    }

    #[test]
    fn a_test_is_run_where_it_can_be() {
        let alive = r#"{ "alive": {} }"#;
        assert_eq!(fit_of(&test("", alive)), Fit::Alone);
        let cancel = r#"{ "drive": { "verb": "cancel" } }"#;
        assert_eq!(fit_of(&test("", cancel)), Fit::Turn);
        let quit = r#"{ "drive": { "verb": "quit" } }"#;
        assert!(matches!(fit_of(&test("", quit)), Fit::Not(why) if why.contains("quit")));
        let bare = r#""init": { "agentCapabilities": "bare" },"#;
        assert!(matches!(fit_of(&test(bare, alive)), Fit::Not(_)));
        let ask = r#"{ "send": { "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {} } }"#;
        assert_eq!(fit_of(&test("", ask)), Fit::Hand);
        let late = r#"{ "answer": { "to": "session/prompt", "result": {} } }, { "alive": {} }"#;
        assert_eq!(fit_of(&test("", late)), Fit::Turn);
    }
}
