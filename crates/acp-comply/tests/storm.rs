//! Whatever an agent does, a run ends: no crash, no hang, one outcome.

use acp_comply::{
    Defaults, DriveOutcome, ExitRecord, FileState, Program, Run, RunAction, RunEvent, RunLimits, Setup,
};
use acp_rpc::Frame;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Every program of the golden runs.
static PROGRAMS: LazyLock<Vec<Arc<Program>>> = LazyLock::new(|| {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let folders = ["runs", "client-runs"].map(|folder| std::fs::read_dir(tests.join(folder)).unwrap());
    let mut folders: Vec<_> = folders.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let read = |folder: &std::path::PathBuf| {
        let text = std::fs::read_to_string(folder.join("test.jsont")).unwrap();
        Program::read("x.jsont", &text, &Defaults::default()).program.map(Arc::new)
    };
    folders.iter().filter_map(read).collect()
});

fn line() -> impl Strategy<Value = String> {
    let id = prop_oneof![
        Just("0"),
        Just("2"),
        Just("3"),
        Just("5"),
        Just("1000000"),
        Just("1000001"),
        Just("1000002"),
        Just("null"),
        Just("\"x\""),
        Just("1.0")
    ];
    let body = prop_oneof![
        Just("\"result\":{\"sessionId\":\"s1\",\"protocolVersion\":1}"),
        Just("\"result\":null"),
        Just("\"error\":{\"code\":-32000,\"message\":\"m\"}"),
        Just("\"error\":7"),
        Just("\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":\"plan\"}}"),
        Just("\"method\":\"fs/read_text_file\",\"params\":{}"),
        Just("\"method\":5"),
        Just("\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}"),
        Just("\"method\":\"session/new\",\"params\":{}"),
        Just("\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"exam-1\"}"),
        Just("\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"exam-1\"}"),
    ];
    let frame = (id, body, any::<bool>()).prop_map(|(id, body, with_id)| {
        if with_id {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{body}}}")
        } else {
            format!("{{\"jsonrpc\":\"2.0\",{body}}}")
        }
    });
    prop_oneof![8 => frame.clone(), 1 => Just("noise".to_owned()), 1 => frame.prop_map(|frame| format!("[{frame},42]"))]
}

fn event() -> impl Strategy<Value = RunEvent> {
    prop_oneof![
        20 => line().prop_map(|line| RunEvent::Heard(Frame::parse(line))),
        1 => Just(RunEvent::Started),
        1 => Just(RunEvent::Closed),
        1 => Just(RunEvent::Exited(ExitRecord { code: Some(1), signal: None, stderr: String::new() })),
        1 => line().prop_map(|line| RunEvent::ProviderAnswered(Frame::parse(line))),
        1 => Just(RunEvent::File(FileState::Absent)),
        1 => Just(RunEvent::Mcp(Vec::new())),
        2 => Just(RunEvent::Tick),
        20 => (1..3u32, line()).prop_map(|(launch, line)| RunEvent::HeardFrom { launch, frame: Frame::parse(line) }),
        4 => (1..3u32, record()).prop_map(|(launch, record)| RunEvent::Launched { launch, record }),
        4 => (1..3u32, record()).prop_map(|(launch, record)| RunEvent::LaunchChanged { launch, record }),
        4 => (0..4u32).prop_map(|drive| RunEvent::Driven { drive, outcome: DriveOutcome::Done }),
        2 => any::<bool>().prop_map(|running| RunEvent::DriverRecord(json!({ "running": running }))),
        1 => Just(RunEvent::StderrTaken { launch: 1 }),
        1 => Just(RunEvent::Http(vec![json!({ "method": "GET" })])),
    ]
}

fn record() -> impl Strategy<Value = Value> {
    (any::<bool>(), any::<bool>())
        .prop_map(|(eof, gone)| json!({ "pid": 7, "child": 8, "eof": eof, "gone": gone }))
}

/// Plays events, then lets time pass; how many outcomes came.
fn play(program: &Arc<Program>, events: Vec<(u64, RunEvent)>) -> usize {
    let mut setup = Setup::new("/box");
    setup.reconnectable = true;
    setup.driver = Some(json!({}));
    setup.client = Some(json!({}));
    setup.can.permissions = ["allow", "reject", "leave"].map(str::to_owned).into();
    setup.can.own =
        ["wire", "process", "fs", "terminal", "permission", "session", "elicit"].map(str::to_owned).into();
    setup.can.verbs = program.client.iter().flat_map(|client| client.verbs.clone()).collect();
    setup.limits = RunLimits { messages: 40, ..RunLimits::default() };
    let mut run = Run::new(Arc::clone(program), setup);
    let mut now = Duration::ZERO;
    let mut outcomes = 0;
    let mut drain = |run: &mut Run, now: Duration| {
        for _ in 0..10_000 {
            match run.poll() {
                None => return,
                Some(RunAction::Done(_)) => outcomes += 1,
                Some(RunAction::Restart | RunAction::Reconnect) => run.handle(now, RunEvent::Started),
                Some(RunAction::CheckFile(_)) => run.handle(now, RunEvent::File(FileState::Absent)),
                Some(RunAction::CheckProcess(pid)) => {
                    let running = now.as_millis().is_multiple_of(2);
                    run.handle(now, RunEvent::Process { pid, running });
                }
                Some(RunAction::CheckJudge) => run.handle(now, RunEvent::Judged(Vec::new())),
                Some(RunAction::CheckMcp) => run.handle(now, RunEvent::Mcp(Vec::new())),
                Some(_) => {}
            }
        }
        panic!("the run never stops acting");
    };
    run.handle(now, RunEvent::Started);
    drain(&mut run, now);
    for (pause, event) in events {
        now += Duration::from_millis(pause);
        run.handle(now, event);
        drain(&mut run, now);
    }
    for _ in 0..5_000 {
        let Some(next) = run.next_deadline() else { break };
        now = now.max(next);
        run.handle(now, RunEvent::Tick);
        drain(&mut run, now);
    }
    outcomes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_run_ends_with_one_outcome(
        which in any::<prop::sample::Index>(),
        events in prop::collection::vec((0u64..400, event()), 0..60),
    ) {
        let program = &PROGRAMS[which.index(PROGRAMS.len())];
        prop_assert_eq!(play(program, events), 1, "{}", program.title);
    }
}

#[test]
fn a_silent_agent_ends_every_run() {
    for program in PROGRAMS.iter() {
        assert_eq!(play(program, Vec::new()), 1, "{}", program.title);
    }
}
