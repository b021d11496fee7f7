//! The runner's own requests: introduction, login, session. And what stands in the way of a test.

use super::claims::{Unmet, sighting};
use super::inbox::{Message, millis};
use super::{OWN_IDS, Own, Purpose, Run, RunAction, State, TestEnding};
use crate::json::Json;
use crate::program::{Handshake, MessageKind, Precondition, StepKind, Subject};
use crate::table::{OwnRequest, find};
use crate::verdict::BreakKind;
use acp_rpc::{Direction, Frame, Id};
use serde_json::{Value, json};
use std::time::Duration;

/// How long an answer may still come after one with an id that nobody used, before the factor.
const STRAYED: Duration = Duration::from_secs(1);
/// The longest wait for an agent that does not stop talking about a new session, before the factor.
const SETTLED: Duration = Duration::from_secs(5);

impl Run {
    /// A reason not to begin at all.
    pub(super) fn hindrance(&self) -> Option<TestEnding> {
        if self.program.client.is_some() && self.setup.driver.is_none() {
            let reason = "the test is for clients: `acp comply-client` runs it".to_owned();
            return Some(TestEnding::NotApplicable { reason, blocked: true });
        }
        if let Some(reason) = self.program.not_understood.clone() {
            return Some(TestEnding::NotApplicable { reason, blocked: true });
        }
        let versions = &self.program.protocol_versions;
        if !versions.contains(&self.setup.protocol_version) {
            let reason = format!("the test is meant for protocol version {}", list(versions));
            return Some(TestEnding::NotApplicable { reason, blocked: false });
        }
        let kinds = || self.order.iter().map(|turn| &self.arena[turn.step].kind);
        let restarts = kinds().any(|kind| matches!(kind, StepKind::Restart | StepKind::ExpectExit { .. }));
        if restarts && !self.setup.restartable {
            let reason =
                "the test stops or restarts the agent, which was not started by the runner".to_owned();
            return Some(TestEnding::NotApplicable { reason, blocked: true });
        }
        if kinds().any(|kind| matches!(kind, StepKind::Reconnect)) && !self.setup.reconnectable {
            let reason = "the test opens a second connection, which this target does not offer".to_owned();
            return Some(TestEnding::NotApplicable { reason, blocked: true });
        }
        if let Some(ending) = self.client_hindrance() {
            return Some(ending);
        }
        if let Some(reason) = self.program.needs.iter().find_map(|name| self.setup.missing.get(name)) {
            return Some(TestEnding::NotReached(reason.clone()));
        }
        if let Some(reason) = &self.setup.without_sessions
            && self.only_needs_sessions()
        {
            return Some(TestEnding::NotReached(reason.clone()));
        }
        self.unmet_precondition(self.setup.introduction.as_ref(), self.setup.session.as_ref(), false)
    }

    /// Whether the test opens a session, and is not about an agent that cannot.
    fn only_needs_sessions(&self) -> bool {
        let Some(claim) = &self.setup.table.broken_by.without_sessions else { return false };
        let method = self.setup.table.session.method.as_str();
        let opens = |kind: &StepKind| match kind {
            StepKind::NewSession { .. } => true,
            StepKind::Send { frame, .. } => frame.get("method").and_then(Json::as_text) == Some(method),
            _ => false,
        };
        let claims = &self.program.claims;
        !claims.is_empty()
            && !claims.contains(claim)
            && self.order.iter().any(|turn| opens(&self.arena[turn.step].kind))
    }

    /// The first precondition that does not hold. What is not known yet is passed over, unless it will never be known.
    pub(super) fn unmet_precondition(
        &self,
        introduction: Option<&Value>,
        session: Option<&Value>,
        knowing: bool,
    ) -> Option<TestEnding> {
        let opens =
            self.order.iter().any(|turn| matches!(self.arena[turn.step].kind, StepKind::NewSession { .. }));
        let introduces = opens || self.program.handshake == Handshake::Always;
        for condition in &self.program.preconditions {
            let (known, coming) = match condition.subject {
                Subject::ClientCapabilities => match &self.program.client {
                    Some(_) => (
                        self.setup
                            .client
                            .as_ref()
                            .map(|stated| find(stated, &self.setup.table.stated).unwrap_or(&Value::Null)),
                        false,
                    ),
                    None => (Some(&self.program.client_capabilities), true),
                },
                Subject::Introduction => (introduction, introduces),
                Subject::AgentCapabilities => (
                    introduction.map(|value| {
                        find(value, &self.setup.table.agent_capabilities).unwrap_or(&Value::Null)
                    }),
                    introduces,
                ),
                Subject::Session => (session, opens),
                // What is known of a client stands in the setup before its test begins.
                Subject::Client => (self.setup.client.as_ref(), false),
                Subject::Driver => (self.setup.driver.as_ref(), false),
            };
            match known {
                Some(value) => {
                    if let Err(reason) = holds(condition, value) {
                        let reason = self.unstated(condition).unwrap_or(reason);
                        return Some(TestEnding::NotApplicable { reason, blocked: false });
                    }
                }
                None if coming || knowing => {}
                None => {
                    let reason = format!("it is not known whether {}", condition.describe());
                    return Some(TestEnding::NotApplicable { reason, blocked: true });
                }
            }
        }
        None
    }

    /// A capability that a client under test does not state, in words.
    fn unstated(&self, condition: &Precondition) -> Option<String> {
        let is_meant = self.client.is_some()
            && condition.subject == Subject::ClientCapabilities
            && !condition.is_negated
            && condition.must_be == Value::Bool(true);
        is_meant.then(|| format!("the client does not state {}", condition.path))
    }

    pub(super) fn introduce(&mut self) {
        self.ask(Purpose::Introduce);
    }

    pub(super) fn ask(&mut self, purpose: Purpose) {
        let request = match self.own_request(purpose) {
            Ok(request) => request,
            Err(reason) => return self.end(TestEnding::NotApplicable { reason, blocked: true }),
        };
        let params = match self.own_params(&request) {
            Ok(params) => params,
            Err(reason) => return self.end(TestEnding::NotApplicable { reason, blocked: true }),
        };
        let id = Id::Int(self.next_own);
        self.next_own += 1;
        let frame = Frame::request(&id, &request.method, &params);
        let until = self.now + self.scaled(self.setup.own_timeout);
        self.own = Some(Own { id, purpose, until });
        self.state = State::Asking;
        self.inbox.record(self.now, Direction::ClientToAgent, frame.raw());
        self.wire.last_activity = self.now;
        if purpose == Purpose::Introduce {
            self.wire.introduced = true;
        }
        self.actions.push_back(RunAction::Write(frame.raw().clone()));
    }

    fn own_request(&self, purpose: Purpose) -> Result<OwnRequest, String> {
        let table = &self.setup.table;
        Ok(match purpose {
            Purpose::Introduce => table.introduction.clone(),
            Purpose::Login | Purpose::LoginFirst => table.authentication.clone(),
            Purpose::OpenSession => table.session.clone(),
            Purpose::SetUp(index) => serde_json::from_value(self.setup.after_session[index].clone())
                .map_err(|error| format!("a request to set the session up cannot be used: {error}"))?,
        })
    }

    /// The version that the runner introduces itself with.
    fn own_version(&self) -> Value {
        self.setup.table.version.clone().unwrap_or_else(|| self.setup.protocol_version.into())
    }

    fn own_params(&self, request: &OwnRequest) -> Result<Value, String> {
        let servers = match self.kind() {
            Some(StepKind::NewSession { mcp_servers: Some(servers), .. }) => {
                let text = servers.render(&self.vars).map_err(|error| self.missing_words(&error))?;
                serde_json::from_str(&text).unwrap_or(Value::Null)
            }
            _ => Value::Array(Vec::new()),
        };
        let mut vars = self.vars.clone();
        vars.set("protocolVersion", self.own_version());
        vars.set("clientCapabilities", self.program.client_capabilities.clone());
        vars.set("toolVersion", self.setup.tool_version.as_str());
        vars.set("mcpServers", servers);
        if let Some(session) = &self.wire.setting_up.current {
            vars.set("sessionId", session.clone());
        }
        if let Some(method) = &self.setup.auth_method {
            vars.set("authMethod", method.as_str());
        }
        request.render(&vars).map_err(|error| self.missing_words(&error))
    }

    /// A variable that the file may use but this environment does not have.
    pub(super) fn missing_words(&self, error: &acp_match::TemplateError) -> String {
        match error {
            acp_match::TemplateError::Unknown(unknown) => format!("there is no ${{{}}} here", unknown.name),
            acp_match::TemplateError::BadName { name, .. } if name.starts_with("wish:") => {
                let wish = name["wish:".len()..].split('|').next().unwrap_or_default();
                format!("no words are known for the wish {wish:?}")
            }
            other => other.to_string(),
        }
    }

    pub(super) fn is_past_own(&self, id: &Id) -> bool {
        matches!(id, Id::Int(number) if (OWN_IDS..self.next_own).contains(number))
    }

    pub(super) fn own_answered(&mut self, value: &Value) {
        let Some(own) = self.own.take() else { return };
        match value.get("result") {
            Some(result) if value.get("error").is_none() => self.own_succeeded(own.purpose, result),
            _ => self.own_failed(own.purpose, value.get("error").unwrap_or(&Value::Null)),
        }
    }

    fn own_succeeded(&mut self, purpose: Purpose, result: &Value) {
        match purpose {
            Purpose::Introduce => {
                self.introduction = Some(result.clone());
                self.state = State::Ready;
                if let Some(version) = find(result, &self.setup.table.protocol_version)
                    && *version != self.own_version()
                {
                    let reason =
                        format!("the agent speaks protocol version {version}, not {}", self.own_version());
                    return self.end(TestEnding::NotApplicable { reason, blocked: true });
                }
                self.check_late_preconditions();
            }
            Purpose::Login => self.ask(Purpose::OpenSession),
            Purpose::LoginFirst => self.state = State::Ready,
            Purpose::OpenSession => self.session_opened(result),
            Purpose::SetUp(index) => self.set_up(index + 1),
        }
    }

    fn session_opened(&mut self, result: &Value) {
        let id = find(result, &self.setup.table.session_id);
        let Some(id) = id.filter(|id| id.is_string()).cloned() else {
            let method = &self.setup.table.session.method;
            let reason = format!("the answer to {method} has no {}", self.setup.table.session_id);
            return self.unmet(Unmet::new(BreakKind::Wrong, reason));
        };
        self.show_answer("result", result);
        self.session = Some(result.clone());
        self.tally.opened = true;
        self.vars.set("sessionId", id.clone());
        if let Some(StepKind::NewSession { capture: Some(name), .. }) = self.kind() {
            let name = name.clone();
            self.vars.set(name, id.clone());
        }
        self.set_up(0);
    }

    /// Lets the test see the answer to its `newSession` step, when it expects it; `true` when it does.
    fn show_answer(&mut self, key: &str, body: &Value) -> bool {
        let Some(StepKind::NewSession { answer: Some(id), .. }) = self.kind() else { return false };
        let value = json!({ "jsonrpc": "2.0", "id": id, key: body });
        let id = Id::parse(&id.to_string());
        self.wire.last_request.clone_from(&id);
        self.wire.answered.extend(id.clone());
        let (at, kind) = (self.now, MessageKind::Response);
        self.inbox
            .push(Message { at, kind, value, id, method: None, launch: 0, consumed: false, joined: None }, 0)
    }

    /// The next request that this agent needs before the session can be used; after the last one the step is done.
    pub(super) fn set_up(&mut self, index: usize) {
        if index < self.setup.after_session.len() {
            return self.ask(Purpose::SetUp(index));
        }
        if self.wire.setting_up.current.take().is_some() {
            self.state = State::Ready;
            return;
        }
        match self.setup.settle {
            Some(_) => self.state = State::Settling(self.now + self.scaled(SETTLED)),
            None => self.session_ready(),
        }
    }

    /// When what an agent says by itself about a new session is over: it was silent for a while.
    pub(super) fn settles(&self, latest: Duration) -> Duration {
        latest.min(self.wire.last_activity + self.setup.settle.unwrap_or_default())
    }

    pub(super) fn check_settled(&mut self, latest: Duration) -> bool {
        let is_settled = self.now >= self.settles(latest) || self.is_gone();
        if is_settled {
            self.session_ready();
        }
        is_settled
    }

    fn session_ready(&mut self) {
        let session = self.session.as_ref().and_then(|session| find(session, &self.setup.table.session_id));
        let words = session.and_then(Value::as_str).map(|id| format!("session {id}"));
        self.state = State::Ready;
        self.step_met();
        self.step_done(words);
        self.check_late_preconditions();
    }

    fn check_late_preconditions(&mut self) {
        let introduction = self.setup.introduction.as_ref().or(self.introduction.as_ref());
        let session = self.setup.session.as_ref().or(self.session.as_ref());
        if let Some(ending) = self.unmet_precondition(introduction, session, true) {
            self.end(ending);
        }
    }

    fn own_failed(&mut self, purpose: Purpose, error: &Value) {
        self.refusal = Some(error.clone());
        let wants_login = error.get("code").and_then(Value::as_i64) == Some(self.setup.table.auth_required);
        let message = error.get("message").and_then(Value::as_str).unwrap_or("no message");
        if wants_login
            && purpose == Purpose::OpenSession
            && self.setup.auth_method.is_some()
            && !self.tried_login
        {
            self.tried_login = true;
            return self.ask(Purpose::Login);
        }
        if purpose == Purpose::LoginFirst {
            self.notes.push(format!("the login was refused: {message}"));
            self.state = State::Ready;
            return;
        }
        if (wants_login && !matches!(purpose, Purpose::SetUp(_))) || purpose == Purpose::Login {
            let message = message.to_owned();
            let frame =
                sighting(millis(self.now), Direction::AgentToClient, &format!("{{\"error\":{error}}}"));
            return self.stopped_by_login(&message, Some(frame));
        }
        if let Purpose::SetUp(index) = purpose {
            let method = self.own_method(purpose);
            self.notes
                .push(format!("the session could not be set up as the profile wants: {method}: {message}"));
            return self.set_up(index + 1);
        }
        if purpose == Purpose::OpenSession && self.show_answer("error", error) {
            self.state = State::Ready;
            return self.step_done(Some(format!("refused: {message}")));
        }
        let code = error.get("code").map_or_else(|| "no code".to_owned(), Value::to_string);
        let reason = format!("{} failed: {message} ({code})", self.own_method(purpose));
        self.unmet(Unmet::new(BreakKind::Wrong, reason));
    }

    fn own_method(&self, purpose: Purpose) -> &str {
        match purpose {
            Purpose::SetUp(index) => {
                self.setup.after_session[index].get("method").and_then(Value::as_str).unwrap_or_default()
            }
            Purpose::Introduce => &self.setup.table.introduction.method,
            Purpose::Login | Purpose::LoginFirst => &self.setup.table.authentication.method,
            Purpose::OpenSession => &self.setup.table.session.method,
        }
    }

    /// When a request of the runner's own is given up: in its time, or sooner when the agent has answered with an id that
    /// nobody used and then fell silent.
    pub(super) fn own_deadline(&self, own: &Own) -> Duration {
        match self.stray_answer() {
            Some(_) => own.until.min(self.wire.last_activity + self.scaled(STRAYED)),
            None => own.until,
        }
    }

    pub(super) fn check_own(&mut self) -> bool {
        let Some(own) = &self.own else {
            self.state = State::Ready;
            return true;
        };
        let method = self.own_method(own.purpose).to_owned();
        if self.is_gone() {
            let reason = format!("{} before it answered {method}", self.gone_words());
            self.end(TestEnding::Gone(reason));
            return true;
        }
        if let Some(stray) = self.stray_answer().filter(|_| self.now >= self.own_deadline(own)) {
            let given = self.inbox.messages()[stray].id.as_ref().map_or("no".to_owned(), ToString::to_string);
            let did = format!(
                "the agent answered {method} with the id {given}, but the request's id is {}",
                own.id
            );
            let frames: Vec<_> = self.heard_at(stray).into_iter().collect();
            let claim = self.setup.table.broken_by.unanswered.clone().filter(|_| self.program.is_claimed());
            self.break_claims(claim.as_slice(), BreakKind::Wrong, &did, &frames);
            self.end(TestEnding::Unmet(did));
            return true;
        }
        if self.now >= own.until {
            let waited = self.scaled(self.setup.own_timeout).as_millis();
            let reason = format!("no answer to {method} within {waited} ms");
            if matches!(own.purpose, Purpose::Login | Purpose::LoginFirst) {
                let reason = format!("{reason}; the login may wait for a person");
                self.end(TestEnding::NotApplicable { reason, blocked: true });
                return true;
            }
            match self.unanswered(&format!("the agent did not answer {method} within {waited} ms"), &[]) {
                Some(_) => self.end(TestEnding::Unmet(reason)),
                None => self.unmet(Unmet::new(BreakKind::Absent, reason)),
            }
            return true;
        }
        false
    }
}

fn list(versions: &[u64]) -> String {
    versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// True, objects and lists with something in them count as true; false, null and nothing as false; any other wish
/// compares by value.
fn holds(condition: &Precondition, value: &Value) -> Result<(), String> {
    let found = condition.path.find(value);
    let is_met = match &condition.must_be {
        Value::Bool(wanted) => {
            let is_true = match found {
                Some(Value::Array(list)) => !list.is_empty(),
                Some(Value::Bool(true) | Value::Object(_)) => true,
                _ => false,
            };
            is_true == *wanted
        }
        wanted => found.unwrap_or(&Value::Null) == wanted,
    };
    if is_met != condition.is_negated {
        return Ok(());
    }
    if condition.is_negated {
        return Err(condition.describe());
    }
    match (condition.subject, &condition.must_be) {
        (Subject::AgentCapabilities, Value::Bool(true)) => {
            return Err(format!("the agent does not offer {}", condition.path));
        }
        (Subject::AgentCapabilities, Value::Bool(false)) => {
            return Err(format!("the agent offers {}", condition.path));
        }
        _ => {}
    }
    let found = found.map_or_else(|| "absent".to_owned(), Value::to_string);
    Err(format!("{}, but it is {found}", condition.describe()))
}
