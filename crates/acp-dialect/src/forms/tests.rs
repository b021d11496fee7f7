//! A dialect that nobody speaks, as small as one can be: what it leaves out is as in v1, for every user of dialects.

use acp_proto::{error_code, method};
use acp_rpc::{Frame, RpcError};
use serde_json::{Value, json};

use crate::codes::{Codes, Meaning};
use crate::core::{Core, Refusal};
use crate::form::{Form, Request};
use crate::mapper::ObjectMapper;
use crate::shared;
use crate::traits::FormTraits;
use crate::{Bridge, Dialect, PassiveTranslator, Side, TranslationOptions, Translator};

/// Says `prompt` as `ask`, with one text.
struct Curt;

const CURT: Dialect = Dialect::of(&Curt);

impl Form for Curt {
    fn traits(&self) -> &'static FormTraits {
        &FormTraits {
            name: "curt",
            meta_key: "acp-dialect/curt",
            clients_can_be_asked: false,
            ..FormTraits::V1
        }
    }

    fn codes(&self) -> &'static Codes {
        &Codes {
            decoded: &[(-7, error_code::INTERNAL_ERROR, "connection_closed")],
            ambiguous: &[],
            encoded: &[(Meaning::Closed, -7)],
        }
    }

    fn decode_request(&self, core: &mut Core, request: Request<'_>) -> Result<(), Refusal> {
        if request.method != "ask" {
            shared::through_quietly(core, request.frame, request.id, request.method);
            return Ok(());
        }
        let mut re = ObjectMapper::new(core, "ask", "", request.params);
        let session = re.session("sessionId", "sessionId");
        let text = re.take("text").unwrap_or_default();
        re.set("prompt", json!([{ "type": "text", "text": text }]));
        re.ask(request.id, method::SESSION_PROMPT, session);
        Ok(())
    }
}

fn value(frame: &Frame) -> Value {
    serde_json::from_slice(frame.raw()).expect("JSON")
}

fn frame(value: Value) -> Frame {
    Frame::parse(value.to_string())
}

fn ask() -> Frame {
    frame(
        json!({ "jsonrpc": "2.0", "id": 1, "method": "ask", "params": { "sessionId": "s", "text": "hi", "mood": 7 } }),
    )
}

#[test]
fn a_dialect_says_what_differs_and_nothing_else() {
    let mut bridge = Bridge::new(CURT, Dialect::V1, TranslationOptions::default());
    let out = bridge.receive(Side::Client, &ask());
    let prompt = value(&out.frames[0].1);
    assert_eq!(prompt["method"], method::SESSION_PROMPT);
    assert_eq!(prompt["params"]["prompt"], json!([{ "type": "text", "text": "hi" }]));
    assert_eq!(prompt["params"]["_meta"], json!({ "acp-dialect/curt": { "mood": 7 } }));
    let chunk = frame(
        json!({ "jsonrpc": "2.0", "method": method::SESSION_UPDATE, "params": { "sessionId": "s",
        "update": { "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "ho" } } } }),
    );
    let mut line = Vec::new();
    assert!(bridge.stream(Side::Agent, chunk.text().expect("text"), &mut line), "streamed text is as in v1");
    assert_eq!(line.trim_ascii_end(), chunk.raw());
    let end = frame(json!({ "jsonrpc": "2.0", "id": 1, "result": { "stopReason": "end_turn" } }));
    assert_eq!(bridge.receive(Side::Agent, &end).frames, [(Side::Client, end)]);
}

#[test]
fn its_codes_are_used_when_the_other_side_is_gone() {
    let mut translator = Translator::new(CURT, Side::Client, TranslationOptions::default());
    translator.to_canonical(&ask());
    let out = translator.canonical_closed();
    let error = RpcError::parse(out.frames[0].frame.error().expect("an error")).expect("an error");
    assert_eq!((error.code, CURT.closed_code()), (-7, -7));
}

#[test]
fn two_peers_that_speak_it_can_be_overheard() {
    let mut between = PassiveTranslator::new(CURT, TranslationOptions::default());
    let heard = between.hear(Side::Client, &ask());
    assert_eq!(value(&heard[0])["method"], method::SESSION_PROMPT);
    assert!(!CURT.traits().clients_can_be_asked);
    assert_ne!(CURT, Dialect::V1);
}
