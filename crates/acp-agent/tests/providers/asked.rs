//! What goes over the wire: what vendors insist on is there, whatever the turn left behind.

use acp_agent::provider::{Block, ChatRequest, Effort, Message, MessageRole, Piece, Remote};
use serde_json::{Value, json};

use super::raw::{Asked, Raw, events};
use super::{ask, provider, settings, words};

fn done() -> Vec<u8> {
    events(&[json!({"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}), json!("[DONE]")])
}

/// What a provider asks a server that then says something it need not understand.
async fn asked(name: &str, request: ChatRequest) -> Asked {
    let server = Raw::bytes(done()).await;
    let _ = ask(&*provider(name, &server.url), request).await;
    server.asked().into_iter().next().expect("a request")
}

fn call(id: &str, arguments: Value) -> Block {
    Block::ToolCall { id: id.to_owned(), name: "read_file".to_owned(), arguments }
}

fn result(id: &str, text: &str) -> Block {
    Block::ToolResult {
        id: id.to_owned(),
        name: "read_file".to_owned(),
        text: text.to_owned(),
        is_error: false,
    }
}

fn conversation(messages: Vec<(MessageRole, Vec<Block>)>) -> ChatRequest {
    let mut request = words("begin");
    request.messages.extend(messages.into_iter().map(|(role, blocks)| Message { role, blocks }));
    request
}

#[tokio::test]
async fn every_call_has_a_result_and_nothing_is_empty() {
    let request = conversation(vec![
        (
            MessageRole::Assistant,
            vec![Block::Text(String::new()), call("c1", json!({})), call("c2", json!("{bad"))],
        ),
        // The second call was cancelled; words came with the result of the first.
        (MessageRole::User, vec![Block::Text("go on".to_owned()), result("c1", ""), result("stray", "?")]),
        (MessageRole::Assistant, vec![]),
        (MessageRole::User, vec![Block::Text("and now?".to_owned())]),
    ]);
    let body = asked("anthropic", request.clone()).await.body;
    let messages = body["messages"].as_array().expect("messages");
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap_or_default()).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "{body:#}");
    let never = "The tool did not run: the turn ended before.";
    assert_eq!(
        messages[1]["content"],
        json!([
            {"type": "tool_use", "id": "c1", "name": "read_file", "input": {}},
            {"type": "tool_use", "id": "c2", "name": "read_file", "input": {"not_an_object": "{bad"}},
        ])
    );
    assert_eq!(
        messages[2]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "c1", "content": "(nothing)"},
            {"type": "tool_result", "tool_use_id": "c2", "content": never, "is_error": true},
            {"type": "text", "text": "go on"},
            {"type": "text", "text": "and now?", "cache_control": {"type": "ephemeral"}},
        ])
    );
    let body = asked("openai-chat", request.clone()).await.body;
    let roles: Vec<_> = body["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user", "user"], "{body:#}");
    let body = asked("google", request).await.body;
    let response = &body["contents"][2]["parts"][0]["functionResponse"];
    assert_eq!((&response["name"], &response["id"]), (&json!("read_file"), &json!("c1")), "{body:#}");
}

#[tokio::test]
async fn white_space_is_not_said_and_nobody_but_the_person_or_a_tool_is_last() {
    let blank = || Block::Text(" \n\n".to_owned());
    let said = |text: &str| vec![Block::Text(text.to_owned())];
    let request = conversation(vec![
        (MessageRole::Assistant, vec![blank(), call("c1", json!({}))]),
        (MessageRole::User, vec![result("c1", "\n"), blank()]),
        (MessageRole::Assistant, vec![blank()]),
        (MessageRole::User, vec![blank()]),
        (MessageRole::Assistant, said("well")),
    ]);
    let nothing = json!({"type": "text", "text": "(nothing was said)"});
    let mut body = asked("anthropic", request).await.body;
    for block in body["messages"].as_array_mut().into_iter().flatten() {
        let blocks = block["content"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
        blocks.for_each(|block| drop(block.remove("cache_control")));
    }
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "begin"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read_file", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "(nothing)"}, nothing]},
            {"role": "assistant", "content": [{"type": "text", "text": "well"}]},
            {"role": "user", "content": [nothing]},
        ])
    );
    let nobody = ChatRequest { messages: Vec::new(), ..words("") };
    let messages = asked("openai-chat", nobody).await.body["messages"].clone();
    assert_eq!(messages[1], json!({"role": "user", "content": "(nothing was said)"}));
}

#[tokio::test]
async fn what_is_sealed_for_what_never_came_stays_at_home() {
    for (name, wire, kept) in [
        ("anthropic", "messages", false),
        ("openai-responses", "responses", false),
        ("google", "gemini", true),
    ] {
        let seal = Block::Seal(json!({"wire": wire, "data": "SEALED"}).to_string());
        let request = conversation(vec![
            (MessageRole::Assistant, vec![call("c1", json!({})), seal]),
            (MessageRole::User, vec![result("c1", "seen")]),
        ]);
        let body = asked(name, request).await.body.to_string();
        assert_eq!(body.contains("SEALED"), kept, "{name}: {body}");
    }
}

#[tokio::test]
async fn the_limit_has_the_name_that_the_server_knows() {
    let chat = asked("openai-chat", words("x")).await.body;
    assert_eq!((&chat["max_tokens"], chat.get("max_completion_tokens")), (&json!(4000), None));
    assert_eq!(asked("openai-responses", words("x")).await.body["max_output_tokens"], 4000);
    assert_eq!(asked("google", words("x")).await.body["generationConfig"]["maxOutputTokens"], 4000);
    assert_eq!(asked("anthropic", words("x")).await.body["max_tokens"], 4000);
}

#[tokio::test]
async fn what_does_not_change_is_marked_for_the_vendors_cache() {
    let body = asked("anthropic", words("x")).await.body;
    assert_eq!(
        body["system"],
        json!([{"type": "text", "text": "Working directory: /w", "cache_control": {"type": "ephemeral"}}])
    );
}

/// Thinks, calls, and is asked again.
async fn second_question(name: &str, stream: &[Value], then: Option<&str>) -> Value {
    let server = Raw::bytes(events(stream)).await;
    let provider = Remote::new(settings(name, &server.url)).expect("a provider");
    let (outcome, pieces) = ask(&provider, words("begin")).await;
    outcome.expect("an answer");
    let blocks: Vec<_> = pieces
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Seal(seal) => Some(Block::Seal(seal)),
            Piece::Text(text) => Some(Block::Text(text)),
            Piece::ToolCall { id, name, arguments } => Some(Block::ToolCall { id, name, arguments }),
            Piece::Dropped(_) | Piece::Thought(_) | Piece::Notice(_) | Piece::Usage { .. } => None,
        })
        .collect();
    let mut messages =
        vec![(MessageRole::Assistant, blocks), (MessageRole::User, vec![result("c1", "seen")])];
    if let Some(text) = then {
        messages.push((MessageRole::Assistant, vec![Block::Text("done".to_owned())]));
        messages.push((MessageRole::User, vec![Block::Text(text.to_owned())]));
    }
    let _ = ask(&provider, conversation(messages)).await;
    server.asked().into_iter().nth(1).expect("a second question").body
}

#[tokio::test]
async fn sealed_thinking_goes_back_in_its_place() {
    let messages = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "SEALED"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c1", "name": "read_file", "input": {}}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}}),
        json!({"type": "message_stop"}),
    ];
    let body = second_question("anthropic", &messages, None).await;
    let content = &body["messages"][1]["content"];
    assert_eq!(content[0], json!({"type": "thinking", "thinking": "hm", "signature": "SEALED"}), "{body:#}");
    assert_eq!(content[1]["type"], "tool_use");

    let frames = [json!({"candidates": [{"content": {"parts": [
        {"text": "hm", "thought": true},
        {"functionCall": {"id": "c1", "name": "read_file", "args": {}}, "thoughtSignature": "SEALED"},
        {"functionCall": {"id": "c2", "name": "read_file", "args": {}}},
    ]}, "finishReason": "STOP"}]})];
    let body = second_question("google", &frames, None).await;
    let parts = &body["contents"][1]["parts"];
    assert_eq!(
        (&parts[0]["thoughtSignature"], parts[1].get("thoughtSignature")),
        (&json!("SEALED"), None),
        "{body:#}"
    );

    let chunks = [
        json!({"choices": [{"delta": {"reasoning_content": "hm"}}]}),
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}),
        json!("[DONE]"),
    ];
    let body = second_question("openai-chat", &chunks, None).await;
    assert_eq!(body["messages"][2]["reasoning_content"], "hm", "{body:#}");
    // Once the person speaks again, old thoughts stay away.
    let body = second_question("openai-chat", &chunks, Some("next")).await;
    assert_eq!(body["messages"][2].get("reasoning_content"), None, "{body:#}");
}

#[tokio::test]
async fn seals_of_another_provider_stay_at_home() {
    let foreign =
        json!({"wire": "messages", "data": {"type": "thinking", "signature": "SEALED"}}).to_string();
    let blocks = vec![Block::Seal(foreign), Block::Seal("no seal".to_owned()), Block::Text("hi".to_owned())];
    let request = conversation(vec![
        (MessageRole::Assistant, blocks),
        (MessageRole::User, vec![Block::Text("next".to_owned())]),
    ]);
    for name in ["google", "openai-chat", "openai-responses"] {
        let body = asked(name, request.clone()).await.body.to_string();
        assert!(!body.contains("SEALED") && !body.contains("no seal"), "{name}: {body}");
    }
    assert!(asked("anthropic", request).await.body.to_string().contains("SEALED"));
}

#[tokio::test]
async fn how_much_to_think_is_the_persons_choice_while_the_thoughts_are_there() {
    let thinking = |effort| ChatRequest { effort, ..words("x") };
    assert_eq!(asked("openai-chat", thinking(None)).await.body.get("reasoning_effort"), None);
    assert_eq!(asked("openai-chat", thinking(Some(Effort::Low))).await.body["reasoning_effort"], "low");
    assert_eq!(asked("anthropic", thinking(Some(Effort::Low))).await.body["thinking"]["type"], "enabled");
    // After calls whose thoughts are gone, the vendor would refuse.
    let seal = json!({"wire": "messages", "data": {"type": "thinking", "signature": "SEALED"}}).to_string();
    for (first, expected) in [(Block::Seal(seal), Some("enabled")), (Block::Text("hm".to_owned()), None)] {
        let said = vec![first, call("c1", json!({}))];
        let mut request = conversation(vec![
            (MessageRole::Assistant, said),
            (MessageRole::User, vec![result("c1", "seen")]),
        ]);
        request.effort = Some(Effort::High);
        let body = asked("anthropic", request).await.body;
        assert_eq!(body["thinking"]["type"].as_str(), expected, "{body:#}");
    }
}
