//! The life of sessions: new, load, resume, list, close, delete, and their MCP servers.

use std::time::Duration;

use acp_proto::{error_code, tool_status, update};
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use super::cx::Cx;
use super::effect::{AgentEffect, Token};
use super::habits::Connecting;
use super::methods::{known, unknown_session};
use super::params::{self, Params};
use super::record::SessionRecord;
use super::session::{Ending, OpenSession, Server, ServerState, Session};
use super::tools::text_content;
use super::turn::{Advance, Cancel, End, Outcome};
use super::{Agent, delegate, digest, invalid_request};

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
        let session = self.cx.session_id();
        let now = self.cx.wall_clock();
        let record = SessionRecord {
            id: session.clone(),
            cwd: place.cwd.clone(),
            roots: place.roots.clone(),
            created: now,
            updated: now,
            title: None,
            mode: self.cx.config.persona.modes.first().map(|mode| mode.id.clone()).unwrap_or_default(),
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
        self.cx.outbox.push_back(AgentEffect::StoreSession(Box::new(record.clone())));
        let opened = self.open(record, &place);
        let mut result = opened.state(&self.cx);
        result["sessionId"] = json!(session);
        self.cx.respond(id, &result);
        opened.tell_commands(&mut self.cx);
        self.sessions.insert(session, OpenSession::new(opened));
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
        let token = self.cx.number();
        self.park(token, Parked::Open { request: id.clone(), place, replay });
        self.cx.outbox.push_back(AgentEffect::FetchSession { token, id: session });
        Ok(())
    }

    /// The answer to [`AgentEffect::FetchSession`].
    pub fn session_fetched(&mut self, token: Token, id: &str, record: Option<SessionRecord>) {
        let Some((_, Parked::Open { request, place, replay })) = self.parked.remove(&token) else { return };
        let Some(mut record) = record else {
            return self.cx.refuse(&request, &unknown_session(id));
        };
        // A prompt may have begun since the request came; opening the session again would lose it.
        if let Some(Err(busy)) = self.sessions.get(id).map(OpenSession::idle) {
            return self.cx.refuse(&request, &busy);
        }
        recover(&mut record);
        // The agent may have been started anew with fewer modes, and other forms of the protocol name them differently.
        let persona = &self.cx.config.persona;
        if let Some(mode) = persona.mode(&record.mode).or(persona.modes.first()) {
            record.mode.clone_from(&mode.id);
        }
        record.cwd.clone_from(&place.cwd);
        record.roots.clone_from(&place.roots);
        let history = if replay { delegate::as_shown(&record.history) } else { Vec::new() };
        self.shut(id);
        let opened = self.open(record, &place);
        for update in &history {
            opened.replay(&mut self.cx, update);
        }
        let state = opened.state(&self.cx);
        // The answer to session/load is the last word about what was loaded.
        if replay {
            opened.tell_commands(&mut self.cx);
            if opened.record.counted > 0 && self.cx.config.model {
                opened.report_usage(&mut self.cx);
            }
        }
        self.cx.respond(&request, &state);
        if !replay {
            opened.tell_commands(&mut self.cx);
        }
        self.sessions.insert(id.to_owned(), OpenSession::new(opened));
    }

    pub(super) fn list(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let cwd = params.optional_text("cwd")?.map(str::to_owned);
        let after = params.optional_text("cursor")?.map(read_cursor).transpose()?;
        self.gate()?;
        let token = self.cx.number();
        self.park(token, Parked::List { request: id.clone(), cwd, after });
        self.cx.outbox.push_back(AgentEffect::ListSessions { token });
        Ok(())
    }

    /// The answer to [`AgentEffect::ListSessions`].
    pub fn sessions_listed(&mut self, token: Token, mut records: Vec<SessionRecord>) {
        let Some((_, Parked::List { request, cwd, after })) = self.parked.remove(&token) else { return };
        records.retain(|record| cwd.as_ref().is_none_or(|cwd| record.cwd == *cwd));
        // Newest first; the id makes the order total, so that a cursor names one place for good.
        records.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
        if let Some((created, id)) = after {
            records.retain(|record| (record.created, &record.id) < (created, &id));
        }
        let config = &self.cx.config;
        let size = config.habits.page_size.unwrap_or(config.limits.page_size);
        let more = records.len() > size;
        records.truncate(size);
        let mut result = json!({ "sessions": records.iter().map(SessionRecord::info).collect::<Vec<_>>() });
        if let Some(last) = records.last().filter(|_| more) {
            result["nextCursor"] = json!(format!("{:x}.{}", last.created, last.id));
        }
        self.cx.respond(&request, &result);
    }

    pub(super) fn close(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?.to_owned();
        self.gate()?;
        known(&mut self.sessions, &session)?;
        self.end_session(&session, Ending::Close(id.clone()));
        Ok(())
    }

    pub(super) fn delete(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?.to_owned();
        self.gate()?;
        if self.sessions.contains_key(&session) {
            self.end_session(&session, Ending::Delete(id.clone()));
        } else {
            self.cx.outbox.push_back(AgentEffect::DeleteSession(session));
            self.cx.respond(id, &json!({}));
        }
        Ok(())
    }

    fn end_session(&mut self, id: &str, ending: Ending) {
        let until = self.cx.request_deadline();
        let Some(open) = self.sessions.get_mut(id) else { return };
        open.session.endings.push((ending, until));
        match open.turn {
            Some(_) => self.cancel(id, Cancel::Session),
            None => self.ended(id),
        }
    }

    /// Finishes what [`Agent::end_session`] began, once no turn runs any more.
    fn ended(&mut self, id: &str) {
        let Some(open) = self.sessions.get_mut(id) else { return };
        let endings = std::mem::take(&mut open.session.endings);
        if endings.is_empty() {
            return;
        }
        self.shut(id);
        if endings.iter().any(|(ending, _)| matches!(ending, Ending::Delete(_))) {
            self.cx.outbox.push_back(AgentEffect::DeleteSession(id.to_owned()));
        }
        for (Ending::Close(request) | Ending::Delete(request), _) in endings {
            self.cx.respond(&request, &json!({}));
        }
    }

    /// Puts the session away and ends its MCP connections.
    fn shut(&mut self, id: &str) {
        let Some(open) = self.sessions.remove(id) else { return };
        self.cx.outbox.push_back(AgentEffect::SessionClosed(id.to_owned()));
        let disconnect = |server: Server| AgentEffect::McpDisconnect { key: server.key };
        self.cx.outbox.extend(open.session.servers.into_iter().map(disconnect));
    }

    /// A session that is connected to its servers.
    fn open(&mut self, record: SessionRecord, place: &Place) -> Session {
        let cx = &mut self.cx;
        let mut session = Session::new(record);
        let servers = if cx.config.abilities.mcp { place.servers.as_slice() } else { &[] };
        if !place.servers.is_empty() && servers.is_empty() {
            let words =
                format!("MCP servers are not used: this agent runs without MCP{}.", cx.config.hints.mcp);
            session.news.push(words);
        }
        for server in servers {
            let key = cx.number();
            let name = server.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let connect = AgentEffect::McpConnect { key, server: server.clone(), cwd: place.cwd.clone() };
            let state = match cx.config.habits.mcp {
                Connecting::Eager => {
                    cx.outbox.push_back(connect);
                    ServerState::Connecting
                }
                Connecting::FirstPrompt | Connecting::FirstUse => ServerState::Asleep(Box::new(connect)),
            };
            session.servers.push(Server { key, name, state });
        }
        if let Some(warning) = cx.config.warning.clone() {
            session.warn(cx, "Sessions are not kept", &warning);
        }
        session
    }

    /// The session store could not answer [`AgentEffect::FetchSession`] or [`AgentEffect::ListSessions`].
    pub fn store_failed(&mut self, token: Token, reason: &str) {
        self.unpark(token, &RpcError::internal(reason));
    }

    /// The session of [`AgentEffect::FetchSession`] is in use, and not by this agent.
    pub fn session_in_use(&mut self, token: Token, reason: &str) {
        self.unpark(token, &invalid_request(reason));
    }

    fn unpark(&mut self, token: Token, error: &RpcError) {
        if let Some((_, Parked::Open { request, .. } | Parked::List { request, .. })) =
            self.parked.remove(&token)
        {
            self.cx.refuse(&request, error);
        }
    }

    fn park(&mut self, token: Token, parked: Parked) {
        let until = self.cx.request_deadline();
        self.parked.insert(token, (until, parked));
    }

    /// When a request that waits has waited too long.
    pub(super) fn parked_until(&self) -> Option<Duration> {
        let parked = self.parked.values().filter_map(|(until, _)| *until);
        let endings = self.sessions.values().flat_map(|open| &open.session.endings);
        let ending = endings.filter_map(|(_, until)| *until);
        parked.chain(ending).min()
    }

    /// Answers the requests that have waited too long.
    pub(super) fn give_up(&mut self) {
        let now = self.cx.now;
        let late = |until: &Option<Duration>| until.is_some_and(|until| until <= now);
        let parked: Vec<Token> =
            self.parked.iter().filter(|(_, (until, _))| late(until)).map(|(token, _)| *token).collect();
        for token in parked {
            self.unpark(token, &too_late());
        }
        let mut requests = Vec::new();
        for open in self.sessions.values_mut() {
            let given_up = open.session.endings.extract_if(.., |(_, until)| late(until));
            requests.extend(given_up.map(|(Ending::Close(request) | Ending::Delete(request), _)| request));
        }
        for request in requests {
            self.cx.refuse(&request, &too_late());
        }
    }

    fn place(&self, params: &Params, servers_required: bool) -> Result<Place, RpcError> {
        let cwd = params::absolute(params.text("cwd")?, "params.cwd")?;
        self.fenced(&cwd)?;
        if !self.cx.config.rules.folders.holds(&cwd) {
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
        for own in &self.cx.config.abilities.servers {
            // The client's own server of that name is the one that it means.
            if servers.iter().all(|server| server["name"] != own["name"]) {
                servers.push(own.clone());
            }
        }
        Ok(Place { cwd, roots, servers })
    }

    /// Refuses folders outside of where this agent works.
    fn fenced(&self, folder: &str) -> Result<(), RpcError> {
        if self.cx.config.rules.fence.holds(folder) {
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
        let open = self.sessions.values().map(|open| 1 + open.children.len()).sum::<usize>();
        match self.cx.config.limits.sessions {
            Some(most) if open >= most => Err(invalid_request(&format!(
                "no more than {most} sessions can be open at once; close one first"
            ))),
            _ => Ok(()),
        }
    }

    /// Lets a turn make its next step; whether it can go on at once.
    pub(super) fn advance(&mut self, id: &str) -> bool {
        let Some(mut turn) = self.turn(id) else { return false };
        match turn.advance() {
            Advance::Ready => true,
            Advance::Waiting => false,
            Advance::Ended(end) => {
                self.end_turn(id, end);
                self.turn(id).is_some_and(|next| next.turn.wait.is_none())
            }
        }
    }

    /// Answers the prompt of a turn that has ended, and does what waited for that.
    fn end_turn(&mut self, id: &str, end: End) {
        if let Some((parent, cx)) = self.parent_of(id) {
            let Some(child) = parent.children.remove(id) else { return };
            cx.pending.retain(|_, pending| pending.session != id);
            let cancel = child.turn.and_then(|turn| turn.cancel);
            if let Some(mut turn) = parent.active(cx) {
                turn.child_ended(&child.session, cancel, end);
            }
            return;
        }
        let Some(open) = self.sessions.get_mut(id) else { return };
        let Some(turn) = open.turn.take() else { return };
        self.cx.pending.retain(|_, pending| pending.session != id || pending.serial != turn.serial);
        open.session.record.draft.clear();
        open.session.touch(&mut self.cx);
        match (end, turn.cancel) {
            (Ok(_), Some(Cancel::Request)) => {
                let cancelled = RpcError::new(error_code::REQUEST_CANCELLED, "request cancelled");
                self.cx.refuse(&turn.request, &cancelled);
            }
            (Ok(Outcome::Stop(stop)), _) => {
                self.cx.respond(&turn.request, &json!({ "stopReason": stop.as_str() }));
            }
            (Ok(Outcome::Result(result)), _) => self.cx.respond(&turn.request, &result),
            (Err(error), _) => self.cx.refuse(&turn.request, &error),
        }
        self.ended(id);
        if let Some(open) = self.sessions.get_mut(id)
            && let Some((request, blocks)) = open.session.queue.pop_front()
        {
            open.prompt(&mut self.cx, &request, &blocks);
        }
    }
}

impl Session {
    /// Tells an entry of the history again, in pieces where that is the habit.
    fn replay(&self, cx: &mut Cx, update: &Value) {
        let text = update.pointer("/content/text").and_then(Value::as_str);
        let pieces = match text.filter(|_| cx.config.habits.replays_in_pieces) {
            Some(text) if text.len() > 1 => halves(text),
            _ => return self.update(cx, update),
        };
        for piece in pieces {
            let mut part = update.clone();
            part["content"]["text"] = json!(piece);
            self.update(cx, &part);
        }
    }
}

/// A turn that was cut off (its process was killed) ends here: open tool calls as failed, messages as far as they came.
fn recover(record: &mut SessionRecord) {
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
