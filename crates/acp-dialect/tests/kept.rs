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
    let mut talk = Talk::new(Dialect::V1, Dialect::Probe);
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

    let mut talk = Talk::new(Dialect::Probe, Dialect::V1);
    let told = talk.client(r#""id":1,"method":"initialize","params":{"protocolVersion":1.5}"#);
    assert!(to(Side::Client, &told).contains("unsupported protocol version 1.5;"), "{told:?}");
}
