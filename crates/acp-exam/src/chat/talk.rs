//! The connection to the client that is examined: its frames in order, what it said when it opened, and what the exam says.

use std::collections::BTreeSet;
use std::time::Instant;

use acp_link::{Link, Receiver};
use acp_proto::{method, update};
use acp_rpc::{Direction, Frame};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::answers::UsualAnswers;

/// How much of the conversation is kept for `/trace`.
const TRACE: usize = 8 << 20;
/// Ids of the exam's own requests begin with this.
const OWN: &str = "acp-exam/";

/// The connection.
pub(super) struct Talk {
    rx: Receiver,
    out: mpsc::UnboundedSender<Written>,
    answers: UsualAnswers,
    began: Instant,
    trace: Vec<u8>,
    own: u64,
    sessions: usize,
    /// Ids of requests to the client without an answer, as JSON text.
    pub unanswered: BTreeSet<String>,
    /// The client's first request, and its parameters.
    pub introduction: Option<(Frame, Value)>,
    /// The requests that opened sessions, in order: the session, its folder, the request.
    pub opened: Vec<OpenedSession>,
}

/// A session of the client.
#[derive(Clone, Debug)]
pub(super) struct OpenedSession {
    pub id: String,
    pub folder: String,
    pub request: Frame,
}

/// What goes to the client.
enum Written {
    Line(Bytes),
    Raw(Bytes),
}

/// What the client said.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub frame: Frame,
    pub value: Value,
}

impl Heard {
    pub fn method(&self) -> &str {
        self.value["method"].as_str().unwrap_or_default()
    }

    pub fn is_request(&self) -> bool {
        self.value["method"].is_string() && self.value.get("id").is_some()
    }

    pub fn is_answer(&self) -> bool {
        !self.value["method"].is_string() && self.value.get("id").is_some()
    }

    pub fn params(&self) -> &Value {
        &self.value["params"]
    }

    pub fn session(&self) -> &str {
        self.params()["sessionId"].as_str().unwrap_or_default()
    }
}

impl Talk {
    /// Takes a connection over; its lines are written by a task of their own.
    pub fn new(link: Link) -> Talk {
        let (out, mut lines) = mpsc::unbounded_channel();
        let tx = link.tx;
        tokio::spawn(async move {
            while let Some(written) = lines.recv().await {
                let sent = match written {
                    Written::Line(line) => tx.send(line).await,
                    Written::Raw(bytes) => tx.send_raw(bytes).await,
                };
                if sent.is_err() {
                    return;
                }
            }
            let _ = tx.finish().await;
        });
        Talk {
            rx: link.rx,
            out,
            answers: UsualAnswers::built_in(),
            began: Instant::now(),
            trace: Vec::new(),
            own: 0,
            sessions: 0,
            unanswered: BTreeSet::new(),
            introduction: None,
            opened: Vec::new(),
        }
    }

    /// The client's next line; `None` when it is gone. Cancel safe.
    pub async fn hear(&mut self) -> Option<Heard> {
        let frame = Frame::from(self.rx.recv().await?.line);
        self.note(Direction::ClientToAgent, &frame.raw().clone());
        let value = serde_json::from_slice(frame.raw()).unwrap_or_default();
        let heard = Heard { frame, value };
        if heard.is_answer() {
            self.unanswered.remove(&heard.value["id"].to_string());
        }
        Some(heard)
    }

    /// The conversation so far.
    pub fn trace(&self) -> &[u8] {
        &self.trace
    }

    fn note(&mut self, direction: Direction, line: &[u8]) {
        if self.trace.len() + line.len() < TRACE {
            acp_rpc::transcript::write_entry(self.began.elapsed(), direction, line, &mut self.trace);
            self.trace.push(b'\n');
        }
    }

    /// Writes a line.
    pub fn write(&mut self, line: Bytes) {
        self.note(Direction::AgentToClient, &line);
        if let Some((false, id)) = answer_or_id(&line) {
            self.unanswered.insert(id);
        }
        let _ = self.out.send(Written::Line(line));
    }

    /// Writes bytes as they are.
    pub fn write_raw(&mut self, bytes: Bytes) {
        let _ = self.out.send(Written::Raw(bytes));
    }

    fn say(&mut self, value: &Value) {
        self.write(Bytes::from(value.to_string()));
    }

    /// Sends an update.
    pub fn update(&mut self, session: &str, update: &Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.say(&json!({ "jsonrpc": "2.0", "method": method::SESSION_UPDATE, "params": params }));
    }

    /// Says something in the chat.
    pub fn tell(&mut self, session: &str, text: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(session, &json!({ "sessionUpdate": update::AGENT_MESSAGE_CHUNK, "content": content }));
    }

    /// Answers a request.
    pub fn answer(&mut self, id: &Value, result: &Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Makes a request of the exam's own, and gives its id.
    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.own += 1;
        let id = json!(format!("{OWN}{}", self.own));
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Whether this is a late answer to a request of the exam's own.
    pub fn is_own(heard: &Heard) -> bool {
        heard.is_answer() && heard.value["id"].as_str().is_some_and(|id| id.starts_with(OWN))
    }

    /// Whether this opens a session.
    pub fn opens(&self, heard: &Heard) -> bool {
        heard.is_request() && self.answers.opens(heard.method())
    }

    /// Answers a request as the default agent does; gives the session that it opened.
    pub fn answer_usually(&mut self, heard: &Heard) -> Option<OpenedSession> {
        if !heard.is_request() {
            return None;
        }
        let name = heard.method().to_owned();
        if name == method::INITIALIZE && self.introduction.is_none() {
            self.introduction = Some((heard.frame.clone(), heard.params().clone()));
        }
        let session = match self.answers.names_session(&name) {
            true => {
                self.sessions += 1;
                self.answers.session_name(self.sessions)
            }
            false => heard.session().to_owned(),
        };
        let (kind, body) = self.answers.body(&name, heard.params(), &session);
        self.say(&json!({ "jsonrpc": "2.0", "id": heard.value["id"], kind: body }));
        if !self.answers.opens(&name) {
            return None;
        }
        let folder = heard.params()["cwd"].as_str().unwrap_or_default().to_owned();
        let opened = OpenedSession { id: session, folder, request: heard.frame.clone() };
        self.opened.push(opened.clone());
        Some(opened)
    }

    /// What the client says it can do.
    pub fn client(&self) -> Value {
        self.introduction.as_ref().map(|(_, params)| params.clone()).unwrap_or_default()
    }
}

/// Whether a line is an answer, and its id as JSON text.
pub(super) fn answer_or_id(line: &[u8]) -> Option<(bool, String)> {
    let value: Value = serde_json::from_slice(line).ok()?;
    Some((value.get("method").is_none(), value.get("id")?.to_string()))
}
