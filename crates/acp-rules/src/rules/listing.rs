//! session/list and session/delete.

use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use acp_proto::Side;

use crate::rule::Rule;
use crate::rules::content::is_iso_8601;
use crate::rules::paths::is_absolute;
use crate::state::{Ask, Open, State, remember};

/// How many sessions a page may have before it is worth a note.
const LONG_PAGE: usize = 1000;

/// session/list
pub(crate) fn list(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let side = Side::Client;
    cx.saw(Rule::ListUnadvertised, side);
    cx.saw_id("C-INIT-07");
    if !state.agent.list {
        let message = "session/list is called, but the agent did not advertise sessionCapabilities.list";
        cx.breach(Rule::ListUnadvertised, side, message).also(&["C-INIT-07"]).at("/method");
    }
    let cursor = params.some("cursor").and_then(Json::str);
    let mut odd_cursor = false;
    if let Some(cursor) = &cursor {
        cx.saw(Rule::ListCursorAccepted, side);
        cx.saw_id("C-SES-08");
        odd_cursor = !state.cursors.contains(&**cursor);
        if odd_cursor {
            let message = format!("the cursor {cursor:?} is not one that a page of session/list gave");
            cx.breach(Rule::ListCursorAccepted, side, message).at("/params/cursor");
        }
    } else {
        state.listed.clear();
    }
    let cwd = params.some("cwd").and_then(Json::str);
    Ask::List { cwd: cwd.map(Into::into), cursor: cursor.map(Into::into), odd_cursor }
}

/// The answer to session/list.
pub(crate) fn listed(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = Side::Agent;
    let Ask::List { cwd, cursor, odd_cursor } = &open.ask else { return };
    if *odd_cursor {
        cx.saw(Rule::ListCursorAccepted, side);
        if answer.is_good() {
            cx.breach(Rule::ListCursorAccepted, side, "a cursor that no page gave was accepted")
                .with(open.mark);
        }
        return;
    }
    let Answer::Good(result) = answer else { return };
    if cwd.is_none() && cursor.is_none() {
        cx.saw_id("SES-19");
    }
    let sessions = result.get("sessions");
    if sessions.is_some_and(|list| list.items().next().is_none()) {
        cx.saw_id("SES-17");
    }
    let mut count = 0;
    for (index, info) in sessions.into_iter().flat_map(Json::items).enumerate() {
        one(state, cx, open, cwd.as_deref(), info, index);
        count = index + 1;
    }
    cx.saw(Rule::LongPage, side);
    if count > LONG_PAGE {
        let message = format!("one page of session/list has {count} sessions");
        cx.breach(Rule::LongPage, side, message).at("/result/sessions").with(open.mark);
    }
    if let Some(next) = result.some("nextCursor").and_then(Json::str) {
        cx.saw(Rule::ListRepeats, side);
        if cursor.as_deref() == Some(&*next) {
            let message = format!("nextCursor {next:?} is the cursor that was sent: the list never ends");
            cx.breach(Rule::ListRepeats, side, message).at("/result/nextCursor").with(open.mark);
        }
        remember(&mut state.cursors, &next);
    } else if cursor.is_some() {
        cx.saw(Rule::ListRepeats, side);
    }
}

fn one(state: &mut State, cx: &mut Cx<'_>, open: &Open, filter: Option<&str>, info: Json<'_>, index: usize) {
    let side = Side::Agent;
    let pointer = |name: &str| format!("/result/sessions/{index}/{name}");
    let id = info.get_str("sessionId").unwrap_or_default();
    let cwd = info.get_str("cwd").unwrap_or_default();
    cx.saw(Rule::ListRelativeCwd, side);
    if !is_absolute(&cwd) {
        let message = format!("the listed session {id:?} has the cwd {cwd:?}, which is not absolute");
        cx.breach(Rule::ListRelativeCwd, side, message).at(pointer("cwd"));
    }
    if let Some(filter) = filter {
        cx.saw(Rule::ListFilterIgnored, side);
        if cwd != filter {
            let message =
                format!("the list was filtered by {filter:?}, but session {id:?} has the cwd {cwd:?}");
            cx.breach(Rule::ListFilterIgnored, side, message).at(pointer("cwd")).with(open.mark);
        }
    }
    if let Some(time) = info.some("updatedAt").and_then(Json::str) {
        cx.saw(Rule::BadTimestamp, side);
        if !is_iso_8601(&time) {
            cx.breach(Rule::BadTimestamp, side, format!("updatedAt {time:?} is not ISO 8601"))
                .at(pointer("updatedAt"));
        }
    }
    if let Some(roots) = info.some("additionalDirectories").filter(|list| list.items().next().is_some()) {
        cx.saw(Rule::ListExtraRoots, side);
        if !state.agent.roots {
            let message = "additionalDirectories are listed, but the agent did not advertise them";
            cx.breach(Rule::ListExtraRoots, side, message).at(pointer("additionalDirectories"));
        } else if roots.items().any(|path| path.str().is_some_and(|path| !is_absolute(&path))) {
            let message = "an additional directory in the list is not absolute";
            cx.breach(Rule::ListExtraRoots, side, message).at(pointer("additionalDirectories"));
        }
    }
    if !state.deleted.is_empty() {
        cx.saw(Rule::DeletedListed, side);
        if state.deleted.contains(&*id) {
            let message = format!("session {id:?} was deleted, but is listed");
            cx.breach(Rule::DeletedListed, side, message).at(pointer("sessionId"));
        }
    }
    cx.saw(Rule::ListRepeats, side);
    if state.listed.contains(&*id) {
        let message = format!("session {id:?} is listed twice");
        cx.breach(Rule::ListRepeats, side, message).at(pointer("sessionId"));
    }
    remember(&mut state.listed, &id);
}

/// session/delete
pub(crate) fn delete(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    cx.saw(Rule::DeleteUnadvertised, Side::Client);
    cx.saw_id("C-INIT-07");
    if !state.agent.delete {
        let message = "session/delete is called, but the agent did not advertise sessionCapabilities.delete";
        cx.breach(Rule::DeleteUnadvertised, Side::Client, message).also(&["C-INIT-07"]).at("/method");
    }
    let again = params.get_str("sessionId").is_some_and(|id| state.deleted.contains(&*id));
    Ask::Delete { again }
}

/// The answer to session/delete.
pub(crate) fn deleted(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let Ask::Delete { again } = open.ask else { return };
    let id = open.session.as_deref().unwrap_or_default();
    if again {
        cx.saw(Rule::DeleteAgainFails, Side::Agent);
        if !answer.is_good() {
            let message = format!("session {id:?} was deleted before, and deleting it again fails");
            cx.breach(Rule::DeleteAgainFails, Side::Agent, message).with(open.mark);
        }
    } else if answer.is_good() {
        remember(&mut state.deleted, id);
        if let Some(session) = state.session(id) {
            session.deleted = true;
        }
    }
}
