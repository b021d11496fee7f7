//! Turns of real models, over sockets: what their vendors are told in the later questions of a turn.

use std::sync::Arc;

use acp_agent::provider::Choice;
use acp_agent::{AgentServer, AgentServerSettings};
use serde_json::{Value, json};

use crate::harness::{Place, Talk};
use crate::raw::{Answer, Raw, events, http};

pub(crate) fn agent(place: &Place, provider: &str, model: &Raw) -> Arc<AgentServer> {
    let choice = Choice {
        provider: provider.to_owned(),
        model: Some("m".to_owned()),
        base_url: Some(model.url.clone()),
        ..Choice::default()
    };
    let settings = AgentServerSettings { choice, enable_mcp: false, ..place.settings() };
    let key = |name: &str| name.ends_with("_API_KEY").then(|| "key".to_owned());
    Arc::new(AgentServer::new(settings, &key).expect("an agent"))
}

/// An answer that thinks and then calls a tool, as the vendor streams it.
pub(crate) fn thinks(provider: &str, seal: &str, tool: &str, arguments: &Value) -> Answer {
    let text = arguments.to_string();
    Answer::Bytes(events(&match provider {
        "anthropic" => vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": seal}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": seal, "name": tool, "input": {}}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": text}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}}),
            json!({"type": "message_stop"}),
        ],
        "openai-responses" => vec![
            json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": seal}}),
            json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "id": "f", "call_id": seal, "name": tool, "arguments": ""}}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": text}),
            json!({"type": "response.output_item.done", "output_index": 1, "item": {"type": "function_call", "call_id": seal, "name": tool, "arguments": text}}),
            json!({"type": "response.completed", "response": {"status": "completed", "usage": {}}}),
        ],
        "google" => vec![json!({"candidates": [{"content": {"parts": [
            {"functionCall": {"name": tool, "args": arguments}, "thoughtSignature": seal},
        ]}, "finishReason": "STOP"}]})],
        _ => vec![
            json!({"choices": [{"delta": {"reasoning_content": seal}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": seal, "function": {"name": tool, "arguments": text}}]}, "finish_reason": "tool_calls"}]}),
            json!("[DONE]"),
        ],
    }))
}

/// An answer in words.
pub(crate) fn says(provider: &str, text: &str) -> Answer {
    Answer::Bytes(events(&match provider {
        "anthropic" => vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}),
            json!({"type": "message_stop"}),
        ],
        "openai-responses" => vec![
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": text}),
            json!({"type": "response.completed", "response": {"status": "completed", "usage": {}}}),
        ],
        "google" => {
            vec![json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]})]
        }
        _ => {
            vec![json!({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}), json!("[DONE]")]
        }
    }))
}

/// The model's earlier answers in a question, each as what it thought and called.
fn told(provider: &str, question: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let by = |role: &str, messages: &Value| -> Vec<Value> {
        list(messages).into_iter().filter(|message| message["role"] == role).collect()
    };
    let parts: Vec<Vec<String>> = match provider {
        "anthropic" => {
            let part = |part: &Value| text(part.get("signature").unwrap_or(&part["name"]));
            let messages = by("assistant", &question["messages"]);
            messages.iter().map(|message| list(&message["content"]).iter().map(part).collect()).collect()
        }
        "openai-responses" => {
            let items = list(&question["input"]).into_iter();
            let items = items.filter(|item| item["type"] == "reasoning" || item["type"] == "function_call");
            let items: Vec<_> =
                items.map(|item| text(item.get("encrypted_content").unwrap_or(&item["name"]))).collect();
            items.chunks(2).map(<[String]>::to_vec).collect()
        }
        "google" => {
            let part = |part: &Value| [text(&part["thoughtSignature"]), text(&part["functionCall"]["name"])];
            let messages = by("model", &question["contents"]);
            messages.iter().map(|message| list(&message["parts"]).iter().flat_map(part).collect()).collect()
        }
        _ => {
            let call = |call: &Value| text(&call["function"]["name"]);
            let message = |message: &Value| {
                let calls = list(&message["tool_calls"]);
                [text(&message["reasoning_content"])].into_iter().chain(calls.iter().map(call)).collect()
            };
            by("assistant", &question["messages"]).iter().map(message).collect()
        }
    };
    parts.iter().map(|parts| parts.join(" ")).collect()
}

#[tokio::test]
async fn thoughts_stay_with_their_calls_through_a_long_turn() {
    for provider in ["anthropic", "openai-chat", "openai-responses", "google"] {
        let place = Place::new();
        let read = json!({ "path": "notes.txt" });
        let model = Raw::start(vec![
            thinks(provider, "t1", "read_file", &read),
            thinks(provider, "t2", "update_plan", &json!({ "entries": [] })),
            thinks(provider, "t3", "delegate", &json!({ "task": "look" })),
            thinks(provider, "inner", "read_file", &read),
            says(provider, "It is there."),
            thinks(provider, "t4", "read_file", &read),
            says(provider, "Well."),
        ])
        .await;
        let mut talk = Talk::v1(&agent(&place, provider, &model), &json!({})).await;
        let session = talk.session(&place.work()).await;
        let answer = talk.prompt(&session, "Look around").await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{provider}: {answer}");
        let asked = model.asked();
        let question = &asked.last().expect("a question").body;
        let expected = ["t1 read_file", "t2 update_plan", "t3 delegate", "t4 read_file"];
        assert_eq!(told(provider, question), expected, "{provider}: {question:#}");
        assert_eq!(asked.len(), 7, "{provider}");
    }
}

#[tokio::test]
async fn a_vendor_hears_the_person_last_and_no_notices() {
    let place = Place::new();
    let model = Raw::start(vec![says("anthropic", "\n\n"), says("anthropic", "Well.")]).await;
    let mut talk = Talk::v1(&agent(&place, "anthropic", &model), &json!({})).await;
    let server = json!([{ "name": "x", "command": "/bin/x", "args": [], "env": [] }]);
    let new = talk.ask("session/new", &json!({ "cwd": place.work(), "mcpServers": server })).await;
    let session = new["result"]["sessionId"].clone();
    for prompt in
        [json!([{ "type": "text", "text": "Hello" }]), json!([]), json!([{ "type": "text", "text": " " }])]
    {
        let answer = talk.ask("session/prompt", &json!({ "sessionId": session, "prompt": prompt })).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    }
    assert!(talk.words().contains("start it with --enable-mcp"), "{}", talk.words());
    let said: Vec<Vec<String>> = model.asked().iter().map(|asked| conversation(&asked.body)).collect();
    assert_eq!(said[0], ["user: Hello"]);
    // What was nothing but white space is not said again.
    assert_eq!(said[1], ["user: Hello", "user: (nothing was said)"]);
    assert_eq!(said[2], ["user: Hello", "assistant: Well.", "user: (nothing was said)"]);
}

#[tokio::test]
async fn one_prompt_that_a_vendor_refuses_leaves_the_session_usable() {
    let place = Place::new();
    let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "bad image"}});
    let refusal = http("400 Bad Request", "application/json", "", &body.to_string());
    let model =
        Raw::start(vec![says("anthropic", "Well."), Answer::Bytes(refusal), says("anthropic", "Fine.")])
            .await;
    let mut talk = Talk::v1(&agent(&place, "anthropic", &model), &json!({})).await;
    let session = talk.session(&place.work()).await;
    talk.prompt(&session, "Hello").await;
    let refused = talk.prompt(&session, "Look at this").await;
    let words = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("bad image; the session goes on without this prompt"), "{refused}");
    assert_eq!(talk.prompt(&session, "And now?").await["result"]["stopReason"], "end_turn");
    let said = conversation(&model.asked()[2].body);
    assert_eq!(said, ["user: Hello", "assistant: Well.", "user: And now?"]);
}

#[tokio::test]
async fn a_refused_prompt_is_gone_even_when_a_notice_followed_it() {
    let place = Place::new();
    let refusal = http("400 Bad Request", "application/json", "", "{}");
    let model = Raw::start(vec![Answer::Bytes(refusal), says("anthropic", "Fine.")]).await;
    let mut talk = Talk::v1(&agent(&place, "anthropic", &model), &json!({})).await;
    let server = json!([{ "name": "s", "command": "/bin/x", "args": [], "env": [] }]);
    let new = talk.ask("session/new", &json!({ "cwd": place.work(), "mcpServers": server })).await;
    let session = new["result"]["sessionId"].as_str().expect("a session");
    let refused = talk.prompt(session, "Look at this").await;
    assert!(refused["error"].is_object(), "{refused}");
    assert!(talk.words().contains("start it with --enable-mcp"), "{}", talk.words());
    assert_eq!(talk.prompt(session, "And now?").await["result"]["stopReason"], "end_turn");
    assert_eq!(conversation(&model.asked()[1].body), ["user: And now?"]);
}

fn conversation(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().expect("messages").iter();
    let blocks = messages.flat_map(|message| {
        let role = message["role"].as_str().unwrap_or_default();
        let blocks = message["content"].as_array().expect("blocks").iter();
        blocks.map(move |block| format!("{role}: {}", block["text"].as_str().unwrap_or("-")))
    });
    blocks.collect()
}
