//! The judge from outside: versions, bounds, separation of sides.

use std::time::Duration;

use acp_rpc::{Direction, Frame, Line};
use acp_rules::{ConversationEnd, Grade, Judge, JudgeConfig, RequirementStanding, Severity, Side};

const C: Direction = Direction::ClientToAgent;
const A: Direction = Direction::AgentToClient;

fn judged(frames: &[(Direction, &str)]) -> Judge {
    let mut judge = Judge::new(JudgeConfig::default());
    for (n, (dir, text)) in (0..).zip(frames) {
        judge.observe(Duration::from_secs(n), *dir, &Frame::parse((*text).to_owned()));
    }
    judge.close(Duration::from_secs(1000));
    judge
}

const V1: &[(Direction, &str)] = &[
    (
        C,
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    ),
    (
        A,
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}},"agentInfo":{"name":"a","version":"1"}}}"#,
    ),
    (C, r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#),
    (A, r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#),
];

const V2: &[(Direction, &str)] = &[
    (
        C,
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"info":{"name":"c","version":"1"},"capabilities":{}}}"#,
    ),
    (
        A,
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{}}}}"#,
    ),
    (C, r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/"}}"#),
    (A, r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#),
    (
        C,
        r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}"#,
    ),
    (A, r#"{"jsonrpc":"2.0","id":2,"result":{"messageId":"m0"}}"#),
    (
        A,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"hello"}}}}"#,
    ),
    (
        A,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}}}"#,
    ),
];

#[test]
fn version_2_is_judged_by_its_own_schema_and_never_by_the_rules_of_version_1() {
    let judge = judged(V2);
    assert_eq!(judge.version(), Some(2));
    // output after the answer to the prompt and an answer without stopReason are right in version 2
    assert!(judge.findings().is_empty(), "{:#?}", judge.findings());
    assert_eq!(
        judge.coverage().get("PT-07").map(|row| row.standing),
        Some(RequirementStanding::NeverReached)
    );

    let mut frames = V2.to_vec();
    frames.push((A, r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":5,"update":{"sessionUpdate":"agent_message_chunk"}}}"#));
    let judge = judged(&frames);
    let finding = judge.findings().first().expect("the bad frame");
    assert_eq!((finding.rule, finding.requirement, finding.severity), ("schema", "INIT-06", Severity::Error));
}

#[test]
fn what_the_client_sends_badly_is_never_held_against_the_agent_as_an_error() {
    let mut frames = V1.to_vec();
    let bad = [
        (C, "{oops"),
        (A, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#),
        (C, "{}"),
        (A, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}"#),
        (C, r#"{"jsonrpc":"2.0","id":10,"method":3}"#),
        (A, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}"#),
        (C, r#"{"jsonrpc":"2.0","id":11,"method":"session/new","params":{}}"#),
        (A, r#"{"jsonrpc":"2.0","id":11,"error":{"code":-32603,"message":"no cwd"}}"#),
        (
            C,
            r#"{"jsonrpc":"2.0","id":12,"method":"session/prompt","params":{"sessionId":"s","prompt":"text"}}"#,
        ),
        (
            A,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}"#,
        ),
        (A, r#"{"jsonrpc":"2.0","id":12,"result":{"stopReason":"end_turn"}}"#),
        (C, r#"[{"jsonrpc":"2.0","id":13,"method":"session/list"}]"#),
        (A, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no batches"}}"#),
        (C, r#"{"jsonrpc":"2.0","id":"x","result":{}}"#),
        (C, "42"),
        (
            C,
            r#"{"jsonrpc":"2.0","id":14,"method":"session/prompt","params":{"sessionId":"nope","prompt":[]}}"#,
        ),
        (A, r#"{"jsonrpc":"2.0","id":14,"error":{"code":-32602,"message":"no such session"}}"#),
    ];
    frames.extend(bad);
    let judge = judged(&frames);
    let errors: Vec<_> =
        judge.findings().iter().filter(|f| f.severity == Severity::Error && f.blame == Side::Agent).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert!(judge.findings().iter().any(|f| f.blame == Side::Client));
}

#[test]
fn findings_of_one_rule_are_bounded_and_the_rest_is_counted() {
    let mut judge = Judge::new(JudgeConfig { per_rule: 3, ..JudgeConfig::default() });
    for n in 0..1000 {
        judge.observe(Duration::from_millis(n), A, &Frame::parse("log line"));
    }
    assert_eq!(judge.findings().len(), 3);
    assert_eq!(judge.not_kept(), [("noise", Side::Agent, 997)]);
    assert_eq!((judge.count(Side::Agent, Grade::Fail), judge.count(Side::Client, Grade::Fail)), (1000, 0));
    assert_eq!(judge.news().len(), 3);
    assert!(judge.news().is_empty());
}

#[test]
fn a_line_over_the_limit_warns_and_excuses_what_it_may_have_said() {
    let mut judge = Judge::new(JudgeConfig::default());
    for (dir, text) in V1 {
        judge.observe(Duration::ZERO, *dir, &Frame::parse((*text).to_owned()));
    }
    judge.observe(
        Duration::ZERO,
        C,
        &Frame::parse(
            r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
        ),
    );
    judge.observe(
        Duration::ZERO,
        A,
        &Frame::from(Line::Oversized { len: 1 << 40, head: "{\"jsonrpc\"".into() }),
    );
    judge.set_ending(ConversationEnd::AgentExited);
    judge.close(Duration::from_secs(60));
    assert_eq!(
        judge.findings().iter().map(|f| (f.rule, f.severity)).collect::<Vec<_>>(),
        [("noise", Severity::Warning)]
    );
}

#[test]
fn memory_does_not_grow_with_ids_sessions_and_tools() {
    let mut judge = Judge::new(JudgeConfig::default());
    for (dir, text) in V1 {
        judge.observe(Duration::ZERO, *dir, &Frame::parse((*text).to_owned()));
    }
    for n in 0..40_000_u64 {
        let at = Duration::from_millis(n);
        let ask = format!(r#"{{"jsonrpc":"2.0","id":"open-{n}","method":"_x","params":{{}}}}"#);
        judge.observe(at, C, &Frame::parse(ask));
        let tool = format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"tool_call","toolCallId":"t{n}","title":"x"}}}}}}"#
        );
        judge.observe(at, A, &Frame::parse(tool));
    }
    // what was forgotten is not held against anybody
    judge.observe(
        Duration::from_secs(90),
        A,
        &Frame::parse(r#"{"jsonrpc":"2.0","id":"open-1","result":{}}"#),
    );
    assert!(!judge.findings().iter().any(|f| f.rule == "answer-to-nothing"), "{:#?}", judge.findings());
}

#[test]
fn a_turn_that_is_broken_off_because_the_client_left_is_not_blamed_for_what_it_left_open() {
    let turn: &[(Direction, &str)] = &[
        (
            C,
            r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}"#,
        ),
        (
            A,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","status":"pending"}}}"#,
        ),
        (
            A,
            r#"{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}"#,
        ),
    ];
    let end = r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#;
    let broken = |client_leaves: bool| {
        let mut judge =
            Judge::new(JudgeConfig { ending: ConversationEnd::ClientLeft, ..JudgeConfig::default() });
        for (n, (dir, text)) in (0..).zip(V1.iter().chain(turn)) {
            judge.observe(Duration::from_secs(n), *dir, &Frame::parse((*text).to_owned()));
        }
        if client_leaves {
            judge.input_ended(Duration::from_secs(90));
        }
        judge.observe(Duration::from_secs(91), A, &Frame::parse(end.to_owned()));
        judge.close(Duration::from_secs(92));
        judge.count(Side::Agent, Grade::Fail)
    };
    assert_eq!((broken(false), broken(true)), (2, 0));
}
