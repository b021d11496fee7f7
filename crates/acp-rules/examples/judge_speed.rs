//! What the judge costs: frames per second of splitting and parsing alone and with the judge, on text chunks and on a
//! mixed conversation, and memory over a million frames.
//!
//! `cargo run --release -p acp-rules --example judge_speed [FRAMES]`

#![expect(clippy::disallowed_methods, reason = "a measurement reads its own memory")]

use std::fmt::Write as _;
use std::time::Duration;

use acp_rpc::{Direction, Frame, Splitter};
use acp_rules::{Judge, JudgeConfig};

const START: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true},"clientInfo":{"name":"bench","version":"1"}}}
<{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}},"agentInfo":{"name":"bench","version":"1"}}}
{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/work","mcpServers":[]}}
<{"jsonrpc":"2.0","id":1,"result":{"sessionId":"sess_0123456789abcdef"}}
"#;

fn chunk(out: &mut String, n: usize) {
    let text = "lorem ipsum dolor sit amet consectetur adi";
    writeln!(out, r#"<{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"sess_0123456789abcdef","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}{:05}"}}}}}}}}"#, n % 100_000).expect("a string");
}

/// `<` marks what the agent sends.
fn chunks(frames: usize) -> String {
    let mut out = String::from(START);
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"sess_0123456789abcdef\",\"prompt\":[{\"type\":\"text\",\"text\":\"go\"}]}}\n");
    (0..frames).for_each(|n| chunk(&mut out, n));
    out.push_str("<{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n");
    out
}

/// Turns of chunks, thoughts, tool calls, a permission, a file, a plan, usage.
fn mixed(frames: usize) -> String {
    let mut out = String::from(START);
    let (mut written, mut turn) = (0, 0);
    let up = |out: &mut String, update: &str| {
        writeln!(out, r#"<{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"sess_0123456789abcdef","update":{update}}}}}"#).expect("a string");
    };
    while written < frames {
        turn += 1;
        let id = turn + 1;
        writeln!(out, r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"sess_0123456789abcdef","prompt":[{{"type":"text","text":"do it"}}]}}}}"#).expect("a string");
        up(
            &mut out,
            r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm, let me think"}}"#,
        );
        up(
            &mut out,
            r#"{"sessionUpdate":"plan","entries":[{"content":"read the file","priority":"high","status":"in_progress"},{"content":"change it","priority":"medium","status":"pending"}]}"#,
        );
        up(
            &mut out,
            &format!(
                r#"{{"sessionUpdate":"tool_call","toolCallId":"call_{turn}","title":"Read main.rs","kind":"read","status":"pending","locations":[{{"path":"/work/src/main.rs","line":1}}],"rawInput":{{"path":"/work/src/main.rs"}}}}"#
            ),
        );
        writeln!(out, r#"<{{"jsonrpc":"2.0","id":{turn},"method":"session/request_permission","params":{{"sessionId":"sess_0123456789abcdef","toolCall":{{"toolCallId":"call_{turn}"}},"options":[{{"optionId":"yes","name":"Allow","kind":"allow_once"}},{{"optionId":"no","name":"Reject","kind":"reject_once"}}]}}}}"#).expect("a string");
        writeln!(out, r#"{{"jsonrpc":"2.0","id":{turn},"result":{{"outcome":{{"outcome":"selected","optionId":"yes"}}}}}}"#).expect("a string");
        up(
            &mut out,
            &format!(
                r#"{{"sessionUpdate":"tool_call_update","toolCallId":"call_{turn}","status":"in_progress"}}"#
            ),
        );
        writeln!(out, r#"<{{"jsonrpc":"2.0","id":"f{turn}","method":"fs/read_text_file","params":{{"sessionId":"sess_0123456789abcdef","path":"/work/src/main.rs"}}}}"#).expect("a string");
        writeln!(out, r#"{{"jsonrpc":"2.0","id":"f{turn}","result":{{"content":"fn main() {{\n    println!(\"hello\");\n}}\n"}}}}"#).expect("a string");
        up(
            &mut out,
            &format!(
                r#"{{"sessionUpdate":"tool_call_update","toolCallId":"call_{turn}","status":"completed","content":[{{"type":"diff","path":"/work/src/main.rs","oldText":"a","newText":"b"}}]}}"#
            ),
        );
        (0..8).for_each(|n| chunk(&mut out, n));
        up(
            &mut out,
            r#"{"sessionUpdate":"usage_update","used":1200,"size":200000,"cost":{"amount":0.01,"currency":"USD"}}"#,
        );
        up(
            &mut out,
            r#"{"sessionUpdate":"plan","entries":[{"content":"read the file","priority":"high","status":"completed"},{"content":"change it","priority":"medium","status":"completed"}]}"#,
        );
        writeln!(out, r#"<{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}"#)
            .expect("a string");
        written += 21;
    }
    out
}

/// One pass: frames per second, and the judge if there was one.
fn pass(text: &str, judged: bool) -> (f64, Option<Judge>) {
    let mut judge = judged.then(|| Judge::new(JudgeConfig::default()));
    let mut splitter = Splitter::new(1 << 20);
    let mut frames = 0_u32;
    let start = cpu();
    for piece in text.as_bytes().chunks(64 * 1024) {
        splitter.push(piece);
        while let Some(line) = splitter.next_line() {
            let mut line = match line {
                acp_rpc::Line::Text(bytes) => bytes,
                other => panic!("{other:?}"),
            };
            let mut dir = Direction::ClientToAgent;
            if line.first() == Some(&b'<') {
                dir = Direction::AgentToClient;
                line = line.slice(1..);
            }
            let frame = Frame::parse(line);
            if let Some(judge) = &mut judge {
                judge.observe(Duration::from_micros(u64::from(frames)), dir, &frame);
            } else {
                std::hint::black_box(frame.view());
            }
            frames += 1;
        }
    }
    (f64::from(frames) / (cpu() - start).as_secs_f64(), judge)
}

/// Time on the processor: what other processes do does not count.
fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("a processor time")
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0)
}

fn main() {
    let frames = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(300_000);
    for (name, text) in [("chunks", chunks(frames)), ("mixed", mixed(frames))] {
        let mut ratios = Vec::new();
        for _ in 0..5 {
            let (alone, _) = pass(&text, false);
            let (with, judge) = pass(&text, true);
            let findings = judge.as_ref().map_or(0, |judge| judge.findings().len());
            ratios.push((with / alone, alone, with, findings));
        }
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, alone, with, findings) = ratios[ratios.len() / 2];
        println!(
            "{name:7} {:>9.0} frames/s parsed, {:>9.0} judged: {:.0} % ({:.0} ns per frame for the judge, {findings} findings)",
            alone,
            with,
            ratio * 100.0,
            1e9 / with - 1e9 / alone
        );
    }
    let mut judge = Judge::new(JudgeConfig::default());
    let text = mixed(50_000);
    let lines: Vec<(Direction, Frame)> = text
        .lines()
        .map(|line| match line.strip_prefix('<') {
            Some(line) => (Direction::AgentToClient, Frame::parse(line.to_owned())),
            None => (Direction::ClientToAgent, Frame::parse(line.to_owned())),
        })
        .collect();
    let mut shown = 0_u64;
    let mut after_warm_up = 0;
    for round in 0..20 {
        for (dir, frame) in &lines[4 * usize::from(round > 0)..] {
            judge.observe(Duration::from_micros(shown), *dir, frame);
            shown += 1;
        }
        if round == 2 {
            after_warm_up = memory();
        }
    }
    println!("memory  {after_warm_up} kB after {} frames, {} kB after {shown}", lines.len() * 3, memory());
}
