//! A tiny scripted agent and the world around it, in virtual time.

pub mod client;

use acp_comply::{
    Defaults, ExitRecord, FileState, McpCall, Program, Run, RunAction, RunEvent, Setup, TestOutcome,
};
use acp_proto::Direction;
use acp_rpc::{Frame, Id};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// No run of a golden test takes longer.
const END: Duration = Duration::from_secs(3600);

/// Plays `test.jsont` against `agent.script` and writes the outcome down.
pub fn play(case: &Path) -> String {
    let text = std::fs::read_to_string(case.join("test.jsont")).unwrap();
    let script = std::fs::read_to_string(case.join("agent.script")).unwrap();
    let name = format!("{}.jsont", case.file_name().unwrap().to_string_lossy());
    let reading = Program::read(&name, &text, &Defaults::default());
    let mut out = String::new();
    for diagnostic in reading.diagnostics.iter().filter(|told| told.message != "the test has no description")
    {
        writeln!(out, "{diagnostic}").unwrap();
    }
    let Some(program) = reading.program else { return out };
    let mut world = World::new(&script, program);
    let outcome = world.run();
    out.push_str(&describe(&outcome, &world.log));
    out
}

struct World {
    run: Run,
    rules: Vec<Rule>,
    files: Vec<(Duration, String, String)>,
    mcp: Vec<(Duration, Value)>,
    provider: (Duration, Value),
    queue: BTreeMap<(Duration, u32), RunEvent>,
    next: u32,
    now: Duration,
    log: Vec<String>,
    /// Bytes that do not make a line yet.
    partial: String,
}

struct Rule {
    on: On,
    after: Duration,
    line: String,
    used: bool,
}

enum On {
    Method(String),
    Start,
}

impl World {
    fn new(script: &str, program: Program) -> World {
        let mut setup = Setup::new("/box");
        setup.variables.set("home", "/home/agent");
        setup.tool_version = "0".to_owned();
        let mut world = World {
            run: Run::new(program.clone(), setup.clone()),
            rules: Vec::new(),
            files: program
                .sandbox
                .iter()
                .map(|file| {
                    (Duration::ZERO, file.path.clone(), String::from_utf8_lossy(&file.contents).into_owned())
                })
                .collect(),
            mcp: Vec::new(),
            provider: (Duration::ZERO, json!({})),
            queue: BTreeMap::new(),
            next: 0,
            now: Duration::ZERO,
            log: Vec::new(),
            partial: String::new(),
        };
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            world.rule(line, &mut setup);
        }
        world.run = Run::new(program, setup);
        world
    }

    fn rule(&mut self, line: &str, setup: &mut Setup) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "set" => set(rest, setup),
            "on" => {
                let (method, rest) = rest.split_once(' ').unwrap();
                self.push_rule(On::Method(method.to_owned()), rest);
            }
            "at" => self.push_rule(On::Start, rest),
            "file" => {
                let mut parts = rest.splitn(3, ' ');
                let at = millis(parts.next().unwrap());
                let path = parts.next().unwrap().to_owned();
                self.files.push((at, path, parts.next().unwrap_or("").to_owned()));
            }
            "mcp" => {
                let (at, entry) = rest.split_once(' ').unwrap();
                self.mcp.push((millis(at), serde_json::from_str(entry).unwrap()));
            }
            "provider" => {
                let (after, result) = rest.split_once(' ').unwrap();
                self.provider = (millis(after), serde_json::from_str(result).unwrap());
            }
            other => panic!("unknown rule {other:?}"),
        }
    }

    fn push_rule(&mut self, on: On, rest: &str) {
        let (after, line) = match rest.split_once(' ') {
            Some((time, line)) if time.parse::<u64>().is_ok() => (millis(time), line),
            _ => (Duration::ZERO, rest),
        };
        self.rules.push(Rule { on, after, line: line.to_owned(), used: false });
    }

    fn run(&mut self) -> TestOutcome {
        let start: Vec<_> = self
            .rules
            .iter()
            .filter(|rule| matches!(rule.on, On::Start))
            .map(|rule| (rule.after, rule.line.clone()))
            .collect();
        for (after, line) in start {
            self.say(after, &line, None);
        }
        self.run.handle(Duration::ZERO, RunEvent::Started);
        loop {
            while let Some(action) = self.run.poll() {
                if let Some(outcome) = self.act(action) {
                    return outcome;
                }
            }
            let event = self.queue.keys().next().copied();
            let tick = self.run.next_deadline();
            match (event, tick) {
                (Some(key), tick) if tick.is_none_or(|tick| key.0 <= tick) => {
                    self.now = self.now.max(key.0);
                    let event = self.queue.remove(&key).unwrap();
                    self.run.handle(self.now, event);
                }
                (_, Some(tick)) if tick < END => {
                    self.now = self.now.max(tick);
                    self.run.handle(self.now, RunEvent::Tick);
                }
                (event, tick) => {
                    panic!("the run hangs at {:?}: {event:?} {tick:?} {:?}", self.now, self.run.step())
                }
            }
        }
    }

    fn act(&mut self, action: RunAction) -> Option<TestOutcome> {
        match action {
            RunAction::Done(outcome) => return Some(*outcome),
            RunAction::Write(line) => self.written(&line),
            RunAction::WriteRaw(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.note(&format!("raw {text:?}"));
                self.partial.push_str(&text);
                while let Some(end) = self.partial.find('\n') {
                    let line: String = self.partial.drain(..=end).collect();
                    self.written(line.trim_end().as_bytes());
                }
            }
            RunAction::Offer(caps) => self.note(&format!("offer {caps}")),
            RunAction::CloseInput => {
                self.note("close input");
                self.trigger("<eof>", None);
            }
            RunAction::Restart | RunAction::Reconnect => {
                self.note("start again");
                self.queue.clear();
                self.push(
                    self.now,
                    RunEvent::Exited(ExitRecord { code: Some(0), signal: None, stderr: String::new() }),
                );
                self.push(self.now + Duration::from_millis(50), RunEvent::Started);
            }
            RunAction::PauseRead(time) => self.note(&format!("pause reading for {} ms", time.as_millis())),
            RunAction::AskProvider(frame) => {
                self.note(&format!("provider: {}", frame.method().unwrap_or("?")));
                let (after, result) = self.provider.clone();
                let answer = Frame::response(frame.id().unwrap_or(&Id::Null), &result);
                self.push(self.now + after, RunEvent::ProviderAnswered(answer));
            }
            RunAction::CancelPending { session } => self.note(&format!("cancel pending of {session:?}")),
            RunAction::CheckFile(path) => {
                let found = self.files.iter().rev().find(|(at, name, _)| *at <= self.now && *name == path);
                let state = found
                    .map_or(FileState::Absent, |(_, _, text)| FileState::Present(text.clone().into_bytes()));
                self.run.handle(self.now, RunEvent::File(state));
            }
            RunAction::CheckMcp => {
                let calls = self.mcp.iter().filter(|(at, _)| *at <= self.now).map(|(_, entry)| McpCall {
                    method: entry["method"].as_str().unwrap_or("").to_owned(),
                    tool: entry["tool"].as_str().map(str::to_owned),
                    arguments: entry.get("arguments").cloned(),
                    line: entry.clone(),
                });
                let calls = calls.collect();
                self.run.handle(self.now, RunEvent::Mcp(calls));
            }
            RunAction::Drive { .. }
            | RunAction::AsAgent { .. }
            | RunAction::CheckProcess(_)
            | RunAction::CheckJudge => panic!("this is for tests of clients"),
        }
        None
    }

    fn written(&mut self, line: &[u8]) {
        let frame = Frame::parse(line.to_vec());
        let id = frame.id().map(ToString::to_string);
        match frame.method() {
            Some(method) => self.trigger(method, id.as_deref()),
            None => self.trigger("<answer>", id.as_deref()),
        }
    }

    fn trigger(&mut self, method: &str, id: Option<&str>) {
        let is_it = |rule: &&mut Rule| matches!(&rule.on, On::Method(name) if name == method);
        let mut fitting: Vec<&mut Rule> = self.rules.iter_mut().filter(is_it).collect();
        // Rules up to the word `next` belong to one request.
        let start = fitting.iter().position(|rule| !rule.used).unwrap_or(fitting.len());
        let mut chosen = Vec::new();
        for rule in fitting.iter_mut().skip(start) {
            rule.used = true;
            if rule.line == "next" {
                break;
            }
            chosen.push((rule.after, rule.line.clone()));
        }
        let id = id.map(str::to_owned);
        for (after, line) in chosen {
            self.say(self.now + after, &line, id.as_deref());
        }
    }

    fn say(&mut self, at: Duration, line: &str, id: Option<&str>) {
        let exited = |code| RunEvent::Exited(ExitRecord { code, signal: None, stderr: String::new() });
        let event = match line.split_once(' ') {
            Some(("exit", code)) => exited(code.parse().ok()),
            Some(("unreachable", words)) => RunEvent::OutOfReach(words.to_owned()),
            _ if line == "close" => RunEvent::Closed,
            _ => RunEvent::Heard(Frame::parse(short(line).replace("@id", id.unwrap_or("null")))),
        };
        self.push(at, event);
    }

    fn push(&mut self, at: Duration, event: RunEvent) {
        self.queue.insert((at, self.next), event);
        self.next += 1;
    }

    fn note(&mut self, text: &str) {
        self.log.push(format!("{:>6} {text}", self.now.as_millis()));
    }
}

/// `result {…}`, `error CODE`, `update KIND {…}`, `ask ID METHOD {…}` are short for whole frames.
fn short(line: &str) -> String {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "result" => format!("{{\"jsonrpc\":\"2.0\",\"id\":@id,\"result\":{rest}}}"),
        "error" => {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":@id,\"error\":{{\"code\":{rest},\"message\":\"no\"}}}}")
        }
        "update" => format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s1\",\"update\":{{\"sessionUpdate\":\"{rest}\"}}}}}}"
        ),
        "ask" => {
            let mut parts = rest.splitn(3, ' ');
            let (id, method) = (parts.next().unwrap(), parts.next().unwrap());
            let params = parts.next().unwrap_or("{}");
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}")
        }
        _ => line.to_owned(),
    }
}

fn set(rest: &str, setup: &mut Setup) {
    let (name, value) = rest.split_once(' ').unwrap();
    match name {
        "probe.agent" => setup.introduction = Some(serde_json::from_str(value).unwrap()),
        "probe.session" => setup.session = Some(serde_json::from_str(value).unwrap()),
        "factor" => setup.timeout_factor = value.parse().unwrap(),
        "auth" => setup.auth_method = Some(value.to_owned()),
        "setup" => setup.after_session = serde_json::from_str(value).unwrap(),
        "settle" => setup.settle = Some(millis(value)),
        "patience" => setup.patience = Some(millis(value)),
        "restartable" => setup.restartable = value == "true",
        "reconnectable" => setup.reconnectable = value == "true",
        "version" => setup.protocol_version = value.parse().unwrap(),
        "quiet" => setup.quiet = millis(value),
        "missing" => {
            setup.missing.insert(value.to_owned(), format!("this agent could not be brought to {value}"));
        }
        "wording" => {
            let (wish, words) = value.split_once(' ').unwrap();
            setup.wordings.insert(wish.to_owned(), vec![words.to_owned()]);
        }
        "limit" => setup.limits.messages = value.parse().unwrap(),
        _ => setup.variables.set(name, value),
    }
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}

/// The outcome as text: everything that a report could show.
fn describe(outcome: &TestOutcome, log: &[String]) -> String {
    let mut out = String::new();
    let mark = match (outcome.vacuous, outcome.blocked) {
        (true, _) => " (vacuous)",
        (_, true) => " (blocked)",
        _ => "",
    };
    writeln!(out, "{}{mark} after {} ms", outcome.verdict, outcome.duration_ms).unwrap();
    if let Some(reason) = &outcome.reason {
        writeln!(out, "reason: {reason}").unwrap();
    }
    for note in &outcome.notes {
        writeln!(out, "note: {note}").unwrap();
    }
    if outcome.needs_second_run {
        writeln!(out, "needs a second run").unwrap();
    }
    if !outcome.provided.is_empty() {
        writeln!(out, "provided: {}", outcome.provided.join(", ")).unwrap();
    }
    for claim in &outcome.claims {
        let how =
            claim.kind.map(|kind| format!(" ({kind:?}, {})", claim.grade).to_lowercase()).unwrap_or_default();
        let why = claim.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        writeln!(out, "claim {}: {:?}{how}{why}", claim.id, claim.state).unwrap();
        for frame in &claim.frames {
            writeln!(out, "  {} {} {}", frame.at_ms, frame.dir, frame.excerpt).unwrap();
        }
    }
    if !outcome.unanswered.is_empty() {
        writeln!(out, "unanswered: {}", outcome.unanswered.join(", ")).unwrap();
    }
    if let Some(difference) = &outcome.difference {
        writeln!(out, "line {}: expected {}", difference.line, difference.expected).unwrap();
        if let Some(closest) = &difference.closest {
            writeln!(out, "closest at {} ms: {closest}", difference.closest_at_ms.unwrap_or(0.0)).unwrap();
        }
        difference.differences.iter().for_each(|line| writeln!(out, "  {line}").unwrap());
    }
    writeln!(out, "\nsteps").unwrap();
    for step in &outcome.steps {
        let state = format!("{:?}", step.state).to_lowercase();
        let detail = step.detail.as_ref().filter(|detail| Some(*detail) != outcome.reason.as_ref());
        let detail = detail.map_or_else(String::new, |detail| format!(": {detail}"));
        writeln!(
            out,
            "{:>6} +{:<5} {state} {} (line {}){detail}",
            step.at_ms, step.took_ms, step.kind, step.line
        )
        .unwrap();
    }
    writeln!(out, "\nworld").unwrap();
    log.iter().for_each(|line| writeln!(out, "{line}").unwrap());
    writeln!(out, "\nconversation").unwrap();
    for line in &outcome.transcript {
        let arrow = if line.dir == Direction::ClientToAgent { "→" } else { "←" };
        writeln!(out, "{:>6} {arrow} {}", line.at_ms, line.text.trim_end()).unwrap();
    }
    if outcome.elided > 0 {
        writeln!(out, "({} lines left out)", outcome.elided).unwrap();
    }
    out
}
