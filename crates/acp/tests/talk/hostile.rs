//! Agents that say more than anybody can keep: the client's memory has a ceiling all the same.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::{ACP, PATIENCE, acp, processes, script, workspace};

/// The most that a client may have in memory, in KiB. A debug build takes about 40 MiB by itself.
const CEILING: u64 = 150 << 10;
/// The same where single lines have up to 64 MiB, or a whole run is kept for a report.
const HIGH_CEILING: u64 = 400 << 10;

/// The most memory that the process had, or one of those that it started from the same program, in KiB.
fn peak(child: &mut Child) -> u64 {
    let (began, mut peak) = (Instant::now(), 0);
    while child.try_wait().expect("its end").is_none() {
        peak = peak.max(family(child.id()).map(high_water).max().unwrap_or(0));
        if began.elapsed() > PATIENCE * 2 || peak > 4 * HIGH_CEILING {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    peak
}

/// The process and what came from it, as far as it is our program.
fn family(process: u32) -> impl Iterator<Item = u32> {
    let is_ours = |process: &u32| {
        let program = std::fs::read_link(format!("/proc/{process}/exe"));
        program.is_ok_and(|program| program.file_name() == Path::new(ACP).file_name())
    };
    std::iter::once(process).chain(processes::descendants(process)).filter(is_ours)
}

fn high_water(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let high = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    high.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// How an agent is reached that floods its client.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Prompt,
    Chat,
    Proxy,
}

/// Runs a prompt against an agent that floods its client, and holds it to the ceiling.
fn flooded(name: &str, flood: &str, args: &[&str], ceiling: u64) {
    flooded_by(Way::Prompt, name, flood, args, ceiling);
}

fn flooded_by(way: Way, name: &str, flood: &str, args: &[&str], ceiling: u64) {
    let (_temp, folder) = workspace();
    let end = r#"echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; cat >/dev/null"#;
    std::fs::write(folder.join("flood.sh"), flood).expect("a script");
    let mut agent = script("{}", &format!("sh flood.sh; {end}"));
    if way == Way::Proxy {
        std::fs::write(folder.join("agent.sh"), format!("exec {agent}\n")).expect("a script");
        agent = format!("{ACP} proxy --policy acceptEdits --lint --command 'sh agent.sh'");
    }
    let first: &[&str] = if way == Way::Chat { &["chat"] } else { &["prompt", "hi"] };
    let mut command = acp(&folder, &[first, &["--command", &agent]].concat(), args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("acp");
    // A chat takes the lines of a pipe for prompts.
    let _ = child.stdin.take().expect("its input").write_all(if way == Way::Chat { b"hi\n" } else { b"" });
    let mut output = child.stdout.take().expect("its output");
    let reading = std::thread::spawn(move || {
        let (mut buffer, mut count) = (vec![0; 1 << 20], 0_u64);
        while let Ok(read @ 1..) = output.read(&mut buffer) {
            count += read as u64;
        }
        count
    });
    let peak = peak(&mut child);
    let shown = reading.join().expect("its output");
    println!("{name}: {} MiB, {shown} bytes shown", peak >> 10);
    assert!(peak > 0 && peak < ceiling, "{name}: {} MiB", peak >> 10);
}

fn update(session: &str, update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
    )
}

/// A line, again and again, with %d in it counted.
fn again(line: &str, times: u32) -> String {
    let line = line.replace('"', "\\\"");
    format!(
        "awk 'BEGIN {{ x = sprintf(\"%4000s\", \"\"); for (i = 0; i < {times}; i++) printf(\"{line}\\n\", i) }}'"
    )
}

#[test]
fn endless_tool_calls_fill_no_memory() {
    let filler = "x".repeat(2000);
    let call = format!(
        r#"{{"sessionUpdate":"tool_call","toolCallId":"%d{filler}","title":"{filler}","kind":"read","rawInput":{{"path":"{filler}"}}}}"#
    );
    flooded("tool calls", &again(&update("s", &call), 40_000), &[], CEILING);
    flooded("tool calls as JSON", &again(&update("s", &call), 40_000), &["--json"], CEILING);
}

#[test]
fn endless_output_fills_no_memory_of_the_compliance_runner() {
    let (_temp, folder) = workspace();
    let call = format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"%d","title":"{}"}}"#, "x".repeat(2000));
    std::fs::write(folder.join("flood.sh"), again(&update("s", &call), 2_000_000)).expect("a script");
    let agent = format!("sh {}", folder.join("flood.sh").display());
    let args = ["comply", "--test", "trn.utf8", "--command", &agent];
    let mut child =
        acp(&folder, &args, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("acp");
    let peak = peak(&mut child);
    assert!(peak > 0 && peak < HIGH_CEILING, "{} MiB", peak >> 10);
}

#[test]
fn floods_fill_no_memory_of_a_chat_or_a_proxy() {
    let filler = "x".repeat(2000);
    let call = format!(
        r#"{{"sessionUpdate":"tool_call","toolCallId":"%d{filler}","title":"{filler}","kind":"edit","rawInput":{{"path":"{filler}"}}}}"#
    );
    let calls = again(&update("s", &call), 20_000);
    flooded_by(Way::Chat, "tool calls in a chat", &calls, &[], CEILING);
    flooded_by(Way::Proxy, "tool calls through a proxy", &calls, &["--timeout", "20s"], CEILING);
    let line = "head -c 300000000 /dev/zero | tr '\\0' a; echo";
    flooded_by(Way::Proxy, "a line through a proxy", line, &["--timeout", "20s"], HIGH_CEILING);
}

#[test]
fn endless_sessions_fill_no_memory() {
    let filler = "x".repeat(4000);
    let call = format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"c","title":"{filler}"}}"#);
    flooded("sessions", &again(&update("%d", &call), 40_000), &[], CEILING);
}

#[test]
fn requests_whose_answers_nobody_reads_fill_no_memory() {
    let filler = "x".repeat(4000);
    let ask = format!(r#"{{"jsonrpc":"2.0","id":"%d","method":"{filler}"}}"#);
    flooded("requests", &again(&ask, 40_000), &["--timeout", "8s"], CEILING);
    let ask =
        r#"{"jsonrpc":"2.0","id":"%d","method":"fs/read_text_file","params":{"sessionId":"s","path":"big"}}"#;
    let flood = format!(
        "head -c 8000000 /dev/zero | tr '\\0' a > big; {}",
        again(&ask.replace("\"big\"", "\"'$PWD'/big\""), 2000)
    );
    flooded("reads", &flood, &["--timeout", "8s"], HIGH_CEILING);
}

#[test]
fn a_line_without_end_and_nesting_without_end_fill_no_memory() {
    flooded("a line of 500 MB", "head -c 500000000 /dev/zero | tr '\\0' a; echo", &[], HIGH_CEILING);
    flooded("nesting", "head -c 50000000 /dev/zero | tr '\\0' '['; echo", &[], HIGH_CEILING);
    let text = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""#;
    let (head, tail) = (update("s", &format!("{text}@\"}}}}")), "");
    let (head, rest) = head.split_once('@').expect("two parts");
    let large = format!(
        "for i in 1 2; do printf '%s' '{head}'; head -c 20000000 /dev/zero | tr '\\0' a; echo '{rest}{tail}'; done"
    );
    flooded("large lines", &large, &[], HIGH_CEILING);
}
