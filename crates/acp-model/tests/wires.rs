//! Each wire format, both ways: what is written reads back, and what is written stays as it is.

use acp_model::sse::{SseEvent, SseParser};
use acp_model::talk::*;
use acp_model::wire::{self, StreamReader, StreamWriter, WireFormat};
use serde_json::json;

const WIRES: [WireFormat; 4] =
    [WireFormat::Chat, WireFormat::Responses, WireFormat::Messages, WireFormat::Gemini];

fn call(id: &str, name: &str, args: serde_json::Value) -> ModelPart {
    ModelPart::Call(ModelCall {
        id: id.to_owned(),
        name: name.to_owned(),
        namespace: None,
        input: Input::Json(args),
    })
}

fn request(wire: WireFormat) -> ModelRequest {
    ModelRequest {
        model: "m".to_owned(),
        stream: wire != WireFormat::Gemini,
        usage_chunk: wire == WireFormat::Chat,
        system: "be\nbrief".to_owned(),
        turns: vec![
            ModelTurn::User(vec![
                UserPart::Text("look".to_owned()),
                UserPart::Image { mime: "image/png".to_owned(), data: "AAAA".to_owned() },
            ]),
            ModelTurn::Assistant(vec![
                ModelPart::Think("hm".to_owned()),
                ModelPart::Text("let me see".to_owned()),
                call("c1", "Read", json!({"path": "a"})),
                call("c2", "Bash", json!({"command": "ls", "n": 1})),
            ]),
            ModelTurn::Result(ToolResult {
                id: "c1".to_owned(),
                text: "one".to_owned(),
                ..ToolResult::default()
            }),
            ModelTurn::Result(ToolResult {
                id: "c2".to_owned(),
                text: "two".to_owned(),
                ..ToolResult::default()
            }),
            ModelTurn::User(vec![UserPart::Text("and now?".to_owned())]),
        ],
        tools: vec![ModelTool {
            name: "Read".to_owned(),
            description: "reads".to_owned(),
            schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
            ..ModelTool::default()
        }],
        answer: AnswerForm::Json(Some(json!({"type": "object"}))),
        max_tokens: Some(77),
        effort: None,
    }
}

#[test]
fn a_request_reads_back_as_it_was_written() {
    for wire in WIRES {
        let request = request(wire);
        let body = wire::write_request(wire, &request);
        let model = (wire == WireFormat::Gemini).then_some("m");
        assert_eq!(wire::read_request(wire, &body, model).unwrap(), request, "{wire:?}: {body:#}");
    }
}

fn reply() -> ModelReply {
    ModelReply {
        id: "r1".to_owned(),
        model: "m".to_owned(),
        parts: vec![
            ModelPart::Think("hm ".to_owned()),
            ModelPart::Text("Here you are.".to_owned()),
            call("c1", "Read", json!({"path": "ä \"b\""})),
            call("c2", "Bash", json!({})),
        ],
        stop: ModelStop::Tools,
        usage: Usage { input: 12, output: 5, cached: 4, reasoning: 0 },
    }
}

#[test]
fn a_whole_reply_reads_back_as_it_was_written() {
    for wire in WIRES {
        for stop in [ModelStop::Tools, ModelStop::Length, ModelStop::Refusal] {
            let reply = ModelReply { stop, ..reply() };
            let body = wire::write_reply(wire, &reply);
            let mut read = wire::read_reply(wire, &body).unwrap();
            read.parts = unsealed(read.parts);
            assert_eq!(read, reply, "{wire:?}: {body:#}");
        }
    }
}

fn unsealed(mut parts: Vec<ModelPart>) -> Vec<ModelPart> {
    parts.retain(|part| !matches!(part, ModelPart::Seal(_)));
    parts
}

fn deltas() -> Vec<Delta> {
    let call = |index, id: &str, name: &str| Delta::Call {
        index,
        id: id.to_owned(),
        name: name.to_owned(),
        namespace: None,
        free_text: false,
    };
    let args = |index, text: &str| Delta::Args { index, text: text.to_owned() };
    vec![
        Delta::Think("hm ".to_owned()),
        Delta::Text("Here ".to_owned()),
        Delta::Text("you are.".to_owned()),
        call(0, "c1", "Read"),
        args(0, "{\"path\":"),
        args(0, "\"ä \\\"b\\\"\"}"),
        call(1, "c2", "Bash"),
        args(1, "{}"),
        Delta::End { stop: ModelStop::Tools, usage: reply().usage },
    ]
}

fn streamed(wire: WireFormat, usage_chunk: bool, deltas: &[Delta]) -> String {
    let request =
        ModelRequest { model: "m".to_owned(), stream: true, usage_chunk, ..ModelRequest::default() };
    let mut writer = StreamWriter::new(wire, "r1", &request);
    let mut text = String::new();
    for delta in deltas {
        text.extend(writer.push(delta).iter().map(SseEvent::encode));
        text.push_str(": a comment\n\n");
    }
    text
}

fn collect(wire: WireFormat, bytes: &[u8], step: usize) -> Collector {
    let (mut parser, mut reader, mut collector) =
        (SseParser::default(), StreamReader::new(wire), Collector::default());
    for chunk in bytes.chunks(step) {
        parser.push(chunk);
        while let Some(event) = parser.next_event() {
            reader.push(&event).unwrap().into_iter().for_each(|delta| collector.push(delta));
        }
    }
    reader.finish().into_iter().for_each(|delta| collector.push(delta));
    collector
}

#[test]
fn a_stream_reads_back_however_it_is_cut() {
    for wire in WIRES {
        for usage_chunk in [false, true] {
            let text = streamed(wire, usage_chunk, &deltas());
            for step in [1, 7, 64, text.len()] {
                let collector = collect(wire, text.as_bytes(), step);
                assert_eq!(
                    (collector.stop, collector.usage),
                    (Some(ModelStop::Tools), reply().usage),
                    "{wire:?}"
                );
                assert_eq!(unsealed(collector.finish()), reply().parts, "{wire:?}");
            }
        }
    }
}

#[test]
fn an_error_in_mid_stream_is_seen_by_the_reader() {
    for wire in WIRES {
        let failed = Delta::Failed { kind: "overloaded".to_owned(), message: "too much".to_owned() };
        let text = streamed(wire, false, &[Delta::Text("a".to_owned()), failed]);
        let collector = collect(wire, text.as_bytes(), 9);
        assert_eq!(collector.failed, Some(("overloaded".to_owned(), "too much".to_owned())), "{wire:?}");
        let body = wire::write_error(wire, 429, None, "slow down");
        assert_eq!(wire::read_error(&body).unwrap().1, "slow down");
    }
}

#[test]
fn free_text_calls_go_through_responses() {
    let call = Delta::Call {
        index: 0,
        id: "c".to_owned(),
        name: "apply_patch".to_owned(),
        namespace: Some("ns".to_owned()),
        free_text: true,
    };
    let end = Delta::End { stop: ModelStop::Tools, usage: Usage::default() };
    let text = streamed(
        WireFormat::Responses,
        false,
        &[call, Delta::Args { index: 0, text: "*** Begin".to_owned() }, end],
    );
    let parts = collect(WireFormat::Responses, text.as_bytes(), 11).finish();
    let ModelPart::Call(call) = &parts[0] else { panic!("{parts:?}") };
    assert_eq!((call.namespace.as_deref(), &call.input), (Some("ns"), &Input::Text("*** Begin".to_owned())));
}

#[test]
fn the_written_forms_stay_as_they_are() {
    for wire in WIRES {
        let mut text = format!(
            "# request\n{:#}\n# reply\n{:#}\n# stream\n",
            wire::write_request(wire, &request(wire)),
            wire::write_reply(wire, &reply())
        );
        text.push_str(&streamed(wire, true, &deltas()));
        text.push_str(&format!("# error\n{:#}\n", wire::write_error(wire, 429, None, "slow down")));
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wires");
        acp_testkit::golden::check_file(format!("{file}/{}.txt", wire.as_str()), &text);
    }
}

#[test]
fn what_is_no_request_is_named() {
    for (wire, body) in [
        (WireFormat::Chat, json!({})),
        (WireFormat::Messages, json!({"messages": 3})),
        (WireFormat::Gemini, json!({"contents": 1})),
        (WireFormat::Responses, json!({"input": {}})),
        (WireFormat::Chat, json!([])),
    ] {
        let error = wire::read_request(wire, &body, None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("not a {} message: ", wire.as_str())), "{error}");
    }
    // Odd but survivable: unknown roles, kinds and missing fields.
    let odd = json!({"messages": [{"role": "narrator", "content": [{"type": "hologram"}]}, {}, 3, {"role": "tool"}], "tools": [{}, 1, {"function": {}}]});
    assert_eq!(wire::read_request(WireFormat::Chat, &odd, None).unwrap().tools, []);
    for wire in [WireFormat::Messages, WireFormat::Chat] {
        wire::read_request(
            wire,
            &json!({"messages": [{"role": "user", "content": [null, {"type": "tool_result"}]}]}),
            None,
        )
        .unwrap();
    }
    wire::read_request(WireFormat::Gemini, &json!({"contents": [{"parts": [{}, null, 5]}, null]}), None)
        .unwrap();
    wire::read_request(
        WireFormat::Responses,
        &json!({"input": [null, {"type": "later"}, {"type": "function_call"}]}),
        None,
    )
    .unwrap();
}
