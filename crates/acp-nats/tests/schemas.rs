//! The published schemas are what the program writes, and refuse what it refuses.

use std::path::Path;

use acp_nats::aggregate::{AggregateLimits, Aggregator};
use acp_nats::payload::{
    AskOption, Control, Controlled, DeadLetter, Op, PermissionAnswer, PermissionAsk, Status, Task,
    TaskResult, TaskState,
};
use acp_proxy::event::{Body, Decider, Event, EventError};
use acp_proxy::narrate::Narrator;
use acp_rpc::{Direction, Frame};
use serde::Serialize;
use serde_json::{Value, json};

fn schema(name: &str) -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/nats/{name}.schema.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    jsonschema::validator_for(&schema).expect("a schema")
}

fn holds(name: &str, value: &impl Serialize) {
    let value = serde_json::to_value(value).expect("JSON");
    let errors: Vec<String> = schema(name).iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:?}\n{value:#}");
}

/// A conversation with everything in it, as events.
fn events() -> Vec<Event> {
    use Direction::{AgentToClient as A, ClientToAgent as C};
    let update = |update: Value| json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":update}});
    let lines = [
        (C, json!({"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}})),
        (A, json!({"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}})),
        (
            C,
            json!({"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}),
        ),
        (A, update(json!({"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}))),
        (
            A,
            update(
                json!({"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"one "}}),
            ),
        ),
        (
            A,
            update(
                json!({"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"two"}}),
            ),
        ),
        (
            A,
            update(
                json!({"sessionUpdate":"tool_call","toolCallId":"t","title":"edit","content":[{"type":"diff","path":"/f","newText":"x"}]}),
            ),
        ),
        (
            A,
            json!({"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[]}}),
        ),
        (C, json!({"jsonrpc":"2.0","id":"q","result":{"outcome":{"outcome":"cancelled"}}})),
        (
            A,
            json!({"jsonrpc":"2.0","id":9,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/f"}}),
        ),
        (C, json!({"jsonrpc":"2.0","id":9,"error":{"code":-32000,"message":"no"}})),
        (A, json!({"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}})),
        (C, json!({"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}})),
    ];
    let (mut narrator, mut told) = (Narrator::default(), Vec::new());
    for (dir, line) in lines {
        narrator.hear(dir, &Frame::parse(line.to_string()), &mut told);
    }
    let ask = json!({"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[]}});
    let no = json!({"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"cancelled"}}});
    let [ask, no] = [ask, no].map(|frame| Frame::parse(frame.to_string()));
    narrator.decided(&ask, &no, "mode plan denies it", &mut told);
    narrator.close("the agent is gone", &mut told);
    let mut aggregator = Aggregator::new(AggregateLimits::default());
    let mut bodies = Vec::new();
    for (_, body) in told {
        aggregator.push(std::time::Duration::ZERO, body, &mut bodies);
    }
    aggregator.flush(&mut bodies);
    let event =
        |(seq, body)| Event { session: "s".into(), epoch: 7, seq, at: 1, task: Some("t".into()), body };
    (1..).zip(bodies).map(event).collect()
}

#[test]
fn an_event_is_one_line_whatever_a_peer_has_sent() {
    let update = "{\r\n  \"sessionUpdate\": \"plan\",\n  \"entries\": [\n    \"a\\nb\"\n  ]\n}";
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s\",\"update\":{update}}}}}"
    );
    let (mut narrator, mut told) = (Narrator::default(), Vec::new());
    narrator.hear(Direction::AgentToClient, &Frame::parse(line), &mut told);
    let (_, body) = told.remove(0);
    let event = Event { session: "s".into(), epoch: 7, seq: 1, at: 1, task: None, body };
    let json = event.to_json();
    assert!(!json.contains(&b'\n') && !json.contains(&b'\r'), "{event}");
    let Body::Update(again) = Event::parse(&json).expect("an event").body else { panic!("{event}") };
    let [again, update] = [again.update.get(), update].map(|text| text.parse::<Value>().expect("JSON"));
    assert_eq!(again, update);
}

#[test]
fn every_kind_of_event_fits_its_schema_and_comes_back_as_it_was() {
    let events = events();
    let kinds: Vec<&str> = events.iter().map(|event| event.body.kind()).collect();
    assert_eq!(
        kinds,
        [
            "session",
            "turn_start",
            "text",
            "text",
            "update",
            "permission",
            "decision",
            "frame",
            "frame",
            "turn_end",
            "turn_start",
            "permission",
            "decision",
            "turn_end",
            "closed"
        ]
    );
    for event in &events {
        holds("event", event);
        let again = Event::parse(&event.to_json()).expect("an event");
        assert_eq!(again.to_json(), event.to_json());
    }
    let Body::TurnEnd(end) = &events[9].body else { panic!("{}", events[9]) };
    assert_eq!((end.length, end.artifacts[0].get()), (7, r#"{"path":"/f"}"#));
    assert_eq!(end.sha256, "8ab63e29a4ba14e4e1688f9c15e5af90895421358c945b0431f85d66977bd3d2");
    let Body::Decision(decision) = &events[6].body else { panic!("{}", events[6]) };
    assert_eq!((decision.by, &decision.reason), (Decider::Client, &None));
    let Body::Decision(decision) = &events[12].body else { panic!("{}", events[12]) };
    assert_eq!((decision.by, decision.reason.as_deref()), (Decider::Policy, Some("mode plan denies it")));
    let Body::TurnEnd(end) = &events[13].body else { panic!("{}", events[13]) };
    assert_eq!(end.stop_reason, "interrupted");
    assert!(matches!(
        Event::parse(br#"{"v":2,"session":"s","epoch":1,"seq":1,"at":0,"kind":"text","data":{}}"#),
        Err(EventError::Version(2))
    ));
    assert!(matches!(
        Event::parse(br#"{"v":1,"session":"s","epoch":1,"seq":1,"at":0,"kind":"song","data":{}}"#),
        Err(EventError::Kind(_))
    ));
}

#[test]
fn tasks_that_are_refused_do_not_fit_the_schema_either() {
    let schema = schema("task");
    let both = |task: Value, fits: bool| {
        assert_eq!(Task::parse(task.to_string().as_bytes()).is_ok(), fits, "{task}");
        assert_eq!(schema.is_valid(&task), fits, "{task}");
    };
    both(json!({"v":1,"id":"a","prompt":"p"}), true);
    both(
        json!({"v":1,"id":"a","prompt":[{"type":"text","text":"p"}],"session":"s","cwd":"/","mcpServers":[{}],"replyTo":"a.b"}),
        true,
    );
    both(json!({"v":2,"id":"a","prompt":"p"}), false);
    both(json!({"v":1,"id":"","prompt":"p"}), false);
    both(json!({"v":1,"prompt":"p"}), false);
    both(json!({"v":1,"id":"a","prompt":[]}), false);
    both(json!({"v":1,"id":"a","prompt":7}), false);
    both(json!({"v":1,"id":"a","prompt":"p","cwd":"x"}), false);
    both(json!({"v":1,"id":"a","prompt":"p","replyTo":"a..b"}), false);
    both(json!({"v":1,"id":"a","prompt":"p","replyTo":"a.*"}), false);
    for subject in ["acp.v1.task.b.result", "agent.results.b", "$JS.API.STREAM.PURGE.ACP_EVENTS", "$SYS"] {
        both(json!({"v":1,"id":"a","prompt":"p","replyTo":subject}), false);
    }
    for subject in ["_INBOX.abc", "acp.results", "agents.results.b"] {
        both(json!({"v":1,"id":"a","prompt":"p","replyTo":subject}), true);
    }
    both(json!({"v":1,"id":"a","prompt":"p","more":1}), false);
}

#[test]
fn every_other_payload_fits_its_schema() {
    let raw = |value: Value| serde_json::value::to_raw_value(&value).expect("JSON");
    let state = |state| Status {
        v: 1,
        task: "t".into(),
        agent: "a".into(),
        state,
        session: Some("s".into()),
        proxy: None,
        at: 1,
    };
    for state in [TaskState::Begun, TaskState::Withdrawn, TaskState::Ended].map(state) {
        holds("status", &state);
    }
    let Body::TurnEnd(end) = events().swap_remove(9).body else { panic!("not the end") };
    holds("result", &TaskResult::of("t", "a", Some("s".into()), 1, end));
    let option = AskOption { id: "y".into(), name: "Yes".into(), kind: "allow_once".into() };
    holds(
        "permission",
        &PermissionAsk {
            v: 1,
            id: "i".into(),
            session: "s".into(),
            task: None,
            title: "t".into(),
            kind: "execute".into(),
            subjects: vec!["git status".into()],
            options: vec![option],
            deadline: 1,
            params: raw(json!({})),
        },
    );
    holds("answer", &PermissionAnswer { v: 1, option: None });
    holds("answer", &PermissionAnswer { v: 1, option: Some("y".into()) });
    for op in [Op::Cancel, Op::Close, Op::Answer, Op::Who, Op::Task] {
        holds("control", &Control { task: Some("t".into()), ..Control::of(op) });
    }
    holds(
        "controlled",
        &Controlled { v: 1, ok: false, proxy: Some("p".into()), task: None, error: Some("no".into()) },
    );
    let letter = DeadLetter {
        v: 1,
        agent: "a".into(),
        task: Some("t".into()),
        reason: "r".into(),
        at: 1,
        delivered: 1,
        payload: None,
        base64: Some("AA==".into()),
    };
    holds("dead-letter", &letter);
}
