//! A client that speaks any of the forms, each in its own words only, over a socket.

#![expect(clippy::needless_pass_by_value, reason = "values are written in place")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use acp_dialect::Dialect;
use serde_json::{Value, json};

/// What the file says when the client is asked for it.
pub const FILE: &str = "the client's own words";

pub struct Talker {
    pub dialect: Dialect,
    reader: BufReader<TcpStream>,
    pub session: String,
    folder: String,
    id: u64,
    answers: HashMap<u64, Value>,
    /// Every line on the wire, with `c2a` or `a2c`.
    pub wire: Vec<(String, String)>,
    pub text: String,
    pub chunks: usize,
    pub tools: Vec<String>,
    pub asked: usize,
    pub reads: usize,
    pub history: Vec<String>,
}

impl Talker {
    pub fn new(dialect: Dialect, stream: TcpStream, folder: &str) -> Talker {
        Talker {
            dialect,
            reader: BufReader::new(stream),
            session: "chosen-by-the-client".to_owned(),
            folder: folder.to_owned(),
            id: 0,
            answers: HashMap::new(),
            wire: Vec::new(),
            text: String::new(),
            chunks: 0,
            tools: Vec::new(),
            asked: 0,
            reads: 0,
            history: Vec::new(),
        }
    }

    pub fn send(&mut self, line: &str) {
        self.wire.push(("c2a".to_owned(), line.to_owned()));
        let mut bytes = line.as_bytes().to_vec();
        bytes.push(b'\n');
        self.reader.get_mut().write_all(&bytes).expect("a connection");
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.id += 1;
        let id = self.id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    /// The next line; `None` at the end.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line).expect("a line in time");
        let line = line.strip_suffix('\n').unwrap_or(&line).to_owned();
        (count > 0).then(|| {
            self.wire.push(("a2c".to_owned(), line.clone()));
            line
        })
    }

    /// Takes what is still on its way, to the end of the connection, which may be rough.
    pub fn hear_the_rest(&mut self) {
        loop {
            let mut line = String::new();
            match self.reader.read_line(&mut line) {
                Ok(count) if count > 0 && line.ends_with('\n') => {
                    let line = line.trim_end_matches('\n').to_owned();
                    if let Ok(frame) = serde_json::from_str(&line) {
                        self.wire.push(("a2c".to_owned(), line));
                        self.take(&frame);
                    }
                }
                _ => return,
            }
        }
    }

    /// Takes one line from the other side.
    pub fn hear(&mut self) {
        let line = self.line().unwrap_or_else(|| panic!("{}: the connection ended", self.dialect));
        let frame: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.take(&frame);
    }

    /// The answer to a question, if it has come.
    pub fn answered(&mut self, id: u64) -> Option<Value> {
        self.answers.remove(&id)
    }

    /// The answer to a question, whatever is said before it.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(frame) = self.answers.remove(&id) {
                return frame;
            }
            self.hear();
        }
    }

    pub fn result(&mut self, id: u64) -> Value {
        let frame = self.answer(id);
        assert!(frame.get("error").is_none(), "{} client: {frame}", self.dialect);
        frame["result"].clone()
    }

    fn take(&mut self, frame: &Value) {
        let (id, params) = (&frame["id"], &frame["params"]);
        match frame["method"].as_str() {
            None => {
                let id = id.as_u64().unwrap_or_else(|| panic!("{} client: {frame}", self.dialect));
                self.answers.insert(id, frame.clone());
            }
            Some("fs/read_text_file" | "readTextFile") => {
                assert!(text(&params["path"]).ends_with("notes.txt"), "{params}");
                self.reads += 1;
                let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": FILE } });
                self.send(&answer.to_string());
            }
            Some("session/request_permission") => self.permit(id, params),
            Some(method) => {
                assert!(id.is_null(), "{} client: {method} is no request of mine: {frame}", self.dialect);
                self.told(method, params);
            }
        }
    }

    fn permit(&mut self, id: &Value, params: &Value) {
        self.asked += 1;
        if self.dialect == Dialect::DELTA {
            assert!(id.is_null() && params["tool"].is_string(), "delta is asked by notification: {params}");
            let session = self.session.clone();
            return self
                .tell("session/permission_response", json!({ "sessionId": session, "approved": true }));
        }
        let options = params["options"].as_array().expect("options");
        let allow =
            options.iter().find(|option| option["kind"] == "allow_once").expect("an option that allows");
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": allow["optionId"] } });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": outcome }).to_string());
    }

    fn told(&mut self, method: &str, params: &Value) {
        match (self.dialect.as_str(), method) {
            ("2025.1", "session/update") => {
                assert_eq!(params["session_id"], self.session.as_str());
                let data = &params["data"];
                let (kind, said) = (text(&params["type"]), text(&data["text"]));
                self.update(&kind, &said, &text(&data["id"]), &text(&data["status"]));
            }
            ("probe", "messageChunk") => {
                self.update("agent_message_chunk", &text(&params["chunk"]), "", "");
            }
            ("probe", "toolCallProgress") => {
                let call = &params["toolCall"];
                self.update("tool_call", "", &text(&call["id"]), &text(&call["status"]));
            }
            ("probe", "sessionUpdated") => {}
            ("delta", "assistant.message_delta") => {
                self.update("agent_message_chunk", &text(&params["content"]), "", "");
            }
            ("delta", "session/update") if params.get("history").is_some() => {
                for turn in params["history"].as_array().into_iter().flatten() {
                    self.history.push(text(&turn["prompt"]));
                    self.history.push(text(&turn["response"]));
                }
            }
            ("v1" | "go" | "delta", "session/update") => {
                assert_eq!(params["sessionId"], self.session.as_str());
                let update = &params["update"];
                let kind = update["sessionUpdate"].as_str().or(update["kind"].as_str()).unwrap_or_default();
                let (said, call) = (text(&update["content"]["text"]), text(&update["toolCallId"]));
                self.update(kind, &said, &call, &text(&update["status"]));
            }
            _ => panic!("{} client: {method} is no word of mine: {params}", self.dialect),
        }
    }

    fn update(&mut self, kind: &str, said: &str, call: &str, status: &str) {
        match kind {
            "agent_message_chunk" => {
                self.chunks += 1;
                self.text.push_str(said);
            }
            "user_message_chunk" => self.history.push(said.to_owned()),
            "tool_call" | "tool_call_update" => self.tools.push(format!("{call} {status}")),
            _ => {}
        }
    }

    // ---- what a client says -------------------------------------------------------------------------------

    pub fn initialize(&mut self) -> Value {
        let caps = json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": false });
        let info = json!({ "name": "talker", "version": "1" });
        let params = match self.dialect.as_str() {
            "v1" | "go" => {
                json!({ "protocolVersion": 1, "clientInfo": info, "clientCapabilities": caps })
            }
            "2025.1" => json!({
                "protocol_version": "2025.1", "client_info": info,
                "capabilities": { "text_files": true, "terminal": false, "experimental": {} },
                "working_directory": self.folder, "mcp_servers": [],
            }),
            "probe" => json!({ "protocolVersion": "1" }),
            "delta" => {
                json!({ "protocolVersion": "2025-01-01", "capabilities": caps, "clientInfo": info })
            }
            other => panic!("no peer speaks {other}"),
        };
        let id = self.ask("initialize", params);
        self.result(id)
    }

    pub fn new_session(&mut self) {
        let id = match self.dialect.as_str() {
            "v1" | "go" => {
                let params = json!({ "cwd": self.folder, "mcpServers": [] });
                self.ask("session/new", params)
            }
            "2025.1" => {
                let params = json!({ "session_id": self.session });
                self.ask("session/new", params)
            }
            "probe" => self.ask("newSession", json!({})),
            "delta" => {
                let params = json!({ "workDir": self.folder });
                self.ask("session/new", params)
            }
            other => panic!("no peer speaks {other}"),
        };
        let result = self.result(id);
        match self.dialect.as_str() {
            "2025.1" => assert_eq!(result["status"], "ok", "{result}"),
            _ => self.session = text(&result["sessionId"]),
        }
    }

    pub fn prompt(&mut self, said: &str) -> u64 {
        let blocks = json!([{ "type": "text", "text": said }]);
        let session = self.session.clone();
        match self.dialect.as_str() {
            "v1" | "go" => self.ask("session/prompt", json!({ "sessionId": session, "prompt": blocks })),
            "2025.1" => self.ask("session/prompt", json!({ "session_id": session, "content": blocks })),
            "probe" => self.ask("prompt", json!({ "sessionId": session, "message": said })),
            "delta" => self.ask("session/prompt", json!({ "sessionId": session, "prompt": said })),
            other => panic!("no peer speaks {other}"),
        }
    }

    /// Cancels; where that is a request, its acknowledgement is waited for.
    pub fn cancel(&mut self) {
        let session = self.session.clone();
        match self.dialect.as_str() {
            "v1" | "go" => self.tell("session/cancel", json!({ "sessionId": session })),
            "2025.1" => self.tell("session/cancel", json!({ "session_id": session })),
            "probe" | "delta" => {
                let (method, good) = match self.dialect.as_str() {
                    "probe" => ("cancel", "success"),
                    _ => ("session/cancel", "canceled"),
                };
                let id = self.ask(method, json!({ "sessionId": session }));
                let result = self.result(id);
                assert_eq!(
                    result[good], true,
                    "{} client: the cancel was not acknowledged: {result}",
                    self.dialect
                );
            }
            other => panic!("no peer speaks {other}"),
        }
    }

    pub fn load(&mut self) {
        let (session, folder) = (self.session.clone(), self.folder.clone());
        let id = match self.dialect.as_str() {
            "v1" => {
                self.ask("session/load", json!({ "sessionId": session, "cwd": folder, "mcpServers": [] }))
            }
            "go" => self.ask("session/load", json!({ "sessionId": session, "cwd": folder })),
            "2025.1" => self.ask("session/load", json!({ "session_id": session })),
            "probe" => self.ask("loadSession", json!({ "sessionId": session })),
            "delta" => self.ask("session/load", json!({ "sessionId": session, "workDir": folder })),
            other => panic!("no peer speaks {other}"),
        };
        let result = self.result(id);
        for said in result["history"].as_array().into_iter().flatten() {
            self.history.push(text(&said["content"]));
        }
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
