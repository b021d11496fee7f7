//! Permission requests and elicitations.

mod common;

use std::os::unix::fs::symlink;

use acp_host::{Ask, Elicited, OfferedCapabilities, ProviderSettings, UserAnswer, UserQuestion};
use acp_policy::{Policy, PolicyRules, ToolPatterns};
use acp_rpc::Frame;
use common::{World, request, settings};
use serde_json::{Value, json};
use tokio::sync::mpsc;

fn asking(kind: &str, input: &Value) -> Value {
    json!({
        "sessionId": "s",
        "toolCall": {"toolCallId": "c1", "title": "Do it", "kind": kind, "rawInput": input},
        "options": [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ],
    })
}

fn chosen(result: &Value) -> &str {
    match result["outcome"]["outcome"].as_str() {
        Some("selected") => result["outcome"]["optionId"].as_str().expect("an option"),
        other => other.expect("an outcome"),
    }
}

fn with_person(policy: Policy) -> (World, mpsc::Receiver<UserQuestion>) {
    let (person, questions) = mpsc::channel(4);
    (World::with(ProviderSettings { person: Some(person), ..settings(policy) }), questions)
}

#[tokio::test]
async fn policies_choose_among_the_agents_options() {
    for (policy, kind, expected) in [
        (Policy::Yolo, "execute", "yes"),
        (Policy::Write, "edit", "yes"),
        (Policy::Write, "execute", "no"),
        (Policy::Read, "read", "yes"),
        (Policy::Read, "edit", "no"),
        (Policy::None, "read", "no"),
        (Policy::Plan, "read", "no"),
        (Policy::Default, "read", "no"),
        (Policy::Yolo, "a kind of the future", "yes"),
        (Policy::Write, "a kind of the future", "no"),
    ] {
        let world = World::with(settings(policy));
        let answer = world.ask("session/request_permission", asking(kind, &json!({}))).await;
        let result = answer.outcome.expect("an outcome");
        assert_eq!(chosen(&result), expected, "{policy} on {kind}");
        assert!(!answer.log.is_empty());
    }
}

#[tokio::test]
async fn an_option_that_is_not_offered_is_never_chosen() {
    let world = World::with(settings(Policy::None));
    let mut params = asking("edit", &json!({}));
    params["options"] = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
    let result = world.result("session/request_permission", params).await;
    assert_eq!(result, json!({"outcome": {"outcome": "cancelled"}}));
}

#[tokio::test]
async fn permission_is_baseline_and_its_params_are_checked() {
    let world =
        World::with(ProviderSettings { offer: OfferedCapabilities::default(), ..settings(Policy::Yolo) });
    let result = world.result("session/request_permission", asking("edit", &json!({}))).await;
    assert_eq!(chosen(&result), "yes");
    assert_eq!(world.error("session/request_permission", json!({"sessionId": "s"})).await.code, -32602);
}

#[tokio::test]
async fn patterns_read_the_command_from_the_calls_input() {
    let rules = PolicyRules {
        allow: ToolPatterns::parse(["Bash(git *)"]).expect("a pattern"),
        deny: ToolPatterns::parse(["Bash(git push *)"]).expect("a pattern"),
        policy: Policy::Default,
    };
    let world = World::with(ProviderSettings { rules, ..settings(Policy::Default) });
    for (input, expected) in [
        (json!({"command": "git status"}), "yes"),
        (json!({"cmd": ["git", "log", "a b"]}), "yes"),
        (json!({"command": "git status; rm -rf /"}), "no"),
        (json!({"commands": ["git status", "rm x"]}), "no"),
        (json!({"command": "git push origin"}), "no"),
        (json!({}), "no"),
    ] {
        let result = world.result("session/request_permission", asking("execute", &input)).await;
        assert_eq!(chosen(&result), expected, "{input}");
    }
}

fn denying(pattern: &str) -> ProviderSettings {
    let deny = ToolPatterns::parse([pattern]).expect("a pattern");
    ProviderSettings {
        rules: PolicyRules { deny, ..PolicyRules::of(Policy::Yolo) },
        ..settings(Policy::Yolo)
    }
}

#[tokio::test]
async fn a_denied_file_is_denied_by_every_name_it_has() {
    let prepare = |world: &World| {
        std::fs::create_dir(world.root.join("secret")).expect("a folder");
        std::fs::create_dir(world.root.join("sub")).expect("a folder");
        std::fs::write(world.root.join("secret/key"), "secret").expect("a file");
        symlink("secret/key", world.root.join("link")).expect("a link");
        symlink(world.root.join("secret"), world.root.join("sub/folder")).expect("a link");
    };
    let world = World::with(denying("Read(secret/**), Edit(secret/**)"));
    prepare(&world);
    let root = world.root.display();
    for name in [
        "secret/key",
        "sub/../secret/key",
        "/secret/key",
        "./secret/key",
        "link",
        "sub/folder/key",
        "sub/folder/new",
    ] {
        let path = format!("{root}/{name}");
        for answer in [world.read(path.as_ref()).await, world.write(path.as_ref(), "x").await] {
            let error = answer.outcome.expect_err(name);
            assert_eq!(error.data.expect("data")["reason"], "permission_denied", "{name}");
        }
        let result = world.result("session/request_permission", asking("edit", &json!({"path": path}))).await;
        assert_eq!(chosen(&result), "no", "{name}");
    }
    let error = world.read(&world.root.join("link")).await.outcome.expect_err("denied");
    let words = format!("link: it leads to {root}/secret/key, denied by the pattern Read(secret/**)");
    assert!(error.message.ends_with(&words), "{error}");
    world.read(&world.root.join("secret/../hello.txt")).await.outcome.expect("another file");
}

#[tokio::test]
async fn a_folder_that_is_denied_by_the_name_of_a_link_is_denied_by_its_own_too() {
    let world = World::with(denying("Read(sub/door/**), Edit(sub/door/**)"));
    std::fs::create_dir_all(world.root.join("secret/deep")).expect("a folder");
    std::fs::create_dir(world.root.join("sub")).expect("a folder");
    std::fs::write(world.root.join("secret/deep/key"), "secret").expect("a file");
    symlink("../secret", world.root.join("sub/door")).expect("a link");
    for name in ["sub/door/deep/key", "secret/deep/key", "secret/new"] {
        let path = world.root.join(name);
        for answer in [world.read(&path).await, world.write(&path, "x").await] {
            let error = answer.outcome.expect_err(name);
            assert_eq!(error.data.expect("data")["reason"], "permission_denied", "{name}");
        }
    }
    world.read(&world.root.join("hello.txt")).await.outcome.expect("another file");
}

#[tokio::test]
async fn a_denied_file_is_denied_in_a_folder_with_two_names() {
    for by_real_name in [true, false] {
        let temp = tempfile::tempdir().expect("a folder");
        let base = temp.path().canonicalize().expect("a real path");
        let (real, alias) = (base.join("real"), base.join("alias"));
        std::fs::create_dir_all(real.join("secret")).expect("a folder");
        std::fs::write(real.join("secret/key"), "secret").expect("a file");
        symlink(&real, &alias).expect("a link");
        symlink("secret/key", real.join("link")).expect("a link");
        let named = if by_real_name { &real } else { &alias };
        let world = World::with(denying(&format!("Read({}/secret/**)", named.display())));
        world.providers.open_session_at("t", &alias).expect("a session");
        for path in [alias.join("secret/key"), alias.join("link"), real.join("link")] {
            let error = world.error("fs/read_text_file", json!({"sessionId": "t", "path": path})).await;
            assert_eq!(error.data.expect("data")["reason"], "permission_denied", "{}", path.display());
        }
    }
}

#[tokio::test]
async fn what_updates_said_of_the_call_counts() {
    let world = World::with(settings(Policy::Write));
    let update = json!({"sessionId": "s", "update": {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Edit", "kind": "edit"}});
    let mut params = asking("edit", &json!({}));
    params["toolCall"] = json!({"toolCallId": "c1"});
    let before = world.result("session/request_permission", params.clone()).await;
    assert_eq!(chosen(&before), "no", "a call of unknown kind may do anything");
    world.providers.observe(&Frame::notification("session/update", &update));
    let after = world.result("session/request_permission", params).await;
    assert_eq!(chosen(&after), "yes");
}

#[tokio::test]
async fn a_person_is_asked_with_the_agents_own_options() {
    let (world, mut questions) = with_person(Policy::Default);
    let asked = world.ask("session/request_permission", asking("execute", &json!({"command": "make"})));
    let person = async {
        let question = questions.recv().await.expect("a question");
        let Ask::Permission { title, options, .. } = &question.ask else { panic!("{question:?}") };
        assert_eq!((title.as_str(), options.len()), ("Do it", 3));
        question.answer(UserAnswer::Option("always".to_owned()));
    };
    let (answer, ()) = tokio::join!(asked, person);
    assert_eq!(chosen(&answer.outcome.expect("an outcome")), "always");
    assert!(answer.log.iter().any(|r| r.reason.contains("the person chose")), "{:?}", answer.log);
}

#[tokio::test]
async fn an_option_that_the_person_made_up_is_not_sent() {
    let (world, mut questions) = with_person(Policy::Default);
    let asked = world.ask("session/request_permission", asking("execute", &json!({})));
    let person =
        async { questions.recv().await.expect("a question").answer(UserAnswer::Option("root".to_owned())) };
    let (answer, ()) = tokio::join!(asked, person);
    assert_eq!(chosen(&answer.outcome.expect("an outcome")), "cancelled");
}

#[tokio::test]
async fn cancelling_the_turn_answers_every_pending_permission_cancelled() {
    let (world, mut questions) = with_person(Policy::Default);
    world.providers.turn_began("s");
    let pending = [7, 8].map(|id| {
        tokio::spawn(world.providers.answer(&request(
            id,
            "session/request_permission",
            &asking("edit", &json!({})),
        )))
    });
    let mut first = questions.recv().await.expect("a question");
    let second = questions.recv().await.expect("another");
    world.providers.cancel_session("s");
    for task in pending {
        let answer = task.await.expect("answered");
        assert_eq!(chosen(&answer.outcome.expect("an outcome")), "cancelled");
    }
    first.stale().await;
    assert!(second.is_stale());
    let late = world.result("session/request_permission", asking("edit", &json!({}))).await;
    assert_eq!(chosen(&late), "cancelled", "the turn is still being cancelled");
    world.providers.turn_ended("s");
}

#[tokio::test]
async fn a_cancelled_request_is_answered_so() {
    let (world, _questions) = with_person(Policy::Default);
    let waiting =
        world.providers.answer(&request(5, "session/request_permission", &asking("edit", &json!({}))));
    world.providers.observe(&Frame::notification("$/cancel_request", &json!({"requestId": 5})));
    assert_eq!(waiting.await.outcome.expect_err("cancelled").code, -32800);
}

#[tokio::test]
async fn what_was_permitted_in_a_turn_needs_no_second_question() {
    let (world, mut questions) = with_person(Policy::Default);
    let path = world.root.join("new");
    world.providers.turn_began("s");
    let asked = world.ask("session/request_permission", asking("edit", &json!({"path": path})));
    let person =
        async { questions.recv().await.expect("a question").answer(UserAnswer::Option("yes".to_owned())) };
    tokio::join!(asked, person);
    world.write(&path, "x").await.outcome.expect("no second question");
    world.providers.turn_ended("s");

    world.providers.turn_began("s");
    let write = world.write(&path, "y");
    let person = async {
        let question = questions.recv().await.expect("a new turn, a new question");
        assert!(matches!(question.ask, Ask::Access { .. }));
        question.answer(UserAnswer::No);
    };
    let (answer, ()) = tokio::join!(write, person);
    answer.outcome.expect_err("the person said no");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "x");
}

fn form() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    json!({"sessionId": "s", "mode": "form", "message": "Who?", "requestedSchema": schema})
}

#[tokio::test]
async fn elicitation_is_declined_when_nobody_is_there() {
    let world = World::new();
    assert_eq!(world.result("elicitation/create", form()).await, json!({"action": "decline"}));
}

#[tokio::test]
async fn elicitation_modes_are_held_to_the_offer() {
    let offer = OfferedCapabilities { elicitation_form: true, ..OfferedCapabilities::default() };
    let world = World::with(ProviderSettings { offer, ..settings(Policy::Yolo) });
    let url = json!({"sessionId": "s", "mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "e"});
    assert_eq!(world.error("elicitation/create", url).await.code, -32602);
    let unknown = json!({"sessionId": "s", "mode": "_x", "message": "m"});
    assert_eq!(world.error("elicitation/create", unknown).await.code, -32602);
    let no_schema = json!({"sessionId": "s", "mode": "form", "message": "m"});
    assert_eq!(world.error("elicitation/create", no_schema).await.code, -32602);
}

#[tokio::test]
async fn a_persons_answers_reach_the_agent() {
    let (world, mut questions) = with_person(Policy::Default);
    let content = json!({"name": "Ada"});
    for (elicited, expected) in [
        (
            Elicited::Accept(content.as_object().expect("an object").clone()),
            json!({"action": "accept", "content": content}),
        ),
        (Elicited::Decline, json!({"action": "decline"})),
        (Elicited::Cancel, json!({"action": "cancel"})),
    ] {
        let asked = world.result("elicitation/create", form());
        let person =
            async { questions.recv().await.expect("a question").answer(UserAnswer::Elicited(elicited)) };
        let (result, ()) = tokio::join!(asked, person);
        assert_eq!(result, expected);
    }
}
