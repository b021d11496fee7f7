//! The shapes against an independent JSON Schema validator, on good messages and on thousands of mutations.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use super::*;
use crate::json::Tape;

const EDITIONS: [Edition; 4] = [Edition::V1, Edition::V1Unstable, Edition::V2, Edition::V2Unstable];

fn oracle(edition: Edition, def: &str) -> jsonschema::Validator {
    let mut schema: Value = serde_json::from_str(edition.source()).expect("the schema is JSON");
    schema["$ref"] = json!(format!("#/$defs/{def}"));
    jsonschema::validator_for(&schema).expect("the schema compiles")
}

fn valid(edition: Edition, def: &str, value: &Value) -> bool {
    let schema = edition.schema();
    let id = schema.shapes.named(def).expect("the definition exists");
    let text = value.to_string();
    let mut tape = Tape::default();
    let json = tape.read(&text).expect("JSON");
    let quick = check::is_valid(&schema.shapes, id, json);
    let told = flaws(&schema.shapes, id, json);
    assert_eq!(quick, told.iter().all(|flaw| flaw.what == What::Unknown), "{def}: {text}\n{told:#?}");
    assert_eq!(is_clean(&schema.shapes, id, json), told.is_empty(), "{def}: {text}\n{told:#?}");
    quick
}

#[test]
fn every_schema_compiles_and_has_its_methods() {
    for edition in EDITIONS {
        let source: Value = serde_json::from_str(edition.source()).expect("JSON");
        Shapes::compile(&source).unwrap_or_else(|problem| panic!("{edition:?}: {problem}"));
    }
    let schema = Edition::V1.schema();
    assert_eq!((schema.methods[0].len(), schema.methods[1].len()), (14, 12));
    assert!(schema.method(Direction::AgentToClient, "session/update").is_some_and(|m| m.result.is_none()));
    assert!(schema.method(Direction::ClientToAgent, "session/load").is_some_and(|m| m.result_nullable));
    assert!(schema.method(Direction::ClientToAgent, "session/update").is_none());
}

/// Messages of many kinds, each valid for the definition it names.
fn seeds() -> Vec<(Edition, &'static str, Value)> {
    let chunk = |kind: &str| json!({"sessionId":"s","update":{"sessionUpdate":kind,"content":{"type":"text","text":"héllo"},"messageId":"m1"}});
    let mut out = vec![
        (Edition::V1, "SessionNotification", chunk("agent_message_chunk")),
        (Edition::V1, "SessionNotification", chunk("agent_thought_chunk")),
        (
            Edition::V1,
            "SessionNotification",
            json!({"sessionId":"s","update":{"sessionUpdate":"user_message_chunk","content":{"type":"image","data":"AA==","mimeType":"image/png","annotations":{"audience":["user"],"priority":0.5}}}}),
        ),
        (
            Edition::V1,
            "SessionNotification",
            json!({"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"Read","kind":"read","status":"pending","locations":[{"path":"/a","line":1}],"content":[{"type":"content","content":{"type":"text","text":"x"}},{"type":"diff","path":"/a","oldText":null,"newText":"n"},{"type":"terminal","terminalId":"x"}],"rawInput":{"a":[1]}}}),
        ),
        (
            Edition::V1,
            "SessionNotification",
            json!({"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","title":null,"_meta":{"x":1}}}),
        ),
        (
            Edition::V1,
            "SessionNotification",
            json!({"sessionId":"s","update":{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"pending"}]}}),
        ),
        (
            Edition::V1,
            "SessionNotification",
            json!({"sessionId":"s","update":{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"web","description":"d","input":{"hint":"h"}}]}}),
        ),
        (
            Edition::V1,
            "SessionNotification",
            json!({"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.5,"currency":"USD"}}}),
        ),
        (
            Edition::V1,
            "SessionNotification",
            json!({"sessionId":"s","update":{"sessionUpdate":"config_option_update","configOptions":[{"id":"m","name":"Model","category":"model","type":"select","currentValue":"a","options":[{"group":"g","name":"G","options":[{"value":"a","name":"A"}]}]},{"id":"b","name":"B","type":"boolean","currentValue":true}]}}),
        ),
        (
            Edition::V1,
            "SessionNotification",
            json!({"sessionId":"s","update":{"sessionUpdate":"notice","severity":"info","title":"t"}}),
        ),
        (
            Edition::V1,
            "InitializeRequest",
            json!({"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":false},"terminal":true,"elicitation":{"form":{}},"session":{"notices":{}}},"clientInfo":{"name":"n","version":"1"}}),
        ),
        (
            Edition::V1,
            "InitializeResponse",
            json!({"protocolVersion":1,"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true},"sessionCapabilities":{"list":{},"close":null}},"authMethods":[{"id":"a","name":"A"},{"type":"terminal","id":"b","name":"B","args":["x"],"env":{"A":"1"}}],"agentInfo":{"name":"n","version":"1"}}),
        ),
        (
            Edition::V1,
            "NewSessionRequest",
            json!({"cwd":"/w","mcpServers":[{"name":"a","command":"/b","args":[],"env":[{"name":"A","value":"1"}]},{"type":"http","name":"h","url":"http://x","headers":[{"name":"A","value":"b"}]}]}),
        ),
        (
            Edition::V1,
            "NewSessionResponse",
            json!({"sessionId":"s","modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A"}]}}),
        ),
        (
            Edition::V1,
            "PromptRequest",
            json!({"sessionId":"s","prompt":[{"type":"text","text":"x"},{"type":"resource_link","uri":"file:///a","name":"a","size":3},{"type":"resource","resource":{"uri":"file:///a","text":"t"}},{"type":"resource","resource":{"uri":"file:///a","blob":"AA=="}}]}),
        ),
        (Edition::V1, "PromptResponse", json!({"stopReason":"end_turn"})),
        (
            Edition::V1,
            "RequestPermissionRequest",
            json!({"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"o","name":"O","kind":"allow_once"}]}),
        ),
        (Edition::V1, "RequestPermissionResponse", json!({"outcome":{"outcome":"selected","optionId":"o"}})),
        (Edition::V1, "SetSessionConfigOptionRequest", json!({"sessionId":"s","configId":"c","value":"v"})),
        (
            Edition::V1,
            "SetSessionConfigOptionRequest",
            json!({"sessionId":"s","configId":"c","type":"boolean","value":true}),
        ),
        (
            Edition::V1,
            "CreateElicitationRequest",
            json!({"message":"m","mode":"form","sessionId":"s","requestedSchema":{"type":"object","properties":{"a":{"type":"string","minLength":1,"enum":["x"]},"b":{"type":"array","items":{"type":"string","enum":["x"]}},"c":{"type":"number","minimum":1}},"required":["a"]}}),
        ),
        (
            Edition::V1,
            "CreateElicitationRequest",
            json!({"message":"m","mode":"url","requestId":3,"elicitationId":"e","url":"https://x"}),
        ),
        (
            Edition::V1,
            "CreateElicitationResponse",
            json!({"action":"accept","content":{"a":"x","b":["y"],"c":1.5}}),
        ),
        (
            Edition::V1,
            "CreateTerminalRequest",
            json!({"sessionId":"s","command":"ls","args":["-l"],"env":[],"cwd":"/","outputByteLimit":10}),
        ),
        (
            Edition::V1,
            "TerminalOutputResponse",
            json!({"output":"x","truncated":false,"exitStatus":{"exitCode":0,"signal":null}}),
        ),
        (
            Edition::V1,
            "ListSessionsResponse",
            json!({"sessions":[{"sessionId":"s","cwd":"/","updatedAt":"2026-01-01T00:00:00Z"}],"nextCursor":"c"}),
        ),
        (Edition::V1, "CancelRequestNotification", json!({"requestId":null})),
        (Edition::V1, "Error", json!({"code":-32601,"message":"m","data":{"x":1}})),
        (
            Edition::V1Unstable,
            "PromptResponse",
            json!({"stopReason":"end_turn","usage":{"totalTokens":1,"inputTokens":1,"outputTokens":0}}),
        ),
        (
            Edition::V1Unstable,
            "NewSessionRequest",
            json!({"cwd":"/","mcpServers":[{"type":"acp","name":"n","id":"x"}]}),
        ),
        (
            Edition::V2,
            "InitializeRequest",
            json!({"protocolVersion":2,"info":{"name":"n","version":"1"},"capabilities":{}}),
        ),
        (
            Edition::V2,
            "UpdateSessionNotification",
            json!({"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}}),
        ),
        (
            Edition::V2,
            "UpdateSessionNotification",
            json!({"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"x"}}}),
        ),
        (Edition::V2, "PromptRequest", json!({"sessionId":"s","prompt":[{"type":"text","text":"x"}]})),
        (
            Edition::V2,
            "RequestPermissionRequest",
            json!({"sessionId":"s","title":"t","options":[{"optionId":"o","name":"O","kind":"allow_once"}]}),
        ),
    ];
    let unstable: Vec<_> = out
        .iter()
        .filter(|(e, d, _)| *e == Edition::V1 && *d != "Error")
        .map(|(_, d, v)| (Edition::V1Unstable, *d, v.clone()))
        .collect();
    out.extend(unstable);
    out
}

#[test]
fn the_seeds_are_valid() {
    for (edition, def, value) in seeds() {
        let oracle = oracle(edition, def);
        if edition == Edition::V1 {
            assert!(oracle.is_valid(&value), "{edition:?} {def}: {value}");
        }
        assert_eq!(valid(edition, def, &value), oracle.is_valid(&value), "{edition:?} {def}: {value}");
    }
}

/// Every place in a value.
fn places(value: &Value, here: &str, out: &mut Vec<String>) {
    out.push(here.to_owned());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| places(value, &format!("{here}/{key}"), out));
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| places(value, &format!("{here}/{i}"), out));
        }
        _ => {}
    }
}

fn replacement(choice: usize) -> Value {
    let all = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1.0),
        json!(70000),
        json!(""),
        json!("text"),
        json!("completed"),
        json!("agent_message_chunk"),
        json!("tool_call"),
        json!("image"),
        json!("http"),
        json!([]),
        json!([1]),
        json!({}),
        json!({"type":"text"}),
        json!({"type":"text","text":"x"}),
        json!(1e30),
        json!("form"),
        json!("_custom"),
        json!([{}]),
        json!({"_meta":{}}),
    ];
    all[choice % all.len()].clone()
}

/// Changes one place: another value, a field less, a field more, a renamed field.
fn mutate(value: &mut Value, place: usize, what: u8, choice: usize) {
    let mut all = Vec::new();
    places(value, "", &mut all);
    let pointer = all[place % all.len()].clone();
    let Some(target) = value.pointer_mut(&pointer) else { return };
    match what % 4 {
        0 => *target = replacement(choice),
        1 => {
            if let Some(map) = target.as_object_mut()
                && let Some(key) = map.keys().nth(choice % map.len().max(1)).cloned()
            {
                map.remove(&key);
            }
        }
        2 => {
            if let Some(map) = target.as_object_mut() {
                let names =
                    ["extra", "_meta", "type", "status", "text", "title", "value", "sessionId", "requestId"];
                map.insert(names[choice % names.len()].into(), replacement(choice / names.len()));
            }
        }
        _ => {
            if let Some(list) = target.as_array_mut() {
                list.push(replacement(choice));
            } else if let Some(map) = target.as_object_mut()
                && let Some(key) = map.keys().nth(choice % map.len().max(1)).cloned()
                && let Some(old) = map.remove(&key)
            {
                map.insert(format!("{key}X"), old);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_walk_says_what_the_schema_says(
        seed in 0usize..200,
        mutations in prop::collection::vec((0usize..64, 0u8..8, 0usize..500), 0..4),
    ) {
        thread_local! {
            static ORACLES: Vec<(Edition, &'static str, Value, jsonschema::Validator)> = seeds()
                .into_iter().map(|(edition, def, value)| (edition, def, value, oracle(edition, def))).collect();
        }
        ORACLES.with(|oracles| {
            let (edition, def, value, oracle) = &oracles[seed % oracles.len()];
            let mut value = value.clone();
            for (place, what, choice) in mutations {
                mutate(&mut value, place, what, choice);
            }
            prop_assert_eq!(valid(*edition, def, &value), oracle.is_valid(&value), "{:?} {}: {}", edition, def, value);
            Ok(())
        })?;
    }
}

#[test]
fn flaws_say_what_and_where() {
    let tell = |def: &str, value: Value| {
        let schema = Edition::V1.schema();
        let text = value.to_string();
        let mut tape = Tape::default();
        let json = tape.read(&text).expect("JSON");
        let id = schema.shapes.named(def).expect("defined");
        let all = flaws(&schema.shapes, id, json);
        all.into_iter().map(|flaw| format!("{}: {}", flaw.pointer, flaw.message)).collect::<Vec<_>>()
    };
    let update = |update: Value| json!({"sessionId":"s","update":update});
    assert_eq!(
        tell(
            "SessionNotification",
            update(json!({"sessionUpdate":"tool_call","toolCallId":"t","status":"done"}))
        ),
        [
            "/update/status: \"done\" is not one of pending, in_progress, completed, failed",
            "/update/title: the required field \"title\" is missing"
        ]
    );
    assert_eq!(
        tell(
            "SessionNotification",
            update(
                json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":5},"usage":{}})
            )
        ),
        [
            "/update/content/text: expected a string, found a number",
            "/update/usage: the field \"usage\" is not part of the protocol; custom data belongs in _meta"
        ]
    );
    assert!(
        tell("SessionNotification", update(json!({"sessionUpdate":"nope"})))[0]
            .starts_with("/update/sessionUpdate: \"nope\" is not one of")
    );
    assert_eq!(tell("PromptResponse", json!({"stopReason":"done"})).len(), 1);
}
