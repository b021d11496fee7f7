use acp_dialect::Dialect;
use acp_rpc::Frame;
use serde_json::{Value, json};

use super::{notification, request, response, text, value};

/// An agent that follows one script: "work" streams, calls a tool, asks, reads a file; "wait" waits to be cancelled.
pub struct Agent {
    dialect: Dialect,
    session: String,
    prompt: Value,
    prompting: bool,
    pub approved: Option<bool>,
    pub file: Option<String>,
    pub cancels: usize,
}

impl Agent {
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            session: "agent-session".to_owned(),
            prompt: Value::Null,
            prompting: false,
            approved: None,
            file: None,
            cancels: 0,
        }
    }

    pub fn receive(&mut self, frame: &Frame) -> Vec<Frame> {
        let frame = value(frame);
        let (id, params) = (&frame["id"], &frame["params"]);
        match frame["method"].as_str() {
            Some("initialize") => vec![response(id, self.hello())],
            Some("session/new" | "newSession") => vec![response(id, self.made(params))],
            Some("session/prompt" | "prompt") => self.prompted(id, params),
            Some("session/cancel" | "cancel") => self.cancelled(id),
            Some("session/load" | "loadSession") => self.load(id),
            Some("session/permission_response") => {
                self.approved = Some(params["approved"] == true);
                vec![self.read()]
            }
            Some(other) => panic!("{} agent: {other} is no word of mine", self.dialect),
            None if *id == "perm" => {
                let option = text(&frame["result"]["outcome"]["optionId"]);
                self.approved = Some(option == "yes");
                vec![self.read()]
            }
            None if *id == "file" => self.read_done(&frame["result"]),
            None => panic!("{} agent: an answer to nothing: {frame}", self.dialect),
        }
    }

    fn hello(&self) -> Value {
        match self.dialect.as_str() {
            "v1" => json!({
                "protocolVersion": 1, "agentInfo": { "name": "a", "version": "1" }, "authMethods": [],
                "agentCapabilities": { "loadSession": true, "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true } },
            }),
            "2025.1" => json!({
                "agent_info": { "name": "a", "version": "1" },
                "capabilities": { "streaming": true, "image": true, "supported_modes": ["agent", "ask"] },
            }),
            "probe" => json!({
                "protocolVersion": "1", "serverInfo": { "name": "a", "version": "1" },
                "capabilities": { "tools": [], "sessionManagement": true, "streaming": true, "permissions": false },
            }),
            "go" => json!({
                "protocolVersion": 1, "agentInfo": { "name": "a", "version": "1" },
                "agentCapabilities": { "loadSession": true, "promptCapabilities": { "content": ["text", "image"] } },
            }),
            "delta" => json!({
                "protocolVersion": "2025-01-01", "serverInfo": { "name": "a", "version": "1" },
                "capabilities": { "loadSession": true },
            }),
            other => panic!("no peer speaks {other}"),
        }
    }

    fn made(&mut self, params: &Value) -> Value {
        match self.dialect.as_str() {
            "2025.1" => {
                self.session = text(&params["session_id"]);
                json!({ "status": "ok" })
            }
            "probe" => {
                json!({ "sessionId": self.session, "mode": "NORMAL", "createdAt": "2025-01-15T10:30:00Z" })
            }
            "delta" => {
                assert_eq!(params["workDir"], "/w");
                json!({ "sessionId": self.session })
            }
            "v1" | "go" => {
                assert_eq!(params["cwd"], "/w");
                assert!(params["mcpServers"].is_array(), "mcpServers is required: {params}");
                json!({ "sessionId": self.session })
            }
            other => panic!("no peer speaks {other}"),
        }
    }

    fn prompted(&mut self, id: &Value, params: &Value) -> Vec<Frame> {
        self.prompt = id.clone();
        self.prompting = true;
        let said = match self.dialect.as_str() {
            "v1" | "go" => text(&params["prompt"][0]["text"]),
            "2025.1" => text(&params["content"][0]["text"]),
            "probe" => text(&params["message"]),
            "delta" => text(&params["prompt"]),
            other => panic!("no peer speaks {other}"),
        };
        match said.as_str() {
            "wait" => vec![self.chunk("Waiting", 0)],
            "work" => {
                let mut out = vec![self.chunk("Hello ", 0), self.chunk("world", 1), self.tool("in_progress")];
                out.push(self.ask().unwrap_or_else(|| self.read()));
                out
            }
            other => panic!("{} agent: a prompt that is none: {other:?} in {params}", self.dialect),
        }
    }

    fn chunk(&self, said: &str, index: usize) -> Frame {
        match self.dialect.as_str() {
            "v1" | "go" => self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": said } })),
            "2025.1" => self.snake("agent_message_chunk", json!({ "text": said })),
            "probe" => notification("messageChunk", json!({ "sessionId": self.session, "chunk": said, "index": index })),
            "delta" => notification("assistant.message_delta", json!({ "sessionId": self.session, "content": said })),
            other => panic!("no peer speaks {other}"),
        }
    }

    fn tool(&self, status: &str) -> Frame {
        let first = status == "in_progress";
        let variant = if first { "tool_call" } else { "tool_call_update" };
        match self.dialect.as_str() {
            "v1" | "delta" => {
                let mut update = json!({ "sessionUpdate": variant, "toolCallId": "t1", "status": status });
                if first {
                    update["title"] = json!("Read notes");
                    update["kind"] = json!("read");
                }
                self.update(update)
            }
            "go" => self.update(json!({ "kind": variant, "toolCallId": "t1", "title": "Read notes", "toolKind": "read", "status": status })),
            "2025.1" if first => self.snake("tool_call", json!({ "id": "t1", "name": "read", "arguments": {} })),
            "2025.1" => self.snake("tool_call_update", json!({ "id": "t1", "status": status, "result": { "content": "done" } })),
            "probe" => notification(
                "toolCallProgress",
                json!({ "sessionId": self.session, "toolCall": { "id": "t1", "name": "extract", "kind": "extract", "status": status } }),
            ),
            other => panic!("no peer speaks {other}"),
        }
    }

    fn ask(&self) -> Option<Frame> {
        match self.dialect.as_str() {
            "v1" | "go" => Some(request(
                "perm",
                "session/request_permission",
                json!({
                    "sessionId": self.session, "toolCall": { "toolCallId": "t1", "title": "Read notes", "kind": "read" },
                    "options": [{ "optionId": "no", "name": "No", "kind": "reject_once" }, { "optionId": "yes", "name": "Yes", "kind": "allow_once" }],
                }),
            )),
            "delta" => Some(notification(
                "session/request_permission",
                json!({ "sessionId": self.session, "tool": "read", "command": "notes.txt", "reason": "to know" }),
            )),
            "2025.1" | "probe" => None,
            other => panic!("no peer speaks {other}"),
        }
    }

    fn read(&self) -> Frame {
        match self.dialect.as_str() {
            "v1" | "go" | "delta" => request(
                "file",
                "fs/read_text_file",
                json!({ "sessionId": self.session, "path": "/w/notes.txt" }),
            ),
            "2025.1" => request("file", "fs/read_text_file", json!({ "path": "/w/notes.txt" })),
            "probe" => request("file", "readTextFile", json!({ "path": "notes.txt" })),
            other => panic!("no peer speaks {other}"),
        }
    }

    fn read_done(&mut self, result: &Value) -> Vec<Frame> {
        self.file = Some(text(&result["content"]));
        let end = self.end("Hello world", false);
        vec![self.tool("completed"), end]
    }

    fn cancelled(&mut self, id: &Value) -> Vec<Frame> {
        self.cancels += 1;
        let mut out = Vec::new();
        match self.dialect.as_str() {
            "probe" => out.push(response(id, json!({ "success": true }))),
            "delta" => out.push(response(id, json!({ "sessionId": self.session, "canceled": true }))),
            _ => assert!(id.is_null(), "{} cancels by notification", self.dialect),
        }
        out.push(self.end("Waiting", true));
        out
    }

    fn end(&mut self, said: &str, cancelled: bool) -> Frame {
        assert!(std::mem::take(&mut self.prompting), "the prompt was answered twice");
        let reason = if cancelled { "cancelled" } else { "end_turn" };
        let result = match self.dialect.as_str() {
            "v1" => json!({ "stopReason": reason }),
            "go" => json!({ "sessionId": self.session, "stopReason": reason }),
            "2025.1" => json!({ "status": "ok" }),
            "probe" => {
                json!({ "sessionId": self.session, "content": [{ "type": "text", "text": said }], "timestamp": "2025-01-15T10:31:00Z" })
            }
            "delta" if cancelled => {
                json!({ "sessionId": self.session, "content": said, "artifacts": [], "canceled": true })
            }
            "delta" => json!({ "sessionId": self.session, "content": said, "artifacts": [] }),
            other => panic!("no peer speaks {other}"),
        };
        response(&self.prompt, result)
    }

    fn load(&self, id: &Value) -> Vec<Frame> {
        let chunk = |kind: &str, said: &str| {
            self.update(json!({ "sessionUpdate": kind, "content": { "type": "text", "text": said } }))
        };
        match self.dialect.as_str() {
            "v1" | "go" => {
                vec![
                    chunk("user_message_chunk", "Earlier"),
                    chunk("agent_message_chunk", "Before"),
                    response(id, Value::Null),
                ]
            }
            "2025.1" => vec![
                self.snake("user_message_chunk", json!({ "text": "Earlier" })),
                self.snake("agent_message_chunk", json!({ "text": "Before" })),
                response(id, json!({ "status": "ok" })),
            ],
            "probe" => vec![response(
                id,
                json!({ "sessionId": self.session, "mode": "NORMAL", "history": [
                    { "role": "user", "content": "Earlier" }, { "role": "assistant", "content": "Before" }] }),
            )],
            "delta" => vec![
                notification(
                    "session/update",
                    json!({ "sessionId": self.session, "history": [{ "prompt": "Earlier", "response": "Before" }] }),
                ),
                response(id, json!({ "sessionId": self.session, "loaded": true })),
            ],
            other => panic!("no peer speaks {other}"),
        }
    }

    fn update(&self, update: Value) -> Frame {
        notification("session/update", json!({ "sessionId": self.session, "update": update }))
    }

    fn snake(&self, kind: &str, data: Value) -> Frame {
        notification("session/update", json!({ "session_id": self.session, "type": kind, "data": data }))
    }
}
