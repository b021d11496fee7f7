//! The stub MCP server as the agent and its log see it.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_script::agent::{McpKey, McpTool, Token};
use serde_json::{Map, Value, json};

use crate::files::{self, Files};

/// The program that is the stub.
pub(crate) const STUB: &str = "/play/acp";
/// The address of the stub over HTTP.
pub(crate) const STUB_URL: &str = "http://127.0.0.1:9/mcp";
/// How long a server takes to start and shake local_tools.
const START: Duration = Duration::from_millis(20);
/// How long a call takes.
const CALL: Duration = Duration::from_millis(2);

/// The servers of one agent.
#[derive(Default)]
pub(crate) struct Servers {
    open: BTreeMap<McpKey, Server>,
    /// Calls that nobody wants answered any more.
    abandoned: Vec<Token>,
    pids: u64,
}

struct Server {
    name: String,
    pid: u64,
    cwd: String,
    is_logged: bool,
    is_process: bool,
    /// What every request over HTTP carries.
    headers: Map<String, Value>,
}

/// What comes of a connection or a call: when, what the log says, and the answer.
pub(crate) struct Served<T> {
    pub(crate) after: Duration,
    pub(crate) log: Vec<Value>,
    pub(crate) answer: Option<Result<T, String>>,
}

impl Servers {
    /// Connects to a server of `mcpServers`.
    pub(crate) fn connect(&mut self, key: McpKey, server: &Value, cwd: &str) -> Served<Vec<McpTool>> {
        let failed = |reason: String| Served { after: START, log: Vec::new(), answer: Some(Err(reason)) };
        let is_http = server["type"] == "http";
        let command = server["command"].as_str().unwrap_or_default();
        let args: Vec<&str> =
            server["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if is_http && server["url"] != STUB_URL {
            return failed(format!("cannot reach the MCP server at {}", server["url"]));
        }
        if !is_http && matches!(command.rsplit('/').next(), Some("sleep" | "cat" | "tail")) {
            // It starts and never says a word.
            return Served { after: START, log: Vec::new(), answer: None };
        }
        if !is_http && (command != STUB || args.first() != Some(&"mcp-stub")) {
            return failed(format!("cannot start MCP server {command:?}: No such file or directory"));
        }
        self.pids += 1;
        let flag = |name: &str| args.iter().position(|arg| *arg == name).and_then(|at| args.get(at + 1));
        let stub = Server {
            name: flag("--name").map_or("acp-stub", |name| name).to_owned(),
            pid: 1000 + self.pids,
            cwd: cwd.to_owned(),
            is_logged: is_http || flag("--log").is_some(),
            is_process: !is_http,
            headers: if is_http { headers(server) } else { Map::new() },
        };
        let mut log = Vec::new();
        if !is_http {
            let argv: Vec<&str> = std::iter::once(command).chain(args.iter().copied()).collect();
            let extra: Vec<&str> =
                args.windows(2).filter(|pair| pair[0] == "--log-env").map(|pair| pair[1]).collect();
            let start = json!({
                "event": "start", "argv": argv, "env": logged_env(server, &extra), "cwd": cwd, "transport": "stdio",
            });
            log.push(start);
        }
        log.push(json!({
            "event": "initialize", "protocolVersion": "2025-11-25", "client": { "name": "acp-mock", "version": "0" },
        }));
        log.push(json!({ "event": "notifications/initialized" }));
        log.push(json!({ "event": "tools/list" }));
        let log = stub.lines(log);
        self.open.insert(key, stub);
        Served { after: START, log, answer: Some(Ok(tools())) }
    }

    /// Ends a connection.
    pub(crate) fn disconnect(&mut self, key: McpKey) -> Vec<Value> {
        self.open.remove(&key).map(|server| server.exit()).unwrap_or_default()
    }

    /// The agent's process ends: every server with it.
    pub(crate) fn close(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.open).into_values().flat_map(|server| server.exit()).collect()
    }

    pub(crate) fn abandon(&mut self, token: Token) {
        self.abandoned.push(token);
    }

    pub(crate) fn is_wanted(&self, token: Token) -> bool {
        !self.abandoned.contains(&token)
    }

    pub(crate) fn call(&self, files: &Files, key: McpKey, tool: &str, arguments: &Value) -> Served<Value> {
        let Some(server) = self.open.get(&key) else {
            let reason = "the connection to the MCP server is gone".to_owned();
            return Served { after: CALL, log: Vec::new(), answer: Some(Err(reason)) };
        };
        let log = server.lines(vec![json!({ "event": "tools/call", "tool": tool, "arguments": arguments })]);
        let (after, answer) = match tool {
            "slow" => {
                let time = Duration::from_millis(arguments["ms"].as_u64().unwrap_or(1000));
                (time, Ok(content(&format!("waited {} ms", time.as_millis()), false)))
            }
            _ => (CALL, answer(files, &server.cwd, tool, arguments)),
        };
        Served { after, log, answer: Some(answer) }
    }
}

impl Server {
    /// The log's lines, when there is a log.
    fn lines(&self, events: Vec<Value>) -> Vec<Value> {
        let head = json!({ "at": 0, "pid": self.pid, "server": self.name });
        let whole = |event: Value| {
            let mut line = head.clone();
            if let (Value::Object(line), Value::Object(event)) = (&mut line, event) {
                let is_request =
                    matches!(event["event"].as_str(), Some("initialize" | "tools/list" | "tools/call"));
                line.extend(event);
                if is_request && !self.headers.is_empty() {
                    line.insert("headers".to_owned(), Value::Object(self.headers.clone()));
                }
            }
            line
        };
        if self.is_logged { events.into_iter().map(whole).collect() } else { Vec::new() }
    }

    fn exit(&self) -> Vec<Value> {
        match self.is_process {
            true => self.lines(vec![json!({ "event": "exit", "reason": "end of input" })]),
            false => Vec::new(),
        }
    }
}

fn answer(files: &Files, cwd: &str, tool: &str, arguments: &Value) -> Result<Value, String> {
    match tool {
        "ping" => Ok(content("pong", false)),
        "echo" => match arguments["text"].as_str() {
            Some(text) => Ok(content(text, false)),
            None => Err("echo needs a string \"text\"".to_owned()),
        },
        "list-files" => {
            let path = files::from(cwd, arguments["path"].as_str().unwrap_or("."));
            Ok(content(&files.names(&path).join("\n"), false))
        }
        "fail" => match arguments["kind"].as_str() {
            Some("protocol" | "exit") => Err("failed as asked".to_owned()),
            _ => Ok(content(arguments["message"].as_str().unwrap_or("failed as asked"), true)),
        },
        _ => Err(format!("there is no tool {tool:?}")),
    }
}

fn content(text: &str, failed: bool) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": failed })
}

/// The headers of an HTTP server, by their names in lower case.
fn headers(server: &Value) -> Map<String, Value> {
    let pairs = server["headers"].as_array().into_iter().flatten();
    pairs.filter_map(|pair| Some((pair["name"].as_str()?.to_lowercase(), pair["value"].clone()))).collect()
}

/// What the stub records of its environment.
fn logged_env(server: &Value, extra: &[&str]) -> Map<String, Value> {
    let wanted = |name: &str| {
        ["ACP_", "MCP_", "TEST_"].iter().any(|prefix| name.starts_with(prefix))
            || extra.iter().any(|given| match given.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == *given,
            })
    };
    let pairs = server["env"].as_array().into_iter().flatten();
    pairs
        .filter_map(|pair| Some((pair["name"].as_str()?.to_owned(), pair["value"].clone())))
        .filter(|(name, _)| wanted(name))
        .collect()
}

fn tools() -> Vec<McpTool> {
    ["ping", "echo", "list-files", "slow", "fail"]
        .map(|name| McpTool {
            name: name.to_owned(),
            description: String::new(),
            schema: json!({ "type": "object" }),
        })
        .to_vec()
}
