//! Names are read leniently and written as they came.

use acp_proto::{
    Direction, ErrorCode, Lenient, Method, PermissionOptionKind, ProtocolVersion, SessionId, Side,
    StopReason, ToolCallStatus, ToolKind, UpdateKind, Vocabulary, error_code, method,
};

fn round_trips<T: Vocabulary>() {
    for word in T::ALL {
        assert_eq!(T::from_name(word.as_str()), Some(*word));
        assert!(ProtocolVersion::ALL.into_iter().any(|version| word.is_in(version)), "{word:?}");
    }
    let unknown = Lenient::<T>::from("from the future");
    assert_eq!((unknown.known(), unknown.as_str()), (None, "from the future"));
}

#[test]
fn every_name_is_read_back_as_itself() {
    round_trips::<Method>();
    round_trips::<UpdateKind>();
    round_trips::<StopReason>();
    round_trips::<ToolKind>();
    round_trips::<ToolCallStatus>();
    round_trips::<PermissionOptionKind>();
}

#[test]
fn an_unknown_name_is_written_as_it_was_read() {
    let text = r#"["end_turn","ran_out_of_coffee"]"#;
    let reasons: Vec<Lenient<StopReason>> = serde_json::from_str(text).unwrap();
    assert_eq!(reasons[0], StopReason::EndTurn);
    assert_eq!(serde_json::to_string(&reasons).unwrap(), text);
}

#[test]
fn a_strict_name_says_what_it_should_have_been() {
    let wrong = serde_json::from_str::<ToolKind>("\"knit\"").unwrap_err().to_string();
    assert!(wrong.contains("unknown tool kind \"knit\""), "{wrong}");
    assert_eq!("nap".parse::<Method>().unwrap_err().to_string(), "unknown method \"nap\"");
}

#[test]
fn constants_match_where_a_name_is_a_text() {
    let handler = |name: &str| match name {
        method::SESSION_PROMPT => Some(Side::Agent),
        _ => Method::from_name(name).and_then(Method::handler),
    };
    assert_eq!(handler(Method::SessionPrompt.as_str()), Method::SessionPrompt.handler());
    assert_eq!(handler("session/update"), Some(Side::Client));
    assert_eq!(handler("_vendor/thing"), None);
}

#[test]
fn codes_of_the_sender_keep_their_number() {
    assert_eq!(ErrorCode::from(-32000), ErrorCode::AuthRequired);
    assert_eq!(ErrorCode::from(17), ErrorCode::Other(17));
    assert_eq!(ErrorCode::from(error_code::RESOURCE_NOT_FOUND).number(), -32002);
    for code in ErrorCode::ALL {
        assert_eq!(ErrorCode::from(code.number()), code);
    }
}

#[test]
fn a_side_sends_one_way_and_hears_the_other() {
    for side in [Side::Agent, Side::Client] {
        assert_eq!(side.sends().sender(), side);
        assert_eq!(side.other().sends(), side.sends().flip());
    }
    assert_eq!(
        serde_json::to_string(&(Side::Agent, Direction::ClientToAgent)).unwrap(),
        r#"["agent","c2a"]"#
    );
    assert_eq!("a2c".parse::<Direction>().unwrap(), Direction::AgentToClient);
    assert!("up".parse::<Direction>().is_err());
}

#[test]
fn ids_are_texts_that_are_not_taken_apart() {
    let id: SessionId = serde_json::from_str("\"s/1\"").unwrap();
    assert_eq!(id, "s/1");
    assert_eq!(serde_json::to_string(&id).unwrap(), "\"s/1\"");
    let map = std::collections::HashMap::from([(id, 1)]);
    assert_eq!(map.get("s/1"), Some(&1));
}
