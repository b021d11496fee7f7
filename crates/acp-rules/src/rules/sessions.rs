//! session/new, session/close, and which session a request is for.

use acp_proto::{Side, method};
use acp_rpc::Direction;

use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use crate::rule::Rule;
use crate::rules::paths::is_absolute;
use crate::rules::{config, load, modes};
use crate::session::{Session, Stage};
use crate::state::{Ask, Open, State, remember};

/// session/new
pub(crate) fn new(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let cwd = params.get_str("cwd").unwrap_or_default();
    let relative = cwd_of(cx, &cwd);
    let bad_roots = roots(state, cx, params);
    servers(state, cx, params);
    let empty_servers = params.get("mcpServers").is_some_and(|list| list.items().next().is_none());
    Ask::New { cwd: (*cwd).into(), relative, bad_roots, empty_servers }
}

/// A cwd is absolute. Gives whether it is not.
pub(crate) fn cwd_of(cx: &mut Cx<'_>, cwd: &str) -> bool {
    cx.saw(Rule::RelativeCwd, Side::Client);
    let relative = !is_absolute(cwd);
    if relative {
        let message = format!("the cwd {cwd:?} is not an absolute path");
        cx.breach(Rule::RelativeCwd, Side::Client, message).at("/params/cwd");
    }
    relative
}

/// Additional directories are absolute and were advertised. Gives whether one is not a usable path.
pub(crate) fn roots(state: &State, cx: &mut Cx<'_>, params: Json<'_>) -> bool {
    let Some(list) = params.some("additionalDirectories") else { return false };
    let side = Side::Client;
    let mut bad = false;
    if list.items().next().is_some() {
        cx.saw(Rule::RootsUnadvertised, side);
        cx.saw_id("C-INIT-07");
        cx.saw(Rule::RelativeRoots, side);
        if !state.agent.roots {
            let message = "additionalDirectories are sent, but the agent did not advertise them";
            cx.breach(Rule::RootsUnadvertised, side, message)
                .also(&["C-INIT-07"])
                .at("/params/additionalDirectories");
        }
    }
    for (index, path) in list.items().enumerate() {
        let Some(path) = path.str().filter(|path| !is_absolute(path)) else { continue };
        bad = true;
        let message = format!("the additional directory {path:?} is not an absolute path");
        cx.breach(Rule::RelativeRoots, side, message).at(format!("/params/additionalDirectories/{index}"));
    }
    bad
}

/// MCP servers that the agent can use.
pub(crate) fn servers(state: &State, cx: &mut Cx<'_>, params: Json<'_>) {
    let side = Side::Client;
    for (index, server) in params.some("mcpServers").into_iter().flat_map(Json::items).enumerate() {
        let kind = server.get_str("type").unwrap_or_default();
        let supported = match &*kind {
            "http" => state.agent.http,
            "sse" => state.agent.sse,
            _ => {
                cx.saw(Rule::McpRelative, side);
                if let Some(command) = server.get_str("command").filter(|command| !is_absolute(command)) {
                    let message = format!("the MCP server's command {command:?} is not an absolute path");
                    cx.breach(Rule::McpRelative, side, message)
                        .at(format!("/params/mcpServers/{index}/command"));
                }
                continue;
            }
        };
        cx.saw(Rule::McpUnadvertised, side);
        cx.saw_id("C-INIT-07");
        if !supported {
            let message = format!(
                "an MCP server of type {kind} is sent, but the agent did not advertise mcpCapabilities.{kind}"
            );
            cx.breach(Rule::McpUnadvertised, side, message)
                .also(&["C-INIT-07"])
                .at(format!("/params/mcpServers/{index}/type"));
        }
    }
}

/// The answer to session/new.
pub(crate) fn created(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let Ask::New { cwd, relative, bad_roots, empty_servers } = &open.ask else { return };
    let Answer::Good(result) = answer else {
        accepted(state, cx, open, *relative, *bad_roots, false);
        return;
    };
    accepted(state, cx, open, *relative, *bad_roots, true);
    if *empty_servers {
        cx.saw_id("MCP-07");
    }
    opened(state, cx, result, Some(cwd.clone()));
}

/// The answer to session/fork.
pub(crate) fn forked(state: &mut State, cx: &mut Cx<'_>, answer: Answer<'_>) {
    if let Answer::Good(result) = answer {
        opened(state, cx, result, None);
    }
}

/// A session that the agent made.
fn opened(state: &mut State, cx: &mut Cx<'_>, result: Json<'_>, cwd: Option<Box<str>>) {
    let Some(id) = result.get_str("sessionId") else { return };
    cx.saw(Rule::SessionIdTwice, Side::Agent);
    if id.is_empty() {
        cx.breach(Rule::SessionIdTwice, Side::Agent, "the session id is empty").at("/result/sessionId");
    }
    if let Some(earlier) = state.session(&id).map(|session| session.mark) {
        let message = format!("the session id {id:?} was given before");
        cx.breach(Rule::SessionIdTwice, Side::Agent, message).at("/result/sessionId").with(earlier);
        return;
    }
    // an agent that keeps its sessions in memory may count from the beginning in a new process
    state.earlier.remove(&*id);
    state.deleted.remove(&*id);
    let mark = cx.mark();
    let session = state.open_session(&id, mark);
    session.whole = cwd.is_some();
    session.cwd = cwd;
    modes::stated(state, cx, &id, result);
    config::stated(state, cx, &id, result, "/result/configOptions");
}

/// The answer to a request with bad params: a session that it opens exists, and nothing more is said about it.
pub(crate) fn opened_all_the_same(state: &mut State, cx: &Cx<'_>, open: &Open, answer: Answer<'_>) {
    match (&*open.method, answer) {
        (method::SESSION_NEW | method::SESSION_FORK, Answer::Good(result)) => {
            if let Some(id) = result.get_str("sessionId") {
                state.open_session(&id, cx.mark());
            }
        }
        (method::SESSION_LOAD | method::SESSION_RESUME, answer) => {
            let Some(session) = open.session.as_deref().and_then(|id| state.session(id)) else { return };
            match answer {
                Answer::Good(_) => session.stage = Stage::Live,
                Answer::Bad(_) => load::refused(session, open),
            }
        }
        _ => {}
    }
}

/// Whether bad paths were accepted.
pub(crate) fn accepted(
    state: &State,
    cx: &mut Cx<'_>,
    open: &Open,
    relative: bool,
    bad_roots: bool,
    good: bool,
) {
    let side = Side::Agent;
    if relative {
        cx.saw(Rule::RelativeCwd, side);
        if good {
            let message = format!("{} with a relative cwd was accepted", open.method);
            cx.breach(Rule::RelativeCwd, side, message).with(open.mark);
        }
    }
    if bad_roots && state.agent.roots {
        cx.saw(Rule::RelativeRoots, side);
        if good {
            let message = format!("{} with a relative additional directory was accepted", open.method);
            cx.breach(Rule::RelativeRoots, side, message).with(open.mark);
        }
    }
}

/// Whether a request's session exists; the asker is to blame when it does not.
pub(crate) fn known(state: &mut State, cx: &mut Cx<'_>, open: &mut Open) {
    let Some(id) = open.session.clone() else { return };
    // these are for sessions that need not be open here
    let anywhere = matches!(
        &*open.method,
        method::SESSION_LOAD
            | method::SESSION_RESUME
            | method::SESSION_FORK
            | method::SESSION_DELETE
            | method::SESSION_CLOSE
    );
    if anywhere || state.sessions_forgotten || open.early {
        return;
    }
    if let Some(session) = state.session(&id) {
        if cx.sender() == Side::Agent {
            in_closed(session, cx, open);
            return;
        }
        open.unknown_session = session.stage == Stage::Closed && &*open.method != method::SESSION_PROMPT;
        return;
    }
    // an agent may know the sessions that it listed
    open.unknown_session = !state.listed.contains(&*id);
    let side = cx.sender();
    if side == Side::Agent && state.is_named_by_client(&id) {
        return;
    }
    let (rule, name) = match cx.dir {
        Direction::ClientToAgent => (Rule::SessionUnknown, None),
        Direction::AgentToClient if open.method.starts_with("fs/") => (Rule::FileSession, None),
        Direction::AgentToClient if open.method.starts_with("terminal/") => {
            (Rule::SessionUnknown, Some("TERM-07"))
        }
        Direction::AgentToClient if &*open.method == method::SESSION_REQUEST_PERMISSION => {
            (Rule::SessionUnknown, Some("PERM-01"))
        }
        Direction::AgentToClient => (Rule::SessionUnknown, None),
    };
    let message = format!("{} is for session {id:?}, which does not exist on this connection", open.method);
    let breach = cx.breach(rule, side, message).at("/params/sessionId");
    if let Some(name) = name {
        breach.names(name);
    }
}

/// An agent asks for something in a session that was closed. Giving back a terminal is right even then.
fn in_closed(session: &Session, cx: &mut Cx<'_>, open: &Open) {
    let gives_back = matches!(&*open.method, method::TERMINAL_RELEASE | method::TERMINAL_KILL);
    if session.stage == Stage::Closed && !gives_back {
        let message = format!("{} is sent in a session that was closed", open.method);
        cx.breach(Rule::UpdateAfterClose, Side::Agent, message).at("/params/sessionId");
    }
}

/// session/close
pub(crate) fn close(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let mark = cx.mark();
    cx.saw(Rule::CloseUnadvertised, Side::Client);
    cx.saw_id("C-INIT-07");
    if !state.agent.close {
        let message = "session/close is called, but the agent did not advertise sessionCapabilities.close";
        cx.breach(Rule::CloseUnadvertised, Side::Client, message).also(&["C-INIT-07"]).at("/method");
    }
    if let Some(session) = params.get_str("sessionId").and_then(|id| state.session(&id)) {
        for turn in &mut session.turns {
            turn.closing = Some(mark);
        }
        load::settle(session, cx);
    }
    Ask::Close
}

/// The answer to session/close.
pub(crate) fn closed(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    cx.saw_id("SES-15");
    if !answer.is_good() {
        return;
    }
    let Some(id) = open.session.as_deref() else { return };
    remember(&mut state.closed, id);
    crate::rules::terminals::session_closed(state, cx, id);
    let Some(session) = state.session(id) else { return };
    session.stage = Stage::Closed;
    cx.saw(Rule::UpdateAfterClose, Side::Agent);
}
