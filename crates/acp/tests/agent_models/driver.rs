//! A client by hand: what the agent says, line by line, and what it is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub const KEY: &str = "sk-very-secret-0815";

/// The binary under test, without the keys of whoever runs the tests.
pub fn acp() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_acp"));
    for name in ["ANTHROPIC", "OPENAI", "GEMINI", "GOOGLE", "OLLAMA"] {
        for end in ["API_KEY", "AUTH_TOKEN", "BASE_URL", "API_BASE", "HOST", "MODEL", "GEMINI_BASE_URL"] {
            command.env_remove(format!("{name}_{end}"));
        }
    }
    command.env_remove("ACP_MODEL_STALL").env_remove("DEBUG");
    command
}

/// `acp model` with these rules, and its address.
pub struct Model {
    process: Child,
    pub url: String,
}

impl Model {
    pub fn start(folder: &Path, rules: &Value) -> Model {
        let file = folder.join("rules.json");
        std::fs::write(&file, rules.to_string()).expect("the rules are written");
        let mut process = acp()
            .args(["model", "--pace", "1", "--script"])
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()
            .expect("acp model starts");
        let mut line = String::new();
        let mut out = BufReader::new(process.stdout.take().expect("its output"));
        out.read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        Model { process, url: said["url"].as_str().expect("an address").to_owned() }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `acp agent` and everything it said so far.
pub struct Agent {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    errors: Option<JoinHandle<String>>,
    next: u64,
    /// Every frame that came.
    pub seen: Vec<Value>,
    /// The kind of option that permission is answered with.
    pub permit: &'static str,
}

impl Agent {
    pub fn start(args: &[&str], set: &[(&str, &str)]) -> Agent {
        let mut command = acp();
        command.arg("agent").args(args).envs(set.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("acp agent starts");
        let out = BufReader::new(process.stdout.take().expect("its output"));
        let mut err = process.stderr.take().expect("its errors");
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let frame =
                    serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON on stdout: {line}"));
                if to.send(frame).is_err() {
                    return;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let stdin = process.stdin.take();
        let seen = Vec::new();
        Agent { process, stdin, lines, errors: Some(errors), next: 0, seen, permit: "allow_once" }
    }

    /// Greets and opens a session in this folder.
    pub fn session(&mut self, folder: &Path) -> String {
        self.greet();
        let opened = self.call("session/new", &json!({"cwd": folder, "mcpServers": []}));
        opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {opened}")).to_owned()
    }

    pub fn greet(&mut self) {
        let fs = json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let greeted = self.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": fs}));
        assert_eq!(greeted["result"]["protocolVersion"], 1, "{greeted}");
    }

    pub fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.call("session/prompt", &prompt(session, text))
    }

    /// Asks and waits for the answer; permission is given or refused meanwhile.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.wait(&format!("the answer to {method}"), |frame| {
            frame["id"] == id && frame.get("method").is_none()
        })
    }

    pub fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    pub fn tell(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn send(&mut self, frame: &Value) {
        let stdin = self.stdin.as_mut().expect("the agent listens");
        writeln!(stdin, "{frame}").expect("the agent reads");
    }

    /// Waits for such a frame.
    pub fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let Ok(frame) = self.lines.recv_timeout(PATIENCE) else {
                let _ = self.process.kill();
                let errors = self.errors.take().map(|errors| errors.join().unwrap_or_default());
                panic!("{what} never came; seen {:#?}\nstderr: {errors:?}", self.seen)
            };
            self.seen.push(frame.clone());
            if frame["method"] == "session/request_permission" {
                self.answer_permission(&frame);
            }
            if wanted(&frame) {
                return frame;
            }
        }
    }

    fn answer_permission(&mut self, frame: &Value) {
        let options = frame["params"]["options"].as_array().cloned().unwrap_or_default();
        let chosen = options.iter().find(|option| option["kind"] == self.permit).expect("such an option");
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}});
        self.send(&json!({"jsonrpc": "2.0", "id": frame["id"], "result": outcome}));
    }

    /// Everything said in updates of this kind.
    pub fn said(&self, kind: &str) -> String {
        let texts = self.updates(kind).filter_map(|update| update["content"]["text"].as_str());
        texts.collect()
    }

    pub fn updates(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let updates = self.seen.iter().filter(|frame| frame["method"] == "session/update");
        updates.map(|frame| &frame["params"]["update"]).filter(move |update| update["sessionUpdate"] == kind)
    }

    pub fn asked(&self, method: &str) -> usize {
        self.seen.iter().filter(|frame| frame["method"] == method).count()
    }

    /// Ends the agent's input and gives its exit code and everything on stderr.
    pub fn end(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let status = self.process.wait().expect("the agent ends");
        (status.code(), self.errors.take().expect("once").join().expect("its errors"))
    }

    pub fn kill(mut self) {
        self.process.kill().expect("the agent is killed");
        self.process.wait().expect("the agent ended");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}
