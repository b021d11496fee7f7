//! What a client of real models needs beyond the endpoint's own answers: sealed thinking goes back as it came, and
//! servers that are not quite the vendor's are understood.

use acp_model::sse::SseParser;
use acp_model::talk::*;
use acp_model::wire::{self, StreamReader, WireFormat};
use serde_json::{Value, json};

const WIRES: [WireFormat; 4] =
    [WireFormat::Chat, WireFormat::Responses, WireFormat::Messages, WireFormat::Gemini];

fn read(wire: WireFormat, events: &[Value]) -> Collector {
    let (mut parser, mut reader, mut collector) =
        (SseParser::default(), StreamReader::new(wire), Collector::default());
    for event in events {
        let text = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
        parser.push(format!("data: {text}\n\n").as_bytes());
    }
    while let Some(event) = parser.next_event() {
        reader.push(&event).expect("an event of the vendor").into_iter().for_each(|one| collector.push(one));
    }
    reader.finish().into_iter().for_each(|one| collector.push(one));
    collector
}

/// The body of the question that follows this answer.
fn follow_up(wire: WireFormat, parts: Vec<ModelPart>) -> Value {
    let id = parts
        .iter()
        .find_map(|part| match part {
            ModelPart::Call(call) => Some(call.id.clone()),
            _ => None,
        })
        .expect("a call");
    let user = |text: &str| ModelTurn::User(vec![UserPart::Text(text.to_owned())]);
    let result = ToolResult { id, name: "look".to_owned(), text: "seen".to_owned(), is_error: false };
    let turns = vec![user("look"), ModelTurn::Assistant(parts), ModelTurn::Result(result)];
    wire::write_request(wire, &ModelRequest { model: "m".to_owned(), turns, ..ModelRequest::default() })
}

fn stream(wire: WireFormat) -> Vec<Value> {
    match wire {
        WireFormat::Messages => vec![
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "I should "}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "look."}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "SEALED"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "HIDDEN"}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "c1", "name": "look", "input": {}}}),
            json!({"type": "content_block_stop", "index": 2}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}}),
            json!({"type": "message_stop"}),
        ],
        WireFormat::Responses => vec![
            json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
            json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "I should look."}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I should look."}], "encrypted_content": "SEALED"}}),
            json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": ""}}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{}"}),
            json!({"type": "response.output_item.done", "output_index": 1, "item": {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}}),
            json!({"type": "response.completed", "response": {"status": "completed", "usage": {}}}),
        ],
        WireFormat::Gemini => vec![
            json!({"candidates": [{"content": {"parts": [{"text": "I should look.", "thought": true}]}}]}),
            json!({"candidates": [{"content": {"parts": [{"functionCall": {"id": "c1", "name": "look", "args": {}}, "thoughtSignature": "SEALED"}]}, "finishReason": "STOP"}]}),
        ],
        WireFormat::Chat => vec![
            json!({"choices": [{"delta": {"reasoning": "I should "}}]}),
            json!({"choices": [{"delta": {"reasoning": "look."}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}),
            json!("[DONE]"),
        ],
    }
}

#[test]
fn sealed_thinking_goes_back_as_it_came_and_only_where_it_came_from() {
    for wire in WIRES {
        let collector = read(wire, &stream(wire));
        assert_eq!(collector.stop, Some(ModelStop::Tools), "{wire:?}");
        let mut parts = collector.finish();
        assert_eq!(parts[0], ModelPart::Think("I should look.".to_owned()), "{wire:?}");
        for other in WIRES.into_iter().filter(|other| *other != wire) {
            let body = follow_up(other, parts.clone()).to_string();
            assert!(!body.contains("SEALED") && !body.contains("HIDDEN"), "{wire:?} in {other:?}: {body}");
        }
        // A client keeps the seal, not the thought.
        parts.retain(|part| !matches!(part, ModelPart::Think(_)));
        let body = follow_up(wire, parts);
        let (place, expected) = match wire {
            WireFormat::Messages => (
                "/messages/1/content",
                json!([
                    {"type": "thinking", "thinking": "I should look.", "signature": "SEALED"},
                    {"type": "redacted_thinking", "data": "HIDDEN"},
                    {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
                ]),
            ),
            WireFormat::Responses => (
                "/input/1",
                json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I should look."}], "encrypted_content": "SEALED"}),
            ),
            WireFormat::Gemini => (
                "/contents/1/parts",
                json!([{"functionCall": {"id": "c1", "name": "look", "args": {}}, "thoughtSignature": "SEALED"}]),
            ),
            WireFormat::Chat => ("/messages/1/reasoning", json!("I should look.")),
        };
        assert_eq!(body.pointer(place), Some(&expected), "{wire:?}: {body:#}");
    }
}

#[test]
fn a_thought_and_its_seal_are_one_block() {
    let parts = read(WireFormat::Messages, &stream(WireFormat::Messages)).finish();
    let body = follow_up(WireFormat::Messages, parts);
    let kinds: Vec<_> = body["messages"][1]["content"]
        .as_array()
        .expect("a list of blocks")
        .iter()
        .map(|block| block["type"].clone())
        .collect();
    assert_eq!(kinds, ["thinking", "redacted_thinking", "tool_use"]);
}

#[test]
fn items_of_earlier_answers_have_no_id_that_the_vendor_would_look_for() {
    let parts = vec![
        ModelPart::Text("hm".to_owned()),
        ModelPart::Call(ModelCall {
            id: "c1".to_owned(),
            name: "look".to_owned(),
            namespace: None,
            input: Input::Json(json!({})),
        }),
    ];
    let body = follow_up(WireFormat::Responses, parts);
    let items = body["input"].as_array().expect("a list of items");
    assert!(items.len() == 4 && items.iter().all(|item| item.get("id").is_none()), "{body:#}");
    assert_eq!(items[2]["call_id"], "c1");
}

fn calls(parts: Vec<ModelPart>) -> Vec<(String, String, String)> {
    parts
        .into_iter()
        .filter_map(|part| match part {
            ModelPart::Call(call) => Some((call.id, call.name, call.input.text())),
            _ => None,
        })
        .collect()
}

fn call_chunk(call: &Value) -> Value {
    json!({"choices": [{"delta": {"tool_calls": [call]}}]})
}

#[test]
fn calls_of_servers_that_count_in_their_own_way_are_kept_apart() {
    let one = |id: &str, n: u32| (id.to_owned(), "look".to_owned(), json!({"n": n}).to_string());
    let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let cases: [(&str, Vec<Value>); 4] = [
        (
            "every call has index 0",
            vec![
                call_chunk(
                    &json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": "{\"n\":1}"}}),
                ),
                call_chunk(
                    &json!({"index": 0, "id": "b", "function": {"name": "look", "arguments": "{\"n\":2}"}}),
                ),
            ],
        ),
        (
            "no call has an index",
            vec![
                call_chunk(&json!({"id": "a", "function": {"name": "look", "arguments": "{\"n\":1}"}})),
                call_chunk(&json!({"id": "b", "function": {"name": "look", "arguments": "{\"n\":2}"}})),
            ],
        ),
        (
            "each piece says the id and the name again",
            vec![
                call_chunk(
                    &json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": "{\"n\""}}),
                ),
                call_chunk(&json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": ":1}"}})),
                call_chunk(
                    &json!({"index": 1, "id": "b", "function": {"name": "look", "arguments": "{\"n\""}}),
                ),
                call_chunk(&json!({"index": 1, "id": "b", "function": {"name": "look", "arguments": ":2}"}})),
            ],
        ),
        (
            "arguments are an object",
            vec![
                call_chunk(
                    &json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": {"n": 1}}}),
                ),
                call_chunk(
                    &json!({"index": 1, "id": "b", "function": {"name": "look", "arguments": {"n": 2}}}),
                ),
            ],
        ),
    ];
    for (what, mut events) in cases {
        events.push(end.clone());
        let parts = read(WireFormat::Chat, &events).finish();
        assert_eq!(calls(parts), [one("a", 1), one("b", 2)], "{what}");
    }
}

#[test]
fn a_stream_that_never_says_why_it_stopped_has_stopped() {
    let text = json!({"choices": [{"delta": {"content": "hi"}}]});
    assert_eq!(read(WireFormat::Chat, &[text.clone(), json!("[DONE]")]).stop, Some(ModelStop::End));
    assert_eq!(read(WireFormat::Chat, &[text]).stop, None, "without [DONE] it was cut");
}

#[test]
fn refusals_are_seen() {
    let refusal = json!({"choices": [{"delta": {"refusal": "I will not."}, "finish_reason": "stop"}]});
    let collector = read(WireFormat::Chat, &[refusal, json!("[DONE]")]);
    assert_eq!(collector.stop, Some(ModelStop::Refusal));
    assert_eq!(collector.finish(), [ModelPart::Text("I will not.".to_owned())]);
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    assert_eq!(read(WireFormat::Gemini, &[blocked]).stop, Some(ModelStop::Refusal));
    let malformed =
        json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "no such tool"}]});
    let failed = read(WireFormat::Gemini, &[malformed]).failed;
    assert_eq!(failed, Some(("MALFORMED_FUNCTION_CALL".to_owned(), "no such tool".to_owned())));
}

#[test]
fn how_much_to_think_is_said_in_the_words_of_each_wire_and_model() {
    let body = |wire, model: &str, max_tokens| {
        let request = ModelRequest {
            model: model.to_owned(),
            effort: Some(Effort::High),
            max_tokens: Some(max_tokens),
            ..ModelRequest::default()
        };
        wire::write_request(wire, &request)
    };
    assert_eq!(body(WireFormat::Chat, "m", 100)["reasoning_effort"], "high");
    let responses = body(WireFormat::Responses, "m", 100);
    assert_eq!(responses["reasoning"], json!({"effort": "high", "summary": "auto"}));
    assert_eq!(responses["include"], json!(["reasoning.encrypted_content"]));
    let thinking = |model, limit| body(WireFormat::Messages, model, limit)["thinking"].clone();
    for model in
        ["claude-opus-4-6", "anthropic.claude-sonnet-4-6", "claude-sonnet-5", "claude-opus-5-5-20261001"]
    {
        assert_eq!(thinking(model, 20_000)["type"], "adaptive", "{model}");
    }
    for model in ["claude-sonnet-4-5", "claude-opus-4-20250514", "claude-3-7-sonnet-latest", "another-model"]
    {
        assert_eq!(thinking(model, 20_000), json!({"type": "enabled", "budget_tokens": 10_000}), "{model}");
    }
    assert_eq!(thinking("claude-sonnet-4-5", 1000), Value::Null, "no room to think");
    let gemini = |model| body(WireFormat::Gemini, model, 100)["generationConfig"]["thinkingConfig"].clone();
    assert_eq!(gemini("gemini-2.5-pro"), json!({"includeThoughts": true, "thinkingBudget": 24_576}));
    assert_eq!(gemini("gemini-3.6-flash"), json!({"includeThoughts": true, "thinkingLevel": "high"}));
}
