use super::*;
use acp_rpc::Frame;
use serde_json::json;

fn engine(faults: Value) -> Faults {
    let faults: Vec<Fault> = serde_json::from_value(faults).unwrap();
    Faults::new(&faults, 1)
}

fn drain(faults: &mut Faults) -> Vec<String> {
    std::iter::from_fn(|| faults.poll())
        .map(|passage| match passage {
            Passage::Send(frame) => format!("> {}", frame.text().unwrap()),
            Passage::Deliver(frame) => format!("< {}", frame.text().unwrap()),
            Passage::Raw(bytes) => format!("# {}", String::from_utf8_lossy(&bytes)),
            other => format!("{other:?}"),
        })
        .collect()
}

fn update(n: u32) -> Frame {
    Frame::notification("session/update", &json!({ "n": n }))
}

#[test]
fn a_frame_is_changed_where_the_pointers_say() {
    let mut faults = engine(json!([{ "do": [{ "set": { "/params/list/*/a": 1, "/params/new/b": "x" } },
        { "remove": ["/params/gone"] }] }]));
    let params = json!({ "list": [{}, { "a": 3 }], "gone": true });
    faults.outgoing(Duration::ZERO, Frame::notification("m", &params));
    assert_eq!(
        drain(&mut faults),
        [r#"> {"jsonrpc":"2.0","method":"m","params":{"list":[{"a":1},{"a":1}],"new":{"b":"x"}}}"#]
    );
}

#[test]
fn only_the_counted_frames_are_dropped() {
    let mut faults = engine(json!([{ "method": "session/update", "skip": 1, "times": 1, "do": ["drop"] }]));
    for n in 1..=3 {
        faults.outgoing(Duration::ZERO, update(n));
    }
    let left = drain(&mut faults);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[1].contains(r#""n":3"#), "{left:?}");
}

#[test]
fn a_response_is_selected_by_what_it_answers() {
    let mut faults =
        engine(json!([{ "to": "session/prompt", "do": [{ "set": { "/result/stopReason": "done" } }] }]));
    faults.incoming(Duration::ZERO, Frame::request(&1.into(), "session/new", &json!({})));
    faults.incoming(Duration::ZERO, Frame::request(&2.into(), "session/prompt", &json!({})));
    faults.outgoing(Duration::ZERO, Frame::response(&1.into(), &json!({ "stopReason": "end_turn" })));
    faults.outgoing(Duration::ZERO, Frame::response(&2.into(), &json!({ "stopReason": "end_turn" })));
    let out = drain(&mut faults);
    assert!(out[2].contains("end_turn") && out[3].contains("done"), "{out:?}");
}

#[test]
fn a_held_frame_comes_after_what_it_waits_for() {
    let mut faults = engine(json!([{ "method": "a", "do": [{ "hold": { "method": "c" } }] }]));
    for method in ["a", "b", "c", "d"] {
        faults.outgoing(Duration::ZERO, Frame::notification(method, &json!({})));
    }
    let order: Vec<String> = drain(&mut faults);
    let methods: Vec<&str> = order.iter().map(|line| &line[29..30]).collect();
    assert_eq!(methods, ["b", "c", "a", "d"]);
}

#[test]
fn a_swapped_frame_follows_the_next_one() {
    let mut faults = engine(json!([{ "method": "a", "do": ["swap"] }]));
    for method in ["a", "b"] {
        faults.outgoing(Duration::ZERO, Frame::notification(method, &json!({})));
    }
    let out = drain(&mut faults);
    assert!(out[0].contains("\"b\"") && out[1].contains("\"a\""), "{out:?}");
}

#[test]
fn a_delayed_frame_is_overtaken_and_comes_when_its_time_has_come() {
    let mut faults = engine(json!([{ "method": "a", "do": [{ "delay": "2s" }] }]));
    faults.outgoing(Duration::ZERO, Frame::notification("a", &json!({})));
    faults.outgoing(Duration::ZERO, Frame::notification("b", &json!({})));
    assert_eq!(drain(&mut faults).len(), 1);
    assert_eq!(faults.next_deadline(), Some(Duration::from_secs(2)));
    faults.tick(Duration::from_secs(1));
    assert!(drain(&mut faults).is_empty());
    faults.tick(Duration::from_secs(2));
    assert_eq!(drain(&mut faults).len(), 1);
}

#[test]
fn what_comes_after_a_frame_waits_with_it() {
    let add = json!({ "method": "a", "do": [{ "after": [{ "method": "b" }] }] });
    let mut faults = engine(json!([{ "method": "a", "do": [{ "delay": "2s" }] }, add]));
    faults.outgoing(Duration::ZERO, Frame::notification("a", &json!({})));
    assert!(drain(&mut faults).is_empty());
    faults.tick(Duration::from_secs(2));
    let out = drain(&mut faults);
    assert!(out[0].contains("\"a\"") && out[1].contains("\"b\""), "{out:?}");
}

#[test]
fn an_empty_line_is_shorter_than_one_byte() {
    let mut faults = engine(json!([{ "on": "in", "shorter": 1, "do": ["drop"] }]));
    faults.incoming(Duration::ZERO, Frame::parse(""));
    assert!(drain(&mut faults).is_empty());
    faults.incoming(Duration::ZERO, Frame::parse("x"));
    assert_eq!(drain(&mut faults).len(), 1);
}

#[test]
fn an_answer_never_reaches_the_agent() {
    let mut faults =
        engine(json!([{ "on": "in", "method": "logout", "do": [{ "answer": { "result": {} } }] }]));
    faults.incoming(Duration::ZERO, Frame::request(&7.into(), "logout", &json!({})));
    assert_eq!(drain(&mut faults), [r#"> {"jsonrpc":"2.0","result":{},"id":7}"#]);
}

#[test]
fn what_was_captured_can_be_used_later() {
    let mut faults = engine(json!([
        { "on": "in", "method": "a", "do": [{ "capture": { "v": "/params/v" } }] },
        { "method": "b", "do": [{ "set": { "/params/seen": "${v}" } }] },
    ]));
    faults.incoming(Duration::ZERO, Frame::notification("a", &json!({ "v": 5 })));
    faults.outgoing(Duration::ZERO, Frame::notification("b", &json!({})));
    assert!(drain(&mut faults)[1].contains(r#""seen":5"#));
}

#[test]
fn renamed_ids_find_their_way_back() {
    let mut faults = engine(json!([{ "kind": "request", "do": [{ "ids": "fraction" }] }]));
    faults.outgoing(Duration::ZERO, Frame::request(&3.into(), "fs/read_text_file", &json!({})));
    assert!(drain(&mut faults)[0].contains(r#""id":3.5"#));
    faults.incoming(Duration::ZERO, Frame::parse(r#"{"jsonrpc":"2.0","id":3.5,"result":{}}"#));
    assert!(drain(&mut faults)[0].contains(r#""id":3,"#));
}

#[test]
fn ids_count_down_and_find_their_way_back() {
    let mut faults = engine(json!([{ "kind": "request", "do": [{ "ids": "down" }] }]));
    faults.outgoing(Duration::ZERO, Frame::request(&3.into(), "session/new", &json!({})));
    assert!(drain(&mut faults)[0].contains(r#""id":997"#));
    faults.incoming(Duration::ZERO, Frame::parse(r#"{"jsonrpc":"2.0","id":997,"result":{}}"#));
    assert!(drain(&mut faults)[0].contains(r#""id":3,"#));
}

#[test]
fn latin1_has_one_byte_for_each_of_its_letters() {
    let mut faults = engine(json!([{ "do": ["latin1"] }]));
    faults.outgoing(Duration::ZERO, Frame::parse(r#"{"method":"żó"}"#));
    assert!(matches!(faults.poll(), Some(Passage::Raw(bytes)) if &bytes[..] == b"{\"method\":\"?\xF3\"}\n"));
    faults.outgoing(Duration::ZERO, Frame::parse(r#"{"method":"plain"}"#));
    assert!(matches!(faults.poll(), Some(Passage::Send(_))), "a frame of ASCII stays as it is");
}

#[test]
fn bytes_are_garbled_as_told() {
    for (action, expected) in [
        (json!("glue"), "# {\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{}}"),
        (json!({ "truncate": 9 }), "# {\"jsonrpc\n"),
        (json!("batch"), "# [{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{}}]\n"),
        (json!({ "raw": "hello" }), "# hello\n"),
        (json!({ "bytes": "aGk=" }), "# hi"),
    ] {
        let mut faults = engine(json!([{ "do": [action] }]));
        faults.outgoing(Duration::ZERO, Frame::notification("m", &json!({})));
        assert_eq!(drain(&mut faults), [expected]);
    }
}

#[test]
fn chance_is_the_same_for_the_same_seed() {
    let run = |seed| {
        let faults: Vec<Fault> = serde_json::from_value(json!([{ "chance": 0.5, "do": ["drop"] }])).unwrap();
        let mut faults = Faults::new(&faults, seed);
        (0..64).for_each(|n| faults.outgoing(Duration::ZERO, update(n)));
        drain(&mut faults)
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4), run(5));
    assert!((10..54).contains(&run(4).len()));
}

#[test]
fn a_short_spec_is_a_fault() {
    let fault = parse_spec("drop@session/update#3").unwrap();
    assert_eq!(fault.select.method, ["session/update"]);
    assert_eq!((fault.select.skip, fault.select.times), (2, Some(1)));
    assert_eq!(parse_spec("exit=7@session/prompt").unwrap().select.to, ["session/prompt"]);
    assert_eq!(parse_spec("drop@<session/cancel").unwrap().select.on, FrameWay::In);
    assert!(
        matches!(parse_spec("delay=200ms").unwrap().r#do[0], FaultAction::Delay(Time(time)) if time.as_millis() == 200)
    );
    let of_client = parse_client_spec("drop@session/prompt").unwrap().select;
    assert_eq!((of_client.method, of_client.to.len()), (vec!["session/prompt".to_owned()], 0));
    assert_eq!(parse_client_spec("drop@fs/read_text_file").unwrap().select.to, ["fs/read_text_file"]);
    for wrong in ["dance", "drop@", "drop@<", "exit=999"] {
        let error = parse_spec(wrong).expect_err(wrong);
        assert!(std::error::Error::source(&error).is_none(), "{wrong}: its message is whole");
    }
}
