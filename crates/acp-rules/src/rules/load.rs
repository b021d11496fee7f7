//! session/load and session/resume: what is replayed, and when.

use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use acp_proto::{Side, method};

use crate::rule::Rule;
use crate::rules::{config, modes, replay, sessions};
use crate::said::Said;
use crate::session::{Lacks, Session, Stage};
use crate::state::{Ask, Open, State};

/// session/load
pub(crate) fn load(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    cx.saw(Rule::LoadUnadvertised, Side::Client);
    cx.saw_id("C-INIT-07");
    if !state.agent.load {
        let message = "session/load is called, but the agent did not advertise loadSession";
        cx.breach(Rule::LoadUnadvertised, Side::Client, message).also(&["C-INIT-07"]).at("/method");
    }
    let (relative, bad_roots, deleted) = begin(state, cx, params, Stage::Loading);
    Ask::Load { relative, bad_roots, deleted }
}

/// session/resume
pub(crate) fn resume(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let side = Side::Client;
    cx.saw(Rule::ResumeUnadvertised, side);
    cx.saw_id("C-INIT-07");
    if !state.agent.resume {
        let message = "session/resume is called, but the agent did not advertise sessionCapabilities.resume";
        cx.breach(Rule::ResumeUnadvertised, side, message).also(&["C-INIT-07"]).at("/method");
    }
    cx.saw(Rule::ResumeWithoutServers, side);
    if params.some("mcpServers").is_none() {
        cx.breach(Rule::ResumeWithoutServers, side, "session/resume has no mcpServers").at("/params");
    }
    let (_, _, deleted) = begin(state, cx, params, Stage::Resuming);
    Ask::Resume { deleted }
}

fn begin(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>, stage: Stage) -> (bool, bool, bool) {
    let cwd = params.get_str("cwd").unwrap_or_default();
    let relative = sessions::cwd_of(cx, &cwd);
    let bad_roots = sessions::roots(state, cx, params);
    sessions::servers(state, cx, params);
    let id = params.get_str("sessionId").unwrap_or_default();
    let deleted = state.deleted.contains(&*id);
    let mark = cx.mark();
    let past = state.earlier.remove(&*id);
    let session = state.open_session(&id, mark);
    if let Some(past) = past.filter(|_| session.mark == mark) {
        past.put(session);
    }
    if session.mark != mark {
        cx.saw(Rule::CwdChanged, Side::Client);
        if let Some(before) = session.cwd.as_deref().filter(|before| *before != cwd) {
            let message = format!("the session was created in {before:?}, now its cwd is {cwd:?}");
            cx.breach(Rule::CwdChanged, Side::Client, message).at("/params/cwd").with(session.mark);
        }
    }
    settle(session, cx);
    session.late_history = false;
    session.cwd = Some((*cwd).into());
    session.stage = stage;
    session.replay = Said::default();
    session.replayed_message = None;
    session.messages.clear();
    session.last_message = None;
    for tool in session.tools.values_mut() {
        tool.replayed = true;
    }
    (relative, bad_roots, deleted)
}

/// Either with bad params may be accepted: the session is open while it is answered, and what it replays is not judged.
pub(crate) fn bad(state: &mut State, cx: &Cx<'_>, open: &Open) {
    if matches!(&*open.method, method::SESSION_LOAD | method::SESSION_RESUME)
        && let Some(id) = &open.session
    {
        state.open_session(id, cx.mark()).stage = Stage::Loading;
    }
}

/// The answer to either.
pub(crate) fn answered(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let Some(id) = open.session.clone() else { return };
    let deleted = match open.ask {
        Ask::Load { relative, bad_roots, deleted } => {
            sessions::accepted(state, cx, open, relative, bad_roots, answer.is_good());
            deleted
        }
        Ask::Resume { deleted } => deleted,
        _ => false,
    };
    if deleted {
        cx.saw_id("SES-08");
        if answer.is_good() {
            let message = format!("{} succeeded for session {id:?}, which was deleted", open.method);
            cx.breach(Rule::SessionUnknownAccepted, Side::Agent, message).names("SES-08").with(open.mark);
        }
    }
    let Some(session) = state.session(&id) else { return };
    let created_here = session.mark != open.mark;
    let Answer::Good(result) = answer else {
        refused(session, open);
        return;
    };
    if session.stage == Stage::Loading {
        replayed(session, cx, open);
        session.loaded = true;
        session.resumed = false;
        cx.saw(Rule::ReplayAfterLoad, Side::Agent);
    } else if session.stage == Stage::Resuming {
        cx.saw(Rule::ResumeReplays, Side::Agent);
        session.loaded = false;
        session.resumed = true;
    }
    session.stage = Stage::Live;
    let mark = cx.mark();
    session.ended = None;
    if !created_here {
        session.mark = mark;
    }
    modes::stated(state, cx, &id, result);
    config::stated(state, cx, &id, result, "/result/configOptions");
}

/// The session is what it was before.
pub(crate) fn refused(session: &mut Session, open: &Open) {
    let created_here = session.mark != open.mark;
    session.stage = if created_here { Stage::Live } else { Stage::Closed };
}

/// The replay is over: it must have what was said live on this connection.
fn replayed(session: &mut Session, cx: &mut Cx<'_>, open: &Open) {
    if session.live.is_empty() || !session.turns.is_empty() {
        return;
    }
    cx.saw(Rule::LoadWithoutReplay, Side::Agent);
    cx.saw(Rule::ReplayDiffers, Side::Agent);
    let list = replay::lacks(&session.live, &session.replay, session.whole);
    session.lacks = (!list.is_empty()).then(|| Lacks { asked: open.mark, answered: cx.mark(), list });
}

/// What the replay lacks did not come late either.
pub(crate) fn settle(session: &mut Session, cx: &mut Cx<'_>) {
    let Some(Lacks { asked, answered, list }) = session.lacks.take() else { return };
    for lack in list {
        cx.breach(lack.rule, Side::Agent, lack.message).names(lack.claim).by(answered).with(asked);
    }
}
