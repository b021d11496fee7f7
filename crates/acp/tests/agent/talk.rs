//! A client of a process, frame by frame.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const ACP: &str = env!("CARGO_BIN_EXE_acp");
/// Long enough for any machine; nothing waits for it unless something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A working folder and a state folder.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("work")).expect("a folder");
        std::fs::write(folder.path().join("work/notes.txt"), "rosemary\nthyme\n").expect("a file");
        Self { folder }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// `acp agent` with everything allowed, in this place.
    pub(crate) fn agent(&self, more: &[&str]) -> Command {
        let mut command = heeding(ACP);
        command
            .args(["agent", "--allow-edit", "--enable-delegate", "--enable-mcp", "--path"])
            .arg(self.work())
            .arg("--state-dir")
            .arg(self.state())
            .args(more)
            .current_dir(self.folder.path())
            .env_remove("DEBUG")
            .env("XDG_STATE_HOME", self.folder.path().join("xdg"));
        command
    }
}

/// A program that heeds every signal, even where the tests themselves run in the background.
pub(crate) fn heeding(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,HUP", program]);
    command
}

pub(crate) struct Talk {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next: i64,
    pub(crate) heard: Vec<Value>,
}

impl Talk {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("acp");
        let output = child.stdout.take().expect("its output");
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, next: 0, heard: Vec::new() }
    }

    /// A connection in version 1 with this client capability, initialized.
    pub(crate) fn v1(command: Command, capabilities: &Value) -> Self {
        let mut talk = Self::start(command);
        let ready =
            talk.ask("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
        assert_eq!(ready["result"]["protocolVersion"], 1, "{ready}");
        talk
    }

    pub(crate) fn session(&mut self, cwd: &Path, servers: &Value) -> String {
        let new = self.ask("session/new", &json!({ "cwd": cwd, "mcpServers": servers }));
        new["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{new}")).to_owned()
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> Value {
        let id = self.send_prompt(session, text);
        self.answer(id)
    }

    pub(crate) fn send_prompt(&mut self, session: &str, text: &str) -> i64 {
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        self.send("session/prompt", &params)
    }

    pub(crate) fn send(&mut self, method: &str, params: &Value) -> i64 {
        self.next += 1;
        let id = self.next;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub(crate) fn tell(&mut self, method: &str, params: &Value) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub(crate) fn write(&mut self, frame: &Value) {
        let input = self.input.as_mut().expect("its input is open");
        writeln!(input, "{frame}").expect("the agent reads");
        input.flush().expect("the agent reads");
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    pub(crate) fn answer(&mut self, id: i64) -> Value {
        self.until(|frame| frame["id"] == id && frame.get("method").is_none())
    }

    /// Reads until a frame is such; permission is given on the way.
    pub(crate) fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the agent speaks");
            let frame: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            self.heard.push(frame.clone());
            if frame["method"] == "session/request_permission" {
                let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow-once" } });
                self.write(&json!({ "jsonrpc": "2.0", "id": frame["id"], "result": outcome }));
            }
            if is(&frame) {
                return frame;
            }
        }
    }

    pub(crate) fn updates(&self) -> Vec<&Value> {
        let updates = self.heard.iter().filter(|frame| frame["method"] == "session/update");
        updates.map(|frame| &frame["params"]["update"]).collect()
    }

    pub(crate) fn words(&self) -> String {
        let said =
            self.updates().into_iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        said.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    /// Ends its input; its exit code and what it wrote to standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let output = self.child.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
