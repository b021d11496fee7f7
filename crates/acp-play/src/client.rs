//! The client's answers: files, terminals, permissions and questions, by the rules of the test's policy.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_policy::{
    OperationClass, PermissionOption, PermissionOptionKind, PermissionOutcome, PolicyRequest, PolicyRules,
    PolicyVerdict, ToolAction, ToolKind, ToolStage, choose_option, shell,
};
use acp_proto::{error_code, method, tool_status};
use acp_rpc::{Frame, Id, RpcError, View};
use serde_json::{Value, json};

use crate::files::Files;
use crate::local_tools::LocalTools;
use crate::terminals::{Answer, Answers, text, words};

/// What a client offers, and what its agent did so far.
pub(crate) struct Client {
    rules: PolicyRules,
    root: String,
    offer: Value,
    local_tools: LocalTools,
    sessions: BTreeMap<String, Session>,
}

#[derive(Default)]
struct Session {
    running: bool,
    cancelled: bool,
    granted: Option<OperationClass>,
    /// Tool calls by id: the newest word on each field.
    calls: BTreeMap<String, Value>,
}

impl Client {
    pub(crate) fn new(rules: PolicyRules, root: &str, offer: Value) -> Self {
        Self {
            rules,
            root: root.to_owned(),
            offer,
            local_tools: LocalTools::default(),
            sessions: BTreeMap::new(),
        }
    }

    /// A request of the test names this session: a turn may begin.
    pub(crate) fn turn_began(&mut self, session: &str) {
        let session = self.sessions.entry(session.to_owned()).or_default();
        session.running = true;
        session.cancelled = false;
        session.granted = None;
    }

    /// The test cancels: permission requests of the turn are answered `cancelled` from now on.
    pub(crate) fn cancel(&mut self, session: &str) {
        let session = self.sessions.entry(session.to_owned()).or_default();
        session.cancelled = session.running;
    }

    /// Takes note of a notification; an answer to a request that was taken back.
    pub(crate) fn observe(&mut self, frame: &Frame) -> Option<Frame> {
        let View::Notification { method, params: Some(params) } = frame.view() else { return None };
        let params: Value = serde_json::from_str(params).ok()?;
        match method {
            method::CANCEL_REQUEST => {
                let id = Id::parse(&params["requestId"].to_string())?;
                let error = self.local_tools.take_back(&id)?;
                return Some(Frame::failure(&id, &error));
            }
            method::SESSION_UPDATE => {
                let (session, update) = (params["sessionId"].as_str()?, &params["update"]);
                let call = update["toolCallId"].as_str()?;
                let calls = &mut self.sessions.entry(session.to_owned()).or_default().calls;
                if matches!(update["status"].as_str(), Some(tool_status::COMPLETED | tool_status::FAILED)) {
                    calls.remove(call);
                } else {
                    absorb(calls.entry(call.to_owned()).or_insert_with(|| json!({})), update);
                }
            }
            _ => {}
        }
        None
    }

    /// Answers that are due by now.
    pub(crate) fn due(&mut self, now: Duration) -> Answers {
        self.local_tools.due(now)
    }

    /// Answers a request of the agent.
    pub(crate) fn answer(&mut self, now: Duration, files: &mut Files, frame: &Frame) -> (Answer, Answers) {
        let View::Request { id, method, params } = frame.view() else {
            let error = RpcError::new(error_code::INVALID_REQUEST, "this is not a request");
            return (Answer::Now(Err(error)), Vec::new());
        };
        let params = params.and_then(|params| serde_json::from_str(params).ok()).unwrap_or_else(|| json!({}));
        let plain = |result| (Answer::Now(result), Vec::new());
        let kind = match method {
            method::SESSION_REQUEST_PERMISSION => return plain(self.permission(&params)),
            method::ELICITATION_CREATE => return plain(self.elicit(&params)),
            method::FS_READ_TEXT_FILE if self.offers("/fs/readTextFile") => Some((ToolKind::Read, "path")),
            method::FS_WRITE_TEXT_FILE if self.offers("/fs/writeTextFile") => Some((ToolKind::Edit, "path")),
            method::TERMINAL_CREATE if self.offers("/terminal") => Some((ToolKind::Execute, "command")),
            other if other.starts_with("terminal/") && self.offers("/terminal") => None,
            other => return plain(Err(RpcError::method_not_found(other))),
        };
        if let Some((kind, key)) = kind
            && let Err(error) = self.access(kind, key, &params)
        {
            return plain(Err(error));
        }
        self.local_tools.serve(now, files, &self.root, (id, method, &params))
    }

    fn offers(&self, pointer: &str) -> bool {
        match self.offer.pointer(pointer) {
            Some(Value::Bool(on)) => *on,
            Some(Value::Object(_)) => true,
            _ => false,
        }
    }

    /// Whether the client itself may do this for the agent.
    fn access(&self, kind: ToolKind, key: &str, params: &Value) -> Result<(), RpcError> {
        let session = text(params, "sessionId")?;
        let subject = match key {
            "path" => text(params, key)?.to_owned(),
            _ => shell::quoted(words(params)?.iter().map(String::as_str)),
        };
        let action = if key == "path" { ToolAction::Path(&subject) } else { ToolAction::Command(&subject) };
        let request =
            PolicyRequest { stage: ToolStage::Access, kind, tools: &[], action, root: Some(&self.root) };
        let decision = self.rules.decide(&request);
        let granted = self
            .sessions
            .get(session)
            .is_some_and(|session| session.granted >= Some(OperationClass::of(kind)));
        match decision.verdict {
            PolicyVerdict::Allow => Ok(()),
            PolicyVerdict::Ask if granted => Ok(()),
            _ => Err(RpcError::internal(format!("refused: {subject}: {}", decision.reason))
                .with_data(json!({ "reason": "permission_denied", "detail": decision.reason }))),
        }
    }

    fn permission(&mut self, params: &Value) -> Result<Value, RpcError> {
        let id = text(params, "sessionId")?.to_owned();
        let call = text(&params["toolCall"], "toolCallId")?;
        let options = params["options"]
            .as_array()
            .ok_or_else(|| RpcError::invalid_params("session/request_permission needs options"))?;
        let session = self.sessions.entry(id).or_default();
        if session.cancelled {
            return Ok(json!({ "outcome": { "outcome": "cancelled" } }));
        }
        let mut facts = session.calls.get(call).cloned().unwrap_or_else(|| json!({}));
        absorb(&mut facts, &params["toolCall"]);
        let kind = facts["kind"].as_str().map_or(ToolKind::Other, ToolKind::from_name_or_other);
        let verdict = decide(&self.rules, kind, &facts);
        let choices: Vec<PermissionOption<'_>> = options
            .iter()
            .filter_map(|option| {
                let kind = PermissionOptionKind::from_name(option["kind"].as_str().unwrap_or_default());
                Some(PermissionOption { id: option["optionId"].as_str()?, kind })
            })
            .collect();
        match choose_option(verdict, &choices) {
            PermissionOutcome::Cancelled => Ok(json!({ "outcome": { "outcome": "cancelled" } })),
            PermissionOutcome::Selected(option) => {
                if choices.iter().any(|choice| {
                    choice.id == option && choice.kind.is_some_and(PermissionOptionKind::allows)
                }) {
                    session.granted = session.granted.max(Some(OperationClass::of(kind)));
                }
                Ok(json!({ "outcome": { "outcome": "selected", "optionId": option } }))
            }
        }
    }

    /// There is nobody to ask: what the client offered is declined, anything else is an error.
    fn elicit(&self, params: &Value) -> Result<Value, RpcError> {
        let (form, url) = (self.offers("/elicitation/form"), self.offers("/elicitation/url"));
        if !form && !url {
            return Err(RpcError::method_not_found(method::ELICITATION_CREATE));
        }
        text(params, "message")?;
        let needed: &[&str] = match text(params, "mode")? {
            "form" if form => &["requestedSchema"],
            "url" if url => &["elicitationId", "url"],
            mode => {
                let words = format!("this client did not offer elicitation mode {mode:?}");
                return Err(RpcError::invalid_params(words));
            }
        };
        match needed.iter().find(|key| params[**key].is_null()) {
            Some(key) => {
                Err(RpcError::invalid_params(format!("elicitation/create needs {key} in this mode")))
            }
            None => Ok(json!({ "action": "decline" })),
        }
    }
}

/// Takes over what an update says of a tool call.
fn absorb(facts: &mut Value, update: &Value) {
    for key in ["title", "kind", "name", "rawInput", "locations"] {
        if let Some(value) = update.get(key).filter(|value| !value.is_null()) {
            facts[key] = value.clone();
        }
    }
}

fn decide(rules: &PolicyRules, kind: ToolKind, facts: &Value) -> PolicyVerdict {
    let input = &facts["rawInput"];
    let command = ["command", "cmd"].iter().find_map(|key| input[*key].as_str());
    let path = ["path", "file_path", "filePath", "abs_path"]
        .iter()
        .find_map(|key| input[*key].as_str())
        .or_else(|| facts.pointer("/locations/0/path").and_then(Value::as_str));
    let action = match (command, path) {
        (Some(line), _) => ToolAction::Command(line),
        (None, Some(path)) => ToolAction::Path(path),
        (None, None) => ToolAction::Unknown,
    };
    let tools: Vec<&str> = facts["name"].as_str().into_iter().collect();
    rules
        .decide(&PolicyRequest { stage: ToolStage::Permission, kind, tools: &tools, action, root: None })
        .verdict
}
