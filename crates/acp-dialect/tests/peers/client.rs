use acp_dialect::Dialect;
use acp_rpc::Frame;
use serde_json::{Value, json};

use super::{notification, request, response, text, value};

/// What the client learnt, whatever the form it learnt it in.
#[derive(Debug, Default)]
pub struct Saw {
    pub text: String,
    pub tools: Vec<String>,
    pub asked: usize,
    pub cancelled: bool,
    pub history: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Hello,
    New,
    Work,
    Wait,
    Load,
    Done,
}

/// A client that says hello, makes a session, works, cancels, loads.
pub struct Client {
    dialect: Dialect,
    session: String,
    stage: Stage,
    pub saw: Saw,
}

impl Client {
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, session: "my-session".to_owned(), stage: Stage::Hello, saw: Saw::default() }
    }

    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    pub fn start(&mut self) -> Vec<Frame> {
        let caps = json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": false });
        let params = match self.dialect.as_str() {
            "v1" | "go" => {
                json!({ "protocolVersion": 1, "clientInfo": { "name": "c", "version": "1" }, "clientCapabilities": caps })
            }
            "2025.1" => json!({
                "protocol_version": "2025.1", "client_info": { "name": "c", "version": "1" },
                "capabilities": { "text_files": true, "terminal": false, "experimental": {} },
                "working_directory": "/w", "mcp_servers": [],
            }),
            "probe" => json!({ "protocolVersion": "1" }),
            "delta" => {
                json!({ "protocolVersion": "2025-01-01", "capabilities": caps, "clientInfo": { "name": "c", "version": "1" } })
            }
            other => panic!("no peer speaks {other}"),
        };
        vec![request(1, "initialize", params)]
    }

    pub fn receive(&mut self, frame: &Frame) -> Vec<Frame> {
        let frame = value(frame);
        let (id, params) = (&frame["id"], &frame["params"]);
        match frame["method"].as_str() {
            None => {
                assert!(frame.get("error").is_none(), "{} client: {frame}", self.dialect);
                self.answered(id, &frame["result"])
            }
            Some("fs/read_text_file" | "readTextFile") => {
                assert!(text(&params["path"]).ends_with("notes.txt"), "{params}");
                vec![response(id, json!({ "content": "file text" }))]
            }
            Some("session/request_permission") => self.asked(id, params),
            Some(method) => {
                assert!(id.is_null(), "{} client: {method} is no request of mine: {frame}", self.dialect);
                self.told(method, params)
            }
        }
    }

    fn answered(&mut self, id: &Value, result: &Value) -> Vec<Frame> {
        match (id.as_u64(), self.stage) {
            (Some(1), Stage::Hello) => {
                self.check_hello(result);
                self.stage = Stage::New;
                vec![self.new_session()]
            }
            (Some(2), Stage::New) => {
                if let Some(session) = result.get("sessionId").and_then(Value::as_str) {
                    session.clone_into(&mut self.session);
                }
                self.stage = Stage::Work;
                vec![self.prompt(3, "work")]
            }
            (Some(3), Stage::Work) => {
                self.check_end(result, "Hello world");
                self.stage = Stage::Wait;
                vec![self.prompt(4, "wait")]
            }
            (Some(4), Stage::Wait) => {
                let reason = &result["stopReason"];
                let kept = &result["_meta"]["acp-dialect/v1"]["stopReason"];
                self.saw.cancelled =
                    *reason == "cancelled" || *kept == "cancelled" || result["canceled"] == true;
                self.stage = Stage::Load;
                vec![self.load()]
            }
            (Some(5), Stage::Load) => {
                for said in result["history"].as_array().into_iter().flatten() {
                    let role = if said["role"] == "user" { "user" } else { "agent" };
                    self.saw.history.push(format!("{role}: {}", text(&said["content"])));
                }
                self.stage = Stage::Done;
                Vec::new()
            }
            (Some(6), _) => {
                let good =
                    if self.dialect == Dialect::PROBE { &result["success"] } else { &result["canceled"] };
                assert_eq!(good, true, "{} client: the cancel was not acknowledged", self.dialect);
                Vec::new()
            }
            _ => panic!("{} client: an answer to nothing at {:?}: {id} {result}", self.dialect, self.stage),
        }
    }

    fn check_hello(&self, result: &Value) {
        let expected = match self.dialect.as_str() {
            "v1" | "go" => ("protocolVersion", json!(1), "agentInfo"),
            "2025.1" => ("protocolVersion", Value::Null, "agent_info"),
            "probe" => ("protocolVersion", json!("1"), "serverInfo"),
            "delta" => ("protocolVersion", json!("2025-01-01"), "serverInfo"),
            other => panic!("no peer speaks {other}"),
        };
        assert_eq!(result[expected.0], expected.1, "{} client: {result}", self.dialect);
        assert_eq!(result[expected.2]["name"], "a", "{} client: {result}", self.dialect);
    }

    fn check_end(&self, result: &Value, said: &str) {
        match self.dialect.as_str() {
            "v1" => assert_eq!(result["stopReason"], "end_turn"),
            "go" => {
                assert_eq!(result["stopReason"], "end_turn");
                assert_eq!(result["sessionId"], self.session.as_str());
            }
            "2025.1" => assert_eq!(result["status"], "ok"),
            "probe" => assert_eq!(result["content"][0]["text"], said, "{result}"),
            "delta" => assert_eq!(result["content"], said, "{result}"),
            other => panic!("no peer speaks {other}"),
        }
    }

    fn new_session(&self) -> Frame {
        match self.dialect.as_str() {
            "v1" | "go" => request(2, "session/new", json!({ "cwd": "/w", "mcpServers": [] })),
            "2025.1" => request(2, "session/new", json!({ "session_id": self.session, "mode": "agent" })),
            "probe" => request(2, "newSession", json!({})),
            "delta" => request(2, "session/new", json!({ "workDir": "/w" })),
            other => panic!("no peer speaks {other}"),
        }
    }

    fn prompt(&self, id: u64, said: &str) -> Frame {
        let blocks = json!([{ "type": "text", "text": said }]);
        match self.dialect.as_str() {
            "v1" | "go" => {
                request(id, "session/prompt", json!({ "sessionId": self.session, "prompt": blocks }))
            }
            "2025.1" => {
                request(id, "session/prompt", json!({ "session_id": self.session, "content": blocks }))
            }
            "probe" => request(id, "prompt", json!({ "sessionId": self.session, "message": said })),
            "delta" => request(id, "session/prompt", json!({ "sessionId": self.session, "prompt": said })),
            other => panic!("no peer speaks {other}"),
        }
    }

    fn cancel(&self) -> Frame {
        match self.dialect.as_str() {
            "v1" | "go" => notification("session/cancel", json!({ "sessionId": self.session })),
            "2025.1" => notification("session/cancel", json!({ "session_id": self.session })),
            "probe" => request(6, "cancel", json!({ "sessionId": self.session })),
            "delta" => request(6, "session/cancel", json!({ "sessionId": self.session })),
            other => panic!("no peer speaks {other}"),
        }
    }

    fn load(&self) -> Frame {
        match self.dialect.as_str() {
            "v1" => request(
                5,
                "session/load",
                json!({ "sessionId": self.session, "cwd": "/w", "mcpServers": [] }),
            ),
            "go" => request(5, "session/load", json!({ "sessionId": self.session, "cwd": "/w" })),
            "2025.1" => request(5, "session/load", json!({ "session_id": self.session })),
            "probe" => request(5, "loadSession", json!({ "sessionId": self.session })),
            "delta" => request(5, "session/load", json!({ "sessionId": self.session, "workDir": "/w" })),
            other => panic!("no peer speaks {other}"),
        }
    }

    fn asked(&mut self, id: &Value, params: &Value) -> Vec<Frame> {
        self.saw.asked += 1;
        if self.dialect == Dialect::DELTA {
            assert!(id.is_null() && params["tool"].is_string(), "delta is asked by notification: {params}");
            return vec![notification(
                "session/permission_response",
                json!({ "sessionId": self.session, "approved": true }),
            )];
        }
        let options = params["options"].as_array().cloned().unwrap_or_default();
        let allow =
            options.iter().find(|option| option["kind"] == "allow_once").expect("an option that allows");
        vec![response(id, json!({ "outcome": { "outcome": "selected", "optionId": allow["optionId"] } }))]
    }

    fn told(&mut self, method: &str, params: &Value) -> Vec<Frame> {
        match (self.dialect.as_str(), method) {
            ("2025.1", "session/update") => {
                assert_eq!(params["session_id"], self.session.as_str());
                let data = &params["data"];
                let status = if params["type"] == "tool_call" {
                    data["_meta"]["acp-dialect/v1"]["status"].as_str().unwrap_or("in_progress").to_owned()
                } else {
                    text(&data["status"])
                };
                self.update(&text(&params["type"]), &text(&data["text"]), &text(&data["id"]), &status)
            }
            ("probe", "messageChunk") => self.update("agent_message_chunk", &text(&params["chunk"]), "", ""),
            ("probe", "toolCallProgress") => {
                let call = &params["toolCall"];
                self.update("tool_call", "", &text(&call["id"]), &text(&call["status"]))
            }
            ("probe", "sessionUpdated") => Vec::new(),
            ("delta", "assistant.message_delta") => {
                self.update("agent_message_chunk", &text(&params["content"]), "", "")
            }
            ("delta", "session/update") if params.get("history").is_some() => {
                for turn in params["history"].as_array().into_iter().flatten() {
                    self.saw.history.push(format!("user: {}", text(&turn["prompt"])));
                    self.saw.history.push(format!("agent: {}", text(&turn["response"])));
                }
                Vec::new()
            }
            ("v1" | "go" | "delta", "session/update") => {
                assert_eq!(params["sessionId"], self.session.as_str());
                let update = &params["update"];
                let mut kind = text(&update["sessionUpdate"]);
                if self.dialect == Dialect::GO && kind.is_empty() {
                    kind = text(&update["kind"]);
                }
                let status = update["status"].as_str().unwrap_or("in_progress").to_owned();
                self.update(&kind, &text(&update["content"]["text"]), &text(&update["toolCallId"]), &status)
            }
            _ => panic!("{} client: {method} is no word of mine: {params}", self.dialect),
        }
    }

    fn update(&mut self, kind: &str, said: &str, call: &str, status: &str) -> Vec<Frame> {
        match (self.stage, kind) {
            (Stage::Work, "agent_message_chunk") => self.saw.text.push_str(said),
            (Stage::Wait, "agent_message_chunk") => return vec![self.cancel()],
            (Stage::Load, "agent_message_chunk") => self.saw.history.push(format!("agent: {said}")),
            (Stage::Load, "user_message_chunk") => self.saw.history.push(format!("user: {said}")),
            // A form that cannot say that a new call already runs says that it waits.
            (_, "tool_call" | "tool_call_update") => {
                let status = if status == "pending" { "in_progress" } else { status };
                self.saw.tools.push(format!("{call} {status}"));
            }
            _ => {}
        }
        Vec::new()
    }
}
