//! A small scripted client, its driver and what is seen of both, in virtual time.

use super::{END, describe, millis};
use acp_comply::{
    AgentAct, Defaults, DriveOutcome, FileState, FindingRef, Observation, Program, Run, RunAction, RunEvent,
    Setup, TestOutcome,
};
use acp_rpc::Frame;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Every verb and area: what a script does not take away is there.
const VERBS: [&str; 17] = [
    "open", "prompt", "answer", "cancel", "close", "reload", "quit", "list", "delete", "mode", "option",
    "login", "logout", "mcp", "attach", "dirs", "elicit",
];
const AREAS: [&str; 7] = ["wire", "process", "fs", "terminal", "permission", "session", "elicit"];

/// Plays `test.jsont` against `client.script` and writes the outcome down.
pub fn play(case: &Path) -> String {
    let text = std::fs::read_to_string(case.join("test.jsont")).unwrap();
    let script = std::fs::read_to_string(case.join("client.script")).unwrap();
    let name = format!("{}.jsont", case.file_name().unwrap().to_string_lossy());
    let reading = Program::read(&name, &text, &Defaults::default());
    let told: Vec<String> = reading.diagnostics.iter().map(ToString::to_string).collect();
    let Some(program) = reading.program else { return told.join("\n") };
    let mut world = World::new(&script, program);
    let outcome = world.run();
    told.concat() + &describe(&outcome, &world.log)
}

struct World {
    run: Run,
    rules: Vec<Rule>,
    files: Vec<(Duration, String, String)>,
    queue: BTreeMap<(Duration, u32), Act>,
    next: u32,
    now: Duration,
    log: Vec<String>,
    records: Vec<Value>,
    http: Vec<Value>,
    dead: BTreeSet<i64>,
    findings: Vec<FindingRef>,
    outcome: Option<TestOutcome>,
}

struct Rule {
    on: String,
    after: Duration,
    act: String,
    used: bool,
}

/// What happens at a time: an event, or words of the script.
enum Act {
    Event(RunEvent),
    Words(String, Option<String>),
}

impl World {
    fn new(script: &str, program: Program) -> World {
        let mut setup = Setup::new("/cell/workspace");
        for (name, value) in
            [("outside", "/cell"), ("home", "/home/person"), ("http", "http://127.0.0.1:9/x")]
        {
            setup.variables.set(name, value);
        }
        setup.tool_version = "0".to_owned();
        setup.driver = Some(json!({ "name": "scripted" }));
        setup.client = Some(json!({ "protocolVersion": 1, "clientCapabilities": { "terminal": true } }));
        setup.can.verbs = VERBS.map(str::to_owned).into();
        setup.can.own = AREAS.map(str::to_owned).into();
        setup.can.permissions = ["allow", "reject", "leave"].map(str::to_owned).into();
        let mut world = World {
            run: Run::new(program.clone(), setup.clone()),
            rules: Vec::new(),
            files: Vec::new(),
            queue: BTreeMap::new(),
            next: 0,
            now: Duration::ZERO,
            log: Vec::new(),
            records: Vec::new(),
            http: Vec::new(),
            dead: BTreeSet::new(),
            findings: Vec::new(),
            outcome: None,
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
            "drive" | "on" | "answered" => {
                let (what, rest) = rest.split_once(' ').unwrap();
                self.push_rule(format!("{word} {what}"), rest);
            }
            "file" => {
                let mut parts = rest.splitn(3, ' ');
                let at = millis(parts.next().unwrap());
                let path = parts.next().unwrap().to_owned();
                self.files.push((at, path, parts.next().unwrap_or("").to_owned()));
            }
            "stderr" | "exit" => self.push_rule(word.to_owned(), rest),
            other => panic!("unknown rule {other:?}"),
        }
    }

    fn push_rule(&mut self, on: String, rest: &str) {
        let (after, act) = match rest.split_once(' ') {
            Some((time, act)) if time.parse::<u64>().is_ok() => (millis(time), act),
            _ => (Duration::ZERO, rest),
        };
        self.rules.push(Rule { on, after, act: act.to_owned(), used: false });
    }

    fn run(&mut self) -> TestOutcome {
        self.run.handle(Duration::ZERO, RunEvent::Started);
        loop {
            while let Some(action) = self.run.poll() {
                self.act(action);
            }
            let event = self.queue.keys().next().copied();
            if let Some(outcome) = self.outcome.take_if(|_| event.is_none()) {
                return outcome;
            }
            let tick = self.run.next_deadline();
            match (event, tick) {
                (Some(key), tick) if tick.is_none_or(|tick| key.0 <= tick) => {
                    self.now = self.now.max(key.0);
                    match self.queue.remove(&key).unwrap() {
                        Act::Event(event) => self.run.handle(self.now, event),
                        Act::Words(words, id) => self.perform(&words, id.as_deref()),
                    }
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

    fn act(&mut self, action: RunAction) {
        match action {
            RunAction::Done(outcome) => {
                self.note("the test is over");
                self.outcome = Some(*outcome);
            }
            RunAction::Drive { drive, verb, fields } => {
                self.note(&format!("drive {drive} {verb} {fields}"));
                let is_left = !self.trigger(&format!("drive {verb}"), Some(&drive.to_string()));
                if is_left {
                    self.push(self.now, Act::Event(RunEvent::Driven { drive, outcome: DriveOutcome::Done }));
                }
            }
            RunAction::AsAgent { launch, act } => self.as_agent(launch, act),
            RunAction::CheckFile(path) => {
                let found = self.files.iter().rev().find(|(at, name, _)| *at <= self.now && *name == path);
                let state = found
                    .map_or(FileState::Absent, |(_, _, text)| FileState::Present(text.clone().into_bytes()));
                self.run.handle(self.now, RunEvent::File(state));
            }
            RunAction::CheckProcess(pid) => {
                let running = !self.dead.contains(&pid);
                self.note(&format!("process {pid}"));
                self.run.handle(self.now, RunEvent::Process { pid, running });
            }
            RunAction::CheckJudge => self.run.handle(self.now, RunEvent::Judged(self.findings.clone())),
            other => panic!("this is for tests of agents: {other:?}"),
        }
    }

    fn as_agent(&mut self, launch: u32, act: AgentAct) {
        let end = if self.outcome.is_some() { " (after the end)" } else { "" };
        match act {
            AgentAct::Write(line) => {
                if launch != 1 || !end.is_empty() {
                    self.note(&format!("launch {launch} writes{end}: {}", String::from_utf8_lossy(&line)));
                }
                self.written(&line);
            }
            AgentAct::Raw(bytes) => {
                self.note(&format!("raw {:?}", String::from_utf8_lossy(&bytes)));
                bytes
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty())
                    .for_each(|line| self.written(line));
            }
            AgentAct::CloseOutput => self.note(&format!("launch {launch} closes its output")),
            AgentAct::PauseRead(time) => self.note(&format!("launch {launch} reads nothing for {time:?}")),
            AgentAct::Stderr { bytes, times } => {
                self.note(&format!("launch {launch} writes {} bytes to stderr {times} times", bytes.len()));
                self.trigger("stderr", Some(&launch.to_string()));
            }
            AgentAct::Exit(code) => {
                self.note(&format!("launch {launch} exits with {code}"));
                self.trigger("exit", None);
            }
        }
    }

    fn written(&mut self, line: &[u8]) {
        let frame = Frame::parse(line.to_vec());
        let id = frame.id().map(ToString::to_string);
        match (frame.method(), &id) {
            (Some(method), _) => self.trigger(&format!("on {method}"), id.as_deref()),
            (None, Some(id)) => self.trigger(&format!("answered {id}"), None),
            (None, None) => false,
        };
    }

    /// Rules up to the word `next` belong to one event; `true` when there was a rule.
    fn trigger(&mut self, on: &str, id: Option<&str>) -> bool {
        let mut fitting: Vec<&mut Rule> = self.rules.iter_mut().filter(|rule| rule.on == on).collect();
        let is_known = !fitting.is_empty();
        let start = fitting.iter().position(|rule| !rule.used).unwrap_or(fitting.len());
        let mut chosen = Vec::new();
        for rule in fitting.iter_mut().skip(start) {
            rule.used = true;
            if rule.act == "next" {
                break;
            }
            chosen.push((rule.after, rule.act.clone()));
        }
        for (after, act) in chosen {
            self.push(self.now + after, Act::Words(act, id.map(str::to_owned)));
        }
        is_known
    }

    fn perform(&mut self, words: &str, id: Option<&str>) {
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        let number = || id.and_then(|id| id.parse::<u32>().ok()).unwrap_or(0);
        let value = || serde_json::from_str::<Value>(rest).unwrap_or_else(|error| panic!("{words}: {error}"));
        let latest = u32::try_from(self.records.len()).unwrap();
        let event = match word {
            "launch" => {
                self.records.push(value());
                RunEvent::Launched { launch: latest + 1, record: value() }
            }
            "record" => {
                let record = self.records.last_mut().unwrap();
                record.as_object_mut().unwrap().extend(value().as_object().unwrap().clone());
                RunEvent::LaunchChanged { launch: latest, record: record.clone() }
            }
            "done" => RunEvent::Driven { drive: number(), outcome: DriveOutcome::Done },
            "failed" => RunEvent::Driven { drive: number(), outcome: DriveOutcome::Failed(rest.to_owned()) },
            "lacks" => RunEvent::Driven { drive: number(), outcome: DriveOutcome::Lacks(rest.to_owned()) },
            "client" => RunEvent::DriverRecord(value()),
            "http" => {
                self.http.push(value());
                RunEvent::Http(self.http.clone())
            }
            "dies" => {
                self.dead.insert(rest.parse().unwrap());
                return;
            }
            "taken" => RunEvent::StderrTaken { launch: number() },
            "found" => {
                self.findings.push(serde_json::from_value(value()).unwrap());
                return;
            }
            "@1" => RunEvent::HeardFrom { launch: 1, frame: heard(rest, id) },
            _ => RunEvent::HeardFrom { launch: latest, frame: heard(words, id) },
        };
        self.run.handle(self.now, event);
    }

    fn push(&mut self, at: Duration, act: Act) {
        self.queue.insert((at, self.next), act);
        self.next += 1;
    }

    fn note(&mut self, text: &str) {
        self.log.push(format!("{:>6} {text}", self.now.as_millis()));
    }
}

/// `result {…}`, `error CODE`, `ask ID METHOD {…}`, `tell METHOD {…}` are short for whole frames.
fn heard(line: &str, id: Option<&str>) -> Frame {
    let line = match line.strip_prefix("tell ") {
        Some(rest) => {
            let (method, params) = rest.split_once(' ').unwrap_or((rest, "{}"));
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}")
        }
        None => super::short(line),
    };
    Frame::parse(line.replace("@id", id.unwrap_or("null")))
}

fn set(rest: &str, setup: &mut Setup) {
    let (name, value) = rest.split_once(' ').unwrap();
    let names = || value.split_whitespace().map(str::to_owned).collect::<BTreeSet<String>>();
    match name {
        "verbs" => setup.can.verbs = names(),
        "own" => setup.can.own = names(),
        "permissions" => setup.can.permissions = names(),
        "prompts" => setup.can.prompts = names(),
        "prepares" => setup.can.prepares = names(),
        "opens-by-prompt" => setup.can.opens_by_prompt = value == "true",
        "limit" => setup.can.verb = millis(value),
        "driver" => setup.driver = (value != "none").then(|| json!({ "name": value })),
        "client" => setup.client = serde_json::from_str(value).ok(),
        "factor" => setup.timeout_factor = value.parse().unwrap(),
        "found" => drop(setup.found.insert(value.to_owned(), Observation::default())),
        "missing" => drop(setup.missing.insert(value.to_owned(), format!("the client did not do {value}"))),
        _ => setup.variables.set(name, value),
    }
}
