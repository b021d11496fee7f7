//! session/load and session/resume: what is replayed, and when.

use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use crate::registry::Side;
use crate::rule::Rule;
use crate::rules::{config, modes, sessions};
use crate::session::{Said, Session, Stage};
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
    let session = state.open_session(&id, mark);
    if session.mark != mark {
        cx.saw(Rule::CwdChanged, Side::Client);
        if let Some(before) = session.cwd.as_deref().filter(|before| *before != cwd) {
            let message = format!("the session was created in {before:?}, now its cwd is {cwd:?}");
            cx.breach(Rule::CwdChanged, Side::Client, message).at("/params/cwd").with(session.mark);
        }
    }
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
        cx.saw(Rule::ReplayAfterLoad, Side::Agent);
    } else if session.stage == Stage::Resuming {
        cx.saw(Rule::ResumeReplays, Side::Agent);
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

/// The replay is complete: it must have what was said live on this connection.
fn replayed(session: &mut Session, cx: &mut Cx<'_>, open: &Open) {
    if session.live.user.is_empty() && session.live.agent.is_empty() {
        return;
    }
    cx.saw(Rule::LoadWithoutReplay, Side::Agent);
    for (who, live, replay) in [
        ("user", &session.live.user, &session.replay.user),
        ("agent", &session.live.agent, &session.replay.agent),
    ] {
        if live.is_empty() || session.live.cut || session.replay.cut {
            continue;
        }
        if replay.is_empty() {
            let message = format!(
                "session/load was answered without any {who}_message_chunk, although there were turns"
            );
            cx.breach(Rule::LoadWithoutReplay, Side::Agent, message).with(open.mark);
            return;
        }
        if !squeezed(replay).contains(&squeezed(live)) {
            let message = format!("the replayed {who} text does not contain what was said live");
            cx.breach(Rule::ReplayDiffers, Side::Agent, message).with(open.mark);
        }
    }
}

/// Text without white space: chunks may be joined and split anew.
fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}
