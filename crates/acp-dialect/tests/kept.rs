//! What a form has no place for is kept or noted, and what is shown as text is the text that was written.

mod common;

use acp_dialect::{Dialect, Side};
use common::Talk;

/// The only frame for that side, without its envelope.
fn to(side: Side, told: &[(Side, String)]) -> &str {
    let mut told = told.iter().filter(|(to, _)| *to == side);
    let (Some((_, only)), None) = (told.next(), told.next()) else { panic!("not one frame for {side}") };
    only
}

#[test]
fn numbers_that_are_shown_as_text_keep_theirs() {
    let mut talk = Talk::new(Dialect::V1, Dialect::PROBE);
    let told = talk.agent(
        r#""method":"toolCallProgress","params":{"sessionId":"s","toolCall":{"id":"t","name":"n","status":"completed","result":{"score":0.5,"of":12345678901234567890}}}"#,
    );
    let shown = r#""text":"{\"score\":0.5,\"of\":12345678901234567890}"}"#;
    assert!(to(Side::Client, &told).contains(shown), "{told:?}");
    assert!(
        to(Side::Client, &told).contains(r#""rawOutput":{"score":0.5,"of":12345678901234567890}"#),
        "{told:?}"
    );

    let mut talk = Talk::new(Dialect::V2025_1, Dialect::V1);
    for (output, shown) in
        [(r#"{"elapsed":0.25}"#, r#"{\"elapsed\":0.25}"#), ("0.25", "0.25"), (r#""done""#, "done")]
    {
        let told = talk.agent(&format!(
            r#""method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"tool_call_update","toolCallId":"t","rawOutput":{output}}}}}"#
        ));
        let wanted = format!(r#""result":{{"content":"{shown}"}}"#);
        assert!(to(Side::Client, &told).contains(&wanted), "{told:?}");
    }

    let mut talk = Talk::new(Dialect::PROBE, Dialect::V1);
    let told = talk.client(r#""id":1,"method":"initialize","params":{"protocolVersion":1.5}"#);
    assert!(to(Side::Client, &told).contains("unsupported protocol version 1.5;"), "{told:?}");
}

#[test]
fn a_history_keeps_blocks_and_what_stands_beside_it() {
    let mut talk = Talk::new(Dialect::V1, Dialect::DELTA);
    let link = r#"{"type":"resource_link","uri":"file:///a","name":"a"}"#;
    let told = talk.agent(&format!(
        r#""method":"session/update","params":{{"sessionId":"s","pages":2,"history":[{{"prompt":[{{"type":"text","text":"look"}},{link}],"response":"done","at":0.5}}]}}"#
    ));
    let told: Vec<&str> = told.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].contains(r#""sessionUpdate":"user_message_chunk","content":{"type":"text","text":"look"}"#)
    );
    assert!(told[0].contains(r#""_meta":{"acp-dialect/delta":{"at":0.5}}"#), "{told:?}");
    assert!(told[0].contains(r#""_meta":{"acp-dialect/delta":{"pages":2}}"#), "{told:?}");
    assert!(
        told[1].contains(&format!(r#""sessionUpdate":"user_message_chunk","content":{link}"#)),
        "{told:?}"
    );
    assert!(
        told[2].contains(r#""sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"done"}"#)
    );
    talk.agent(
        r#""method":"session/update","params":{"sessionId":"s","history":[{"prompt":7,"response":""}]}"#,
    );
    assert!(talk.noted(&["wrong-shape", "history.prompt"]), "{:?}", talk.notes);
}

#[test]
fn an_envelope_member_of_a_chunk_is_noted() {
    let delta = r#""method":"assistant.message_delta","params":{"sessionId":"s","content":"a"},"trace":1"#;
    let mut talk = Talk::new(Dialect::V1, Dialect::DELTA);
    talk.client(r#""id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}"#);
    talk.agent(delta);
    assert!(talk.noted(&["lossy", "trace"]), "{:?}", talk.notes);
    let v1 = r#""method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}},"trace":1"#;
    let mut talk = Talk::new(Dialect::DELTA, Dialect::V1);
    talk.client(r#""id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":"go"}"#);
    talk.agent(v1);
    assert!(talk.noted(&["lossy", "trace"]), "{:?}", talk.notes);
}

#[test]
fn an_answer_that_is_not_what_was_streamed_is_kept() {
    let forms = [
        (Dialect::DELTA, "assistant.message_delta", r#""content":"TEXT""#, r#""content":"TEXT""#),
        (Dialect::PROBE, "messageChunk", r#""chunk":"TEXT""#, r#""content":[{"type":"text","text":"TEXT"}]"#),
    ];
    for (form, method, said, repeated) in forms {
        for (answer, kept) in [("abc", false), ("abd", true), ("ab", true)] {
            let mut talk = Talk::new(Dialect::V1, form);
            talk.client(r#""id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}"#);
            for text in ["a\\u0062", "c"] {
                let said = said.replace("TEXT", text);
                talk.agent(&format!(r#""method":"{method}","params":{{"sessionId":"s",{said}}}"#));
            }
            let repeated = repeated.replace("TEXT", answer);
            let told = talk.agent(&format!(r#""id":1,"result":{{"sessionId":"s",{repeated}}}"#));
            assert_eq!(to(Side::Client, &told).contains(answer), kept, "{form} {answer}: {told:?}");
        }
    }
}

#[test]
fn the_data_of_an_error_keeps_its_numbers() {
    let mut talk = Talk::new(Dialect::V1, Dialect::V2025_1);
    talk.client(r#""id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}"#);
    let told = talk.agent(
        r#""id":1,"error":{"code":-32001,"message":"gone","data":{"at":1.50,"of":12345678901234567890123}}"#,
    );
    let error = to(Side::Client, &told);
    assert!(error.contains(r#""error":{"code":-32002,"#), "{error}");
    assert_eq!(error.matches(r#""at":1.50,"of":12345678901234567890123"#).count(), 2, "{error}");
}

#[test]
fn content_that_is_taken_away_is_taken_away() {
    let mut talk = Talk::new(Dialect::V2025_1, Dialect::V1);
    for (output, shown) in
        [("", r#""result":{"content":""}"#), (r#","rawOutput":"x""#, r#""result":{"content":"x"}"#)]
    {
        let told = talk.agent(&format!(
            r#""method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[]{output}}}}}"#
        ));
        let told = to(Side::Client, &told);
        assert!(told.contains(shown) && told.contains(r#""content":[]"#), "{told}");
    }
    assert!(talk.noted(&["lossy", "update.content"]), "{:?}", talk.notes);
}

#[test]
fn two_values_of_one_name_are_noted() {
    let mut talk = Talk::new(Dialect::V1, Dialect::GO);
    let headers =
        r#"[{"name":"A","value":"1"},{"name":"B","value":"2"},{"name":"A","value":"3"},{"value":"4"}]"#;
    let told = talk.client(&format!(
        r#""id":1,"method":"session/new","params":{{"cwd":"/w","mcpServers":[{{"type":"http","name":"m","url":"http://h","headers":{headers}}}]}}"#
    ));
    assert!(to(Side::Agent, &told).contains(r#""headers":{"A":"3","B":"2"}"#), "{told:?}");
    assert!(talk.noted(&["lossy", "mcpServers.headers", "\"A\""]), "{:?}", talk.notes);
    assert!(talk.noted(&["wrong-shape", "mcpServers.headers", "no name"]), "{:?}", talk.notes);
}
