//! A client of an agent's process, frame by frame.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use acp_proto::{method, update};
use serde_json::{Value, json};

use super::{PATIENCE, collect, exit_code};

/// An agent on its standard streams, and everything that it has said. It is killed on drop.
#[derive(Debug)]
pub struct LiveAgent {
    /// The process.
    pub child: Child,
    /// Every frame that came.
    pub heard: Vec<Value>,
    /// The kind of option that permission is answered with.
    pub permit: &'static str,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    next: i64,
}

impl LiveAgent {
    /// Starts it.
    pub fn start(mut command: Command) -> LiveAgent {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the agent starts");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let errors = collect(child.stderr.take().expect("its errors"));
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).all(|line| tell.send(line).is_ok());
        });
        let input = child.stdin.take();
        LiveAgent {
            child,
            heard: Vec::new(),
            permit: "allow_once",
            input,
            lines,
            errors: Some(errors),
            next: 0,
        }
    }

    /// Starts it and initializes version 1 with these capabilities.
    pub fn v1(command: Command, capabilities: &Value) -> LiveAgent {
        let mut agent = LiveAgent::start(command);
        agent.initialize(capabilities);
        agent
    }

    /// Initializes version 1.
    pub fn initialize(&mut self, capabilities: &Value) {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        let ready = self.ask(method::INITIALIZE, &params);
        assert_eq!(ready["result"]["protocolVersion"], 1, "{ready}");
    }

    /// Opens a session: its id.
    pub fn session(&mut self, cwd: &Path, servers: &Value) -> String {
        let new = self.ask(method::SESSION_NEW, &json!({ "cwd": cwd, "mcpServers": servers }));
        new["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{new}")).to_owned()
    }

    /// Sends a prompt and waits for the end of its turn.
    pub fn prompt(&mut self, session: &str, text: &str) -> Value {
        let id = self.send_prompt(session, text);
        self.answer(id)
    }

    /// Sends a prompt.
    pub fn send_prompt(&mut self, session: &str, text: &str) -> i64 {
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        self.send(method::SESSION_PROMPT, &params)
    }

    /// Sends a request: its id.
    pub fn send(&mut self, method: &str, params: &Value) -> i64 {
        self.next += 1;
        let id = self.next;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a notification.
    pub fn tell(&mut self, method: &str, params: &Value) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends any frame.
    pub fn write(&mut self, frame: &Value) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{frame}").and_then(|()| input.flush()).expect("the agent reads");
    }

    /// Sends a request and waits for the answer.
    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: i64) -> Value {
        self.until(|frame| frame["id"] == id && frame.get("method").is_none())
    }

    /// Reads until a frame is such; permission is answered on the way.
    pub fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else { self.fail() };
            let frame: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            self.heard.push(frame.clone());
            if frame["method"] == method::SESSION_REQUEST_PERMISSION {
                self.answer_permission(&frame);
            }
            if is(&frame) {
                return frame;
            }
        }
    }

    fn fail(&mut self) -> ! {
        let _ = self.child.kill();
        let errors = self.errors.take().map(|errors| errors.join().unwrap_or_default());
        panic!("what was waited for never came; heard {:#?}\nstderr: {errors:?}", self.heard)
    }

    fn answer_permission(&mut self, frame: &Value) {
        let options = frame["params"]["options"].as_array().cloned().unwrap_or_default();
        let chosen = options.iter().find(|option| option["kind"] == self.permit).expect("such an option");
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": chosen["optionId"] } });
        self.write(&json!({ "jsonrpc": "2.0", "id": frame["id"], "result": outcome }));
    }

    /// The updates so far.
    pub fn updates(&self) -> Vec<&Value> {
        let updates = self.heard.iter().filter(|frame| frame["method"] == method::SESSION_UPDATE);
        updates.map(|frame| &frame["params"]["update"]).collect()
    }

    /// The updates of one kind.
    pub fn updates_of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.updates().into_iter().filter(move |update| update["sessionUpdate"] == kind)
    }

    /// The text of all chunks of one kind.
    pub fn text_of(&self, kind: &str) -> String {
        self.updates_of(kind).filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    /// The text of its messages.
    pub fn words(&self) -> String {
        self.text_of(update::AGENT_MESSAGE_CHUNK)
    }

    /// Ends its input: its exit code, and what it wrote to standard error.
    pub fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let code = exit_code(&mut self.child);
        (code, self.errors.take().map(|errors| errors.join().unwrap_or_default()).unwrap_or_default())
    }

    /// Kills it and waits for its end.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it has ended");
    }
}

impl Drop for LiveAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
