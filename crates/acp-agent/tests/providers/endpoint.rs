//! Against the scripted model endpoint: the same conversation over every wire.

use std::time::Duration;

use acp_agent::provider::{Block, ChatRequest, Message, MessageRole, Piece, Stop};
use acp_model::{EndpointSettings, ModelEndpoint, ModelScript};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{PROVIDERS, ask, fails, notices, provider, text, words};

async fn endpoint(rules: &Value) -> ModelEndpoint {
    let script = ModelScript::from_value(rules).expect("a script");
    let (pace, keep_alive) = (Duration::from_millis(1), Duration::from_millis(20));
    ModelEndpoint::start(EndpointSettings { script, pace, keep_alive, ..EndpointSettings::default() })
        .await
        .expect("an endpoint")
}

fn requests(endpoint: &ModelEndpoint) -> Vec<Value> {
    endpoint.journal().entries().into_iter().filter(|entry| entry["event"] == "request").collect()
}

#[tokio::test]
async fn words_come_in_pieces_with_thoughts_usage_and_a_reason_to_stop() {
    let rules = json!([{"when": "hello", "do": {"think": "easy one", "text": "one two three", "usage": {"input": 11, "output": 4}}}]);
    let endpoint = endpoint(&rules).await;
    for (name, path) in PROVIDERS {
        let (outcome, pieces) = ask(&*provider(name, &endpoint.url()), words("hello")).await;
        assert_eq!(outcome, Ok(Stop::EndTurn), "{name}");
        assert_eq!(text(&pieces), "one two three", "{name}");
        assert_eq!(
            pieces.iter().filter(|piece| matches!(piece, Piece::Text(_))).count(),
            3,
            "{name}: {pieces:?}"
        );
        let thought: String = pieces
            .iter()
            .filter_map(|piece| if let Piece::Thought(text) = piece { Some(text.as_str()) } else { None })
            .collect();
        assert_eq!(thought, "easy one", "{name}");
        assert_eq!(pieces.last(), Some(&Piece::Usage { input: 11, output: 4 }), "{name}");
        let asked = requests(&endpoint).pop().expect("a request");
        assert_eq!((&asked["path"], &asked["model"]), (&json!(path), &json!("m")), "{name}");
        assert_eq!((&asked["stream"], &asked["systemChars"]), (&json!(true), &json!(21)), "{name}");
    }
}

#[tokio::test]
async fn calls_at_once_get_their_results_and_then_the_answer() {
    let rules = json!([{"when": "do both", "do": [
        {"text": "Two things."},
        {"calls": [{"tool": "read_file", "args": {"path": "a \"b\""}}, {"tool": "run_command", "args": {"command": "ls"}}]},
        {"text": "The last one said ${result}."},
    ]}]);
    let endpoint = endpoint(&rules).await;
    for (name, _) in PROVIDERS {
        let provider = provider(name, &endpoint.url());
        let mut request = words("do both");
        let (outcome, pieces) = ask(&*provider, request.clone()).await;
        assert_eq!(outcome, Ok(Stop::ToolCalls), "{name}");
        let calls = calls(&pieces);
        let told: Vec<_> = calls.iter().map(|(_, name, args)| (name.as_str(), args.clone())).collect();
        assert_eq!(
            told,
            [("read_file", json!({"path": "a \"b\""})), ("run_command", json!({"command": "ls"}))],
            "{name}"
        );
        assert!(!calls[0].0.is_empty() && calls[0].0 != calls[1].0, "{name}: {calls:?}");
        answer_with(&mut request, &pieces, &["first", "second"]);
        let (outcome, pieces) = ask(&*provider, request).await;
        assert_eq!(
            (outcome, text(&pieces).as_str()),
            (Ok(Stop::EndTurn), "The last one said second."),
            "{name}"
        );
        let asked = requests(&endpoint).pop().expect("a request");
        assert_eq!(asked["turns"], json!(["user", "assistant", "result", "result"]), "{name}");
        assert_eq!(asked["tools"], json!(["read_file", "run_command"]), "{name}");
    }
}

fn calls(pieces: &[Piece]) -> Vec<(String, String, Value)> {
    let call = |piece: &Piece| match piece {
        Piece::ToolCall { id, name, arguments } => Some((id.clone(), name.clone(), arguments.clone())),
        _ => None,
    };
    pieces.iter().filter_map(call).collect()
}

/// What a turn does with an answer: its pieces become the model's message, and the tools answer.
fn answer_with(request: &mut ChatRequest, pieces: &[Piece], results: &[&str]) {
    let mut said = vec![Block::Text(text(pieces))];
    let mut answers = Vec::new();
    for (piece, result) in pieces
        .iter()
        .filter(|piece| matches!(piece, Piece::ToolCall { .. }))
        .zip(results.iter().map(|text| (*text).to_owned()))
    {
        let Piece::ToolCall { id, name, arguments } = piece else { continue };
        let (id, name) = (id.clone(), name.clone());
        said.push(Block::ToolCall { id: id.clone(), name: name.clone(), arguments: arguments.clone() });
        answers.push(Block::ToolResult { id, name, text: result, is_error: false });
    }
    request.messages.push(Message { role: MessageRole::Assistant, blocks: said });
    request.messages.push(Message { role: MessageRole::User, blocks: answers });
}

#[tokio::test]
async fn the_reasons_to_stop_are_told_apart() {
    let endpoint = endpoint(&json!([
        {"when": "too long", "do": [{"text": "this is"}, {"stop": "length"}]},
        {"when": "not that", "do": [{"text": "no"}, {"stop": "refusal"}]},
        {"when": {"user": "cut call", "step": 0}, "do": [{"calls": [{"tool": "run_command", "args": {"command": "rm"}}]}, {"stop": "length"}]},
    ]))
    .await;
    for (name, _) in PROVIDERS {
        let provider = provider(name, &endpoint.url());
        assert_eq!(ask(&*provider, words("too long")).await.0, Ok(Stop::MaxTokens), "{name}");
        assert_eq!(ask(&*provider, words("not that")).await.0, Ok(Stop::Refusal), "{name}");
        // What the limit cut off may be the half of a dangerous call.
        let (outcome, pieces) = ask(&*provider, words("cut call")).await;
        assert_eq!((outcome, calls(&pieces)), (Ok(Stop::MaxTokens), Vec::new()), "{name}");
    }
}

#[tokio::test]
async fn pictures_arrive() {
    let endpoint = endpoint(&json!([])).await;
    for (name, _) in PROVIDERS {
        let mut request = words("Say 'seen'");
        let picture = Block::Image { mime_type: "image/png".to_owned(), data: "iVBORw0KGgo=".to_owned() };
        request.messages[0].blocks.push(picture);
        let (outcome, pieces) = ask(&*provider(name, &endpoint.url()), request).await;
        assert_eq!((outcome, text(&pieces).trim()), (Ok(Stop::EndTurn), "seen"), "{name}");
        assert_eq!(requests(&endpoint).pop().expect("a request")["images"], 1, "{name}");
    }
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_and_the_person_is_told() {
    for status in [429, 500, 503, 529] {
        for (name, _) in PROVIDERS {
            let endpoint = endpoint(&json!([
                {"when": "go", "times": 1, "do": {"error": {"status": status, "message": "slow down", "retryAfter": 0}}},
                {"when": "go", "do": {"text": "better now"}},
            ]))
            .await;
            let (outcome, pieces) = ask(&*provider(name, &endpoint.url()), words("go")).await;
            assert_eq!(
                (outcome, text(&pieces).as_str()),
                (Ok(Stop::EndTurn), "better now"),
                "{name} {status}"
            );
            let notices = notices(&pieces);
            assert!(
                notices.len() == 1 && notices[0].contains("slow down") && notices[0].contains("asking again"),
                "{name}: {notices:?}"
            );
            assert_eq!(requests(&endpoint).len(), 2, "{name}");
        }
    }
}

#[tokio::test]
async fn a_provider_that_stays_broken_is_given_up_with_its_words() {
    let endpoint =
        endpoint(&json!([{"when": "go", "do": {"error": {"status": 500, "message": "on fire"}}}])).await;
    for (n, (name, _)) in PROVIDERS.into_iter().enumerate() {
        let (error, pieces) = fails(&*provider(name, &endpoint.url()), "go").await;
        let error = error.to_string();
        assert!(
            error.contains("500") && error.contains("on fire") && error.contains("(tried 3 times)"),
            "{error}"
        );
        assert_eq!((notices(&pieces).len(), text(&pieces).as_str()), (2, ""), "{name}");
        assert_eq!(requests(&endpoint).len(), 3 * (n + 1), "{name}");
    }
}

#[tokio::test]
async fn an_answer_that_ends_in_the_middle_is_told_and_not_asked_again() {
    let endpoint = endpoint(&json!([
        {"when": "cut", "do": [{"text": "half an "}, {"cut": true}]},
        {"when": "break", "do": [{"text": "half an "}, {"error": {"status": 529, "type": "overloaded_error", "message": "too many"}}]},
    ]))
    .await;
    for (n, (name, _)) in PROVIDERS.into_iter().enumerate() {
        let provider = provider(name, &endpoint.url());
        let (error, pieces) = fails(&*provider, "cut").await;
        assert!(
            error.to_string().contains("broke off: the connection ended in the middle"),
            "{name}: {error}"
        );
        assert_eq!(text(&pieces), "half an ", "{name}");
        let (error, pieces) = fails(&*provider, "break").await;
        assert!(error.to_string().contains("broke off: overloaded_error: too many"), "{name}: {error}");
        assert_eq!(text(&pieces), "half an ", "{name}");
        assert_eq!(requests(&endpoint).len(), 2 * (n + 1), "{name}");
    }
}

#[tokio::test]
async fn dropping_the_answer_ends_the_connection_at_once() {
    let endpoint = endpoint(&json!([{"when": "hang", "do": {"stall": true}}])).await;
    for (n, (name, _)) in PROVIDERS.into_iter().enumerate() {
        let provider = provider(name, &endpoint.url());
        let (to, mut from) = mpsc::channel(4);
        {
            let answering = provider.turn(words("hang"), to);
            tokio::select! {
                outcome = answering => panic!("{name}: a stalled answer ended: {outcome:?}"),
                piece = from.recv() => assert_eq!(piece, Some(Piece::Text("…".to_owned())), "{name}"),
            }
        }
        let ended = async {
            loop {
                let entries = endpoint.journal().entries();
                let ends = entries.iter().filter(|entry| entry["event"] == "end");
                if let Some(end) = ends.into_iter().nth(n) {
                    return end.clone();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let end = tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the endpoint notices");
        assert_eq!((&end["how"], &end["stalled"]), (&json!("peer closed"), &json!(true)), "{name}");
    }
}

#[tokio::test]
async fn the_models_of_a_server_are_listed_and_the_first_is_taken_where_none_is_named() {
    let endpoint = endpoint(&json!([])).await;
    for (name, _) in PROVIDERS {
        let mut choice = super::choice(name, &endpoint.url());
        choice.model = None;
        let opened = acp_agent::provider::open(&choice, &super::with_key);
        let provider = opened.expect("a provider").expect("not the scripted one");
        let before = provider.models();
        assert_eq!((before.len(), before[0].id.as_str()), (1, "auto"), "{name}");
        let (outcome, _) =
            ask(&*provider, ChatRequest { model: "auto".to_owned(), ..words("Say 'x'") }).await;
        assert_eq!(outcome, Ok(Stop::EndTurn), "{name}");
        assert_eq!(requests(&endpoint).pop().expect("a request")["model"], "stub-model", "{name}");
        let listed = provider.discover().await.expect("a list");
        assert_eq!(listed, provider.models(), "{name}");
        let ids: Vec<_> = listed.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["stub-model", "gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro"], "{name}");
        assert!(listed.iter().all(|model| model.context > 0), "{name}");
    }
}
