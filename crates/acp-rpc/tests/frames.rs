//! What a line becomes: one table of flaws, ids as they were written, and built frames that read back the same.

use acp_proto::error_code;
use acp_rpc::{Flaw, Frame, Id, MAX_BATCH, MAX_DEPTH, Reply, RpcError, View};
use serde_json::json;

#[track_caller]
fn flaw(line: impl AsRef<[u8]>) -> Flaw {
    let frame = Frame::parse(line.as_ref().to_vec());
    assert_eq!(frame.raw(), line.as_ref(), "the text is kept");
    frame.flaw().unwrap_or_else(|| panic!("{frame:?} has no flaw")).clone()
}

#[test]
fn every_kind_of_bad_line_has_its_own_name() {
    let table: &[(&[u8], &str)] = &[
        (b"", "blank"),
        (b" \t\r", "blank"),
        (b"\xEF\xBB\xBF", "blank"),
        (b"\xff{}", "not-utf8"),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"m\xc3", "not-utf8"),
        (b"hello", "not-json"),
        (b"\0", "not-json"),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"m\0\"}", "not-json"),
        (b"{\"jsonrpc\":\"2.0\"", "not-json"),
        (b"{\"jsonrpc\":\"2.0\",}", "not-json"),
        (b"{} {}", "not-json"),
        (b"1 2", "not-json"),
        (b"{'a':1}", "not-json"),
        (b"{\"id\":01}", "not-json"),
        (b"{\"id\":1.}", "not-json"),
        (b"{\"id\":NaN}", "not-json"),
        (b"{\"method\":\"\\x\"}", "not-json"),
        (b"[1,]", "not-json"),
        (b"[] x", "not-json"),
        (b"1", "not-an-object"),
        (b"\"text\"", "not-an-object"),
        (b"null", "not-an-object"),
        (b"[]", "empty-batch"),
        (br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, "duplicate-member"),
        (br#"{"jsonrpc":"2.0","method":"m","m\u0065thod":"n"}"#, "duplicate-member"),
        (br#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, "bad-id-type"),
        (br#"{"jsonrpc":"2.0","id":[1],"result":1}"#, "bad-id-type"),
        (br#"{"jsonrpc":"2.0","id":{},"result":1}"#, "bad-id-type"),
        (br#"{"jsonrpc":"2.0","id":1,"method":1}"#, "bad-method-type"),
        (br#"{"jsonrpc":"2.0","method":null}"#, "bad-method-type"),
        (br#"{"jsonrpc":"2.0","id":1,"method":"m","params":3}"#, "bad-params-type"),
        (br#"{"jsonrpc":"2.0","id":1,"method":"m","params":"p"}"#, "bad-params-type"),
        (br#"{"jsonrpc":"2.0","id":1,"error":"boom"}"#, "bad-error-type"),
        (br#"{"jsonrpc":"2.0","id":1,"error":null}"#, "bad-error-type"),
        (br#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#, "both-method-and-reply"),
        (br#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, "both-result-and-error"),
        (br#"{"jsonrpc":"2.0","id":1,"result":1,"error":null}"#, "both-result-and-error"),
        (br#"{"jsonrpc":"2.0","id":1}"#, "neither-result-nor-error"),
        (br#"{"jsonrpc":"2.0","result":1}"#, "missing-id"),
        (br#"{"jsonrpc":"2.0","error":{}}"#, "missing-id"),
        (b"{}", "not-a-message"),
        (br#"{"jsonrpc":"2.0","params":{}}"#, "not-a-message"),
        (br#"{"id":1,"method":"m"}"#, "missing-version"),
        (br#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, "wrong-version"),
        (br#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, "wrong-version"),
        (br#"{"jsonrpc":"2.0","method":"m","params":["\ud83d"]}"#, "lone-surrogate"),
        (br#"{"jsonrpc":"2.0","method":"m","params":["\ude00\ud83d"]}"#, "lone-surrogate"),
        (br#"{"jsonrpc":"2.0","id":"\ud83d","method":"m"}"#, "lone-surrogate"),
    ];
    for (line, name) in table {
        let found = flaw(line);
        assert_eq!(found.name(), *name, "{} → {found}", String::from_utf8_lossy(line));
    }
}

#[test]
fn a_flaw_says_where_and_what_was_expected() {
    assert_eq!(flaw("{\"a\" 1}").to_string(), "not JSON: expected ':' at byte 5");
    assert_eq!(flaw("{\"a\":1").to_string(), "not JSON: expected ',' or '}' at byte 6");
    assert_eq!(
        flaw(r#"{"jsonrpc":"1.0","method":"m"}"#).to_string(),
        "\"jsonrpc\" is \"1.0\" instead of \"2.0\""
    );
    assert_eq!(flaw(b"ab\xffc").to_string(), "not UTF-8: bad byte at 2");
    assert_eq!(flaw("nope").code(), error_code::PARSE_ERROR);
    assert_eq!(flaw("{}").code(), error_code::INVALID_REQUEST);
}

#[test]
fn a_malformed_frame_still_shows_what_could_be_read() {
    let frame = Frame::parse(r#"{"id":"x","method":"m","params":{"a":1}}"#);
    assert_eq!(frame.flaw(), Some(&Flaw::MissingVersion));
    assert_eq!(frame.id(), Some(&Id::from("x")));
    assert_eq!((frame.method(), frame.params()), (Some("m"), Some(r#"{"a":1}"#)));

    let both = Frame::parse(r#"{"jsonrpc":"2.0","id":1,"result":[ 1 ],"error":{"code":1}}"#);
    assert_eq!((both.result(), both.error()), (Some("[ 1 ]"), Some(r#"{"code":1}"#)));
}

#[test]
fn good_frames_are_seen_as_what_they_are() {
    let request = Frame::parse(r#" { "params" : [ 1.50 ] , "method":"a\/b", "id":null,"jsonrpc" : "2.0" } "#);
    let View::Request { id: Id::Null, method: "a/b", params: Some("[ 1.50 ]") } = request.view() else {
        panic!("{request:?}");
    };
    let told = Frame::parse(r#"{"jsonrpc":"2.0","method":"m","params":null}"#);
    assert!(matches!(told.view(), View::Notification { method: "m", params: Some("null") }), "{told:?}");
    let nameless = Frame::parse(r#"{"jsonrpc":"2.0","method":""}"#);
    assert!(matches!(nameless.view(), View::Notification { method: "", params: None }), "{nameless:?}");
    let answer = Frame::parse(r#"{"jsonrpc":"2.0","id":"é","result":null}"#);
    let View::Response { id, reply: Reply::Result("null") } = answer.view() else { panic!("{answer:?}") };
    assert_eq!(*id, Id::from("é"));
    let failed =
        Frame::parse("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"m\"}}\r");
    let View::Response { reply: Reply::Error(error), .. } = failed.view() else { panic!("{failed:?}") };
    assert_eq!(RpcError::parse(error).unwrap(), RpcError::new(1, "m"));
    let escaped = Frame::parse(r#"{"jsonrpc":"\u0032.0","m\u0065thod":"m"}"#);
    assert_eq!(escaped.method(), Some("m"));
}

#[test]
fn ids_survive_unchanged_and_keep_their_type() {
    for text in [
        "0",
        "1",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "-0",
        "1.0",
        "1.50",
        "1e3",
        "1E+3",
        "0.1e-7",
        "123456789012345678901234567890",
        "null",
        "\"\"",
        "\"1\"",
        "\"é\"",
        "\"a\\\"b\\\\c\"",
        "\"\\u0001\"",
    ] {
        let id = Id::parse(text).unwrap_or_else(|| panic!("{text} is an id"));
        assert_eq!(id.to_string(), text);
        assert_eq!(serde_json::to_string(&id).unwrap(), text);
        let frame = Frame::response(&id, &1);
        assert_eq!(frame.to_string(), format!(r#"{{"jsonrpc":"2.0","id":{text},"result":1}}"#));
        assert_eq!(Frame::parse(frame.raw().clone()).id(), Some(&id));
    }
    assert_eq!(Id::parse("7"), Some(Id::Int(7)));
    assert_eq!(Id::parse("\"\\u0041\""), Some(Id::from("A")));
    assert_ne!(Id::parse("1"), Id::parse("1.0"));
    assert_ne!(Id::parse("1"), Id::parse("\"1\""));
    for text in ["", "true", "[]", "{}", "1 2", "01", "+1", "\"", "\"\\ud800\"", "nul"] {
        assert_eq!(Id::parse(text), None, "{text}");
    }
}

#[test]
fn a_batch_is_its_elements_and_never_nests() {
    let frame = Frame::parse(r#"[{"jsonrpc":"2.0","method":"a"}, 3,[{"jsonrpc":"2.0","method":"b"}] ]"#);
    let View::Batch([a, number, nested]) = frame.view() else { panic!("{frame:?}") };
    assert_eq!(a.method(), Some("a"));
    assert_eq!(number.flaw(), Some(&Flaw::NotAnObject));
    assert_eq!(nested.flaw(), Some(&Flaw::NotAnObject));

    let long = format!("[{}1]", "1,".repeat(MAX_BATCH));
    assert_eq!(flaw(long), Flaw::BatchTooLong { len: MAX_BATCH + 1 });
}

#[test]
fn nesting_is_bounded_where_serde_json_is_too() {
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":{open}{close}}}"#)
    };
    let deepest = nested(MAX_DEPTH - 1);
    assert_eq!(Frame::parse(deepest.clone()).flaw(), None);
    serde_json::from_str::<serde_json::Value>(&deepest).expect("serde_json reads what we accept");
    assert_eq!(flaw(nested(MAX_DEPTH)).name(), "too-deep");
    assert!(serde_json::from_str::<serde_json::Value>(&nested(MAX_DEPTH)).is_err());
}

#[test]
fn members_that_json_rpc_does_not_know_are_listed() {
    let frame = Frame::parse(r#"{"trace":1,"jsonrpc":"2.0","method":"m","params":{"x":1},"a\tb":{"c":[]}}"#);
    assert_eq!(frame.flaw(), None);
    assert_eq!(frame.unknown_members(), ["trace", "a\tb"]);
    assert!(Frame::parse(r#"{"jsonrpc":"2.0","method":"m"}"#).unknown_members().is_empty());
}

#[test]
fn a_built_frame_is_one_line_and_reads_back_the_same() {
    let raw = serde_json::value::RawValue::from_string("{\n  \"a\":\r\n 1.50 }".into()).unwrap();
    let frames = [
        Frame::request(&Id::Int(1), "m", &json!({"a": [1, "x\ny"]})),
        Frame::request(&Id::Null, "we\"ird\n", &()),
        Frame::request(&Id::from("é\u{1}"), "m", &raw),
        Frame::notification("m", &Option::<u8>::None),
        Frame::notification("", &json!([])),
        Frame::response(&Id::Number("1e3".into()), &()),
        Frame::failure(&Id::Int(-5), &RpcError::method_not_found("x").with_data(json!({"k": "v"}))),
    ];
    for frame in frames {
        assert!(!frame.raw().contains(&b'\n') && !frame.raw().contains(&b'\r'), "{frame:?}");
        let read = Frame::parse(frame.raw().clone());
        assert_eq!(format!("{:?}", read.view()), format!("{:?}", frame.view()));
        assert_eq!(read.flaw(), None);
    }
    let null_result = Frame::response(&Id::Int(1), &());
    assert_eq!(null_result.to_string(), r#"{"jsonrpc":"2.0","id":1,"result":null}"#);
}

#[test]
fn a_value_that_json_cannot_hold_is_a_flaw_and_not_a_panic() {
    let keys = std::collections::HashMap::from([((1, 2), 3)]);
    let frame = Frame::notification("m", &keys);
    assert_eq!(frame.flaw().map(Flaw::name), Some("not-serializable"));
    assert!(frame.raw().is_empty());
}

#[test]
fn halves_of_surrogate_pairs_are_mended_and_nothing_else() {
    let line = |text: &str| format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"t":"{text}"}}}}"#);
    for (cut, mended) in [
        (r"a\ud83d", r"a\ufffd"),
        (r"\uDE00b", r"\ufffdb"),
        (r"\\ud83d \ud83d\ude00 \ud83d", r"\\ud83d \ud83d\ude00 \ufffd"),
        (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
        (r"\ude00\ud83d", r"\ufffd\ufffd"),
    ] {
        let frame = Frame::parse(line(cut));
        assert_eq!(frame.flaw().map(Flaw::name), Some("lone-surrogate"), "it is still reported");
        assert_eq!(frame.mended().as_ref().and_then(Frame::text), Some(line(mended).as_str()));
    }
    for whole in [line("x"), "no frame".to_owned(), r#"{"t":"\ud83d"}"#.to_owned()] {
        assert!(Frame::parse(whole.clone()).mended().is_none(), "{whole}");
    }
}
