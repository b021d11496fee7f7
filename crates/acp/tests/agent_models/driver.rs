//! A client by hand: what the agent says, line by line, and what it is told.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Command;

use acp_testkit::live::{LiveAgent, LiveServer};
use serde_json::{Value, json};

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
    _server: LiveServer,
    pub url: String,
}

impl Model {
    pub fn start(folder: &Path, rules: &Value) -> Model {
        let file = folder.join("rules.json");
        std::fs::write(&file, rules.to_string()).expect("the rules are written");
        let server = LiveServer::start(acp().args(["model", "--pace", "1", "--script"]).arg(&file));
        Model { url: server.told("url"), _server: server }
    }
}

/// `acp agent` and everything it said so far.
pub struct Agent(LiveAgent);

impl Deref for Agent {
    type Target = LiveAgent;

    fn deref(&self) -> &LiveAgent {
        &self.0
    }
}

impl DerefMut for Agent {
    fn deref_mut(&mut self) -> &mut LiveAgent {
        &mut self.0
    }
}

impl Agent {
    pub fn start(args: &[&str], set: &[(&str, &str)]) -> Agent {
        let mut command = acp();
        command.arg("agent").args(args).envs(set.iter().copied());
        Agent(LiveAgent::start(command))
    }

    /// Greets and opens a session in this folder.
    pub fn session(&mut self, folder: &Path) -> String {
        self.greet();
        self.0.session(folder, &json!([]))
    }

    pub fn greet(&mut self) {
        self.initialize(&json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false}));
    }

    pub fn asked(&self, method: &str) -> usize {
        self.heard.iter().filter(|frame| frame["method"] == method).count()
    }

    /// Ends the agent's input and gives its exit code and everything on stderr.
    pub fn end(self) -> (Option<i32>, String) {
        self.0.end()
    }

    pub fn kill(self) {
        self.0.kill();
    }
}

pub fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}
