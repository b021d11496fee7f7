//! `acp agent` with a model: the real binary against the real `acp model`, over every wire, and against models that
//! misbehave.

mod chosen;
mod driver;
mod hardship;
mod manual;
mod tasks;
mod tls;

use std::path::Path;

use driver::{Agent, KEY, Model, acp, prompt};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

/// Every provider, its variable for the key, and its variable for the address.
const PROVIDERS: [(&str, &str, &str); 6] = [
    ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    ("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ("openai-chat", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ("openai-responses", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ("google", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    ("ollama", "OLLAMA_API_KEY", "OLLAMA_HOST"),
];

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn agent(provider: &str, url: &str, folder: &Path) -> Agent {
    let path = folder.display().to_string();
    let args =
        ["--provider", provider, "--model", "m", "--allow-edit", "--no-state", "--debug", "--path", &path];
    let keys: Vec<_> =
        PROVIDERS.iter().flat_map(|(_, key, address)| [(*key, KEY), (*address, url)]).collect();
    Agent::start(&args, &keys)
}

fn write_rules() -> Value {
    json!([{"when": "greet (\\w+)", "do": [
        {"think": "A file will do."},
        {"text": "I will write. "},
        {"call": {"intent": "write", "path": "hello.txt", "text": "hello ${1}"}},
        {"text": "The tool said: ${result}"},
    ]}])
}

#[test]
fn a_model_calls_a_tool_permission_is_asked_the_file_is_written_and_the_answer_comes() {
    for (provider, ..) in PROVIDERS {
        let folder = folder();
        let model = Model::start(folder.path(), &write_rules());
        let mut agent = agent(provider, &model.url, folder.path());
        let session = agent.session(folder.path());
        let answer = agent.prompt(&session, "greet world");
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{provider}: {answer}");
        let written = std::fs::read_to_string(folder.path().join("hello.txt")).expect("the file");
        assert_eq!(written.trim_end(), "hello world", "{provider}");
        assert_eq!(agent.asked("session/request_permission"), 1, "{provider}");
        assert!(
            agent.text_of("agent_message_chunk").starts_with("I will write. The tool said: "),
            "{provider}"
        );
        assert_eq!(agent.text_of("agent_thought_chunk"), "A file will do.", "{provider}");
        let call = agent.updates_of("tool_call").next().expect("a call").clone();
        assert_eq!(call["kind"], "edit", "{provider}: {call}");
        let done = agent.updates_of("tool_call_update").filter(|update| update["status"] == "completed");
        assert_eq!(done.count(), 1, "{provider}");
        assert!(agent.updates_of("usage_update").count() > 0, "{provider}: the usage is told");
        let (code, errors) = agent.end();
        assert_eq!(code, Some(0), "{provider}: {errors}");
        assert!(!errors.contains(KEY), "{provider}: the key is in the debug lines: {errors}");
    }
}

#[test]
fn what_a_person_refuses_is_not_done_and_the_model_is_told() {
    for (provider, ..) in PROVIDERS {
        let folder = folder();
        let model = Model::start(folder.path(), &write_rules());
        let mut agent = agent(provider, &model.url, folder.path());
        agent.permit = "reject_once";
        let session = agent.session(folder.path());
        let answer = agent.prompt(&session, "greet world");
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{provider}: {answer}");
        assert!(!folder.path().join("hello.txt").exists(), "{provider}");
        let failed = agent.updates_of("tool_call_update").filter(|update| update["status"] == "failed");
        assert_eq!(failed.count(), 1, "{provider}");
        assert!(agent.text_of("agent_message_chunk").contains("The tool said: "), "{provider}");
    }
}

#[test]
fn several_calls_at_once_are_all_answered() {
    let rules = json!([{"when": "both", "do": [
        {"calls": [{"intent": "read", "path": "a.txt"}, {"intent": "read", "path": "b.txt"}]},
        {"text": "and the last was ${result}"},
    ]}]);
    for (provider, ..) in PROVIDERS {
        let folder = folder();
        for name in ["a", "b"] {
            std::fs::write(folder.path().join(format!("{name}.txt")), format!("text of {name}"))
                .expect("a file");
        }
        let model = Model::start(folder.path(), &rules);
        let mut agent = agent(provider, &model.url, folder.path());
        let session = agent.session(folder.path());
        assert_eq!(agent.prompt(&session, "both")["result"]["stopReason"], "end_turn", "{provider}");
        assert_eq!(agent.updates_of("tool_call").count(), 2, "{provider}");
        assert!(agent.text_of("agent_message_chunk").contains("and the last was text of b"), "{provider}");
    }
}

#[test]
fn the_reasons_to_stop_reach_the_client() {
    let rules = json!([
        {"when": "long|was cut off", "do": [{"text": "this is"}, {"stop": "length"}]},
        {"when": "never", "do": [{"text": "no"}, {"stop": "refusal"}]},
    ]);
    let folder = folder();
    let model = Model::start(folder.path(), &rules);
    for (provider, ..) in PROVIDERS {
        let mut agent = agent(provider, &model.url, folder.path());
        let session = agent.session(folder.path());
        // It is asked to go on, and told so to the person, before that is the end.
        assert_eq!(agent.prompt(&session, "long")["result"]["stopReason"], "max_tokens", "{provider}");
        let said = agent.text_of("agent_message_chunk");
        assert_eq!(said.matches("this is").count(), 4, "{provider}: {said}");
        assert!(said.contains("4 times in a row"), "{provider}: {said}");
        assert_eq!(agent.prompt(&session, "never")["result"]["stopReason"], "refusal", "{provider}");
    }
}

#[test]
fn a_cancelled_turn_ends_at_once_and_the_session_goes_on() {
    let rules =
        json!([{"when": "hang", "do": {"stall": true}}, {"when": "hello", "do": {"text": "hi again"}}]);
    let folder = folder();
    let model = Model::start(folder.path(), &rules);
    for (provider, ..) in PROVIDERS {
        let mut agent = agent(provider, &model.url, folder.path());
        let session = agent.session(folder.path());
        let id = agent.send("session/prompt", &prompt(&session, "hang"));
        agent.until(|frame| frame["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
        agent.tell("session/cancel", &json!({"sessionId": session}));
        let answer = agent.until(|frame| frame["id"] == id);
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{provider}: {answer}");
        assert_eq!(agent.prompt(&session, "hello")["result"]["stopReason"], "end_turn", "{provider}");
        assert!(agent.text_of("agent_message_chunk").contains("hi again"), "{provider}");
    }
}

#[test]
fn a_broken_model_ends_the_turn_with_words_and_the_session_goes_on() {
    let rules = json!([
        {"when": "key", "times": 1, "do": {"error": {"status": 401, "message": "no such key"}}},
        {"when": "half", "times": 1, "do": [{"text": "half an "}, {"cut": true}]},
        {"when": "busy", "times": 1, "do": {"error": {"status": 429, "message": "slow down", "retryAfter": 0}}},
        {"when": "busy", "do": {"text": "now then"}},
        {"when": "hello", "do": {"text": "all is well"}},
    ]);
    for (provider, key, _) in PROVIDERS {
        let folder = folder();
        let model = Model::start(folder.path(), &rules);
        let mut agent = agent(provider, &model.url, folder.path());
        let session = agent.session(folder.path());
        let refused = agent.prompt(&session, "key");
        let words = refused["error"].to_string();
        assert!(words.contains("no such key") && words.contains(key), "{provider}: {refused}");
        let cut = agent.prompt(&session, "half");
        assert!(cut["error"].to_string().contains("in the middle of the answer"), "{provider}: {cut}");
        assert!(agent.text_of("agent_message_chunk").contains("half an "), "{provider}: what came is shown");
        let answer = agent.prompt(&session, "busy");
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{provider}: {answer}");
        assert!(
            agent.text_of("agent_thought_chunk").contains("asking again"),
            "{provider}: the wait is explained"
        );
        assert_eq!(agent.prompt(&session, "hello")["result"]["stopReason"], "end_turn", "{provider}");
        assert!(agent.text_of("agent_message_chunk").ends_with("all is well"), "{provider}");
        let (_, errors) = agent.end();
        assert!(!errors.contains(KEY) && !words.contains(KEY), "{provider}: {errors}");
    }
}

#[test]
fn a_model_that_calls_what_is_not_there_is_told_so() {
    let rules = json!([{"when": "odd", "do": [
        {"call": {"tool": "launch_rocket", "args": {"to": "moon"}}},
        {"call": {"tool": "read_file", "args": {"line": "x"}}},
        {"text": "it said: ${result}"},
    ]}]);
    let folder = folder();
    let model = Model::start(folder.path(), &rules);
    let mut agent = agent("openai-chat", &model.url, folder.path());
    let session = agent.session(folder.path());
    let answer = agent.prompt(&session, "odd");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let said = agent.text_of("agent_message_chunk");
    assert!(said.contains("path"), "the model learns what is missing: {said}");
    let failed: Vec<_> =
        agent.updates_of("tool_call_update").filter(|update| update["status"] == "failed").collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
}

#[test]
fn nobody_at_the_address_is_said_in_words() {
    let folder = folder();
    // It has a port, and never listens there.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let url = format!("http://{}", socket.local_addr().expect("an address"));
    let mut agent = agent("ollama", &url, folder.path());
    let session = agent.session(folder.path());
    let error = agent.prompt(&session, "hello")["error"].to_string();
    assert!(error.contains("cannot reach ollama") && error.contains(&url), "{error}");
    assert!(error.contains("is the server running?"), "{error}");
}

#[test]
fn a_provider_that_cannot_be_used_ends_the_agent_before_it_begins() {
    for (args, words) in [
        (vec!["--provider", "anthropic"], "ANTHROPIC_API_KEY"),
        (vec!["--provider", "openai", "--model", "x"], "OPENAI_API_KEY"),
        (vec!["--provider", "google"], "GEMINI_API_KEY"),
        (vec!["--provider", "nobody"], "there is no provider \"nobody\"; there are scripted, anthropic"),
        (vec!["--provider", "openai", "--base-url", "localhost"], "--base-url is no address"),
    ] {
        let ran = acp().arg("agent").args(&args).output().expect("acp runs");
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {err}");
        assert!(out.is_empty() && err.contains(words), "{args:?}: {out}{err}");
    }
}
