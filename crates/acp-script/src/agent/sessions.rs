//! The life of sessions: new, load, resume, list, close, delete, and their MCP servers.

use std::time::Duration;

use acp_proto::{error_code, tool_status, update};
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use super::effect::{Effect, McpKey, McpTool, Token};
use super::habits::{Connecting, Feature};
use super::methods::unknown_session;
use super::offers;
use super::params::{self, Params};
use super::record::Record;
use super::session::{Ending, Server, ServerState, Session};
use super::tools::text_content;
use super::turn::{Cancel, Turn};
use super::{Agent, delegate, digest, invalid_request};
use crate::switch::Switch;

/// A request that waits for the session store.
pub(super) enum Parked {
    Open { request: Id, place: Place, replay: bool },
    List { request: Id, cwd: Option<String>, after: Option<(u64, String)> },
}

/// Where a session is opened, with what.
pub(super) struct Place {
    cwd: String,
    roots: Vec<String>,
    servers: Vec<Value>,
}

impl Agent {
    pub(super) fn new_session(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let place = self.place(params, true)?;
        self.gate()?;
        self.room()?;
        let session = if self.wrong(Switch::SameSessionId) {
            "session".to_owned()
        } else if self.wrong(Switch::CountsSessionsAnew) {
            format!("session-{}", self.number())
        } else {
            self.session_id()
        };
        let now = self.wall_clock();
        let record = Record {
            id: session.clone(),
            cwd: place.cwd.clone(),
            roots: place.roots.clone(),
            created: now,
            updated: now,
            title: None,
            mode: self.config.persona.modes.first().map(|mode| mode.id.clone()).unwrap_or_default(),
            config: std::collections::BTreeMap::new(),
            word: None,
            used: 0,
            counted: 0,
            digest: None,
            rounds: Vec::new(),
            delegated: 0,
            draft: Vec::new(),
            history: Vec::new(),
        };
        self.outbox.push_back(Effect::StoreSession(Box::new(record.clone())));
        self.open(record, &place);
        let mut result = self.state(&session);
        result["sessionId"] = json!(session);
        self.respond(id, &result);
        self.tell_commands(&session);
        Ok(())
    }

    pub(super) fn load(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        self.reopen(id, params, true)
    }

    pub(super) fn resume(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        self.reopen(id, params, false)
    }

    fn reopen(&mut self, id: &Id, params: &Params, replay: bool) -> Result<(), RpcError> {
        let session = params.text("sessionId")?.to_owned();
        let place = self.place(params, replay)?;
        self.gate()?;
        match self.sessions.get(&session) {
            Some(open) => open.idle()?,
            None => self.room()?,
        }
        let token = self.number();
        self.park(token, Parked::Open { request: id.clone(), place, replay });
        self.outbox.push_back(Effect::FetchSession { token, id: session });
        Ok(())
    }

    /// The answer to [`Effect::FetchSession`].
    pub fn session_fetched(&mut self, token: Token, id: &str, record: Option<Record>) {
        let Some((_, Parked::Open { request, place, replay })) = self.parked.remove(&token) else { return };
        let Some(mut record) = record else {
            self.refuse(&request, &unknown_session(id));
            return;
        };
        // A prompt may have begun since the request came; opening the session again would lose it.
        if let Some(Err(busy)) = self.sessions.get(id).map(Session::idle) {
            self.refuse(&request, &busy);
            return;
        }
        recover(&mut record);
        // The agent may have been started anew with fewer modes, and other forms of the protocol name them differently.
        let persona = &self.config.persona;
        if let Some(mode) = persona.mode(&record.mode).or(persona.modes.first()) {
            record.mode.clone_from(&mode.id);
        }
        record.cwd.clone_from(&place.cwd);
        if !place.roots.is_empty() || !self.wrong(Switch::KeepsRoots) {
            record.roots.clone_from(&place.roots);
        }
        if replay && self.wrong(Switch::EraseOnLoad) {
            record.history.clear();
            self.outbox.push_back(Effect::StoreSession(Box::new(record.clone())));
        }
        if !replay && self.wrong(Switch::ResumeForgets) {
            record.word = None;
        }
        let history = if replay { delegate::as_shown(&record.history) } else { Vec::new() };
        if replay && self.wrong(Switch::ForgetsAfterLoad) {
            record.history.clear();
            self.outbox.push_back(Effect::StoreSession(Box::new(record.clone())));
        }
        if self.wrong(Switch::ReloadKeepsServers)
            && let Some(open) = self.sessions.get_mut(id)
        {
            open.servers.clear();
        }
        self.shut(id);
        self.open(record, &place);
        if let Some(open) = self.sessions.get_mut(id) {
            open.is_reopened = true;
        }
        for update in &history {
            self.replay(id, update);
        }
        let state = self.state(id);
        // The answer to session/load is the last word about what was loaded.
        if replay {
            self.tell_commands(id);
            self.tell_usage(id);
        }
        self.respond(&request, &state);
        if !replay {
            self.tell_commands(id);
        }
    }

    /// Tells which slash commands there are.
    fn tell_commands(&mut self, session: &str) {
        if self.config.habits.has(Feature::Commands) {
            self.update(session, &offers::commands(&self.config.persona));
        }
    }

    /// Tells how full the context of a loaded session is, where a model counted it.
    fn tell_usage(&mut self, session: &str) {
        let counted = self.sessions.get(session).is_some_and(|open| open.record.counted > 0);
        if counted && self.config.model {
            self.report_usage(session);
        }
    }

    /// Tells an entry of the history again, in pieces where that is the habit.
    fn replay(&mut self, session: &str, update: &Value) {
        let text = update.pointer("/content/text").and_then(Value::as_str);
        let pieces = match text.filter(|_| self.config.habits.replays_in_pieces) {
            Some(text) if text.len() > 1 => halves(text),
            _ => return self.update(session, update),
        };
        for piece in pieces {
            let mut part = update.clone();
            part["content"]["text"] = json!(piece);
            self.update(session, &part);
        }
    }

    pub(super) fn list(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let cwd = params.optional_text("cwd")?.map(str::to_owned);
        let after = params.optional_text("cursor")?.map(read_cursor).transpose()?;
        self.gate()?;
        let token = self.number();
        self.park(token, Parked::List { request: id.clone(), cwd, after });
        self.outbox.push_back(Effect::ListSessions { token });
        Ok(())
    }

    /// The answer to [`Effect::ListSessions`].
    pub fn sessions_listed(&mut self, token: Token, mut records: Vec<Record>) {
        let Some((_, Parked::List { request, cwd, after })) = self.parked.remove(&token) else { return };
        records.retain(|record| cwd.as_ref().is_none_or(|cwd| record.cwd == *cwd));
        // Newest first; the id makes the order total, so that a cursor names one place for good.
        records.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
        if let Some((created, id)) = after {
            records.retain(|record| (record.created, &record.id) < (created, &id));
        }
        let size = self.config.habits.page_size.unwrap_or(self.config.page_size);
        let more = records.len() > size;
        records.truncate(size);
        let mut result = json!({ "sessions": records.iter().map(Record::info).collect::<Vec<_>>() });
        if let Some(last) = records.last().filter(|_| more) {
            result["nextCursor"] = json!(format!("{:x}.{}", last.created, last.id));
        }
        if self.wrong(Switch::ListTouches) {
            let open: Vec<String> = self.sessions.keys().cloned().collect();
            open.iter().for_each(|session| self.touch(session));
        }
        self.respond(&request, &result);
    }

    pub(super) fn close(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?.to_owned();
        self.gate()?;
        self.known(&session)?;
        self.end_session(&session, Ending::Close(id.clone()));
        Ok(())
    }

    pub(super) fn delete(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?.to_owned();
        self.gate()?;
        if self.wrong(Switch::StrictDelete) {
            self.known(&session)?;
        }
        if self.sessions.contains_key(&session) {
            self.end_session(&session, Ending::Delete(id.clone()));
        } else {
            self.outbox.push_back(Effect::DeleteSession(session));
            self.respond(id, &json!({}));
        }
        Ok(())
    }

    fn end_session(&mut self, id: &str, ending: Ending) {
        let until = self.config.request_limit.map(|limit| self.now + limit);
        let keeps = self.wrong(Switch::DeleteInTurnKeeps);
        let Some(session) = self.sessions.get_mut(id) else { return };
        let busy = session.turn.is_some();
        let ending = match ending {
            Ending::Delete(request) if busy && keeps => Ending::Close(request),
            other => other,
        };
        session.endings.push((ending, until));
        if busy {
            if self.wrong(Switch::CloseInTurnKeepsServers)
                && let Some(session) = self.sessions.get_mut(id)
            {
                session.servers.clear();
            }
            self.cancel(id, Cancel::Session);
        } else {
            self.ended(id);
        }
    }

    /// Finishes what [`Agent::end_session`] began, once no turn runs any more.
    pub(super) fn ended(&mut self, id: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let endings = std::mem::take(&mut session.endings);
        if endings.is_empty() {
            return;
        }
        self.shut(id);
        if endings.iter().any(|(ending, _)| matches!(ending, Ending::Delete(_))) {
            self.outbox.push_back(Effect::DeleteSession(id.to_owned()));
        }
        for (Ending::Close(request) | Ending::Delete(request), _) in endings {
            self.respond(&request, &json!({}));
        }
    }

    /// Puts the session away and ends its MCP connections.
    fn shut(&mut self, id: &str) {
        let Some(session) = self.sessions.remove(id) else { return };
        self.outbox.push_back(Effect::SessionClosed(id.to_owned()));
        let mut servers = session.servers;
        if self.wrong(Switch::CloseEndsAllServers) {
            servers.extend(self.sessions.values_mut().flat_map(|other| std::mem::take(&mut other.servers)));
        }
        if self.wrong(Switch::CloseKeepsServers)
            || (self.wrong(Switch::ReopenedKeepsServers) && session.is_reopened)
        {
            return;
        }
        for server in servers {
            self.outbox.push_back(Effect::McpDisconnect { key: server.key });
        }
    }

    fn open(&mut self, record: Record, place: &Place) {
        let id = record.id.clone();
        let mut session = Session::new(record);
        let servers = if self.config.mcp { place.servers.as_slice() } else { &[] };
        if !place.servers.is_empty() && servers.is_empty() {
            let words = "MCP servers are not used: this agent runs without MCP; start it with --enable-mcp.";
            session.news.push(words.to_owned());
        }
        for server in servers {
            let key = self.number();
            let name = server.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let connect = Effect::McpConnect { key, server: server.clone(), cwd: place.cwd.clone() };
            let state = match self.config.habits.mcp {
                Connecting::Eager => {
                    self.outbox.push_back(connect);
                    ServerState::Connecting
                }
                Connecting::FirstPrompt | Connecting::FirstUse => ServerState::Asleep(Box::new(connect)),
            };
            session.servers.push(Server { key, name, state });
        }
        self.sessions.insert(id.clone(), session);
        if let Some(warning) = self.config.warning.clone() {
            self.warn(&id, "Sessions are not kept", &warning);
        }
    }

    /// The outcome of [`Effect::McpConnect`].
    pub fn mcp_connected(&mut self, key: McpKey, outcome: Result<Vec<McpTool>, String>) {
        let found = self.sessions.iter_mut().find_map(|(id, session)| {
            let server = session.servers.iter_mut().find(|server| server.key == key)?;
            Some((id.clone(), server))
        });
        let Some((id, server)) = found else { return };
        if matches!(server.state, ServerState::Failed(_)) {
            // Each of its calls finds out, and it is said once.
            return;
        }
        let name = server.name.clone();
        let failure = outcome.as_ref().err().cloned();
        server.state = match outcome {
            Ok(tools) => ServerState::Ready(tools),
            Err(reason) => ServerState::Failed(reason),
        };
        if let Some(reason) = failure {
            self.warn(&id, &format!("MCP server {name:?} cannot be used"), &reason);
        }
        self.mcp_progress(&id);
    }

    /// The session store could not answer [`Effect::FetchSession`] or [`Effect::ListSessions`].
    pub fn store_failed(&mut self, token: Token, reason: &str) {
        self.unpark(token, &RpcError::internal(reason));
    }

    /// The session of [`Effect::FetchSession`] is in use, and not by this agent.
    pub fn session_in_use(&mut self, token: Token, reason: &str) {
        self.unpark(token, &invalid_request(reason));
    }

    fn unpark(&mut self, token: Token, error: &RpcError) {
        if let Some((_, Parked::Open { request, .. } | Parked::List { request, .. })) =
            self.parked.remove(&token)
        {
            self.refuse(&request, error);
        }
    }

    /// Tells the person about something that went wrong beside the turn: as a notice, or with the next answer.
    pub fn warn(&mut self, session: &str, title: &str, description: &str) {
        if self.caps().notices {
            let notice = json!({
                "sessionUpdate": update::NOTICE, "severity": "warning", "title": title, "description": description,
            });
            return self.update(session, &notice);
        }
        if let Some(open) = self.sessions.get_mut(session).filter(|_| self.config.careful) {
            open.news.push(format!("{title}: {description}"));
        }
    }

    fn park(&mut self, token: Token, parked: Parked) {
        let until = self.config.request_limit.map(|limit| self.now + limit);
        self.parked.insert(token, (until, parked));
    }

    /// When a request that waits has waited too long.
    pub(super) fn parked_until(&self) -> Option<Duration> {
        let parked = self.parked.values().filter_map(|(until, _)| *until);
        let ending = self.sessions.values().flat_map(|open| &open.endings).filter_map(|(_, until)| *until);
        parked.chain(ending).min()
    }

    /// Answers the requests that have waited too long.
    pub(super) fn give_up(&mut self) {
        let now = self.now;
        let late = |until: &Option<Duration>| until.is_some_and(|until| until <= now);
        let parked: Vec<Token> =
            self.parked.iter().filter(|(_, (until, _))| late(until)).map(|(token, _)| *token).collect();
        for token in parked {
            self.unpark(token, &too_late());
        }
        let mut requests = Vec::new();
        for open in self.sessions.values_mut() {
            let given_up = open.endings.extract_if(.., |(_, until)| late(until));
            requests.extend(given_up.map(|(Ending::Close(request) | Ending::Delete(request), _)| request));
        }
        for request in requests {
            self.refuse(&request, &too_late());
        }
    }

    fn state(&self, session: &str) -> Value {
        let Some(session) = self.sessions.get(session) else { return json!({}) };
        let mut state = json!({});
        if self.config.habits.has(Feature::Modes) {
            state["modes"] = offers::modes(&self.config.persona, &session.record);
        }
        if self.config.habits.has(Feature::ConfigOptions) {
            state["configOptions"] = offers::options(&self.config.persona, &session.record, self.caps());
        }
        state
    }

    fn place(&self, params: &Params, servers_required: bool) -> Result<Place, RpcError> {
        let cwd = params::absolute(params.text("cwd")?, "params.cwd")?;
        self.fenced(&cwd)?;
        if !self.config.folders.holds(&cwd) {
            return Err(RpcError::invalid_params(format!("params.cwd: {cwd} is not a folder")));
        }
        let mut roots = Vec::new();
        for (at, root) in params.optional_list("additionalDirectories")?.iter().enumerate() {
            let place = format!("params.additionalDirectories[{at}]");
            let Value::String(root) = root else {
                return Err(RpcError::invalid_params(format!("{place} must be a string")));
            };
            roots.push(params::absolute(root, &place)?);
            self.fenced(root)?;
        }
        let servers = match servers_required {
            true => params.list("mcpServers")?,
            false => params.optional_list("mcpServers")?,
        };
        for (at, server) in servers.iter().enumerate() {
            params::mcp_server(server, &format!("params.mcpServers[{at}]"))?;
        }
        let mut servers = servers.to_vec();
        for own in &self.config.servers {
            // The client's own server of that name is the one that it means.
            if servers.iter().all(|server| server["name"] != own["name"]) {
                servers.push(own.clone());
            }
        }
        Ok(Place { cwd, roots, servers })
    }

    /// Refuses folders outside of where this agent works.
    fn fenced(&self, folder: &str) -> Result<(), RpcError> {
        if self.config.fence.holds(folder) {
            return Ok(());
        }
        let words =
            format!("permission denied: {folder} lies outside of the folder that this agent works in");
        Err(RpcError::internal(words).with_data(json!({ "reason": "permission_denied", "path": folder })))
    }

    /// Refuses while nobody is signed in.
    pub(super) fn gate(&self) -> Result<(), RpcError> {
        if self.signed_in {
            Ok(())
        } else {
            Err(RpcError::new(error_code::AUTH_REQUIRED, "authentication required"))
        }
    }

    fn room(&self) -> Result<(), RpcError> {
        match self.config.max_sessions {
            Some(most) if self.sessions.len() >= most => Err(invalid_request(&format!(
                "no more than {most} sessions can be open at once; close one first"
            ))),
            _ => Ok(()),
        }
    }

    /// Keeps what a running turn has done so far, for an agent that wants to lose nothing.
    pub(super) fn checkpoint(&mut self, session: &str) {
        if !self.config.durable || !self.is_root(session) {
            return;
        }
        let delegated = self.open_in_children(session);
        let Some(open) = self.sessions.get_mut(session) else { return };
        open.record.draft = open.turn.as_ref().map(Turn::draft).unwrap_or_default();
        open.record.draft.extend(delegated);
        self.touch(session);
    }

    /// Notes that something happened in the session and keeps it.
    pub(super) fn touch(&mut self, session: &str) {
        let now = self.wall_clock();
        let forgets = self.wrong(Switch::KeepsNothingAfterReopening);
        let Some(session) = self.sessions.get_mut(session).filter(|open| open.parent.is_none()) else {
            return;
        };
        if forgets && session.is_reopened {
            return;
        }
        if session.turn.is_none() {
            session.record.draft.clear();
        }
        session.record.updated = now;
        self.outbox.push_back(Effect::StoreSession(Box::new(session.record.clone())));
    }
}

/// A turn that was cut off (its process was killed) ends here: open tool calls as failed, messages as far as they came.
fn recover(record: &mut Record) {
    for mut left in std::mem::take(&mut record.draft) {
        if left["sessionUpdate"] == update::TOOL_CALL {
            left["status"] = json!(tool_status::FAILED);
            left["content"] = text_content("Interrupted: the agent ended before this was done.");
        }
        record.used += digest::tokens_of(&left);
        record.history.push(left);
    }
}

/// A text in two pieces.
fn halves(text: &str) -> [&str; 2] {
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle += 1;
    }
    let (first, second) = text.split_at(middle);
    [first, second]
}

fn too_late() -> RpcError {
    RpcError::internal("the request took too long and was given up").with_data(json!({ "reason": "timeout" }))
}

fn read_cursor(cursor: &str) -> Result<(u64, String), RpcError> {
    cursor
        .split_once('.')
        .and_then(|(created, id)| Some((u64::from_str_radix(created, 16).ok()?, id.to_owned())))
        .ok_or_else(|| {
            RpcError::invalid_params(format!("params.cursor: {cursor:?} is not a cursor of this agent"))
        })
}
