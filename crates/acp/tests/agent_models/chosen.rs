//! Trying a provider, and another one behind it.

use serde_json::json;

use super::driver::{Agent, KEY, Model, acp};
use super::folder;

#[test]
fn a_check_says_what_came_of_one_exchange() {
    let folder = folder();
    let model = Model::start(folder.path(), &json!([]));
    let check = |args: &[&str]| {
        let ran =
            acp().args(["agent", "--check"]).args(args).env("OPENAI_API_KEY", KEY).output().expect("acp");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        assert!(!said.contains(KEY), "{said}");
        (ran.status.code(), said)
    };
    let works = ["--provider", "openai", "--model", "m", "--base-url", &model.url];
    let (code, said) = check(&works);
    assert!(code == Some(0) && said.starts_with("openai, m: answered \""), "{said}");
    let dead = ["--provider", "openai", "--model", "m", "--base-url", "http://127.0.0.1:1"];
    let (code, said) = check(&dead);
    assert!(code == Some(1) && said.starts_with("openai, m: cannot reach openai"), "{said}");
    let behind = format!("openai-chat:n@{}", model.url);
    let (code, said) = check(&[&dead[..], &["--fallback", &behind]].concat());
    assert!(code == Some(1) && said.contains("\nopenai-chat, n: answered"), "{said}");
    let (code, said) = check(&[]);
    assert!(code == Some(0) && said.contains("needs no model"), "{said}");
    let (code, said) = check(&["--provider", "nobody"]);
    assert!(code == Some(2) && said.contains("there is no provider"), "{said}");
}

#[test]
fn another_provider_answers_where_the_first_is_out_of_reach() {
    let folder = folder();
    let model = Model::start(folder.path(), &json!([{"when": "hello", "do": {"text": "from the second"}}]));
    let behind = format!("openai-chat:n@{}", model.url);
    let args = ["--no-state", "--provider", "openai", "--model", "m", "--base-url", "http://127.0.0.1:1"];
    let mut agent = Agent::start(&[&args[..], &["--fallback", &behind]].concat(), &[("OPENAI_API_KEY", KEY)]);
    let session = agent.session(folder.path());
    let answer = agent.prompt(&session, "hello");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(agent.text_of("agent_message_chunk").ends_with("from the second"), "{:#?}", agent.heard);
    assert!(
        agent.text_of("agent_thought_chunk").contains("asking openai-chat instead"),
        "{:#?}",
        agent.heard
    );
    assert_eq!(agent.end().0, Some(0));
}
